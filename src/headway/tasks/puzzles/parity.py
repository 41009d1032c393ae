"""Parity: is the number of ones odd?

There are two test sets. In ``random`` strings the number of ones concentrates around half the length, so a model that
knows a few counts scores well; in ``uniform`` strings every count is equally likely.
"""

from dataclasses import dataclass

import numpy as np

from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.sequences import LabelledSequences
from headway.tasks.labelling import SOFTMAX
from headway.tasks.puzzles.puzzle import Puzzle
from headway.tasks.puzzles.strings import held_out_bits, length_range, random_shapes, remaining_bits, uniform_shapes
from headway.tasks.task import Splits


@dataclass(frozen=True)
class ParityData:
    length: int = setting(16, "length of the longest strings", least=1)
    shortest: int | None = setting(None, "length of the shortest strings; none: all have the same length", least=1)
    examples: int = setting(20_000, "strings to train on", least=1)
    tests: int = setting(1_000, "strings in each validation and test set", least=1)
    uniform: float = setting(0.5, "share of training strings whose number of ones is uniform", least=0, most=1)


class Parity(Puzzle):
    settings = ParityData

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, "01", ["even", "odd"], SOFTMAX, recipe.data.length)
        self.lengths = length_range(recipe.data.shortest, recipe.data.length)
        self.shortest = self.lengths.start

    @property
    def example(self) -> str:  # type: ignore[override]
        length = self.recipe.data.length
        return ("0110100110010110" * (length // 16 + 1))[:length]

    def make_splits(self) -> Splits[LabelledSequences]:
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        taken: set[str] = set()

        def held_out() -> dict[str, LabelledSequences]:
            shapes = {"random": random_shapes, "uniform": uniform_shapes}
            return {
                name: self.label(held_out_bits(draw(data.tests, self.lengths, random), taken, random))
                for name, draw in shapes.items()
            }

        test, validation = held_out(), held_out()
        uniform = round(data.examples * data.uniform)
        shapes = uniform_shapes(uniform, self.lengths, random)
        shapes += random_shapes(data.examples - uniform, self.lengths, random)
        texts = remaining_bits(shapes, taken, random, self.progress)
        shared = sorted(taken.intersection(texts))
        note = f"in both train and test, because there are too few strings like these: {', '.join(shared)}"
        return Splits(self.label(texts), validation, test, (note,) if shared else ())

    def label(self, texts: list[str]) -> LabelledSequences:
        return self.sequences(texts, [text.count("1") % 2 for text in texts])
