"""What the README and the docs say can be done: Python is run, commands are parsed, recipes and settings looked up."""

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from headway import recipes
from headway.cli import app
from headway.lab.compare import variants

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text()) if kind == language]


def commands() -> Iterator[str]:
    """Every ``headway ...`` and ``make ...`` of a console block, and of single backticks in the text."""
    for page in PAGES:
        text = page.read_text()
        shown = [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
        named = re.findall(r"`((?:headway|make) [^`]+)`", FENCE.sub("", text))
        for command in [line.removeprefix("$ ") for line in shown] + named:
            if command.startswith(("headway ", "make ")):
                yield command


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_in_the_docs_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(recipes.TABLES["model.feedforward"], "square", None)  # what a page adds is gone afterwards
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_recipes_in_the_docs_are_recipes(tmp_path: Path) -> None:
    shown = [block for page in PAGES for block in blocks(page, "toml")]
    assert shown
    for number, block in enumerate(shown):
        path = tmp_path / f"{number}.toml"
        path.write_text(block)
        recipes.load(path)


def verb_of(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """A verb may have verbs of its own, such as ``headway vectors train``."""
    command: click.Command = app
    name = ""
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        assert name in command.commands, name
        command = command.commands[name]
    return command, name, words


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_in_the_docs_exist(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *words = shlex.split(command, comments=True)
    monkeypatch.chdir(tmp_path)
    for word in words:
        if re.fullmatch(r"[\w-]+\.(txt|csv|jsonl)", word):  # some verbs want their files to be there
            Path(word).touch()
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    verb, name, words = verb_of(words)
    if not words or words == ["--help"]:
        return
    parsed = verb.make_context(name, words).params
    recipe = str(parsed.get("recipe") or parsed.get("name") or "")
    named, settings = [recipe], list(parsed.get("settings") or ())
    if name == "compare":
        named = [word for word in parsed["words"] if "=" not in word]
        settings = [word for word in parsed["words"] if "=" in word]
    if verb is app.commands["pretrain"]:
        named = ["pretrain"]
    if verb is not app.commands["train"] and name == "train":
        named = ["vectors"]
    settings = [word for word in settings if not word.startswith(("start=", "reward."))]  # there is no such run here
    for recipe in named:
        if recipe in ("", "RECIPE", "RUN") or recipe.startswith("runs/") or recipe.endswith(".toml"):
            continue
        for variant in variants(parsed.get("vary") or ()):
            recipes.load(recipe, [*settings, *variant.overrides])


PARTS = re.findall(r"^\| `(model\.\w+)`[^|]*\| (.*) \|$", (ROOT / "docs" / "parts.md").read_text(), re.MULTILINE)


def test_the_lists_of_parts_are_those_that_there_are() -> None:
    """Each entry of each table, with the options that a recipe can set."""
    assert {key for key, _ in PARTS} == {key for key in recipes.TABLES if key.startswith("model.")} - {"model.qk_norm"}
    for key, listed in PARTS:
        assert listed == ", ".join(described(key, name, entry) for name, entry in recipes.TABLES[key].items()), key


SURROUNDINGS = {  # what a part gets from the rest of the recipe is no option of it
    *("width", "heads", "head_width", "hidden", "vocabulary", "embedding", "layers", "stack"),
    *("sublayer", "norm", "bias"),
    *("kv_heads", "qk_norm", "attention_function", "query", "key", "mask", "args", "kwargs"),
}


def described(key: str, name: str, entry: Any) -> str:
    """``rotary(base=10000.0)``."""
    given = SURROUNDINGS if key == "model.feedforward" else SURROUNDINGS | {"dropout"}
    parameters = inspect.signature(entry).parameters.values()
    options = [each for each in parameters if each.name not in given]
    defaults = [f"{each.name}={'' if each.default is inspect.Parameter.empty else each.default}" for each in options]
    return f"{name}({', '.join(each.rstrip('=') for each in defaults)})" if options else name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_tree_of_folders_in_the_readme_is_the_tree_there_is() -> None:
    (tree,) = (block for block in blocks(ROOT / "README.md", "text") if "src/headway" in block)
    named = set(re.findall(r"^ {2}(\w+(?:\.py|/))", tree, re.MULTILINE))
    source = ROOT / "src" / "headway"
    there = {f"{path.name}/" for path in source.iterdir() if path.is_dir() and path.name != "__pycache__"}
    there |= {path.name for path in source.glob("*.py") if not path.name.startswith("__")}
    assert named == there
