"""The house: what holds over the source as a whole, read off its syntax trees."""

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from conftest import write_reviews
from headway import recipes
from headway.data.batch import Batch
from headway.models.heads import HEADS, Head
from headway.runs import pipeline
from headway.tasks import TASKS
from headway.tasks.task import Task

SOURCE = Path(recipes.__file__).parent.parent
FILES = sorted(SOURCE.rglob("*.py"))
OUTSIDE = [path for path in FILES if path.relative_to(SOURCE).parts[0] not in ("tasks", "__main__.py")]
ASKED = {"task", "model", "network", "batch", "policy"}  # what variables and attributes of these kinds are called


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def is_model(kind: type) -> bool:
    """Whether it is a whole model, and not a part of one."""
    is_ours = kind.__module__.startswith(("headway.models", "headway.tasks"))
    return issubclass(kind, nn.Module) and is_ours and not issubclass(kind, Head) and kind not in HEADS.values()


def classes_in(node: ast.expr, names: dict[str, Any]) -> Iterator[type]:
    for each in ast.walk(node):
        kind = names.get(last_name(each)) if isinstance(each, ast.expr) else None
        if isinstance(kind, type):
            yield kind


def namespace(path: Path, tree: ast.Module) -> dict[str, Any]:
    """The names of a module, those included that its functions import."""
    names = dict(vars(importlib.import_module(module_of(path))))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headway"):
            module = importlib.import_module(node.module)
            names |= {each.asname or each.name: getattr(module, each.name, None) for each in node.names}
    return names


def type_switches(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = namespace(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("hasattr", "getattr") and last_name(node.args[0]) in ASKED and is_text(node.args[1]):
                yield ast.unparse(node)
            if node.func.id in ("isinstance", "issubclass"):
                kinds = classes_in(node.args[1], names)
                if any(issubclass(kind, Task | Batch) or is_model(kind) for kind in kinds):
                    yield ast.unparse(node)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [each for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)]
            if any(last_name(side) == "task" for side in sides) and any(each.value in TASKS for each in texts):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_asks_which_task_model_or_batch_it_has(path: Path) -> None:
    assert list(type_switches(path)) == []


def test_type_switches_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setitem(globals(), "SOURCE", package)
    monkeypatch.syspath_prepend(tmp_path)
    (package / "__init__.py").touch()
    wrong = package / "wrong.py"
    wrong.write_text(
        "from headway.models import Decoder\n"
        "from headway.data.batch import LabelledBatch\n"
        "def ask(task, model, batch):\n"
        "    from headway.tasks.classify import Classify\n"
        "    return [isinstance(task, Classify), isinstance(model, Decoder | int), isinstance(batch, LabelledBatch),\n"
        "            hasattr(task, 'labels'), getattr(model, 'decoder', None), task.recipe.task == 'ppo',\n"
        "            isinstance(task, int)]\n"
    )
    assert len(list(type_switches(wrong))) == 6


def test_no_two_files_have_one_stem() -> None:
    """Unless they are the same thing on two layers: a function, and the verb that shows what it gives."""
    homes = Counter((path.relative_to(SOURCE).parts[0], path.stem) for path in FILES if path.stem != "__init__")
    assert [home for home, count in homes.items() if count > 1] == []


def test_no_file_is_too_long_to_read() -> None:
    assert {path.name: lines for path in FILES if (lines := len(path.read_text().splitlines())) > 330} == {}


def test_training_reads_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One recipe, one task, one set of data, one model, and two without numbers: to check it, and to know its size."""
    reviews = write_reviews(tmp_path / "reviews.csv")
    monkeypatch.chdir(tmp_path)
    counts: Counter[str] = Counter()
    kind = TASKS["classify"]

    def counted(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def wrapper(*given: Any, **options: Any) -> Any:
            counts[name] += 1
            return function(*given, **options)

        monkeypatch.setattr(owner, name, wrapper)

    counted(recipes, "read_recipe")
    for name in ("__init__", "prepare", "make_splits", "model"):
        counted(kind, name)

    overrides = [f"data.train={reviews}", "train.steps=2", "train.evaluate_every=2", "model.layers=1", "model.width=8"]
    pipeline.train("classify", overrides, pipeline.RunFolders(), pipeline.Silent())
    assert counts == {"read_recipe": 1, "__init__": 1, "prepare": 1, "make_splits": 1, "model": 3}
