"""The tasks, by name."""

from headway.tasks.classify import Classify
from headway.tasks.language import Language
from headway.tasks.pretrain import Pretrain
from headway.tasks.puzzles.numbers import Numbers
from headway.tasks.puzzles.parity import Parity
from headway.tasks.puzzles.reasoning import Reasoning
from headway.tasks.puzzles.reviews import Reviews
from headway.tasks.puzzles.substring import Substring
from headway.tasks.rlhf.dpo import Dpo
from headway.tasks.rlhf.ppo import Ppo
from headway.tasks.rlhf.reward_model import RewardModel
from headway.tasks.rlhf.sft import Sft
from headway.tasks.tagging.tag import Tag
from headway.tasks.task import Prediction, Splits, Task
from headway.tasks.translate import Translate
from headway.tasks.word2vec.vectors import WordVectorsTask

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "dpo": Dpo,
    "language": Language,
    "numbers": Numbers,
    "parity": Parity,
    "ppo": Ppo,
    "pretrain": Pretrain,
    "reviews": Reviews,
    "reward": RewardModel,
    "sft": Sft,
    "steps": Reasoning,
    "substring": Substring,
    "tag": Tag,
    "translate": Translate,
    "vectors": WordVectorsTask,
}

__all__ = ["TASKS", "Prediction", "Splits", "Task"]
