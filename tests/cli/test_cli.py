"""The command line: every verb, its JSON, its last line, and one clear line for whatever is wrong."""

import io
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from conftest import Outcome, quick
from headway import cli, recipes
from headway.api import progress
from headway.cli.generate import unescaped
from headway.training.loop import Step

Headway = Callable[..., Outcome]
QUICK = ["data.examples=200", "data.tests=40", "train.steps=6", "train.warmup=2", "model.width=8", "model.heads=2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that tests may read."""
    from headway.runs.fit import start

    folder = tmp_path_factory.mktemp("runs") / "parity-1"
    list(start(recipes.load("parity", QUICK), folder).steps())
    return folder


HEAVY = {"torch", "numpy", "numba", "scipy", "sklearn", "pandas", "matplotlib", "tokenizers", "lightning_fabric"}


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    script = "import sys; from headway.cli import app; app(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
    command = [sys.executable, "-c", script, *arguments]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split())


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    assert not HEAVY & imported_by("--help")


def test_a_run_predicts_without_what_only_training_needs(trained: Path) -> None:
    """torch's compiler and Fabric take a second each, numba and scipy a tenth."""
    heavy = {"torch._dynamo", "lightning_fabric", "numba", "scipy", "sklearn", "pandas", "matplotlib"}
    assert not heavy & imported_by("predict", str(trained), "0" * 16)


def test_no_verb_at_all_is_a_question_for_help(headway: Headway) -> None:
    assert headway() == headway("--help")
    assert "First steps" in headway().out


@pytest.mark.parametrize("verb", sorted(cli.app.commands))
def test_every_verb_has_help_with_an_example(verb: str, headway: Headway) -> None:
    outcome = headway(verb, "--help")
    assert outcome.code == 0
    assert "Example" in outcome.out
    assert f"headway {verb}" in outcome.out


@pytest.mark.parametrize("name", recipes.names())
def test_every_built_in_recipe_trains_and_answers(name: str, headway: Headway, tmp_path: Path) -> None:
    outcome = headway("train", name, *quick(name, tmp_path))
    assert outcome.code == 0
    assert outcome.err == ""
    assert "step 2/4  0:" in outcome.out
    run = f"runs/{name}-1"
    last = outcome.out.splitlines()[-1]
    if recipes.load(name).task == "pretrain":
        assert last == f"next: headway train classify start={run} data.train=FILE"
        assert len(json.loads(headway("fill", run, "a [MASK]", "--json").out)) == 1
    elif recipes.load(name).task == "vectors":
        assert last.startswith(f"next: headway vectors nearest {run} ")
        assert json.loads(headway(*shlex.split(last.removeprefix("next: headway ")), "--json").out)
    else:
        verb = last.split()[2]
        assert last.startswith(f"next: headway {verb} {run} ")
        answers = json.loads(headway(*shlex.split(last.removeprefix("next: headway ")), "--json").out)
        answers = [{"text": each["answer"]} for each in answers["answers"]] if verb == "reward" else answers
        assert len(answers) == (2 if verb == "reward" else 1)
        least = 0 if "words" in answers[0] else 0.5  # that of a whole sequence of tags may be small
        assert answers[0]["text"] if verb != "predict" else least <= answers[0]["probability"] <= 1
    assert headway("evaluate", run).code == 0
    again = headway("train", name, *quick(name, tmp_path))
    assert f"in runs/{name}-2" in again.out


def test_help_lists_every_verb_once(headway: Headway) -> None:
    listed = [verb.name for verbs in cli.SECTIONS.values() for verb in verbs]
    assert sorted(map(str, listed)) == sorted(cli.app.commands)
    shown = headway("--help").out
    assert [title for title in cli.SECTIONS if f"\n{title}:\n" in shown] == list(cli.SECTIONS)
    assert all(f"\n  {name} " in shown for name in listed)


@pytest.mark.parametrize(
    ("verb", "old", "name"),
    [
        ("generate", ["--limit", "7"], "max_new_tokens"),
        ("generate", ["--repetition", "7"], "repetition_penalty"),
        ("ask", ["question", "--limit", "7"], "max_new_tokens"),
        ("beam", ["--limit", "7"], "max_new_tokens"),
    ],
)
def test_old_names_of_options_still_work(verb: str, old: list[str], name: str, headway: Headway) -> None:
    assert cli.app.commands[verb].make_context(verb, ["run", *old]).params[name] == 7
    assert f"  {old[-2]} " not in headway(verb, "--help").out


