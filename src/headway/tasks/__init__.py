"""The tasks, by name."""

from headway.tasks.classify import Classify
from headway.tasks.dpo import Dpo
from headway.tasks.language import Language
from headway.tasks.numbers import Numbers
from headway.tasks.parity import Parity
from headway.tasks.ppo import Ppo
from headway.tasks.pretrain import Pretrain
from headway.tasks.reviews import Reviews
from headway.tasks.reward import Reward
from headway.tasks.sft import Sft
from headway.tasks.steps import Steps
from headway.tasks.substring import Substring
from headway.tasks.task import Answer, Splits, Task
from headway.tasks.translate import Translate
from headway.tasks.vectors import Vectors

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "dpo": Dpo,
    "language": Language,
    "numbers": Numbers,
    "parity": Parity,
    "ppo": Ppo,
    "pretrain": Pretrain,
    "reviews": Reviews,
    "reward": Reward,
    "sft": Sft,
    "steps": Steps,
    "substring": Substring,
    "translate": Translate,
    "vectors": Vectors,
}

__all__ = ["TASKS", "Answer", "Splits", "Task"]
