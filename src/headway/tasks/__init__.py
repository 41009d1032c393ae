"""The tasks, by name."""

from headway.tasks.classify import Classify
from headway.tasks.language import Language
from headway.tasks.numbers import Numbers
from headway.tasks.parity import Parity
from headway.tasks.pretrain import Pretrain
from headway.tasks.reviews import Reviews
from headway.tasks.steps import Steps
from headway.tasks.substring import Substring
from headway.tasks.task import Answer, Splits, Task
from headway.tasks.translate import Translate
from headway.tasks.vectors import Vectors

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "language": Language,
    "numbers": Numbers,
    "parity": Parity,
    "pretrain": Pretrain,
    "reviews": Reviews,
    "steps": Steps,
    "substring": Substring,
    "translate": Translate,
    "vectors": Vectors,
}

__all__ = ["TASKS", "Answer", "Splits", "Task"]
