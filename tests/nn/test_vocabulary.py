"""The vocabulary, shared out: the loss of logits of which each rank has some is that of all of them."""

import pytest
import torch
from torch import Tensor

from headway.nn.collectives import Axis
from headway.nn.vocabulary import PaddedCut, SharedLogits, TableShare, each
from headway.objectives.likelihood import UNCOUNTED, RDrop, cross_entropy
from ranks import together


def axis_of(rank: int, ranks: int) -> Axis:
    return Axis("tensor", rank, ranks)  # of all processes


def logits_and_targets(vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(2, 5, vocabulary, generator=random, dtype=torch.float64)
    targets = torch.randint(vocabulary, (2, 5), generator=random)
    targets[0, 1] = UNCOUNTED
    return logits, targets, torch.rand(2, 5, generator=random) < 0.7


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize(("vocabulary", "ranks"), [(12, 2), (11, 4), (5, 4), (2, 4)])  # some have no token at all
def test_the_loss_and_its_gradient(vocabulary: int, ranks: int, is_weighed: bool, smoothing: float) -> None:
    logits, targets, weights = logits_and_targets(vocabulary)
    chosen = weights if is_weighed else None
    whole = logits.clone().requires_grad_()
    counted = targets.masked_fill(~weights, UNCOUNTED) if is_weighed else targets
    flat = whole.flatten(0, 1), counted.flatten()
    expected = torch.nn.functional.cross_entropy(*flat, reduction="sum", label_smoothing=smoothing)
    expected.backward()
    cut = PaddedCut(2, (vocabulary,))

    def body(rank: int) -> tuple[Tensor, Tensor, Tensor]:
        axis = axis_of(rank, ranks)
        local = cut.local(logits, axis).requires_grad_()
        shared = SharedLogits(local, axis, vocabulary)
        tally = cross_entropy(shared, targets, chosen, smoothing)
        tally.total.backward()
        assert local.grad is not None
        return tally.total.detach(), cut.whole(local.grad, axis), shared.argmax()

    for loss, gradient, best in together(ranks, body):
        torch.testing.assert_close(loss, expected.detach(), atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(gradient, whole.grad, atol=1e-12, rtol=1e-12)
        assert torch.equal(best, logits.argmax(-1))


def test_an_objective_that_needs_all_logits_gets_them() -> None:
    logits, targets, _ = logits_and_targets(11)
    targets = targets.clamp(min=0)[:1]
    expected = RDrop()(logits, targets, None).total

    def body(rank: int) -> Tensor:
        axis = axis_of(rank, 2)
        return RDrop()(SharedLogits(PaddedCut(2, (11,)).local(logits, axis), axis, 11), targets, None).total

    for own in together(2, body):
        torch.testing.assert_close(own, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("blocks", [(7,), (7, 7, 7), (7, 20)])  # a table, one for each neighbour, n-grams
def test_each_row_stands_on_one_rank(blocks: tuple[int, ...]) -> None:
    table = torch.arange(sum(blocks))[:, None]
    cut, found = PaddedCut(0, blocks), torch.zeros(sum(blocks), dtype=torch.long)
    for rank in range(4):
        axis = axis_of(rank, 4)
        local, there = TableShare(axis, blocks).find(table[:, 0])
        own = cut.local(table, axis)
        assert len(own) == sum(each(size, 4) for size in blocks)
        assert torch.equal(own[local[there], 0], table[there, 0])
        assert sum(end - start for start, end in cut.spans(rank, 4)) == int(there.sum())
        found += there
    assert found.eq(1).all()
