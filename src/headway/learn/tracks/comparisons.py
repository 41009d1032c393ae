"""Train to a mark: comparisons of variants under equal conditions."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from headway.learn.exercise import Exercise
from headway.learn.tracks.goals import at_least
from headway.learn.training import Asked, Entrant, Results, Slip, Train
from headway.runs.run import Run
from headway.training.metrics_log import METRICS, validations

SEEN = 0.35  # validation loss

# --- substring

SUBSTRING = Entrant(
    "substring",
    ("data.pattern=ab", "data.letters=3", "data.length=10", "data.longer=20", "data.examples=4000", "data.tests=400"),
    {
        "model.layers": (1, 2),
        "model.width": (8, 32),
        "model.heads": (1, 4),
        "train.steps": (50, 500),
        "train.learning_rate": (1e-4, 3e-2),
        "train.warmup": (0, 200),
    },
    {
        "model.layers": 1,
        "model.width": 8,
        "model.heads": 1,
        "train.steps": 100,
        "train.learning_rate": 1e-3,
        "train.warmup": 0,
    },
    {
        "model.layers": 2,
        "model.width": 32,
        "model.heads": 4,
        "train.steps": 400,
        "train.learning_rate": 3e-3,
        "train.warmup": 50,
    },
    table="all",
)
VARIANTS = {
    f"{name}_{norm}": (position, norm)
    for name, position in {"absolute": "sinusoidal", "toeplitz": "relative"}.items()
    for norm in ("pre", "post")
}


def accuracy(results: Results, part: str, test: str = "same") -> float:
    """The best of the runs that have this in their names."""
    return max(each.scores[test] for name, each in results.items() if part in name)


def on_longer(results: Results, part: str) -> float:
    return accuracy(results, part, "longer")


def which(first: str, second: str, name: Callable[[Results, str], float], margin: float) -> Callable[[Results], str]:
    """The better one, or neither if they differ by less than the margin."""

    def better(results: Results) -> str:
        one, other = name(results, first), name(results, second)
        return "neither" if abs(one - other) < margin else first if one > other else second

    return better


FOUR = Train(
    id="goal.substring",
    title="does a string contain ab? Absolute or Toeplitz positions, pre- or post-norm",
    task="""
    A Transformer with [CLS] learns whether a string of ten letters contains "ab". Your settings are used for four runs:
    absolute (sinusoidal) or Toeplitz positions, pre- or post-norm. Choose settings with which the best of the four
    reaches 95 %. Which norm did better? And which positions do better on strings of 20 letters, a length that none of
    the models has seen?
    """,
    hints=(
        "What does a head have to look at in order to see that a stands just before b?",
        "One layer can find neighbours, another one can collect at [CLS]; and post-norm wants a warm-up.",
        "model.layers = 2, model.width = 32, train.learning_rate = 3e-3, train.warmup = 50, train.steps = 400",
    ),
    runs={
        name: replace(SUBSTRING, last=(f"model.position={position}", f"model.norm={norm}"))
        for name, (position, norm) in VARIANTS.items()
    },
    marks={
        "the best of four reaches 95 %": lambda results: (
            accuracy(results, "") >= 0.95,
            ", ".join(
                f"{name} {each.scores['same']:.1%} ({each.scores['longer']:.1%} on 20 letters)"
                for name, each in results.items()
            ),
        )
    },
    asked={
        "positions": Asked(
            which("absolute", "toeplitz", on_longer, 0.02),
            "on 20 letters: absolute or toeplitz, by the best run of each; neither if they differ by less than 2 %",
        ),
        "norm": Asked(
            which("pre", "post", accuracy, 0.02), "on 10 letters: pre or post; neither if they differ by less than 2 %"
        ),
    },
    slips=[
        Slip(
            "All four stay near chance: they were trained for too few steps, or with too low a learning rate.",
            lambda chosen, results: (
                accuracy(results, "") < 0.75
                and (
                    chosen["toeplitz_pre"]["train.steps"] < 150 or chosen["toeplitz_pre"]["train.learning_rate"] < 1e-3
                )
            ),
            {"all": {"train.steps": 50, "train.learning_rate": 1e-4}},
        ),
        Slip(
            "One layer has to find neighbours and to collect them at [CLS] at once: give it two.",
            lambda chosen, results: chosen["toeplitz_pre"]["model.layers"] == 1,
            {"all": {"model.layers": 1, "model.width": 8, "train.steps": 300}},
        ),
    ],
    worked="""
    "ab" is about neighbours. With Toeplitz positions, "one to the left" is a single number, shared by all places, so it
    also holds in places that were never seen; absolute positions have to learn it for each place. Which norm is better
    after so few steps differs from seed to seed: go by what you measured.
    """,
)

# --- reviews


def with_first_sight(run: Run) -> Mapping[str, float]:
    """The test accuracy, and the first step at which the validation loss was below SEEN."""
    rows = [(step, metrics["loss"]) for step, metrics in validations(run.folder / METRICS)]
    first = next((step for step, loss in rows if loss < SEEN), 0)
    return {"test": run.results["test"]["test"]["accuracy"], "first": first}


def is_fair(results: Results) -> tuple[bool, str]:
    sizes = [each.parameters for each in results.values()]
    return max(sizes) <= 1.25 * min(sizes), " and ".join(f"{size:,} parameters" for size in sizes)


REVIEWS = Entrant(
    "reviews",
    (
        "data.examples=5000",
        "data.tests=500",
        "model.embedding=lookup(start=0.4)",
        "train.steps=400",
        "train.batch_size=64",
        "train.evaluate_every=25",
    ),
    {
        "model.layers": (1, 3),
        "model.width": (8, 48),
        "model.hidden": (8, 192),
        "model.norm": ("pre", "post", "rezero"),
        "model.pooling": ("mean", "max", "last"),
        "train.learning_rate": (1e-4, 3e-2),
        "train.warmup": (0, 200),
    },
    {
        "model.layers": 1,
        "model.width": 16,
        "model.hidden": 64,
        "model.norm": "pre",
        "model.pooling": "mean",
        "train.learning_rate": 3e-4,
        "train.warmup": 0,
    },
    measure=with_first_sight,
)


def test_score(results: Results, name: str) -> float:
    return results[name].scores["test"]


COMPARE = Train(
    id="goal.reviews",
    title="Transformer against LSTM on reviews, fairly",
    task="""
    Reviews such as "the plot was not dull ." depend on where their negations are. Train a Transformer and an LSTM to
    90 % on the same 5,000 reviews, in the same number of steps, and with parameter counts that differ by at most a
    quarter. Which one is better on the test reviews? And read off the curves of your runs (tensorboard --logdir FOLDER)
    at which step the validation loss of the LSTM first falls below 0.35; it is measured every 25 steps.
    """,
    hints=(
        "Which of the two has to learn what 'before' means, and which one is built that way?",
        "A bidirectional LSTM of the same width has more matrices; adjust width and hidden until the sizes agree. The "
        "Transformer likes ReZero and max pooling here.",
        "transformer: width 32, hidden 64, rezero, max, 6e-3, warm-up 40; lstm: width 24, hidden 96, 5e-3",
    ),
    runs={
        "transformer": replace(
            REVIEWS,
            fixed=(*REVIEWS.fixed, "model.heads=4", "model.position=sinusoidal"),
            solution={
                "model.layers": 1,
                "model.width": 32,
                "model.hidden": 64,
                "model.norm": "rezero",
                "model.pooling": "max",
                "train.learning_rate": 6e-3,
                "train.warmup": 40,
            },
        ),
        "lstm": replace(
            REVIEWS,
            fixed=(*REVIEWS.fixed, "model.mixer=lstm", "model.position=none"),
            solution={
                "model.layers": 1,
                "model.width": 24,
                "model.hidden": 96,
                "model.norm": "pre",
                "model.pooling": "mean",
                "train.learning_rate": 5e-3,
                "train.warmup": 30,
            },
        ),
    },
    marks={
        "the Transformer reaches 90 %": at_least("transformer", "test", 0.9),
        "the LSTM reaches 90 %": at_least("lstm", "test", 0.9),
        "a fair comparison": is_fair,
    },
    asked={
        "better": Asked(
            which("transformer", "lstm", test_score, 0.02),
            "transformer or lstm; neither if they differ by less than 2 %",
        ),
        "lstm_step": Asked(lambda results: int(results["lstm"].scores["first"]), "a step", tolerance=0.5),
    },
    slips=[
        Slip(
            "The comparison is unfair: one network has more than 1.25 times the parameters of the other.",
            lambda chosen, results: not is_fair(results)[0],
            {"lstm": {"model.width": 48, "model.hidden": 192}},
        ),
        Slip(
            "The learning rate is too low for 400 steps.",
            lambda chosen, results: any(each["train.learning_rate"] < 1e-3 for each in chosen.values()),
            {"transformer": {"train.learning_rate": 2e-4}},
        ),
        Slip(
            "Mean pooling washes out the one word that matters: the Transformer finds it sooner with max pooling.",
            lambda chosen, results: (
                chosen["transformer"]["model.pooling"] == "mean" and test_score(results, "transformer") < 0.9
            ),
            {"transformer": {"model.pooling": "mean", "model.norm": "pre"}},
        ),
    ],
    worked="""
    An LSTM reads from left to right, so that "not" before a word is easy for it. A Transformer has to learn from
    positions what stands just before what, which takes more steps: on larger data it catches up. A fair comparison has
    equal data, steps and sizes; one seed is still only one seed.
    """,
)

EXERCISES: list[Exercise] = [FOUR, COMPARE]
