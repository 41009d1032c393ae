"""Makes the tables of the reference from the code, so that they cannot be stale: in a page, ``{{ recipes }}`` is one.

It is a hook of mkdocs, and an extension of griffe, which reads docstrings.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import griffe
from latex2mathml.converter import convert

from headway import recipes
from headway.api.overview import list_recipes
from headway.cli import SECTIONS
from headway.config.recipe import ModelSpec, TrainSpec
from headway.config.settings import Row, rows
from headway.tasks import TASKS

GIVEN = {  # what a part gets from the rest of the recipe is no option of it
    *("width", "heads", "head_width", "hidden", "vocabulary", "embedding", "layers", "stack", "sublayer", "norm"),
    *("bias", "step", "number", "warmup", "steps", "prompts", "answers", "targets", "predicted", "weight_decay"),
    *("kv_heads", "qk_norm", "attention_function", "query", "key", "mask", "args", "kwargs", "model", "learning_rate"),
    *("rewards", "values", "real", "texts", "core", "least_count", "self"),
}


def table(columns: list[str], lines: Iterator[list[str]] | list[list[str]]) -> str:
    cells = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def recipe_table() -> str:
    listed = sorted(list_recipes(), key=lambda each: (each.task, each.name))
    return table(["recipe", "task", "what it does"], [[f"`{each.name}`", each.task, each.about] for each in listed])


def setting_lines(settings: list[Row], tables: Mapping[str, Any]) -> list[list[str]]:
    lines = []
    for row in settings:
        choices = ", ".join(f"`{choice}`" for choice in row.choices or tables.get(row.key) or ())
        value = (
            "none" if row.value is None else str(row.value).lower() if isinstance(row.value, bool) else str(row.value)
        )
        lines.append([f"`{row.key}`", f"`{value}`" if value else "", row.about + (f": {choices}" if choices else "")])
    return lines


def model_settings() -> str:
    return table(["setting", "default", "meaning"], setting_lines(list(rows(ModelSpec(), "model.")), recipes.TABLES))


def train_settings() -> str:
    return table(["setting", "default", "meaning"], setting_lines(list(rows(TrainSpec(), "train.")), recipes.TABLES))


def data_settings() -> str:
    parts = []
    for name, task in sorted(TASKS.items()):
        about = (inspect.getdoc(inspect.getmodule(task)) or "").partition("\n\n")[0].replace("\n", " ")
        lines = setting_lines(list(rows(task.settings(), "data.")), {**recipes.TABLES, **task.tables})
        parts.append(f"## {name}\n\n{about}\n\n{table(['setting', 'default', 'meaning'], lines)}")
    return "\n\n".join(parts)


def part_tables() -> str:
    """Every setting that chooses a part, with the options of each part and the first sentence about it."""
    known = {**{key: entries for key, entries in recipes.TABLES.items() if key != "task"}}
    for task in TASKS.values():
        known |= {key: known.get(key, {}) | dict(entries) for key, entries in task.tables.items()}
    parts = []
    order = ("model", "train", "data")
    for key, entries in sorted(known.items(), key=lambda item: (order.index(item[0].partition(".")[0]), item[0])):
        lines = [[f"`{name}`", options_of(entry, key), about(entry, name)] for name, entry in entries.items()]
        parts.append(f"## {key}\n\n{table(['name', 'options', 'what it is'], lines)}")
    return "\n\n".join(parts)


def options_of(entry: Any, key: str) -> str:
    """``base=10000.0``: the parameters that a recipe can set, with their defaults."""
    given = GIVEN - {"hidden"} | {"size"} if key.startswith("data.") else GIVEN
    given = given if key == "model.feedforward" else given | {"dropout"}
    options = [each for each in inspect.signature(entry).parameters.values() if each.name not in given]
    shown = [each.name + ("" if each.default is inspect.Parameter.empty else f"={each.default}") for each in options]
    return ", ".join(f"`{option}`" for option in shown)


def about(entry: Any, name: str) -> str:
    """The line about an entry in the docstring of its module, or else the first paragraph of its own."""
    listed = re.search(rf"^- {name}: (.*?)(?=\n- |\n\n|\Z)", module_text(entry), re.MULTILINE | re.DOTALL)
    text = listed[1] if listed else (entry.__doc__ or "").strip().partition("\n\n")[0]
    text = "" if text.startswith(f"{getattr(entry, '__name__', '')}(") else " ".join(text.split())  # a bare dataclass
    return re.sub(r"(https://\S+?)([).,;]*(?:\s|$))", r"<\1>\2", text)


def module_text(entry: Any) -> str:
    module = inspect.getmodule(entry)
    return (inspect.getdoc(module) or "") if module is not None and module.__name__.startswith("headway") else ""


def verb_pages() -> str:
    return "\n\n".join(f"## {title}\n\n" + "\n\n".join(map(verb_page, verbs)) for title, verbs in SECTIONS.items())


def verb_page(verb: click.Command, parents: str = "headway", level: int = 3) -> str:
    name = f"{parents} {verb.name}"
    context = click.Context(verb, info_name=name)
    text = inspect.cleandoc(verb.help or "")
    prose, _, examples = text.partition("\b\n")
    shown = [line.strip() for line in examples.splitlines() if line.strip().startswith("headway")]
    parts = [f"{'#' * level} {name} {{ #{name.replace(' ', '-')} }}", " ".join(prose.split())]
    parts.append(f"```text\n{' '.join([name, *verb.collect_usage_pieces(context)])}\n```")
    options = [param for param in verb.params if isinstance(param, click.Option)]
    if options:
        parts.append(table(["option", "meaning"], [option_line(option, context) for option in options]))
    if shown:
        parts.append("```console\n" + "\n".join(f"$ {line}" for line in shown) + "\n```")
    if isinstance(verb, click.Group):
        parts += [verb_page(each, name, level + 1) for each in verb.commands.values()]
    return "\n\n".join(parts)


def option_line(option: click.Option, context: click.Context) -> list[str]:
    names, text = option.get_help_record(context) or ("", "")
    return [f"`{names}`", text]


TABLES: dict[str, Callable[[], str]] = {
    "recipes": recipe_table,
    "model settings": model_settings,
    "train settings": train_settings,
    "data settings": data_settings,
    "parts": part_tables,
    "verbs": verb_pages,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this for every page. Formulas become MathML, which browsers draw by themselves."""
    markdown = re.sub(r"\{\{ ([a-z ]+) \}\}", lambda match: TABLES[match[1]](), markdown)
    return re.sub(r"^\$\$(.+?)\$\$$", lambda match: formula(match[1]), markdown, flags=re.MULTILINE)


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Pages that are opened from the disk can read the index of the search only as a script."""
    folder = Path(config["site_dir"]) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")


def formula(text: str) -> str:
    return f'<div class="formula">{convert(text, display="block")}</div>'


class Examples(griffe.Extension):
    """Examples stand in docstrings as they are typed; the page shows them as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        docstring = obj.docstring
        if docstring is not None and ">>> " in docstring.value:
            docstring.value = with_section(docstring.value)


def with_section(text: str) -> str:
    """Indent the examples of a docstring under a heading, at its end."""
    prose: list[str] = []
    examples: list[str] = []
    inside = False
    for line in inspect.cleandoc(text).splitlines():
        inside = line.startswith(">>> ") or (inside and bool(line.strip()))
        (examples if inside else prose).append(line)
    return "\n".join([*prose, "", "Examples:", *(f"    {line}" for line in examples)])
