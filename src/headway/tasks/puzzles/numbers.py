"""Numbers: translate numbers between words and digits and between languages; see tasks/puzzles/spelling.

    de three hundred five   ->  dreihundertfünf
    digits dreihundertfünf  ->  305

The first word of a source names the target form. Answers are exact and compositional: a model that learned the rules is
right on unseen numbers, and a good one on longer ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.files import Progress, silent, tell_making
from headway.data.grammar import Random
from headway.data.pairs import Pairs
from headway.data.sequences import Sequences
from headway.tasks.puzzles.spelling import FORMS, read
from headway.tasks.seq2seq import Seq2Seq, Seq2SeqData
from headway.tasks.task import Splits
from headway.text.tokenizer import Tokenizer

FIRST = ("en", "de", "fr", "digits")


@dataclass(frozen=True)
class NumbersData(Seq2SeqData):
    forms: str = setting("en de fr digits", "languages, and digits; each is translated into each other")
    digits: int = setting(4, "maximum digits of a number; one test set has one more", least=3, most=5)
    examples: int = setting(40_000, "pairs to train on", least=1)
    tests: int = setting(500, "pairs in each validation and test set", least=1)
    tokenizer: str = setting("bpe", "how texts are split into tokens", choices=("char", "byte", "bpe"))
    vocab_size: int = setting(
        340, "maximum vocabulary size; for bpe 256 of them are the bytes", least=64, was="vocabulary"
    )


class Numbers(Seq2Seq):
    settings = NumbersData
    generates_data = True
    metric_names = ("loss", "accuracy", "exact")
    example = "de three hundred five"
    joint = True

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.forms = recipe.data.forms.split()
        for form in self.forms:
            if form not in FORMS:
                raise BadSetting("data.forms", f"unknown form {form!r}; {did_you_mean(form, FORMS)}")
        if len(set(self.forms)) < 2:
            raise BadSetting("data.forms", "name at least two forms to translate between")
        # The first four were all there once: a run with some of them has the tokens of all of them.
        learned = FIRST if set(self.forms) <= set(FIRST) else [form for form in FORMS if form in self.forms]
        spelled = [f"{form} {FORMS[form](number)}" for form in learned for number in range(2_000)]
        self.tokenizer = Tokenizer.learn(recipe.data.tokenizer, spelled, "", recipe.data.vocab_size, 1)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.tokenizer), len(self.tokenizer)

    def make_splits(self) -> Splits[Pairs]:
        """A tenth of the numbers from 100 on are held out; the smaller ones are needed to learn the words."""
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        below = 10**data.digits
        held_out = random.permutation(np.arange(100, below))[: below // 10]
        half, seen = len(held_out) // 2, np.setdiff1d(np.arange(below), held_out)
        longer = np.arange(below, 10 * below)
        tests = {
            "unseen": self.pairs(data.tests, held_out[half:], random),
            f"{data.digits + 1} digits": self.pairs(data.tests, longer, random),
        }
        validation = self.pairs(data.tests, held_out[:half], random)
        # There are few numbers with few digits: every number of digits is drawn equally often.
        sizes = np.char.str_len(seen.astype(str))
        weights = 1.0 / np.bincount(sizes)[sizes]
        train = self.pairs(data.examples, seen, random, weights / weights.sum())
        return Splits(train, {"validation": validation}, tests)

    def pairs(self, count: int, numbers: np.ndarray, random: Random, weights: np.ndarray | None = None) -> Pairs:
        sources: list[str] = []
        targets: list[str] = []
        for number in random.choice(numbers, count, p=weights):
            tell_making(self.progress, len(sources), count)
            source, target = random.choice(self.forms, 2, replace=False)
            sources.append(f"{target} {FORMS[source](int(number))}")
            targets.append(FORMS[target](int(number)))
        key = key_of(sources=sources, targets=targets)
        return Pairs(self.encoded(sources), self.encoded(targets), self.special("<sos>"), key, targets)

    def encoded(self, texts: Sequence[str]) -> Sequences:
        eos = self.special("<eos>")
        rows = [np.append(tokens, eos) for tokens in self.tokenizer.encode(texts)]
        return Sequences.join(rows).truncate(self.recipe.data.max_length)

    def warning(self, text: str) -> str:
        into, _, number = text.partition(" ")
        if into not in self.forms:
            return f"begins with none of {', '.join(self.forms)}: the first word names the target form"
        return f"{number!r} is not a number in any form" if self.number_in(number) is None else ""

    def number_in(self, text: str) -> int | None:
        """The number that a text spells, in any form."""
        return next((number for form in self.forms if (number := read(form, text)) is not None), None)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Pairs]:
        raise Problem("numbers are generated: evaluating on a file is not possible")

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizer.decode(tokens) for tokens in data.sources_of(count)]
