"""Train to a mark, part two: learning rates, a translator of numbers, a policy."""

from collections.abc import Mapping
from dataclasses import replace

from headway.lab.rlhf_study import Bench
from headway.learn.exercise import Exercise
from headway.learn.tracks.goals import Mark, at_least, last_loss
from headway.learn.training import Entrant, Results, Slip, Train
from headway.runs.run import Run

RATE = Entrant(
    "parity",
    ("data.length=12", "data.examples=4000", "data.tests=300", "model.layers=1", "model.width=16", "model.heads=2",
     "model.hidden=16", "train.steps=500", "train.warmup=20"),
    {"train.learning_rate": (1e-6, 1.0)},
    {"train.learning_rate": 1e-3},
)  # fmt: skip
RATES = Train(
    id="goal.rates",
    title="three learning rates",
    task="""
    The same network is trained three times, for 500 steps each. Find a learning rate that is too small (the loss falls
    by less than 0.02), one that is right (95 % of the test strings), and one that is too large (the loss ends
    about where it began, or higher).
    """,
    hints=(
        "By which factor do people change a learning rate when they search for it?",
        "Try powers of ten. The picture (headway learn check goal.rates --picture rates.png) shows the three losses.",
        "1e-6, 4e-3 and 0.5",
    ),
    runs={
        "small": replace(RATE, solution={"train.learning_rate": 1e-6}),
        "right": replace(RATE, solution={"train.learning_rate": 4e-3}),
        "large": replace(RATE, solution={"train.learning_rate": 0.5}),
    },
    marks={
        "the small one hardly moves": lambda results: (
            abs(fall(results, "small")) < 0.02,
            f"the loss falls by {fall(results, 'small'):.3f}",
        ),
        "the right one reaches 95 %": at_least("right", "uniform", 0.95),
        "the large one is lost": lambda results: (
            results["large"].scores["uniform"] < 0.7 and fall(results, "large") < 0.15,
            f"the loss falls by {fall(results, 'large'):.3f}",
        ),
    },
    slips=[
        Slip(
            "All three rates learn: go further apart, by factors of a hundred.",
            lambda chosen, results: all(fall(results, name) > 0.02 for name in results),
            {"small": {"train.learning_rate": 2e-3}, "large": {"train.learning_rate": 5e-3}},
        )
    ],
    worked="""
    A rate that is too small wastes steps, one that is too large jumps over every valley. The right ones lie in a window
    of about a factor of ten, which one finds by powers of ten (Adam: from 1e-4 to 1e-2 for small networks).
    """,
)


def fall(results: Results, name: str) -> float:
    """By how much the loss of a run is lower at the end than at the first step."""
    return float(results[name].curve[0][1]) - last_loss(results, name)


def exact_matches(run: Run) -> Mapping[str, float]:
    return {"unseen": run.results["test"]["trained directions"]["exact"]}


NUMBERS = Train(
    id="goal.numbers",
    title="a translator of numbers",
    task="""
    Train an encoder-decoder that translates numbers from English words into digits, "two hundred six" to "206". It
    must be right, to the last digit, on 80 % of the numbers that it has never seen, with at most 100,000 parameters.
    """,
    hints=(
        "How many layers does it take to read three words, and how wide must a token be?",
        "Rather more steps than more width; and try another optimizer.",
        "model.layers = 1, model.width = 48, train.optimizer = 'muon', train.steps = 400, train.learning_rate = 6e-3",
    ),
    runs={
        "numbers": Entrant(
            "numbers",
            (
                "data.forms=en digits",
                "data.directions=en-digits",
                "data.digits=3",
                "data.examples=20000",
                "data.tests=200",
                "train.batch_size=64",
            ),
            {
                "model.layers": (1, 2),
                "model.width": (8, 64),
                "model.heads": (1, 8),
                "model.norm": ("pre", "post", "rezero"),
                "train.steps": (20, 600),
                "train.optimizer": ("adamw", "muon"),
                "train.learning_rate": (1e-5, 3e-2),
                "train.warmup": (0, 200),
            },
            {
                "model.layers": 2,
                "model.width": 16,
                "model.heads": 4,
                "model.norm": "pre",
                "train.steps": 200,
                "train.optimizer": "adamw",
                "train.learning_rate": 1e-3,
                "train.warmup": 30,
            },
            {
                "model.layers": 1,
                "model.width": 48,
                "model.heads": 4,
                "model.norm": "pre",
                "train.steps": 400,
                "train.optimizer": "muon",
                "train.learning_rate": 6e-3,
                "train.warmup": 30,
            },
            exact_matches,
        )
    },
    marks={
        "80 % of unseen numbers": at_least("numbers", "unseen", 0.8),
        "at most 100,000 parameters": lambda results: (
            results["numbers"].parameters <= 100_000,
            f"{results['numbers'].parameters:,}",
        ),
    },
    slips=[
        Slip(
            "The network is too large: a narrower one, or one with fewer layers, is enough.",
            lambda chosen, results: results["numbers"].parameters > 100_000,
            {"numbers": {"model.width": 64, "model.layers": 2}},
        ),
        Slip(
            "It has hardly begun to learn: more steps, or a higher learning rate.",
            lambda chosen, results: results["numbers"].scores["unseen"] < 0.2,
            {"numbers": {"train.steps": 60}},
        ),
    ],
    worked="""
    One layer on each side is enough for three digits: the decoder looks at the word for its place. Muon, or a higher
    learning rate of Adam, gets there in 400 steps. Zeros ("two hundred six") come last: no word stands for them.
    """,
)

