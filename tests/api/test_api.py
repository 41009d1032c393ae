"""The Python API: the same result by every way in, parts and metrics of one's own, and one clear line for bad use."""

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from test_memory import NAMES, SETTINGS, SMALL, TEXTS, same_bits
from torch import Tensor, nn

import headway as hw
from conftest import Outcome, write_reviews, write_texts
from headway import recipes
from headway.data.memory import NAME
from headway.metrics.classification import METRICS
from headway.metrics.table import Table
from headway.recipes import registry
from headway.sklearn import TextClassifier
from trained import Trained

Headway = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def in_own_folder(own_folder: Path) -> None:
    """Every test has a folder of its own."""


def test_import_is_quick_because_it_imports_nothing_heavy() -> None:
    script = "import sys, headway; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"torch", "numpy", "click", "rich", "sklearn"} & set(modules)


def test_listing_recipes_makes_no_model() -> None:
    """Which would import torch's compiler, for seconds."""
    script = "import sys, headway as hw; hw.list_recipes(); print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_the_command_line_python_and_scikit_learn_give_the_same_bits(headway: Headway) -> None:
    reviews = write_reviews(Path("reviews.csv"))
    rows = [line.rpartition(",") for line in reviews.read_text().splitlines()[1:]]
    texts, labels = [text.strip('"') for text, _, _ in rows], [label for _, _, label in rows]
    assert headway("train", "classify", f"data.train={reviews}", *SETTINGS, "--out", "cli").code == 0
    hw.train("classify", data=reviews, settings=SETTINGS, out="python", progress=False)
    hw.train("classify", data=(texts, labels), settings=SETTINGS, out="memory", progress=False)
    classifier = TextClassifier(settings=SETTINGS, out="sklearn").fit(texts, labels)
    assert all(same_bits("cli", other) for other in ("python", "memory", "sklearn"))
    predictions = hw.load("cli").predict(texts)
    assert classifier.predict(texts).tolist() == [prediction.label for prediction in predictions]
    assert [vars(each) for each in hw.load("sklearn").predict(texts)] == [vars(each) for each in predictions]


def test_one_text_gives_one_answer(trained: Trained) -> None:
    parity = trained["parity"]
    one, (listed,) = parity.predict("0110"), parity.predict(["0110"])
    assert one == listed
    assert parity.probabilities("0110") == pytest.approx(parity.probabilities(["0110"])[0])
    assert parity.probabilities([]).shape == (0, 2)
    assert parity.embed("0110") == pytest.approx(parity.embed(["0110"])[0])
    assert parity.embed([]).shape == (0, 8)
    assert parity.predict([]) == []
    letters = trained["letters"]
    assert (
        letters.generate("ab", max_new_tokens=3, seed=5) == letters.generate(["x", "ab"], max_new_tokens=3, seed=4)[1]
    )
    numbers = trained["numbers"]
    assert numbers.translate("de one") == numbers.translate(["de one"])[0] == numbers.beam_search("de one")[0].text
    assert numbers.translate([]) == []
    assert numbers.translate(["", "de one"])[0] == ""


def test_abilities_are_what_works(trained: Trained) -> None:
    assert trained["vectors_model"].abilities == ["embed", "vectors"]
    assert trained["numbers"].abilities == ["embed", "attention", "beam_search", "translate", "align"]
    recurrent = hw.train("parity", model={"mixer": "lstm", "width": 8}, **quick())
    assert recurrent.abilities == ["predict", "probabilities", "explain", "embed"]
    with pytest.raises(hw.Problem, match="has no attention"):
        recurrent.attention("0110")


@pytest.mark.parametrize("size", [1, 2, 7])
def test_predictions_do_not_depend_on_the_batch_size(size: int, trained: Trained) -> None:
    texts = [f"{number:08b}" for number in range(7)]
    one, other = trained["parity"].predict(texts), trained["parity"].predict(texts, batch_size=size)
    assert [each.label for each in one] == [each.label for each in other]
    assert [each.probability for each in one] == pytest.approx([each.probability for each in other])
    assert list(trained["parity"].predict_iter(iter(texts), batch_size=size)) == other


def test_a_stream_of_empty_texts_has_no_labels(trained: Trained) -> None:
    predictions = trained["parity"].predict_iter(iter(["", " ", "01"]), batch_size=2)
    assert [each.label is None for each in predictions] == [True, True, False]


