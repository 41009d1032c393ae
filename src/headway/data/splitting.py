"""Which examples are held out. What a model reads as the same text stays on one side, and what does not is reported."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from headway.config.errors import is_unicode
from headway.data.languages import Languages
from headway.text.pieces import piecewise
from headway.text.tokenizer import normalizer

WORDS = re.compile(r"\w+")


def fingerprint(text: str) -> int:
    """A 64-bit hash: a million texts have a collision with a probability of one in forty million."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


READ_ALIKE = "but for case, punctuation and spaces"


def reader(normalize: str) -> Callable[[str], str]:
    """A function that maps texts to the same text if a model cannot tell them apart: after normalization, without
    upper case, punctuation and white space, which some tokenizers drop. It may also map others together."""
    steps = normalizer(normalize)

    def read(text: str) -> str:
        text = piecewise(steps.normalize_str, text) if is_unicode(text) else text
        return " ".join(WORDS.findall(text.casefold())) or " ".join(text.split())

    return read


def joined_groups(groups: np.ndarray, read: np.ndarray) -> np.ndarray:
    """Groups that are read alike become one, named by the smallest of them; others keep their name and their split."""
    _, inverse = np.unique(read, return_inverse=True)
    smallest = np.full(inverse.max(initial=-1) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(smallest, inverse, groups)
    return smallest[inverse]


def shared_with_training(parts: Mapping[str, np.ndarray], what: str, alike: str) -> Iterator[str]:
    """Notes about held-out texts that are also in the training data, from the fingerprints of each part."""
    for use in ("validation", "test"):
        shared = int(np.isin(parts[use], parts["train"]).sum()) if use in parts else 0
        if shared:
            yield f"{shared:,} {what} of the {use} data are also in the training data, {alike}"


def cut(groups: np.ndarray, shares: Sequence[float], languages: Languages | None = None) -> list[np.ndarray]:
    """Split rows by group into masks, one per share and the rest last; no group is in two of them.

    Groups are put into a random order that depends on them alone, not on a run's seed, and each part takes the next
    ones until it has its share. Each language is split by itself, from the smallest on; a group that is in several
    goes with the smallest of them.
    """
    names, inverse = np.unique(groups, return_inverse=True)
    part = np.full(len(names), -1)
    spans = [np.arange(len(groups))] if languages is None else sorted(languages.by_name().values(), key=len)
    for rows in spans:
        own, counts = np.unique(inverse[rows], return_counts=True)
        is_new = part[own] < 0
        part[own[is_new]] = cut_groups(names[own[is_new]], counts[is_new], shares)
    return [part[inverse] == number for number in range(len(shares) + 1)]


def cut_groups(names: np.ndarray, counts: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """(groups,): the part that each goes into."""
    order = np.argsort(names * np.uint64(0x9E3779B97F4A7C15), kind="stable")
    middles = np.cumsum(counts[order]) - counts[order] / 2
    part = np.empty(len(names), np.int64)
    part[order] = np.searchsorted(np.cumsum(shares) * counts.sum(), middles, side="right")
    return part
