"""Reviews: is a film review from a small grammar positive? It depends on where its negations are; see data/grammar."""

from dataclasses import dataclass

import numpy as np

from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.files import tell_making
from headway.data.grammar import LABELS, Random, all_words, plain_review, review
from headway.data.sequences import LabelledSequences
from headway.tasks.labelling import SOFTMAX
from headway.tasks.puzzles.puzzle import Puzzle
from headway.tasks.task import Splits

LONGEST_SENTENCE = 14  # i did really , as my friends had said , enjoy the plot .


@dataclass(frozen=True)
class ReviewsData:
    pairs: int = setting(1, "maximum pairs of sentences per review", least=1)
    plain: float = setting(
        0.0, "share of reviews without negations, which a bag of words can classify", least=0, most=1
    )
    examples: int = setting(10_000, "reviews to train on", least=1)
    tests: int = setting(1_000, "reviews in each validation and test set", least=1)


class Reviews(Puzzle):
    settings = ReviewsData
    are_words = True
    example = "the plot was not dull . i did really enjoy the music ."

    def __init__(self, recipe: Recipe):
        super().__init__(recipe, all_words(), LABELS, SOFTMAX, 2 * recipe.data.pairs * LONGEST_SENTENCE)

    def make_splits(self) -> Splits[LabelledSequences]:
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        taken: set[str] = set()
        test, validation = self.draw(data.tests, taken, random), self.draw(data.tests, taken, random)
        return Splits(self.draw(data.examples, taken, random), {"validation": validation}, {"test": test})

    def draw(self, count: int, taken: set[str], random: Random) -> LabelledSequences:
        """Alternating negative and positive reviews, none of them ``taken`` before."""
        texts: list[str] = []
        while len(texts) < count:
            tell_making(self.progress, len(texts), count)
            pairs = 1 + int(random.integers(self.recipe.data.pairs))
            plain = self.recipe.data.plain
            write = plain_review if plain and random.random() < plain else review
            text = write(len(texts) % 2, pairs, random)
            if text not in taken:
                taken.add(text)
                texts.append(text)
        return self.sequences(texts, [index % 2 for index in range(count)])
