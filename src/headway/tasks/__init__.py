"""The tasks, by name."""

from headway.tasks.parity import Parity
from headway.tasks.substring import Substring
from headway.tasks.task import Answer, Splits, Task

TASKS: dict[str, type[Task]] = {"parity": Parity, "substring": Substring}

__all__ = ["TASKS", "Answer", "Parity", "Splits", "Substring", "Task"]