def test_files_of_texts_are_paths(trained: Trained) -> None:
    Path("strings.txt").write_text("0110\n0111\n")
    assert [each.text for each in trained["parity"].predict(Path("strings.txt"))] == ["0110", "0111"]


# --- vectors of texts


def test_the_vector_of_a_text_is_what_the_head_reads(trained: Trained) -> None:
    parity = trained["parity"]
    head: Any = parity.network.head
    vectors = torch.from_numpy(parity.embed(["0110", "01101001"]))
    with torch.no_grad():
        probabilities = head(vectors.to(head.weight.device)).softmax(dim=-1)
    assert probabilities.cpu().numpy() == pytest.approx(parity.probabilities(["0110", "01101001"]), abs=1e-6)


@pytest.mark.parametrize("name", ["letters", "masked", "critic", "numbers", "vectors_model"])
def test_vectors_of_texts_alone_and_together(name: str, trained: Trained) -> None:
    """Padding changes nothing."""
    model = trained[name]
    texts = {"letters": ["a", "abb"], "critic": ["a", "abb"], "numbers": ["de one", "en zwei und mehr"]}.get(
        name, ["the plot was not dull .", "really"]
    )
    alone = np.stack([model.embed(text) for text in texts])
    assert model.embed(texts) == pytest.approx(alone, abs=1e-5)
    assert alone.shape == (2, 8)
    with pytest.raises(hw.Problem, match="text 2"):
        model.embed([texts[0], ""])


def test_the_vector_of_a_text_is_the_mean_of_its_states(trained: Trained) -> None:
    letters = trained["letters"]
    network: Any = letters.network
    task: Any = letters.run.task
    tokens = torch.tensor([task.tokenizer.encode(["aab"])[0].tolist()])
    states: list[Tensor] = []
    hook = network.stack.register_forward_hook(lambda module, inputs, output: states.append(output))
    with torch.no_grad():
        network(tokens)
    hook.remove()
    assert letters.embed("aab") == pytest.approx(states[0][0].mean(dim=0).numpy(), abs=1e-6)


# --- parts, metrics and rewards of one's own


class Squared(nn.Module):
    def __init__(self, width: int, hidden: int, power: int = 2):
        super().__init__()
        self.inner, self.outer, self.power = nn.Linear(width, hidden), nn.Linear(hidden, width), power

    def forward(self, x: Tensor, context: object = None) -> Tensor:
        return self.outer(self.inner(x).relu() ** self.power)


def test_a_class_is_a_part(trained: Trained) -> None:
    model = hw.train("parity", model={"feedforward": Squared, "width": 8}, **quick(), out="run")
    assert any(isinstance(part, Squared) for part in model.network.modules())
    assert model.run.recipe.model.feedforward == "Squared"
    varied = hw.train("parity", model={"feedforward": "Squared(power=3)", "width": 8}, **quick())
    assert next(part for part in varied.network.modules() if isinstance(part, Squared)).power == 3


def test_classes_can_be_compared() -> None:
    settings = {"train.steps": 1, "model.width": 8, **quick()["settings"]}
    vary = {"model.feedforward": [Squared, "relu"]}
    study = hw.compare("parity", vary=vary, seeds=1, settings=settings, progress=False)
    assert [row.variant for row in study.rows] == ["feedforward=Squared", "feedforward=relu"]


def test_a_run_with_a_part_of_ones_own_says_what_it_needs() -> None:
    hw.train("parity", model={"feedforward": Squared, "width": 8}, **quick(), out="run")
    registry.tables_of("model.feedforward")[0].pop("Squared")
    with pytest.raises(hw.Problem, match=r"no such choice 'Squared'.*headway.register\('model.feedforward', \.\.\.\)"):
        hw.load("run")
    hw.register("model.feedforward", Squared)
    assert hw.load("run").predict("0110").label


