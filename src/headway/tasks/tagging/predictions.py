"""What a tagger says about a text."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from headway.metrics.spans import PLAIN, TagSet
from headway.tasks.abilities import Ability
from headway.tasks.task import Prediction


@dataclass(frozen=True)
class TaggedWord:
    """A word with its tag; ``start`` and ``end`` are its characters in the text."""

    text: str
    label: str
    probability: float
    start: int
    end: int


@dataclass(frozen=True)
class TaggedSpan:
    """The words of a name, say, as they stand in the text."""

    text: str
    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tagging(Prediction):
    """The tags of a text's words. ``label`` is all of them, and ``probability`` that of the whole sequence."""

    words: list[TaggedWord] = field(default_factory=list)
    spans: list[TaggedSpan] = field(default_factory=list)  # empty if the tags mark no spans

    @classmethod
    def of(
        cls, text: str, places: Sequence[tuple[int, int]], kinds: TagSet, tags: np.ndarray, chances: Sequence[float]
    ) -> "Tagging":
        """``chances`` are the probabilities of the words' tags, and behind them that of all."""
        names = [kinds.names[tag] for tag in tags]
        words = [
            TaggedWord(text[start:end], name, chance, start, end)
            for name, chance, (start, end) in zip(names, chances[:-1], places, strict=True)
        ]
        if not words:
            return cls(text, None, None, {})
        spans = []
        if kinds.scheme != PLAIN:
            for first, behind, kind in zip(*kinds.spans(tags, np.arange(len(tags)) == 0), strict=True):
                start, end = places[first][0], places[behind - 1][1]
                spans.append(TaggedSpan(text[start:end], kinds.types[kind], start, end))
        return cls(text, " ".join(names), chances[-1], {}, words, spans)


class Tags(Ability):
    verb, does = "predict RUN TEXT", "label words"
    labels: list[str]

    @property
    def own_labels(self) -> list[str | int]:
        return list(self.labels)

    @abstractmethod
    def predict(self, model: nn.Module, texts: Sequence[str]) -> Sequence[Tagging]:
        """The tags of each text's words."""
