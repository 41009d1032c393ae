"""Pre-training: corruptions, rows without padding, what undoes them, and runs that begin with others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from conftest import Outcome, shake
from headway import load, recipes
from headway.config.errors import BadSetting, Problem
from headway.config.parts import part
from headway.config.recipe import TrainSpec
from headway.data.corruption import CORRUPTIONS, SENTINELS, Masked, Next, Prefix, Replaced, Row, Span, Symbols
from headway.data.packed_batch import PackedLabelledBatch, PackedTokenBatch
from headway.data.packed_texts import PackedTexts
from headway.data.samplers import PackedSampler
from headway.models import ModelSpec, build_classifier, build_decoder
from headway.nn import POOLINGS
from headway.nn.packing import Packing
from headway.runs.fit import resume, start
from headway.runs.run import Run
from headway.runs.warm_start import fitting, warm_start
from headway.tasks import TASKS
from headway.tasks.labelling import SOFTMAX
from headway.tasks.pretrain import KINDS
from headway.training.checkpoint import weights_of

Headway = Callable[..., Outcome]
FIRST, SIZE = 7, 40
SYMBOLS = Symbols(SIZE, np.arange(FIRST, SIZE), np.arange(SIZE) % 3 != 0, mask=6, cls=4, sep=5, eos=3)
SPEC = ModelSpec(layers=2, width=16, heads=4, hidden=24, position="rotary")


def row_of(sizes: list[int], seed: int = 0, longest: int = 64) -> Row:
    tokens = np.random.default_rng(seed).integers(FIRST, SIZE, sum(sizes))
    return Row(tokens, np.array(sizes), longest)


def corrupted(how: Any, row: Row, seed: int = 0) -> Any:
    return how(row, SYMBOLS, np.random.default_rng(seed))


# --- corruptions


@pytest.mark.parametrize("rate", [0.15, 0.4])
@pytest.mark.parametrize("whole_words", [False, True])
def test_exactly_a_share_of_the_tokens_is_hidden(rate: float, whole_words: bool) -> None:
    row = row_of([5_000, 3_000, 2_000])
    row.tokens[::10] = SYMBOLS.sep
    batch = corrupted(Masked(rate, whole_words=whole_words), row)
    indices, inputs = batch.logit_positions.numpy(), batch.inputs[0].numpy()
    more = 3 if whole_words else 0  # the last word is masked whole
    assert round(rate * 10_000) <= len(indices) == batch.count <= round(rate * 10_000) + more
    assert (np.diff(indices) > 0).all()
    assert (batch.targets.numpy() == row.tokens[indices]).all()
    assert (row.tokens[indices] >= FIRST).all()
    others = np.setdiff1d(np.arange(10_000), indices)
    assert (inputs[others] == row.tokens[others]).all()
    hidden, same = inputs[indices] == SYMBOLS.mask, inputs[indices] == row.tokens[indices]
    assert hidden.mean() == pytest.approx(0.8, abs=0.03)
    assert same.mean() == pytest.approx(0.1 + 0.1 / (SIZE - FIRST), abs=0.03)
    if not whole_words:
        return
    begins = SYMBOLS.begins[row.tokens] | (row.tokens < FIRST) | np.isin(np.arange(10_000), row.ends)
    words = np.split(np.arange(10_000), np.flatnonzero(begins))
    shares = [np.isin(word, indices).mean() for word in words if len(word) and row.tokens[word[0]] >= FIRST]
    assert all(share in (0, 1) for share in shares)  # no word is cut, not even the last to be chosen


def test_how_long_a_second_part_is_does_not_tell_whose_it_is() -> None:
    """Full sequences are all of one length: were parts exchanged as they are, others would be longer or shorter."""
    lengths: dict[int, list[int]] = {0: [], 1: []}
    for seed in range(40):
        row = row_of([64] * 20, seed)
        batch = corrupted(Next(rate=0.01, hidden=0, other=0), row, seed)
        sequences = torch.split(batch.inputs[0], batch.cu_seqlens.diff().tolist())
        for whole, label, own in zip(sequences, batch.sequence_labels.tolist(), row.split(), strict=True):
            (first, second), tokens = (whole == SYMBOLS.sep).nonzero()[:, 0].tolist(), whole.tolist()
            assert tokens[0] == SYMBOLS.cls
            assert second == len(tokens) - 1
            assert tokens[1:first] == own[: first - 1].tolist()
            is_next = tokens[first + 1 : second] == own[first - 1 : second - 2].tolist()
            assert is_next == label
            lengths[label].append(len(tokens))
    assert np.mean(lengths[0]) == pytest.approx(np.mean(lengths[1]), abs=1.5)
    assert np.std(lengths[0]) == pytest.approx(np.std(lengths[1]), rel=0.15)  # uncut, those that are next are all 67
    assert len(lengths[0]) == pytest.approx(len(lengths[1]), rel=0.2)


@pytest.mark.parametrize(("rate", "mean"), [(0.15, 3.0), (0.5, 2.0), (0.3, 1.0)])
def test_what_was_cut_out_put_back_is_the_text(rate: float, mean: float) -> None:
    row = row_of([200, 2, 1, 30])
    batch = corrupted(Span(rate, mean), row)
    sources = torch.split(batch.sources[0], batch.source_cu_seqlens.diff().tolist())
    targets = torch.split(batch.targets, batch.cu_seqlens.diff().tolist())
    given = torch.split(batch.inputs[0], batch.cu_seqlens.diff().tolist())
    whole = [each.tolist() for each in row.split() if len(each) > 1]  # of one token, nothing can be cut out
    for source, target, before, tokens in zip(sources, targets, given, whole, strict=True):
        assert before.tolist() == [SYMBOLS.eos, *target[:-1].tolist()]
        assert target[-1] == SYMBOLS.eos
        stretches: dict[int, list[int]] = {}
        for token in target[:-1].tolist():
            if token >= SIZE:
                stretches[token] = []
            else:
                stretches[list(stretches)[-1]].append(token)
        assert all(stretches.values())
        assert list(stretches) == [SIZE + number for number in range(len(stretches))]
        actual = [each for token in source.tolist() for each in stretches.get(token, [token])]
        assert actual == tokens
        assert sum(map(len, stretches.values())) == max(round(rate * len(tokens)), 1)
    assert max(batch.sources.max(), batch.targets.max()) < SIZE + SENTINELS


def test_what_follows_is_to_be_foretold() -> None:
    row = row_of([5, 1, 3])
    batch = corrupted(CORRUPTIONS["causal"](), row)
    assert batch.logit_positions.tolist() == [0, 1, 2, 3, 6, 7]
    assert batch.targets.tolist() == row.tokens[[1, 2, 3, 4, 7, 8]].tolist()
    prefix = corrupted(Prefix(), row)
    assert ((prefix.prefixes >= 1) & (prefix.prefixes <= torch.tensor([4, 1, 2]))).all()
    positions = prefix.logit_positions
    firsts = [positions[(positions >= first) & (positions < end)].min().item() for first, end in [(0, 5), (6, 9)]]
    assert firsts == [prefix.prefixes[0] - 1, 6 + prefix.prefixes[2] - 1]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_what_is_corrupted_follows_from_the_seed_and_the_rows(name: str) -> None:
    sizes = np.array([30, 50, 9])
    tokens = np.random.default_rng(0).integers(FIRST, SIZE, sizes.sum())
    texts = PackedTexts(
        tokens, np.cumsum(sizes) - sizes, sizes, window=64, corrupt=CORRUPTIONS[name](), symbols=SYMBOLS, seed=1
    )
    rows = np.stack([texts.starts, texts.sizes, np.zeros(3, np.int64)], axis=1)
    first, again, other = texts.batch(rows), texts.batch(rows), replace(texts, seed=2).batch(rows)
    later = texts.batch(rows + np.array([0, 0, 1]))  # in the next epoch
    for key, tensor in first.tensors.items():
        assert torch.equal(tensor, getattr(again, key))
    for changed in (other, later) if name != "causal" else ():
        assert any(not torch.equal(tensor, getattr(changed, key)) for key, tensor in first.tensors.items())


@pytest.mark.parametrize(
    "text", ["masked(rate=0)", "masked(hidden=0.9, other=0.2)", "span(rate=1)", "span(mean=0.5)", "maskd"]
)
def test_odd_corruptions_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match=r"data\.objective"):
        recipes.load("pretrain", [f"data.objective={text}"])


@pytest.mark.parametrize("text", ["span(rate=0.75, mean=3)", "span(rate=0.5, mean=1)", "next", "masked", "prefix"])
def test_a_row_is_as_long_as_it_says(text: str) -> None:
    sizes = np.array([64, 30, 1, 2])
    tokens = np.random.default_rng(0).integers(FIRST, SIZE, sizes.sum())
    corrupt = part(CORRUPTIONS, text, "data.objective")
    texts = PackedTexts(tokens, np.cumsum(sizes) - sizes, sizes, window=64, corrupt=corrupt, symbols=SYMBOLS)
    batch = texts.longest()
    for ends in (batch.cu_seqlens, getattr(batch, "source_cu_seqlens", None)):
        if ends is not None:
            assert ends.diff().max() <= batch.max_seqlen
    batches = [rows for rows, _ in replace(texts, sizes=np.array([64, 30, 1, 1])).batches(tokens=95)]
    assert [int(rows[:, 1].sum()) for rows in batches] == [96]  # a token alone goes with those before it


def test_what_was_replaced_is_measured_alike_each_time(reviews: Path, tmp_path: Path) -> None:
    overrides = [*SMALL, *SHORT, f"data.train={reviews}", "data.objective=replaced"]
    session = start(recipes.load("pretrain", overrides), tmp_path / "run")
    list(session.steps())
    torch.manual_seed(5)
    model = load(session.run.folder)
    first, again = model.evaluate().metrics, model.evaluate().metrics
    assert first == again
    assert first["validation"] == pytest.approx(session.run.results["test"]["validation"])


# --- rows


@pytest.mark.parametrize("seed", [None, 1])
def test_rows_are_full_and_every_token_comes_once(seed: int | None) -> None:
    sizes = np.random.default_rng(0).integers(1, 60, 50)
    starts = np.cumsum(sizes) - sizes
    order = PackedSampler(starts, sizes, window=20, tokens=64, seed=seed)
    rows = order.epoch(0)
    assert all(row[:, 1].sum() == 64 for row in rows[:-1])
    assert all((row[:, 1] <= 20).all() for row in rows)
    seen = np.concatenate([np.arange(start, start + size) for row in rows for start, size, _ in row])
    assert len(np.unique(seen)) == len(seen) == (sizes.sum() if seed is None else sizes.sum() // 64 * 64)
    text = np.repeat(np.arange(50), sizes)
    assert all(text[start] == text[start + size - 1] for row in rows for start, size, _ in row)
    if seed is None:
        assert (seen == np.arange(sizes.sum())).all()
    else:
        again = PackedSampler(starts, sizes, 20, 64, seed).epoch(0)
        assert all((one == other).all() for one, other in zip(rows, again, strict=True))
        assert not any((one[0] == other[0]).all() for one, other in zip(rows, order.epoch(1), strict=True))


def test_one_long_text_is_read_otherwise_in_each_epoch() -> None:
    order = PackedSampler(np.array([0]), np.array([1000]), window=20, tokens=64, seed=1)
    epochs = [order.epoch(number) for number in range(60)]
    assert len({rows[0][0, 0] for rows in epochs}) > 4  # begun elsewhere, in another order
    seen = [
        {index for row in rows for start, size, _ in row for index in range(start, start + size)} for rows in epochs
    ]
    assert all(len(each) == 1000 // 64 * 64 for each in seen)
    assert len(set.union(*seen)) > 1000 - 4  # what one epoch leaves out, another one has
    assert len({start % 20 for rows in epochs for row in rows for start, *_ in row}) > 10
    exact = PackedSampler(np.array([0]), np.array([64]), window=20, tokens=64, seed=1)
    assert [len(exact.epoch(number)) for number in range(2)] == [1, 1]
    assert (exact.epoch(0)[0] != exact.epoch(1)[0]).any()


@pytest.mark.parametrize("name", KINDS)
def test_a_loss_is_the_sum_of_those_of_the_parts(name: str) -> None:
    how = CORRUPTIONS[name]()
    batch = corrupted(how, row_of([20, 3, 40, 11, 7]))
    model: Any = shake(KINDS[name].build(SPEC, SIZE, 70))
    if name == "replaced":  # a generator that is sure, so that what it fills in is no matter of chance
        model.generator.head = SureOf(SIZE)
    whole = KINDS[name].metrics(model, batch, how)
    parts = [KINDS[name].metrics(model, each, how) for each in batch.split(3)]
    assert len(parts) == 3
    for metric, tally in whole.items():
        total = sum(part[metric].total for part in parts)
        torch.testing.assert_close(tally.total.float(), torch.as_tensor(total).float(), atol=1e-4, rtol=1e-4)
        assert tally.count == sum(part[metric].count for part in parts)


class SureOf(torch.nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return F.one_hot(torch.full((len(states),), 9), self.size) * 1e4


# --- what undoes them


def apart(batch: PackedTokenBatch) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Each sequence, the places in it that count, and their targets."""
    actual = []
    for first, end in zip(batch.cu_seqlens.tolist(), batch.cu_seqlens.tolist()[1:], strict=False):
        inside = (batch.logit_positions >= first) & (batch.logit_positions < end)
        actual.append((batch.inputs[:, first:end], batch.logit_positions[inside] - first, batch.targets[inside]))
    return actual


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_a_loss_by_hand(name: str) -> None:
    """A sequence at a time, in float64."""
    batch = corrupted(CORRUPTIONS[name](), row_of([20, 3, 40]))
    model: Any = shake(KINDS[name].build(SPEC, SIZE, 70)).double()
    total = torch.zeros((), dtype=torch.float64)
    for tokens, indices, targets in apart(batch):
        scores = model(tokens)[0] if name == "causal" else model.head(model.encoder(tokens))[0]
        total -= scores.log_softmax(dim=-1)[indices].gather(1, targets[:, None]).sum()
    actual = KINDS[name].metrics(model, batch, None)
    assert actual["loss"].total.item() == pytest.approx(total.item(), rel=1e-9)


