"""Going on from a run: more pieces in the vocabulary, replay, what is forgotten; and repeating a text."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import SMALL, Outcome, done
from headway import recipes
from headway.lab.forgetting_report import crossing
from headway.lab.repeating import Passes, plot_repeating
from headway.models.heads import HEADS
from headway.runs.fit import Fit, resume, start
from headway.runs.run import Run
from headway.runs.warm_start import release
from headway.tasks.multilingual import LEFT_OUT, NEW, OLD, VALIDATION
from headway.training import checkpoint

Headway = Callable[..., Outcome]
WORDS = {  # of made languages
    "en": ("the", "house", "garden", "is", "and", "old"),
    "nl": ("het", "huis", "tuin", "is", "en", "oud"),
    "ru": ("дом", "сад", "старый", "и", "это", "там"),
    "el": ("σπίτι", "κήπος", "είναι", "και", "το", "εκεί"),
}
QUICK = ["data.language=language", "data.validation=0.2", "data.window=16", "train.evaluate_every=2", "train.steps=4"]
FEW = [*QUICK, *SMALL, "data.vocab_size=280", "train.checkpoint_every=2"]
SIZES = {"language": ["train.batch_size=4"], "pretrain": ["train.batch_tokens=64", "data.objective=causal"]}


def write(path: Path, *languages: str, texts: int = 60) -> Path:
    rows = []
    for name in languages:
        random = np.random.default_rng(list(WORDS).index(name))
        rows += [{"language": name, "text": " ".join(random.choice(WORDS[name], 8))} for _ in range(texts)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def start_run(folder: Path, task: str = "language", *more: str) -> Run:
    """A model of two languages."""
    words = [*FEW, *SIZES[task], f"data.train={write(folder / 'old.jsonl', 'en', 'nl')}", *more]
    return done(start(recipes.load(task, words), folder / f"start-{task}")).run


def go_on(run: Run, folder: Path, *more: str) -> Fit:
    """On old and new languages."""
    texts = write(folder / "both.jsonl", *WORDS)
    task = run.recipe.task
    words = [*QUICK, *SIZES[task], "train.checkpoint_every=2", "train.warmup=1", f"data.train={texts}"]
    return start(recipes.load(task, [*words, f"start={run.folder}", *more]), folder / "on")


# --- more pieces


def log_probs(model: Any, tokens: Sequence[int]) -> torch.Tensor:
    with torch.inference_mode():
        return model(torch.tensor([list(tokens)]))[0].double().log_softmax(dim=-1)


@pytest.mark.parametrize("embedding", ["lookup(start=0.4)", "region(after=0)", "ngrams(longest=2, buckets=50)"])
@pytest.mark.parametrize("head", HEADS)
def test_a_text_without_new_pieces_keeps_its_score(head: str, embedding: str, tmp_path: Path) -> None:
    if embedding.startswith("region") and head != "own":
        pytest.skip("its table is not an output matrix")
    run = start_run(
        tmp_path,
        "language",
        "train.learning_rate=0.1",
        f"model.head={head}",
        f"model.embedding={embedding}",
        "data.cross_document=true",
    )
    fit = go_on(run, tmp_path, "data.extend_vocabulary=25", "data.cross_document=true")
    before, after, old = run.network, fit.model.eval(), len(tokenizer_of(run))
    assert len(tokenizer_of(fit)) == old + 25
    tokens = tokenizer_of(fit).encode(["the old house and the garden is old"])[0].tolist()
    assert max(tokens) < old
    assert tokens == tokenizer_of(run).encode(["the old house and the garden is old"])[0].tolist()
    one, other = log_probs(before, tokens), log_probs(after, tokens)
    assert one.std() > 0.1
    assert (one - other[:, :old]).abs().max() < 1e-6
    assert 0 < other[:, old:].exp().sum(dim=-1).max() <= 1e-7


def test_the_same_through_evaluate(tmp_path: Path, headway: Headway) -> None:
    """Bits per byte of a file, with a checkpoint of step 0."""
    run = start_run(tmp_path)
    fit = go_on(run, tmp_path, "data.extend_vocabulary=25")
    fit.save()
    later = write(tmp_path / "later.jsonl", "en", "nl")
    scores = []
    for folder in (run.folder, fit.run.folder):
        out = headway("evaluate", str(folder), "--data", str(later), "--json")
        scores.append(json.loads(out.out)["test"]["later.jsonl"]["bits_per_byte"])
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def tokenizer_of(owner: Run | Fit) -> Any:
    task: Any = owner.task
    return task.tokenizer


@pytest.mark.parametrize("task", SIZES)
def test_new_pieces_begin_as_the_mean_of_those_that_spelled_them(task: str, tmp_path: Path) -> None:
    run = start_run(tmp_path, task)
    fit = go_on(run, tmp_path, "data.extend_vocabulary=25")
    before, after = (checkpoint.weights_of(model)["embedding.table.weight"] for model in (run.network, fit.model))
    old, symbols = tokenizer_of(run), tokenizer_of(fit).vocabulary.symbols
    assert torch.equal(after[: len(old)], before)
    bias = checkpoint.weights_of(fit.model)["head.bias"]
    assert not bias[: len(old)].any()
    for number in range(len(old), len(symbols)):
        pieces = [token.id for token in old.core.model.tokenize(symbols[number])]
        assert torch.allclose(after[number], before[pieces].mean(dim=0))
        assert bias[number].item() == pytest.approx(math.log(1e-7 / 25))


@pytest.mark.parametrize("replay", ["none", "0.9"])
def test_training_begins_where_the_loss_is_lowest_for_new_pieces(replay: str, tmp_path: Path) -> None:
    """Or where their bias is 0, if that is not far enough."""
    words = ["data.extend_vocabulary=25", f"data.replay={replay}"]
    fit = go_on(start_run(tmp_path, "language", "train.learning_rate=0.03", "train.steps=20"), tmp_path, *words)
    batch, model, bias = fit.batch_at(1), fit.model, checkpoint.weights_of(fit.model)["head.bias"]
    release(model, fit.task, lambda: batch)
    found = bias[-1].item()
    assert torch.equal(bias[-25:], bias[-1:].expand(25))

    def loss_at(value: float) -> float:
        with torch.no_grad():
            bias[-25:] = value
            return fit.task.loss(model, batch).mean.item()

    assert loss_at(found) <= min(loss_at(value) for value in np.arange(-20, 0, 0.25)) + 1e-3


def test_pieces_are_learned_from_new_languages(tmp_path: Path) -> None:
    """Those of the old ones are more frequent here, and would come first."""
    run = start_run(tmp_path)
    fit = go_on(run, tmp_path, "data.extend_vocabulary=40", "data.min_count=2")
    added = tokenizer_of(fit).vocabulary.symbols[len(tokenizer_of(run)) :]
    assert not any(character.isascii() and character.isalpha() for symbol in added for character in symbol)


def test_a_run_that_was_extended_is_extended_again(tmp_path: Path) -> None:
    first = done(go_on(start_run(tmp_path), tmp_path, "data.extend_vocabulary=10")).run
    second = go_on(first, tmp_path, "data.extend_vocabulary=10", "data.replay=none")
    one, other = (checkpoint.weights_of(model)["head.bias"] for model in (first.network, second.model))
    assert torch.equal(one, other[:-10])
    assert len(tokenizer_of(second)) == len(tokenizer_of(first)) + 10
    plain = go_on(first, tmp_path)
    assert tokenizer_of(plain).vocabulary.symbols == tokenizer_of(first).vocabulary.symbols
    assert "head.bias" in checkpoint.weights_of(plain.model)


def test_a_classifier_may_add_words_to_those_of_its_start(tmp_path: Path) -> None:
    run = start_run(tmp_path, "pretrain", "data.tokenizer=word")
    rows = [
        {"text": f"the {'дом' if number % 2 else 'сад'} is {number}", "label": str(number % 2)} for number in range(40)
    ]
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    words = [f"start={run.folder}", f"data.train={path}", "data.test=0.2", "train.steps=2", "data.extend_vocabulary=2"]
    fit = start(recipes.load("classify", [*words, "train.epochs=none", "train.warmup=1"]), tmp_path / "classify")
    symbols = tokenizer_of(fit).vocabulary.symbols
    assert sorted(symbols[-2:]) == ["дом", "сад"]
    table = checkpoint.weights_of(fit.model)["encoder.embedding.table.weight"]
    assert torch.equal(table[-1], table[symbols.index("<unk>")])
    done(fit)


# --- replay


@pytest.mark.parametrize("replay", [0.0, 0.25])
@pytest.mark.parametrize("task", SIZES)
def test_replay_is_that_share_of_training(task: str, replay: float, tmp_path: Path) -> None:
    fit = go_on(start_run(tmp_path, task), tmp_path, f"data.replay={replay}")
    train: Any = fit.splits.train
    old = new = 0
    for step in range(1, 1001):
        rows = fit.rows_at(step)
        if task == "language":
            numbers = np.searchsorted(train.bounds[:, 0], rows, side="right") - 1
            is_old = np.isin(np.array(train.names)[numbers], ["en", "nl"])
            old, new = old + int(is_old.sum()), new + int((~is_old).sum())
        else:
            text = np.searchsorted(train.starts, rows[:, 0], side="right") - 1
            is_old = np.isin(np.array(train.languages.names)[train.languages.rows[text]], ["en", "nl"])
            old, new = old + int(rows[is_old, 1].sum()), new + int(rows[~is_old, 1].sum())
    assert old / (old + new) == pytest.approx(replay, abs=0.01)
    assert set(fit.splits.validation) == {NEW, OLD}
    assert set(fit.splits.validation[OLD].by_language()) == {"en", "nl"}


@pytest.mark.parametrize("task", SIZES)
def test_resumed_is_uninterrupted(task: str, tmp_path: Path) -> None:
    run, words = start_run(tmp_path, task), ["data.replay=0.3", "data.extend_vocabulary=20", "model.dropout=0.1"]
    whole = done(go_on(run, tmp_path, *words))
    broken = go_on(run, tmp_path, *words)
    steps = broken.steps()
    for step in steps:
        if step.number == 2:
            break
    steps.close()
    again = done(resume(broken.run.folder))
    one, other = (checkpoint.weights_of(fit.model) for fit in (whole, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.run.results["languages"] == again.run.results["languages"]


def test_languages_that_are_left_out_are_validated_apart_and_teach_no_pieces(tmp_path: Path) -> None:
    texts = write(tmp_path / "both.jsonl", *WORDS)
    words = [*FEW, *SIZES["language"], f"data.train={texts}", "data.mixture=en=0,nl=0,ru=0.5,el=0.5"]
    fit = start(recipes.load("language", words), tmp_path / "run")
    sets: Any = fit.splits.validation
    assert {name: set(data.by_language()) for name, data in sets.items()} == {
        VALIDATION: {"ru", "el"},
        LEFT_OUT: {"en", "nl"},
    }
    assert "house" not in "".join(tokenizer_of(fit).vocabulary.symbols)


# --- the studies


def test_what_is_forgotten(tmp_path: Path, headway: Headway) -> None:
    run = start_run(tmp_path)
    texts = write(tmp_path / "both.jsonl", *WORDS)
    words = ["forgetting", str(run.folder), "--data", str(texts), "data.extend_vocabulary=20", "--replay", "0,0.5"]
    words += ["train.steps=6", "--out", str(tmp_path / "study"), "--json"]
    first = headway(*words)
    assert first.code == 0, first.err
    study = json.loads(first.out)
    assert study["budget"] == 6 * 4 * 16
    rows = {row["language"]: row for row in study["rows"]}
    assert {name for name, row in rows.items() if row["is_new"]} == {"ru", "el", "mean over new languages"}
    replayed = Run(tmp_path / "study" / "replay-0.5_seed=1")
    for name in ("en", "nl"):  # the same texts are held out
        assert rows[name]["before"] == pytest.approx(run.results["languages"][name]["bits_per_byte"], abs=1e-6)
    for name in WORDS:
        score = replayed.results["languages"][name]["bits_per_byte"]
        assert rows[name]["after"]["replay 0.5"] == [score, None]
    mean = (rows["ru"]["after"]["from scratch"][0] + rows["el"]["after"]["from scratch"][0]) / 2
    assert rows["mean over new languages"]["after"]["from scratch"][0] == pytest.approx(mean)
    scratch: Any = Run(tmp_path / "study" / "from-scratch_seed=1").task
    continued: Any = replayed.task
    assert scratch.vocab_size <= continued.vocab_size
    assert scratch.shares_of_training()["en"].share == 0
    assert (tmp_path / "study" / "forgetting.png").stat().st_size > 10_000
    (tmp_path / "study" / "replay-0.5_seed=1" / "results.json").unlink()
    again = headway(*words)  # goes on where it was stopped
    assert json.loads(again.out)["rows"] == study["rows"]


def test_where_a_curve_first_reaches_a_level() -> None:
    curve = [(0.0, 8.0), (100.0, 4.0), (200.0, 5.0), (300.0, 2.0)]
    assert crossing(curve, 8.0) == 0
    assert crossing(curve, 6.0) == 50
    assert crossing(curve, 4.0) == 100
    assert crossing(curve, 3.5) == 250
    assert crossing(curve, 1.0) is None


def test_repeating_a_text(tmp_path: Path, headway: Headway) -> None:
    texts = write(tmp_path / "texts.jsonl", "en", "nl", texts=400)
    words = [
        *(word for word in FEW if "language" not in word),
        *SIZES["language"],
        f"data.train={texts}",
        "train.steps=16",
    ]
    out = headway("repeat", "language", *words, "--passes", "1,4", "--seeds", "2", "--out", "study", "--json")
    assert out.code == 0, out.err
    rows = json.loads(out.out)["rows"]
    assert [row["passes"] for row in rows] == [1, 4]
    assert [row["tokens"] for row in rows] == pytest.approx([1024, 256], rel=0.15)
    runs = [[Run(f"study/passes={row['passes']}_seed={seed}") for seed in (1, 2)] for row in rows]
    tasks: list[Any] = [own[0].task for own in runs]
    masks = [task.limited(task.parts["train"]) for task in tasks]
    assert (masks[1] <= masks[0]).all()
    tests = [task.splits().test["validation"].tokens for task in tasks]
    assert np.array_equal(*tests)
    ends = [[run.results["test"]["validation"]["bits_per_byte"] for run in own] for own in runs]
    assert rows[1]["score"][0] == pytest.approx(np.mean(ends[1]))
    assert rows[1]["difference"][0] == pytest.approx(np.mean(ends[1]) - np.mean(ends[0]))
    assert rows[0]["difference"] is None


@pytest.mark.parametrize("task", SIZES)
def test_the_beginning_of_a_single_text_is_trained_on(task: str, tmp_path: Path) -> None:
    text = tmp_path / "novel.txt"
    text.write_text("the old house and the garden is the old house . " * 200)
    words = [word for word in FEW if "language=" not in word]
    words += [*SIZES[task], f"data.train={text}", "data.max_tokens=100"]
    fit = start(recipes.load(task, words), tmp_path / "run")
    train: Any = fit.splits.train
    assert train.size == 100
    done(fit)


# --- bad input


BAD = {
    "data.extend_vocabulary=9": "data.extend_vocabulary: there is no vocabulary to extend: set start to a run",
    "data.extend_vocabulary=0 start=START": "data.extend_vocabulary: 0 is too small: at least 1",
    "data.extend_vocabulary=9 start=BYTES": "BYTES: the tokenizer splits texts into bytes, and knows all of them",
    "data.replay=0.1": "data.replay: there is nothing to replay: set start to a run",
    "data.replay=1 start=START": "data.replay: 1.0 is too large: below 1",
    "data.replay=much start=START": "data.replay: 'much' is not a number",
    "data.replay=0.1 start=PLAIN": "data.replay: PLAIN was not trained with data.language: leave it out",
    "data.replay=0.1 start=START data.train=OLD": "data.replay: the data have no other languages: leave it out",
    "data.replay=0.1 start=START data.train=NEW": "data.replay: the data have no languages of the run",
    "data.max_tokens=50": "data.max_tokens: it does not work with data.language: leave one of them out",
    "data.mixture=en=0,nl=0,ru=0,el=much": "data.mixture: the share of 'el' is 'much', not a number from 0 to 1",
    "start=PARITY data.extend_vocabulary=9": "start: PARITY has no tokenizer: name a run that was trained on texts",
}
STUDIES = {
    "forgetting PARITY": "PARITY is a run of parity, which has no bits per byte: name a run of language",
    "forgetting PLAIN": "PLAIN does not tell languages apart: train it with data.language",
    "forgetting START --replay 0,1": "'0,1' is not a list of shares from 0 to below 1",
    "forgetting START --replay some": "'some' is not a list of shares",
    "forgetting START train.epochs=2": "train.epochs: the trainings have the same number of tokens: set train.steps",
    "forgetting START --data OLD": "the data have no other languages: name texts in languages that it knows and",
    "forgetting START --data NEW": "the data have no languages of the run that it starts from: name texts in",
    "forgetting BOTH": "BOTH is not a run",
    "repeat parity": "a run of parity does not learn from texts without labels",
    "repeat language data.train=BOTH data.max_tokens=9": "data.max_tokens: the study sets it: leave it out",
    "repeat language data.train=BOTH train.steps=4": "--passes: 32 passes in 4 steps are less than two steps each",
    "repeat language data.train=BOTH --passes 0,1": "--passes: name whole numbers from 1 on, such as 1,2,4,8",
    "repeat language data.train=BOTH --passes 1 train.steps=9999": "tokens to train on, too few for 1 of",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Names in the commands below, and what they stand for."""
    folder = tmp_path_factory.mktemp("places")
    files = {"OLD": ("en", "nl"), "NEW": ("ru", "el"), "BOTH": tuple(WORDS)}
    found = {name: str(write(folder / f"{name}.jsonl", *languages)) for name, languages in files.items()}
    plain = [*(word for word in FEW if "language=" not in word), *SIZES["language"], f"data.train={found['OLD']}"]
    runs = {
        "START": ("language", [*plain, "data.language=language"]),
        "PLAIN": ("language", plain),
        "BYTES": ("language", [*plain, "data.tokenizer=byte", "data.language=language"]),
        "PARITY": ("parity", [*SMALL, "train.steps=1", "data.examples=40", "data.tests=10"]),
    }
    for name, (recipe, words) in runs.items():
        found[name] = str(done(start(recipes.load(recipe, words), folder / name)).run.folder)
    return found


