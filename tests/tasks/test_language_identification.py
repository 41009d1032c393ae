"""Which language is a text in: the recipes, on generated and on a user's own texts."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

import headway as hw
from conftest import Outcome
from headway.data.examples import Reading, examples
from headway.data.generated import LANGUAGES, LISTS, generated
from headway.lab.confusions import MOST_CLASSES, most_confused, plot_confusions
from headway.metrics.classification import METRICS, Predictions, report
from headway.text.spelling import read

Headway = Callable[..., Outcome]
QUICK = ["model.width=16", "train.threads=1"]


def test_the_generated_texts_are_numbers_in_every_language() -> None:
    path = generated("numbers")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == LISTS * len(LANGUAGES)
    assert {row["language"] for row in rows} == set(LANGUAGES)
    assert all(read(row["language"], each) is not None for row in rows for each in row["text"].split(", "))
    assert next(examples(path, Reading())).label == rows[0]["language"]  # a column of labels by its usual name


def test_made_numbers_are_told_apart(headway: Headway) -> None:
    outcome = headway("train", "languages", "--json", "--out", "run", *QUICK, "model.width=32", "train.epochs=3")
    assert outcome.code == 0
    scores = json.loads(outcome.out)["test"]["test"]
    assert scores["balanced_accuracy"] > 0.8
    assert scores["accuracy"] != scores["balanced_accuracy"]
    outcome = headway("evaluate", "run", "--picture", "confusions.svg")
    assert "most often mixed up" in outcome.out
    assert Path("confusions.svg").read_text().count("<svg") == 1
    said = json.loads(
        headway("predict", "run", "ninety thousand three hundred", "девяносто", "fünfundneunzigtausend", "--json").out
    )
    assert [each["label"] for each in said] == ["en", "ru", "de"]


def test_hundreds_of_languages_of_a_file_are_told_apart(headway: Headway, tmp_path: Path) -> None:
    """Each has letters of its own; a paragraph is held out in all of them."""
    random = np.random.default_rng(0)
    rows = [
        {"text": "".join(chr(0x4E00 + 10 * name + each) for each in random.integers(10, size=30)), "lang": f"x{name}"}
        | {"paragraph": paragraph}
        for name in range(MOST_CLASSES + 5)
        for paragraph in range(20)
    ]
    Path("texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ["data.train=texts.jsonl", "data.group=paragraph", *QUICK, "train.epochs=5", "train.batch_size=16"]
    assert headway("train", "languages-many", *settings, "--out", "run").code == 0
    test = hw.load("run").run.task.splits().test["test"]
    counts = np.bincount(test.labels)
    assert len(set(counts.tolist())) == 1  # the same paragraphs of every language
    shown = headway("evaluate", "run").out
    assert f"classes, the {MOST_CLASSES} of {MOST_CLASSES + 5} with the lowest F1 (all: --json)" in shown


def test_a_mean_over_classes_is_that_of_scikit_learn() -> None:
    targets, said = list("aaaabbc"), list("aaabbac")
    assert METRICS["balanced_accuracy"](targets, said) == pytest.approx(balanced_accuracy_score(targets, said))
    assert METRICS["balanced_accuracy"](targets, said) == pytest.approx((3 / 4 + 1 / 2 + 1) / 3)


def confused(*pairs: tuple[int, int], classes: int) -> dict[str, object]:
    targets, said = np.array([*pairs, *((each, each) for each in range(classes))]).T
    return report(Predictions(targets, said, np.ones(len(targets))), [f"x{each}" for each in range(classes)])


def test_classes_that_are_mistaken_for_each_other_are_drawn_side_by_side(tmp_path: Path) -> None:
    details = confused((0, 40), (40, 0), (7, 22), classes=50)
    chosen = most_confused(np.array(details["confusion"])).tolist()
    assert len(chosen) == MOST_CLASSES
    assert abs(chosen.index(0) - chosen.index(40)) == 1
    assert abs(chosen.index(7) - chosen.index(22)) == 1
    axes = plot_confusions({"test": details}).axes[0, 0]
    assert "the 30 of 50 classes that are confused most" in axes.get_title()
    assert len(axes.texts) == MOST_CLASSES + 3
    assert most_confused(np.eye(4, dtype=int)).tolist() == [0, 1, 2, 3]  # nothing is confused: as they are


def test_other_evaluations_cannot_be_plotted(headway: Headway) -> None:
    assert headway("train", "language", "data.name=numbers", *QUICK, "train.steps=1", "--out", "run").code == 0
    outcome = headway("evaluate", "run", "--picture", "a.png")
    assert outcome.code == 2
    assert outcome.err.endswith("only evaluations of classifiers, reward models and translators can be plotted\n")