def test_replaced_tokens_by_hand() -> None:
    how = Replaced(weight=10)
    batch = corrupted(how, row_of([20, 40]))
    model: Any = shake(KINDS["replaced"].build(SPEC, SIZE, 70)).double()
    model.generator.head = SureOf(SIZE)
    actual = KINDS["replaced"].metrics(model, batch, how)
    filled = batch.inputs.clone()
    filled[0, batch.logit_positions] = 9
    original = batch.inputs.clone()
    original[0, batch.logit_positions] = batch.targets
    real = (filled == original)[0]
    scores = model.is_real(model.encoder(filled, packing=batch.packing))[0, :, 0]
    judged = F.binary_cross_entropy_with_logits(scores, real.double(), reduction="sum")
    generator = 1e4 * (batch.targets != 9).sum()
    assert actual["loss"].total.item() == pytest.approx((generator + 10 * 0.15 * judged).item(), rel=1e-6)
    assert actual["real_accuracy"].count == 60
    assert actual["real_accuracy"].total == ((scores > 0) == real).sum()


# --- runs


def write_reviews(path: Path, count: int = 300) -> Path:
    random = np.random.default_rng(0)
    good, bad, nouns = ["great", "fine", "lovely"], ["awful", "dull", "poor"], ["film", "plot", "actor", "story"]
    lines = ["text,label"]
    for number in range(count):
        words = [good, bad][number % 2]
        text = " ".join(f"the {random.choice(nouns)} was {random.choice(words)}" for _ in range(random.integers(2, 5)))
        lines.append(f"{text},{'pn'[number % 2]}")
    path.write_text("\n".join(lines))
    return path


