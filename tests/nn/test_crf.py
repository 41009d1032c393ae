"""The linear-chain CRF beside the enumeration of all sequences of tags."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from headway.metrics.spans import TagSet
from headway.nn.crf import TAG_HEADS, Chain, Crf, log_partition, path_score, viterbi

SMALL = [(tags, time) for tags in (1, 2, 3) for time in (1, 2, 3, 4)]


def chain(tags: int) -> Chain:
    return Chain(*(torch.randn(size, dtype=torch.double) for size in ((tags, tags), (tags,), (tags,))))


def score(emissions: Tensor, tags: tuple[int, ...], own: Chain) -> Tensor:
    total = own.first[tags[0]] + own.last[tags[-1]]
    total = total + sum(emissions[place, tag] for place, tag in enumerate(tags))
    return total + sum(own.transitions[pair] for pair in pairwise(tags))


@pytest.mark.parametrize(("tags", "time"), SMALL)
def test_partition_best_sequence_and_probabilities_are_those_of_an_enumeration(tags: int, time: int) -> None:
    """Of rows of different lengths in one batch, each as if it were alone."""
    own, emissions = chain(tags), torch.randn(4, time, tags, dtype=torch.double)
    lengths = torch.tensor([time, 1, max(time - 1, 1), time])
    real = torch.arange(time) < lengths[:, None]
    totals, best = log_partition(emissions, real, own), viterbi(emissions, real, own)
    head = Crf(1, tags)
    with torch.no_grad():
        for weight, value in zip((head.transitions, head.first, head.last), own, strict=True):
            weight.copy_(value)
    marginals = head.marginals(emissions, real)
    for row, length in enumerate(lengths.tolist()):
        every = list(product(range(tags), repeat=length))
        scores = torch.stack([score(emissions[row], each, own) for each in every])
        torch.testing.assert_close(totals[row], scores.logsumexp(0))
        assert tuple(best[row, :length].tolist()) == every[int(scores.argmax())]
        assert not best[row, length:].any()
        chances = (scores - totals[row]).exp()
        for place, tag in product(range(length), range(tags)):
            expected = sum(chance for chance, each in zip(chances, every, strict=True) if each[place] == tag)
            assert float(marginals[row, place, tag]) == pytest.approx(float(expected), abs=1e-5)
        padded = torch.zeros(1, time, dtype=torch.long)
        padded[0, :length] = best[row, :length]
        torch.testing.assert_close(
            path_score(emissions[row : row + 1], padded, real[row : row + 1], own)[0], scores.max()
        )


def test_gradients() -> None:
    own, emissions = chain(3), torch.randn(3, 4, 3, dtype=torch.double, requires_grad=True)
    real = torch.arange(4) < torch.tensor([4, 1, 3])[:, None]
    tags = torch.randint(3, (3, 4))
    weights = [each.requires_grad_() for each in own]

    def loss(emissions: Tensor, *weights: Tensor) -> Tensor:
        given = Chain(*weights)
        return log_partition(emissions, real, given) - path_score(emissions, tags, real, given)

    assert torch.autograd.gradcheck(loss, (emissions, *weights))


@pytest.mark.parametrize("name", TAG_HEADS)
def test_what_stands_in_the_padding_changes_nothing(name: str) -> None:
    head = TAG_HEADS[name](4, 3)
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_()
    states, tags = torch.randn(2, 5, 4), torch.randint(3, (2, 5))
    real = torch.arange(5) < torch.tensor([5, 2])[:, None]
    other = torch.where(real[..., None], states, 100.0)
    losses, decoded = [], []
    for own, own_tags in ((states, tags), (other, torch.where(real, tags, 0))):
        emissions = head(own)
        tally = head.loss(emissions, own_tags, real)
        assert int(tally.count) == 7
        losses.append(torch.autograd.grad(tally.total, list(head.parameters())))
        decoded.append(head.decode(emissions, real))
    assert torch.equal(*decoded)
    torch.testing.assert_close(*losses)


def test_a_sequence_of_tags_has_a_probability() -> None:
    for name in TAG_HEADS:
        head = TAG_HEADS[name](4, 3)
        with torch.no_grad():
            for weight in head.parameters():
                weight.normal_()
        emissions, real = head(torch.randn(1, 3, 4)), torch.ones(1, 3, dtype=torch.bool)
        every = torch.tensor(list(product(range(3), repeat=3)))
        log_probs = head.log_likelihood(emissions.expand(len(every), -1, -1), every, real.expand(len(every), -1))
        assert float(log_probs.exp().sum().detach()) == pytest.approx(1, abs=1e-5)
        assert torch.equal(every[log_probs.argmax()][None], head.decode(emissions, real))
        assert float(head.marginals(emissions, real).sum().detach()) == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_a_constrained_one_writes_what_its_scheme_allows(scheme: str) -> None:
    kinds = TagSet.of_types(["A", "B"], scheme)
    head = Crf(4, len(kinds.names), torch.from_numpy(kinds.allowed), constrained=True)
    free = Crf(4, len(kinds.names), torch.from_numpy(kinds.allowed))
    with torch.no_grad():
        head.emissions.weight.normal_()
        free.load_state_dict(head.state_dict())
    states, real = torch.randn(50, 6, 4), torch.arange(6) < torch.randint(1, 7, (50, 1))
    faults = []
    for each in (head, free):
        tags = each.decode(each(states), real)
        rows = [row[own].numpy() for row, own in zip(tags, real, strict=True)]
        faults.append([kinds.fault(row, torch.arange(len(row)).numpy() == 0) for row in rows])
    assert not any(faults[0])
    assert any(faults[1])
