"""Language models: the stream of documents, perplexity by hand, what is carried along, GPT-2, and problems of steps."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Outcome, quick, shake, write_texts
from headway import load, recipes
from headway.config.errors import BadSetting, Problem
from headway.data.readers import pieces
from headway.data.stream import Stream
from headway.generation import Beam, Sampling, beam_search, sample
from headway.generation.prompts import Shot, answer_in, majority, prompt
from headway.lab.preflight import check
from headway.models import ModelSpec, build_decoder
from headway.runs.fit import resume, start
from headway.runs.run import Run
from headway.tasks import TASKS
from headway.tasks.language import Language
from headway.tasks.puzzles.word_problems import NUMBERS, all_words, arithmetic, swaps
from headway.text.detokenize import Detokenizer
from headway.text.tokenizer import Tokenizer

TOKENS = np.arange(1, 24)


def language(folder: Path, *overrides: str) -> Language:
    task = TASKS["language"](recipes.load("language", [*quick("language", folder), *overrides]))
    task.prepare()
    assert isinstance(task, Language)
    return task


@pytest.mark.parametrize("stride", [None, 1, 2, 5])
@pytest.mark.parametrize("window", [1, 4, 5, 22, 30])
def test_every_target_counts_once(window: int, stride: int | None) -> None:
    stream = Stream(TOKENS, window, stride if stride is None else min(stride, window))
    seen: list[int] = []
    for _, batch in stream.batches(tokens=16):
        kept = batch.targets if batch.weights is None else batch.targets[batch.weights]
        seen += kept.flatten().tolist()
        assert (batch.targets == batch.inputs + 1).all()
        assert batch.count == kept.numel()
    assert sorted(seen) == TOKENS[1:].tolist()


def test_sliding_windows_leave_a_token_more_to_look_at() -> None:
    stream = Stream(TOKENS, window=6, stride=2)
    for _, batch in stream.batches():
        if batch.weights is not None:
            first = batch.weights.float().argmax(dim=1)
            assert ((first >= 4) | (batch.inputs[:, 0] == TOKENS[0])).all()


def test_an_epoch_of_windows_and_of_strands() -> None:
    stream, spec = Stream(np.arange(100), 8), recipes.load("language", ["train.batch_size=3"]).train
    order = stream.sampler(spec)
    first, second = ([order.epoch(number)] for number in (0, 1))
    starts = np.sort(np.concatenate(first[0]))
    assert (np.diff(starts) == 8).all()
    assert starts[-1] + 8 <= 99
    assert starts[0] < 8
    assert not np.array_equal(np.concatenate(first[0]), np.concatenate(second[0]))
    strands = replace(stream, carries=True)
    batches = [strands.batch(rows) for rows in strands.sampler(spec).epoch(0)]
    assert [batch.fresh for batch in batches] == [True, *[False] * (len(batches) - 1)]
    read = torch.cat([batch.inputs for batch in batches]).flatten().tolist()
    assert len(set(read)) == len(read) == 96
    for before, after in itertools.pairwise(batches):
        assert (after.inputs[:, 0] == before.targets[:, -1]).all()


def test_documents_are_told_apart_by_their_mark() -> None:
    stream = Stream(np.array([5, 6, 3, 7, 8, 9, 3, 4]), 7, mark=3)
    batch = stream.batch(np.array([0]))
    assert batch.documents is not None
    assert batch.documents.tolist() == [[0, 0, 1, 1, 1, 1, 2]]
    assert batch.targets.tolist() == [[6, 3, 7, 8, 9, 3, 4]]


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_pieces_of_a_long_text_are_encoded_as_the_whole(tmp_path: Path, tokenizer: str) -> None:
    text = "one two\n\n  three   four\n\tfive six\nseven " * 40 + "a" * 300
    path = tmp_path / "long.txt"
    path.write_text(text)
    with path.open() as file:
        parts = list(pieces(file, size=64))
    assert "".join(parts) == text
    assert len(parts) > 10
    made = Tokenizer.learn(tokenizer, [text], "", 300, 1)
    assert np.concatenate(made.encode(parts)).tolist() == made.encode([text])[0].tolist()
    assert made.decode(made.encode([text])[0].tolist()) == text
    assert made.byte_sizes[made.encode([text])[0]].sum() == len(text.encode())


def test_perplexity_by_hand_and_whatever_the_batch(tmp_path: Path) -> None:
    task = language(tmp_path, "data.tokenizer=char")
    model = shake(task.model())
    (stream,) = task.splits().validation.values()
    metrics = task.measure(model, stream)
    total, size = 0.0, 0
    ends = stream.ends
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        tokens = torch.from_numpy(stream.tokens[begin : end + 1].astype(np.int64))[None]
        documents = (tokens[:, :-1] == task.eos).cumsum(dim=1)
        rows = model(tokens[:, :-1], documents=documents)[0].double().log_softmax(dim=-1)
        total -= rows[torch.arange(end - begin), tokens[0, 1:]].sum().item()
        size += int(task.tokenizer.byte_sizes[tokens[0, 1:]].sum())
    assert metrics["loss"] == pytest.approx(total / (len(stream.tokens) - 1), rel=1e-6)
    assert metrics["perplexity"] == pytest.approx(math.exp(total / (len(stream.tokens) - 1)), rel=1e-5)
    assert metrics["bits_per_byte"] == pytest.approx(total / math.log(2) / size, rel=1e-6)
    assert size == len(stream.tokens) - 1 - int((stream.tokens[1:] == task.eos).sum())  # ASCII: a byte a character
    one_by_one = [batch for _, batch in stream.batches(tokens=1)]
    losses = [task.metrics(model, batch)["loss"].detach_cpu() for batch in one_by_one]
    together = losses[0]
    for loss in losses[1:]:
        together = together + loss
    assert together.mean.item() == pytest.approx(metrics["loss"], rel=1e-6)


def test_few_documents_are_cut_at_their_end(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("".join(f"line {number}\n" for number in range(200)))
    task = language(tmp_path, f"data.train={path}", "data.tokenizer=byte", "data.validation=0.1")
    splits = task.splits()
    whole = np.concatenate([splits.train.tokens, splits.validation["validation"].tokens])
    assert task.tokenizer.decode(whole.tolist()) == path.read_text()
    assert len(splits.train.tokens) == int(len(whole) * 0.9)
    assert task.documents == 1
    assert task.eos not in whole


def test_documents_are_in_one_part_each(tmp_path: Path) -> None:
    task = language(tmp_path, "data.tokenizer=byte", "data.test=0.2")
    splits = task.splits()
    texts = {
        name: task.tokenizer.core.decode(data.tokens.tolist(), skip_special_tokens=False).split("<eos>")
        for name, data in splits.sets.items()
        if "sliding" not in name
    }
    assert sum(len(each) for each in texts.values()) == 20
    assert sorted(text for each in texts.values() for text in each) == sorted(
        path.read_text() for path in (tmp_path / "texts").iterdir()
    )


CARRIES = ["model.mixer=lstm", "model.norm=plain", "model.feedforward=none", "model.position=none", "data.carry=true"]


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_what_is_carried_goes_on_over_batches_and_breaks(tmp_path: Path, kind: str) -> None:
    overrides = [
        *quick("language", tmp_path),
        *CARRIES,
        f"model.mixer={kind}",
        "data.cross_document=true",
        "train.batch_size=4",
    ]
    recipe = recipes.load("language", [*overrides, "train.steps=8", "train.checkpoint_every=3"])
    whole = [step.loss for step in start(recipe, tmp_path / "whole").steps()]
    session = start(recipe, tmp_path / "broken")
    for step in session.steps():
        if step.number == 6:
            break
    later = [step.loss for step in resume(tmp_path / "broken").steps()]
    assert later == whole[-len(later) :]
    assert len(later) == 2
    alone = start(recipes.load("language", [*overrides, "data.carry=false", "train.steps=8"]), tmp_path / "alone")
    assert [step.loss for step in alone.steps()] != whole


def test_the_second_batch_is_judged_with_what_the_first_left(tmp_path: Path) -> None:
    task = language(tmp_path, *CARRIES, "data.cross_document=true", "train.batch_size=3")
    model, train = task.model().train(), task.splits().train
    order = train.sampler(task.recipe.train)
    first, second = (train.batch(order.rows_at(step)) for step in (1, 2))
    task.loss(model, first)
    loss = task.loss(model, second)
    whole = model(torch.cat([first.inputs, second.inputs], dim=1))[:, first.inputs.shape[1] :]
    expected = torch.nn.functional.cross_entropy(whole.flatten(0, 1), second.targets.flatten(), reduction="sum")
    torch.testing.assert_close(loss.total, expected, atol=1e-3, rtol=1e-5)
    assert task.loss(model.eval(), second).total.item() != pytest.approx(loss.total.item(), rel=1e-6)


def test_a_state_goes_on_as_one_long_row() -> None:
    model = shake(build_decoder(ModelSpec(layers=2, width=8, mixer="lstm", position="none"), 11, 20))
    from headway.nn import State

    tokens, state = torch.randint(11, (3, 20)), State(3, 0)
    halves = [model(half, state=state) for half in tokens.split(10, dim=1)]
    torch.testing.assert_close(torch.cat(halves, dim=1), model(tokens), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.carry=true"], "recurrent"),
        (["data.stride=17"], "stride"),
        (["model.mixer=lstm"], "cross_document"),
        ([*CARRIES], "cross_document"),
        (["data.name=cobol", "data.train=none"], "cobol"),
        (["data.train=nowhere.txt"], "no file"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(Problem, match=message):
        language(tmp_path, *words)


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"data\.train"):
        TASKS["language"](recipes.load("shakespeare")).prepare()
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(Problem, match="empty"):
        language(tmp_path, f"data.train={tmp_path / 'empty.txt'}")


def test_words_come_when_they_are_certain() -> None:
    made = Tokenizer.learn("byte", [""], "", 300, 1)
    tokens = made.encode(["né stop! now"])[0].tolist()
    row = Detokenizer(made.decode, stops=["stop!"])
    out = [row.push(token) for token in tokens]
    assert out[:3] == ["n", "", "é"]
    assert "".join(out) == "né "
    assert row.done
    held = Detokenizer(made.decode, stops=["stop!"])
    given = [held.push(token) for token in made.encode(["a stork"])[0].tolist()]
    assert given[2:4] == ["", ""]
    assert "".join(given) + held.finish() == "a stork"
    words = Tokenizer.of_words(["two", "words"])
    spoken = Detokenizer(words.decode)
    assert [spoken.push(token) for token in words.encode(["two words two"])[0].tolist()] == ["two", " words", " two"]


def test_prompts_by_hand() -> None:
    shots = [Shot("1+1?", "2", "one and one."), Shot("2+2?", "4", "two and two.")]
    assert prompt("3+3?", shots[:1]) == "Q: 1+1?\nA: 2\n\nQ: 3+3?\nA:"
    assert prompt("3+3?", shots[:1], think=True) == "Q: 1+1?\nA: one and one. 2\n\nQ: 3+3?\nA:"
    assert prompt("3+3?", think=True) == "Q: 3+3?\nA: Let's think step by step."
    assert answer_in("it is 4, no, 6 apples", r"\d+") == "6"
    assert answer_in("answer six .", r"answer (\w+)") == "six"
    assert answer_in("nothing", r"\d+") is None
    assert majority(["a", "b", None, "b"]) == ("b", 0.5)
    assert majority([None]) == (None, 0.0)
    with pytest.raises(Problem, match="pattern"):
        answer_in("x", "(")


def test_problems_are_right() -> None:
    for seed in range(300):
        random = np.random.default_rng(seed)
        steps = 1 + seed % 6
        problem = arithmetic(steps, random)
        assert len(problem.steps) == steps + 1
        value: int | None = None
        for sentence in problem.question.split(" . ")[:-1]:
            words = sentence.split()
            if words[1] == "has":
                value = NUMBERS.index(words[2])
            else:
                assert value is not None
                change = {"gets": 1, "loses": -1}.get(words[1])
                if change:
                    value += change * NUMBERS.index(words[2])
                else:
                    value = 2 * value if words[1] == "doubles" else value // 2
        assert value is not None
        assert NUMBERS[value] == problem.answer
        moved = swaps(steps, random)
        first, *sentences = moved.question.removeprefix("in a row : ").split(" . ")[:-1]
        row = first.split()
        for swap in sentences:
            _, one, _, other = swap.split()
            row = [{one: other, other: one}.get(word, word) for word in row]
        assert row[0] == moved.answer
        assert moved.steps[-1].endswith(" ".join(row))
        for each in (problem, moved):
            for written in (False, True):
                assert set(f"{each.prompt(written)} {each.solution(written)}".split()) <= set(all_words())


def test_parts_of_a_batch_are_cut_in_all_their_tensors() -> None:
    task = TASKS["steps"](recipes.load("steps", ["data.examples=100", "data.tests=20"]))
    batch = task.splits().train.batch(np.arange(60))
    model = shake(task.model())
    whole = task.loss(model, batch)
    data = task.splits().train
    assert batch.count == int((data.sizes - data.prompt_sizes)[:60].sum())  # all that stands behind the prompts
    parts = [task.loss(model, part) for part in batch.split(4)]
    assert sum(part.count for part in parts) == whole.count == batch.count
    assert sum(part.total.item() for part in parts) == pytest.approx(whole.total.item(), rel=1e-5)
    assert any(part.inputs.shape[1] < batch.inputs.shape[1] for part in batch.split(4))


@pytest.mark.parametrize("name", ["language", "steps"])
def test_a_first_loss_is_near_that_of_knowing_nothing(name: str, tmp_path: Path) -> None:
    findings = {finding.what: finding for finding in check(recipes.load(name, quick(name, tmp_path)))}
    assert findings["first loss"].good, findings["first loss"].detail
    assert "classes" not in findings


def test_a_model_of_steps_is_measured_by_what_it_writes(tmp_path: Path) -> None:
    overrides = ["data.steps=1", "data.examples=300", "data.tests=20", "train.steps=3", "train.epochs=none"]
    run = start(recipes.load("steps", overrides), tmp_path / "run")
    list(run.steps())
    results = Run(tmp_path / "run").results["test"]
    assert set(results) == {"1 step, at once", "1 step, written"}
    task = run.task
    batch = task.splits().test["1 step, written"].batch(np.arange(20))

    class Oracle:
        """Writes what it should: the solutions, row by row."""

        positions: torch.Tensor

        def begin(self, rows: int, room: int) -> Any:
            return self

        def step(self, tokens: torch.Tensor, state: Any, new: torch.Tensor | None = None) -> tuple[torch.Tensor, Any]:
            lengths = torch.full((len(tokens),), tokens.shape[1]) if new is None else new
            self.positions = lengths if tokens.shape[1] > 1 else self.positions + 1
            indices = (self.positions - 1).clamp(max=batch.targets.shape[1] - 1)
            wanted = batch.targets[torch.arange(len(tokens)), indices]
            return torch.nn.functional.one_hot(wanted, 200).float(), self

    assert task.answer_accuracy(Oracle(), batch).mean == 1.0  # type: ignore[attr-defined]


def gpt2_of(model: Any, spec: ModelSpec, vocabulary: int, length: int) -> Any:
    """The same weights in transformers' GPT-2."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=length, n_embd=spec.width, n_layer=spec.layers, n_head=spec.heads,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    other = transformers.GPT2LMHeadModel(config).eval()
    ours, theirs = model.state_dict(), other.state_dict()
    copied = {"wte.weight": ours["embedding.table.weight"], "wpe.weight": ours["stack.position.table.weight"]}
    names = {
        "ln_1": "mixer.norm", "attn.c_attn": "mixer.sublayer.project", "attn.c_proj": "mixer.sublayer.output",
        "ln_2": "feedforward.norm", "mlp.c_fc": "feedforward.sublayer.inner",
        "mlp.c_proj": "feedforward.sublayer.outer",
    }  # fmt: skip
    for layer in range(spec.layers):
        for their, our in names.items():
            weight = ours[f"stack.blocks.{layer}.{our}.weight"]
            copied[f"h.{layer}.{their}.weight"] = weight.T if weight.ndim == 2 else weight
            copied[f"h.{layer}.{their}.bias"] = ours[f"stack.blocks.{layer}.{our}.bias"]
    copied |= {"ln_f.weight": ours["stack.norm.weight"], "ln_f.bias": ours["stack.norm.bias"]}
    wanted = {f"transformer.{name}" for name in copied} | {"lm_head.weight"}
    assert wanted == {name for name in theirs if not name.endswith((".attn.bias", ".masked_bias"))}
    other.load_state_dict({f"transformer.{name}": tensor for name, tensor in copied.items()}, strict=False)
    return other


