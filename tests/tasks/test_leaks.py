"""Nothing leaks between parts: texts that a model reads alike are on one side of a split, or a note says that they are
not. Texts and labels are random, so that only a leak could be learned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway import recipes
from headway.data.splitting import reader

WORDS = ["film", "great", "bad", "actor", "plot", "slow", "fun", "dull", "warm", "cold", "bright", "dark"]
TWINS: dict[str, Callable[[str], str]] = {"a space at the end": lambda text: f"{text} ", "in capitals": str.upper}


@pytest.fixture(params=TWINS)
def texts(request: pytest.FixtureRequest) -> list[str]:
    """Each written twice."""
    random = np.random.default_rng(0)
    once = [" ".join(random.choice(WORDS, 8)) for _ in range(150)]
    return [each for text in once for each in (text, TWINS[request.param](text))]


def written(path: Path, texts: list[str]) -> Path:
    random = np.random.default_rng(1)
    rows = [
        {"text": text, "prompt": text, "answer": str(random.choice(WORDS)), "label": str(random.choice(["yes", "no"]))}
        for text in texts
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def split(task: str, path: Path, *overrides: str) -> Any:
    made = recipes.task(task, [f"data.train={path}", "data.validation=0.1", *overrides])
    made.prepare()
    return made


def plain(texts: list[str]) -> set[str]:
    return {" ".join(text.lower().split()) for text in texts}


def texts_in(part: Any, texts: list[str]) -> set[str]:
    """A part is a list of prompts, or a mask."""
    return plain([each.prompt for each in part] if isinstance(part, list) else [texts[n] for n in np.flatnonzero(part)])


@pytest.mark.parametrize("task", ["classify", "language", "pretrain", "sft", "translate"])
def test_texts_that_are_read_alike_are_on_one_side(task: str, texts: list[str], tmp_path: Path) -> None:
    columns = ["data.columns=text,label"] if task == "translate" else []
    made = split(task, written(tmp_path / "a.jsonl", texts), "data.test=0.1", *columns)
    parts = {use: texts_in(own, texts) for use, own in made.parts.items()}
    assert {use: len(own) for use, own in parts.items()} == {"train": 120, "validation": 15, "test": 15}
    assert not any("also in the training data" in note for note in made.splits().notes)


def test_what_the_steps_of_normalization_make_alike_is_read_alike(tmp_path: Path) -> None:
    """The steps that are set, and no others."""
    random = np.random.default_rng(0)
    once = [" ".join(random.choice(WORDS, 8)) for _ in range(150)]
    texts = [each for text in once for each in (text, text.translate(str.maketrans("aeo", "áéö")))]
    path = written(tmp_path / "a.jsonl", texts)
    parts = {
        steps: split("classify", path, "data.test=0.1", f"data.normalize={steps}").parts for steps in ("accents", "nfc")
    }
    shared = {steps: sum(own["test"][::2] != own["test"][1::2]) for steps, own in parts.items()}
    assert shared["accents"] == 0 < shared["nfc"]


def test_texts_of_signs_alone_are_not_all_the_same() -> None:
    read = reader("")
    assert read("?!") != read("...") == read(" ...  ")
    assert read("A b") == read("a, B!")


@pytest.mark.parametrize("task", ["language", "pretrain", "sft"])
def test_a_test_file_that_is_also_trained_on_is_noted(task: str, texts: list[str], tmp_path: Path) -> None:
    train = written(tmp_path / "train.jsonl", texts[::2])
    test = written(tmp_path / "test.jsonl", [*texts[1:21:2], "this is new"])
    made = split(task, train, f"data.test={test}")
    known = len(plain(texts[1:21:2]) & texts_in(made.parts["train"], texts[::2]))
    (note,) = (note for note in made.splits().notes if "also in the training data" in note)
    assert note.startswith(f"{known} ")
    assert note.endswith(" of the test data are also in the training data, but for case, punctuation and spaces")


def test_texts_that_are_alike_once_they_are_cut_are_noted(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    texts = [f"{' '.join(random.choice(WORDS[:3], 3))} and then {number}" for number in range(200)]
    path = written(tmp_path / "a.jsonl", texts)
    cut = split("classify", path, "data.test=0.1", "data.tokenizer=word", "data.max_length=3", "data.keep=head")
    notes = [note for note in cut.splits().notes if "also in the training data, as the model reads them" in note]
    assert [note.partition(" texts of the ")[2].split()[0] for note in notes] == ["validation", "test"]
    whole = split("classify", path, "data.test=0.1", "data.tokenizer=char")
    assert not any("also in" in note for note in whole.splits().notes)
