"""What is written out for learners is what the library, torch or sacrebleu compute."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headway.generation.beam import best_sums
from headway.learn import written_out
from headway.nn.attend import attend
from headway.objectives.likelihood import cross_entropy
from headway.objectives.preference import ranking_loss


def test_layers() -> None:
    x, weight, bias = torch.randn(3, 5, 8).double(), torch.randn(8).double(), torch.randn(8).double()
    torch.testing.assert_close(written_out.layer_norm(x, weight, bias), F.layer_norm(x, (8,), weight, bias))
    torch.testing.assert_close(written_out.unit_vector(weight), F.normalize(weight, dim=0))


def test_attention() -> None:
    x, queries, keys, values = torch.randn(5, 6).double(), *torch.randn(3, 3, 6, 2).double()
    output = torch.randn(6, 6).double()
    heads = attend(x @ queries[None], x @ keys[None], x @ values[None])[0]
    torch.testing.assert_close(
        written_out.concatenated_heads(x, queries, keys, values, output), heads.transpose(0, 1).flatten(1) @ output
    )
    torch.testing.assert_close(written_out.self_attention(x, queries[0], keys[0], values[0]), heads[0])
    query, key, value = torch.randn(3, 2, 3, 6, 4).double()
    newest = query[:, :, 5:], key[:, :, 5:], value[:, :, 5:]
    last, keys, _ = written_out.cached_step(*newest, keys=key[:, :, :5], values=value[:, :, :5])
    assert torch.equal(keys, key)
    torch.testing.assert_close(last, attend(query, key, value, causal=True)[:, :, 5:])


def test_whole_models() -> None:
    tokens, encoder, decoder = torch.randint(7, (2, 5)), torch.randn(7, 4).double(), torch.randn(4, 3).double()
    stack = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    logits = written_out.logits_of(F.one_hot(tokens, 7).double(), encoder, list(stack), decoder)
    torch.testing.assert_close(logits, F.linear(stack(F.embedding(tokens, encoder)), decoder.T))
    states, weight, targets = torch.randn(6, 3, 4).double(), torch.randn(4).double(), torch.tensor([0, 1, 1, 0, 1, 0])
    loss, accuracy = written_out.loss_and_accuracy(states, weight, targets)
    probabilities = torch.sigmoid((states[:, 0] * weight).sum(dim=-1))
    right = torch.where(targets == 1, probabilities, 1 - probabilities)
    torch.testing.assert_close(loss, -right.log().mean())
    assert accuracy == (right > 0.5).double().mean()


def test_backpropagation_through_time() -> None:
    matrix = nn.Parameter(torch.randn(3, 3).double())
    states = [torch.randn(3).double()]
    for _ in range(4):
        states.append(matrix @ states[-1])
    target = torch.randn(3).double()
    ((states[-1] - target).square().sum() / 2).backward()
    gradient = written_out.linear_rnn_gradient(matrix.detach(), torch.stack(states).detach(), target)
    torch.testing.assert_close(gradient, matrix.grad)


def test_losses() -> None:
    logits, tokens = torch.randn(2, 5, 7).double(), torch.randint(7, (2, 5))
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    ours = cross_entropy(logits[:, :-1], tokens[:, 1:], real[:, 1:]).mean
    torch.testing.assert_close(written_out.next_token_loss(logits, tokens, real), ours)
    right = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    torch.testing.assert_close(written_out.perplexity(right, real[:, 1:]), ours.exp())
    torch.testing.assert_close(
        written_out.smoothed_loss(logits[0], tokens[0], 0.2), cross_entropy(logits[0], tokens[0], smoothing=0.2).mean
    )
    both = torch.randn(2, 3, 2).double()
    rewards = 0.3 * (both[0] - both[1]).flatten()
    ranking = ranking_loss(rewards, torch.tensor([0, 1] * 3), torch.arange(6) // 2).mean
    torch.testing.assert_close(written_out.dpo_loss(both[0], both[1], beta=0.3), ranking)


def test_decoding() -> None:
    totals, log_probs = torch.randn(3).double(), torch.randn(3, 100).double().log_softmax(-1)
    values, indices = best_sums(totals[None], log_probs[None], 4)
    own = written_out.beam_step(totals, log_probs, 4)
    torch.testing.assert_close(own[0], values[0])
    assert (own[1] * 100 + own[2]).tolist() == indices[0].tolist()


@pytest.mark.parametrize(
    "candidate", ["the cat sat on the mat today", "the the cat on the mat", "a cat sat on the mat"]
)
def test_bleu(candidate: str) -> None:
    from sacrebleu.metrics.bleu import BLEU

    reference = "the cat sat on the mat"
    theirs = BLEU(smooth_method="none", tokenize="none", force=True, effective_order=False)
    expected = theirs.sentence_score(candidate, [reference]).score / 100
    assert math.isclose(written_out.bleu(candidate.split(), reference.split()), expected, abs_tol=1e-9)


def test_bpe_is_that_of_the_paper() -> None:
    """The example of Sennrich et al. 2016, https://arxiv.org/abs/1508.07909, with the first of equal pairs."""
    counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    words = [[*word, "_"] for word, count in counts.items() for _ in range(count)]
    merges = written_out.merge_pairs(words, 3)
    assert merges == [("e", "s"), ("es", "t"), ("est", "_")]
    assert written_out.joined([*"newest", "_"], ("e", "s")) == ["n", "e", "w", "es", "t", "_"]
