"""Data from memory: the same run as from a file with the same rows, and one clear message for what is wrong."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from safetensors.torch import load_file

import headway as hw
from conftest import Outcome
from headway.data import memory
from headway.data.grammar import LABELS, review

RANDOM = np.random.default_rng(1)
TEXTS = [review(index % 2, 1, RANDOM) for index in range(80)]
NAMES = [LABELS[index % 2] for index in range(80)]
SMALL: dict[str, Any] = {
    "model": {"layers": 1, "width": 8, "heads": 2},
    "train": {"steps": 4, "evaluate_every": 2, "warmup": 2},
    "progress": False,
}
SETTINGS = ["model.layers=1", "model.width=8", "model.heads=2", "train.steps=4", "train.evaluate_every=2"]
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, NAMES, strict=True)]
FORMS: dict[str, Callable[[], Any]] = {
    "lists": lambda: (TEXTS, NAMES),
    "arrays": lambda: (np.array(TEXTS), np.array(NAMES)),
    "series": lambda: (pandas.Series(TEXTS), pandas.Series(NAMES)),
    "pairs": lambda: list(zip(TEXTS, NAMES, strict=True)),
    "columns": lambda: {"text": TEXTS, "label": NAMES},
    "rows": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
    "pandas": lambda: pandas.DataFrame(ROWS),
    "categories": lambda: pandas.DataFrame(ROWS).astype({"label": "category"}),
    "polars": lambda: polars.DataFrame(ROWS),
    "categories of polars": lambda: polars.DataFrame(ROWS).with_columns(polars.col("label").cast(polars.Categorical)),
    "rows of an array": lambda: np.array(list(zip(TEXTS, NAMES, strict=True)), dtype=object),
    "arrow": lambda: pyarrow.Table.from_pylist(ROWS),
    "dataset": lambda: datasets.Dataset.from_list(ROWS),
    "streamed dataset": lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
}


def weights(run: str | Path) -> Any:
    return load_file(sorted((Path(run) / "checkpoints").iterdir())[-1] / "model.safetensors")


def same_bits(one: str | Path, other: str | Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(first[name].equal(second[name]) for name in first)


@pytest.fixture
def from_file(own_folder: Path) -> hw.Model:
    with Path("reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(TEXTS, NAMES, strict=True)])
    return hw.train("classify", data="reviews.csv", out="from_file", **SMALL)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_run_of_a_file_with_the_same_rows(form: str, from_file: hw.Model) -> None:
    model = hw.train("classify", data=FORMS[form](), out="run", **SMALL)
    assert same_bits("run", "from_file")
    assert model.metrics == from_file.metrics
    assert model.predict(TEXTS[:3]) == from_file.predict(TEXTS[:3])


def test_a_shuffled_dataset_is_read_in_its_order(own_folder: Path) -> None:
    shuffled = datasets.Dataset.from_list(ROWS).shuffle(seed=3).select(range(10))
    (table,) = memory.tables(shuffled, ("text", "label"))
    assert table["text"].to_pylist() == shuffled["text"][:]


def test_a_run_keeps_its_data(from_file: hw.Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is resumed and evaluated when the cache is gone and the folder was moved."""
    fit = hw.fit("classify", data=(TEXTS, NAMES), out="run", settings={"train.checkpoint_every": 2}, **SMALL)
    for step in fit:
        if step.number == 2:
            break
    del fit
    assert 'train = "run:data-' in Path("run/recipe.toml").read_text()
    Path("run").rename("moved")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "another"))
    model = hw.Run("moved").resume(progress=False)
    assert same_bits("moved", "from_file")
    assert model.evaluate()["test"].metrics == from_file.evaluate()["test"].metrics
    assert model.explain(TEXTS[0]).label in LABELS


def test_other_data_to_evaluate_on(from_file: hw.Model) -> None:
    in_memory = from_file.evaluate((TEXTS, NAMES))
    assert list(in_memory) == ["data"]
    assert in_memory["data"]["accuracy"] == from_file.evaluate("reviews.csv")["reviews.csv"]["accuracy"]
    assert in_memory["data"]["examples"] == len(TEXTS)


def test_validation_and_test_data_of_their_own(own_folder: Path) -> None:
    model = hw.train(
        "classify", data=(TEXTS[:60], NAMES[:60]), validation=0.25, test=(TEXTS[60:], NAMES[60:]), out="run", **SMALL
    )
    assert model.metrics["test"]["examples"] == 20
    assert len(list(Path("run").glob("data-*.parquet"))) == 2


