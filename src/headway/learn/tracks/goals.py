"""Train to a mark: the learner chooses settings, headway trains, and what it learned is measured on held-out data."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from headway.learn.exercise import Exercise
from headway.learn.training import Entrant, Results, Slip, Train
from headway.runs.run import Run
from headway.tasks import TASKS

Mark = Callable[[Results], tuple[bool, str]]
LENGTH = 12  # of the strings by which parity is judged


def at_least(run: str, score: str, mark: float) -> Mark:
    return lambda results: (results[run].scores[score] >= mark, f"{results[run].scores[score]:.1%}")


def at_most(run: str, score: str, mark: float) -> Mark:
    return lambda results: (results[run].scores[score] <= mark, f"{results[run].scores[score]:.1%}")


def last_loss(results: Results, name: str) -> float:
    losses = [loss for _, loss in results[name].curve]
    return sum(losses[-5:]) / len(losses[-5:])


def parity_at_full_length(run: Run) -> Mapping[str, float]:
    """Accuracies on strings of LENGTH, whatever the length of those that it was trained on."""
    judge = TASKS["parity"](replace(run.recipe, data=replace(run.recipe.data, length=LENGTH)))
    tests = judge.splits().test
    own = {f"own {name}": metrics["accuracy"] for name, metrics in run.results["test"].items()}
    return own | {name: judge.measure(run.network, data)["accuracy"] for name, data in tests.items()}


PARITY = Train(
    id="goal.parity",
    title="the smallest network that knows parity",
    task=f"""
    Choose settings with which a network learns whether the number of ones in a string of {LENGTH} bits is odd: at least
    95 % on held-out strings, both on random ones and on ones in which every number of ones is equally likely. The fewer
    parameters, the better: up to 2,000 you get full marks, with more of them as many less.
    """,
    hints=(
        "What must a hidden number do while the number of ones grows by one, and again by one?",
        "A function that goes up and down as often as parity does fits better than one that bends once; and a network "
        "can only know strings as long as those that it has seen.",
        "model.feedforward = 'sine(scale=16)' and data.length = 12",
    ),
    runs={
        "parity": Entrant(
            "parity",
            ("data.examples=4000", "data.tests=300"),
            {
                "data.length": (4, LENGTH),
                "data.uniform": (0.0, 1.0),
                "model.layers": (1, 2),
                "model.width": (4, 32),
                "model.heads": (1, 4),
                "model.hidden": (1, 64),
                "model.feedforward": ("relu", "gelu", "sine(scale=16)"),
                "train.steps": (50, 800),
                "train.learning_rate": (1e-4, 0.1),
                "train.warmup": (0, 200),
            },
            {
                "data.length": 6,
                "data.uniform": 0.5,
                "model.layers": 1,
                "model.width": 32,
                "model.heads": 4,
                "model.hidden": 64,
                "model.feedforward": "relu",
                "train.steps": 400,
                "train.learning_rate": 1e-3,
                "train.warmup": 20,
            },
            {
                "data.length": 12,
                "data.uniform": 0.5,
                "model.layers": 1,
                "model.width": 16,
                "model.heads": 2,
                "model.hidden": 16,
                "model.feedforward": "sine(scale=16)",
                "train.steps": 600,
                "train.learning_rate": 4e-3,
                "train.warmup": 30,
            },
            parity_at_full_length,
        )
    },
    marks={
        "95 % of random strings": at_least("parity", "random", 0.95),
        "95 % of uniform strings": at_least("parity", "uniform", 0.95),
    },
    slips=[
        Slip(
            f"It was trained on strings that are too short: it knows those, but is asked about {LENGTH} bits.",
            lambda chosen, results: (
                chosen["parity"]["data.length"] < LENGTH
                and min(results["parity"].scores[f"own {name}"] for name in ("random", "uniform")) > 0.9
            ),
            {"parity": {"data.length": 7, "train.steps": 500}},
        ),
        Slip(
            "It stays at chance: one bend (ReLU, GELU) cannot follow a function that turns with every bit. "
            "Look for one that goes up and down.",
            lambda chosen, results: chosen["parity"]["model.feedforward"] != "sine(scale=16)",
            {"parity": {"model.feedforward": "relu"}},
        ),
        Slip(
            "It has hardly begun to learn: give it more steps.",
            lambda chosen, results: chosen["parity"]["train.steps"] < 200,
            {"parity": {"train.steps": 60}},
        ),
        Slip(
            "The learning rate is so high that the loss never settles.",
            lambda chosen, results: chosen["parity"]["train.learning_rate"] > 2e-2,
            {"parity": {"train.learning_rate": 0.1}},
        ),
        Slip(
            "The learning rate is so low that the loss has hardly moved.",
            lambda chosen, results: chosen["parity"]["train.learning_rate"] < 1e-3,
            {"parity": {"train.learning_rate": 2e-4}},
        ),
        Slip(
            "It has too few hidden numbers, or too narrow a model, to hold the waves that it needs.",
            lambda chosen, results: chosen["parity"]["model.width"] * chosen["parity"]["model.hidden"] < 64,
            {"parity": {"model.width": 4, "model.hidden": 2, "model.heads": 1}},
        ),
    ],
    score=lambda results: min(1.0, 2000 / results["parity"].parameters),
    worked="""
    Mean pooling shows the network the share of ones. Parity flips with every additional one, so a sine in the
    feed-forward network fits it with few parameters; a ReLU would need a bend for each count. The training strings must
    be as long as those in the test, because at other lengths the same count is another share.
    """,
)

EXERCISES: list[Exercise] = [PARITY]
