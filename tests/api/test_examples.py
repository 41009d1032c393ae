"""Every public name has a type, a docstring and an example, and the examples run."""

import doctest
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from headway import sklearn
from trained import Trained

PLAIN = {"__version__", "Problem", "Interrupted"}  # and data classes, which methods return
RESULTS = {
    *("Baselines", "Prediction", "Evaluation", "Evaluations", "Hypothesis", "Completion", "Candidate"),
    *("RecipeSummary", "Plan", "ParallelLesson", "Tagging", "TaggedWord", "TaggedSpan"),
}
OWNERS: list[Any] = [hw.Model, hw.Run, hw.WordVectors]


def public() -> Iterator[tuple[str, Any]]:
    for name in hw.__all__:
        if name not in PLAIN | RESULTS:
            yield name, getattr(hw, name)
    for owner in OWNERS:
        for name, member in inspect.getmembers(owner, callable):
            if not name.startswith("_") and member.__module__.startswith("headway.api"):
                yield f"{owner.__name__}.{name}", member
    yield "TextClassifier", sklearn.TextClassifier
    for name in ("abilities", "next_command"):
        yield name, vars(hw.Run)[name].fget


INTERNAL = {  # methods that only other parts of the package call
    *("Model.reading", "Model.evaluate_set", "Model.quantized", "Model.generator", "Model.predictor"),
    *("Model.engine", "Model.greedy_texts", "Model.process_file", "Run.of", "WordVectors.of"),
}
NAMES = dict(pair for pair in public() if pair[0] not in INTERNAL)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_types_and_an_example_that_runs(
    name: str, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = NAMES[name]
    function = entry.__init__ if inspect.isclass(entry) else entry
    assert all(
        each.annotation is not inspect.Parameter.empty and not isinstance(each.annotation, str)  # it is checked
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls", "args", "kwargs")
    )
    text = inspect.getdoc(entry) or ""
    examples = doctest.DocTestParser().get_examples(text)
    assert examples, f"{name} has no example"
    words = set(re.findall(r"\w+", "".join(example.source for example in examples)))
    known = ("parity", "letters", "masked", "critic", "numbers")
    models: dict[str, Any] = {each: trained[each] for each in known if each in words}
    if "vectors" in words:
        models["vectors"] = trained["vectors_model"].vectors
    names = {"hw": hw, "Path": Path, **models}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    monkeypatch.chdir(trained.folder)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


def test_results_have_docstrings_or_fields_that_say_what_they_are() -> None:
    for name in RESULTS:
        entry = getattr(hw, name)
        assert inspect.getdoc(entry)
        assert entry.__annotations__ or issubclass(entry, dict)


def test_help_lists_every_public_name() -> None:
    shown = pydoc.plain(pydoc.render_doc(hw))
    assert "workshop for sequence models" in shown
    for name in set(hw.__all__) - {"__version__"}:
        assert re.search(rf"^ {{4}}(class )?{name}\b", shown, re.MULTILINE), name
    assert set(hw.__all__) <= set(dir(hw))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        hw.trian  # noqa: B018