def test_a_module_without_a_context_is_a_part() -> None:
    def two_layers(width: int, hidden: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    model = hw.train("parity", model={"feedforward": two_layers, "width": 8}, **quick())
    assert any(isinstance(part, nn.Sequential) for part in model.network.modules())
    assert model.predict("0110").label


def test_a_run_is_used_where_its_metrics_are_not_known() -> None:
    hw.train("parity", metrics={"mine": share_of_yes}, model={"width": 8}, **quick(), out="run")
    METRICS.pop("mine")
    model = hw.load("run")
    assert model.predict("0110").label
    with pytest.raises(hw.Problem, match=r"train\.metrics: no such choice 'mine'"):
        model.evaluate()


def test_a_device_and_a_tokenizer_can_be_asked_for(trained: Trained) -> None:
    assert next(hw.load(trained["letters"].run.folder, device="cpu").network.parameters()).device.type == "cpu"
    assert trained["letters"].tokenizer.decode(trained["letters"].tokenizer.encode(["ab"])[0].tolist()) == "ab"
    with pytest.raises(hw.Problem, match="does not read text"):
        _ = trained["parity"].tokenizer


def test_groups_of_a_beam_differ(trained: Trained) -> None:
    options: Any = {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 3}
    diverse = trained["letters"].beam_search("a", num_beam_groups=2, diversity_penalty=100.0, **options)
    assert len({each.text[:1] for each in diverse}) == 2


def test_a_prompt_that_ends_with_a_space_is_doubtful(trained: Trained) -> None:
    assert trained["letters"].doubts(["a "]) == []  # of characters
    texts = [f"the {word} was good" for word in ("plot", "music", "cast", "story")] * 5
    data = {"train": texts, "validation": 0.2, "vocab_size": 300, "window": 16}
    language = hw.train("language", data=data, model={"layers": 1, "width": 8, "heads": 2}, train={"steps": 2})
    assert language.doubts(["the", "the "]) == [
        "text 2: ends with a space, which belongs to the next token: leave it out"
    ]


def test_a_table_prints_as_one() -> None:
    assert str(Table(["name", "count"], [("a", 1), ("long", 1000)])) == "name  count\na         1\nlong  1,000"


def test_registered_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hw.register("model.feedforward", Squared) == "Squared"
    assert hw.register("model.feedforward", Squared) == "Squared"  # a cell that is run again
    assert hw.register("data.reward", lambda prompts, answers: [0.0]) == "my_reward"  # reward is a recipe
    assert hw.register("train.metrics", lambda targets, predicted: 0.0, name="zero") == "zero"
    with pytest.raises(hw.Problem, match="has a choice 'relu' already"):
        hw.register("model.feedforward", Squared, name="relu")
    with pytest.raises(
        hw.Problem, match=r"model.fedforward: it does not choose a part; did you mean 'model.feedforward'"
    ):
        hw.register("model.fedforward", Squared)
    with pytest.raises(hw.Problem, match="entry=3 is not a function"):
        hw.register("model.feedforward", 3)  # type: ignore[arg-type]


def share_of_yes(targets: Sequence[str], predicted: Sequence[str]) -> float:
    return predicted.count("odd") / len(predicted)


def test_metrics_of_ones_own_are_measured_and_stopped_on() -> None:
    model = hw.train(
        "parity",
        metrics=["f1", share_of_yes],
        train={"steps": 4, "evaluate_every": 2, "stop_on": "share_of_yes", "patience": 3},
        settings=quick()["settings"],
        out="run",
        progress=False,
    )
    predictions = model.run.predictions()
    assert predictions is not None
    for name, metrics in model.metrics.items():
        assert metrics["share_of_yes"] == pytest.approx(predictions[name].predicted.mean())
    assert "validation/uniform/share_of_yes" in model.run.history()[-1]
    assert model.evaluate()["uniform"]["f1"] == model.evaluate()["uniform"].details["f1"]


def test_a_metric_that_fails_saves_no_step_under_the_number_of_another() -> None:
    """The weights are those of step 3, in which it is measured, and the log has two steps."""

    def fails(targets: Sequence[str], predicted: Sequence[str]) -> float:
        raise ValueError("no")

    with pytest.raises(hw.Problem, match="the metric fails failed"):
        hw.train(
            "parity",
            metrics=[fails],
            train={"steps": 6, "evaluate_every": 3, "log_every": 1},
            settings=quick()["settings"],
            out="run",
            progress=False,
        )
    assert list(Path("run/checkpoints").glob("step-*")) == []


def test_metrics_of_translations() -> None:
    def same_length(references: Sequence[str], translations: Sequence[str]) -> float:
        return float(np.mean([len(one) == len(other) for one, other in zip(references, translations, strict=True)]))

    model = hw.train(
        "numbers",
        metrics={"same_length": same_length},
        settings={"data.examples": 60, "data.tests": 5, "train.steps": 1},
    )
    assert 0 <= model.metrics["unseen"]["same_length"] <= 1


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda targets, predicted: 1 / 0, "the metric metrics failed: ZeroDivisionError"),
        (lambda targets, predicted: float("nan"), "the metric metrics is nan: it must be a finite number"),
    ],
)
def test_a_metric_that_fails_says_so(metric: Any, message: str) -> None:
    with pytest.raises(hw.Problem, match=message):
        hw.train("parity", metrics=metric, **quick())