def with_places(text: str, places: dict[str, str]) -> list[str]:
    for name, path in places.items():
        text = text.replace(name, path)
    return text.split(" ")


@pytest.mark.parametrize("words", BAD)
def test_bad_settings_are_one_line(words: str, places: dict[str, str], headway: Headway) -> None:
    own = with_places(words, places)
    data = [] if "data.train" in words else [f"data.train={places['BOTH']}"]
    out = headway("train", "language", *QUICK, *SIZES["language"], *data, *own, "--out", "run")
    assert out.code == 2
    assert not Path("run").exists()
    message = out.err.splitlines()[-1]
    assert BAD[words] in unplaced(message, places), message


@pytest.mark.parametrize("words", STUDIES)
def test_bad_studies_are_one_line(words: str, places: dict[str, str], headway: Headway) -> None:
    more = [] if "--data" in words or words.startswith("repeat") else ["--data", places["BOTH"]]
    out = headway(*with_places(words, places), *more, "--out", "study")
    assert out.code == 2
    assert not Path("study").exists()
    message = out.err.splitlines()[-1]
    assert STUDIES[words] in unplaced(message, places), message


def unplaced(message: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        message = message.replace(path, name)
    return message


@pytest.mark.filterwarnings("error")
def test_a_study_whose_runs_all_diverged_is_drawn(tmp_path: Path) -> None:
    rows = [Passes(passes, 100, None, None, None, None, []) for passes in (1, 2)]
    plot_repeating(rows, "loss").save(tmp_path / "repeating.png")


@pytest.mark.parametrize("passes", ["²", "1,⅓", "9" * 5000, "-1", "x"])
def test_passes_that_are_no_numbers_are_one_line(passes: str, headway: Headway) -> None:
    outcome = headway("repeat", "language", f"--passes={passes}")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "not a list of whole numbers" in outcome.err
