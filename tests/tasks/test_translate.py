"""Translation: parallel texts, objectives, search beside transformers', scores worked by hand, and what goes wrong."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import Outcome, shake, write_pairs
from headway import Run, recipes
from headway.config.errors import Problem
from headway.data.batch import PairBatch
from headway.data.examples import LeftOut
from headway.data.parallel_texts import ParallelTexts
from headway.data.samplers import buckets, by_length
from headway.generation import Beam, beam_search
from headway.generation.beam import best_sums
from headway.metrics.bleu import corpus_scores
from headway.models import ModelSpec, build_encoder_decoder
from headway.models.encoder_decoder import source_batch
from headway.objectives.likelihood import OBJECTIVES, Likelihood, RDrop, cross_entropy
from headway.runs.fit import start
from headway.tasks import TASKS
from headway.text.spelling import FORMS
from marian import SHAPE, as_marian

Headway = Callable[..., Outcome]
SMALL = ["model.layers=1", "model.width=32", "model.heads=2", "data.vocab_size=330", "data.max_length=40"]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


COPIER, SYMBOLS, BEGIN, END = ModelSpec(layers=2, width=32, heads=4, hidden=48, **SHAPE), 20, 0, 3


def sequences(count: int, seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [[*random.integers(4, SYMBOLS, size=random.integers(1, 12)).tolist(), END] for _ in range(count)]


@pytest.fixture(scope="module")
def copier() -> Any:
    """A network that has learned a little to copy: random weights hardly ever come to an end."""
    torch.manual_seed(0)
    model: Any = build_encoder_decoder(COPIER, SYMBOLS, SYMBOLS, 40, joint=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(120):
        tokens, lengths = source_batch(sequences(64, step + 1))
        assert lengths is not None
        given = torch.cat([torch.full((64, 1), BEGIN), tokens[:, :-1]], dim=1)
        real = torch.arange(tokens.shape[1]) < lengths[:, None]
        cross_entropy(model(tokens, given, lengths), tokens, real).mean.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


# --- beside transformers


def test_searched_as_transformers_marian_does(copier: Any) -> None:
    theirs = as_marian(copier, COPIER, SYMBOLS, 40, BEGIN, END)
    tokens, lengths = source_batch(sequences(100, 0))
    assert lengths is not None
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    padded, given = tokens.masked_fill(~mask, BEGIN), torch.randint(4, SYMBOLS, (100, 7))
    how = {"num_beams": 5, "max_new_tokens": 20, "do_sample": False, "early_stopping": True}
    with torch.inference_mode():
        expected = theirs(input_ids=padded, attention_mask=mask.long(), decoder_input_ids=given).logits
        torch.testing.assert_close(copier(tokens, given, lengths), expected, atol=1e-4, rtol=1e-4)
        actual = beam_search(copier.conditioned_on(tokens, lengths), [[BEGIN]] * 100, 20, END, Beam(5))
        written = theirs.generate(padded, attention_mask=mask.long(), **how)[:, 1:].tolist()
    assert [best.tokens for (best,) in actual] == [row[: row.index(END)] if END in row else row for row in written]
    assert len({len(best.tokens) for (best,) in actual}) > 4


# --- the search's parts


@pytest.mark.parametrize("size", [50, 5_000, 5_120])
def test_the_best_sums_are_found_in_chunks(size: int) -> None:
    totals, log_probs = torch.randn(3, 4), torch.randn(3, 4, size)
    values, indices = best_sums(totals, log_probs, 8)
    expected = (totals[..., None] + log_probs).flatten(1).topk(8)
    torch.testing.assert_close(values, expected.values)
    assert torch.equal(indices, expected.indices)


def test_slots_that_nobody_sees_are_given_up_and_nothing_changes() -> None:
    spec = ModelSpec(layers=2, width=16, heads=2, position="alibi")
    model: Any = build_encoder_decoder(spec, 11, 11, 40)
    shake(model)
    source, width = torch.randint(11, (2, 5)), 4
    steps = model.conditioned_on(source)
    _, state = steps.step(torch.ones(2, 1, dtype=torch.long), steps.begin(2, 40))
    state, written = state.expand_beams(width), torch.ones(2 * width, 1, dtype=torch.long)
    used = []
    for _ in range(30):  # all rows go on from the first of their source
        parents = torch.zeros(2, width, dtype=torch.long) + width * torch.arange(2)[:, None]
        state, written = state.reorder(parents.flatten()), written[parents.flatten()]
        written = torch.cat([written, torch.randint(11, (2 * width, 1))], dim=1)
        scores, state = steps.step(written[:, -1:], state)
        used.append(state.used)
    expected = model(source.repeat_interleave(width, 0), written)[:, -1]
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)
    assert max(used) < 30 * width * 2 / 3


class Counted:
    """Steps that write down how many rows each has."""

    def __init__(self, steps: Any):
        self.steps, self.rows, self.begin = steps, list[int](), steps.begin

    def step(self, tokens: Tensor, *rest: Any) -> Any:
        self.rows.append(len(tokens))
        return self.steps.step(tokens, *rest)


def test_sources_that_are_done_are_dropped_and_the_rest_is_the_same(copier: Any) -> None:
    tokens, lengths = source_batch(sequences(12, 0))
    assert lengths is not None
    for beam in (Beam(3, best=2), Beam(3, best=2, early=False)):
        steps = Counted(copier.conditioned_on(tokens, lengths))
        together = beam_search(steps, [[BEGIN]] * 12, 25, END, beam)
        assert len(set(steps.rows[1:])) > 1  # some left the batch before others
        for row, length, actual in zip(tokens, lengths, together, strict=True):
            (alone,) = beam_search(copier.conditioned_on(row[None, :length]), [[BEGIN]], 25, END, beam)
            assert [each.tokens for each in alone] == [each.tokens for each in actual]


# --- objectives


def test_objectives_by_hand() -> None:
    scores, targets = torch.randn(2, 3, 5, dtype=torch.float64), torch.tensor([[1, 4, 0]])
    weights = torch.tensor([[True, True, False]])
    logs = scores.log_softmax(dim=-1)
    smooth = [-0.9 * logs[i, t, targets[0, t]] - 0.1 / 5 * logs[i, t].sum() for i in range(2) for t in range(2)]
    assert Likelihood(0.1)(scores[:1], targets, weights).total.item() == pytest.approx(float(sum(smooth[:2])))
    kl = sum((logs[i].exp() * (logs[i] - logs[1 - i])).sum(dim=-1)[:2].sum() for i in range(2))
    expected = (float(sum(smooth)) + 3 / 2 * float(kl)) / 2
    assert RDrop(weight=3, smoothing=0.1)(scores, targets, weights).total.item() == pytest.approx(expected)


@pytest.mark.parametrize("weights", [None, torch.tensor([[True, True, False]] * 2)])
def test_the_gradient_of_rdrop_is_that_of_its_loss(weights: torch.Tensor | None) -> None:
    targets = torch.tensor([[1, 4, 0], [2, 2, 3]])
    scores = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda scores: 2 * RDrop(3, 0.1)(scores, targets, weights).total, scores)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_without_dropout_is_the_likelihood(name: str, tmp_path: Path) -> None:
    """And scores that are worked out for real tokens alone give the same as all of them."""
    task: Any = TASKS["numbers"](recipes.load("numbers", [f"data.objective={name}(smoothing=0)", "data.examples=50"]))
    model, batch = task.model(), task.splits().train.batch(np.arange(20))
    loss = task.loss(model, batch)
    scores = model(batch.sources, batch.inputs, batch.source_lengths)
    assert loss.total.item() == pytest.approx(
        cross_entropy(scores, batch.targets, batch.weights).total.item(), rel=1e-4
    )
    assert loss.count == batch.count


def test_scheduled_sampling_gives_the_models_own_guesses() -> None:
    task: Any = TASKS["numbers"](recipes.load("numbers", ["data.scheduled_sampling=0.5", "data.examples=50"]))
    model, batch = task.model(), task.splits().train.batch(np.arange(50))
    given = task.with_predictions(model, batch)
    guesses = model(batch.sources, batch.inputs, batch.source_lengths).argmax(dim=-1)[:, :-1]
    own = given[:, 1:] != batch.inputs[:, 1:]
    assert torch.equal(given[:, 0], batch.inputs[:, 0])
    assert torch.equal(given[:, 1:][own], guesses[own])
    assert 0.3 < own[guesses != batch.inputs[:, 1:]].float().mean() < 0.7


# --- batches of pairs


def test_more_padding_changes_no_loss() -> None:
    task: Any = TASKS["numbers"](recipes.load("numbers", ["data.examples=50"]))
    model, batch = task.model(), task.splits().train.batch(np.arange(21))
    rounded = batch.rounded()
    assert rounded.inputs.shape[1] % 8 == rounded.sources.shape[1] % 8 == len(rounded) % 32 == 0
    for actual in (rounded, batch):
        wanted = task.loss(model, replace(actual, weights=actual.weights))
        assert wanted.total.item() == pytest.approx(task.loss(model, batch).total.item(), rel=1e-5)
    assert rounded.count == batch.count


def test_parts_of_a_batch_are_cut_on_both_sides() -> None:
    batch = PairBatch(
        torch.ones(2, 5),
        torch.ones(2, 5),
        torch.tensor([5, 2]),
        torch.ones(2, 5, dtype=torch.bool),
        sources=torch.ones(2, 7),
        source_lengths=torch.tensor([3, 7]),
    )
    first, second = (batch.take(slice(row, row + 1)) for row in range(2))
    assert (first.inputs.shape, first.sources.shape) == ((1, 5), (1, 3))
    assert second.weights is not None
    assert (second.weights.shape, second.sources.shape) == ((1, 2), (1, 7))
    assert batch.tokens == 17


def test_buckets_count_the_padding_of_both_sides() -> None:
    lengths = np.random.default_rng(0).integers(1, 20, size=(100, 2))
    actual = buckets(by_length(lengths), lengths, rows=16, tokens=120)
    assert sorted(np.concatenate(actual).tolist()) == list(range(100))
    for rows in actual:
        assert len(rows) <= 16
        assert len(rows) == 1 or len(rows) * lengths[rows].max(axis=0).sum() <= 120


# --- scores


def test_a_bleu_worked_by_hand() -> None:
    """The one of docs/translation.md: 8/8, 6/7, 4/6 and 2/5 of the n-grams, and 8 words for 9."""
    written, reference = "a man rides a horse on the beach", "a man rides a brown horse on the beach"
    by_hand = 100 * np.exp(1 - 9 / 8) * (8 / 8 * 6 / 7 * 4 / 6 * 2 / 5) ** 0.25
    bleu, chrf = corpus_scores([written], [[reference]])
    assert bleu.score == pytest.approx(by_hand, abs=1e-9)
    assert by_hand == pytest.approx(61.02, abs=0.005)
    assert "tok:13a" in bleu.signature
    assert 0 < chrf.score < 100


def test_another_reference_can_only_help() -> None:
    written = ["a man rides a horse on the beach"]
    first, second = ["a man rides a brown horse on the beach"], ["a man on a horse on the sand"]
    one, two = (corpus_scores(written, references)[0].score for references in ([first], [first, second]))
    assert two >= one
    assert corpus_scores(written, [second, [written[0].upper()]], lower=True)[0].score == pytest.approx(100)
    with pytest.raises(Problem, match="2 references"):
        corpus_scores(written, [[*first, *second]])


# --- files


def test_files_of_different_lengths_say_where_they_part(tmp_path: Path) -> None:
    files = write(tmp_path / "a.en", "one", "two", "three"), write(tmp_path / "a.de", "eins", "zwei")
    with pytest.raises(Problem, match=r"a\.de ends after line 2, but .*a\.en continues with 'three'"):
        list(ParallelTexts(files).pairs())
    with pytest.raises(Problem, match=r"a\.de ends after line 2"):
        list(ParallelTexts(files[::-1]).pairs())


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", "source\ttarget\none\teins\n\tzwei\n", ()),
        ("a.tsv", "en\tde\none\teins\n\tzwei\n", ()),
        ("a.csv", "id,en,de\n1,one,eins\n2,,zwei\n", ("en", "de")),
        (
            "a.jsonl",
            '{"id": 0, "translation": {"en": "one", "de": "eins"}}\n{"translation": {"en": "", "de": "zwei"}}\n',
            (),
        ),
        ("a.jsonl", '{"src": "one", "id": 3, "tgt": "eins"}\n{"src": " ", "tgt": "zwei"}\n', ()),
    ],
)
def test_columns_of_one_file(tmp_path: Path, name: str, content: str, columns: tuple[str, ...]) -> None:
    (tmp_path / name).write_text(content)
    left_out = LeftOut()
    (pair,) = ParallelTexts((tmp_path / name,), columns).pairs("reading", left_out)
    assert (pair.source, pair.target) == ("one", "eins")
    assert len(left_out.empty) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.source=a.en"], "data.target"),
        (["data.source=a.en", "data.target=nothere.de"], r"there is no file nothere\.de"),
        (["data.train=a.en"], "without columns"),
        (["data.train=a.en,a.de,a.fr"], "there is no file a.fr"),
        (["data.train=a.en,a.de", "data.validation=0.4", "data.test=a.en,a.de,a.fr"], "neither one file nor two"),
        (["data.train=three.csv"], "which columns are source and target"),
        (["data.train=three.csv", "data.columns=x,en"], "no column 'en'"),
        (["data.train=three.csv", "data.columns=x"], "not two names"),
        (["data.train=nameless.tsv"], r"nameless\.tsv: its first line, .* looks like a pair.*data\.columns=1,2"),
        (["data.train=nameless.tsv", "data.columns=1,3"], "no column '3'"),
        (["data.source=a.en", "data.target=empty.de"], "ends after line 0"),
        (
            ["data.source=a.en", "data.target=a.de", "data.max_length=3", "data.validation=0.4", "data.tokenizer=char"],
            "longer than data.max_length=3",
        ),
        (["data.source=a.en", "data.target=a.de", "data.validation=0.7", "data.test=0.6"], "nothing to train on"),
        (["data.source=a.en", "data.target=a.de", "train.stop_on=bleu"], "only measured at the end"),
        (["data.source=a.en", "data.target=a.de", "train.metrics=f1", "train.stop_on=f1"], "only measured at the end"),
        (["data.source=a.en", "data.target=a.de", "data.objective=rdrip"], "rdrop"),
        (["data.objective=rdrop(weight=x)"], "data.objective: weight=x is not a number"),
        ([], "missing: name the files"),
    ],
)
def test_what_is_wrong_with_the_data_is_said(
    headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.en", *["one two three"] * 4, "four", "five")
    write(tmp_path / "a.de", *["eins zwei drei"] * 4, "vier", "fünf")
    write(tmp_path / "three.csv", "x,y,z", "1,2,3")
    write(tmp_path / "nameless.tsv", "one two.\teins zwei.", "three.\tdrei.")
    write(tmp_path / "empty.de")
    outcome = headway("train", "translate", *words)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert re.search(message, outcome.err), outcome.err
    assert not (tmp_path / "runs").exists()


# --- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("translate")
    source, target = write_pairs(folder, 300)
    files = [f"data.source={source}", f"data.target={target}", "data.validation=0.1", "data.test=0.1"]
    overrides = [*files, *SMALL, "train.steps=30", "train.evaluate_every=15", "train.warmup=5"]
    session = start(recipes.load("translate", overrides), folder / "run")
    list(session.steps())
    return Run.of(session.run)


def test_a_run_has_scores_of_what_it_writes(run: Run) -> None:
    test = run.results["test"]["test"]
    assert {"loss", "accuracy", "perplexity", "exact", "chrf", "bleu"} <= test.keys()
    assert run.evaluate()["test"]["bleu"] == pytest.approx(test["bleu"], abs=1e-6)
    assert run.evaluate()["test"]["loss"] == pytest.approx(test["loss"], abs=1e-6)


def test_odd_lines_are_named_and_the_rest_translated_in_order(run: Run, headway: Headway, tmp_path: Path) -> None:
    lines = ["three hundred five", "", "нет ни слова", "one " * 5000, "seventeen"]
    file, out = write(tmp_path / "in.txt", *lines), tmp_path / "out.txt"
    outcome = headway("translate", str(run.folder), "--file", str(file), "--out", str(out))
    assert outcome.code == 0
    for number, what in ((2, "is empty"), (3, "were not in the training data"), (4, "5,001 tokens")):
        assert re.search(f"text {number}: .*({what})", outcome.err), outcome.err
    translated = out.read_text(encoding="utf-8").split("\n")
    assert len(translated) == 6
    assert translated[1] == ""
    for index in (0, 4):
        alone = headway("translate", str(run.folder), lines[index])
        assert alone.out.strip() == translated[index].strip()


def test_the_best_few_and_json(run: Run, headway: Headway) -> None:
    outcome = headway("translate", str(run.folder), "seventeen", "one", "--best", "3", "--json")
    rows = json.loads(outcome.out)
    assert [row["text"] for row in rows] == ["seventeen", "one"]
    for row in rows:
        scores = [each["score"] for each in row["translations"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_an_alignment_is_a_distribution_over_the_source(run: Run, headway: Headway, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    outcome = headway("align", str(run.folder), "three hundred", "dreihundert", "--picture", str(picture), "--json")
    alignment = json.loads(outcome.out)
    assert len(alignment["weights"]) == len(alignment["target"])
    assert all(len(row) == len(alignment["source"]) for row in alignment["weights"])
    assert [sum(row) for row in alignment["weights"]] == pytest.approx([1.0] * len(alignment["target"]), abs=1e-5)
    assert picture.stat().st_size > 1000
    assert "next: headway align" in headway("align", str(run.folder), "three hundred").out
    assert headway("align", str(run.folder), "one", "--layer", "5").code == 2


def test_the_beam_of_a_translation_is_drawn(run: Run, headway: Headway) -> None:
    outcome = headway("beam", str(run.folder), "three hundred", "--width", "2", "--max-new-tokens", "4")
    assert outcome.code == 0
    assert "kept" in outcome.out


def test_bleu_of_files(headway: Headway, tmp_path: Path) -> None:
    written = write(tmp_path / "w", "a man rides a horse on the beach")
    reference = write(tmp_path / "r", "a man rides a brown horse on the beach")
    outcome = headway("bleu", str(written), str(reference), "--json")
    assert json.loads(outcome.out)[0]["score"] == pytest.approx(61.02, abs=0.005)
    assert headway("bleu", str(written), str(tmp_path / "nothere")).code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["align", "RUN", " "], "is empty"),
        (["align", "RUN", "one", "a \udcff"], "not valid UTF-8"),
        (["translate", "RUN", "one \udcff two"], "is not valid UTF-8"),
        (["align", "RUN", "one", "--picture", "picture.xyz"], "cannot draw"),
        (["align", "RUN", "one", "--picture", "nowhere/picture.png"], "there is no folder nowhere"),
        (["translate", "RUN", "--file", "lines.txt", "--out", "lines.txt"], "name another"),
        (["translate", "RUN", "--file", "lines.txt", "--out", "lines.txt.gz"], "leave out .gz"),
        (
            ["translate", "RUN", "--file", "latin.txt"],
            "line 1: byte 0xe9 at column 4 is not utf-8; if it is cp1252, convert",
        ),
        (["generate", "RUN", "one"], "headway translate"),
        (["predict", "RUN", "one"], "headway translate"),
        (["bleu", "lines.txt", "lines.txt", "--tokenize", "foo"], "sacrebleu has no tokenizer 'foo'"),
        (["bleu", "nothing.txt", "nothing.txt"], "no text to score"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Run, headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lines.txt", "one", "two")
    write(tmp_path / "nothing.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    outcome = headway(*(str(run.folder) if word == "RUN" else word for word in words))
    assert outcome.code == 2
    assert message in outcome.err
    assert (tmp_path / "lines.txt").read_text() == "one\ntwo\n"


def test_empty_texts_alone_and_among_the_best_few(run: Run, headway: Headway) -> None:
    assert headway("translate", str(run.folder), "", " ").out == "\n\n"
    lines = headway("translate", str(run.folder), "one", "", "--best", "2").out.split("\n")
    assert len(lines) == 5
    assert lines[2:] == ["", "", ""]


def test_a_file_without_names_of_columns(tmp_path: Path) -> None:
    write(tmp_path / "pairs.tsv", '"Go!" he said.\t„Geh!“ sagte er.', "three\tdrei")
    actual = list(ParallelTexts((tmp_path / "pairs.tsv",), ("1", "2")).pairs())
    assert actual == [(1, '"Go!" he said.', "„Geh!“ sagte er."), (2, "three", "drei")]


def test_notes_on_pairs_that_are_cut_and_on_one_file_for_both_sides(tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, 60)
    long = write(tmp_path / "long.txt", "one " * 50)
    overrides = [*SMALL, f"data.source={source}", f"data.validation={source},{target}", "data.max_length=20"]
    for target_file, note in ((source, "source and target are both"), (target, "1 test pairs are cut to 20 tokens")):
        task: Any = TASKS["translate"](
            recipes.load("translate", [*overrides, f"data.target={target_file}", f"data.test={long},{long}"])
        )
        task.prepare()
        assert any(note in each for each in task.splits().notes)


def test_objectives_are_refused_before_there_is_a_folder(
    headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert headway("train", "numbers", "data.objective=rdrop(wight=3)").code == 2
    assert not (tmp_path / "runs").exists()


def test_a_translator_in_int8(run: Run, headway: Headway) -> None:
    plain, whole = (json.loads(headway("evaluate", str(run.folder), "--json", *more).out) for more in ([], ["--int8"]))
    first, second = (actual["test"]["test"]["loss"] for actual in (plain, whole))
    assert first != second
    assert second == pytest.approx(first, rel=0.05)


def test_a_smoothed_loss_has_a_floor_and_a_check_knows_it() -> None:
    overrides = ["data.objective=likelihood(smoothing=0.1)", "data.examples=50"]
    task: Any = TASKS["numbers"](recipes.load("numbers", overrides))
    size = task.sizes[1]
    target = torch.full((size,), 0.1 / size, dtype=torch.float64)
    target[3] += 0.9
    best = task.objective(target.log()[None], torch.tensor([3]), None)
    assert best.total.item() == pytest.approx(task.floor, abs=1e-9)
    for objective in ("likelihood(smoothing=1)", "rdrop(weight=-1)"):
        with pytest.raises(Problem, match=r"data\.objective"):
            recipes.load("translate", [f"data.objective={objective}"])


def test_a_run_of_another_task_does_not_translate(headway: Headway, tmp_path: Path) -> None:
    list(
        start(recipes.load("parity", ["train.steps=2", "data.examples=50", "data.tests=10"]), tmp_path / "run").steps()
    )
    assert headway("translate", str(tmp_path / "run"), "0110").code == 2
    assert headway("align", str(tmp_path / "run"), "0110").code == 2


def test_changed_files_are_refused(run: Run, headway: Headway) -> None:
    file = Path(run.recipe.data.source)
    before = file.read_text()
    try:
        file.write_text(before.replace("one", "two", 1))
        outcome = headway("evaluate", str(run.folder))
        assert outcome.code == 2
        assert "have changed since the run began" in outcome.err
    finally:
        file.write_text(before)


@pytest.mark.parametrize("overrides", [["data.joint=false"], ["model.shared=false"], ["data.tokenizer=char"]])
def test_other_ways_of_sharing(tmp_path: Path, overrides: list[str]) -> None:
    source, target = write_pairs(tmp_path, 60)
    given = [f"data.train={source},{target}", *SMALL, "data.validation=0.2", "train.steps=2", "train.evaluate_every=2"]
    session = start(recipes.load("translate", [*given, *overrides]), tmp_path / "run")
    list(session.steps())
    run = Run(tmp_path / "run")
    assert run.evaluate()["validation"]["loss"] == pytest.approx(run.results["test"]["validation"]["loss"], abs=1e-6)


@pytest.mark.parametrize("mixer", ["lstm", "gru"])
def test_recurrent_networks_with_attention_translate(tmp_path: Path, mixer: str) -> None:
    source, target = write_pairs(tmp_path, 200)
    overrides = [
        f"data.source={source}",
        f"data.target={target}",
        *SMALL,
        "data.validation=0.2",
        f"model.mixer={mixer}",
    ]
    overrides += [f"model.encoder_mixer={mixer}(both=True)", "model.feedforward=none", "model.position=none"]
    session = start(
        recipes.load("translate", [*overrides, "train.steps=60", "train.warmup=5", "train.learning_rate=3e-3"]),
        tmp_path / "run",
    )
    losses = [step.loss for step in session.steps()]
    assert losses[-1] < 0.8 * losses[0]
    assert "bleu" in Run(tmp_path / "run").evaluate()["validation"].metrics


# --- numbers


def test_numbers_to_test_on_are_not_in_the_training_data() -> None:
    task: Any = TASKS["numbers"](recipes.load("numbers"))
    splits = task.splits()

    def numbers(data: Any) -> set[int]:
        return {task.number_in(text) for text in data.references}

    train = numbers(splits.train)
    assert not train & numbers(splits.test["unseen"])
    assert not train & numbers(splits.validation["validation"])
    assert min(numbers(splits.test["5 digits"])) >= 10_000
    assert train >= set(range(100))


def test_a_source_says_into_what() -> None:
    task: Any = TASKS["numbers"](recipes.load("numbers", ["data.examples=300"]))
    data = task.splits().train
    for tokens, target in zip(data.sources_of(), data.references, strict=True):
        into, _, number = task.tokenizers[0].decode(tokens).partition(" ")
        assert FORMS[into](task.number_in(number)) == target
    assert task.warning("de three hundred") == ""
    assert "is not a number in any form" in task.warning("de three hundert")
    assert "first word" in task.warning("three hundred")