GPT2 = ModelSpec(
    layers=3, width=48, heads=4, embedding="lookup(scale=1)", position="learned", feedforward="gelu(tanh=True)"
)


def test_gpt2_gives_the_same(tmp_path: Path) -> None:
    """Scores, greedy, beam search with a length penalty, and perplexity."""
    vocabulary, length, end = 29, 40, 2
    model: Any = shake(build_decoder(GPT2, vocabulary, length))
    other = gpt2_of(model, GPT2, vocabulary, length)
    tokens = torch.randint(3, vocabulary, (6, 12))
    torch.testing.assert_close(model(tokens), other(tokens).logits, atol=1e-4, rtol=1e-4)
    loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.item() == pytest.approx(other(tokens, labels=tokens).loss.item(), abs=1e-5)
    given = {"max_new_tokens": 20, "do_sample": False, "attention_mask": torch.ones_like(tokens)}
    greedy = other.generate(tokens, **given)[:, 12:]
    mine = torch.stack(list(sample(model, tokens.tolist(), 20, Sampling(0.0))), dim=1)
    for row, expected in zip(mine.tolist(), greedy.tolist(), strict=True):
        stop = row.index(end) + 1 if end in row else len(row)
        assert row[:stop] == expected[:stop]
    for penalty, early in [(1.0, True), (0.6, True), (1.0, "never"), (2.0, "never")]:
        theirs = other.generate(tokens, num_beams=4, length_penalty=penalty, early_stopping=early, **given)[:, 12:]
        actual = beam_search(model, tokens.tolist(), 20, end, Beam(4, length_penalty=penalty, early=early is True))
        for (best,), expected in zip(actual, theirs.tolist(), strict=True):
            stop = expected.index(end) if end in expected else len([token for token in expected if token])
            assert best.tokens == expected[: len(best.tokens)]
            assert len(best.tokens) == stop


