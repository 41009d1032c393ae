"""Shared by classification puzzles: texts over a small alphabet, generated from the seed."""

from collections.abc import Sequence
from typing import ClassVar

from headway.config.recipe import Recipe
from headway.data.sequences import LabelledSequences
from headway.tasks.labelling import Labelling, Readout
from headway.text.framing import Framing, of_symbols
from headway.text.vocabulary import Vocabulary


class Puzzle(Labelling):
    generates_data = True
    are_words: ClassVar[bool] = False  # whether symbols are words between spaces, not characters

    def __init__(self, recipe: Recipe, symbols: Sequence[str], labels: list[str], readout: Readout, longest: int):
        super().__init__(recipe, labels, readout)
        self.vocabulary = Vocabulary(symbols, specials=("<pad>", "[CLS]"))
        self.vocab_size, self.length = len(self.vocabulary), longest

    def symbols_of(self, text: str) -> list[str]:
        return text.split() if self.are_words else list(text)

    def framing(self) -> Framing:
        tokenizer = of_symbols(self.vocabulary.symbols, self.are_words)
        first = (self.vocabulary.index["[CLS]"],) if self.has_cls else ()
        return Framing(tokenizer, first)

    def spans(self, text: str) -> list[tuple[int, int]]:
        spans, end = [], 0
        for symbol in self.symbols_of(text):
            start = text.index(symbol, end)
            end = start + len(symbol)
            spans.append((start, end))
        return spans

    def sequences(self, texts: Sequence[str], labels: Sequence[int] | None = None) -> LabelledSequences:
        prefix = self.vocabulary.index["[CLS]"] if self.has_cls else None
        rows = [self.vocabulary.encode(self.symbols_of(text), text) for text in texts]
        return LabelledSequences.of(rows, labels, prefix)
