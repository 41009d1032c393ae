"""Baselines beside networks: of every task, on the same items, once for a split; and what is said about the network."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway as hw
from conftest import Outcome, quick, write_pairs, write_reviews, write_texts
from headway import recipes
from headway.api import baselines as shown_beside
from headway.data.grammar import LABELS, plain_review
from headway.lab import baselines as lab
from headway.lab.statistics import paired, span_of
from headway.metrics.bleu import corpus_scores, sentence_counts
from headway.metrics.items import Items
from headway.runs import pipeline
from headway.tasks import TASKS
from headway.tasks.abilities import can
from headway.tasks.baselines import HasBaselines

Headway = Callable[..., Outcome]
WITHOUT = {"ppo", "vectors"}  # one is compared with the policy it starts from, the other has no scores of its own
MORE = {
    "language": [["data.language=files"], ["data.carry=true", "data.cross_document=true", "model.mixer=lstm"]],
    "classify": [["train.metrics=f1 mcc", "data.objective=likelihood(smoothing=0.1)"]],
    "translate": [["data.joint=false"]],
}
RECIPES = {
    **{task: task for task in ("classify", "language", "pretrain", "translate", "numbers", "steps", "substring")},
    **{"parity": "parity", "reviews": "reviews", "sft": "sft", "reward": "reward", "dpo": "dpo", "tag": "tag"},
}


def plain_reviews(path: Path, count: int = 240) -> Path:
    """Reviews that a bag of words can classify."""
    random = np.random.default_rng(7)
    rows = [(plain_review(place % 2, 2, random), LABELS[place % 2]) for place in range(count)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def test_every_task_has_baselines_or_is_known_to_have_none() -> None:
    assert {name for name, kind in TASKS.items() if not issubclass(kind, HasBaselines)} == WITHOUT
    assert set(RECIPES) == set(TASKS) - WITHOUT


CASES = [(name, own) for name in RECIPES for own in ([], *MORE.get(name, []))]


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_network_is_compared_on_the_items_that_its_metric_is_made_of(
    name: str, settings: list[str], own_folder: Path
) -> None:
    overrides = [*quick(RECIPES[name], own_folder), *settings]
    run = pipeline.train(RECIPES[name], overrides, pipeline.RunFolders(), pipeline.Silent()).run
    assert can(run.task, HasBaselines)
    measured = hw.baseline(run)
    assert measured.network is not None
    results = run.results["test"]
    for test, items in measured.network.items.items():
        assert items.score == pytest.approx(results[test][measured.metric], rel=1e-4, abs=1e-6)
    for row in measured.rows:
        assert set(row.metrics) == set(measured.network.items)
        for test, items in row.items.items():
            assert row.metrics[test][measured.metric] == pytest.approx(items.score)
            assert np.isfinite(items.sums).all()
            if len(items) > 1:  # xz has no items of its own
                assert len(items) == len(measured.network.items[test])
    assert measured.verdict.startswith(("better than", "worse than", "not better than"))
    has_few = measured.test is not None and measured.test.p is None
    assert ("too few items for a test" in measured.verdict) == has_few == ("difference" not in measured.verdict)


# --- what is said, and when


UNTRAINED = ["train.steps=2", "train.warmup=0", "model.layers=1", "model.width=8", "model.heads=2"]


def test_a_network_that_is_not_better_is_told_so(headway: Headway, tmp_path: Path) -> None:
    path = plain_reviews(tmp_path / "reviews.csv")
    out = headway("train", "classify", f"data.train={path}", "data.test=0.3", *UNTRAINED).out.splitlines()
    assert out[-1].startswith("next: ")
    assert out[-2].startswith("worse than a simple baseline, ")
    assert "p " in out[-2]
    evaluated = headway("evaluate", "runs/classify-1").out.splitlines()
    assert evaluated[-2] == out[-2]
    alone = headway("baseline", "runs/classify-1").out.splitlines()
    assert alone[-1] == out[-2]
    later = json.loads(headway("evaluate", "runs/classify-1", "--data", str(path), "--json").out)
    assert list(later["baselines"]["models"][0]["test"]) == ["reviews.csv"]
    assert later["baselines"]["better"] is False


def test_a_network_that_is_better_is_told_so(headway: Headway) -> None:
    settings = ["data.length=8", "data.examples=2000", "data.tests=100", "model.width=16", "train.steps=300"]
    out = headway("train", "parity", *settings, "train.learning_rate=0.01", "train.schedule=linear").out.splitlines()
    assert out[-2].startswith("better than every baseline, of which the best is ")


def test_a_baseline_that_takes_longer_is_not_trained(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_beside, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(shown_beside, "LARGEST_SHARE", 0.0)
    settings = ["data.examples=200", "data.tests=40", "train.steps=2"]
    out = headway("train", "parity", *settings).out.splitlines()
    assert out[-2].startswith("no baseline was trained, because it would take about 0:0")
    assert out[-2].endswith(": headway baseline runs/parity-1")
    headway("baseline", "runs/parity-1")  # from now on it is known
    assert headway("evaluate", "runs/parity-1").out.splitlines()[-2].startswith(("not better", "worse", "better"))


def test_a_split_has_its_baselines_once(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_reviews(own_folder / "reviews.csv")
    settings = {"data.train": str(path), "data.test": 0.2}
    first = hw.baseline("classify", settings=settings)
    written: list[str] = []
    write = lab.write

    def counted(*given: Any) -> None:
        written.append("again")
        write(*given)

    monkeypatch.setattr(lab, "write", counted)
    same = hw.baseline("classify", settings={**settings, "data.vocab_size": 50, "data.max_length": 20})
    assert [(row.name, row.metrics, row.seconds) for row in same.rows] == [
        (row.name, row.metrics, row.seconds) for row in first.rows
    ]
    assert not written
    hw.baseline("classify", settings={**settings, "data.test": 0.3})
    rows = path.read_text().replace("negative", "other", 1)
    path.write_text(rows)
    hw.baseline("classify", settings=settings)
    assert written == ["again"] * 2


def test_files_recipes_and_runs_have_baselines(headway: Headway, tmp_path: Path) -> None:
    reviews = write_reviews(tmp_path / "reviews.csv")
    assert "TF-IDF 1-2-grams" in headway("baseline", str(reviews)).out
    text = tmp_path / "text.txt"
    text.write_text("".join(file.read_text() for file in sorted(write_texts(tmp_path / "texts").iterdir())))
    assert "8-grams with Kneser-Ney smoothing" in headway("baseline", str(text), "data.vocab_size=300").out
    source, target = write_pairs(tmp_path)
    both = headway("baseline", f"{source},{target}", "data.vocab_size=320", "data.validation=0.2", "--json")
    assert [row["name"] for row in json.loads(both.out)["models"]][-1] == "word by word, by IBM model 1"
    assert headway("baseline", "sentiment-pretrained", f"data.train={reviews}", "data.test=0.2").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.csv"], "nothing.csv is neither a recipe nor a file nor a run"),
        (["vectors", "data.train=text.txt"], "a run of vectors does not have baselines"),
        (["reward", "data.train=text.txt"], "no 'answer' among"),
    ],
)
def test_what_has_no_baseline_is_one_line(words: list[str], message: str, headway: Headway, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a text of words\n" * 40)
    outcome = headway("baseline", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_file_with_labels_and_hardly_any_words_has_baselines(own_folder: Path) -> None:
    """Nothing is in two texts, some have no words, and a class may be missing in training."""
    texts = [f"word{number}" for number in range(40)] + [" \t.", "…"]
    measured = hw.baseline("classify", data=(texts, ["a"] * 40 + ["b", "c"]))
    assert measured.best.metrics["test"]["accuracy"] >= 0


# --- compare


def test_compare_has_a_row_for_each_baseline(headway: Headway) -> None:
    words = ["data.examples=300", "data.tests=60", "train.steps=2", "model.width=8", "model.heads=2", "--seeds", "2"]
    outcome = headway("compare", "parity", *words, "--baselines", "--out", "study")
    assert "its 95 % interval" in outcome.out
    rows = json.loads(headway("compare", "parity", *words, "--baselines", "--out", "study", "--json").out)["rows"]
    first, *simple = rows
    assert [row["is_baseline"] for row in rows] == [False, *[True] * 3]
    assert first["difference"] is None
    for row in simple:
        means = [np.mean([own["accuracy"][0] for own in each["scores"].values()]) for each in (first, row)]
        assert row["difference"][0] == pytest.approx(means[1] - means[0])
        assert 0 <= row["p"] <= 1
        assert all(low <= row["scores"][name]["accuracy"][0] <= high for name, (low, high) in row["over_items"].items())
    assert "its 95 % interval" not in headway("compare", "parity", *words, "--out", "study").out


# --- scores of items


def test_bleu_of_items_is_that_of_sacrebleu() -> None:
    random = np.random.default_rng(2)
    words = ["the", "cat", "sat", "on", "a", "mat", "."]
    references = [" ".join(random.choice(words, 8)) for _ in range(60)]
    texts = [" ".join(word for word in text.split() if random.random() < 0.8) for text in references]
    for some, others in ((texts, references), (texts[:1], references[1:2]), (["x y z w"], ["a b c d"]), ([""], ["a"])):
        scores = {each.name: each.score for each in corpus_scores(some, [others])}
        assert Items("bleu", sentence_counts(some, others)).score == pytest.approx(scores["bleu"], abs=1e-9)


def test_paired_tests_of_items() -> None:
    random = np.random.default_rng(3)
    right = (random.random(400) < 0.8).astype(float)
    same = paired([(Items.of_values("accuracy", right),) * 2])
    assert (same.p, same.difference.mean) == (1.0, 0.0)
    bits, sizes = random.gamma(4, 2, 300), np.full(300, 10.0)
    better, worse = (Items("bits_per_byte", np.stack([bits + more, sizes], axis=1)) for more in (0, random.random(300)))
    tested = paired([(better, worse)])
    assert tested.p is not None
    assert tested.p < 0.01
    assert tested.difference.low > 0  # less is better
    assert tested.difference.mean == pytest.approx(worse.score - better.score)
    assert paired([(worse, better)]).difference.mean == pytest.approx(-tested.difference.mean)
    few = Items("bits_per_byte", np.array([[1.0, 2.0], [2.0, 3.0]]))
    assert paired([(few, few)]).p is None
    noise = Items("bits_per_byte", np.stack([bits + random.normal(0, 1, 300), sizes], axis=1))
    assert (paired([(better, noise)]).p or 0) > 0.01


def test_intervals_over_items_are_those_of_wilson() -> None:
    from scipy.stats import binomtest

    items = Items.of_values("accuracy", np.repeat([1.0, 0.0], [45, 5]))
    expected = binomtest(45, 50).proportion_ci(method="wilson")
    assert span_of([items]) == pytest.approx((expected.low, expected.high))
    assert span_of([items, items]) == pytest.approx((expected.low, expected.high))


# --- what looks wrong in a file


def test_wrong_labels_and_near_duplicates_are_found(headway: Headway, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = [[plain_review(place % 2, 3, random), LABELS[place % 2]] for place in range(400)]
    flipped = set(range(0, 400, 25))
    for place in flipped:
        rows[place][1] = LABELS[1 - place % 2]
    held_out = [[plain_review(place % 2, 3, random), LABELS[place % 2]] for place in range(60)]
    held_out[7][0] = rows[40][0] + " truly ."
    for name, own in (("train.csv", rows), ("test.csv", held_out)):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *own])
    words = ["data", "train.csv", "data.test=test.csv"]
    facts = json.loads(headway(*words, "--json").out)["suspects"]
    trained = {each["line"] - 2 for each in facts["label_errors"]}
    assert len(trained & flipped) >= 12  # a tenth of the rows is validation data
    assert len(trained - flipped) <= 6
    near = [each for each in facts["near_duplicates"] if each["part"] == "test"]
    assert [(each["line"], each["train_line"]) for each in near] == [(9, 42)]
    assert facts["reach"]["accuracy"] > 0.8
    out = headway(*words).out
    assert "labels are doubtful; the most doubtful" in out
    assert "held-out texts are almost in the training data" in out
    assert "% of the test data right" in out
    assert "doubtful" not in headway(*words, "--quick").out


def test_recipes_with_a_start_are_read_without_it(own_folder: Path) -> None:
    """What a network would start from changes nothing for a baseline."""
    assert recipes.load("sentiment-pretrained").start == "pretrain-imdb"
    texts = [f"a {word} film {number}" for number in range(40) for word in ("good", "bad")]
    measured = hw.baseline("sentiment-pretrained", data=(texts, ["yes", "no"] * 40), test=0.2)
    assert measured.network is None
    assert measured.verdict == ""
