"""Files that are no files, and files of runs and tokenizers with more, or less, in them than there should be."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import headway as hw
from conftest import Outcome
from headway.config.errors import Problem
from headway.lab.mixture import Group, plan
from trained import SMALL, Trained

Headway = Callable[..., Outcome]
TEXTS = {
    "en": [f"a cat and {number} hats" for number in range(12)],
    "de": [f"die Katze und {number} Hunde" for number in range(12)],
}


@pytest.fixture
def pipe(own_folder: Path) -> Path:
    """Whoever opens it waits until somebody writes."""
    os.mkfifo("pipe.jsonl")
    return own_folder / "pipe.jsonl"


@pytest.mark.parametrize(
    "words",
    ["data PIPE", "mixture PIPE", "train classify data.train=PIPE", "beam --from PIPE", "tokenizer train PIPE --out t"],
)
def test_pipes_and_devices_are_not_read(words: str, pipe: Path, headway: Headway) -> None:
    for odd in (str(pipe), "/dev/zero"):
        outcome = headway(*words.replace("PIPE", odd).split())
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert odd in outcome.err


def test_pipes_in_folders_are_passed_over(pipe: Path, headway: Headway, trained: Trained) -> None:
    trained["letters"].export("gpt2", to="transformers")
    Path("gpt2/model.safetensors").unlink()
    os.mkfifo("gpt2/model.safetensors")
    assert "has no *.safetensors" in headway("import", "gpt2", "--out", "run").err
    for label in ("a", "b"):
        Path("texts", label).mkdir(parents=True)
        for number in range(20):
            Path("texts", label, f"{number}.txt").write_text(f"a text of {label} {number}")
    os.mkfifo("texts/urls_a.txt")
    assert headway("data", "texts").code == 0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "has no groups"),
        ({"../secret": ["en"]}, "'../secret' is no name of a group"),
        ({"": ["en"]}, "'' is no name of a group"),
        ({"Latin": "en"}, "expected {"),
    ],
)
def test_groups_of_tokenizers_are_plain_names(groups: object, message: str, own_folder: Path) -> None:
    hw.train_tokenizer(TEXTS, kind="byte", groups="script", out="tokenizers")
    shutil.copy("tokenizers/Latin.json", "secret.json")
    assert hw.report_tokenizer("tokenizers", TEXTS).vocabulary > 256
    Path("tokenizers/groups.json").write_text(json.dumps(groups))
    with pytest.raises(Problem, match=r"groups\.json") as error:
        hw.report_tokenizer("tokenizers", TEXTS)
    assert message in str(error.value)


def test_more_about_languages_than_is_known_is_passed_over(own_folder: Path) -> None:
    """As a later version may write it."""
    sentences = [{"text": text, "language": name} for name, own in TEXTS.items() for text in own]
    data = {"train": sentences, "language": "language", "window": 8, "validation": 0.3, "tokenizer": "char"}
    model = hw.train("language", data=data, model=SMALL, train={"steps": 1, "warmup": 0}, out="run")
    path = Path("run/languages.json")
    rows = json.loads(path.read_text())
    path.write_text(json.dumps({name: {**row, "spoken by": 5} for name, row in rows.items()}))
    assert hw.Run("run").evaluate() == model.run.evaluate()


@pytest.mark.parametrize("text", ["en = " + "[" * 5000, "en = " + "{a = " * 5000])
def test_a_deep_file_of_sizes_is_one_line(text: str, own_folder: Path, headway: Headway) -> None:
    Path("sizes.toml").write_text(text)
    outcome = headway("mixture", "sizes.toml")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "sizes.toml is not a file of sizes" in outcome.err


@pytest.mark.parametrize(
    ("sizes", "mixture", "budget", "message"),
    [
        ((1e308, 1e308), "uniform", None, "a training of inf"),
        ((5.0, 3.0), "uniform", float("inf"), "a training of inf"),
        ((1e308, 1e308), "proportional", 1.0, "proportional has no shares for sizes"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_sizes_that_nothing_can_be_divided_by(
    sizes: tuple[float, ...], mixture: str, budget: float | None, message: str
) -> None:
    with pytest.raises(Problem, match=message):
        plan([Group(str(size) + str(at), 1, size) for at, size in enumerate(sizes)], [mixture], budget)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hw.train_tokenizer(TEXTS, vocab_size=1 << 31), "2,147,483,648 tokens are too many"),
        (lambda: hw.train_tokenizer(TEXTS, min_count=1 << 40), "occurrences of each token are too many"),
        (lambda: hw.train_tokenizer({"en": [""]}, kind="unigram"), "'en' has no texts"),
        (lambda: hw.report_tokenizer(hw.train_tokenizer(TEXTS, kind="byte"), {"en": ["", ""]}), "'en' has no texts"),
        (lambda: hw.plan_mixture({"en": 10**400}), "is too large"),
    ],
)
def test_numbers_that_no_library_takes(call: Callable[[], object], message: str) -> None:
    """One aborts the process if it is asked for too many tokens."""
    with pytest.raises(Problem, match=message):
        call()


def test_a_size_of_hundreds_of_digits_is_one_line(own_folder: Path, headway: Headway) -> None:
    Path("sizes.toml").write_text(f"en = {10**400}")
    outcome = headway("mixture", "sizes.toml")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "is not a size above 0" in outcome.err