def test_json_is_all_that_is_printed(headway: Headway) -> None:
    outcome = headway("train", "parity", *QUICK, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    results = json.loads(Path("runs/parity-1/results.json").read_text())
    printed = json.loads(outcome.out)
    assert printed.pop("baselines")["metric"] == "accuracy"
    assert printed == {"run": "runs/parity-1", **results}


def test_plain_lines_show_step_loss_accuracy_rate_speed_and_time(headway: Headway) -> None:
    out = headway("train", "parity", *QUICK, "train.evaluate_every=3").out
    line = next(line for line in out.splitlines() if line.startswith("step 3/6"))
    for word in ("loss 0.", "accuracy 0.", "learning rate ", " tokens/s", " left"):
        assert word in line


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_the_live_line_is_one_line_at_any_width(columns: int) -> None:
    narrow = Console(width=columns, force_terminal=True, file=io.StringIO())
    line = progress.Line(steps=12_000, done=0)
    line.see(Step(6_000, 0.1234, 1e-3, 1.0, 10_000, 0.1, {"same": {"loss": 0.1, "accuracy": 0.97}}))
    with narrow.capture() as capture:
        narrow.print(line.with_bar(narrow.width))
    assert capture.get().count("\n") == 1
    assert "step 6,000/12,000" in capture.get()


def test_evaluate_json_has_all_metrics_of_all_test_sets(trained: Path, headway: Headway) -> None:
    found = json.loads(headway("evaluate", str(trained), "--json").out)
    assert set(found["test"]) == {"random", "uniform"}
    results = json.loads((trained / "results.json").read_text())["test"]
    for name, metrics in found["test"].items():
        assert results[name].keys() == {"loss", "accuracy", "examples"}
        assert results[name] == {key: metrics[key] for key in results[name]}
    assert found["weights_of_step"] == 6


def test_predict_reads_standard_input(trained: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("0101\n111\n"))
    answers = json.loads(headway("predict", str(trained), "--json").out)
    assert [answer["text"] for answer in answers] == ["0101", "111"]
    assert all(answer["label"] in ("even", "odd") for answer in answers)
    assert headway("predict", str(trained), "0101").out.splitlines()[-1] == f"next: headway evaluate {trained}"


def test_show_counts_parameters_and_operations(trained: Path, headway: Headway) -> None:
    words = [
        "model.layers=1",
        "model.width=8",
        "model.heads=2",
        "model.hidden=16",
        "train.batch_size=4",
        "data.examples=50",
    ]
    found = json.loads(headway("show", "parity", *words, "--json").out)
    by_hand = {
        "encoder.embedding.table": (4 * 8, [4, 16, 8]),
        "encoder.stack.blocks.0.mixer.sublayer.project": (8 * 24 + 24, [4, 16, 24]),
        "encoder.stack.blocks.0.mixer.sublayer.output": (8 * 8 + 8, [4, 16, 8]),
        "encoder.stack.blocks.0.feedforward.sublayer.inner": (8 * 16 + 16, [4, 16, 16]),
        "encoder.stack.blocks.0.feedforward.sublayer.outer": (16 * 8 + 8, [4, 16, 8]),
        "encoder.stack.blocks.0.mixer.norm": (16, [4, 16, 8]),
        "encoder.stack.blocks.0.feedforward.norm": (16, [4, 16, 8]),
        "encoder.stack.norm": (16, [4, 16, 8]),
        "head": (8 * 2 + 2, [4, 2]),
    }
    layers = {layer["name"]: (layer["parameters"], layer["output"]) for layer in found["layers"]}
    assert layers == by_hand
    assert found["parameters"] == sum(parameters for parameters, _ in by_hand.values())
    linears = 2 * 4 * 16 * (8 * 24 + 8 * 8 + 2 * 8 * 16) + 2 * 4 * 8 * 2
    attention = 2 * 2 * 4 * 16 * 16 * 8
    # Backwards, each product becomes two; only the head's inputs and weights make it the same for all.
    assert found["flops_of_a_step"] == 3 * (linears + attention)
    assert "parameters; a training step of" in headway("show", str(trained)).out


def test_attention_is_drawn_and_told(trained: Path, headway: Headway) -> None:
    outcome = headway("attention", str(trained), "0110", "--picture", "maps.png")
    assert outcome.code == 0
    assert Path("maps.png").stat().st_size > 1000
    assert len(outcome.out.splitlines()) == 6  # a heading, four tokens, and where the picture is
    maps = json.loads(headway("attention", str(trained), "0110", "--json").out)
    assert all(abs(sum(row) - 1) < 1e-5 for heads in maps["layers"].values() for head in heads for row in head)


def test_recipes_lists_them_and_their_settings(headway: Headway) -> None:
    out = headway("recipes").out
    assert all(name in out for name in recipes.names())
    settings = {row["key"]: row for row in json.loads(headway("recipes", "parity", "--json").out)}
    assert settings["model.feedforward"]["value"] == "sine(scale=16)"
    assert "neighbourhood" in settings["model.feedforward"]["choices"]
    assert "train.warmup" in headway("recipes", "parity").out
    assert {row["name"] for row in json.loads(headway("recipes", "--json").out)} == set(recipes.names())


def test_runs_lists_what_is_there(headway: Headway) -> None:
    assert headway("runs").out.splitlines()[-1] == "next: headway train parity"
    headway("train", "parity", *QUICK)
    headway("train", "substring", *QUICK, "--out", "runs/deep/er")
    found = json.loads(headway("runs", "--json").out)
    assert [run["run"] for run in found] == ["runs/parity-1", "runs/deep/er"]
    assert [run["state"] for run in found] == ["done", "done"]
    assert "runs/deep/er" in headway("runs").out


def test_schedule_draws_and_tells(headway: Headway) -> None:
    points = json.loads(headway("schedule", "substring", "train.steps=100", "train.warmup=10", "--json").out)
    assert points[0] == {"step": 0, "learning_rate": 0}
    assert points[-1] == {"step": 100, "learning_rate": 0}
    out = headway("schedule", "substring", "train.learning_rate=0.004").out
    assert "█" in out
    assert "peak 4.00e-03" in out


def test_check_finds_what_is_good_and_what_is_not(headway: Headway) -> None:
    good = headway("check", "parity", "data.length=4", "data.examples=500", "train.learning_rate=0.01")
    assert good.code == 0
    assert good.out.count("good") == 6
    assert "a loss of" in good.out
    bad = headway("check", "substring-absolute", *QUICK, "data.longer=40", "--json")
    assert bad.code == 1
    findings = {finding["what"]: finding for finding in json.loads(bad.out)["findings"]}
    assert not findings["lengths"]["good"]
    assert "learned positions end at 21" in findings["lengths"]["detail"]
    assert findings["first loss"]["good"]


def test_resume_of_a_run_that_is_done_shows_its_results(trained: Path, headway: Headway) -> None:
    outcome = headway("resume", str(trained))
    assert outcome.code == 0
    assert "all steps are done" in outcome.out


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


MISTAKES: dict[str, tuple[list[str], str]] = {
    "unknown recipe": (["train", "partiy"], "no recipe 'partiy': neither a file nor built in; did you mean 'parity'?"),
    "folder as recipe": (["train", "folder"], "folder is a folder: a recipe is a TOML file"),
    "not TOML": (["train", "broken.toml"], "broken.toml is not a recipe: "),
    "not text": (["train", "binary.toml"], "binary.toml is not a recipe: 'utf-8' codec can't decode byte"),
    "no task": (
        ["train", "taskless.toml"],
        "task: missing: a recipe needs a task, one of classify, dpo, language, numbers",
    ),
    "unknown task": (
        ["train", "strange.toml"],
        "strange.toml, line 1: task: no such choice 'parrot'; did you mean 'parity'?",
    ),
    "unknown key in a file": (
        ["train", "typo.toml"],
        "typo.toml, line 4: model.widht: no such key; did you mean 'model.width'?",
    ),
    "unknown section": (["train", "parity", "modle.width=3"], "modle: no such key; did you mean 'model'?"),
    "unknown key": (["train", "parity", "train.step=3"], "train.step: no such key; did you mean 'train.steps'?"),
    "unknown data key": (["train", "parity", "data.pattern=x"], "data.pattern: no such key; "),
    "section as value": (["train", "parity", "model=3"], "model: is a section, not a value: '3'"),
    "value as section": (["train", "parity", "task.name=3"], "task.name: 'task' is a value, not a section"),
    "not a key=value": (["train", "parity", "quickly"], "'quickly' is not of the form key=value"),
    "wrong type": (["train", "parity", "train.steps=many"], "train.steps: 'many' is not a whole number"),
    "a name that is too long": (["train", "x" * 5000], "no recipe 'xxx"),
    "a file whose name is too long": (["data", "x" * 5000 + ".csv"], "there is no file xxx"),
    "a run whose name is too long": (["train", "classify", f"start={'x' * 5000}"], "start: xxx"),
    "vectors whose name is too long": (["vectors", "nearest", "x" * 5000, "a"], "File name too long"),
    "too small": (["train", "parity", "model.width=0"], "model.width: 0 is too small: at least 1"),
    "too large": (["train", "parity", "model.dropout=1"], "model.dropout: 1.0 is too large: below 1"),
    "unknown part": (["train", "parity", "model.norm=per"], "model.norm: no such choice 'per'; did you mean 'pre'?"),
    "unknown option": (
        ["train", "parity", "model.position=rotary(bass=3)"],
        "model.position: 'rotary' has no option 'bass'; did you mean 'base'?",
    ),
    "bad option": (
        ["train", "parity", "model.position=t5(buckets=3)"],
        "model.position: 't5(buckets=3)' does not fit: buckets must be a multiple of 4",
    ),
    "heads do not fit": (["train", "parity", "model.heads=5"], "a width of 32 cannot be split into 5 heads"),
    "odd rotary": (["train", "parity", "model.position=rotary", "model.heads=32"], "a head width of 1 must be even"),
    "unknown metric": (
        ["train", "parity", "train.stop_on=acuracy"],
        "train.stop_on: no such choice 'acuracy'; did you mean",
    ),
    "strange pattern": (
        ["train", "substring", "data.pattern=xyz"],
        "data.pattern: 'xyz' must consist of the letters abcd",
    ),
    "long pattern": (["train", "substring", "data.length=2"], "data.pattern: 'cab' does not fit into strings of 2"),
    "shortest too long": (
        ["train", "parity", "data.shortest=20"],
        "data.shortest: 20 is above data.length=16",
    ),
    "no device": (["train", "parity", "train.device=mps"], "train.device=mps, but torch finds none"),
    "out below a file": (
        ["train", "parity", *QUICK, "--out", "typo.toml/run"],
        "cannot make a run folder in typo.toml",
    ),
    "no such run": (["evaluate", "nowhere"], "nowhere does not exist; 'headway runs' lists all runs"),
    "not a run": (["predict", "folder", "01"], "folder is not a run: it has no recipe.toml"),
    "not a run to resume": (["resume", "folder"], "folder is not a run: it has no recipe.toml"),
    "no checkpoint": (
        ["evaluate", "young"],
        "young cannot be used: it has no checkpoint yet; 'headway resume young' trains it",
    ),
    "truncated checkpoint": (
        ["evaluate", "cut"],
        "cut cannot be used: cut/checkpoints/step-00000006/model.safetensors is damaged",
    ),
    "broken metrics": (
        ["resume", "scribbled"],
        "scribbled/metrics.jsonl, line 1: not a record of metrics; fix or remove the line",
    ),
    "broken recipe of a run": (["evaluate", "wrong"], "wrong/recipe.toml, line "),
    "other weights": (["evaluate", "other"], "does not match its recipe: encoder.embedding.table.weight"),
    "no about": (["resume", "anonymous"], "anonymous/about.json cannot be read: "),
    "unknown symbol": (["predict", "good", "01x"], "'x' in '01x' is not one of the symbols 0 1"),
    "empty text": (["predict", "good", "01", ""], "text 2 is empty: there is nothing to classify"),
    "no text": (["predict", "good"], "there is no text: try headway predict good 0110"),
    "unknown verb": (["trian", "parity"], "No such command 'trian'. (Did you mean one of: 'pretrain', 'train'?)"),
    "unknown flag": (["train", "parity", "--fast"], "No such option '--fast'"),
    "missing recipe": (["train"], "Missing argument 'RECIPE'"),
    "bad vary": (["compare", "parity", "--vary", "model.norm"], "'model.norm' is not of the form key=value,value"),
    "unknown vary": (
        ["compare", "parity", "--vary", "model.norn=pre"],
        "model.norn: no such key; did you mean 'model.norm'?",
    ),
    "no seeds": (["compare", "parity", "--seeds", "0"], "0 is not in the range x>=1"),
    "bad goal": (["search", "parity", "--goal", "accuracy"], "goal 'accuracy' is not of the form 'accuracy>0.95'"),
    "wrong goal": (
        ["search", "parity", "--goal", "accuracy<0.95"],
        "goal 'accuracy<0.95': a better accuracy is a higher one",
    ),
    "key without its section": (["train", "parity", "steps=600"], "steps: no such key; did you mean 'train.steps'?"),
    "size as an option": (
        ["train", "parity", "model.position=rotary(head_width=8)"],
        "model.position: 'rotary' gets its head_width from the rest of the recipe: leave it out",
    ),
    "schedule that cannot be": (["train", "parity", "train.schedule=linear(step=3)"], "train.schedule: 'linear' gets"),
    "infinite": (["train", "parity", "train.grad_clip=inf"], "train.grad_clip: 'inf' is not a number"),
    "share above one": (["train", "parity", "data.uniform=1.005"], "data.uniform: 1.005 is too large: at most 1"),
    "longer than the pattern": (["show", "substring", "data.longer=2"], "data.longer: 'cab' does not fit into strings"),
    "too long for its positions": (
        ["train", "substring-long", "model.position=learned", "data.examples=100", "data.tests=20"],
        "the 'test longer' data do not fit the model: a sequence of 129 tokens is too long",
    ),
    "name with a slash": (["train", "parity", "name=a/b"], "name: 'a/b' cannot be the name of a folder"),
    "settings of a run": (["show", "good", "model.width=16"], "good is a run, and its settings are fixed"),
    "a file for a recipe": (
        ["train", "data.csv"],
        "data.csv is a file of data, not a recipe: try headway",
    ),
    "a file without its setting": (
        ["train", "parity", "data.csv"],
        "of the form key=value, such as data.train=data.csv",
    ),
    "a setting with dashes": (
        ["train", "parity", "--steps", "3"],
        "Settings are written as key=value: train.steps=",
    ),
    "a misspelled file": (["data", "dat.csv"], "did you mean data.csv?"),
    "the name of another library": (["train", "parity", "model.hidden_size=8"], "did you mean 'model.width'?"),
    "bad axis": (["search", "parity", "--over", "model.width=9..2"], "--over 'model.width=9..2' is not of the form"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_clear_line(
    name: str, trained: Path, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    Path("folder").mkdir()
    Path("broken.toml").write_text("task = \n")
    Path("binary.toml").write_bytes(b"\xff\xfe\x00")
    Path("taskless.toml").write_text("[model]\nwidth = 8\n")
    Path("strange.toml").write_text('task = "parrot"\n')
    Path("data.csv").write_text("text,label\na,b\n")
    Path("typo.toml").write_text('task = "parity"\n\n[model]\nwidht = 8\n')
    for copy in ("good", "young", "cut", "scribbled", "wrong", "other", "anonymous"):
        shutil.copytree(trained, copy)
    shutil.rmtree("young/checkpoints")
    weights = Path("cut/checkpoints/step-00000006/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    Path("scribbled/metrics.jsonl").write_text("{oops\n{}\n")
    edited(Path("wrong/recipe.toml"), "width = 8", 'width = "wide"')
    edited(Path("other/recipe.toml"), "width = 8", "width = 16")
    Path("anonymous/about.json").unlink()
    words, message = MISTAKES[name]
    outcome = headway(*words)
    assert outcome.code == 2, outcome
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("headway: ")
    assert message in outcome.err
    assert "Traceback" not in outcome.err + outcome.out


@pytest.mark.parametrize("verb", sorted(set(cli.app.commands) - {"tour", "runs", "ngrams"}))
def test_every_verb_refuses_what_does_not_exist(verb: str, headway: Headway) -> None:
    """In one line; tour takes nothing, runs finds none, and any word has n-grams."""
    outcome = headway(verb, "no-such-thing")
    assert outcome.code == 2, outcome
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("headway: ")


def test_the_list_of_runs_goes_on_past_a_damaged_one(trained: Path, headway: Headway) -> None:
    shutil.copytree(trained, "runs/good")
    shutil.copytree(trained, "runs/bad")
    shutil.copytree(trained, "runs/.new-left-over")
    edited(Path("runs/bad/recipe.toml"), "width = 8", "breadth = 8")
    listed = {run["run"]: run["state"] for run in json.loads(headway("runs", "--json").out)}
    assert listed == {"runs/good": "done", "runs/bad": "damaged"}
    assert headway("runs").code == 0


def test_a_damaged_checkpoint_is_named_when_an_older_one_is_used(trained: Path, headway: Headway) -> None:
    shutil.copytree(trained, "run")
    shutil.copytree("run/checkpoints/step-00000006", "run/checkpoints/step-00000009")
    with Path("run/checkpoints/step-00000009/model.safetensors").open("ab") as file:
        file.write(b"x")
    for words in (["evaluate", "run"], ["predict", "run", "0110"]):
        outcome = headway(*words)
        assert outcome.code == 0
        assert "step-00000009/model.safetensors is damaged" in outcome.err
    assert len(json.loads(headway("evaluate", "run", "--json").out)["notes"]) == 1


def test_what_to_do_next_can_be_copied_into_a_shell(headway: Headway) -> None:
    words = ["train", "parity", *QUICK, "--out", "a run (first)"]
    assert headway(*words).out.splitlines()[-1].startswith("next: headway predict 'a run (first)' ")


def test_what_stops_a_text_may_be_typed_with_a_backslash() -> None:
    assert [unescaped(text) for text in ("é\\n", "\\t日", "a\\\\n", "\\x")] == ["é\n", "\t日", "a\\n", "\\x"]
