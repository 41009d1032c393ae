"""The tasks, by name."""

from headway.tasks.classify import Classify
from headway.tasks.parity import Parity
from headway.tasks.reviews import Reviews
from headway.tasks.substring import Substring
from headway.tasks.task import Answer, Splits, Task

TASKS: dict[str, type[Task]] = {"classify": Classify, "parity": Parity, "reviews": Reviews, "substring": Substring}

__all__ = ["TASKS", "Answer", "Classify", "Parity", "Reviews", "Splits", "Substring", "Task"]
