"""What the README and the docs say can be done: Python is run, commands are parsed, recipes and settings looked up."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import recipes
from headway.cli import app
from headway.lab.variants import variants

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


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_in_the_docs_exist(command: str) -> None:
    program, verb, *words = shlex.split(command, comments=True)
    if program == "make":
        assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    assert verb in app.commands
    if not words:
        return
    parsed = app.commands[verb].make_context(verb, words).params
    name = str(parsed.get("recipe") or parsed.get("name") or "")
    named, settings = [name], list(parsed.get("settings") or ())
    if verb == "compare":
        named = [word for word in parsed["words"] if "=" not in word]
        settings = [word for word in parsed["words"] if "=" in word]
    if verb == "pretrain":
        named = ["pretrain"]
    settings = [word for word in settings if not word.startswith(("start=", "reward."))]  # there is no such run here
    for name in named:
        if name in ("", "RECIPE", "RUN") or name.startswith("runs/") or name.endswith(".toml"):
            continue
        for variant in variants(parsed.get("vary") or ()):
            recipes.load(name, [*settings, *variant.words])


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
