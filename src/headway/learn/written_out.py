"""What the library leaves to torch or to another library, or has only in a fast form, written out; tests hold each
equal to what the library uses."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F


def unit_vector(x: Tensor) -> Tensor:
    """x divided by its length."""
    # learn: begin start.hello
    return x / torch.sqrt(x.square().sum())
    # learn: end


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(..., D): every vector gets mean 0 and variance 1, then a learned scale and shift; weight and bias are (D,)."""
    # learn: begin block.layernorm
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias
    # learn: end


def concatenated_heads(x: Tensor, queries: Tensor, keys: Tensor, values: Tensor, output: Tensor) -> Tensor:
    """Each head has its own matrices: x (L, D); queries, keys and values (H, D, K); output (H K, D)."""
    # learn: begin attn.heads
    mixed = []
    for query_matrix, key_matrix, value_matrix in zip(queries, keys, values, strict=True):
        query, key, value = x @ query_matrix, x @ key_matrix, x @ value_matrix
        scores = query @ key.T / math.sqrt(query.shape[-1])
        mixed.append(scores.softmax(dim=-1) @ value)
    return torch.cat(mixed, dim=-1) @ output
    # learn: end


def self_attention(x: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """One head, without a batch: x (L, D); the three matrices (D, d)."""
    # learn: begin attn.self
    query, key, value = x @ queries, x @ keys, x @ values
    scores = query @ key.T / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value
    # learn: end


def logits_of(
    one_hot: Tensor, encoder: Tensor, layers: Sequence[Callable[[Tensor], Tensor]], decoder: Tensor
) -> Tensor:
    """A whole model: one_hot (B, T, V), encoder (V, D), layers from (B, T, D) to (B, T, D), decoder (D, C)."""
    # learn: begin model.whole
    x = one_hot @ encoder
    for layer in layers:
        x = layer(x)
    return x @ decoder
    # learn: end


def loss_and_accuracy(states: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """At [CLS], the first token: states (B, T, D), weight (D,), targets (B,) of 0 and 1."""
    # learn: begin model.scores
    scores = states[:, 0] @ weight
    loss = F.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype))
    accuracy = ((scores > 0) == (targets == 1)).to(scores.dtype).mean()
    return loss, accuracy
    # learn: end


