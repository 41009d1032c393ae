"""Numbers: translate numbers between words and digits and between languages; see text/spelling.

    de three hundred five   ->  dreihundertfünf
    digits dreihundertfünf  ->  305

The first word of a source names the target form. Answers are exact and compositional: a model that learned the rules is
right on unseen numbers, and a good one on longer ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.directions import Direction, Directions, among, directions_in
from headway.data.files import Progress, silent, tell_making
from headway.data.grammar import Random
from headway.data.mixtures import MIXTURES, Mixture, named_shares
from headway.data.pairs import Pairs
from headway.data.sequences import Sequences
from headway.tasks.directions import HasDirections
from headway.tasks.seq2seq import Seq2Seq, Seq2SeqData
from headway.tasks.task import Splits
from headway.text.spelling import FORMS, read
from headway.text.tokenizer import REVERSIBLE, Tokenizer

FIRST = ("en", "de", "fr", "digits")
UNIFORM, PROPORTIONAL = "uniform", "proportional"


@dataclass(frozen=True)
class NumbersData(Seq2SeqData):
    forms: str = setting("en de fr digits", "languages, and digits")
    directions: str | None = setting(
        None,
        "directions to train on, such as en-de,de-en, or en: everything from and into it; the others are zero-shot; "
        "none: all",
    )
    shares: str = setting("uniform", "how much of the training data each form has: uniform, or en=0.6,de=0.3,fr=0.1")
    mixture: str = setting("proportional", "share of each direction in training: a rule, or en-de=0.6,de-en=0.4")
    copies: float = setting(
        0.0, "share of training pairs that are copies of a text into its own language", least=0, below=1
    )
    digits: int = setting(4, "maximum digits of a number; one test set has one more", least=3, most=5)
    examples: int = setting(40_000, "pairs to train on", least=1)
    tests: int = setting(500, "pairs in each validation and test set", least=1)
    tokenizer: str = setting("bpe", "how texts are split into tokens")
    vocab_size: int = setting(
        340, "maximum vocabulary size; for bpe 256 of them are the bytes", least=64, was="vocabulary"
    )


class Numbers(Seq2Seq, HasDirections):
    settings = NumbersData
    generates_data = True
    metric_names = ("loss", "accuracy", "exact")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {**Seq2Seq.tables, "data.mixture": MIXTURES}
    example = "de three hundred five"
    joint = True

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        bind(REVERSIBLE, recipe.data.tokenizer, "data.tokenizer")
        data = recipe.data
        self.forms = data.forms.split()
        for form in self.forms:
            if form not in FORMS:
                raise BadSetting("data.forms", f"unknown form {form!r}; {did_you_mean(form, FORMS)}")
        if len(set(self.forms)) < max(2, len(self.forms)):
            raise BadSetting("data.forms", "name at least two forms to translate between, and each once")
        self.directions = trained_directions(data.directions, self.forms)
        self.weights: np.ndarray | None = None  # of the directions; None: all of them are equally likely
        if data.shares != UNIFORM:
            shares = named_shares(data.shares, self.forms, "data.shares")
            self.directions, self.weights = weighted(
                self.directions, dict(zip(self.forms, shares.tolist(), strict=True))
            )
        self.mixture = None if data.mixture == PROPORTIONAL else Mixture(data.mixture)
        # The first four were all there once: a run with some of them has the tokens of all of them.
        learned = FIRST if set(self.forms) <= set(FIRST) else [form for form in FORMS if form in self.forms]
        spelled = [f"{form} {FORMS[form](number)}" for form in learned for number in range(2_000)]
        self.tokenizer = Tokenizer.learn(data.tokenizer, spelled, "", data.vocab_size, 1)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.tokenizer), len(self.tokenizer)

    def trained_directions(self) -> frozenset[Direction]:
        return frozenset(self.directions)

    def make_splits(self) -> Splits[Pairs]:
        """A tenth of the numbers from 100 on are held out; the smaller ones are needed to learn the words."""
        data, random = self.recipe.data, np.random.default_rng([self.recipe.train.seed, 0])
        below = 10**data.digits
        held_out = random.permutation(np.arange(100, below))[: below // 10]
        half, seen = len(held_out) // 2, np.setdiff1d(np.arange(below), held_out)
        zero_shot = [each for each in among(self.forms) if each not in self.directions]

        def tests_of(numbers: np.ndarray, directions: Sequence[Direction]) -> Pairs:
            chosen = random.choice(numbers, data.tests)
            in_turns = list(islice(cycle(directions), data.tests))
            return self.pairs(chosen, self.drawn(data.tests, random) if self.is_plain else in_turns)

        if zero_shot:
            groups = {"trained directions": self.directions, "zero-shot directions": zero_shot}
            tests = {name: tests_of(held_out[half:], directions) for name, directions in groups.items()}
        else:
            pools = {"unseen": held_out[half:], f"{data.digits + 1} digits": np.arange(below, 10 * below)}
            tests = {name: tests_of(numbers, self.directions) for name, numbers in pools.items()}
        validation = tests_of(held_out[:half], self.directions)
        # There are few numbers with few digits: every number of digits is drawn equally often.
        sizes = np.char.str_len(seen.astype(str))
        weights = 1.0 / np.bincount(sizes)[sizes]
        numbers = random.choice(seen, data.examples, p=weights / weights.sum())
        train = self.pairs(numbers, self.with_copies(self.drawn(data.examples, random), random))
        return Splits(replace(train, mixture=self.mixture), {"validation": validation}, tests)

    @property
    def is_plain(self) -> bool:
        """Whether every form is translated into every other, and equally often."""
        return self.weights is None and len(self.directions) == len(among(self.forms))

    def drawn(self, count: int, random: Random) -> list[Direction]:
        """At random, as for training."""
        if self.is_plain:
            return [Direction(*random.choice(self.forms, 2, replace=False).tolist()) for _ in range(count)]
        rows = random.choice(len(self.directions), count, p=self.weights)
        return [self.directions[row] for row in rows.tolist()]

    def with_copies(self, directions: Sequence[Direction], random: Random) -> list[Direction]:
        """Where a language is only ever translated into one other, a model need not look at the name of the target, and
        does not, unless the same sources are copied as well."""
        copied = random.random(len(directions)) < self.recipe.data.copies
        return [
            Direction(each.source, each.source) if copy else each for each, copy in zip(directions, copied, strict=True)
        ]

    def pairs(self, numbers: np.ndarray, directions: Sequence[Direction]) -> Pairs:
        sources: list[str] = []
        targets: list[str] = []
        for number, direction in zip(numbers.tolist(), directions, strict=True):
            tell_making(self.progress, len(sources), len(numbers))
            sources.append(f"{direction.target} {FORMS[direction.source](number)}")
            targets.append(FORMS[direction.target](number))
        every = [Direction(*each) for each in product(self.forms, repeat=2)]
        places = {direction: place for place, direction in enumerate(every)}
        rows = np.array([places[direction] for direction in directions])
        return Pairs(
            self.encoded(sources),
            self.encoded(targets),
            self.special("<sos>"),
            key_of(sources=sources, targets=targets),
            targets,
            Directions.of(every, rows),
        )

    def encoded(self, texts: Sequence[str]) -> Sequences:
        eos = self.special("<eos>")
        rows = [np.append(tokens, eos) for tokens in self.tokenizer.encode(texts)]
        return Sequences.join(rows).truncate(self.recipe.data.max_length)

    def warning(self, text: str) -> str:
        into, _, number = text.partition(" ")
        if into not in self.forms:
            return f"begins with none of {', '.join(self.forms)}: the first word names the target form"
        return f"{number!r} is not a number in any form" if self.number_in(number) is None else ""

    def source_text(self, text: str) -> str:
        return text.partition(" ")[2]

    def number_in(self, text: str) -> int | None:
        """The number that a text spells, in any form."""
        return next((number for form in self.forms if (number := read(form, text)) is not None), None)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Pairs]:
        raise Problem("numbers are generated: evaluating on a file is not possible")

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizer.decode(tokens) for tokens in data.sources_of(count)]


def trained_directions(text: str | None, forms: Sequence[str]) -> list[Direction]:
    if text is None:
        return among(forms)
    chosen = directions_in(text, forms, "data.directions")
    if left_out := [form for form in forms if not any(form in each for each in chosen)]:
        raise BadSetting(
            "data.directions", f"{text!r} has none from or into {left_out[0]!r}: nothing could be learned about it"
        )
    return chosen


def weighted(directions: Sequence[Direction], shares: Mapping[str, float]) -> tuple[list[Direction], np.ndarray]:
    """The directions that are drawn at all, and how often each: in proportion to the product of the shares of its
    languages."""
    weights = {each: shares[each.source] * shares[each.target] for each in directions}
    drawn = {each: weight for each, weight in weights.items() if weight}
    if not drawn:
        raise BadSetting("data.shares", "data.directions has no direction between two languages with a share")
    return list(drawn), np.array(list(drawn.values())) / sum(drawn.values())
