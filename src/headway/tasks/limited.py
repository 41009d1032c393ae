"""Shared by tasks that can be told to train on less text than there is, and so to read it more often."""

from dataclasses import dataclass

import numpy as np

from headway.config.errors import BadSetting
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.tasks.abilities import ReadsTokens
from headway.tasks.multilingual import Multilingual
from headway.tasks.unlabelled import TextsTask


@dataclass(frozen=True)
class LimitedData:
    max_tokens: int | None = setting(
        None, "train on about this many tokens of text, chosen at random; none: on all of it", least=2
    )


class Limited(Multilingual, TextsTask, ReadsTokens):
    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        if recipe.data.max_tokens is not None and self.is_multilingual:
            raise BadSetting("data.max_tokens", "it does not work with data.language: leave one of them out")

    def limited(self, rows: np.ndarray) -> np.ndarray:
        """The rows (a mask) that are trained on. They come in an order that depends on their groups alone, until there
        are enough tokens: what a small number chooses is part of what a larger one does."""
        most = self.recipe.data.max_tokens
        if most is None:
            return rows
        own = np.flatnonzero(rows)
        own = own[np.argsort(self.groups(self.train)[own] * np.uint64(0xD1342543DE82EF95), kind="stable")]
        sizes = self.train.encoded(self.tokenizer).sizes[own]
        chosen = np.zeros(len(rows), bool)
        chosen[own[np.cumsum(sizes) - sizes < most]] = True
        return chosen

    def tokens_of_step(self) -> int:
        return self.splits().train.weight_of_step(self.recipe.train)

    def training_tokens(self) -> int:
        return self.splits().train.size
