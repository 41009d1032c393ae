"""Texts in several languages: mixed in training, measured apart, resumed exactly."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import headway as hw
from conftest import Outcome, done, shake
from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.data.language_stream import LanguageStream
from headway.metrics.languages import ALL
from headway.runs.fit import Fit, resume, start
from headway.runs.run import Run
from headway.tasks.abilities import need
from headway.tasks.language import Language
from headway.tasks.multilingual import NEW, OLD, HasLanguages
from headway.text.spelling import FORMS
from headway.training.checkpoint import read

COUNTS = {"en": 90, "de": 40, "fr": 12}
SMALL = ["model.layers=1", "model.width=16", "model.heads=2"]
FEW = ["train.steps=12", "train.evaluate_every=4", "train.warmup=1"]
MIXED = ["data.language=language", "data.mixture=temperature(alpha=0.3)", "data.validation=0.25"]
TASK_SETTINGS = {
    "language": ["data.window=16", "data.tokenizer=byte", "train.batch_size=8"],
    "pretrain": ["data.window=16", "data.tokenizer=byte", "train.batch_tokens=128"],
    "classify": ["data.test=0.2", "train.batch_size=8", "data.tokenizer=char"],
}


def write_numbers(path: Path, counts: dict[str, int] = COUNTS, first: int = 0) -> Path:
    """Numbers, spelled in several languages; the label is whether they are even."""
    rows = [
        {"text": FORMS[form](first + 37 * number), "language": form, "label": "even" if number % 2 == 0 else "odd"}
        for form, count in counts.items()
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def fit(task: str, folder: Path, *more: str, out: str = "run") -> Fit:
    path = folder / "numbers.jsonl"
    if not path.exists():
        write_numbers(path)
    settings = [f"data.train={path}", *SMALL, *FEW, *MIXED, *TASK_SETTINGS[task], *more]
    return start(recipes.load(task, settings), folder / out)


@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_resumed_ends_as_if_left_alone(task: str, tmp_path: Path) -> None:
    alone = done(fit(task, tmp_path, "train.checkpoint_every=5", out="alone")).run
    stopped = fit(task, tmp_path, "train.checkpoint_every=5", out="stopped")
    for step in stopped.steps():
        if step.number == 7:
            break
    resumed = done(resume(tmp_path / "stopped")).run
    weights = [read(run.checkpoints, 12).weights for run in (alone, resumed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert alone.results["languages"] == resumed.results["languages"]


@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_each_language_is_measured_as_if_it_were_alone(task: str, tmp_path: Path) -> None:
    # What is masked depends on where a text stands.
    run = done(fit(task, tmp_path, *(["data.objective=causal"] if task == "pretrain" else []))).run
    assert list(run.results["languages"]) == ["en", "de", "fr"]  # from most to least training text
    for form in COUNTS:
        write_numbers(tmp_path / f"{form}.jsonl", {form: 20}, first=5)
    write_numbers(tmp_path / "all.jsonl", dict.fromkeys(COUNTS, 20), first=5)
    model = hw.load(run.folder)
    together = next(iter(model.evaluate(tmp_path / "all.jsonl").values())).details
    for form in COUNTS:
        alone = next(iter(model.evaluate(tmp_path / f"{form}.jsonl").values())).metrics
        own = together["languages"][form]
        assert own == {name: pytest.approx(alone[name], rel=1e-5) for name in own}
    losses = [row["loss"] for row in together["languages"].values()]
    assert together["language_means"][ALL]["loss"] == pytest.approx(sum(losses) / 3)


def test_shares_are_those_of_the_formula_and_stand_in_the_run(tmp_path: Path) -> None:
    run = done(fit("classify", tmp_path)).run
    shares = json.loads((run.folder / "languages.json").read_text())
    powers = {name: row["size"] ** 0.3 for name, row in shares.items()}
    for name, row in shares.items():
        assert row["share"] == pytest.approx(powers[name] / sum(powers.values()))
        assert row["epochs"] == pytest.approx(row["share"] * 12 * 8 / row["size"])
        assert row["texts"] == row["size"] == pytest.approx(0.55 * COUNTS[name], abs=1)


def test_training_reads_what_the_shares_say(tmp_path: Path) -> None:
    task = fit("classify", tmp_path, "train.steps=500").task
    train = task.splits().train
    sampler = train.sampler(task.recipe.train)
    rows = np.concatenate([sampler.rows_at(step) for step in range(1, 501)])
    read_of = np.bincount(train.languages.rows[rows], minlength=3) / len(rows)
    plan = train.plan(task.recipe.train)
    assert read_of == pytest.approx(plan.shares, abs=0.01)


def test_bits_per_byte_and_per_character_by_hand(tmp_path: Path) -> None:
    """The same texts in two tokenizations: bits are divided by the bytes and characters of the text itself."""
    for tokenizer in ("char", "byte", "bpe"):
        task = fit("language", tmp_path, f"data.tokenizer={tokenizer}", "data.vocab_size=300", out=tokenizer).task
        model = shake(task.model())
        data = task.data_in(write_numbers(tmp_path / "test.jsonl", {"fr": 25}, first=80))["test.jsonl"]
        texts = [FORMS["fr"](80 + 37 * number) for number in range(25)]
        bits, metrics = 0.0, task.measure(model, data)
        for _, batch in cast(LanguageStream, data).batches():
            logits = model(batch.inputs, documents=batch.documents).double().log_softmax(dim=-1)
            losses = -logits.gather(-1, batch.targets[..., None])[..., 0] / math.log(2)
            bits += (losses if batch.weights is None else losses[batch.weights]).sum().item()
        assert metrics["bits_per_byte"] == pytest.approx(bits / sum(len(text.encode()) for text in texts), rel=1e-5)
        assert metrics["bits_per_character"] == pytest.approx(bits / sum(map(len, texts)), rel=1e-5)


def test_a_language_that_is_one_text_is_cut_at_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for form, count in {"en": 300, "de": 100}.items():
        (folder / f"{form}.txt").write_text("\n".join(FORMS[form](7 * number) for number in range(count)), "utf-8")
    settings = [
        f"data.train={folder}",
        "data.language=files",
        "data.validation=0.1",
        *SMALL,
        *TASK_SETTINGS["language"],
    ]
    task = Language(recipes.load("language", settings))
    task.prepare()
    splits = task.splits()
    held_out = splits.validation["validation"]
    train = {name: stream.tokens for name, stream in splits.train.by_language().items()}
    for name, stream in held_out.by_language().items():
        text = (folder / f"{name}.txt").read_text("utf-8").encode()
        assert len(stream.tokens) == pytest.approx(0.1 * len(text), rel=0.05)
        assert task.tokenizer.decode(np.concatenate([train[name], stream.tokens]).tolist()).encode() == text


def test_replay_measures_old_and_new_languages_apart(tmp_path: Path) -> None:
    write_numbers(tmp_path / "old.jsonl", {"en": 60, "de": 60})
    old = [f"data.train={tmp_path / 'old.jsonl'}", "data.mixture=proportional"]
    done(fit("language", tmp_path, *old, out="old"))
    task = fit("language", tmp_path, f"start={tmp_path / 'old'}", "data.replay=0.2", out="new").task
    assert {name: list(data.by_language()) for name, data in task.splits().validation.items()} == {
        NEW: ["fr"],
        OLD: ["de", "en"],
    }
    shares = {name: row.share for name, row in need(task, HasLanguages).shares_of_training().items()}
    assert shares["fr"] == pytest.approx(0.8)
    assert shares["en"] + shares["de"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.language=none"], "data.mixture: it is about languages: set data.language"),
        (["data.language=lang"], "data.language: .* has no column 'lang'"),
        (["data.mixture=en=0.5,de=0.5"], "data.mixture: it has no share for 'fr'"),
        (["data.mixture=en=0.5,de=0.5,fr=0.5"], "data.mixture: the shares add up to 1.5, not to 1"),
        (["data.mixture=en=0.5,de=0.3,ft=0.2"], "data.mixture: there are no texts in 'ft'; did you mean 'fr'"),
        (["data.replay=0.1"], "data.replay: there is nothing to replay: set start"),
        (["data.carry=true"], "data.carry: true does not work with data.language"),
    ],
)
def test_settings_that_do_not_fit(settings: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=message):
        fit("language", tmp_path, *settings)


def test_a_start_that_has_no_languages(tmp_path: Path) -> None:
    plain = ["data.language=none", "data.mixture=proportional"]
    done(fit("language", tmp_path, *plain, out="plain"))
    with pytest.raises(BadSetting, match=r"data\.replay: .* was not trained with data\.language"):
        fit("language", tmp_path, f"start={tmp_path / 'plain'}", "data.replay=0.2", out="new")


def notes_of(task: str, folder: Path, rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "numbers.jsonl").write_text(text, encoding="utf-8")
    return fit(task, folder).splits.notes


@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_a_language_with_one_sentence_is_trained_on_and_named(task: str, tmp_path: Path) -> None:
    path = write_numbers(tmp_path / "numbers.jsonl", {"en": 60, "de": 60})
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    notes = notes_of(task, tmp_path, [*rows, {"text": "cinq", "language": "fr", "label": "odd"}])
    assert any("which are trained on and not measured: fr" in note for note in notes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("task", TASK_SETTINGS)
def test_a_language_without_any_text_is_named(task: str, tmp_path: Path) -> None:
    path = write_numbers(tmp_path / "numbers.jsonl")
    with path.open("a") as file:
        file.write('{"text": "  ", "language": "sw", "label": "odd"}\n')
    made = fit(task, tmp_path)
    assert f"{path}: 1 rows without a text are skipped, the first on line 143" in made.notes
    assert "sw" not in need(made.task, HasLanguages).shares_of_training()


def test_no_language_has_enough_to_hold_out(tmp_path: Path) -> None:
    rows = [{"text": FORMS["en"](number), "language": f"en{number}"} for number in range(5)]
    with pytest.raises(Problem, match="no language has enough texts to hold some out for validation"):
        notes_of("language", tmp_path, rows)


def test_evaluate_and_train_show_the_languages(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    write_numbers(tmp_path / "numbers.jsonl")
    settings = ["data.train=numbers.jsonl", *SMALL, *FEW, *MIXED, *TASK_SETTINGS["classify"]]
    assert headway("train", "classify", *settings, "--out", "run").code == 0
    outcome = headway("evaluate", "run")
    assert outcome.code == 0
    lines = [line.split()[0] for line in outcome.out.splitlines() if line.split()]
    assert all(name in lines for name in COUNTS)
    assert "mean over languages" in outcome.out
    values = json.loads(headway("evaluate", "run", "--json").out)
    assert values["test"]["test"]["languages"] == Run(tmp_path / "run").results["languages"]