def test_tasks_without_labels_take_no_metrics() -> None:
    texts = write_texts(Path("texts"))
    with pytest.raises(hw.Problem, match=r"train\.metrics: language neither labels nor translates"):
        hw.train("language", data=texts, metrics=["f1"])


def quick() -> dict[str, Any]:
    return {
        "train": {"steps": 2, "warmup": 1},
        "settings": {"data.examples": 60, "data.tests": 20, "model.layers": 1, "model.heads": 2},
        "progress": False,
    }


# --- scikit-learn


def classifier(**options: Any) -> TextClassifier:
    return TextClassifier(**({"model": SMALL["model"], "train": SMALL["train"]} | options))


def test_scikit_learn_uses_it_as_its_own() -> None:
    stars = np.array([5 if name == "positive" else 1 for name in NAMES])
    scores = cross_val_score(classifier(), TEXTS, stars, cv=2)
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    grid = GridSearchCV(classifier(), {"model": [{"layers": 0}, {"layers": 1, "width": 8, "heads": 2}]}, cv=2)
    assert grid.fit(TEXTS, stars).predict(TEXTS[:3]).dtype == stars.dtype
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("classify", classifier())]).fit(TEXTS, stars)
    assert set(pipeline.predict(TEXTS)) <= {1, 5}
    assert pipeline.score(TEXTS, stars) == pytest.approx(np.mean(pipeline.predict(TEXTS) == stars))


def test_probabilities_follow_the_classes() -> None:
    """Ten comes after nine as a number, and before it as a text."""
    labels = np.array(["10", "9"] * 40)
    fitted = classifier().fit(TEXTS, labels)
    assert fitted.classes_.tolist() == ["10", "9"]
    assert fitted.model_.labels == ["9", "10"]
    probabilities = fitted.predict_proba(TEXTS)
    assert probabilities[:, 0] == pytest.approx(fitted.model_.probabilities(TEXTS)[:, 1])
    assert fitted.predict(TEXTS).tolist() == [fitted.classes_[row.argmax()] for row in probabilities]


def test_a_fitted_classifier_can_be_pickled_and_leaves_nothing_behind() -> None:
    fitted = classifier().fit(np.array(TEXTS)[:, None], NAMES)
    folder = fitted.model_.run.folder
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.predict_proba(TEXTS) == pytest.approx(fitted.predict_proba(TEXTS))
    assert folder.exists()
    del fitted
    assert not folder.exists()
    assert copy.predict(TEXTS[:2]).shape == (2,)
    assert not Path("runs").exists()


def test_single_settings_are_parameters() -> None:
    grid = GridSearchCV(classifier(), {"train__learning_rate": [1e-3, 1e-2], "model__width": [8]}, cv=2)
    best = grid.fit(TEXTS, NAMES).best_estimator_
    assert best.model_.run.recipe.train.learning_rate == grid.best_params_["train__learning_rate"]
    assert best.model_.run.recipe.model.layers == SMALL["model"]["layers"]  # the others stay
    assert classifier(random_state=7).fit(TEXTS, NAMES).model_.run.recipe.train.seed == 7
    own = classifier(random_state=np.random.RandomState(7)).fit(TEXTS, NAMES)
    assert own.model_.run.recipe.train.seed == np.random.RandomState(7).randint(2**31)


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA])
def test_missing_labels_are_found(missing: Any) -> None:
    with pytest.raises(hw.Problem, match="y has no label in row 1"):
        classifier().fit(TEXTS[:3], ["a", missing, "b"])


