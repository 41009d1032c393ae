"""Metrics, and how their values compare."""

import math
from collections.abc import Mapping

LOWER_IS_BETTER = {
    *("loss", "token_loss", "perplexity", "perplexity_word", "bits_per_byte", "bits_per_character"),
    "calibration_error",
}
NEITHER_IS_BETTER = {  # they describe a model; nothing can be stopped on them or searched for
    *("kl", "entropy", "length", "ended", "repeated", "clipped", "beta", "value_loss", "length_alone", "examples"),
}


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700))  # exp overflows above 709


def gain(metric: str, value: float, before: float) -> float:
    """How much better a value is than the one before; negative if it is worse."""
    return before - value if metric in LOWER_IS_BETTER else value - before


def worst(metric: str, sets: Mapping[str, Mapping[str, float]]) -> float:
    """A metric over several sets is its worst value: a claim must hold on every set."""
    values = [metrics[metric] for metrics in sets.values()]
    return max(values) if metric in LOWER_IS_BETTER else min(values)
