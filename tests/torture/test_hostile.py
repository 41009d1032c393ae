"""Nothing that somebody sends is executed, and nothing outside of it is written: runs, vectors, models, archives."""

import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

from conftest import Outcome, done
from headway import recipes
from headway.config.errors import Problem
from headway.config.settings import rows
from headway.runs.fit import start
from headway.tasks import TASKS
from torture.hostile import (
    CASES,
    EXTRAS,
    LINKS,
    PAYLOADS,
    linked,
    nothing_executed,
    pickling_parquet,
    unfinished,
)
from torture.hostile_models import ALLOWED, FILES, REFUSED
from trained import Trained

Headway = Callable[..., Outcome]
SECONDS, MEMORY = 2.0, 400 << 20


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = ["data.length=4", "data.examples=40", "data.tests=20", "model.layers=1", "model.width=8", "model.heads=2"]
    return done(
        start(recipes.load("parity", [*small, "train.steps=2"]), tmp_path_factory.mktemp("runs") / "run")
    ).run.folder


@pytest.fixture
def run(sound: Path, own_folder: Path) -> Iterator[Path]:
    """A copy of it, beside what must not be touched; what takes too long is stopped."""
    shutil.copytree(sound, own_folder / "run")
    (own_folder / "canary-file").write_text("precious")
    hidden = own_folder / "canary-folder" / ".ssh"
    hidden.mkdir(parents=True)
    (hidden / "key").write_text("precious")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()

    def late(*_: object) -> None:
        raise AssertionError("it hangs")

    usual = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    with nothing_executed():
        yield Path("run")
    in_time = signal.alarm(0) > 0
    signal.signal(signal.SIGALRM, usual)
    assert (own_folder / "canary-file").read_text() == (hidden / "key").read_text() == "precious"
    assert list((own_folder / "canary-folder").iterdir()) == [hidden]
    assert process_time() - began < SECONDS or not in_time
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY >> 10


def refused(headway: Headway, *words: str) -> None:
    outcome = headway(*words)
    assert outcome.code == 2, outcome
    assert outcome.err.count("\n") == 1
    assert len(outcome.err) < 1000
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_run_is_refused(case: str, run: Path, headway: Headway) -> None:
    CASES[case](run)
    refused(headway, *(("predict", "run", "0110") if (run / "results.json").exists() else ("resume", "run")))


@pytest.mark.parametrize("name", LINKS)
def test_training_writes_through_no_link(name: str, run: Path, headway: Headway) -> None:
    linked(run, name, LINKS[name])
    refused(headway, "resume", "run")


@pytest.mark.parametrize("case", EXTRAS)
def test_other_files_in_a_run_are_not_read(case: str, run: Path, headway: Headway) -> None:
    EXTRAS[case](run)
    assert headway("evaluate", "run").code == 0
    unfinished(run)
    assert headway("resume", "run").code in (0, 2)


def test_no_setting_names_code(run: Path) -> None:
    """Whatever can be set, the settings to come included; those of model and training are the same for all tasks."""
    named = {recipes.kind_of(name): name for name in recipes.names()}
    for task, name in named.items():
        texts = [row.key for row in rows(recipes.load(name)) if not isinstance(row.value, bool | int | float)]
        assert len(texts) > 20
        for number, key in enumerate(texts):
            setting = f"{key}={PAYLOADS[number % len(PAYLOADS)]}"
            with suppress(Problem):
                if task is TASKS["parity"]:
                    recipes.task(name, [setting])
                elif key.startswith("data."):
                    task(recipes.load(name, [setting], resolved=True))
    assert named.keys() == set(TASKS.values())


@pytest.mark.parametrize("name", FILES)
def test_hostile_vectors_and_data_are_refused(name: str, run: Path, headway: Headway) -> None:
    path, content = Path(FILES[name][0]), FILES[name][1]
    path.write_bytes(content)
    refused(headway, "vectors", "nearest", str(path), "word")
    refused(headway, "evaluate", "run", "--data", str(path))


def test_a_column_that_wants_to_be_unpickled_is_not(run: Path, headway: Headway) -> None:
    pickling_parquet(Path("texts.parquet"))
    refused(headway, "evaluate", "run", "--data", "texts.parquet")
    assert headway("data", "texts.parquet").code == 0


@pytest.fixture(scope="module")
def gpt2(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the transformers library, as its users share them."""
    return trained["letters"].export(tmp_path_factory.mktemp("models") / "gpt2", to="transformers").folder


@pytest.mark.parametrize("case", [*ALLOWED, *REFUSED])
def test_a_hostile_model_executes_nothing(case: str, gpt2: Path, run: Path, headway: Headway) -> None:
    shutil.copytree(gpt2, "theirs")
    (ALLOWED | REFUSED)[case](Path("theirs"))
    if case in ALLOWED:
        outcome = headway("import", "theirs", "--out", "imported")
        assert outcome.code == 0, outcome.err
    else:
        refused(headway, "import", "theirs", "--out", "imported")
        assert not Path("imported").exists()
