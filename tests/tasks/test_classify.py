"""From a file of labelled texts to a model that answers, as a user walks it."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway as package
from conftest import Outcome, write_reviews
from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.data.batch import LabelledBatch
from headway.lab.explain import explain, log_odds
from headway.runs.run import Run
from headway.tasks import TASKS
from headway.tasks.classify import Classify
from headway.tasks.labelling import SIGMOID, SOFTMAX, Readout
from headway.text.tokenizer import TOKENIZERS

Headway = Callable[..., Outcome]
SMALL = [
    "model.width=8",
    "model.heads=2",
    "train.epochs=none",
    "train.steps=6",
    "train.warmup=2",
    "train.evaluate_every=3",
]


def prepared(path: Path, *overrides: str) -> Classify:
    recipe = recipes.load("classify", [f"data.train={path}", *overrides])
    task = TASKS[recipe.task](recipe)
    assert isinstance(task, Classify)
    task.prepare()
    return task


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    """Semicolons, quotes with line breaks, a byte-order mark, Windows line ends, an empty text, 150 labels."""
    path = tmp_path / "tickets.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        generator = csv.writer(file, delimiter=";", lineterminator="\r\n")
        generator.writerow(["Text", "Category", "id"])
        for number in range(600):
            topic = number % 150
            generator.writerow([f'My "thing {topic}"\r\nis; broken {topic}', f"topic number {topic}", number])
        generator.writerow(["", "topic number 1", 600])
    return path


def test_an_awkward_file_works_at_the_first_try(awkward: Path, headway: Headway) -> None:
    outcome = headway("train", "classify", f"data.train={awkward}", *SMALL)
    assert (outcome.code, outcome.err) == (0, "")
    assert "1 rows without a text are skipped, the first on line 1202" in outcome.out
    run = Run("runs/classify-1")
    labels = json.loads((run.folder / "labels.json").read_text())
    assert len(labels) == 150
    assert "topic number 42" in labels
    assert headway("evaluate", "runs/classify-1").out.count("most often mixed up") == 1
    (answer,) = json.loads(headway("predict", "runs/classify-1", "my thing 42 is broken", "--json").out)
    assert answer["label"] in labels
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    shown = headway("data", str(awkward))
    assert "600 rows; columns: text 'Text', label 'Category'" in shown.out
    assert "150 classes" in shown.out
    assert "and 130 more, of 4 to 4 rows" in shown.out


def test_the_parts_are_apart_and_the_tokenizer_knows_only_what_is_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    rows = [{"text": f"word{number} film", "label": number % 3, "movie": number // 10} for number in range(300)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = prepared(path, "data.group=movie", "data.min_count=1", "data.validation=0.2", "data.test=0.3")
    sizes = {name: int(part.sum()) for name, part in task.parts.items()}
    assert sizes == {"validation": 60, "test": 90, "train": 150}
    movies = {
        name: {row["movie"] for row, inside in zip(rows, part, strict=True) if inside}
        for name, part in task.parts.items()
    }
    assert movies["train"].isdisjoint(movies["validation"] | movies["test"])
    known = {symbol for symbol in task.tokenizer.vocabulary.symbols if symbol.startswith("word")}
    assert known == {f"word{number}" for number, inside in enumerate(task.parts["train"]) if inside}
    splits = task.splits()
    assert {name: len(data) for name, data in splits.sets.items()} == {
        "train": 150,
        "validation validation": 60,
        "test test": 90,
    }
    assert splits.train.labels.tolist() == [
        row["label"] for row, inside in zip(rows, task.parts["train"], strict=True) if inside
    ]


def test_a_few_examples_are_as_many_of_each_class_and_more_are_the_same_ones(tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "reviews.csv", 200)

    def rows(*words: str) -> tuple[list[int], list[int]]:
        task = prepared(path, *words)
        return np.flatnonzero(task.parts["train"]).tolist(), task.splits().train.labels.tolist()

    few, labels = rows("data.examples=10")
    assert sorted(labels) == [0] * 5 + [1] * 5
    more, _ = rows("data.examples=31")
    assert len(more) == 31
    assert set(few) < set(more) < set(rows()[0])
    assert set(rows("data.examples=10", "train.seed=2")[0]) != set(few)
    with pytest.raises(BadSetting, match="more than the"):
        rows("data.examples=1000")


def test_equal_texts_stay_on_one_side(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "".join(f"text {number % 30},{number % 2}\n" for number in range(300)))
    task = prepared(path)
    texts = task.train.index.rows["text"]
    owners = [set(texts[part].tolist()) for part in task.parts.values()]
    assert sum(len(owner) for owner in owners) == 30


def test_files_for_each_part_and_what_they_share(tmp_path: Path) -> None:
    train = write_reviews(tmp_path / "train.csv")
    test = tmp_path / "test.csv"
    test.write_text("text,label\n" + "\n".join(train.read_text().splitlines()[1:4]) + "\nnew,positive\n")
    task = prepared(train, f"data.test={test}", f"data.validation={test}")
    splits = task.splits()
    assert [len(data) for data in splits.sets.values()] == [120, 4, 4]
    assert "3 texts of the test data are also in the training data, as the model reads them" in splits.notes
    test.write_text("text,label\nnew,neutral\n")
    with pytest.raises(Problem, match=r"the label 'neutral' is not in the training data"):
        prepared(train, f"data.test={test}").splits()


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_every_tokenizer_trains_resumes_and_answers(tokenizer: str, tmp_path: Path, headway: Headway) -> None:
    data = [f"data.train={write_reviews(tmp_path / 'reviews.csv')}", f"data.tokenizer={tokenizer}"]
    assert headway("train", "classify", *data, *SMALL, "data.max_length=30", "--out", "run").code == 0
    first = package.load("run").predict(["the plot was really good ."])
    assert package.load("run").predict(["the plot was really good ."]) == first
    assert headway("resume", "run").code == 0
    assert {"tokenizer.json", "labels.json"} <= {path.name for path in Path("run").iterdir()}


MISTAKES = {
    "no data": ([], "data.train: missing: name a file of labelled texts"),
    "no file": (["data.train=no.csv"], "there is no file no.csv"),
    "one class": (["data.train=one.csv"], "all labels are 'a'; a classifier needs at least two"),
    "few": (
        ["data.train=few.csv"],
        "too few to split, 3 rows in 3 groups (equal rows are one group)",
    ),
    "share": (["data.train=few.csv", "data.test=1.5"], "a share must be between 0 and 1, not 1.5"),
    "shares": (["data.train=few.csv", "data.test=0.5", "data.validation=0.5"], "leave nothing to train on"),
    "name": (["data.name=imbd"], "data.name: no such choice 'imbd'; did you mean 'imdb'?"),
    "tokenizer": (["data.tokenizer=words"], "data.tokenizer: no such choice 'words'; did you mean 'word'?"),
    "encoding": (["data.train=few.csv", "data.encoding=utf-9"], "data.encoding: no encoding 'utf-9'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_run(name: str, headway: Headway, tmp_path: Path) -> None:
    words, message = MISTAKES[name]
    (tmp_path / "one.csv").write_text("text,label\n" + "".join(f"text {number},a\n" for number in range(50)))
    (tmp_path / "few.csv").write_text("text,label\na,1\nb,2\nc,1\n")
    outcome = headway("train", "classify", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def run(tmp_path: Path, headway: Headway) -> str:
    data = f"data.train={write_reviews(tmp_path / 'reviews.csv')}"
    assert headway("train", "classify", data, *SMALL, "--out", "run").code == 0
    return "run"


def test_predict_takes_a_file_or_a_pipe_in_its_order(
    run: str, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("new.csv").write_text("text,label\nthe plot was good .,x\n,y\ni did hate the music .,z\n")
    from_file = [json.loads(line) for line in headway("predict", run, "--file", "new.csv", "--jsonl").out.splitlines()]
    assert [each["text"] for each in from_file] == ["the plot was good .", "", "i did hate the music ."]
    assert from_file[1]["label"] is None
    monkeypatch.setattr(sys, "stdin", io.StringIO("the plot was good .\n\ni did hate the music .\n"))
    piped = [json.loads(line) for line in headway("predict", run, "--jsonl").out.splitlines()]
    assert piped == from_file
    alone = json.loads(headway("predict", run, "the plot was good .", "--json").out)
    assert alone[0]["probability"] == pytest.approx(piped[0]["probability"], abs=1e-6)
    both = headway("predict", run, "text", "--file", "new.csv")
    assert (both.code, both.err) == (2, "headway: give either texts or --file, not both\n")
    Path("empty.txt").write_text("")
    assert "empty.txt is empty" in headway("predict", run, "--file", "empty.txt").err


def test_a_text_without_any_token_is_answered(run: str, headway: Headway) -> None:
    """White space of all kinds is no token, but is it a text?"""
    for kind in ("<br />", "\u200b"):
        assert headway("predict", run, kind).code in (0, 2)
    data = Path("reviews.csv").read_text() + "!!!,positive\n?,negative\n"
    Path("signs.csv").write_text(data)
    overrides = ["data.train=signs.csv", "data.tokenizer=word(signs=False)", *SMALL, "--out", "signless"]
    assert headway("train", "classify", *overrides).code == 0
    (answer,) = json.loads(headway("predict", "signless", "!!!", "--json").out)
    assert answer["label"] in ("negative", "positive")
    assert headway("explain", "signless", "!!!").code == 0


def test_evaluate_on_other_data(run: str, headway: Headway) -> None:
    Path("more.csv").write_text("text,label\nthe plot was good .,positive\nthe plot was bad .,negative\n")
    report = json.loads(headway("evaluate", run, "--data", "more.csv", "--json").out)["test"]
    assert report["more.csv"]["examples"] == 2
    assert np.sum(report["more.csv"]["confusion"]) == 2
    Path("more.csv").write_text("text,label\nthe plot was good .,strange\n")
    assert "the label 'strange' is not in the training data" in headway("evaluate", run, "--data", "more.csv").err


def test_explain_shows_the_whole_text(run: str, headway: Headway) -> None:
    text = "the plot was <b>not</b> good & dull ."
    outcome = headway("explain", run, text, "--html", "page.html")
    assert outcome.code == 0
    page = Path("page.html").read_text()
    assert "&lt;b&gt;" in page.replace("</span>", "").replace("<span", "\n<span") or "&amp;" in page
    assert "<b>" not in page
    explanation = explain(Run(run), text)
    assert "".join(piece.text for piece in explanation.pieces) == text


def test_for_a_bag_of_tokens_the_parts_add_up_to_the_log_odds(tmp_path: Path, headway: Headway) -> None:
    data = f"data.train={write_reviews(tmp_path / 'reviews.csv')}"
    overrides = ["model.layers=0", "model.norm=plain", "model.position=none", "train.learning_rate=0.1", "--out", "bag"]
    assert headway("train", "classify", data, *SMALL, *overrides).code == 0
    explanation = explain(Run("bag"), "the plot was really good . i did not hate the music .")
    model = package.load("bag").network
    bias = model.head.bias[0] - model.head.bias[1]  # type: ignore[union-attr, index]
    sign = 1 if explanation.label == "negative" else -1
    odds = np.log(explanation.probability / (1 - explanation.probability))
    assert sum(explanation.gradients) == pytest.approx(odds - sign * float(bias.detach()), abs=1e-4)


@pytest.mark.parametrize("size", [3.0, 60.0, 500.0])
@pytest.mark.parametrize("readout", [SOFTMAX, SIGMOID])
def test_an_explanation_does_not_fade_as_the_model_gets_surer(readout: Readout, size: float) -> None:
    logits = torch.tensor([[size] if readout is SIGMOID else [0.0, size]], dtype=torch.double, requires_grad=True)
    odds = log_odds(readout.probabilities(logits)[0])
    odds.backward()
    assert float(odds.detach()) == pytest.approx(size)
    assert logits.grad is not None
    assert float(logits.grad[0, -1]) == pytest.approx(1)


def test_the_data_are_shown_as_they_are(headway: Headway, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = [
        ("good film " * 30, "pos"),
        ("good film " * 30, "neg"),
        *((f"word{number} film", "neg") for number in range(38)),
    ]
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    report = json.loads(headway("data", str(path), "data.min_count=1", "data.max_length=20", "--json").out)
    assert report["rows"] == 40
    assert report["classes"] == {"neg": 39, "pos": 1}
    assert report["duplicates"] == {"rows": 1, "texts_with_several_labels": 1}
    assert report["tokens"]["longest"] == 60
    assert report["cut_off"]["20"] == {"texts": 2 / 40, "tokens": pytest.approx(80 / (120 + 76))}
    assert report["parts"] == {"train": 32, "validation": 4, "test": 4}
    assert report["unknown"]["train"] == 0
    assert report["unknown"]["test"] > 0
    assert sum(report["histogram"]["counts"]) in (38, 40)


def test_a_run_refuses_data_that_are_no_longer_those_it_began_with(run: str, headway: Headway) -> None:
    assert headway("evaluate", run).code == 0
    write_reviews(Path("reviews.csv"), 140)
    for verb in ("evaluate", "resume"):
        outcome = headway(verb, run)
        assert outcome.code == 2
        assert "have changed since the run began; restore the old file, or evaluate on the new one" in outcome.err
    assert headway("evaluate", run, "--data", "reviews.csv").code == 0


def test_files_of_another_shape_can_be_read_with_settings(run: str, headway: Headway) -> None:
    Path("other.csv").write_bytes("Meinung|Klasse\nthe café was good .|positive\n".encode("cp1252"))
    how = ["--with", "data.text=Meinung", "--with", "data.label=Klasse", "--with", "data.encoding=cp1252"]
    report = json.loads(headway("evaluate", run, "--data", "other.csv", *how, "--json").out)
    assert report["test"]["other.csv"]["examples"] == 1
    (answer,) = json.loads(headway("predict", run, "--file", "other.csv", *how, "--json").out)
    assert answer["text"] == "the café was good ."
    assert (
        "model.width: does not change how a file is read" in headway("predict", run, "x", "--with", "model.width=3").err
    )


def test_texts_that_are_not_unicode_get_a_line(run: str, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headway("predict", run, "good", "tr\udce8s").err == ("headway: text 2 is not valid UTF-8\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("good\ntr\udce8s\n"))
    assert "the standard input, line 2, is not in UTF-8" in headway("predict", run).err
    assert "give either --json or --jsonl" in headway("predict", run, "good", "--json", "--jsonl").err


@pytest.mark.parametrize("content", ['{"a": 1}', "[1.5, 2]", '["one"]', "no json", None])
def test_damaged_labels_are_said_to_be_damaged(content: str | None, run: str, headway: Headway) -> None:
    path = Path(run) / "labels.json"
    path.unlink() if content is None else path.write_text(content)
    outcome = headway("predict", run, "good")
    assert outcome.code == 2
    assert f"{path} " in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_own_files_come_before_a_named_set(tmp_path: Path) -> None:
    path = write_reviews(tmp_path / "reviews.csv")
    recipe = recipes.load("sentiment", [f"data.train={path}"])
    assert TASKS[recipe.task](recipe).files == {"train": str(path)}  # type: ignore[attr-defined]


def test_what_a_user_should_know_of_the_parts_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = [f"text {number % 20},{number % 2},film {number}" for number in range(200)]
    path.write_text("text,label,film\n" + "\n".join(rows) + "\n")
    notes = prepared(path, "data.group=film").splits().notes
    assert notes == tuple(
        f"20 texts of the {use} data are also in the training data, as the model reads them"
        for use in ("validation", "test")
    )
    path.write_text("text,label\n" + "".join(f"text {number},{number}\n" for number in range(100)))
    assert "20 of 100 classes have no training examples: they cannot be learned" in prepared(path).splits().notes


def test_a_test_file_without_texts_leaves_no_run(headway: Headway, tmp_path: Path) -> None:
    train = write_reviews(tmp_path / "train.csv")
    (tmp_path / "empty.csv").write_text("text,label\n,positive\n,negative\n")
    outcome = headway("train", "classify", f"data.train={train}", "data.test=empty.csv")
    assert outcome.code == 2
    assert "empty.csv has no row with a text: empty.csv: 2 rows without a text" in outcome.err
    assert not Path("runs").exists()


def test_two_processes_end_with_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headway", "train", "classify", "data.train=no.csv", "train.processes=2"]
    ended = subprocess.run([*command, "train.device=cpu"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert set(ended.stderr.splitlines()) == {f"headway: there is no file no.csv (current folder: {tmp_path})"}


def test_classes_twice_with_different_dropout_and_both_times_alike() -> None:
    task: Any = TASKS["classify"](recipes.load("classify", ["data.train=x.csv", "data.objective=rdrop(weight=2)"]))
    one, other = torch.randn(2, 4, 3, dtype=torch.double)
    given = iter([one, other])
    targets = torch.tensor([0, 2, -100, 1])
    batch = LabelledBatch(torch.zeros(4, 5, dtype=torch.long), targets)
    loss = task.loss(lambda *_: next(given), batch)
    expected = 0.0
    for first, second, target in zip(one.log_softmax(-1), other.log_softmax(-1), targets.tolist(), strict=True):
        if target >= 0:
            apart = (first.exp() * (first - second)).sum() + (second.exp() * (second - first)).sum()
            likely = sum(0.9 * each[target] + 0.1 * each.mean() for each in (first, second))
            expected += float((-likely + 2 / 2 * apart) / 2)
    assert loss.total.item() == pytest.approx(expected)
    assert loss.count == 3


def test_a_run_with_rdrop(headway: Headway, tmp_path: Path) -> None:
    data = f"data.train={write_reviews(tmp_path / 'reviews.csv')}"
    overrides = ["data.objective=rdrop(weight=1, smoothing=0)", "data.packed=true", "train.steps=4", "train.warmup=1"]
    assert headway("train", "classify", data, *SMALL, *overrides, "--out", "run").code == 0
    outcome = headway("train", "classify", data, *SMALL, "data.objective=rdrop(weight=-1)")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
