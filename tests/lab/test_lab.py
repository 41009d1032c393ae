"""Studies: intervals by the book, variants, a comparison that is fair, a search that finds and goes on."""

import argparse
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import backend_context
from torch.nn import functional as F

from conftest import Outcome, write_reviews, write_texts
from headway import recipes
from headway.cli.render import columns
from headway.config.errors import Problem
from headway.lab.budget import budget_overrides, flops_per_step
from headway.lab.compare import entrants, entries, variants
from headway.lab.search import Search
from headway.lab.search_space import Axis, Goal
from headway.lab.statistics import interval
from headway.lab.taming import VARIANTS as TAMED
from headway.metrics import gain, worst
from headway.metrics.classification import Predictions
from headway.recipes import TABLES
from headway.runs.fit import Fit
from headway.runs.run import Run, all_runs
from headway.training.loop import Step

Headway = Callable[..., Outcome]
QUICK = ["data.examples=200", "data.tests=40", "train.steps=6", "train.warmup=2", "train.evaluate_every=3"]


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042)]
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    values = [1.0] + [0.0] * freedom
    _, margin = interval(values)
    assert margin is not None
    assert margin / (np.std(values, ddof=1) / len(values) ** 0.5) == pytest.approx(expected, abs=5e-4)


def test_an_interval_by_hand() -> None:
    mean, margin = interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert margin == pytest.approx(4.303 * 1 / 3**0.5, abs=1e-3)
    assert interval([5.0]) == (5.0, None)
    assert str(interval([5.0])) == "5.0000"


def test_intervals_hold_the_true_mean_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        mean, margin = interval(random.normal(3.0, 2.0, 4).tolist())
        assert margin is not None
        held += abs(mean - 3.0) < margin
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_variants_multiply_and_keep_parentheses_together() -> None:
    found = variants(["model.norm=pre,post", "model.position=rotary(base=1, other=2),none"])
    assert [variant.overrides for variant in found] == [
        ("model.norm=pre", "model.position=rotary(base=1, other=2)"),
        ("model.norm=pre", "model.position=none"),
        ("model.norm=post", "model.position=rotary(base=1, other=2)"),
        ("model.norm=post", "model.position=none"),
    ]
    assert found[1].name == "norm=pre position=none"
    assert variants(["data.uniform=0.5"])[0].name == "uniform=0.5"
    assert [variant.overrides for variant in variants([])] == [()]


def test_a_metric_over_sets_is_the_worst_of_them() -> None:
    sets = {"random": {"accuracy": 0.9, "loss": 0.2}, "uniform": {"accuracy": 0.7, "loss": 0.5}}
    assert worst("accuracy", sets) == 0.7
    assert worst("loss", sets) == 0.5
    assert gain("accuracy", 0.8, 0.7) == pytest.approx(0.1)
    assert gain("loss", 0.8, 0.7) == pytest.approx(-0.1)


def test_a_chart_of_characters() -> None:
    assert columns([0, 1, 2, 4], height=2) == ["   █", " ▄██"]


def test_variants_see_the_same_data_in_the_same_order(tmp_path: Path) -> None:
    entered = entrants(entries(["parity"], QUICK, variants(["model.width=8,16"])), 2, tmp_path)
    fits = [entrant.fit() for entrant in entered]
    inputs = [[fit.batch_at(step).inputs.tolist() for step in range(1, 7)] for fit in fits]
    assert inputs[0] == inputs[1]
    assert inputs[2] == inputs[3]
    assert inputs[0] != inputs[2]
    assert [fit.recipe.train.seed for fit in fits] == [1, 1, 2, 2]


