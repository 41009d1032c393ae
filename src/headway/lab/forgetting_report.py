"""What came of a study of forgetting: rows by language, gains by share of replay, and their picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.lab.plot import Curve, Picture, Plot
from headway.lab.statistics import Interval, signed
from headway.metrics.table import Table
from headway.tasks.multilingual import NEW, OLD

OLD_MEAN, NEW_MEAN = f"mean over {OLD}", f"mean over {NEW}"
Curves = Mapping[str, Mapping[str, Sequence[Curve]]]  # way -> validation set -> a curve over tokens for each seed


@dataclass(frozen=True)
class LanguageRow:
    """A language, or the mean over some, in bits per byte."""

    language: str
    is_new: bool
    before: float
    after: dict[str, Interval]  # for each way to go on, and from scratch; without those that diverged

    def change(self, way: str) -> Interval | None:
        """Below 0: a gain."""
        after = self.after.get(way)
        return None if after is None else Interval(after.mean - self.before, after.margin)

    def cell(self, way: str) -> str:
        """``1.614 (+0.021)``."""
        if way not in self.after:
            return "diverged"
        mean, margin = self.after[way]
        return f"{mean:.3f}" + ("" if margin is None else f" ± {margin:.3f}") + f" ({mean - self.before:+.3f})"


@dataclass(frozen=True)
class Gain:
    """What going on with a share of replay brings and costs, in bits per byte."""

    replay: float
    new: Interval | None  # change in the mean over new languages
    old: Interval | None  # and over old ones
    as_good_after: float | None  # tokens until it is as good in new languages as training from scratch is at its end
    budget: int

    @property
    def saved(self) -> float | None:
        return None if self.as_good_after is None else self.budget - self.as_good_after


@dataclass(frozen=True)
class Forgetting:
    folder: Path
    budget: int  # tokens in each training
    rows: list[LanguageRow]
    gains: list[Gain]
    curves: Curves
    picture: Picture
    notes: list[str]

    def table(self) -> Table:
        """Each language before and after, and how much that is more or less."""
        ways = list(self.curves)
        rows = [
            (row.language, "new" if row.is_new else "old", f"{row.before:.3f}", *(row.cell(way) for way in ways))
            for row in self.rows
        ]
        return Table(["language", "", "before", *ways], rows)

    def gain_table(self) -> Table:
        return Table(
            ["replay", NEW, OLD, "as good as from scratch after", "tokens saved"],
            [
                (
                    f"{gain.replay:.0%}",
                    "" if gain.new is None else signed(gain.new),
                    "" if gain.old is None else signed(gain.old),
                    "never" if gain.as_good_after is None else f"{gain.as_good_after:,.0f} tokens",
                    "" if gain.saved is None else f"{gain.saved:,.0f} ({gain.saved / gain.budget:.0%})",
                )
                for gain in self.gains
            ],
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + self.gain_table()._repr_html_()


def mean_curve(curves: Sequence[Curve]) -> Curve:
    points = zip(*curves, strict=False)
    return [(own[0][0], sum(value for _, value in own) / len(own)) for own in points]


def crossing(curve: Curve, level: float) -> float | None:
    """Where a curve first falls to a level, between its points on a straight line; None: nowhere."""
    for (before, high), (after, low) in zip([curve[0], *curve], curve, strict=False):
        if low <= level:
            return after if high <= level else before + (high - level) / (high - low) * (after - before)
    return None


def plot_forgetting(rows: Sequence[LanguageRow], curves: Curves, replays: Sequence[str]) -> Plot:
    """Bits per byte over tokens, and how each language has changed."""
    bars = [row for row in rows if row.language not in (OLD_MEAN, NEW_MEAN)]
    plot = Plot((13, max(4.5, 0.12 * len(bars) * (len(replays) + 1))), 1, 2)
    left, right = plot.axes[0]
    for index, (way, sets) in enumerate(curves.items()):
        colour = f"C{index}" if way in replays else "black"
        for name, line in ((NEW, "-"), (OLD, "--")) if way in replays else ((NEW, "-"),):
            label, points = way if name == NEW else None, mean_curve(sets.get(name, []))
            left.plot(*zip(*points, strict=True), color=colour, linestyle=line, label=label)
    left.set(xlabel="tokens", ylabel="bits per byte", title=f"{NEW} (lines) and {OLD} (dashes)")
    left.legend()
    height = 0.8 / len(replays)
    for index, way in enumerate(replays):
        places = [place + height * index for place in range(len(bars))]
        changes = [row.change(way) for row in bars]
        right.barh(places, [change.mean if change else 0 for change in changes], height, color=f"C{index}", label=way)
    names = [f"{row.language}{'' if row.is_new else ' (old)'}" for row in bars]
    right.set_yticks([place + 0.4 - height / 2 for place in range(len(bars))], names)
    right.invert_yaxis()
    right.axvline(0, color="black", linewidth=0.8)
    right.set(xlabel="change in bits per byte", title="gained (left) and lost (right)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return plot
