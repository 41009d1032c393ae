"""Uses of a pre-trained run: examples in a prompt, by hand, and the whole path from texts to a table."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Outcome, write_reviews, write_texts
from headway import recipes
from headway.config.errors import Problem
from headway.data.samplers import in_turns
from headway.data.sequences import LabelledSequences
from headway.lab.adapt import IN_CONTEXT, TUNING, Adaptation, Point, balanced
from headway.lab.in_context import BEFORE, BEHIND, PromptedClassifier, Shots
from headway.lab.plot import Picture
from headway.runs.fit import start
from headway.runs.run import Run

Headway = Callable[..., Outcome]
SMALL = ["data.vocab_size=320", "data.window=64", "data.validation=0.2", "model.width=16", "model.layers=1"]
SHORT = ["train.steps=6", "train.warmup=2", "train.evaluate_every=6"]
KINDS = {"masked": "pretrain", "causal": "pretrain", "prefix": "pretrain", "language": "language", "span": "pretrain"}


def trained(kind: str, folder: Path) -> Run:
    words = [*SMALL, *SHORT, f"data.train={write_texts(folder / 'texts')}"]
    if KINDS[kind] == "pretrain":
        words += [f"data.objective={kind}", "train.batch_tokens=128"]
    fit = start(recipes.load(KINDS[kind], words), folder / kind)
    list(fit.steps())
    return fit.run


@pytest.mark.parametrize("kind", ["masked", "causal", "prefix", "language"])
def test_the_likelihood_of_a_label_by_hand(kind: str, tmp_path: Path) -> None:
    """One text at a time, a token at a time, with no packing."""
    run = trained(kind, tmp_path)
    asked = PromptedClassifier(run, ["negative", "positive"])
    encode: Any = run.task.tokenizer.encode  # type: ignore[attr-defined]
    texts = [each.tolist() for each in encode(["the plot was dull .", "i did really enjoy the music ."])]
    shots = Shots([encode(["the cast was fine ."])[0].tolist()], [1])
    found = asked.likelihoods(texts, shots, room=5)
    for text, row in zip(texts, found.tolist(), strict=True):
        before, behind, shown = (each.tolist() for each in encode([BEFORE, BEHIND, " positive"]))
        prompt = [*shots.texts[0][:5], *before, *shown, *behind, *text[:5], *before]
        for label, value in zip(["negative", "positive"], row, strict=True):
            name = encode([f" {label}"])[0].tolist()
            assert value == pytest.approx(by_hand(run, prompt, name), abs=1e-4)


def by_hand(run: Run, prompt: list[int], name: list[int]) -> float:
    model: Any = run.model().double()
    total = 0.0
    for place, token in enumerate(name):
        if hasattr(model, "encoder"):
            mask = run.task.special.mask  # type: ignore[attr-defined]
            states = model.encoder(torch.tensor([prompt + [mask] * len(name)]))[0, len(prompt) + place]
            scores = model.head(states)
        else:
            scores = model(torch.tensor([prompt + name[:place]]))[0, -1]
        total += math.log(scores.softmax(dim=-1)[token].item())
    return total


def test_no_label_is_preferred_for_its_own_sake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a text changes nothing, what is left after no text is subtracted is nothing: the first label of equals."""
    asked = PromptedClassifier(trained("masked", tmp_path), ["negative", "positive"])
    constant = torch.tensor([[0.0, 5.0]])
    monkeypatch.setattr(asked, "likelihoods", lambda texts, shots, room: constant.expand(len(texts), 2))
    data = LabelledSequences.of([np.arange(3), np.arange(4)], [0, 1])
    assert asked.accuracy(data, [0, 1], Shots([], [])) == 0.5


def test_prompts_fit_into_the_window(tmp_path: Path) -> None:
    asked = PromptedClassifier(trained("causal", tmp_path), ["negative", "positive"])
    for shots in range(asked.most_shots + 1):
        assert asked.room(shots) >= 4
        assert (shots + 1) * (asked.room(shots) + asked.overhead) <= asked.window
    assert asked.room(asked.most_shots + 1) < 4
    texts = Shots([[9] * 100] * asked.most_shots, [0] * asked.most_shots)
    assert asked.likelihoods([[9] * 100], texts, asked.room(asked.most_shots)).isfinite().all()


def test_what_can_not_be_asked_says_so(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="does not learn from examples in a prompt"):
        PromptedClassifier(trained("span", tmp_path), ["a", "b"])
    with pytest.raises(Problem, match="not different words"):
        PromptedClassifier(trained("causal", tmp_path), ["a", "a"])