def test_compare_makes_a_table_and_a_picture(headway: Headway) -> None:
    words = ["compare", "parity", *QUICK, "--vary", "model.norm=pre,post", "--seeds", "2"]
    outcome = headway(*words)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "next: tensorboard --logdir runs/compare-parity-1"
    folder = Path("runs/compare-parity-1")
    assert (folder / "comparison.png").read_bytes()[:4] == b"\x89PNG"
    rows = json.loads((folder / "comparison.json").read_text())
    assert [row["variant"] for row in rows] == ["norm=pre", "norm=post"]
    for row in rows:
        results = [Run(folder / f"{row['variant']}_seed={seed}").results for seed in (1, 2)]
        scores = [result["test"]["uniform"]["accuracy"] for result in results]
        assert row["scores"]["uniform"]["accuracy"][0] == pytest.approx(sum(scores) / 2)
        assert len(row["curves"]) == 2
        assert [step for step, _ in row["curves"][0]] == [3, 6]
    again = json.loads(headway(*words, "--out", str(folder), "--json").out)
    assert again["rows"] == rows
    other = headway("compare", "parity", *QUICK, "data.tests=41", "--vary", "model.norm=pre,post", "--out", str(folder))
    assert other.code == 2
    assert "holds a run of another recipe" in other.err
    run, same = Run(folder / "norm=pre_seed=1"), Predictions(np.zeros(2, int), np.zeros(2, int), np.ones(2), "key")
    run.write_predictions(dict.fromkeys("fedcba", same))
    # Whatever the order in the file: else the last digit of a difference would depend on the process.
    assert list(run.predictions() or {}) == list("abcdef")


def test_goals_and_axes() -> None:
    goal = Goal.parse("accuracy > 0.95", ("loss", "accuracy"))
    assert goal == Goal("accuracy", 0.95)
    assert goal.shortfall(0.9) == pytest.approx(0.05)
    assert Goal.parse("loss<0.1", ("loss", "accuracy")).shortfall(0.05) < 0
    with pytest.raises(Problem, match="no such choice 'acc'"):
        Goal.parse("acc>1", ("loss", "accuracy"))
    assert Axis.parse("model.width=2..64") == Axis("model.width", (), 2, 64)
    assert Axis.parse("model.norm=pre,rezero") == Axis("model.norm", ("pre", "rezero"))
    assert Axis.parse("train.learning_rate=0.001..0.1").low == 0.001


SEARCH = [
    "data.length=2",
    "data.examples=64",
    "data.tests=20",
    "train.steps=60",
    "train.warmup=5",
    "train.batch_size=64",
]
SEARCH += ["train.evaluate_every=20", "model.feedforward=sine(scale=4)", "model.layers=1", "model.heads=1"]


def test_search_finds_smaller_and_smaller_solutions_and_tests_them(headway: Headway) -> None:
    """Strings of two bits: exclusive or, which networks of a few dozen parameters solve at once."""
    words = ["search", "parity", *SEARCH, "--goal", "accuracy>0.95", "--over", "train.learning_rate=0.01..0.05"]
    found = json.loads(headway(*words, "--trials", "3", "--out", "study", "--json").out)
    sizes = [trial["parameters"] for trial in found["front"]]
    scores = [trial["score"] for trial in found["front"]]
    assert sizes == sorted(sizes)
    assert scores == sorted(scores)
    assert found["confirmed"][-1]["holds"]
    smallest = found["confirmed"][-1]
    run = Run(Path(found["folder"]) / smallest["folder"])
    assert run.is_done
    assert min(metrics["accuracy"] for metrics in run.results["test"].values()) > 0.95
    assert smallest["parameters"] == run.results["parameters"]
    study = Search("parity", SEARCH, "accuracy>0.95", ["train.learning_rate=0.01..0.05"], Path("study"))
    assert len(study.trials()) == 3
    text = headway(*words, "--trials", "4", "--out", "study")
    assert "4/4" in text.out
    assert "3/4" not in text.out
    assert (Path("study") / "front.png").exists()
    assert text.out.splitlines()[-1].startswith("next: headway compare parity")


