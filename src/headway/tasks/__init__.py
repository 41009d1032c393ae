"""The tasks, by name."""

from headway.tasks.classify import Classify
from headway.tasks.language import Language
from headway.tasks.pretrain import Pretrain
from headway.tasks.puzzles.numbers import Numbers
from headway.tasks.puzzles.parity import Parity
from headway.tasks.puzzles.reasoning import Steps
from headway.tasks.puzzles.reviews import Reviews
from headway.tasks.puzzles.substring import Substring
from headway.tasks.rlhf.dpo import Dpo
from headway.tasks.rlhf.ppo import Ppo
from headway.tasks.rlhf.reward_model import Reward
from headway.tasks.rlhf.sft import Sft
from headway.tasks.task import Answer, Splits, Task
from headway.tasks.translate import Translate
from headway.tasks.word2vec.task import Vectors

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
