"""Train to a mark: twelve layers, and what makes them train."""

from dataclasses import replace

from headway.learn.exercise import Exercise
from headway.learn.tracks.goals import at_least, at_most, last_loss
from headway.learn.training import Asked, Entrant, Results, Slip, Train

DEEP = Entrant(
    "taming",
    (
        *("data.plain=1.0", "data.examples=2000", "data.tests=300", "model.width=16", "model.hidden=32"),
        *("train.steps=60", "train.batch_size=32"),
    ),
)
FAILS, WORKS = 0.8, 0.95  # accuracy; one half is chance

TAME = Train(
    id="goal.deep",
    title="tame a deep stack",
    task="""
    Twelve layers in post-norm, with a high learning rate from the first step on, learn nothing in 60 steps. Change the
    settings below until this stack reaches 95 % on held-out reviews; the twelve layers and the 60 steps stay.
    """,
    hints=(
        "What happens to the first steps, while Adam has seen hardly any gradient?",
        "Either the first steps are made small, or the path of the residuals is kept free of norms.",
        "train.warmup = 30, or model.norm = 'rezero'",
    ),
    runs={
        "deep": replace(
            DEEP,
            room={
                "model.norm": ("post", "pre", "rezero"),
                "train.optimizer": ("adamw", "radam"),
                "train.learning_rate": (1e-4, 5e-2),
                "train.schedule": ("linear", "cosine", "constant"),
                "train.warmup": (0, 60),
            },
            begin={
                "model.norm": "post",
                "train.optimizer": "adamw",
                "train.learning_rate": 1.5e-2,
                "train.schedule": "linear",
                "train.warmup": 0,
            },
            solution={
                "model.norm": "rezero",
                "train.optimizer": "adamw",
                "train.learning_rate": 1e-2,
                "train.schedule": "linear",
                "train.warmup": 10,
            },
        )
    },
    marks={"95 % of the reviews": at_least("deep", "test", WORKS)},
    slips=[
        Slip(
            "Now the learning rate is so low that 60 steps lead nowhere.",
            lambda chosen, results: chosen["deep"]["train.learning_rate"] < 2e-3,
            {"deep": {"train.learning_rate": 2e-4, "train.warmup": 10}},
        ),
        Slip(
            "Post-norm with large steps from the beginning: its loss stays at log 2, which is chance.",
            lambda chosen, results: chosen["deep"]["model.norm"] == "post" and chosen["deep"]["train.warmup"] <= 10,
            {"deep": {"model.norm": "post", "train.learning_rate": 2e-2, "train.warmup": 0}},
        ),
    ],
    worked="""
    ReZero starts as the identity, so that gradients reach every layer and no warm-up is needed. Post-norm trains as
    well if a warm-up of some 30 steps keeps the first ones small.
    """,
)

SIX = {
    "post": ("model.norm=post", "train.warmup=0", "train.learning_rate=3e-2"),
    "post_short": ("model.norm=post", "train.warmup=2", "train.learning_rate=3e-2"),
    "post_warmup": ("model.norm=post", "train.warmup=40", "train.learning_rate=8e-3"),
    "pre": ("model.norm=pre", "train.warmup=10", "train.learning_rate=8e-3"),
    "rezero": ("model.norm=rezero", "train.warmup=0", "train.learning_rate=1e-2"),
    "rezero_tiny": ("model.norm=rezero", "train.warmup=0", "train.learning_rate=1e-5"),
}


def failing(results: Results, mark: float) -> list[str]:
    return [name for name, each in results.items() if each.scores["test"] < mark]


WHICH = Train(
    id="goal.settings",
    title="which of six settings of a deep stack fail?",
    task="""
    Twelve layers on easy reviews, 60 steps, and these learning rates and warm-ups: post (0.03, none), post_short (0.03,
    2 steps), post_warmup (0.008, 40 steps), pre (0.008, 10 steps), rezero (0.01, none), rezero_tiny (0.00001, none).
    Which of them are below 80 % on held-out reviews at the end? Write down the
    names before anything is trained; then all six are.
    """,
    hints=(
        "In which of them are the first steps large, while no gradient can pass beside the norms?",
        "A stack can fail in two ways: thrown off by the first steps, or hardly moved by the last one.",
        "three fail: both without a real warm-up in post-norm, and the one that hardly moves",
    ),
    runs={name: replace(DEEP, fixed=(*DEEP.fixed, *own)) for name, own in SIX.items()},
    asked={
        "fails": Asked(
            lambda results: set(failing(results, FAILS)),
            'a list, such as ["pre", "rezero"]',
            is_list=True,
            also=lambda results: [set(failing(results, mark)) for mark in (FAILS - 0.05, FAILS + 0.05)],
        )
    },
    worked="""
    Post-norm without a real warm-up fails, and so does what hardly moves in 60 steps. Pre-norm and ReZero keep the path
    of the residuals free of norms; post-norm trains with a warm-up.
    """,
)


POST = replace(
    DEEP,
    fixed=(*DEEP.fixed, "train.steps=90"),
    table="post",
    room={"train.learning_rate": (1e-4, 5e-2), "train.warmup": (5, 80)},
    begin={"train.learning_rate": 1e-3, "train.warmup": 10},
    solution={"train.learning_rate": 1e-2, "train.warmup": 60},
)

WARMUP = Train(
    id="goal.no_warmup",
    title="what happens without warm-up in post-norm",
    task="""
    Twelve layers in post-norm are trained twice, with your warm-up and without any, all else equal. Find a learning
    rate and a warm-up that make the difference: at least 90 % with it, at most 65 % without. And at which loss does the
    run without warm-up get stuck?
    """,
    hints=(
        "At a very low learning rate, does it matter whether the first steps are smaller still?",
        "Go up with the learning rate until the run without warm-up breaks; then warm up long enough.",
        "train.learning_rate = 1e-2 and train.warmup = 60; and two classes have a loss of log 2 = 0.69 at chance",
    ),
    runs={"with": POST, "without": replace(POST, last=("train.warmup=0",))},
    marks={
        "90 % with the warm-up": at_least("with", "test", 0.9),
        "at most 65 % without": at_most("without", "test", 0.65),
    },
    asked={
        "loss": Asked(lambda results: last_loss(results, "without"), "a loss; it may be off by 0.05", tolerance=0.05)
    },
    slips=[
        Slip(
            "The learning rate is so low that both runs have hardly moved.",
            lambda chosen, results: (
                max(each.scores["test"] for each in results.values()) < FAILS
                and chosen["with"]["train.learning_rate"] < 3e-3
            ),
            {"post": {"train.learning_rate": 3e-4}, "loss": 0.69},
        ),
        Slip(
            "The learning rate is so low that the run without warm-up survives, too.",
            lambda chosen, results: results["without"].scores["test"] > 0.65,
            {"post": {"train.learning_rate": 3e-3, "train.warmup": 10}, "loss": 0.69},
        ),
        Slip(
            "The run with warm-up breaks, too: the warm-up is too short for this learning rate.",
            lambda chosen, results: results["with"].scores["test"] < FAILS,
            {"post": {"train.learning_rate": 5e-2, "train.warmup": 5}, "loss": 0.69},
        ),
    ],
    worked="""
    In post-norm, large steps while Adam has seen hardly any gradient throw the model onto a plateau: every review gets
    the same answer, and the loss stays at log 2 = 0.69. With a warm-up the large steps come when Adam knows the size of
    the gradients.
    """,
)

EXERCISES: list[Exercise] = [TAME, WHICH, WARMUP]
