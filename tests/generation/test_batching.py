"""Continuous batching: whoever comes and goes beside it, a sequence is what it would be alone."""

import random
from dataclasses import replace
from typing import Any

import pytest

from conftest import shake
from headway.generation import Sampling
from headway.generation.batching import Batcher, rows_within
from headway.generation.generator import Generator
from headway.generation.writing import Ending, Request
from headway.models import ModelSpec
from headway.models.build import build_decoder, build_prefix
from headway.nn.positions import POSITIONS
from headway.nn.recurrent import MIXERS
from trained import Trained

SPEC = ModelSpec(layers=1, width=16, heads=2)
RECURRENT = {"norm": "plain", "feedforward": "none", "position": "none"}
WINDOW = 24
SAMPLINGS = [
    *[Sampling(0), Sampling(0.8), Sampling(1, top_k=2), Sampling(0.7, top_p=0.9, repetition_penalty=1.3)],
    Sampling(0, repetition_penalty=1.2),
]
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"position": name} for name in POSITIONS},
    **{name: {"mixer": name, **RECURRENT} for name in MIXERS if name != "attention"},
    "grouped": {"kv_heads": 1, "qk_norm": "rmsnorm", "position": "rotary"},
    "region": {"embedding": "region(after=0)", "head": "own"},
    "hard": {"attention": "hard"},
    "prefix": {"position": "rotary"},
}


def generator_of(trained: Trained, name: str) -> Generator:
    """With random weights, and the letters' tokenizer."""
    letters = trained["letters"].generator()
    spec = replace(SPEC, **VARIANTS[name])
    build = build_prefix if name == "prefix" else build_decoder
    model = shake(build(spec, len(letters.tokenizer), WINDOW))
    window = None if name in MIXERS else WINDOW
    return replace(letters, model=model, window=window, eos=None)


def requests(count: int = 12) -> list[Request]:
    dice = random.Random(5)
    shared = "".join(dice.choices("ab", k=12))
    made = []
    for number in range(count):
        own = "".join(dice.choices("ab", k=dice.randint(1, 30)))
        prompt = f"{shared}{own[:6]}" if number % 3 == 0 else own
        tokens, stops = dice.choice([1, 5, 30]), ["abba"] if number % 5 == 0 else []
        made.append(Request(number, prompt, dice.choice(SAMPLINGS), tokens, number, stops, number % 3 or None))
    return made


def write(
    batcher: Batcher, wanted: list[Request], arrivals: int | None
) -> tuple[dict[int, str], dict[int, list[float]]]:
    """The texts and log-probabilities; ``arrivals``: at most so many requests come with each step, None: one comes when
    the one before it is done."""
    dice, waiting = random.Random(arrivals), list(wanted)
    texts: dict[int, str] = dict.fromkeys(range(len(wanted)), "")
    logprobs: dict[int, list[float]] = {}
    while waiting or batcher.busy:
        for _ in range(not batcher.busy if arrivals is None else dice.randint(0, arrivals)):
            if waiting:
                batcher.add(waiting.pop(0))
        for piece in batcher.step():
            texts[piece.key] += piece.text
            if piece.logprob is not None:
                logprobs.setdefault(piece.key, []).append(piece.logprob.logprob)
    return texts, logprobs


@pytest.mark.parametrize("name", VARIANTS)
def test_a_text_is_what_it_would_be_alone(trained: Trained, name: str) -> None:
    generator, wanted = generator_of(trained, name), requests()
    texts, logprobs = write(Batcher(generator, 5), wanted, arrivals=3)
    alone = {
        each.key: generator.write([each.prompt], each.max_new_tokens, each.sampling, [each.seed], each.stops)[0]
        for each in wanted
    }
    assert texts == alone
    one_by_one, own = write(Batcher(generator, 5), wanted, arrivals=None)
    assert one_by_one == alone
    for key, values in logprobs.items():
        assert values == pytest.approx(own[key], abs=1e-5)


def test_prompts_that_share_a_beginning_share_its_keys(trained: Trained) -> None:
    """Also with one that has ended; not in a model whose prompts see themselves from both sides."""
    wanted = [
        Request(number, "abbabaabbaab" + end, Sampling(0), 2) for number, end in enumerate(["a", "bb", "ba", "a"])
    ]
    together, after = (Batcher(generator_of(trained, "rotary"), 4) for _ in range(2))
    write(together, wanted, arrivals=4)
    write(after, wanted, arrivals=None)
    assert together.shared_tokens >= 36
    assert after.shared_tokens >= 36
    for name in ("prefix", "lstm"):
        apart = Batcher(generator_of(trained, name), 4)
        write(apart, wanted, arrivals=4)
        assert apart.shared_tokens == 0


def test_who_is_cancelled_costs_nothing_and_changes_nothing(trained: Trained) -> None:
    generator = generator_of(trained, "rotary")
    wanted = [Request(number, "ab" * (number + 1), Sampling(0.9), 20, number) for number in range(6)]
    whole, _ = write(Batcher(generator, 4), wanted, arrivals=6)
    batcher = Batcher(generator, 4)
    for each in wanted:
        batcher.add(each)
    texts = dict.fromkeys(range(6), "")
    for number in range(200):
        for piece in batcher.step():
            texts[piece.key] += piece.text
        if number == 3:
            batcher.cancel(1)
            batcher.cancel(5)  # which has not begun
        if not batcher.busy:
            break
    assert texts[5] == ""
    assert len(texts[1]) < 20
    assert {key: texts[key] for key in (0, 2, 3, 4)} == {key: whole[key] for key in (0, 2, 3, 4)}


def test_a_batch_is_as_large_as_its_keys_may_be(trained: Trained) -> None:
    generator = generator_of(trained, "rotary")
    row = 2 * 16 * WINDOW * 4  # keys and values, width, tokens, bytes
    assert rows_within(10 * row, generator, 32) == 10
    assert rows_within(1000 * row, generator, 32) == 32
    assert rows_within(0, generator, 32) == 1


@pytest.mark.parametrize("pieces", [["ab", "c\n"], ["a", "b", "c", "\n"], ["abc\n"], ["abc"]])
def test_the_ending_of_a_template_is_left_out(pieces: list[str]) -> None:
    ending = Ending("\n")
    assert "".join([*(ending.push(piece) for piece in pieces[:-1]), ending.finish(pieces[-1])]) == "abc"
