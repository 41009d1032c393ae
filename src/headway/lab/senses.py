"""Words in context: the vectors that a run makes of them, layer by layer, which depend on the words around.

Layer 0 is the embedding, which is the same wherever a word stands; layer n is what comes out of block n.

The cosine of two such vectors means little by itself: all of them share a direction, so that any two are alike
(Ethayarajh 2019, https://arxiv.org/abs/1909.00512). Without their mean, and without the few directions in which they
vary the most, cosines tell words apart again (Mu & Viswanath 2018, https://arxiv.org/abs/1702.01417).
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from headway.config.errors import Problem
from headway.lab.clusters import directions, grouped, silhouette
from headway.runs.run import Run
from headway.tasks.abilities import Tokenizes, need

WORD = re.compile(r"\w+(?:['’]\w+)*")
MOST = 5  # groups at most
LEAST = 4  # times that a word must come
CLEAR = 0.1  # a silhouette below is no grouping


class InContext(NamedTuple):
    words: list[str]  # (N,) in lower case, one sentence after another
    spellings: list[tuple[int, ...]]  # (N,): the tokens of each
    sentences: np.ndarray  # (N,): which one each is of
    layers: np.ndarray  # (L + 1, N, D)


class Layer(NamedTuple):
    """Mean cosines: of any two words, and of a word with itself elsewhere; and both without what all share."""

    number: int
    any_two: float
    itself: float
    any_two_after: float
    itself_after: float


class Senses(NamedTuple):
    layer: int
    groups: np.ndarray  # of each time that the word comes; those of the largest group are 0
    clear: float  # the silhouette of the groups
    vectors: np.ndarray  # (times, D) that they were found by
    sentences: np.ndarray  # (times,): which sentence each is of


def in_context(run: Run, sentences: Sequence[str]) -> InContext:
    model: Any = run.model().eval()
    tokenizer, device = need(run.task, Tokenizes).tokenizer_of("encoder.embedding"), next(model.parameters()).device
    body = dict(model.named_children()).get("encoder", model)
    words: list[str] = []
    spellings: list[tuple[int, ...]] = []
    numbers: list[int] = []
    rows = []
    for number, each in enumerate(sentences):
        sentence = f" {each}"  # pieces of words know the space before them: the first word is spelled as elsewhere
        tokens, spans = tokenizer.encode([sentence])[0], tokenizer.spans(sentence)
        found = [(match, standing_in(spans, match.span())) for match in WORD.finditer(sentence)]
        found = [(match, places) for match, places in found if places]
        if found:
            states = layers_of(body, torch.from_numpy(tokens.astype(np.int64))[None].to(device))
            rows.append(np.stack([states[:, places].mean(axis=1) for _, places in found], axis=1))
            words += [match.group().lower() for match, _ in found]
            spellings += [tuple(tokens[places].tolist()) for _, places in found]
            numbers += [number] * len(found)
    if not rows:
        raise Problem("there is no word in these sentences")
    return InContext(words, spellings, np.array(numbers), np.concatenate(rows, axis=1))


def standing_in(spans: Sequence[tuple[int, int]], word: tuple[int, int]) -> list[int]:
    """The tokens that have a character of the word."""
    return [place for place, (first, last) in enumerate(spans) if first < word[1] and last > word[0]]


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


def mean_cosine(vectors: np.ndarray) -> float:
    """Over all pairs of two different ones."""
    if len(vectors) < 2:
        return float("nan")
    units = directions(vectors.astype(np.float64))
    total = np.square(units.sum(axis=0)).sum() - np.square(units).sum()
    return float(total / (len(units) * (len(units) - 1)))


def without_what_all_share(vectors: np.ndarray, of: np.ndarray, count: int) -> np.ndarray:
    """Less the mean of the vectors ``of``, and less the directions in which these vary the most."""
    mean = of.mean(axis=0)
    _, _, axes = np.linalg.svd(of - mean, full_matrices=False)
    centred = vectors - mean
    return centred - centred @ axes[:count].T @ axes[:count]


def by_layer(found: InContext, word: str, count: int) -> list[Layer]:
    own, others = places_of(found, word), one_of_each(found)
    layers = []
    for number, vectors in enumerate(found.layers):
        after = without_what_all_share(vectors, vectors[others], count)
        cosines = (mean_cosine(each[places]) for each in (vectors, after) for places in (others, own))
        layers.append(Layer(number, *cosines))
    return layers


def one_of_each(found: InContext) -> np.ndarray:
    """The first place of each word, so that frequent ones do not count more."""
    return np.unique(np.array(found.words), return_index=True)[1]


def places_of(found: InContext, word: str) -> np.ndarray:
    """Where it stands in the tokens that it has the most often: another spelling has another vector from the start."""
    places = [place for place, each in enumerate(found.words) if each == word.lower()]
    spellings = Counter(found.spellings[place] for place in places)
    usual, times = spellings.most_common(1)[0] if spellings else ((), 0)
    if times < LEAST:
        raise Problem(f"{word!r} comes {times} times in these sentences: at least {LEAST} are needed")
    return np.array([place for place in places if found.spellings[place] == usual])


def senses(found: InContext, word: str, count: int, layer: int | None = None, groups: int | None = None) -> Senses:
    """The layer and the number of groups that are the farthest apart, unless they are given."""
    places, others = places_of(found, word), one_of_each(found)
    if layer is not None and not 0 <= layer < len(found.layers):
        raise Problem(f"there is no layer {layer}: they are 0 to {len(found.layers) - 1}")
    if groups is not None and groups > len(places):
        raise Problem(f"{word!r} comes {len(places)} times in these sentences, which cannot make {groups} groups")
    best: Senses | None = None
    for number in range(1, len(found.layers)) if layer is None else [layer]:
        vectors = without_what_all_share(found.layers[number], found.layers[number][others], count)[places]
        for size in range(2, min(MOST, len(places) - 1) + 1) if groups is None else [groups]:
            numbers = largest_first(grouped(vectors, size))
            clear = silhouette(vectors, numbers)
            if best is None or clear > best.clear:
                best = Senses(number, numbers, clear, vectors, found.sentences[places])
    assert best is not None
    return best


def largest_first(groups: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-counts, kind="stable"))[inverse]
