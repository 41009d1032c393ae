"""Word senses: the contextual vectors of a word, layer by layer, and clusters of the sentences that it occurs in.

Layer 0 is the embedding, which does not depend on the sentence; layer n is the output of block n.

Cosines of contextual vectors mean little by themselves: all vectors share a direction, so that any two are similar
(Ethayarajh 2019, https://arxiv.org/abs/1909.00512). Removing the mean and the first principal components helps (Mu &
Viswanath 2018, https://arxiv.org/abs/1702.01417).
"""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from headway.config.errors import Problem
from headway.lab.word_vectors import map_writer, project
from headway.runs.run import Run
from headway.tasks.abilities import Tokenizes, need

WORD = re.compile(r"\w+(?:['’]\w+)*")
MOST_GROUPS = 5
LEAST_OCCURRENCES = 4
CLEAR = 0.1  # clusters with a silhouette below this are not clearly separated
STARTS = 10  # of k-means
SAME = 1e-6  # cosine distances below this are rounding errors


class InContext(NamedTuple):
    """The N words of all sentences."""

    words: list[str]  # in lower case
    spellings: list[tuple[int, ...]]  # their tokens
    sentences: np.ndarray  # (N,) the sentence of each word
    layers: np.ndarray  # (L + 1, N, D)


class Layer(NamedTuple):
    """Mean cosines between any two words, and between occurrences of one word; before and after removing what all
    vectors share."""

    number: int
    any_two: float
    itself: float
    any_two_after: float
    itself_after: float


class Senses(NamedTuple):
    layer: int
    groups: np.ndarray  # (occurrences,) group 0 is the largest
    silhouette: float
    vectors: np.ndarray  # (occurrences, D)
    sentences: np.ndarray  # (occurrences,) the sentence of each

    @property
    def is_clear(self) -> bool:
        """Whether the groups are clearly separated."""
        return self.silhouette >= CLEAR


@dataclass(frozen=True)
class SenseStudy:
    layers: list[Layer]
    senses: Senses
    members: list[list[str]]  # the sentences of each group
    texts: list[str]  # the sentence of each occurrence
    other_spellings: int  # occurrences with other tokens, which are left out

    def map(self, path: str | Path, title: str = "") -> None:
        """Draw a map of the sentences, as .png or .html."""
        write_map = map_writer(Path(path))
        write_map(Path(path), self.texts, project(self.senses.vectors), title, self.senses.groups)


def study(
    run: Run, word: str, sentences: Sequence[str], remove: int = 1, layer: int | None = None, groups: int | None = None
) -> SenseStudy:
    """How the vector of a word varies over sentences; ``remove`` principal components are removed."""
    context = in_context(run, sentences)
    layers = by_layer(context, word, remove)
    best = senses(context, word, remove, layer, groups)
    texts = [sentences[number] for number in best.sentences]
    members = [
        [text for text, own in zip(texts, best.groups, strict=True) if own == group]
        for group in range(best.groups.max() + 1)
    ]
    return SenseStudy(layers, best, members, texts, context.words.count(word.lower()) - len(texts))


def in_context(run: Run, sentences: Sequence[str]) -> InContext:
    model: Any = run.network
    tokenizer, device = need(run.task, Tokenizes).tokenizer_of("encoder.embedding"), next(model.parameters()).device
    body = dict(model.named_children()).get("encoder", model)
    words: list[str] = []
    spellings: list[tuple[int, ...]] = []
    numbers: list[int] = []
    rows = []
    for number, text in enumerate(sentences):
        sentence = f" {text}"  # tokens include the space before a word: the first word is spelled like the others
        tokens, spans = tokenizer.encode([sentence])[0], tokenizer.spans(sentence)
        matches = [(match, tokens_of(spans, match.span())) for match in WORD.finditer(sentence)]
        matches = [(match, indices) for match, indices in matches if indices]
        if matches:
            try:
                states = layers_of(body, torch.from_numpy(tokens.astype(np.int64))[None].to(device))
            except Problem as problem:  # it is too long
                raise Problem(f"sentence {number + 1}: {problem}") from None
            rows.append(np.stack([states[:, indices].mean(axis=1) for _, indices in matches], axis=1))
            words += [match.group().lower() for match, _ in matches]
            spellings += [tuple(tokens[indices].tolist()) for _, indices in matches]
            numbers += [number] * len(matches)
    if not rows:
        raise Problem("there is no word in these sentences")
    return InContext(words, spellings, np.array(numbers), np.concatenate(rows, axis=1))