SMALL = ["data.name=none", "data.vocab_size=300", "data.window=32", "data.validation=0.1", "model.width=32"]
SHORT = [
    "train.steps=12",
    "train.warmup=2",
    "train.batch_tokens=256",
    "train.evaluate_every=6",
    "train.checkpoint_every=6",
]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("reviews") / "reviews.csv")


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    overrides = [*SMALL, *SHORT, f"data.train={reviews}", f"data.objective={request.param}"]
    session = start(recipes.load("pretrain", overrides), tmp_path_factory.mktemp("pretrain") / request.param)
    list(session.steps())
    return session.run


def test_a_run_learns_and_another_one_begins_with_it(run: Run, reviews: Path, tmp_path: Path) -> None:
    assert run.results["test"]["validation"]["perplexity"] < 300
    overrides = [
        f"start={run.folder}",
        f"data.train={reviews}",
        "train.steps=4",
        "train.warmup=1",
        "train.evaluate_every=4",
    ]
    session = start(recipes.load("classify", overrides), tmp_path / "tuned")
    notes = " ".join(session.notes)
    assert "encoder.embedding, encoder.stack" in notes
    assert "new: head.weight, head.bias" in notes
    assert len(session.task.tokenizer) == len(run.task.tokenizer)  # type: ignore[attr-defined]
    assert session.recipe.model.causal == (run.folder.name in ("causal", "prefix"))
    theirs, own = run.final_checkpoint().weights, weights_of(session.model)
    for name, tensor in own.items():
        if not name.startswith("head"):
            source = theirs.get(name, theirs.get(name.removeprefix("encoder.")))
            assert source is not None
            assert torch.equal(tensor, source[: len(tensor)])
    list(session.steps())
    assert Run(tmp_path / "tuned").model()  # which needs the first run no more


