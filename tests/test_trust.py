"""Trust: a recipe and a run are data. Nothing in the source can execute them, and a function that they name runs only
if the caller names it too."""

import ast
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from conftest import Outcome, done, policy_of_letters, train_letters
from headway import recipes
from headway.api.studies import axes_of
from headway.config import imports
from headway.config.errors import Problem
from headway.runs.fit import start
from test_house import FILES, SOURCE, last_name

Headway = Callable[..., Outcome]

# --- the gate

MODULES = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"),
    *("builtins", "code", "pty", "runpy", "importlib"),
}
NAMES = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {"extractall", "extract", "unpack_archive", "read_pickle", "to_pickle", "full_load", "unsafe_load"}
FUNCTIONS = {("torch", "load"), ("os", "system"), ("os", "popen"), ("yaml", "load"), ("numpy", "load"), ("np", "load")}
SAFE = {  # functions that are allowed with these arguments
    "load": {"allow_pickle": False},
    "from_pretrained": {"use_safetensors": True, "trust_remote_code": False, "local_files_only": True},
}
ALLOWED = {  # names from a table in the code; the one place that asks for trust; and exercises, which are code
    "__init__.py": ["from importlib import import_module"],
    "config/imports.py": ["import importlib"],
    "learn/source.py": ["import importlib", "exec", "compile"],
}


def constants(call: ast.Call) -> dict[str | None, Any]:
    return {each.arg: each.value.value for each in call.keywords if isinstance(each.value, ast.Constant)}


def is_safe(call: ast.Call, name: str, owner: str) -> bool:
    needed = SAFE.get(name)
    if needed is not None and owner == "AutoTokenizer":  # it has no weights
        needed = {key: value for key, value in needed.items() if key != "use_safetensors"}
    return needed is not None and needed.items() <= constants(call).items()


def can_execute(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(each.name.partition(".")[0] in MODULES for each in node.names)
    if isinstance(node, ast.ImportFrom):
        module = (node.module or "").partition(".")[0]
        named = {(module, each.name) for each in node.names}
        return node.level == 0 and (module in MODULES or bool(named & FUNCTIONS))
    if isinstance(node, ast.Name):
        return node.id in NAMES and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Attribute):
        return node.attr in ATTRIBUTES
    if isinstance(node, ast.Call):
        name, risky = last_name(node.func), {"shell": True, "allow_pickle": True, "weights_only": False}
        owner = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        if risky.items() & constants(node).items():
            return True
        return ((owner, name) in FUNCTIONS or name == "from_pretrained") and not is_safe(node, name, owner)
    return False


