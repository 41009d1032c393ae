"""The baselines of a task: simple models on the same split, and the items on which a network is compared with them."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from headway.data.ragged import RaggedTokens
from headway.metrics.items import Items
from headway.objectives.tally import Tally
from headway.tasks.abilities import Ability


@dataclass(frozen=True)
class Scored:
    """What a model reaches on a test set."""

    items: Items
    metrics: Mapping[str, float] = field(default_factory=dict)  # beside the one that the items are of

    @property
    def all_metrics(self) -> dict[str, float]:
        return {**self.metrics, self.items.metric: self.items.score}


@dataclass(frozen=True)
class Measured:
    """A baseline on all test sets."""

    sets: Mapping[str, Scored]
    parameters: int = 0
    about: str = ""  # what was chosen on validation data


@dataclass(frozen=True)
class Baseline:
    name: str
    measure: Callable[[], Measured]  # train it, and measure it
    prepare: Callable[[], object] = lambda: None  # what several baselines share: done once


class HasBaselines(Ability):
    verb, does = "baseline RUN", "have baselines that are trained in seconds"
    compared_by: ClassVar[str]  # the metric

    @abstractmethod
    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        """Trained on the training split, and measured on these test sets."""

    @abstractmethod
    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        """A hash of all data that they read."""

    @abstractmethod
    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        """About how long they take on one core."""

    @abstractmethod
    def items_of(self, model: Any, data: Any) -> Items:
        """How a network does on the same items."""


def hash_of(*parts: Any) -> str:
    """Of arrays and texts."""
    whole = hashlib.blake2b(digest_size=16)
    for part in parts:
        own = np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else str(part).encode()
        whole.update(len(own).to_bytes(8) + own)
    return whole.hexdigest()


def hash_of_tokens(data: RaggedTokens) -> str:
    whole = np.repeat(data.starts - np.cumsum(data.sizes) + data.sizes, data.sizes)
    return hash_of(data.sizes, data.tokens[whole + np.arange(len(whole))])


@torch.inference_mode()
def items_of_batches(
    metric: str, function: Callable[[Any], Tally], batches: Iterable[Any], device: torch.device
) -> Items:
    """Each batch is an item: a total and a count."""
    tallies = [function(batch.to(device)).detach_cpu() for batch in batches]
    return Items(metric, np.array([[float(each.total), float(each.count)] for each in tallies]))
