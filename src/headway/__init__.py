"""headway: a workshop for sequence models.

    import headway as hw

    classifier = hw.train("classify", data=(texts, labels))    # or a path, a data frame, ...
    classifier.predict("what a film")
    language = hw.train("language", data="novels.txt")
    language.generate("Call me", max_new_tokens=50)

``train`` and ``load`` return a ``Model``; ``list_recipes`` lists what can be trained. The parts that models are made of
are in ``headway.nn`` and ``headway.models``. Whatever is wrong with an input is raised as a ``Problem`` that says what
to do.
"""

__version__ = "0.2.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api.baselines import Baselines, baseline
    from headway.api.continuing import forgetting, repeat
    from headway.api.generation import Completion, Hypothesis
    from headway.api.model import Candidate, Model, load
    from headway.api.overview import (
        RecipeSummary,
        bleu,
        check,
        is_run,
        list_recipes,
        list_settings,
        schedule,
        summarize,
        survey_data,
    )
    from headway.api.parallel import ParallelLesson, Plan, explain_parallel, plan_processes
    from headway.api.run import Evaluations, Run, list_runs
    from headway.api.studies import (
        adapt,
        compare,
        gradient_reach,
        plan_mixture,
        rlhf,
        search,
        search_written_tree,
        tame,
    )
    from headway.api.tokenizers import compare_tokenizers, report_tokenizer, train_tokenizer
    from headway.api.train import fit, from_transformers, pretrain, train
    from headway.api.vectors import WordVectors, load_vectors, ngrams
    from headway.config.errors import Interrupted, Problem
    from headway.nn.attention import watch_attention
    from headway.recipes.registry import register
    from headway.tasks.tagging.predictions import TaggedSpan, TaggedWord, Tagging
    from headway.tasks.task import Evaluation, Prediction

HOMES = {  # where the public names live
    "headway.api.baselines": ("Baselines", "baseline"),
    "headway.api.continuing": ("forgetting", "repeat"),
    "headway.api.generation": ("Completion", "Hypothesis"),
    "headway.api.model": ("Candidate", "Model", "load"),
    "headway.api.overview": (
        *("RecipeSummary", "bleu", "check", "is_run", "list_recipes", "list_settings", "schedule", "summarize"),
        *("survey_data",),
    ),
    "headway.api.parallel": ("ParallelLesson", "Plan", "explain_parallel", "plan_processes"),
    "headway.api.run": ("Evaluations", "Run", "list_runs"),
    "headway.api.studies": (
        *("adapt", "compare", "gradient_reach", "plan_mixture", "rlhf", "search", "search_written_tree", "tame"),
    ),
    "headway.api.tokenizers": ("compare_tokenizers", "report_tokenizer", "train_tokenizer"),
    "headway.api.train": ("fit", "from_transformers", "pretrain", "train"),
    "headway.api.vectors": ("WordVectors", "load_vectors", "ngrams"),
    "headway.config.errors": ("Interrupted", "Problem"),
    "headway.nn.attention": ("watch_attention",),
    "headway.recipes.registry": ("register",),
    "headway.tasks.tagging.predictions": ("TaggedSpan", "TaggedWord", "Tagging"),
    "headway.tasks.task": ("Evaluation", "Prediction"),
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}
__all__ = [  # noqa: RUF022 (the first to know comes first)
    "train",
    "load",
    "Model",
    "Run",
    "Problem",
    "fit",
    "pretrain",
    "from_transformers",
    "load_vectors",
    "register",
    "watch_attention",
    "list_recipes",
    "list_settings",
    "list_runs",
    "is_run",
    "summarize",
    "schedule",
    "survey_data",
    "check",
    "baseline",
    "plan_processes",
    "explain_parallel",
    "compare",
    "search",
    "adapt",
    "tame",
    "plan_mixture",
    "train_tokenizer",
    "report_tokenizer",
    "compare_tokenizers",
    "forgetting",
    "repeat",
    "rlhf",
    "gradient_reach",
    "search_written_tree",
    "bleu",
    "ngrams",
    "Prediction",
    "Tagging",
    "TaggedWord",
    "TaggedSpan",
    "Evaluation",
    "Evaluations",
    "Baselines",
    "Hypothesis",
    "Completion",
    "Candidate",
    "WordVectors",
    "RecipeSummary",
    "Plan",
    "ParallelLesson",
    "Interrupted",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: torch takes seconds, and ``headway --help`` needs none of it."""
    if name not in HOME_OF:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(import_module(HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
