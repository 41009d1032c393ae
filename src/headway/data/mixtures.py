"""Mixtures: how much of the training text each language gets, and which texts that are.

A mixture turns the sizes n of the languages into shares p that add up to 1:

    proportional              p ∝ n
    temperature(alpha=0.3)    p ∝ n^alpha (Conneau & Lample 2019, https://arxiv.org/abs/1901.07291)
    uniform                   p ∝ 1
    unimax(epochs=4)          as even as possible, with no language repeated more often than that
                              (Chung et al. 2023, https://arxiv.org/abs/2304.09151)
    en=0.6,sw=0.4             the shares themselves

Languages are the usual case, but any named parts of the data will do.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from headway.config.errors import BadSetting, did_you_mean
from headway.config.parts import part
from headway.config.recipe import TrainSpec
from headway.data.languages import Languages

KEY, PROPORTIONAL = "data.mixture", "proportional"
TOLERANCE = 1e-6  # of the sum of all shares
ROWS_AT_ONCE = 1 << 16


def proportional(sizes: np.ndarray) -> np.ndarray:
    return sizes / sizes.sum()


def temperature(sizes: np.ndarray, alpha: float = 0.3) -> np.ndarray:
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha={alpha} is not a number from 0 on")
    # learn: begin multi.temperature
    powers = np.exp(alpha * (np.log(sizes) - np.log(sizes.max())))
    return powers / powers.sum()
    # learn: end


def uniform(sizes: np.ndarray) -> np.ndarray:
    return np.full(len(sizes), 1 / len(sizes))


def unimax(sizes: np.ndarray, budget: float, epochs: float = 4.0) -> np.ndarray:
    """Each language gets an equal part of the budget, from the smallest on; one that would be repeated too often gets
    ``epochs`` passes, and the larger ones share what is left. If all of them are used up, more than the budget is asked
    for, and the shares are those of the sizes."""
    if not epochs > 0:
        raise ValueError(f"epochs={epochs} is not above 0")
    # learn: begin multi.unimax
    given, left = np.zeros(len(sizes)), float(budget)
    for place, index in enumerate(np.argsort(sizes, kind="stable")):
        given[index] = min(left / (len(sizes) - place), epochs * sizes[index])
        left -= given[index]
    return given / given.sum()
    # learn: end


MIXTURES: dict[str, Callable[..., np.ndarray]] = {
    PROPORTIONAL: proportional,
    "temperature": temperature,
    "uniform": uniform,
    "unimax": unimax,
}


def shares_of(text: str, sizes: Mapping[str, float], budget: float, key: str = KEY) -> np.ndarray:
    """The share of each language, in the order of ``sizes``, in a training of ``budget``, which has the same unit."""
    if is_written(text):
        return named_shares(text, list(sizes), key)
    counts = np.array(list(sizes.values()), dtype=float)
    with np.errstate(all="ignore"):
        shares: np.ndarray = part(MIXTURES, text, key, sizes=counts, budget=budget)
    if not abs(shares.sum() - 1) <= TOLERANCE:  # nor if it is no number
        raise BadSetting(key, f"{text} has no shares for sizes from {counts.min():g} to {counts.max():g}")
    return shares


def is_written(text: str) -> bool:
    """Whether a mixture is a list of shares, not a rule."""
    return "=" in text.partition("(")[0]


def named_shares(text: str, names: Sequence[str], key: str = KEY) -> np.ndarray:
    """``en=0.6,sw=0.4``."""
    shares: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = (word.strip() for word in entry.rpartition("="))
        if name in shares:
            raise BadSetting(key, f"{name!r} has two shares")
        if name not in names:
            raise BadSetting(key, f"there are no texts in {name!r}; {did_you_mean(name, names)}")
        shares[name] = share_in(value, name, key)
    if missing := [name for name in names if name not in shares]:
        raise BadSetting(key, f"it has no share for {missing[0]!r}: give it one, or 0 to leave it out")
    total = sum(shares.values())
    if abs(total - 1) > TOLERANCE:
        raise BadSetting(key, f"the shares add up to {total:g}, not to 1")
    return np.array([shares[name] for name in names]) / total


def share_in(text: str, name: str, key: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+(e-?\d+)?", text) or not 0 <= float(text) <= 1:
        raise BadSetting(key, f"the share of {name!r} is {text!r}, not a number from 0 to 1")
    return float(text)


@dataclass(frozen=True)
class Mixture:
    """What a recipe says about the shares of the languages."""

    text: str = PROPORTIONAL
    replayed: frozenset[str] = frozenset()  # languages of the run that this one starts from,
    replay: float | None = None  # and the share that they get together; None: they are like the others

    @property
    def left_out(self) -> frozenset[str]:
        """Languages whose share is written, and 0."""
        entries = (entry.rpartition("=") for entry in self.text.split(",") if is_written(self.text))
        return frozenset(name.strip() for name, _, value in entries if share_in(value.strip(), name, KEY) == 0)

    def shares(self, names: Sequence[str], sizes: np.ndarray, budget: float) -> np.ndarray:
        """Of languages with these sizes, in a training of ``budget``, which has the same unit."""
        if self.replay is None:
            return self.shares_among(names, sizes, budget, sizes > 0)
        replayed = np.array([name in self.replayed for name in names])
        shares = np.zeros(len(names))
        for share, own in ((self.replay, replayed), (1 - self.replay, ~replayed)):
            own = own & (sizes > 0)
            if not own.any():
                which = "languages of the run that it starts from" if share == self.replay else "other languages"
                raise BadSetting("data.replay", f"the data have no {which}: leave it out")
            if share:
                shares += share * self.shares_among(names, sizes, share * budget, own)
        return shares

    def shares_among(self, names: Sequence[str], sizes: np.ndarray, budget: float, own: np.ndarray) -> np.ndarray:
        shares = np.zeros(len(names))
        shares[own] = shares_of(
            self.text, {names[index]: sizes[index] for index in np.flatnonzero(own).tolist()}, budget
        )
        return shares

    def plan(self, names: Sequence[str], sizes: np.ndarray, spec: TrainSpec, a_step: float) -> "Plan":
        """Of a training in which each step reads so much."""
        budget = spec.steps * a_step if spec.epochs is None else spec.epochs * float(sizes.sum())
        return Plan(names, sizes, self.shares(names, sizes, budget), budget)


@dataclass(frozen=True)
class Plan:
    """The share of each language in a training, and how often its text is read."""

    names: Sequence[str]
    sizes: np.ndarray
    shares: np.ndarray
    budget: float

    @property
    def epochs(self) -> np.ndarray:
        return self.shares * self.budget / np.maximum(self.sizes, 1)


class Mixes(ABC):
    """A dataset whose rows are in several languages."""

    languages: Languages | None  # of the rows; None: they are not told apart
    mixture: Mixture | None  # of the languages in training; None: every row is read once in each epoch

    @property
    @abstractmethod
    def weights(self) -> np.ndarray:
        """(N,): what a mixture counts each row for."""

    @abstractmethod
    def weight_of_step(self, spec: TrainSpec) -> float: ...

    def plan(self, spec: TrainSpec) -> Plan | None:
        if self.languages is None or self.mixture is None:
            return None
        names = self.languages.names
        sizes = np.bincount(self.languages.rows, weights=self.weights, minlength=len(names))
        return self.mixture.plan(names, sizes, spec, self.weight_of_step(spec))

    def order(self, spec: TrainSpec) -> "MixedOrder | None":
        """The rows of each epoch; None: all of them, shuffled."""
        plan = self.plan(spec)
        if plan is None or self.languages is None:
            return None
        return MixedOrder(self.languages, self.weights, plan.shares, spec.seed)


class MixedOrder:
    """The rows of each epoch, as a function of the seed and the epoch.

    A language's rows follow one another without end, in another order in each pass, and each epoch takes the next part
    of them: as many epochs as there are use every row equally often. An epoch is as long as all rows together.
    """

    def __init__(self, languages: Languages, sizes: np.ndarray, shares: np.ndarray, seed: int):
        """``sizes`` (N,) are those of the rows, in the unit that shares count."""
        self.sizes, self.shares, self.seed = sizes, shares, seed
        self.total = float(sizes.sum())
        own = languages.by_name()
        self.rows_of = [own.get(name, np.empty(0, np.int64)) for name in languages.names]

    def __call__(self, epoch: int) -> np.ndarray:
        """Shuffled; a row is there several times if its language is repeated within the epoch."""
        chosen = [self.span(language, epoch) for language in np.flatnonzero(self.shares).tolist()]
        return np.random.default_rng([self.seed, epoch]).permutation(np.concatenate(chosen))

    def span(self, language: int, epoch: int) -> np.ndarray:
        """The rows of a language that begin within an epoch's part of its endless sequence."""
        own = self.rows_of[language]
        length = float(self.sizes[own].sum())
        # Some way into the first pass: otherwise every language, however small its share, would begin each run.
        phase = length * float(np.random.default_rng([self.seed, language, 0]).random())
        first, last = (phase + number * self.total * self.shares[language] for number in (epoch, epoch + 1))
        at_once = max(ROWS_AT_ONCE // len(own), 1)  # passes
        chosen = []
        for block in range(int(first / length) // at_once, int(last / length) // at_once + 1):
            order = np.random.default_rng([self.seed, language, block + 1]).permuted(np.tile(own, (at_once, 1)), axis=1)
            sizes = self.sizes[order]
            passes = block * at_once + np.arange(at_once)
            begins = passes[:, None] * length + np.cumsum(sizes, axis=1) - sizes
            chosen.append(order[(begins >= first) & (begins < last)])
        return np.concatenate(chosen)


def drawn(
    texts: Callable[[], Iterable[str]], languages: Languages, mixture: str, key: str = KEY
) -> Callable[[], Iterator[str]]:
    """As many bytes of text as there are, in the shares of a mixture: some texts several times, and others not at all.
    A tokenizer is learned from them, and so they do not depend on the seed of a training."""
    sizes = np.fromiter((len(text.encode()) for text in texts()), float, len(languages.rows))
    by_language = np.bincount(languages.rows, weights=sizes, minlength=len(languages.names))
    own = {name: size for name, size in zip(languages.names, by_language.tolist(), strict=True) if size}
    shares = dict(zip(own, shares_of(mixture, own, sizes.sum(), key), strict=True))
    all_shares = np.array([shares.get(name, 0.0) for name in languages.names])
    times = np.bincount(MixedOrder(languages, sizes, all_shares, seed=0)(0), minlength=len(sizes)).tolist()

    def read() -> Iterator[str]:
        for text, count in zip(texts(), times, strict=True):
            yield from repeat(text, count)

    return read