def test_settings_and_data_in_one_dict(own_folder: Path) -> None:
    frame = pandas.DataFrame({"review": TEXTS, "stars": [1, 5] * 40})
    data = {"train": frame, "text": "review", "label": "stars", "max_length": 7}
    model = hw.train("classify", data=data, out="run", **SMALL)
    assert (model.labels, model.run.recipe.data.max_length) == ([1, 5], 7)


def test_texts_pairs_and_prompts(own_folder: Path) -> None:
    texts = {"train": TEXTS, "validation": 0.2, "vocab_size": 300, "window": 16}
    language = hw.train("language", data=texts, out="language", **SMALL)
    assert isinstance(language.generate("the", max_new_tokens=3), str)
    pairs = {"train": (TEXTS, [text.upper() for text in TEXTS]), "validation": 0.2, "vocab_size": 320}
    translator = hw.train("translate", data=pairs, out="translate", **SMALL)
    assert len(translator.translate(["the plot was good ."])) == 1
    answers = [{"prompt": text, "answer": "yes"} for text in TEXTS]
    tuned = hw.train("sft", start=language, data=answers, out="sft", train={"steps": 2}, progress=False)
    assert isinstance(tuned.generate("the plot", max_new_tokens=3), str)
    policy = hw.train(
        "ppo",
        start=tuned,
        data={"train": TEXTS[:20], "max_new_tokens": 4, "rollouts": 8},
        reward=lambda prompts, answers: [float(len(answer)) for answer in answers],
        train={"steps": 2, "batch_size": 4, "evaluate_every": 2},
        out="ppo",
        progress=False,
    )
    assert policy.run.recipe.data.reward == "my_reward"
    assert policy.metrics["validation"]["reward"] >= 0


def raises() -> Iterator[dict[str, str]]:
    yield from ROWS[:3]
    raise ValueError("the server is gone")


WRONG: dict[str, tuple[Any, str]] = {
    "labels of another number": ((TEXTS, NAMES[:-1]), "different lengths, 80 of 'text' and 79 of 'label'"),
    "a NaN among the labels": ((TEXTS, [float("nan"), *NAMES[1:]]), "row 0 has no 'label' (None or NaN)"),
    "None among the texts": (([*TEXTS[:5], None, *TEXTS[6:]], NAMES), "row 5 has no 'text'"),
    "a NaN in a frame": (pandas.DataFrame(ROWS).replace("negative", np.nan), "row 0 has no 'label'"),
    "an empty list": (([], []), "the data are empty: pass lists, a dict of columns"),
    "no rows": ([], "the data are empty"),
    "a generator that raises": (raises(), "the data raised an exception after 3 rows: ValueError: the server is gone"),
    "a number": (3.5, "3.5"),
    "texts without labels": (TEXTS, "row 0 is 'the"),
    "another column": ([{"text": "a", "lable": "b"}], "which column is the label?"),
    "lists of lists": (([[1, 2]], ["x"]), "is not a text but a list"),
    "mixed types": ((["a", 1], ["x", "y"]), "row 1: 'text' is 1, but it is a text in the rows before"),
    "numbers for texts": (([1, 2], ["x", "y"]), "'text' holds values of type int64, not texts"),
    "an empty text": (([*TEXTS[:5], " ", *TEXTS[6:]], NAMES), "row 5 has an empty 'text'"),
    "a single text": (("a good film", "positive"), "there is no file 'a good film'"),
    "a long text": ("a good film " * 60, "there is no file 'a good film a good"),
    "a data set in parts": (
        datasets.DatasetDict({"one": datasets.Dataset.from_list(ROWS), "two": datasets.Dataset.from_list(ROWS)}),
        "the data have parts (one, two): pass one of them",
    ),
    "a class": (pandas.DataFrame, "is not a collection of rows"),
    "an unread frame": (polars.DataFrame(ROWS).lazy(), "is not a text, a path, a collection of rows"),
    "a missing file": ("reviews.cvs", "there is no file 'reviews.cvs'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_get_one_clear_exception(name: str, own_folder: Path) -> None:
    data, message = WRONG[name]
    with pytest.raises(hw.Problem) as problem:
        hw.train("classify", data=data, **SMALL)
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)
    assert ".parquet" not in str(problem.value)
    assert not Path("runs").exists()


def test_a_task_that_makes_its_data_takes_none(own_folder: Path) -> None:
    with pytest.raises(hw.Problem, match="generates its own data"):
        hw.train("parity", data=(TEXTS, NAMES))


def test_notes_speak_of_the_data(own_folder: Path) -> None:
    """Not of the file that they are written to."""
    texts = [*TEXTS, *TEXTS[:4]]
    fit = hw.fit("classify", data=(texts, [*NAMES, *NAMES[:4]]), test=(TEXTS[:9], NAMES[:9]), **SMALL)
    assert any("texts of the test data are also in the training data" in note for note in fit.notes)
    with pytest.raises(hw.Problem, match=r"^row 2 has a broken character in 'label'"):
        hw.train("classify", data=(TEXTS[:3], ["a", "b", "\ud800"]), **SMALL)
    with pytest.raises(hw.Problem, match=r"^the data: too few to split, 3 rows"):
        hw.train("classify", data=(TEXTS[:3], NAMES[:3]), **SMALL)


def test_the_command_line_goes_on_with_such_a_run(headway: Callable[..., Outcome]) -> None:
    hw.train("classify", data=(TEXTS, NAMES), out="run", **SMALL)
    assert headway("evaluate", "run").code == 0
    assert headway("resume", "run").code == 0
    assert json.loads(headway("predict", "run", TEXTS[0], "--json").out)[0]["label"] in LABELS


def test_a_comparison_goes_on_with_data_from_memory(own_folder: Path) -> None:
    options: dict[str, Any] = {"vary": {"model.norm": ["pre", "post"]}, "seeds": 1, "out": "study", "progress": False}
    first = hw.compare("classify", data=(TEXTS, NAMES), settings=SETTINGS, **options)
    again = hw.compare("classify", data=(TEXTS, NAMES), settings=SETTINGS, **options)
    assert [row.scores for row in first.rows] == [row.scores for row in again.rows]


def test_a_data_set_has_names_for_its_labels(own_folder: Path) -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=LABELS)})
    rows = [{"text": text, "label": LABELS.index(name)} for text, name in zip(TEXTS, NAMES, strict=True)]
    model = hw.train("classify", data=datasets.Dataset.from_list(rows, features=features), out="run", **SMALL)
    assert model.labels == LABELS