def tokens_of(spans: Sequence[tuple[int, int]], word: tuple[int, int]) -> list[int]:
    """The tokens that share a character with the word."""
    return [index for index, (first, last) in enumerate(spans) if first < word[1] and last > word[0]]


@torch.inference_mode()
def layers_of(body: Any, tokens: torch.Tensor) -> np.ndarray:
    """(L + 1, T, D)"""
    states: list[np.ndarray] = []
    hooks = [
        part.register_forward_hook(lambda module, inputs, output: states.append(output[0].float().cpu().numpy()))
        for part in (body.embedding, *body.stack.blocks)
    ]
    try:
        body(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack(states)


def directions(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def mean_cosine(vectors: np.ndarray) -> float:
    """Over all pairs of different vectors."""
    if len(vectors) < 2:
        return float("nan")
    units = directions(vectors.astype(np.float64))
    total = np.square(units.sum(axis=0)).sum() - np.square(units).sum()
    return float(total / (len(units) * (len(units) - 1)))


def remove_common(vectors: np.ndarray, reference: np.ndarray, count: int) -> np.ndarray:
    """Remove the mean and the first ``count`` principal components of the reference vectors."""
    mean = reference.mean(axis=0)
    _, _, axes = np.linalg.svd(reference - mean, full_matrices=False)
    centred = vectors - mean
    return centred - centred @ axes[:count].T @ axes[:count]


def by_layer(context: InContext, word: str, count: int) -> list[Layer]:
    own, others = occurrences(context, word), first_occurrences(context)
    layers = []
    for number, vectors in enumerate(context.layers):
        after = remove_common(vectors, vectors[others], count)
        cosines = (mean_cosine(version[indices]) for version in (vectors, after) for indices in (others, own))
        layers.append(Layer(number, *cosines))
    return layers


def first_occurrences(context: InContext) -> np.ndarray:
    """The first index of each word, so that frequent words do not count more."""
    return np.unique(np.array(context.words), return_index=True)[1]


def occurrences(context: InContext, word: str) -> np.ndarray:
    """The indices of a word in its most frequent spelling: another spelling has other embeddings."""
    indices = [index for index, each in enumerate(context.words) if each == word.lower()]
    spellings = Counter(context.spellings[index] for index in indices)
    usual, count = spellings.most_common(1)[0] if spellings else ((), 0)
    if count < LEAST_OCCURRENCES:
        raise Problem(f"{word!r} occurs {count} times in these sentences: at least {LEAST_OCCURRENCES} are needed")
    return np.array([index for index in indices if context.spellings[index] == usual])


def senses(context: InContext, word: str, count: int, layer: int | None = None, groups: int | None = None) -> Senses:
    """Clusters of the occurrences; the layer and the number of groups, unless given, are those with the highest
    silhouette."""
    indices, others = occurrences(context, word), first_occurrences(context)
    if layer is not None and not 0 <= layer < len(context.layers):
        raise Problem(f"there is no layer {layer}: they are 0 to {len(context.layers) - 1}")
    if groups is not None and groups > len(indices):
        raise Problem(f"{word!r} occurs {len(indices)} times in these sentences, too few for {groups} groups")
    best: Senses | None = None
    for number in range(1, len(context.layers)) if layer is None else [layer]:
        vectors = remove_common(context.layers[number], context.layers[number][others], count)[indices]
        for size in range(2, min(MOST_GROUPS, len(indices) - 1) + 1) if groups is None else [groups]:
            numbers = largest_first(clusters(vectors, size))
            score = silhouette(vectors, numbers)
            if best is None or score > best.silhouette:
                best = Senses(number, numbers, score, vectors, context.sentences[indices])
    assert best is not None
    return best


def clusters(vectors: np.ndarray, count: int) -> np.ndarray:
    """(N,): k-means by direction."""
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vectors may be equal, and there are fewer clusters then
        return KMeans(count, n_init=STARTS, random_state=0).fit_predict(directions(vectors.astype(np.float64)))


def silhouette(vectors: np.ndarray, groups: np.ndarray) -> float:
    """The mean silhouette by cosine distance, from -1 to 1 (Rousseeuw 1987); 0 where there is nothing to separate."""
    from sklearn.metrics import silhouette_score

    if not 2 <= len(np.unique(groups)) < len(groups):
        return 0.0
    units = directions(vectors.astype(np.float64))
    distances = np.maximum(1 - units @ units.T, 0)
    distances[distances < SAME] = 0
    np.fill_diagonal(distances, 0)
    return float(silhouette_score(distances, groups, metric="precomputed"))


def largest_first(groups: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-counts, kind="stable"))[inverse]