def cached_step(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The newest token: query, key and value are (B, H, 1, K); keys and values (B, H, T, K) of the tokens before it.

    Returns its output (B, H, 1, K), and the keys and values for the next step.
    """
    # learn: begin attn.cache
    keys, values = torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ values, keys, values
    # learn: end


def linear_rnn_gradient(matrix: Tensor, states: Tensor, target: Tensor) -> Tensor:
    """Backpropagation through time, without autograd, of h[t] = W h[t - 1] with the loss |h[T] - target|^2 / 2.

    matrix W (D, D), states h[0] ... h[T] (T + 1, D), target (D,). Returns the gradient of W.
    """
    # learn: begin rnn.bptt
    gradient = torch.zeros_like(matrix)
    error = states[-1] - target
    for state in states[:-1].flip(0):
        gradient = gradient + torch.outer(error, state)
        error = matrix.T @ error
    return gradient
    # learn: end


def tokenize(text: str, symbols: Sequence[str]) -> Tensor:
    """(n + 1, V): one-hot rows, for [CLS] and then for each character. ``symbols`` is the vocabulary, [CLS] in it."""
    # learn: begin tokens.onehot
    numbers = [symbols.index("[CLS]"), *(symbols.index(character) for character in text)]
    return F.one_hot(torch.tensor(numbers), len(symbols)).double()
    # learn: end


def vocabulary(texts: Sequence[str], specials: Sequence[str]) -> dict[str, int]:
    """The number of each symbol: the special ones first, then the characters of the texts in the order of the
    alphabet."""
    # learn: begin tokens.vocabulary
    characters = sorted(set("".join(texts)))
    return {symbol: number for number, symbol in enumerate([*specials, *characters])}
    # learn: end


def merge_pairs(words: Sequence[Sequence[str]], merges: int) -> list[tuple[str, str]]:
    """Train BPE: ``merges`` times, join the most frequent pair of neighbours; of equally frequent ones the first in the
    alphabet. Words occur as often as they are listed. Returns the pairs, in order."""
    # learn: begin tokens.bpe
    parts, learned = [list(word) for word in words], []
    for _ in range(merges):
        counts = Counter(pair for word in parts for pair in pairwise(word))
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        learned.append(best)
        parts = [joined(word, best) for word in parts]
    return learned
    # learn: end


def joined(word: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """A word, with a pair of neighbours as one symbol, from left to right."""
    # learn: begin tokens.merge
    result: list[str] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            result.append(pair[0] + pair[1])
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result
    # learn: end


def next_token_loss(logits: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
    """The mean of -log p(next token): logits (B, T, V), tokens (B, T), real (B, T), which is False at padding."""
    # learn: begin lm.loss
    log_probs = logits[:, :-1].log_softmax(dim=-1)
    right = log_probs.gather(-1, tokens[:, 1:, None])[..., 0]
    counted = real[:, 1:]
    return -(right * counted).sum() / counted.sum()
    # learn: end


def perplexity(log_probs: Tensor, real: Tensor) -> Tensor:
    """Of the natural log-probabilities (B, T) of tokens, of which those count that are real (B, T)."""
    # learn: begin lm.perplexity
    return torch.exp(-(log_probs * real).sum() / real.sum())
    # learn: end


def decoder_inputs(targets: Tensor, bos: int) -> Tensor:
    """Teacher forcing: what the decoder reads, (B, T), while it learns to write the targets (B, T)."""
    # learn: begin lm.teacher
    first = torch.full_like(targets[:, :1], bos)
    return torch.cat([first, targets[:, :-1]], dim=1)
    # learn: end


def smoothed_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy with label smoothing: this share of the target is spread evenly over all classes.
    logits (N, V), targets (N,)."""
    # learn: begin lm.smoothing
    log_probs = logits.log_softmax(dim=-1)
    right = log_probs.gather(-1, targets[:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * log_probs.mean(dim=-1)).mean()
    # learn: end


def greedy(step: Callable[[list[int]], Tensor], prompt: Sequence[int], eos: int, most: int) -> list[int]:
    """At most ``most`` new tokens, each the likeliest; the end token is not returned. ``step`` gives logits (V,)."""
    # learn: begin decode.greedy
    tokens = list(prompt)
    for _ in range(most):
        token = int(step(tokens).argmax())
        if token == eos:
            break
        tokens.append(token)
    return tokens[len(prompt) :]
    # learn: end


def beam_step(totals: Tensor, log_probs: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of hypotheses with log-probabilities (W,) and those of their next tokens (W, V), the best ``width`` extensions:
    their totals, the hypotheses they extend, and their tokens."""
    # learn: begin decode.beam
    sums = totals[:, None] + log_probs
    best = sums.flatten().topk(width)
    return best.values, best.indices // log_probs.shape[1], best.indices % log_probs.shape[1]
    # learn: end


def length_normalised(totals: Tensor, lengths: Tensor, penalty: float) -> Tensor:
    """The indices of hypotheses from the best to the worst, by log-probability / length ^ penalty."""
    # learn: begin decode.length
    return (totals / lengths**penalty).argsort(descending=True)
    # learn: end


def bleu(candidate: Sequence[str], reference: Sequence[str], longest: int = 4) -> float:
    """From 0 to 1, of a single sentence, without smoothing."""
    # learn: begin decode.bleu
    log_precisions = 0.0
    for size in range(1, longest + 1):
        own, other = (
            Counter(tuple(words[place : place + size]) for place in range(len(words) - size + 1))
            for words in (candidate, reference)
        )
        matches = sum(min(count, other[ngram]) for ngram, count in own.items())
        if matches == 0:
            return 0.0
        log_precisions += math.log(matches / own.total()) / longest
    brevity = min(0.0, 1 - len(reference) / len(candidate))
    return math.exp(brevity + log_precisions)
    # learn: end


def nearest(vectors: Tensor, word: int, count: int) -> Tensor:
    """The ``count`` words with the highest cosine similarity to a word, from the best on, itself left out."""
    # learn: begin embed.nearest
    unit = vectors / vectors.norm(dim=-1, keepdim=True)
    cosines = unit @ unit[word]
    cosines = cosines.scatter(0, torch.tensor(word), -math.inf)
    return cosines.topk(count).indices
    # learn: end


def dpo_loss(log_probs: Tensor, ref_log_probs: Tensor, beta: float) -> Tensor:
    """Mean over pairs: log_probs (N, 2) of the better and of the worse answer, and those of the reference model."""
    # learn: begin rlhf.dpo
    rewards = beta * (log_probs - ref_log_probs)
    return -F.logsigmoid(rewards[:, 0] - rewards[:, 1]).mean()
    # learn: end
