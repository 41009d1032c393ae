"""Translation in several directions, which are measured apart: those that are trained on, and those that are not."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from headway.data.directions import Direction
from headway.data.pairs import Pairs
from headway.metrics.languages import direction_means
from headway.tasks.abilities import Ability, can, need
from headway.tasks.task import Task

Metrics = dict[str, float]


class HasDirections(Ability):
    """One model for several directions. Those that it is not trained on are zero-shot."""

    verb, does = "evaluate RUN", "translate in several directions"
    metric_names: ClassVar[tuple[str, ...]]  # the last is that of a matrix of scores

    @abstractmethod
    def trained_directions(self) -> frozenset[Direction]: ...

    @abstractmethod
    def measure(self, model: nn.Module, data: Any) -> Metrics: ...

    @abstractmethod
    def translations(self, model: nn.Module, data: Pairs) -> list[str]: ...

    @abstractmethod
    def scores(self, texts: Sequence[str], references: Sequence[str]) -> Metrics: ...

    def by_direction(self, data: Pairs) -> Mapping[Direction, Pairs]:
        return {direction: data.take(rows) for direction, rows in data.rows_by_direction.items()}

    def measure_directions(
        self, model: nn.Module, data: Pairs, texts: Sequence[str] | None = None
    ) -> dict[Direction, Metrics]:
        """``texts`` are the translations of all sources, if they are already made."""
        texts = self.translations(model, data) if texts is None else texts
        measured = {}
        for direction, rows in data.rows_by_direction.items():
            own = data.take(rows)
            scores = self.scores([texts[row] for row in rows.tolist()], own.references)
            measured[direction] = self.measure(model, own) | scores
        return measured

    def direction_report(self, measured: Mapping[Direction, Metrics]) -> dict[str, Any]:
        """As JSON has it."""
        trained = self.trained_directions()
        rows = [
            {**direction._asdict(), "trained": direction in trained, **metrics}
            for direction, metrics in measured.items()
        ]
        return {"metric": self.metric_names[-1], "scores": rows, "means": direction_means(measured, trained)}


def slow_metrics(task: Task, model: nn.Module, data: Any) -> tuple[Metrics, dict[str, Any]]:
    """The metrics that are measured on test sets only, and, as details, those of each direction; each text is
    translated once."""
    if not can(task, HasDirections):
        return task.test_metrics(model, data), {}
    directions = need(task, HasDirections)
    texts = directions.translations(model, data)
    measured = directions.measure_directions(model, data, texts)
    return directions.scores(texts, data.references), {"directions": directions.direction_report(measured)}
