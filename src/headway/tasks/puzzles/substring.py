"""Substring: does a string contain the pattern?

Half of the strings do. Half of those that do not are near misses: the pattern with one letter changed.
"""

from dataclasses import dataclass
from functools import lru_cache
from string import ascii_lowercase

import numpy as np

from headway.config.errors import BadSetting
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.files import tell_making
from headway.data.grammar import Random
from headway.data.sequences import LabelledSequences
from headway.tasks.labelling import SIGMOID
from headway.tasks.puzzles.puzzle import Puzzle
from headway.tasks.puzzles.strings import count_without, length_range, with_pattern, without_pattern
from headway.tasks.task import Splits


@dataclass(frozen=True)
class SubstringData:
    pattern: str = setting("cab", "the pattern to search for")
    letters: int = setting(4, "alphabet size: a, b, ...", least=2, below=27)
    length: int = setting(20, "length of the longest strings", least=1)
    shortest: int | None = setting(None, "length of the shortest strings; none: all have the same length", least=1)
    longer: int | None = setting(None, "also test on strings of this length", least=1)
    examples: int = setting(20_000, "strings to train on", least=1)
    tests: int = setting(2_000, "strings in each validation and test set", least=1)


class Substring(Puzzle):
    settings = SubstringData

    def __init__(self, recipe: Recipe):
        data = recipe.data
        self.letters = ascii_lowercase[: data.letters]
        super().__init__(recipe, self.letters, ["no", "yes"], SIGMOID, data.length)
        self.lengths = length_range(data.shortest, data.length)
        self.shortest = self.lengths.start
        if not data.pattern or set(data.pattern) - set(self.letters):
            raise BadSetting("data.pattern", f"{data.pattern!r} must consist of the letters {self.letters}")
        if len(data.pattern) > self.lengths.start:
            raise BadSetting("data.pattern", f"{data.pattern!r} does not fit into strings of {self.lengths.start}")
        if data.longer is not None and len(data.pattern) > data.longer:
            raise BadSetting("data.longer", f"{data.pattern!r} does not fit into strings of {data.longer}")

    @property
    def example(self) -> str:  # type: ignore[override]
        """The pattern over and over, from its second letter on."""
        pattern, length = self.recipe.data.pattern, self.recipe.data.length
        return str(pattern * (length // len(pattern) + 2))[1 : length + 1]

    def make_splits(self) -> Splits[LabelledSequences]:
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        test = {"same": self.draw(data.tests, self.lengths, set(), random)}
        if data.longer is not None:
            test["longer"] = self.draw(data.tests, range(data.longer, data.longer + 1), set(), random)
        validation = {"same": self.draw(data.tests, self.lengths, set(), random)}
        held_out = {text for texts in (*test.values(), *validation.values()) for text in texts}
        train = self.draw(data.examples, self.lengths, held_out, random)
        notes: tuple[str, ...] = ()
        if held_out.intersection(train):
            few = [length for length in self.lengths if self.too_few(length, True) or self.too_few(length, False)]
            most = max(few, default=0)
            notes = (f"strings of up to {most} letters are in both train and test: there are too few of them",)
        return Splits(
            self.label(train),
            {name: self.label(texts) for name, texts in validation.items()},
            {name: self.label(texts) for name, texts in test.items()},
            notes,
        )

    def draw(self, count: int, lengths: range, held_out: set[str], random: Random) -> list[str]:
        """Alternately without and with the pattern, and none that is held out, unless too few strings have this
        length."""
        texts: list[str] = []
        while len(texts) < count:
            tell_making(self.progress, len(texts), count)
            has_pattern = len(texts) % 2 == 1
            make = with_pattern if has_pattern else without_pattern
            length = int(random.integers(lengths.start, lengths.stop))
            text = make(self.recipe.data.pattern, self.letters, length, random)
            if text not in held_out or self.too_few(length, has_pattern):
                texts.append(text)
        return texts

    @lru_cache  # noqa: B019 (a task lives as long as its run)
    def too_few(self, length: int, has_pattern: bool) -> bool:
        """Whether too few strings of this length have (or lack) the pattern to keep training and test disjoint."""
        without = count_without(self.recipe.data.pattern, self.letters, length)
        strings = len(self.letters) ** length - without if has_pattern else without
        return strings < 4 * self.recipe.data.tests

    def label(self, texts: list[str]) -> LabelledSequences:
        return self.sequences(texts, [int(self.recipe.data.pattern in text) for text in texts])
