"""What the README and the docs say can be done: Python is run, commands are parsed, recipes and settings looked up."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import headway as headway_package
from conftest import Outcome, write_pairs, write_reviews, write_texts
from headway import recipes
from headway.cli import app
from headway.config.recipe import Recipe
from headway.config.settings import rows
from headway.lab.compare import variants
from headway.tasks import TASKS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language; ``python { .no-run }`` is another one than ``python``."""
    found = FENCE.findall(page.read_text())
    return [textwrap.dedent(text) for _, kind, text in found if kind.strip() == language]


def load_generate() -> Any:
    """The script that makes the reference, which is no part of the package."""
    place = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


generate = load_generate()


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands() -> Iterator[str]:
    """Every ``headway ...`` and ``make ...`` of a console block, and of single backticks in the text."""
    for page in PAGES:
        text = page.read_text()
        shown = [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
        named = re.findall(r"`((?:headway|make) [^`]+)`", FENCE.sub("", text))
        for command in [line.removeprefix("$ ") for line in shown] + named:
            if command.startswith(("headway ", "make ")):
                yield command


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name_of)
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


def test_sizes_in_the_docs_are_sizes(tmp_path: Path) -> None:
    shown = [block for page in PAGES for block in blocks(page, "toml { .sizes }")]
    assert shown
    for number, block in enumerate(shown):
        path = tmp_path / f"{number}.toml"
        path.write_text(block)
        assert headway_package.plan_mixture(path).shares


OF_A_RUN = ("start=", "data.replay=", "data.extend_vocabulary=", "reward.")


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
    if words[0] == "VERB":
        return
    verb, name, words = verb_of(words)
    if not words or words == ["--help"]:
        return
    parsed = verb.make_context(name, words).params
    recipe = str(parsed.get("recipe") or parsed.get("name") or "")
    named, settings = [recipe], list(parsed.get("settings") or ())
    if verb is app.commands["compare"]:
        named = [word for word in parsed["words"] if "=" not in word]
        settings = [word for word in parsed["words"] if "=" in word]
    if verb is app.commands["pretrain"]:
        named = ["pretrain"]
    if verb is not app.commands["train"] and name == "train":
        named = ["vectors"]
    settings = [word for word in settings if not word.startswith(OF_A_RUN)]  # there is no such run here
    for recipe in named:
        if recipe in ("", "RECIPE", "RUN", "NAME") or recipe.startswith("runs/") or recipe.endswith(".toml"):
            continue
        for variant in variants(parsed.get("vary") or ()):
            recipes.load(recipe, [*settings, *variant.overrides])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_commands_of_the_readme_run(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    """In their order, on small files of the names that they have there; a few steps show that they train."""
    write_reviews(tmp_path / "reviews.csv")
    texts = sorted(write_texts(tmp_path / "texts").iterdir())
    (tmp_path / "novels.txt").write_text("".join(file.read_text() for file in texts))
    for path, name in zip(write_pairs(tmp_path), ("train.en", "train.de"), strict=True):
        path.rename(tmp_path / name)
    lines = [line for block in blocks(ROOT / "README.md", "console") for line in block.splitlines()]
    programs = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    assert {program for program, *_ in programs} == {"headway", "make"}
    for program, *words in programs:
        if program == "headway":
            outcome = headway(*words, *(["train.steps=10", "train.epochs=none"] if words[0] == "train" else []))
            assert (outcome.code, outcome.err) == (0, ""), words


def test_the_site_builds_without_a_warning_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))  # and a page for what does not exist
    assert (tmp_path / "site" / "search" / "search_index.js").read_text().startswith("var __index = {")
    for page in pages:
        text = page.read_text()
        assert "search.js" in text  # which searches without a server, too
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]* src=\"?(https?:[^\" >]+)", text)
        loaded += re.findall(r"<link[^>]* rel=\"?(?:stylesheet|preconnect|icon)[^>]* href=\"?(https?:[^\" >]+)", text)
        assert loaded == [], page.name
        assert "{{ " not in text


def test_every_setting_verb_recipe_and_part_is_in_the_reference() -> None:
    pages = "".join(make() for make in generate.TABLES.values())
    settings = {row.key for task in TASKS.values() for row in rows(Recipe(data=task.settings())) if "." in row.key}
    assert {key for key in settings if f"`{key}`" not in pages} == set()
    assert {name for name in recipes.names() if f"`{name}`" not in pages} == set()
    assert {name for name in app.commands if f"### headway {name} " not in pages} == set()
    for key, table in recipes.TABLES.items():
        assert key == "task" or all(f"| `{name}` |" in pages for name in table), key


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "api.md").read_text()
    named = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert set(headway_package.__all__) - {"__version__"} <= named
