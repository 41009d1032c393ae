"""Batches bucketed by length within a token budget, and how long texts are truncated."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headway.data.samplers import ExampleSampler, buckets
from headway.data.sequences import KEEPS, LabelledSequences

LENGTHS = np.random.default_rng(0).integers(1, 200, 1000)


def test_an_epoch_has_every_row_once_within_the_budget() -> None:
    order = ExampleSampler(LENGTHS, batch_size=16, batch_tokens=1000, seed=1)
    for epoch in range(3):
        batches = order.epoch(epoch)
        assert sorted(np.concatenate(batches)) == list(range(1000))
        assert max(len(rows) for rows in batches) == 16
        assert all(len(rows) * LENGTHS[rows].max() <= 1000 for rows in batches)
    assert order.padding() < 0.1 < ExampleSampler(LENGTHS, 16, None, 1).padding()


def test_the_padding_is_what_the_batches_have() -> None:
    order = ExampleSampler(LENGTHS, 16, 1000, 1)
    data = LabelledSequences.of([np.ones(length, np.int64) for length in LENGTHS], [0] * 1000)
    batches = [data.batch(rows) for rows in order.epoch(0)]
    padded = sum(batch.inputs.numel() for batch in batches)
    assert order.padding() == pytest.approx(1 - sum(batch.tokens for batch in batches) / padded)


def test_the_order_is_a_function_of_seed_and_step() -> None:
    first, second = (ExampleSampler(LENGTHS, 16, 1000, seed=1) for _ in range(2))
    steps = [first.rows_at(step).tolist() for step in range(1, 300)]
    assert [second.rows_at(step).tolist() for step in (250, 3, 120)] == [steps[249], steps[2], steps[119]]
    assert ExampleSampler(LENGTHS, 16, 1000, seed=2).rows_at(1).tolist() != steps[0]
    in_epoch = first.steps_in(1)
    assert sorted(
        np.concatenate([first.rows_at(in_epoch + step) for step in range(1, len(first.epoch(1)) + 1)])
    ) == list(range(1000))


def test_epochs_become_steps() -> None:
    order = ExampleSampler(np.ones(100), 32, None, 1)
    assert [order.steps_in(epochs) for epochs in (0.5, 1, 2, 2.5)] == [2, 4, 8, 10]


def test_a_row_that_is_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    lengths = np.array([1, 2, 3, 50])
    assert [rows.tolist() for rows in buckets(np.arange(4), lengths, 8, 6)] == [[0, 1], [2], [3]]
    assert [rows.tolist() for rows in buckets(np.arange(4), lengths, 1, 100)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("prefix", [None, 99])
def test_long_texts_are_cut_at_the_end_that_is_not_kept(keep: str, prefix: int | None) -> None:
    long, short = np.arange(1, 11), np.array([7, 8])
    whole = LabelledSequences.of([long, short], [0, 1])
    data: Any = replace(whole, limit=5, keep=keep, prefix=prefix)
    kept = {"head": [1, 2, 3, 4, 5], "tail": [6, 7, 8, 9, 10], "both": [1, 2, 3, 9, 10]}[keep]
    front = [] if prefix is None else [prefix]
    batch = data.batch(np.array([0, 1]))
    assert batch.inputs.tolist() == [front + kept, [*front, 7, 8, 0, 0, 0]]
    assert batch.lengths is not None
    assert batch.lengths.tolist() == data.lengths.tolist() == [5 + len(front), 2 + len(front)]


def test_each_epoch_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late a step is: going through all of them must not take longer and longer."""
    made: list[int] = []
    make = ExampleSampler.make_epoch

    def counted(self: ExampleSampler, epoch: int) -> list[np.ndarray]:
        made.append(epoch)
        return make(self, epoch)

    monkeypatch.setattr(ExampleSampler, "make_epoch", counted)
    order = ExampleSampler(np.ones(50), 64, None, 1)
    for step in range(1, 3001):
        order.rows_at(step)
    assert made == list(range(3000))
