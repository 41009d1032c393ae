"""What came from a file, a model or a user cannot steer the terminal, wherever it is printed."""

import ast
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import SMALL, Outcome
from headway import cli
from headway.config.errors import UNPRINTABLE, Problem, visible
from headway.metrics.table import Table
from headway.metrics.terminal import Console

Headway = Callable[..., Outcome]
EVIL = "\x1b[31m\x9b2J\u202e\x7f[red]:bomb:"
SHOWN = r"\x1b[31m\x9b2J\u202e\x7f[red]:bomb:"
FEW = ["train.steps=2", "train.warmup=0", "train.evaluate_every=1", "model.layers=1", "model.width=8", "model.heads=2"]


@pytest.fixture
def clean(headway: Headway) -> Headway:
    """Run a verb; what it printed has nothing that a terminal obeys."""

    def run(*words: str) -> Outcome:
        outcome = headway(*words)
        assert not UNPRINTABLE.search((outcome.out + outcome.err).replace("\n", "").replace("\t", ""))
        return outcome

    return run


def write_reviews(path: Path) -> Path:
    rows = [(f"a film of {number} {EVIL}", f"{EVIL}{number % 2}") for number in range(40)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([(f"text{EVIL}", f"label{EVIL}"), *rows])
    return path


def test_labels_columns_and_file_names_of_a_classifier(clean: Headway, tmp_path: Path) -> None:
    path = write_reviews(tmp_path / f"{EVIL}.csv")
    columns = [f"data.text=text{EVIL}", f"data.label=label{EVIL}"]
    run = f"runs/{EVIL}"
    assert SHOWN in clean("data", str(path), *columns).out
    assert SHOWN in clean("data", str(path), "data.text=other").err
    assert SHOWN in clean("train", "classify", f"data.train={path}", *columns, "data.test=0.2", *FEW, "--out", run).out
    assert SHOWN in clean("evaluate", run).out
    assert SHOWN in clean("predict", run, EVIL).out
    assert json.loads(clean("predict", run, EVIL, "--json").out)[0]["label"].startswith(EVIL)
    assert SHOWN in clean("show", run).out
    assert SHOWN in clean("runs").out
    assert SHOWN in clean("explain", run, f"a film {EVIL}").out
    results = Path(run, "results.json")
    results.write_text(json.dumps(json.loads(results.read_text()) | {"ended": EVIL}))
    clean("resume", run)


@pytest.mark.parametrize(
    "words",
    [
        [EVIL],
        ["train", EVIL],
        ["train", "parity", f"model.{EVIL}=1"],
        ["train", "parity", f"model.width={EVIL}"],
        ["train", "parity", f"model.position={EVIL}"],
        ["train", "parity", f"--{EVIL}"],
        ["show", f"{EVIL}.toml"],
        ["evaluate", EVIL],
        ["import", f"./{EVIL}"],
        ["vectors", "nearest", EVIL, "word"],
        ["runs", EVIL],
        ["ngrams", EVIL],
        ["compare", "parity", "--vary", EVIL],
        ["data", "\udcff\x1b.csv"],
        ["train", "classify", "data.train=\udcff\x1b.csv"],
    ],
)
def test_what_was_typed(words: list[str], clean: Headway) -> None:
    outcome = clean(*words)
    assert r"\x1b" in outcome.out + outcome.err


def test_the_name_of_a_recipe(clean: Headway, tmp_path: Path) -> None:
    text = f'task = "parity"\nname = {json.dumps(EVIL)}\nabout = {json.dumps(EVIL)}\n'
    (tmp_path / "mine.toml").write_text(text.replace("\x7f", "\\u007f"))
    assert SHOWN in clean("recipes", "mine.toml").out
    assert f"runs/{SHOWN}-1" in clean("train", "mine.toml", *FEW, "data.examples=100", "data.tests=10").out


def test_generated_text_is_visible_and_exact_in_json(clean: Headway, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\x1b[2J\u202e\n" * 300)
    files = ["data.train=text.txt", "data.validation=0.2", "data.tokenizer=char", "data.window=8"]
    assert clean("train", "language", *files, *SMALL, "train.steps=20", "--out", "run").code == 0
    options = ["generate", "run", "\x1b", "--max-new-tokens", "30"]
    assert r"\x1b" in clean(*options).out
    assert "\x1b" in json.loads(clean(*options, "--json").out)[0]["text"]


def test_every_character_that_a_terminal_obeys_is_visible() -> None:
    assert visible("a\tb\nc\r\x00\x85\u200f\ud800é☃") == "a\tb\nc\\x0d\\x00\\x85\\u200f\\ud800é☃"
    assert str(Problem(EVIL)) == SHOWN
    assert str(Table([EVIL], [[EVIL]])).splitlines() == [SHOWN, SHOWN]
    assert EVIL not in Table([EVIL], [[EVIL]])._repr_html_()


def test_warnings_of_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    def usual(message: str, category: type[Warning], *where: object) -> None:
        print(message)

    cli.show_warning(usual, UserWarning(EVIL), UserWarning, "file", 1)
    cli.show_warning(usual, RuntimeWarning("overflow in exp"), RuntimeWarning, "file", 1)  # numpy's are for developers
    assert capsys.readouterr().out == f"{SHOWN}\n"


def test_a_console_prints_text_and_keeps_its_colours() -> None:
    console = Console(width=100)
    console.file, console._color_system = io.StringIO(), None
    console.print(EVIL)
    assert console.file.getvalue() == f"{SHOWN}\n"


def test_nothing_else_prints() -> None:
    """`echo` and the console are the only ways out; JSON, which escapes by itself, is the exception."""
    files = sorted(Path(cli.__file__).parent.glob("*.py"))
    calls = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text()))]
    named = [f"{path.name}: {ast.unparse(node.func)}" for path, node in calls if isinstance(node, ast.Call)]
    printing = [name for name in named if name.endswith((": print", ": click.echo", ": click.secho"))]
    assert printing == ["render.py: click.secho", "render.py: click.echo"]
