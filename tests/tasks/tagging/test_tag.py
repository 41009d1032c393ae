"""Tagging words, from files to predictions."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

import headway as hw
from conftest import Outcome, quick, write_tagged
from headway import recipes
from headway.data.tagged import TaggedReading, sentences
from headway.tasks import TASKS

FEW = {"width": 16, "layers": 1}
SHORT = {"steps": 120, "epochs": None, "evaluate_every": 60, "warmup": 5, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> hw.Model:
    folder = tmp_path_factory.mktemp("tag")
    patch = pytest.MonkeyPatch()
    patch.setenv("HEADWAY_CACHE", str(folder / "cache"))
    path = write_tagged(folder / "names.conll", 300)
    model = hw.train("tag", data=path, model=FEW, train=SHORT, out=folder / "run", progress=False)
    patch.undo()
    return model


def task_of(path: Path, *words: str) -> Any:
    task = TASKS["tag"](recipes.load("tag", [f"data.train={path}", *words]))
    task.prepare()
    return task


def test_predictions_have_words_and_spans_with_their_places(tagger: hw.Model) -> None:
    text = "Grace Hopper  lives in New York since 1943"
    said = tagger.predict(text)
    assert isinstance(said, hw.Tagging)
    assert [word.text for word in said.words] == text.split()
    assert all(text[word.start : word.end] == word.text for word in said.words)
    assert [(span.text, span.label) for span in said.spans] == [("Grace Hopper", "PER"), ("New York", "LOC")]
    assert all(text[span.start : span.end] == span.text for span in said.spans)
    assert said.label == " ".join(word.label for word in said.words)
    assert said.probability is not None
    assert 0 < said.probability <= min(word.probability for word in said.words) <= 1
    again = tagger.predict([text, "Ada", "!?"])
    assert again[0] == said
    assert [len(each.words) for each in again if isinstance(each, hw.Tagging)] == [8, 1, 2]
    assert tagger.embed([text, "Ada"]).shape == (2, 16)
    assert tagger.abilities == ["predict", "embed"]
    with pytest.raises(hw.Problem, match="text 2 is empty: there is nothing to tag"):
        tagger.predict(["a", " "])


def test_a_long_text_is_read_in_parts(tagger: hw.Model) -> None:
    said = tagger.predict("Ada lives in Rome since 7 " * 100)
    assert isinstance(said, hw.Tagging)
    assert len(said.words) == 600
    assert len(said.spans) == 200


def test_metrics_are_those_of_seqeval(tagger: hw.Model, tmp_path: Path) -> None:
    path = write_tagged(tmp_path / "more.conll", 50)
    path.write_text(path.read_text().replace("Rome B-LOC", "Rome B-PER"))  # so that some are wrong
    evaluation = tagger.evaluate(path)["more.conll"]
    true = [list(each.tags) for each in sentences(path, TaggedReading())]
    texts = [" ".join(each.words) for each in sentences(path, TaggedReading())]
    said = [str(each.label).split() for each in tagger.predict(texts)]
    assert evaluation["f1"] == pytest.approx(f1_score(true, said))
    assert evaluation["precision"] == pytest.approx(precision_score(true, said))
    assert evaluation["recall"] == pytest.approx(recall_score(true, said))
    right = [one == other for one, other in zip(chain(*true), chain(*said), strict=True)]
    assert evaluation["accuracy"] == pytest.approx(np.mean(right))
    assert evaluation["f1"] < 0.95
    worst = evaluation.details["worst"]
    assert "Rome [B-LOC, not B-PER]" in worst[0]["sentence"]
    assert [each["loss"] for each in worst] == sorted((each["loss"] for each in worst), reverse=True)
    assert sum(map(sum, evaluation.details["confusion"])) == len(right)
    evaluation_of_file = tagger.run.evaluate(path)
    assert evaluation_of_file.plot() is not None


def test_a_file_in_another_scheme_is_the_same(tagger: hw.Model, tmp_path: Path) -> None:
    path = write_tagged(tmp_path / "names.conll", 30)
    rows = [json.dumps({"text": "Ada lives in Rome since 7", "spans": [[0, 3, "PER"], [13, 17, "LOC"]]})] * 3
    (tmp_path / "spans.jsonl").write_text("\n".join(rows))
    bioes = path.read_text().replace("Ada B-", "Ada S-").replace("Rome B-", "Rome S-")
    for first, last in (("Grace", "Hopper"), ("Alan", "Turing"), ("New", "York"), ("San", "Marino")):
        bioes = bioes.replace(f"{last} I-", f"{last} E-").replace(f"\n{last} B-", f"\n{last} S-")
        assert first in bioes
    bioes = bioes.removeprefix("Hopper B-").replace("\n\nHopper B-", "\n\nHopper S-")
    (tmp_path / "bioes.conll").write_text(bioes)
    assert (
        tagger.evaluate(path)["names.conll"].metrics == tagger.evaluate(tmp_path / "bioes.conll")["bioes.conll"].metrics
    )
    assert tagger.evaluate(tmp_path / "spans.jsonl")["spans.jsonl"]["f1"] == 1
    task = task_of(path, "data.scheme=bioes")
    assert task.labels == ["O", *(f"{prefix}-{kind}" for kind in ("LOC", "PER") for prefix in "BIES")]
    (tmp_path / "plain.conll").write_text("x A\ny B\n\n" * 20)
    with pytest.raises(hw.Problem, match=r"data\.scheme: .*plain tags such as 'B', not bio"):
        task_of(tmp_path / "plain.conll", "data.scheme=bio")


def test_an_unknown_tag_and_one_tag_only(tagger: hw.Model, tmp_path: Path) -> None:
    path = tmp_path / "odd.conll"
    path.write_text("Ada B-PER\n\nx O\nIBM B-ORG\n")
    with pytest.raises(hw.Problem, match=r"odd\.conll, line 4: unknown tag 'B-ORG': 'ORG' is not in the training data"):
        tagger.evaluate(path)
    path.write_text("a O\nb O\n\nc O\n")
    with pytest.raises(hw.Problem, match=r"odd\.conll: all tags are 'O'; a tagger needs at least two"):
        task_of(path)
    path.write_text("a O\nb B-X\n")
    with pytest.raises(hw.Problem, match="too few to split"):
        task_of(path)


def test_data_from_memory(own_folder: Path) -> None:
    words = [["Ada", "in", f"Rome{number}"] for number in range(30)]
    tags = [["B-PER", "O", "B-LOC"]] * 30
    names = ["O", "B-PER", "B-LOC"]
    features = datasets.Features(
        tokens=datasets.List(datasets.Value("string")), ner_tags=datasets.List(datasets.ClassLabel(names=names))
    )
    rows = {"tokens": words, "ner_tags": [[names.index(tag) for tag in each] for each in tags]}
    sources = {
        "lists": (words, tags),
        "rows": [{"tokens": one, "tags": other} for one, other in zip(words, tags, strict=True)],
        "datasets": datasets.Dataset.from_dict(rows, features=features),
    }
    for name, data in sources.items():
        quickly = {"steps": 2, "epochs": None, "evaluate_every": 2}
        model = hw.train("tag", data=data, model=FEW, train=quickly, out=f"memory/{name}", progress=False)
        assert model.labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    with pytest.raises(hw.Problem, match="the data, row 1: 3 words in 'tokens', but 1 tags in 'tags'"):
        hw.train("tag", data=(words, [tags[0], ["O"], *tags[2:]]), progress=False)


def test_a_tagger_starts_from_a_pretrained_model(own_folder: Path) -> None:
    """With its tokenizer, and with the head of its own tags only."""
    first = hw.pretrain("pretrain", settings=quick("pretrain", own_folder), out="first", progress=False)
    data = write_tagged(own_folder / "names.conll")
    quickly = {"steps": 2, "epochs": None, "evaluate_every": 2}
    second = hw.train("tag", data=data, start=first, train=quickly, out="second", progress=False)
    assert second.tokenizer.to_json() == first.tokenizer.to_json()
    assert second.run.recipe.model.mixer == "attention"
    rows = [f"a{number} B-X\nb O\n\nc B-Y\nd{number} O\n\n" for number in range(20)]
    (own_folder / "others.conll").write_text("".join(rows))
    third = hw.train("tag", data="others.conll", start=second, train=quickly, out="third", progress=False)
    assert third.labels == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert third.run.load().predict("a b").label == third.predict("a b").label


def test_those_who_look_for_it_elsewhere_find_it(own_folder: Path, headway: Callable[..., Outcome]) -> None:
    write_tagged(own_folder / "x.conll")
    for words in (("ner", "data.train=x.conll"), ("classify", "data.train=x.conll"), ("x.conll",)):
        outcome = headway("train", *words)
        assert outcome.code == 2
        assert "headway train tag data.train=" in outcome.err
        assert outcome.err.count("\n") == 1


def test_what_is_printed(tagger: hw.Model, headway: Callable[..., Outcome]) -> None:
    run = str(tagger.run.folder)
    said = headway("predict", run, "Ada in New York", "x")
    assert "New York  LOC   7-15" in said.out
    assert json.loads(headway("predict", run, "Ada", "--json").out)[0]["spans"] == [
        {"text": "Ada", "label": "PER", "start": 0, "end": 3}
    ]
    evaluated = headway("evaluate", run)
    assert "test: spans by type" in evaluated.out
    assert headway("explain", run, "x").err.startswith(
        "headway: a run of tag does not label texts; try headway predict"
    )


def test_the_built_in_data_are_tokens_of_python(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.data.python_tags.ENOUGH", 12_000)
    quickly = {"steps": 30, "epochs": None, "evaluate_every": 30}
    held_out = {"data.validation": 0.2, "data.test": 0.2}
    model = hw.train("tag", model=FEW, train=quickly, settings=held_out, progress=False)
    assert {"parameter", "attribute", "class", "operator"} <= set(model.labels)
    said = model.predict("def f(a):  # note\n    return a.b")
    assert isinstance(said, hw.Tagging)
    assert [word.text for word in said.words] == ["def", "f", "(", "a", ")", ":", "return", "a", ".", "b"]
    assert said.spans == []
    task: Any = model.run.task
    groups = task.train.tagged.groups
    parts = [set(groups[rows].tolist()) for rows in task.parts.values()]
    assert not parts[0] & parts[1] | parts[1] & parts[2] | parts[0] & parts[2]  # of different files


def test_baselines_stand_beside_it_on_the_same_spans(tagger: hw.Model) -> None:
    own = hw.baseline(tagger)
    assert own.metric == "f1"
    assert [row.name for row in own.rows][-1] == "logistic regression on neighbours"
    assert own.network is not None
    assert own.network.items["test"].score == pytest.approx(tagger.metrics["test"]["f1"])