def test_a_search_that_is_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Search("parity", SEARCH, "accuracy>0.95", [], tmp_path)
    settle, seen = Fit.after_step, []

    def settle_and_interrupt(fit: Fit, step: Step) -> Step:
        seen.append(step)
        if len(seen) == 70:
            os.kill(os.getpid(), signal.SIGINT)
        return settle(fit, step)

    monkeypatch.setattr(Fit, "after_step", settle_and_interrupt)
    done = list(study.run(50))
    assert study.interrupted
    again = Search("parity", SEARCH, "accuracy>0.95", [], tmp_path)
    assert again.trials() == study.trials() == done
    assert len(list(again.run(len(done) + 1))) == 1


def test_a_trial_that_had_reached_the_goal_when_the_search_stopped_is_tested(
    headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["search", "parity", *SEARCH, "--goal", "accuracy>0.01", "--trials", "1", "--out", "study"]
    first = headway(*words)
    Path("study/trials.json").unlink()  # it is written after the trial
    gc.disable()  # which would let go of the trial's lock at some time
    try:
        again = headway(*words)
    finally:
        gc.enable()
    assert (first.code, again.code, again.err) == (0, 0, first.err)
    assert again.out == first.out


def test_a_search_knows_its_own_folder(headway: Headway) -> None:
    words = ["search", "parity", *SEARCH, "--trials", "1", "--out", "study"]
    assert headway(*words).code == 0
    for other in (["data.tests=21"], ["--goal", "accuracy>0.9"], ["--over", "model.norm=pre,post"]):
        outcome = headway(*words, *other)
        assert outcome.code == 2
        assert "study holds another search" in outcome.err


def test_what_to_search_over_is_checked_before_anything_is_trained(headway: Headway) -> None:
    for axis, message in {
        "model.nrom=pre,post": "model.nrom: no such key; did you mean 'model.norm'?",
        "model.norm=pre,psot": "model.norm: no such choice 'psot'; did you mean 'post'?",
        "data.length=1..3": "data.length is both set and searched over",
    }.items():
        outcome = headway("search", "parity", *SEARCH, "--over", axis, "--trials", "1")
        assert (outcome.code, outcome.out) == (2, "")
        assert message in outcome.err


def test_a_search_goes_on_past_a_network_that_diverges(headway: Headway) -> None:
    wild = [
        "train.grad_clip=none",
        "train.schedule=constant",
        "train.optimizer=sgd",
        "--over",
        "train.learning_rate=1e28..1e30",
    ]
    outcome = headway("search", "parity", *SEARCH, *wild, "--trials", "2")
    assert outcome.code == 0
    assert outcome.out.count("accuracy 0.0000") == 2
    last = outcome.out.splitlines()[-1]
    assert last.startswith("next: headway search parity data.length=2")
    assert "--goal 'accuracy>0.95' --over train.learning_rate=1e28..1e30 --trials 4 --out runs/search-parity-1" in last


def test_a_variant_that_diverges_is_a_row_of_its_own(headway: Headway) -> None:
    words = [*QUICK, "train.schedule=constant", "train.grad_clip=none", "train.optimizer=sgd"]
    outcome = headway("compare", "parity", *words, "--vary", "train.learning_rate=1e-3,1e30", "--seeds", "1")
    assert outcome.code == 0
    assert "diverged at step" in outcome.out
    (row,) = (line for line in outcome.out.splitlines() if line.startswith("learning_rate=1e30 (1 diverged)"))
    assert "±" not in row


def test_variants_may_differ_in_their_test_sets(headway: Headway) -> None:
    words = ["data.examples=64", "data.tests=20", "train.steps=2", "train.warmup=1", "model.width=8"]
    for choices in ("40,none", "none,40"):
        outcome = headway("compare", "substring", *words, "--vary", f"data.longer={choices}", "--seeds", "1")
        assert outcome.code == 0, outcome
        assert "longer accuracy" in outcome.out


def test_studies_refuse_what_would_not_be_fair(headway: Headway) -> None:
    for words, message in {
        ("--vary", "train.seed=5,6"): "train.seed cannot be varied",
        ("--vary", "model.norm=pre,pre"): "'norm=pre' is there twice",
        ("train.processes=2",): "a study trains one run after another: leave it out",
    }.items():
        outcome = headway("compare", "parity", *QUICK, *words)
        assert outcome.code == 2
        assert message in outcome.err


@pytest.mark.parametrize(("mixer", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_the_operations_of_recurrent_networks_are_counted(mixer: str, gates: int, headway: Headway) -> None:
    words = ["data.examples=64", "data.tests=20", "data.length=5", "model.width=8", "model.layers=1", "model.heads=1"]
    found = json.loads(headway("show", "parity", *words, f"model.mixer={mixer}", "--json").out)
    tokens, width, hidden = 64 * 5, 8, 32
    inside = tokens * (gates * 2 * width * width + 2 * width * hidden) + 64 * width * 2
    # A multiplication and an addition each; twice as many in the backward pass, but for the state before the first.
    assert 0.9 * 6 * inside < found["flops_of_a_step"] <= 6 * inside
    (layer,) = (layer for layer in found["layers"] if layer["kind"] == mixer.upper())
    assert layer["output"] == [64, 5, 8]


@pytest.mark.parametrize(
    ("key", "name"), [(key, name) for key, table in TABLES.items() if key.startswith("model.") for name in table]
)
def test_every_part_can_be_shown(key: str, name: str, headway: Headway) -> None:
    words = ["data.examples=8", "data.tests=8", "data.length=4", "model.width=8", "model.heads=2", f"{key}={name}"]
    found = json.loads(headway("show", "parity", *words, "--json").out)
    assert sum(layer["parameters"] for layer in found["layers"]) <= found["parameters"]
    assert found["flops_of_a_step"] > 0


def test_a_missing_extra_is_named(headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = headway("search", "parity", *SEARCH)
    assert (outcome.code, outcome.err) == (2, "headway: a search needs optuna: pip install 'headway[search]'\n")
    outcome = headway("compare", "parity", *QUICK, "--seeds", "1")
    assert outcome.code == 0
    assert outcome.err == "headway: note: pictures need matplotlib: pip install 'headway[plot]'\n"


def test_recipes_are_compared_on_the_same_data_with_a_paired_test(headway: Headway, tmp_path: Path) -> None:
    words = [
        f"data.train={write_reviews(tmp_path / 'reviews.csv')}",
        "data.max_length=30",
        "model.width=8",
    ]
    options = ["--seeds", "2", "--budget", "steps=4", "--reach", "0.01", "--out", "both"]
    outcome = headway("compare", "classify", "sentiment", *words, "data.test=0.2", "train.evaluate_every=2", *options)
    assert (outcome.code, outcome.err) == (0, "")
    header = next(line for line in outcome.out.splitlines() if line.startswith("variant"))
    assert header.split() == [
        "variant",
        "test",
        "accuracy",
        "parameters",
        "seconds",
        "seconds",
        "to",
        "0.01",
        "difference",
        "p",
    ]
    first, second = json.loads(Path("both/comparison.json").read_text())
    assert (first["variant"], second["variant"]) == ("classify", "sentiment")
    assert first["p"] is None
    assert 0 <= second["p"] <= 1
    assert len(first["reached"]) == 2
    runs = [Run(f"both/{name}_seed={seed}") for name in ("classify", "sentiment") for seed in (1, 2)]
    assert {run.results["steps"] for run in runs} == {4}
    mean, low, high = second["difference"]
    assert low < mean < high
    assert "difference from the first row, with its 95 % confidence interval, and p of an exact" in outcome.out
    targets = [found["test"].targets.tolist() for run in runs if (found := run.predictions()) is not None]
    assert len(targets) == 4
    assert all(each == targets[0] for each in targets)


def test_language_models_are_compared_on_the_same_tokens_with_the_same_context(
    headway: Headway, tmp_path: Path
) -> None:
    words = [
        f"data.train={write_texts(tmp_path / 'texts')}",
        *("data.tokenizer=char", "data.validation=0.2", "data.cross_document=true"),
        *("train.steps=3", "train.epochs=none", "model.layers=1", "model.width=8", "model.heads=2"),
    ]
    outcome = headway("compare", "language", *words, "--vary", "data.window=8,32", "--seeds", "1", "--out", "both")
    assert (outcome.code, outcome.err) == (0, "")
    rows = json.loads(Path("both/comparison.json").read_text())
    for row in rows:
        run = Run(f"both/{row['variant'].replace(' ', '_')}_seed=1")
        tokens = torch.from_numpy(run.task.splits().validation["validation"].tokens.astype(np.int64))
        losses = [
            F.cross_entropy(run.network(part[None, :-1])[0], part[1:], reduction="sum").item()
            for part in (tokens[first : first + 9] for first in range(0, len(tokens) - 1, 8))
        ]
        assert row["scores"]["validation"]["loss"][0] == pytest.approx(sum(losses) / (len(tokens) - 1), rel=1e-5)
        said = "tokens of the validation data, each predicted from the 1 to 8 before it"
        assert f"all measured on {len(tokens) - 1:,} {said}" in outcome.out


def test_budgets_become_settings() -> None:
    recipe = recipes.load("parity", [*QUICK, "model.width=8"])
    assert budget_overrides(None, recipe) == []
    assert budget_overrides("epochs=2.5", recipe) == ["train.epochs=2.5"]
    assert budget_overrides("steps=30", recipe) == ["train.epochs=none", "train.steps=30"]
    cost = flops_per_step(recipe)
    assert budget_overrides(f"flops={10 * cost:.0f}", recipe) == ["train.epochs=none", "train.steps=10"]
    assert int(budget_overrides("minutes=0.1", recipe)[1].partition("=")[2]) > 10
    for bad in ("hours=1", "steps", "steps=-1", "epochs=0"):
        with pytest.raises(Problem, match="is not of the form epochs=3"):
            budget_overrides(bad, recipe)


def test_a_comparison_needs_one_task_and_a_recipe(headway: Headway) -> None:
    assert "have different tasks: there is nothing to compare" in headway("compare", "parity", "substring").err
    assert "there is no recipe to compare" in headway("compare", "model.width=8").err


def test_tensorboards_page_of_hyper_parameters_lists_settings_and_results(headway: Headway) -> None:
    assert (
        headway("compare", "parity", *QUICK, "--vary", "model.width=8,16", "--seeds", "1", "--out", "study").code == 0
    )
    provider = data_provider.MultiplexerDataProvider(multiplexer("study"), "study")
    flags = argparse.Namespace(generic_data="auto", logdir="study", logdir_spec="", window_title="")
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir="study", flags=flags))
    tags = context.hparams_metadata(RequestContext(), "study")
    experiment = context.experiment_from_metadata(RequestContext(), "study", True, tags, [])
    widths = next(each for each in experiment.hparam_infos if each.name == "model.width")
    assert (widths.domain_interval.min_value, widths.domain_interval.max_value) == (8, 16)
    assert "test/random/accuracy" in {info.name.tag for info in experiment.metric_infos}


def multiplexer(folder: str) -> EventMultiplexer:
    found = EventMultiplexer().AddRunsFromDirectory(folder)
    found.Reload()
    return found


def test_deep_stacks_are_tamed_in_one_command(headway: Headway) -> None:
    words = [
        "data.examples=64",
        "data.tests=20",
        "train.steps=2",
        "train.evaluate_every=1",
        "model.layers=3",
        "model.width=8",
    ]
    outcome = headway("taming", *words, "--seeds", "1", "--out", "study")
    assert (outcome.code, outcome.err) == (0, "")
    assert all(name in outcome.out for name in TAMED)
    assert "1 of 1" in outcome.out
    assert {path.name for path in Path("study").glob("*.png")} == {"comparison.png", "gradients.png"}
    found = json.loads(headway("taming", *words, "--seeds", "1", "--out", "study", "--json").out)["rows"]
    by_name = {row["variant"]: row["gradients"] for row in found}
    assert all(len(norms) == 3 for norms in by_name.values())
    assert min(by_name["ReZero, no warm-up"]) > 0


def test_gradients_of_runs_and_recipes(headway: Headway) -> None:
    assert headway("train", "reviews", *QUICK, "model.mixer=lstm", "--out", "run").code == 0
    outcome = headway("gradients", "run", "reviews", "--length", "9")
    assert (outcome.code, outcome.err) == (0, "")
    assert Path("gradients.png").exists()
    found = json.loads(headway("gradients", "run", "--length", "9", "--json").out)
    assert len(found["run"]) == 9
    assert min(found["run"]) > 0


def test_only_answers_to_the_same_questions_are_paired(headway: Headway) -> None:
    assert (
        headway("compare", "parity", *QUICK, "--vary", "data.tests=40,50", "--seeds", "1", "--out", "study").code == 0
    )
    assert [row["p"] for row in json.loads(Path("study/comparison.json").read_text())] == [None, None]
    assert headway("compare", "parity", *QUICK, "--vary", "data.length=6,7", "--seeds", "1", "--out", "other").code == 0
    assert [row["p"] for row in json.loads(Path("other/comparison.json").read_text())] == [None, None]


def test_a_budget_of_time_is_kept_when_a_comparison_goes_on(headway: Headway) -> None:
    words = ["compare", "parity", *QUICK, "model.width=8", "--seeds", "1", "--out", "study"]
    assert headway(*words, "--budget", "minutes=0.002").code == 0
    steps = Run("study/parity_seed=1").recipe.train.steps
    assert headway(*words, "--budget", "minutes=0.002").code == 0
    assert Run("study/parity_seed=1").recipe.train.steps == steps
    assert "holds a comparison with --budget minutes=0.002" in headway(*words, "--budget", "minutes=1").err


def test_recipes_on_different_data_are_not_compared(headway: Headway, tmp_path: Path) -> None:
    data = f"data.train={write_reviews(tmp_path / 'reviews.csv')}"
    outcome = headway("compare", "sentiment", "sentiment-best", data)
    assert (
        "data.validation is 0.1 in sentiment and 0.04 in sentiment-best: to compare them fairly, set it" in outcome.err
    )
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "my.toml").write_text('task = "parity"\n')
    assert "'my' is there twice" in headway("compare", "one/my.toml", "two/my.toml").err
    assert (
        "has no layers, and FLOPs are counted in layers"
        in headway("compare", "parity", "model.layers=0", "--budget", "flops=1e9").err
    )


KILLED = [*SEARCH, "train.threads=1", "train.checkpoint_every=5", "train.learning_rate=0.02"]
WORDS = ["search", "parity", *KILLED, "--goal", "accuracy>0.95", "--trials", "3"]


def test_a_killed_search_ends_as_one_that_was_left_alone(headway: Headway) -> None:
    """Killed in the middle of trials, between them, and while solutions are tested."""
    assert headway(*WORDS, "--out", "alone").code == 0
    for _ in range(2):
        child = os.fork()
        if child == 0:  # torch is imported already: a process of its own would take seconds to start
            kill_soon(Path("killed"))
            os._exit(headway(*WORDS, "--out", "killed").code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (-signal.SIGKILL, 0)
    assert headway(*WORDS, "--out", "killed").code == 0
    alone, killed = (json.loads((Path(name) / "trials.json").read_text()) for name in ("alone", "killed"))
    assert killed == alone
    assert results_of(Path("killed")) == results_of(Path("alone"))


def kill_soon(folder: Path) -> None:
    """As soon as a trial has got further than it had before."""

    def watch() -> None:
        before = set(folder.glob("trial-*/checkpoints/step-*"))
        while len(set(folder.glob("trial-*/checkpoints/step-*")) - before) < 3:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def results_of(folder: Path) -> dict[str, Any]:
    """The test metrics of each trial, and the bytes of its last weights."""
    return {
        run.folder.name: (
            run.results["test"] if run.is_done else None,
            (max(run.checkpoints.glob("step-*")) / "model.safetensors").read_bytes(),
        )
        for run in all_runs(folder)
    }