def test_a_recipe_may_begin_with_a_recipe(reviews: Path, headway: Headway, tmp_path: Path) -> None:
    """Both are trained, one after the other; words for the first one have start. before them."""
    (tmp_path / "tuned.toml").write_text('task = "classify"\nstart = "pretrain"\n[train]\nsteps = 4\nwarmup = 1\n')
    first = [f"start.{word}" for word in [*SMALL, *SHORT, f"data.train={reviews}"]]
    outcome = headway("train", "tuned.toml", *first, f"data.train={reviews}", "--out", "tuned")
    assert outcome.code == 0, outcome.err
    assert "starts from tuned-start at step 12" in " ".join(outcome.out.split())
    assert Run(tmp_path / "tuned").recipe.start == "tuned-start"
    assert Run(tmp_path / "tuned").recipe.model.width == Run(tmp_path / "tuned-start").recipe.model.width == 32


@pytest.mark.parametrize(
    ("words", "message"),
    {
        ("start=pretrain", "data.train=nowhere.csv"): "there is no file nowhere.csv",
        ("start=pretrain", "data.train={reviews}", "data.text=missing"): "has no column 'missing'",
        ("start=pretrain", "data.train={reviews}", "start.train.stepz=1"): "did you mean",
        ("start=pretrain", "data.train={reviews}", "train.processes=2"): "train pretrain first",
        ("start.train.steps=1", "data.train={reviews}"): "there is no recipe to start from",
    }.items(),
)
def test_what_is_wrong_with_a_later_stage_is_known_before_the_first(
    words: tuple[str, ...], message: str, reviews: Path, headway: Headway
) -> None:
    outcome = headway("train", "classify", *(word.format(reviews=reviews) for word in words))
    assert outcome.code == 2
    assert message in outcome.err
    assert not Path("runs").exists()


