"""Planning a mixture of languages: what share each gets, and how often its text is read, before anything is trained."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import Problem
from headway.config.json_files import read_text
from headway.data.examples import Reading, examples
from headway.data.files import Progress, silent
from headway.data.languages import refuse_spellings
from headway.data.mixtures import is_written, shares_of
from headway.data.readers import Format
from headway.lab.plot import Plot
from headway.metrics.table import Table
from headway.recipes import parse_toml

USUAL = (
    "proportional",
    *(f"temperature(alpha={alpha})" for alpha in (0.7, 0.5, 0.3)),
    "uniform",
    "unimax(epochs=4)",
)
MOST_LANGUAGES = 100_000
LINES = ("-", "--")  # in turns, because lines may coincide
GROUP = {"languages", "size"}  # the keys of a group in a file of sizes


@dataclass(frozen=True)
class Group:
    """Languages of one size; nearly always one."""

    name: str
    languages: int
    size: float


@dataclass(frozen=True)
class MixturePlan:
    """For each mixture, the share of each language, and how often its text is read."""

    groups: list[Group]  # from the largest language to the smallest
    budget: float
    shares: dict[str, list[float]]  # by mixture: of one language of each group

    @property
    def epochs(self) -> dict[str, list[float]]:
        return {
            mixture: [share * self.budget / group.size for share, group in zip(own, self.groups, strict=True)]
            for mixture, own in self.shares.items()
        }

    def share_table(self) -> Table:
        """Of all languages of a group together."""
        rows = [
            (*self.about(group), *(f"{own[index] * group.languages:.3%}" for own in self.shares.values()))
            for index, group in enumerate(self.groups)
        ]
        return Table([*self.columns, *self.shares], rows)

    def epoch_table(self) -> Table:
        rows = [
            (*self.about(group), *(f"{own[index]:,.4g}" for own in self.epochs.values()))
            for index, group in enumerate(self.groups)
        ]
        return Table([*self.columns, *self.shares], rows)

    @property
    def columns(self) -> list[str]:
        return ["language", *(["languages"] if self.has_groups else []), "size"]

    @property
    def has_groups(self) -> bool:
        return any(group.languages > 1 for group in self.groups)

    def about(self, group: Group) -> list[object]:
        return [group.name, *([group.languages] if self.has_groups else []), f"{group.size:,.4g}"]

    def plot(self) -> Plot:
        """From the largest language to the smallest: its share, and how often its text is read."""
        plot = Plot((12, 4.5), 1, 2)
        ends = np.cumsum([group.languages for group in self.groups])
        for axes, rows, title in (
            (plot.axes[0, 0], self.shares, "share of a language"),
            (plot.axes[0, 1], self.epochs, "epochs over its text"),
        ):
            for index, (mixture, values) in enumerate(rows.items()):
                axes.step([0.9, *ends], [values[0], *values], where="pre", label=mixture, linestyle=LINES[index % 2])
            axes.set(xlabel="languages, from large to small", title=title, xscale="log", yscale="log")
            axes.grid(alpha=0.3)
        plot.axes[0, 0].legend(fontsize="small")
        return plot

    def _repr_html_(self) -> str:
        return f"<p>shares</p>{self.share_table()._repr_html_()}<p>epochs</p>{self.epoch_table()._repr_html_()}"


def plan(groups: Sequence[Group], mixtures: Sequence[str] = USUAL, budget: float | None = None) -> MixturePlan:
    """``budget`` is what training reads in all, in the unit of the sizes; None: as much as there is."""
    if not groups:
        raise Problem("there are no languages to mix: name a file with their texts or sizes")
    ranked = sorted(groups, key=lambda group: (-group.size, group.name))
    total = budget if budget is not None else sum(group.languages * group.size for group in groups)
    if not 0 < total < float("inf"):
        raise Problem(f"a training of {total:g} is not a training: name a finite number above 0")
    shares = {mixture: shares_of_groups(ranked, mixture, total) for mixture in mixtures}
    return MixturePlan(ranked, total, shares)


def shares_of_groups(groups: Sequence[Group], mixture: str, budget: float) -> list[float]:
    """Of one language of each; shares that are written by hand are those of whole groups."""
    if is_written(mixture):
        shares = shares_of(mixture, {group.name: group.size for group in groups}, budget)
        return [share / group.languages for share, group in zip(shares.tolist(), groups, strict=True)]
    sizes = {f"{group.name} {number}": group.size for group in groups for number in range(group.languages)}
    first_of_each = np.cumsum([0, *(group.languages for group in groups[:-1])])
    return shares_of(mixture, sizes, budget)[first_of_each].tolist()


def sizes_in(path: Path) -> list[Group]:
    """``en = 1e9``, or ``small = {languages = 490, size = 3e4}``, as TOML."""
    try:
        tree = parse_toml(read_text(path))
    except (OSError, ValueError) as error:
        raise Problem(f"{path} is not a file of sizes: {error}") from None
    groups = [group_of(name, value, path) for name, value in tree.items()]
    refuse_spellings((group.name for group in groups), path)
    if not sum(group.languages * group.size for group in groups) < float("inf"):
        raise Problem(f"{path}: the sizes are too large to be added up")
    if sum(group.languages for group in groups) > MOST_LANGUAGES:
        raise Problem(f"{path}: more than {MOST_LANGUAGES:,} languages")
    return groups


def group_of(name: str, value: Any, where: object) -> Group:
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"languages": 1, "size": value}
    languages, size = fields.get("languages", 1), fields.get("size", 0)
    is_right = fields.keys() <= GROUP and type(languages) is int and type(size) in (int, float)
    if not is_right or languages < 1 or not 0 < size <= sys.float_info.max:
        example = "such as en = 1e9, or small = {languages = 490, size = 3e4}"
        raise Problem(f"{where}: {name} = {value!r:.80} is not a size above 0, {example}")
    return Group(name, languages, float(size))


def sizes_of_texts(
    paths: Sequence[Path], language: str, text: str | None = None, progress: Progress = silent
) -> list[Group]:
    """In bytes; ``language`` is a column, or ``files``."""
    sizes: dict[str, int] = {}
    reading = Reading(text, language=language, has_labels=False, format=Format(whole=True))
    for path in paths:
        for example in examples(path, reading, progress=progress):
            sizes[example.language] = sizes.get(example.language, 0) + len(example.text.encode())
    refuse_spellings(sizes, ", ".join(map(str, paths)))
    return [Group(name, 1, float(size)) for name, size in sizes.items()]