def test_what_is_not_fitted_cannot_predict() -> None:
    for use in (classifier().predict, classifier().predict_proba, lambda texts: classifier().score(texts, NAMES)):
        with pytest.raises(NotFittedError):
            use(TEXTS)
    fitted = classifier().fit(pandas.DataFrame({"x": TEXTS}), pandas.DataFrame({"y": NAMES}))
    assert fitted.predict(pandas.Series(TEXTS[:2])).shape == (2,)
    with pytest.raises(hw.Problem, match="y has 2 columns"):
        classifier().fit(TEXTS, pandas.DataFrame({"y": NAMES, "z": NAMES}))


def test_scikit_learn_repeats_the_parameters() -> None:
    parameters = classifier(data={"max_length": 9}).get_params()
    assert {name for name in parameters if "__" not in name} == set(inspect.signature(TextClassifier).parameters)
    assert parameters["data__max_length"] == 9
    assert classifier(data={"max_length": 9}).fit(TEXTS, NAMES).model_.run.recipe.data.max_length == 9


# --- bad use


def no_part(*arguments: object, width: int = 0) -> int:
    return 3


def raising(*arguments: object) -> int:
    raise ZeroDivisionError("division by zero")


def one_text() -> Iterator[str]:
    yield "0110"
    raise ValueError("the server is gone")