def test_the_command_line_writes_and_searches(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts")
    overrides = [f"data.train={folder}", *quick("language", tmp_path)]
    assert headway("train", "language", *overrides, "--out", "run").code == 0
    once, again = (headway("generate", "run", "the plot", "--max-new-tokens", "20", "--seed", "3") for _ in range(2))
    assert once.code == 0
    assert once.out == again.out
    assert once.out.startswith("the plot")
    several = headway("generate", "run", "the", "a", "--count", "2", "--max-new-tokens", "5", "--json")
    assert [row["prompt"] for row in json.loads(several.out)] == ["the", "the", "a", "a"]
    drawn = headway("beam", "run", "the", "--width", "2", "--max-new-tokens", "3", "--svg", "tree.svg")
    assert drawn.code == 0
    assert "kept" in drawn.out
    assert (tmp_path / "tree.svg").read_text().startswith("<svg")
    json.loads(headway("beam", "run", "the", "--width", "2", "--max-new-tokens", "2", "--json").out)
    assert headway("generate", "run", "\udcff").code == 2
    assert load("run").generate([]) == []
    errors = headway("beam", "run", "--errors", "3", "--max-new-tokens", "2", "--width", "1", "--json")
    assert json.loads(errors.out)[0]["prompts"] == 3
    measured = headway("evaluate", "run", "--json")
    assert {"validation", "validation sliding"} == set(json.loads(measured.out)["test"])
    other = headway("evaluate", "run", "--data", str(folder / "1.txt"), "--json")
    assert set(json.loads(other.out)["test"]) == {"1.txt", "1.txt sliding"}
    wrong = headway("predict", "run", "the")
    assert (wrong.code, "generate" in wrong.err) == (2, True)
    model = load("run")
    (greedy,) = model.generate(["the"], max_new_tokens=5, temperature=0.0)
    assert model.generate("the", max_new_tokens=5, temperature=0.0) == greedy
    assert "".join(model.stream("the", max_new_tokens=5, temperature=0.0)) == greedy


def test_questions_are_asked(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    assert headway("train", "steps", *quick("steps", tmp_path), "--out", "run").code == 0
    errors = headway("beam", "run", "--errors", "2", "--max-new-tokens", "2", "--width", "1", "--json")
    assert json.loads(errors.out)[0]["prompts"] == 2
    outcome = headway("beam", "run", "tom has two cards .", "--max-new-tokens", "3", "--width", "2")
    assert len(outcome.out.splitlines()[-2].split()) == 5  # three words, a probability, a score
    unmeasured = headway("gradients", "run")
    assert (unmeasured.code, unmeasured.err.count("\n")) == (2, 1)
    question = "tom has two cards . he gets five . how many ?"
    outcome = json.loads(headway("ask", "run", question, "--think", "--samples", "3", "--json").out)
    assert outcome["prompt"] == f"{question} step by step :"
    assert len(outcome["texts"]) == 3
    (tmp_path / "shots.jsonl").write_text('{"question": "1 + 1 = ?", "answer": "2", "steps": "one more than one."}\n')
    refused = headway("ask", "run", question, "--shots", "shots.jsonl")
    assert (refused.code, "examples" in refused.err) == (2, True)
    assert headway("train", "language", *quick("language", tmp_path), "--out", "words").code == 0
    shown = json.loads(headway("ask", "words", "2 + 2 = ?", "--shots", "shots.jsonl", "--think", "--json").out)
    assert shown["prompt"] == "Q: 1 + 1 = ?\nA: one more than one. 2\n\nQ: 2 + 2 = ?\nA:"
    (tmp_path / "bad.jsonl").write_text('{"question": "1 + 1 = ?"}\n')
    assert headway("ask", "words", "2 + 2 = ?", "--shots", "bad.jsonl").code == 2


def test_a_tree_from_an_exam(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    tree = {"the": [0.6, {"cat": 0.5, "dog": 0.5}], "a": [0.4, {"cat": 0.9, "dog": 0.1}]}
    (tmp_path / "exam.json").write_text(json.dumps(tree))
    outcome = headway("beam", "--from", "exam.json")
    assert outcome.code == 0
    assert "a cat: 0.4 × 0.9 = 0.36, kept" in outcome.out
    widths = json.loads(headway("beam", "--from", "exam.json", "--json").out)
    assert [row["best"][0]["tokens"] for row in widths] == [["the", "cat"], ["a", "cat"]]
    (tmp_path / "bad.json").write_text('{"a": 0.5}')
    assert headway("beam", "--from", "bad.json").code == 2
    assert headway("beam").code == 2
