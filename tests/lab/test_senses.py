"""Words in context: their vectors layer by layer, what all of them share, and groups of sentences."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway as hw
from conftest import Outcome
from headway import recipes
from headway.config.errors import Problem
from headway.lab.senses import (
    clusters,
    directions,
    in_context,
    mean_cosine,
    occurrences,
    remove_common,
    silhouette,
    tokens_of,
)
from headway.runs.fit import start
from headway.runs.run import Run

Headway = Callable[..., Outcome]


def sentences(count: int, seed: int) -> list[str]:
    """A bank of a river, or one of money."""
    random = np.random.default_rng(seed)
    water = ["river", "water", "boat", "fish", "reeds"]
    money = ["money", "loan", "coins", "clerk", "account"]
    return [
        f"the {first} and the {second} by the bank"
        for first, second in (random.choice(money if number % 2 else water, 2) for number in range(count))
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("senses")
    (folder / "texts.jsonl").write_text("\n".join(json.dumps({"text": each}) for each in sentences(400, 1)))
    words = [f"data.train={folder / 'texts.jsonl'}", "data.name=none", "data.tokenizer=word", "data.window=16"]
    words += ["model.layers=2", "model.width=32", "model.heads=2", "train.steps=150", "train.warmup=10"]
    words += ["train.batch_tokens=512", "train.learning_rate=3e-3", "data.validation=0.05", "train.evaluate_every=150"]
    fit = start(recipes.load("pretrain", words), folder / "run")
    list(fit.steps())
    return fit.run


def test_a_word_is_one_vector_below_and_several_above(run: Run) -> None:
    texts = sentences(40, 2)
    found = in_context(run, texts)
    banks = [place for place, word in enumerate(found.words) if word == "bank"]
    assert len(banks) == 40
    assert found.sentences[banks].tolist() == list(range(40))
    assert found.layers.shape == (3, 40 * 8, 32)
    assert np.ptp(found.layers[0][banks], axis=0).max() == 0  # the embedding does not know the sentence
    assert mean_cosine(found.layers[2][banks]) < 0.999
    model: Any = run.model().eval()
    tokens = torch.from_numpy(run.task.tokenizer.encode([texts[3]])[0].astype(np.int64))  # type: ignore[attr-defined]
    states = model.encoder(tokens[None])
    last = model.encoder.stack.norm(torch.from_numpy(found.layers[2][3 * 8 : 4 * 8]))
    torch.testing.assert_close(states[0], last, atol=1e-5, rtol=1e-4)


def test_spellings_are_not_senses(run: Run, tmp_path: Path) -> None:
    """Pieces of words know the space before them: a word behind a bracket has another vector from the start."""
    words = [f"data.train={run.recipe.data.train}", "data.name=none", "data.vocab_size=300", "model.width=16"]
    fit = start(
        recipes.load("pretrain", [*words, "data.validation=0.1", "train.steps=1", "train.warmup=0"]),
        tmp_path / "pieces",
    )
    list(fit.steps())
    found = in_context(fit.run, ["bank of the river", *["by the bank"] * 4, "a clerk (bank)"])
    own = occurrences(found, "bank")
    assert found.sentences[own].tolist() == [0, 1, 2, 3, 4]
    assert np.ptp(found.layers[0][own], axis=0).max() == 0
    with pytest.raises(Problem, match="'bank' occurs 1 times"):
        occurrences(in_context(fit.run, ["the bank", "(bank"]), "bank")


def test_the_command_tells_senses_apart(run: Run, headway: Headway) -> None:
    Path("sentences.txt").write_text("\n".join(sentences(40, 3)) + "\n\n")
    words = ["senses", str(run.folder), "bank", "--sentences", "sentences.txt"]
    found = json.loads(headway(*words, "--json", "--groups", "2").out)
    assert len(found["layers"]) == 3
    assert found["layers"][0]["itself"] == pytest.approx(1)
    for group in found["groups"]:  # a group is all of water, or all of money
        assert len({any(word in text for word in ("river", "water", "boat", "fish", "reeds")) for text in group}) == 1
    assert sum(len(group) for group in found["groups"]) == 40
    for name in ("bank.html", "bank.png"):
        outcome = headway(*words, "--out", name)
        assert outcome.code == 0, outcome.err
        assert Path(name).stat().st_size > 1000
    assert Path("bank.html").read_text().count("<title>the ") == 40
    assert "silhouette" in outcome.out
    for bad in (
        ["senses", str(run.folder), "nowhere", "--sentences", "sentences.txt"],
        [*words, "--layer", "9"],
        [*words, "--groups", "99"],
        [*words, "--out", "bank.svg"],
        ["senses", str(run.folder), "bank", "--sentences", "missing.txt"],
        ["senses", "missing", "bank", "--sentences", "sentences.txt"],
    ):
        outcome = headway(*bad)
        assert (outcome.code, outcome.err.strip().count("\n")) == (2, 0), outcome.err


def test_a_word_has_the_tokens_that_have_a_letter_of_it() -> None:
    spans = [(0, 3), (3, 8), (8, 10), (10, 11)]  # "the", " sail", "or" and "." of "the sailor."
    assert tokens_of(spans, (4, 10)) == [1, 2]
    assert tokens_of(spans, (0, 3)) == [0]
    assert tokens_of(spans, (11, 12)) == []


def test_a_mean_cosine_is_that_over_all_pairs() -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 4)) + 1
    units = directions(vectors)
    pairs = [units[a] @ units[b] for a in range(7) for b in range(7) if a != b]
    assert mean_cosine(vectors) == pytest.approx(np.mean(pairs))
    assert np.isnan(mean_cosine(vectors[:1]))


def test_what_all_share_is_taken_out() -> None:
    random = np.random.default_rng(1)
    shared = np.array([3.0, 1, 0, 0, 0])
    vectors = shared + random.standard_normal((200, 5)) * [0.1, 5, 0.1, 0.1, 0.1]
    after = remove_common(vectors, vectors, 1)
    assert mean_cosine(vectors) > 0.15
    assert abs(mean_cosine(after)) < 0.02
    assert np.abs(after.mean(axis=0)).max() < 1e-9
    assert after[:, 1].std() < 0.1  # the direction in which they varied the most


def test_equal_vectors_are_no_groups() -> None:
    same = np.ones((8, 5), np.float32) * (1 + 1e-7 * np.arange(8, dtype=np.float32)[:, None])
    assert silhouette(same, np.arange(8) % 2) == 0


def test_groups_are_found_and_judged() -> None:
    random = np.random.default_rng(2)
    truth = np.repeat([0, 1, 2], 20)
    vectors = np.eye(6)[truth] + 0.1 * random.standard_normal((60, 6))
    found = clusters(vectors, 3)
    assert len({(a, b) for a, b in zip(truth.tolist(), found.tolist(), strict=True)}) == 3
    assert silhouette(vectors, found) > 0.8 > silhouette(vectors, random.integers(3, size=60))
    assert silhouette(vectors, np.zeros(60, np.int64)) == 0
    distances = 1 - directions(vectors) @ directions(vectors).T
    by_hand = []
    for one in range(60):
        means = [distances[one, (truth == group) & (np.arange(60) != one)].mean() for group in range(3)]
        inside, outside = means[truth[one]], min(means[group] for group in range(3) if group != truth[one])
        by_hand.append((outside - inside) / max(inside, outside))
    assert silhouette(vectors, truth) == pytest.approx(np.mean(by_hand))


def test_a_sentence_that_is_too_long_is_named(tmp_path: Path) -> None:
    small: dict[str, Any] = {"model": {"layers": 1, "width": 8, "heads": 2, "position": "learned"}}
    data = {"train": sentences(40, 1), "tokenizer": "word", "validation": 0.2, "window": 16}
    model = hw.pretrain(
        data=data, **small, train={"steps": 1, "batch_tokens": 100}, out=tmp_path / "run", progress=False
    )
    with pytest.raises(Problem, match=r"^sentence 2: a sequence of \d+ tokens is too long"):
        model.senses("bank", ["the bank", "the bank " * 40, "a bank", "bank"])