def test_a_run_with_the_name_of_a_recipe_is_a_run(reviews: Path, headway: Headway) -> None:
    overrides = [*SMALL, *SHORT, f"data.train={reviews}", "--out", "pretrain"]
    assert headway("pretrain", *overrides).code == 0
    outcome = headway("train", "classify", "start=pretrain", f"data.train={reviews}", "train.steps=2", "train.warmup=1")
    assert outcome.code == 0, outcome.err
    assert Run("runs/classify-1").recipe.start == "pretrain"


def test_a_session_wants_a_run_to_begin_with(reviews: Path, run: Run, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="train it first"):
        start(recipes.load("classify", ["start=pretrain", f"data.train={reviews}"]), tmp_path / "run")
    with pytest.raises(BadSetting, match="cannot be changed"):
        recipes.load("classify", [f"start={run.folder}", "start.train.steps=3"])


def test_a_causal_encoder_has_the_states_of_the_decoder(reviews: Path, tmp_path: Path) -> None:
    overrides = [*SMALL, *SHORT, f"data.train={reviews}", "data.objective=causal"]
    list((session := start(recipes.load("pretrain", overrides), tmp_path / "causal")).steps())
    tuned = start(
        recipes.load("classify", [f"start={tmp_path / 'causal'}", f"data.train={reviews}"]), tmp_path / "tuned"
    )
    tokens = torch.randint(7, 100, (2, 9))
    decoder: Any = session.run.model()
    model: Any = tuned.model.eval()
    states = model.encoder(tokens, torch.tensor([9, 4]))
    torch.testing.assert_close(decoder.head(states[0]), decoder(tokens)[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(decoder.head(states[1, :4]), decoder(tokens[1:, :4])[0], atol=1e-4, rtol=1e-4)


def test_a_run_that_is_stopped_goes_on_the_same(reviews: Path, tmp_path: Path) -> None:
    recipe = recipes.load(
        "pretrain", [*SMALL, *SHORT, f"data.train={reviews}", "data.objective=next", "model.dropout=0.1"]
    )
    losses = [step.loss for step in start(recipe, tmp_path / "whole").steps()]
    steps = start(recipe, tmp_path / "halted").steps()
    first = [next(steps).loss for _ in range(6)]
    steps.close()
    assert first + [step.loss for step in resume(tmp_path / "halted").steps()] == losses


def test_several_files_and_texts_that_are_left_out(reviews: Path, tmp_path: Path) -> None:
    lines = reviews.read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join(lines[:151]))
    (tmp_path / "b.csv").write_text("\n".join([lines[0], *lines[151:]]))
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *lines[200:220]]))
    overrides = [*SMALL, f"data.train={tmp_path / 'a.csv'},{tmp_path / 'b.csv'}"]
    both, one = (
        prepared([*overrides, f"data.exclude={tmp_path / 'test.csv'}"]),
        prepared([*SMALL, f"data.train={reviews}", f"data.exclude={tmp_path / 'test.csv'}"]),
    )
    assert sum(len(each) for each in both.splits().sets.values()) >= 280
    assert any("are not trained on" in note for note in both.splits().notes)
    assert (both.splits().train.sizes == one.splits().train.sizes).all()
    left = {both.tokenizer.decode(tokens.tolist()) for tokens in texts_of(both.splits().train)}
    assert not left & {line.split(",")[0] for line in lines[200:220]}
    with pytest.raises(BadSetting, match=r"data\.exclude"):
        prepared([*SMALL, f"data.train={reviews}", f"data.exclude={reviews}"])