untyped: Any = hw  # to call it as nobody should
BAD: dict[str, tuple[Callable[[Any], object], str]] = {
    "unknown recipe": (lambda its: untyped.train("partiy"), "no recipe 'partiy'"),
    "unknown key": (lambda its: untyped.train("parity", model={"widht": 8}), "did you mean 'model.width'"),
    "wrong type": (lambda its: untyped.train("parity", train={"steps": "many"}), "'many' is not a whole number"),
    "a list": (lambda its: untyped.train("parity", model={"layers": [1, 2]}), "[1, 2] is not a number, a text"),
    "no section": (lambda its: untyped.train("parity", model=3), "3 is not a dict of settings"),
    "settings as a text": (
        lambda its: untyped.train("parity", settings="a=b"),
        "is not a list of texts or a dict",
    ),
    "given twice": (
        lambda its: untyped.train("classify", data={"train": (TEXTS, NAMES), "test": 0.2}, test=0.1),
        "data.test: given twice",
    ),
    "no run": (lambda its: untyped.load("nowhere"), "nowhere does not exist"),
    "no such start": (lambda its: untyped.train("classify", start="nowhere", data=(TEXTS, NAMES)), "is not a run"),
    "generate with a classifier": (lambda its: its["parity"].generate("0"), "does not generate text; try"),
    "predict with a language model": (lambda its: its["letters"].predict("a"), "does not label texts"),
    "translate with a classifier": (lambda its: its["parity"].translate("0"), "does not translate"),
    "generate with a translator": (lambda its: its["numbers"].generate("de one"), "use translate"),
    "vectors of a classifier": (lambda its: its["parity"].vectors, "does not learn word vectors"),
    "an empty text": (lambda its: its["parity"].predict(["01", " "]), "text 2 is empty"),
    "numbers for texts": (lambda its: its["parity"].predict(["01", 1]), "predict: texts[1]=1 is not a text"),
    "a number for texts": (lambda its: its["parity"].predict(3), "texts=3 is not a text, a path or a list of texts"),
    "answers without prompts": (lambda its: its["critic"].rate(["a"], ["b", "c"]), "1 prompts and 2 answers"),
    "sampling": (lambda its: its["letters"].generate("a", top_p=2), "top_p=2 is not a probability"),
    "a shot": (lambda its: its["letters"].ask("a", shots=[{"q": "a"}]), "is not an example"),
    "a reward that raises": (
        lambda its: its["letters"].best_of(["a"], 2, lambda prompts, answers: [1 / 0]),
        "failed: ZeroDivisionError",
    ),
    "evaluate on labels of another kind": (
        lambda its: its["parity"].evaluate((["0110"], ["maybe"])),
        "unknown label 'maybe'",
    ),
    "a frame of texts": (
        lambda its: its["parity"].predict(pandas.DataFrame({"x": ["01"]})),
        "pass one of them",
    ),
    "a list for a text": (lambda its: its["parity"].explain(["01"]), "explain: text=['01'] is not a text"),
    "a list to attend to": (lambda its: its["parity"].attention(["01"]), "is not a text"),
    "a list for a stream": (lambda its: its["letters"].stream(["a"]), "stream: prompt=['a'] is not a text"),
    "a number for a prompt": (lambda its: its["letters"].generate([1]), "prompts[0]=1 is not a text"),
    "a number of prompts": (lambda its: its["letters"].generate(3), "prompts=3 is not a text or a list of texts"),
    "no new tokens": (lambda its: its["letters"].generate("a", max_new_tokens=-1), "max_new_tokens=-1"),
    "half a token": (lambda its: its["letters"].beam_search("a", max_new_tokens=0), "max_new_tokens=0"),
    "no beam": (lambda its: its["letters"].beam_search("a", num_beams=0), "a beam of width 0"),
    "a text for a beam": (
        lambda its: its["letters"].beam_search("a", num_beams="3"),
        "num_beams='3' is not",
    ),
    "more than the beam": (
        lambda its: its["letters"].beam_search("a", num_beams=2, num_return_sequences=3),
        "best=3 is not from 1 to 2",
    ),
    "a text for a temperature": (
        lambda its: its["letters"].generate("a", temperature="hot"),
        "'hot' is not a number",
    ),
    "no such device": (lambda its: untyped.load(its["parity"].run, device="tpu"), "there is no device 'tpu'"),
    "steps and epochs": (lambda its: untyped.train("parity", train={"steps": 5, "epochs": 1}), "set one of them"),
    "given in two places": (
        lambda its: untyped.train("parity", train={"steps": 5}, settings={"train.steps": 6}),
        "train.steps: given twice",
    ),
    "an instance for a class": (
        lambda its: untyped.train("parity", model={"feedforward": nn.Linear(2, 2)}),
        "pass the class Linear, not an instance",
    ),
    "a model for a folder": (lambda its: untyped.from_transformers(its["parity"]), "is not a text or a path"),
    "another library's name": (
        lambda its: untyped.train("parity", train={"lr": 1}),
        "did you mean 'train.learning_rate'",
    ),
    "vary a text": (lambda its: untyped.compare("parity", vary={"model.norm": "pre"}), "'pre' is not a list of values"),
    "vary as a text": (
        lambda its: untyped.compare("parity", vary="model.norm=pre"),
        "is not a dict or a list",
    ),
    "export to nothing": (lambda its: its["parity"].export("folder", to="jax"), "no such format 'jax'"),
    "a layer too many": (lambda its: its["parity"].attention("01").plot(3), "there is no layer 3"),
    "vectors that exist": (lambda its: its["vectors_model"].vectors.save("there.txt"), "exists already"),
    "unknown format": (lambda its: its["vectors_model"].vectors.save("new.txt", to="csv"), "no such format"),
    "no recipe": (lambda its: untyped.train(None), "train: recipe=None is not a text or a path"),
    "a setting as an argument": (
        lambda its: untyped.train("parity", epochs=3),
        "no argument 'epochs'; did you mean train={'epochs': ...}?",
    ),
    "no argument": (lambda its: untyped.train(), "train: missing a required argument: 'recipe'"),
    "a number for settings": (lambda its: untyped.train("parity", settings=[3]), "settings[0]=3 is not a text"),
    "a network to start from": (
        lambda its: untyped.train("classify", start=its["parity"].network, data=(TEXTS, NAMES)),
        "is not a text, a path, a Run, a Model or None",
    ),
    "a word for progress": (lambda its: untyped.train("parity", progress="yes"), "progress='yes' is not True or False"),
    "a number for metrics": (
        lambda its: untyped.train("parity", metrics=3),
        "metrics=3 is not a text, a function",
    ),
    "a part that is none": (lambda its: untyped.train("parity", model={"feedforward": no_part}), "not a torch module"),
    "no name": (lambda its: untyped.register("train.metrics", no_part, "a b"), "'a b' is not a name"),
    "nothing to load": (lambda its: untyped.load(None), "load: run=None is not a Run, a text or a path"),
    "no folder": (lambda its: untyped.Run(None), "folder=None is not a text or a path"),
    "empty batches": (lambda its: its["parity"].predict(["01"], batch_size=0), "batch_size=0 is too small"),
    "a seed of 71 bits": (lambda its: its["letters"].generate("a", seed=2**70), "is too large"),
    "a seed below zero": (lambda its: its["letters"].generate("a", seed=-1), "seed=-1 is not a random seed"),
    "half a seed": (lambda its: its["letters"].generate("a", seed=0.5), "seed=0.5 is not a whole number"),
    "best of nothing": (lambda its: its["letters"].best_of("a", 0, no_part), "n=0 is too small: at least 1"),
    "a misspelt option": (
        lambda its: its["letters"].best_of("a", 2, no_part, temprature=1),
        "no argument 'temprature'; did you mean 'temperature'?",
    ),
    "shots as texts": (lambda its: its["letters"].ask("a", shots=["x"]), "shots[0]='x' is not a Shot or a dict"),
    "no seeds": (lambda its: untyped.compare("parity", seeds=0), "seeds=0 is too small"),
    "texts to score": (lambda its: untyped.bleu("a", "b"), "bleu: texts='a' is not a list of texts"),
    "what has no attention": (lambda its: untyped.watch_attention(its["parity"]), "is not a Module"),
    "a layer by name": (lambda its: its["parity"].attention("01").plot("first"), "layer='first' is not a whole number"),
    "a series with a hole": (lambda its: its["parity"].predict(pandas.Series(["01", None])), "predict: texts[1]="),
    "a column of frames": (
        lambda its: its["letters"].generate(polars.DataFrame({"x": ["a"]})),
        "has columns: pass one",
    ),
    "texts that raise": (
        lambda its: its["parity"].embed(one_text()),
        "raised an exception after 1 items: ValueError: the server is gone",
    ),
    "a stream that raises": (
        lambda its: list(its["parity"].predict_iter(one_text())),
        "the texts raised an exception after 1 texts: ValueError: the server is gone",
    ),
    "a stream of numbers": (lambda its: list(its["parity"].predict_iter(iter([1]))), "text 1 is 1: pass a string"),
    "true for a number": (lambda its: its["letters"].generate("a", top_k=True), "top_k=True is not a whole number"),
    "a temperature that is none": (
        lambda its: its["letters"].generate("a", temperature=float("nan")),
        "temperature=nan is not a finite number",
    ),
    "a broken character": (lambda its: its["letters"].embed(["ab", "\ud800"]), "text 2 is not valid UTF-8"),
    "a broken word": (lambda its: untyped.ngrams("\ud800"), "broken character"),
    "a broken folder": (lambda its: untyped.train("parity", out="a\0b"), "null character"),
    "two lines": (lambda its: untyped.load("no\nwhere"), "no\\x0awhere does not exist"),
    "no candidates": (lambda its: its["masked"].fill("the [MASK]", top=0), "top=0 is too small"),
    "no groups": (lambda its: its["masked"].senses("dull", ["dull"], groups=0), "groups=0 is too small"),
    "more tokens than there are": (
        lambda its: its["letters"].generate("a", max_new_tokens=10**13),
        "from 1 to 100,000,000",
    ),
    "a beam too wide": (lambda its: its["letters"].beam_search("a", num_beams=10**9), "is too wide: at most"),
    "a vector of a number": (lambda its: its["vectors_model"].vectors.vector(3), "vector: word=3 is not a text"),
    "a run of a model": (lambda its: untyped.Run(its["parity"]), "Run: folder=<Model"),
    "no texts at all": (lambda its: untyped.train_tokenizer({}), "there are no texts"),
    "no reach": (lambda its: untyped.gradient_reach("parity", length=0), "length=0 is too small"),
    "a goal": (lambda its: untyped.search("parity", goal="good"), "goal 'good' is not of the form"),
    "a metric that there is": (
        lambda its: untyped.train("parity", metrics={"accuracy": share_of_yes}),
        "train.metrics: accuracy is measured already",
    ),
    "a keyword as a name": (lambda its: untyped.register("model.feedforward", Squared, "class"), "is not a name"),
    "settings of scikit-learn": (lambda its: classifier(data=3).fit(TEXTS, NAMES), "data=3 is not a dict of settings"),
    "a matrix of counts": (
        lambda its: classifier().fit(scipy.sparse.eye(3).tocsr(), NAMES[:3]),
        "pass a list of texts",
    ),
    "no files": (lambda its: untyped.train_tokenizer([]), "there are no texts: name a file"),
    "no references": (lambda its: untyped.bleu(["a"]), "no references to score against"),
    "an endless penalty": (lambda its: its["letters"].beam_search("a", length_penalty=1e30), "is not from -50 to 50"),
    "nothing to validate on": (
        lambda its: untyped.train("classify", data=(TEXTS, NAMES), validation=""),
        "data.validation: is empty: name a file, or set a share",
    ),
    "an array for a setting": (
        lambda its: untyped.train("parity", train={"steps": np.array([1, 2])}),
        "train.steps: array([1, 2]) is not a number",
    ),
    "a frame for a setting": (
        lambda its: untyped.train("parity", train={"steps": pandas.DataFrame({"a": [1]})}),
        "train.steps: a 0 1 is not a number",
    ),
    "numbers for settings": (lambda its: untyped.train("parity", settings=range(2)), "settings[0]=0 is not a text"),
    "a part of the wrong kind": (
        lambda its: untyped.train("parity", model={"position": no_part}),
        "model.position: 'no_part' makes 3, not a Position",
    ),
    "a part that raises": (
        lambda its: untyped.train("parity", model={"embedding": raising}),
        "model.embedding: 'raising' failed: ZeroDivisionError: division by zero",
    ),
    "a part that says nothing": (
        lambda its: untyped.train("parity", model={"mixer": int}),
        "model.mixer: 'int' does not say what it takes",
    ),
    "an optimizer alone": (
        lambda its: untyped.train("parity", train={"optimizer": no_part}),
        "train.optimizer: 'no_part' makes 3, not a list",
    ),
    "a long text of other symbols": (lambda its: its["parity"].predict("c" * 9999), "'c' in 'ccc"),
    "rewards of a classifier": (lambda its: its["parity"].evaluate().plot_rewards(), "only evaluations of classifiers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_use_is_a_problem_in_one_line(name: str, trained: Trained) -> None:
    Path("there.txt").touch()
    use, message = BAD[name]
    with pytest.raises(hw.Problem) as problem:
        use(trained)
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 500
    assert not NAME.search(str(problem.value))


def test_an_unknown_recipe_is_said_once() -> None:
    with pytest.raises(hw.Problem, match=r"^no recipe 'clasify': .* did you mean 'classify'\?$"):
        hw.train("clasify", data=(TEXTS, NAMES))


def test_a_tokenizer_says_how_many_tokens_it_has(trained: Trained) -> None:
    assert repr(trained["letters"].tokenizer) == f"<Tokenizer of {len(trained['letters'].tokenizer)} tokens>"


def test_settings_survive_the_way_from_python() -> None:
    """Texts with white space, quotes or equals signs, numbers, booleans and None."""
    values = {"data.separator": "\t", "data.encoding": "utf-8", "train.learning_rate": 1e-4 / 3, "model.bias": False}
    values |= {"train.grad_clip": None, "data.group": ' "a" = b ', "train.steps": np.int64(7)}
    Path("x.tsv").write_text("text\tlabel\na\tb\n")
    overrides = [f"data.train={Path('x.tsv')}", *hw.api.settings.texts_of(values)]
    recipe = recipes.load("classify", overrides)
    assert (recipe.data.separator, recipe.data.group) == ("\t", ' "a" = b ')
    assert (recipe.train.learning_rate, recipe.model.bias) == (1e-4 / 3, False)
    assert (recipe.train.grad_clip, recipe.train.steps) == (None, 7)


def test_ctrl_c_saves_the_run_and_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import headway as hw, os, pathlib, signal, threading, time\n"
        "def interrupt():\n"
        "    log = pathlib.Path('run/metrics.jsonl')\n"
        "    while not (log.exists() and log.stat().st_size):\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        "    hw.train('parity', train={'steps': 10**6}, model={'width': 8}, out='run', progress=False)\n"
        "except KeyboardInterrupt as stop:\n"
        "    print(type(stop).__name__, stop)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Interrupted stopped at step ")
    assert "and saved: headway.Run('run').resume() continues" in done.stdout
    assert hw.Run("run").newest()[0] is not None
