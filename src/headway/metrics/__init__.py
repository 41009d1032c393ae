"""Metrics as sums and counts; and which of two values is better, and what several sets come to."""

from collections.abc import Mapping

LOWER_IS_BETTER = {"loss", "perplexity", "bits_per_byte"}


def gain(metric: str, value: float, before: float) -> float:
    """How much better than before a value is; negative if it is worse."""
    return before - value if metric in LOWER_IS_BETTER else value - before


def worst(metric: str, sets: Mapping[str, Mapping[str, float]]) -> float:
    """A metric over several sets is that of the set that does worst: what is claimed must hold on each of them."""
    values = [metrics[metric] for metrics in sets.values()]
    return max(values) if metric in LOWER_IS_BETTER else min(values)