def test_labels_take_turns() -> None:
    rows, labels = np.array([10, 11, 12, 13, 14, 15]), np.array([0, 0, 0, 0, 1, 2])
    assert in_turns(rows, labels).tolist() == [10, 14, 15, 11, 12, 13]
    chosen = balanced(np.array([0] * 50 + [1] * 5), 8, seed=3)
    assert sorted(chosen, key=lambda row: row >= 50) != chosen  # in a random order
    assert sum(row >= 50 for row in chosen) == 4


def test_where_fine_tuning_overtakes() -> None:
    points = [Point(IN_CONTEXT, 0, 1, 0.5), Point(IN_CONTEXT, 4, 1, 0.7), Point(IN_CONTEXT, 4, 2, 0.8)]
    tuned = [Point(TUNING, 4, 1, 0.6), Point(TUNING, 16, 1, 0.76), Point(TUNING, 64, 1, 0.9)]
    adaptation = Adaptation(Path(), points + tuned, Picture(Path()), [])
    assert adaptation.overtaken() == 16
    assert replace(adaptation, points=[*points, *tuned, Point(TUNING, 256, 1, 0.4)]).overtaken() is None
    table = adaptation.table()
    assert list(table.columns) == ["examples", TUNING, "linear probe", IN_CONTEXT]
    rows: list[Any] = list(table.rows)
    assert [row[0] for row in rows] == [0, 4, 16, 64]
    assert rows[0][1] is None
    assert rows[1][3].mean == pytest.approx(0.75)


def test_from_texts_to_a_table(headway: Headway, tmp_path: Path) -> None:
    """Pre-train, fine-tune, adapt: the whole path, small."""
    texts, reviews = write_texts(tmp_path / "texts"), write_reviews(tmp_path / "reviews.csv")
    words = [*SMALL, *SHORT, f"data.train={texts}", "data.objective=causal", "train.batch_tokens=128"]
    assert headway("pretrain", *words, "--out", "pretrained").code == 0
    ways = ["--data", str(reviews), "--examples", "4,16", "--shots", "0,2,99", "--seeds", "2", "--out", "study"]
    outcome = headway("adapt", "pretrained", "train.steps=3", *ways)
    assert outcome.code == 0, outcome.err
    assert "prompts of more than" in outcome.err
    assert "examples  fine-tuning" in outcome.out
    points = json.loads(Path("study/adaptation.json").read_text())
    assert {(point["way"], point["examples"], point["seed"]) for point in points} == {
        *((way, examples, seed) for way in (TUNING, "linear probe") for examples in (4, 16) for seed in (1, 2)),
        *((IN_CONTEXT, examples, seed) for examples in (0, 2) for seed in (1, 2)),
    }
    assert all(0 <= point["accuracy"] <= 1 for point in points)
    assert Path("study/adaptation.png").exists()
    again = headway("adapt", "pretrained", "train.steps=3", *ways, "--json")  # what is trained stays trained
    assert json.loads(again.out)["points"] == points
    probed, tuned = (
        Run(f"study/{way}_16_seed=1").final_checkpoint().weights for way in ("linear-probe", "fine-tuning")
    )
    first = Run("pretrained").final_checkpoint().weights
    for name, tensor in probed.items():
        if name.startswith("encoder."):
            assert torch.equal(tensor, first[name.removeprefix("encoder.")])
    assert not torch.equal(probed["encoder.embedding.table.weight"], tuned["encoder.embedding.table.weight"])


@pytest.mark.parametrize(
    ("words", "message"),
    {
        ("--data", "nowhere.csv"): "there is no file nowhere.csv",
        ("--data", "{reviews}", "--examples", "a,b"): "whole numbers",
        ("--data", "{reviews}", "--words", "one,two,three", "--examples", "8"): "there are 2 labels",
        (
            "--data",
            "{reviews}",
            "--examples",
            "5000",
            "--shots",
            "",
        ): "--examples: there are 90 to train on, fewer than 5,000",
    }.items(),
)
def test_a_mistake_is_one_line(words: tuple[str, ...], message: str, headway: Headway, tmp_path: Path) -> None:
    run, reviews = trained("causal", tmp_path), write_reviews(tmp_path / "reviews.csv")
    outcome = headway("adapt", str(run.folder), *(word.format(reviews=reviews) for word in words))
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