def forbidden(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if can_execute(node):
            yield ast.unparse(node)


def test_nothing_that_is_read_can_be_executed() -> None:
    found = {str(path.relative_to(SOURCE)): list(forbidden(path)) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == ALLOWED


WRONG = """
import pickle
import numpy, os, torch, yaml
from importlib import import_module
from torch import load
from marshal import loads
eval("1"); exec("1"); compile("1", "", "eval"); __import__("os")
run = eval
torch.load(path); torch.load(path, weights_only=True)
np.load(path); numpy.load(path, allow_pickle=True); np.load(path, allow_pickle=flag)
yaml.load(text)
archive.extractall(folder, filter="data"); shutil.unpack_archive(path)
os.system("ls"); subprocess.run("ls", shell=True)
Model.from_pretrained(folder); Model.from_pretrained(folder, use_safetensors=True, trust_remote_code=True)
pandas.read_pickle(path)
"""
RIGHT = """
import json
from safetensors.torch import load_file
re.compile("a"); torch.compile(model); np.load(path, allow_pickle=False); json.load(file); model.eval()
Model.from_pretrained(None, use_safetensors=True, trust_remote_code=False, local_files_only=True)
"""


def test_the_gate_can_fail(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    lines = [line for line in WRONG.splitlines() if line]
    found = list(forbidden(tmp_path / "wrong.py"))
    assert len(found) == sum(1 + line.count("; ") for line in lines)
    assert list(forbidden(tmp_path / "right.py")) == []


# --- functions that a run names

MODULE = """
from pathlib import Path
Path("canary").touch()
def praise(prompts, answers):
    return [float(answer.count("b")) for answer in answers]
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy whose reward is a rule, to be edited."""
    folder = tmp_path_factory.mktemp("policy")
    small = ["data.max_new_tokens=2", "data.rollouts=4", "train.batch_size=4", "train.steps=2", "data.ppo_epochs=1"]
    words = policy_of_letters(train_letters(folder, "train.steps=2"), folder, "length", *small)
    return done(start(recipes.load("ppo", words), folder / "ppo")).run.folder


@pytest.fixture
def run(named: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same, with a function of a module in the current folder as its reward, and one step to go."""
    (own_folder / "helpers.py").write_text(MODULE)
    copy_run(named, own_folder / "theirs", "helpers:praise")
    yield Path("theirs")
    sys.modules.pop("helpers", None)


def copy_run(source: Path, target: Path, reward: str) -> None:
    shutil.copytree(source, target)
    (target / "results.json").unlink()
    recipe = (target / "recipe.toml").read_text()
    (target / "recipe.toml").write_text(recipe.replace('reward = "length"', f"reward = {json.dumps(reward)}"))
    assert reward in (target / "recipe.toml").read_text()


@pytest.mark.parametrize("verb", ["evaluate", "resume", "train"])
def test_a_function_that_a_run_names_is_not_run(verb: str, run: Path, headway: Headway) -> None:
    what = f"{run}/recipe.toml" if verb == "train" else str(run)
    refused = headway(verb, what)
    command = f"headway {verb} {what} --trust helpers:praise"
    assert refused.code == 2
    assert refused.err.endswith(f"which runs only if you name it as well as the file: {command}\n")
    assert refused.err.count("\n") == 1
    assert not Path("canary").exists()
    allowed = headway(*command.split()[1:])
    assert allowed.code == 0, allowed.err
    assert Path("canary").exists()


def test_what_the_caller_names_is_run(run: Path, headway: Headway) -> None:
    """In a setting of their own, or in an axis of a study."""
    assert headway("compare", f"{run}/recipe.toml", "--seeds", "1").code == 2
    assert headway("train", f"{run}/recipe.toml", "data.reward=helpers:praise").code == 0
    imports.TRUSTED.clear()
    axes_of(["data.reward=helpers:praise,length", "data.name=os:system"])
    axes_of({"reward.data.judge": ["helpers:blame"]})
    assert {"helpers:praise", "helpers:blame"} == imports.TRUSTED


def test_python_is_asked_as_well(run: Path) -> None:
    with pytest.raises(Problem, match=r"pass trust='helpers:praise'"):
        hw.Run(run).evaluate()
    with pytest.raises(Problem, match=r"pass trust='helpers:praise'"):
        hw.Run(run).resume(trust="helpers:other", progress=False)
    with pytest.raises(Problem, match=r"pass trust='helpers:praise'"):
        hw.train(run / "recipe.toml", progress=False)
    assert not Path("canary").exists()
    assert hw.Run(run).evaluate(trust=["helpers:praise"])["validation"]["reward"] >= 0
    assert hw.train(run / "recipe.toml", progress=False).run.is_done  # trusted until the process ends
    imports.TRUSTED.clear()
    assert hw.train(run / "recipe.toml", reward="helpers:praise", progress=False).run.is_done


BAD_NAMES = ["..:x", "a..b:x", ":x", "x:", "os:system; ls", "a/b:c", "__class__", "1a:b", "a b:c", "os:path:join"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_none_is_one_line(name: str, named: Path, own_folder: Path, headway: Headway) -> None:
    copy_run(named, own_folder / "theirs", name)
    refused = headway("evaluate", "theirs")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "data.reward" in refused.err
    refused = headway("evaluate", "theirs", "--trust", name)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "cannot trust" in refused.err or "cannot be imported" in refused.err


@pytest.mark.parametrize(
    ("text", "message"), [("1 +", "SyntaxError"), ("raise SystemExit(0)", "SystemExit"), ("1 / 0", "ZeroDivisionError")]
)
def test_a_module_that_fails_is_one_line(text: str, message: str, run: Path, headway: Headway) -> None:
    Path("helpers.py").write_text(text)
    refused = headway("evaluate", str(run), "--trust", "helpers:praise")
    assert refused.code == 2
    assert f"helpers:praise cannot be imported: {message}" in refused.err


PARTS = """
from headway.nn import FeedForward

def cubed(width, hidden, dropout=0.0):
    return FeedForward(width, hidden, lambda inner: inner.pow(3), dropout)
"""


def test_a_run_with_a_part_of_ones_own_is_opened_by_naming_its_module(headway: Headway, tmp_path: Path) -> None:
    """Also one that was passed from Python, and never registered by its module."""
    (tmp_path / "my_cubes.py").write_text(PARTS)
    import_path = str(tmp_path)
    sys.path.insert(0, import_path)
    try:
        from my_cubes import cubed  # type: ignore[import-not-found]
    finally:
        sys.path.remove(import_path)
    small = {"model.layers": 1, "model.width": 8, "model.heads": 2, "train.steps": 2, "data.examples": 40}
    run = hw.train("parity", model={"feedforward": cubed}, settings={**small, "data.tests": 20}, out="cubes").run
    del hw.nn.FEEDFORWARDS["cubed"]  # another process knows nothing of it
    outcome = headway("predict", str(run.folder), "0110")
    assert outcome.code == 2
    assert "no such choice 'cubed'" in outcome.err
    assert "--trust my_module" in outcome.err
    for trusted in ("my_cubes", "my_cubes:cubed"):
        hw.nn.FEEDFORWARDS.pop("cubed", None)
        assert headway("predict", str(run.folder), "0110", "--trust", trusted).code == 0
        imports.MODULES.clear()
        imports.TRUSTED.clear()
    hw.nn.FEEDFORWARDS.pop("cubed", None)
    outcome = headway("predict", str(run.folder), "0110", "--trust", "my_missing")
    assert outcome.code == 2
    assert "my_missing cannot be imported: ModuleNotFoundError" in outcome.err
    assert headway("evaluate", str(run.folder), "--trust", "a b").err.startswith("headway: cannot trust 'a b'")