LANGUAGE = Entrant(
    "rlhf-lab-language",
    ("model.layers=1", "model.width=48", "train.steps=300", "train.warmup=20", "train.batch_size=16", "data.window=48"),
    measure=lambda run: {},
)


def judged(run: Run) -> Mapping[str, float]:
    """Reward, judge and KL of the policy, and of what it started from."""
    bench = Bench.of(run)
    (prompts,) = bench.task.splits().validation.values()
    before = bench.task.measure(bench.untrained_policy(), prompts)
    (after,) = run.results["test"].values()
    names = ("reward", "judge", "kl")
    return {**{name: after[name] for name in names}, **{f"{name} before": before[name] for name in names}}


def gain(results: Results, name: str) -> float:
    scores = results["policy"].scores
    return scores[name] - scores[f"{name} before"]


def gains(name: str, mark: float) -> Mark:
    def holds(results: Results) -> tuple[bool, str]:
        scores = results["policy"].scores
        return gain(results, name) >= mark, f"from {scores[f'{name} before']:.2f} to {scores[name]:.2f}"

    return holds


POLICY = Train(
    id="goal.policy",
    title="a policy that does not over-optimise",
    task="""
    A small language model writes reviews. PPO trains it on a reward that is wrong in one way: it counts praising words.
    A judge, which nothing is trained on, reads whole sentences, and likes those that praise different things in good
    grammar. Choose settings with which the reward rises by at least 1, and the judge's score by at least 0.3.
    """,
    hints=(
        "Which text has the most praising words, and how would the judge like it?",
        "The KL penalty keeps the policy near the language model, which knows how sentences look.",
        "data.kl_penalty = 'fixed(beta=0.2)', train.steps = 120, train.learning_rate = 3e-3",
    ),
    runs={
        "policy": Entrant(
            "ppo",
            ("data.name=openings", "data.template={prompt}{answer}", "data.max_length=64", "data.max_new_tokens=20",
             "data.reward=words(wanted='great wonderful brilliant good superb')", "data.judge=quality",
             "data.validation=0.1", "data.rollouts=64", "train.batch_size=32", "train.weight_decay=0.0",
             "train.warmup=5"),
            {
                "data.kl_penalty": tuple(f"fixed(beta={beta})" for beta in (0, 0.01, 0.05, 0.1, 0.2, 0.5, 2)),
                "data.ppo_epochs": (1, 4),
                "data.clip_range": (0.05, 0.5),
                "train.steps": (5, 150),
                "train.learning_rate": (1e-5, 1e-2),
            },
            {
                "data.kl_penalty": "fixed(beta=0)",
                "data.ppo_epochs": 2,
                "data.clip_range": 0.2,
                "train.steps": 80,
                "train.learning_rate": 3e-3,
            },
            {
                "data.kl_penalty": "fixed(beta=0.2)",
                "data.ppo_epochs": 2,
                "data.clip_range": 0.2,
                "train.steps": 120,
                "train.learning_rate": 3e-3,
            },
            judged,
            LANGUAGE,
        )
    },
    marks={"the reward rises by 1": gains("reward", 1.0), "the judge's score rises by 0.3": gains("judge", 0.3)},
    slips=[
        Slip(
            "The reward has risen and the judge's score has not: the policy has found out how to please the reward, "
            "which is over-optimised. Keep it closer to where it started.",
            lambda chosen, results: gain(results, "reward") >= 1 and gain(results, "judge") < 0.3,
            {"policy": {"data.kl_penalty": "fixed(beta=0)", "data.clip_range": 0.3}},
        ),
        Slip(
            "The policy has hardly moved: the KL penalty is too strong, or there are too few steps.",
            lambda chosen, results: gain(results, "reward") < 1 and results["policy"].scores["kl"] < 5,
            {"policy": {"data.kl_penalty": "fixed(beta=2)"}},
        ),
    ],
    worked="""
    Without the penalty the policy writes "good good good": the reward rises to 9 and the judge's score falls. With β =
    0.2 it stays near the language model, and takes from it the sentences that praise.
    """,
)  # fmt: skip

EXERCISES: list[Exercise] = [RATES, NUMBERS, POLICY]
