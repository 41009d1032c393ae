"""Spans in sequences of tags: the schemes that write them, where they are, and their precision, recall and F1.

- bio: the first word of a span is B-TYPE, the others are I-TYPE, and what is in no span is O
- bioes: the last word is E-TYPE, and a span of one word is S-TYPE
- iob1: as bio, but B-TYPE only where a span follows another one of its type at once
- plain: any other tags. Each word is a span of its own, so that F1 is accuracy

Where tags contradict each other, spans are those of conlleval (Tjong Kim Sang & Buchholz 2000,
https://aclanthology.org/W00-0726): a word goes on with the span before it if it is of the same type, is neither B nor
S, and does not follow E or S.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headway.metrics.classification import precision_recall_f1

OUTSIDE = "O"
PLAIN, BIO, BIOES, IOB1 = "plain", "bio", "bioes", "iob1"
PREFIXES = {BIO: "BI", BIOES: "BIES", IOB1: "BI"}
O, B, I, E, S = range(5)  # noqa: E741 (the letters of the schemes)
PART = re.compile(r"[BIES]-.+", re.DOTALL)
FAULTS = {  # what is wrong with a tag, after the one before it
    "opens": "{tag!r} does not go on with a span: the tag before it is {before!r}; a span begins with {begins!r}",
    "breaks": "{tag!r} leaves the span before it open: after {before!r} comes an I- or an E- of the same type",
    "ends": "the sentence ends with {tag!r}, which leaves a span open: its last word is an E-",
}


class Spans(NamedTuple):
    """In a flat array of words."""

    starts: np.ndarray
    ends: np.ndarray  # the words behind the last ones
    types: np.ndarray


class Fault(NamedTuple):
    place: int  # of the word
    message: str


@dataclass(frozen=True)
class TagSet:
    """The tags of a task or of a file, in the order of their numbers, and the scheme that they follow."""

    names: Sequence[str]
    scheme: str = PLAIN

    @classmethod
    def of_types(cls, types: Collection[str], scheme: str) -> "TagSet":
        """Every tag that the scheme can write for these types of spans; for a plain one the types are the tags."""
        if scheme == PLAIN:
            return cls(list(types))
        return cls([OUTSIDE, *(f"{prefix}-{name}" for name in types for prefix in PREFIXES[scheme])], scheme)

    @cached_property
    def types(self) -> list[str]:
        """Of the spans."""
        if self.scheme == PLAIN:
            return list(self.names)
        return list(dict.fromkeys(name[2:] for name in self.names if name != OUTSIDE))

    @cached_property
    def prefix_of(self) -> np.ndarray:
        """(tags,): the letter of each tag, as a number; each plain one is a span of its own."""
        if self.scheme == PLAIN:
            return np.full(len(self.names), S)
        return np.array(["OBIES".index(name[0]) for name in self.names])

    @cached_property
    def type_of(self) -> np.ndarray:
        """(tags,): the number of each tag's type; 0 for O."""
        if self.scheme == PLAIN:
            return np.arange(len(self.names))
        index = {name: number for number, name in enumerate(self.types)}
        return np.array([index.get(name[2:], 0) for name in self.names])

    @cached_property
    def numbers(self) -> np.ndarray:
        """(5, types): the number of the tag with a prefix and a type; -1: there is none."""
        table = np.full((5, max(len(self.types), 1)), -1)
        table[self.prefix_of, self.type_of] = np.arange(len(self.names))
        if OUTSIDE in self.names and self.scheme != PLAIN:
            table[O] = list(self.names).index(OUTSIDE)
        return table

    def spans(self, tags: np.ndarray, begins: np.ndarray) -> Spans:
        """``tags`` (N,) are those of all sentences, and ``begins`` (N,) is True at the first word of each."""
        prefixes, types = self.prefix_of[tags], self.type_of[tags]
        before, type_before = np.where(begins, O, shifted(prefixes)), shifted(types)
        inside = prefixes != O
        breaks = np.isin(prefixes, (B, S)) | np.isin(before, (O, E, S)) | (types != type_before)
        starts = inside & breaks
        ends = inside & np.append(~inside[1:] | starts[1:], True)[: len(tags)]
        return Spans(np.flatnonzero(starts), np.flatnonzero(ends) + 1, types[starts])

    def tags(self, spans: Spans, size: int) -> np.ndarray:
        """(size,): the tags that write these spans."""
        prefixes, types = np.full(size, O), np.zeros(size, np.int64)
        lengths = spans.ends - spans.starts
        inside = np.repeat(spans.starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        prefixes[inside], types[inside] = I, np.repeat(spans.types, lengths)
        prefixes[spans.starts] = B
        if self.scheme in (BIOES, PLAIN):
            prefixes[spans.ends - 1] = E
            prefixes[spans.starts[lengths == 1]] = S
        return self.numbers[prefixes, types]

    def fault(self, tags: np.ndarray, begins: np.ndarray) -> Fault | None:
        """The first tag that the scheme does not allow in its place."""
        faults = self.faults(tags, begins)
        places = np.array([each.argmax() if each.any() else len(tags) for each in faults.values()])
        place = int(places.min(initial=len(tags)))
        if place == len(tags):
            return None
        tag = self.names[tags[place]]
        before = "the beginning of the sentence" if begins[place] else self.names[tags[place - 1]]
        message = list(FAULTS.values())[int(places.argmin())]
        return Fault(place, message.format(tag=tag, before=before, begins=f"B-{tag[2:]}"))

    def faulty(self, tags: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """The places of all tags that the scheme does not allow there."""
        return np.flatnonzero(np.logical_or.reduce(list(self.faults(tags, begins).values())))

    def faults(self, tags: np.ndarray, begins: np.ndarray) -> dict[str, np.ndarray]:
        """(N,) for each kind of fault: whether a tag has it."""
        prefixes, types = self.prefix_of[tags], self.type_of[tags]
        before, same = np.where(begins, O, shifted(prefixes)), types == shifted(types)
        no, last = np.zeros(len(tags), bool), np.append(begins[1:], True)[: len(tags)]
        if self.scheme == PLAIN:
            return dict.fromkeys(FAULTS, no)
        if self.scheme == IOB1:
            return dict.fromkeys(FAULTS, no) | {"opens": (prefixes == B) & ~((before != O) & same)}
        goes_on = np.isin(prefixes, (I, E))
        opens = goes_on & ~(np.isin(before, (B, I)) & same)
        if self.scheme == BIO:
            return {"opens": opens, "breaks": no, "ends": no}
        open_now = np.isin(prefixes, (B, I))
        return {"opens": opens, "breaks": np.isin(before, (B, I)) & ~goes_on, "ends": open_now & last}

    @cached_property
    def allowed(self) -> np.ndarray:
        """(tags + 1, tags + 1): whether a tag may follow another; the last row is the beginning of a sentence, and the
        last column its end."""
        size = len(self.names)
        whole = np.ones((size + 1, size + 1), bool)
        if self.scheme == PLAIN:
            return whole
        every = np.arange(size)
        pairs = np.stack([np.repeat(every, size), np.tile(every, size)], axis=1).ravel()
        faults = self.faults(pairs, np.arange(len(pairs)) % 2 == 0)
        whole[:size, :size] = ~(faults["opens"] | faults["breaks"])[1::2].reshape(size, size)
        alone = self.faults(every, np.ones(size, bool))
        whole[size, :size], whole[:size, size] = ~alone["opens"], ~alone["ends"]
        return whole


def shifted(values: np.ndarray) -> np.ndarray:
    """Each value one place later."""
    return np.append(values[:1] * 0, values[:-1])


def scheme_of(names: Collection[str]) -> str:
    """The scheme of a file with these tags, as far as they tell: iob1 looks like bio."""
    if not any(PART.fullmatch(name) for name in names):
        return PLAIN
    if not all(name == OUTSIDE or PART.fullmatch(name) for name in names):
        return PLAIN
    return BIOES if any(name[0] in "ES" for name in names) else BIO


class SpanCounts(NamedTuple):
    """By type: spans that are right, that were predicted, and that there are."""

    hits: np.ndarray
    predicted: np.ndarray
    actual: np.ndarray

    @classmethod
    def of(cls, predicted: Spans, actual: Spans, types: int) -> "SpanCounts":
        is_hit = hits(predicted, actual)
        chosen = (predicted.types[is_hit], predicted.types, actual.types)
        return cls(*(np.bincount(each, minlength=types) for each in chosen))

    def report(self, types: Sequence[str]) -> list[dict[str, Any]]:
        """Precision, recall and F1 of each type; 0 / 0 is 0."""
        precision = self.hits / np.maximum(self.predicted, 1)
        recall = self.hits / np.maximum(self.actual, 1)
        f1 = 2 * self.hits / np.maximum(self.predicted + self.actual, 1)
        return [
            {
                "type": name,
                "precision": float(precision[index]),
                "recall": float(recall[index]),
                "f1": float(f1[index]),
                "spans": int(self.actual[index]),
                "predicted": int(self.predicted[index]),
            }
            for index, name in enumerate(types)
        ]


def hits(predicted: Spans, actual: Spans) -> np.ndarray:
    """(predicted,): whether there is a span with the same words and the same type."""
    size = int(max(predicted.ends.max(initial=0), actual.ends.max(initial=0)))
    end, kind = np.full(size, -1), np.full(size, -1)
    end[actual.starts], kind[actual.starts] = actual.ends, actual.types
    same: np.ndarray = (end[predicted.starts] == predicted.ends) & (kind[predicted.starts] == predicted.types)
    return same


def tag_report(counts: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each tag, from a confusion matrix."""
    precision, recall, f1 = precision_recall_f1(counts)
    return [
        {
            "label": name,
            "precision": float(precision[index]),
            "recall": float(recall[index]),
            "f1": float(f1[index]),
            "examples": int(counts[index].sum()),
        }
        for index, name in enumerate(names)
    ]