def prepared(overrides: list[str]) -> Any:
    task = TASKS["pretrain"](recipes.load("pretrain", overrides))
    task.prepare()
    return task


def texts_of(texts: PackedTexts) -> list[np.ndarray]:
    return [texts.tokens[start : start + size] for start, size in zip(texts.starts, texts.sizes, strict=True)]


def test_what_is_frozen_stays_and_lower_layers_learn_less(reviews: Path, tmp_path: Path) -> None:
    overrides = [f"data.train={reviews}", "train.steps=3", "train.warmup=0", "train.weight_decay=0", "model.layers=2"]
    session = start(
        recipes.load("classify", [*overrides, "train.freeze=encoder.embedding,encoder.stack.blocks.0"]), tmp_path / "a"
    )
    before = {name: weight.clone() for name, weight in session.model.named_parameters()}
    list(session.steps())
    for name, weight in session.model.named_parameters():
        frozen = name.startswith(("encoder.embedding", "encoder.stack.blocks.0"))
        assert torch.equal(weight, before[name]) == frozen, name
    for optimizer in ("adamw", "muon"):
        session = start(
            recipes.load("classify", [*overrides, "train.layer_decay=0.5", f"train.optimizer={optimizer}"]),
            tmp_path / optimizer,
        )
        loop: Any = session.loop
        rates = {weight: group["peak"] for group in loop.groups() for weight in group["params"]}
        named = dict(session.model.named_parameters())
        assert set(rates) == set(named.values())
        full = rates[named["head.bias"]]
        assert rates[named["encoder.stack.blocks.1.mixer.norm.weight"]] == full / 2
        assert rates[named["encoder.stack.blocks.0.mixer.norm.weight"]] == full / 4
        assert rates[named["encoder.embedding.table.weight"]] == full / 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["start=nowhere"], "start: nowhere is not a run"),
        (["train.freeze=foo"], "train.freeze: no weight has a name that begins with 'foo'"),
        (["train.freeze=encoder,head"], "nothing is left to train"),
    ],
)
def test_what_cannot_be_is_said_before_there_is_a_folder(
    headway: Headway, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = headway("train", "classify", f"data.train={reviews}", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "runs").exists()


def test_a_run_of_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    list(
        start(recipes.load("parity", ["train.steps=2", "data.examples=50", "data.tests=10"]), tmp_path / "run").steps()
    )
    with pytest.raises(Problem, match=r"no weight of .* fits"):
        warm_start(torch.nn.Linear(3, 5), Run(tmp_path / "run").task, str(tmp_path / "run"))


def test_a_head_of_other_labels_is_left_behind(tmp_path: Path) -> None:
    def labelled(name: str, *labels: str) -> Path:
        rows = [f"this is number {n} of {labels[n % len(labels)]},{labels[n % len(labels)]}" for n in range(80)]
        (tmp_path / name).write_text("text,label\n" + "\n".join(rows))
        return tmp_path / name

    overrides = ["train.steps=2", "train.warmup=1", "model.layers=1", "model.width=8", "model.heads=1"]
    four = labelled("four.csv", "a", "b", "c", "d")
    first = start(recipes.load("classify", [*overrides, f"data.train={four}"]), tmp_path / "first")
    list(first.steps())
    theirs = first.run.final_checkpoint().weights["head.weight"]
    for file, same in (
        (four, True),
        (labelled("others.csv", "a", "b", "c", "e"), False),
        (labelled("two.csv", "x", "y"), False),
    ):
        session = start(
            recipes.load("classify", [*overrides[:2], f"start={first.run.folder}", f"data.train={file}"]),
            tmp_path / "next",
        )
        weight = weights_of(session.model)["head.weight"]
        assert torch.equal(weight, theirs) if same else not weight.any()
        assert ("new: head.weight" in " ".join(session.notes)) != same


def test_distances_are_taken_over_from_the_middle() -> None:
    long, short = (build_decoder(replace(ModelSpec(), position="relative"), 7, length) for length in (9, 5))
    theirs: Any = long.stack.position
    own: Any = short.stack.position
    rows = torch.arange(len(theirs.table.weight))[:, None].expand_as(theirs.table.weight)
    actual = fitting(rows, own.table.weight, own)
    assert actual is not None
    assert (actual[:, 0] - theirs.max_distance).tolist() == list(range(-own.max_distance, own.max_distance + 1))
    assert fitting(torch.ones(9, 3), torch.ones(5, 3), torch.nn.Linear(3, 5)) is None


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_packed_classification_is_as_padded(reviews: Path, tmp_path: Path, pooling: str) -> None:
    overrides = [f"data.train={reviews}", f"model.pooling={pooling}", "train.batch_size=1000"]
    tasks: list[Any] = [
        TASKS["classify"](recipes.load("classify", [*overrides, f"data.packed={on}"])) for on in ("true", "false")
    ]
    actual = []
    for task in tasks:
        task.prepare()
        torch.manual_seed(0)
        model = shake(task.model()).eval()
        data = task.splits().train
        actual.append(task.probabilities(task.logits_of(model, data)).numpy())
        assert isinstance(data.batch(np.arange(3)), PackedLabelledBatch) == task.recipe.data.packed
    np.testing.assert_allclose(actual[0], actual[1], atol=1e-5)
    order = tasks[0].splits().train.sampler(TrainSpec(batch_size=20, batch_tokens=200))
    assert sorted(np.concatenate(order.epoch(0)).tolist()) == list(range(len(tasks[0].splits().train)))
    lengths = tasks[0].splits().train.lengths
    assert all(lengths[rows].sum() <= 200 and len(rows) <= 20 for rows in order.epoch(0))


def test_what_is_hidden_is_filled_in(reviews: Path, headway: Headway, tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    overrides = [*SMALL, f"data.train={reviews}", "train.steps=150", "train.batch_tokens=512", "train.warmup=10"]
    assert headway("pretrain", *overrides, "--out", str(run)).code == 0
    report = json.loads(
        headway("fill", str(run), "the [MASK] was great the plot [MASK] fine", "--json", "--top", "4").out
    )
    assert {each["piece"].strip() for each in report[0]} == {"film", "plot", "actor", "story"}
    assert report[1][0]["piece"] == " was"
    assert report[1][0]["probability"] > 0.5
    assert "' was'" in headway("fill", str(run), "the plot [MASK] fine").out
    assert "there is no [MASK]" in headway("fill", str(run), "the plot").err
    assert headway("pretrain", "pretrain", *overrides, *SHORT, "data.objective=span", "--out", str(other)).code == 0
    for verb in ("fill", "generate"):
        assert headway(verb, str(other), "the [MASK]").code == 2


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_empty_sequences_behind_a_row_change_nothing(name: str) -> None:
    batch = corrupted(CORRUPTIONS[name](), row_of([20, 3, 40]))
    model = shake(KINDS[name].build(SPEC, SIZE, 70))
    assert len(batch.rounded().cu_seqlens) == 64
    for before, after in zip(
        *(KINDS[name].metrics(model, each, None).values() for each in (batch, batch.rounded())), strict=True
    ):
        torch.testing.assert_close(before.total, after.total)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("longest", [16, 2000])
def test_a_row_of_texts_with_classes_may_have_more_room(pooling: str, longest: int) -> None:
    lengths = torch.tensor([12, 1, 7])
    cu_seqlens = Packing.of(lengths).cu_seqlens
    batch = PackedLabelledBatch(
        torch.randint(7, SIZE, (1, 20)), torch.tensor([0, 2, 1]), cu_seqlens=cu_seqlens, max_seqlen=longest
    )
    rounded = batch.rounded()
    assert rounded.inputs.shape[1] == (32 if longest == 16 else 1024)
    assert len(rounded.cu_seqlens) == 32
    assert rounded.targets.tolist() == [0, 2, 1, *[-100] * 28]
    model = shake(build_classifier(replace(SPEC, pooling=pooling), SIZE, 20, 3))
    actual = []
    for each in (batch, rounded):
        loss = SOFTMAX.loss(model(*each.model_inputs), each.targets).total
        actual.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for before, after in zip(*actual, strict=True):
        torch.testing.assert_close(before, after, atol=1e-5, rtol=1e-4)


def test_a_packing_knows_its_places() -> None:
    packing = Packing.of(torch.tensor([3, 1, 2]))
    assert packing.cu_seqlens.tolist() == [0, 3, 4, 6]
    assert packing.positions(6).tolist() == [0, 1, 2, 0, 0, 1]
    row = torch.arange(1, 7)[None]
    assert packing.pad(row).tolist() == [[1, 2, 3], [4, 0, 0], [5, 6, 0]]
    assert torch.equal(packing.unpad(packing.pad(row)), row)


def test_sequences_apart_have_the_gradient_that_they_should() -> None:
    """With empty ones, and tokens behind the last of them."""
    packing = Packing(torch.tensor([0, 3, 3, 4, 6], dtype=torch.int32), 5)
    row = torch.randn(1, 8, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(packing.pad, row)


def test_of_one_text_the_end_is_set_apart(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("\n".join(f"line {number} of a text" for number in range(600)))
    overrides = [f"data.train={tmp_path / 'one.txt'}", "data.validation=0.1", "data.test=0.2", *SMALL]
    session = start(recipes.load("pretrain", [*overrides, "data.name=none"]), tmp_path / "run")
    (validation,), (test,) = session.splits.validation.values(), session.splits.test.values()
    train = session.splits.train
    assert [len(each) for each in (train, validation, test)] == [1, 1, 1]
    sizes = np.array([int(each.sizes[0]) for each in (train, validation, test)])
    assert sizes / sizes.sum() == pytest.approx([0.7, 0.1, 0.2], abs=0.01)
    assert validation.starts[0] == train.starts[0] + train.sizes[0]
    assert test.starts[0] == validation.starts[0] + validation.sizes[0]
    (tmp_path / "short.txt").write_text("few words")
    with pytest.raises(Problem, match=r"tokens is too short to split: none are left for validation"):
        start(recipes.load("pretrain", [f"data.train={tmp_path / 'short.txt'}", "data.name=none"]), tmp_path / "no")


def test_positions_that_are_new_stand_behind_those_that_were_known(reviews: Path, tmp_path: Path) -> None:
    overrides = [*SMALL, *SHORT, f"data.train={reviews}", "model.position=learned"]
    first = start(recipes.load("pretrain", overrides), tmp_path / "first")
    list(first.steps())
    theirs = first.run.final_checkpoint().weights["encoder.stack.position.table.weight"]
    own = [f"start={first.run.folder}", f"data.train={reviews}", f"data.max_length={len(theirs) + 9}", "train.warmup=1"]
    session = start(recipes.load("classify", own), tmp_path / "next")
    table = weights_of(session.model)["encoder.stack.position.table.weight"]
    assert len(table) > len(theirs)
    assert torch.equal(table[: len(theirs)], theirs)
    assert "extended with new rows: encoder.stack.position.table.weight" in session.notes
    with pytest.raises(Problem, match=r"it has model\.width=\d+, not 8"):
        start(recipes.load("classify", [*own, "model.width=8", "model.heads=1"]), tmp_path / "no")
    assert not (tmp_path / "no").exists()