def test_pairs_inside_a_column(own_folder: Path) -> None:
    rows = [{"translation": {"en": text, "de": text.upper()}} for text in TEXTS]
    data = {"train": datasets.Dataset.from_list(rows), "columns": "en,de", "vocab_size": 320, "validation": 0.2}
    assert hw.train("translate", data=data, out="run", **SMALL).run.is_done


@pytest.mark.parametrize("series", [pandas.Series, polars.Series, np.array, tuple])
def test_texts_alone(series: Any, own_folder: Path) -> None:
    data = {"train": series(TEXTS) if series is not tuple else iter(TEXTS), "validation": 0.2, "vocab_size": 300}
    assert hw.train("language", data=data, settings={"data.window": 16}, out="run", **SMALL).run.is_done


def test_integer_labels_stay_integers(tmp_path: Path) -> None:
    """In Python; the files of a run have them as integers, too."""
    texts = [f"a {word} film {number}" for number in range(20) for word in ("good", "bad")]
    labels = [1, 0] * 20
    seen: list[object] = []

    def exact(true: Sequence[object], said: Sequence[object]) -> float:
        seen.extend([*true, *said])
        return float(np.mean([left == right for left, right in zip(true, said, strict=True)]))

    for own in (labels, np.array(labels)):
        model = hw.train(
            "classify",
            data=(texts, own),
            model={"layers": 0, "width": 8},
            train={"steps": 3},
            metrics={"exact": exact},
            out=tmp_path / "run",
        )
        for each in (model, hw.load(model.run.folder)):
            assert each.labels == [0, 1]
            prediction = each.predict("a good film")
            assert type(prediction.label) is int
            assert list(prediction.probabilities) == [0, 1]
            assert type(each.explain("a good film").label) is int
            assert each.probabilities("a good film").sum() == pytest.approx(1)
        assert model.evaluate((texts, own))
    assert set(map(type, seen)) == {int}
    words = hw.train("classify", data=(texts, ["1", "0"] * 20), model={"layers": 0}, train={"steps": 1}, out=tmp_path)
    assert words.labels == ["0", "1"]
