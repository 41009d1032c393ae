"""Training, language models and translation: schedules, losses, perplexity, teacher forcing."""

import torch
from torch import Tensor

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

of = Mistake.of
SCHEDULES = "headway.training.schedules"


def at(*steps: float, **settings: int) -> dict[str, Args]:
    return {f"step {step:g} of {settings}": (step, *settings.values()) for step in steps}


WARMUP = FillIn(
    id="train.warmup",
    title="linear warm-up and decay",
    task="""
    A factor of the learning rate: 0 at step 0, linear up to 1 at the last step of the warm-up, linear down to 0 at
    the last step. climb(step, warmup) is the first part (1 after the warm-up), fall(step, start, steps) the second
    (1 before its start).
    """,
    hints=(
        "Which of the two lines is lower during the warm-up, and which after it?",
        "The smaller one of both; the decay starts where the warm-up ends.",
    ),
    module=SCHEDULES,
    cases=lambda: (
        at(0, 1, 5, 9, 10, 11, 55, 99, 100, warmup=10, steps=100)
        | at(0, 1, 50, 100, warmup=0, steps=100)
        | at(1, 4, warmup=8, steps=4)
    ),
    mistakes=[
        of(
            "The decay starts at step 0, so that the peak stays below 1.",
            ("fall(step, warmup, steps)", "fall(step, 0, steps)"),
        ),
        of("There is no decay.", ("min(climb(step, warmup), fall(step, warmup, steps))", "climb(step, warmup)")),
        of(
            "There is no warm-up.", ("min(climb(step, warmup), fall(step, warmup, steps))", "fall(step, warmup, steps)")
        ),
        of("This is the larger of both lines.", ("return min(", "return max(")),
        of(
            "The two are multiplied by mistake: then the decay starts at step 0.",
            ("min(climb(step, warmup), fall(step, warmup, steps))", "climb(step, warmup) * fall(step, 0, steps)"),
        ),
        of(
            "The first step counts as 0: steps count from 1, and step 0 is before the first.",
            ("climb(step, warmup), fall(step,", "climb(max(step - 1, 0), warmup), fall(step,"),
        ),
    ],
)
INVERSE = FillIn(
    id="train.inverse_root",
    title="the schedule of the first Transformer",
    task="""
    Linear up to 1 at the last step of the warm-up (climb(step, warmup)), then sqrt(warmup / step). A warm-up of 0
    counts as 1, and so does step 0.
    """,
    hints=("At which step are the two parts equal?", "The smaller one of the two parts, as with the linear schedule."),
    module=SCHEDULES,
    cases=lambda: at(0, 1, 5, 10, 11, 40, 1000, warmup=10) | at(0, 1, 4, warmup=0),
    mistakes=[
        of(
            "After the warm-up, it falls with the root of the step.",
            ("math.sqrt(max(warmup, 1) / max(step, 1))", "max(warmup, 1) / max(step, 1)"),
        ),
        of(
            "The warm-up is missing.",
            (
                "min(climb(step, warmup), math.sqrt(max(warmup, 1) / max(step, 1)))",
                "min(1.0, math.sqrt(max(warmup, 1) / max(step, 1)))",
            ),
        ),
        of(
            "The decay does not begin at 1: this lacks the root of the warm-up.",
            ("max(warmup, 1) / max(step, 1)", "1 / max(step, 1)"),
        ),
    ],
)


def texts() -> Args:
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return numbers(2, 5, 7), torch.randint(7, (2, 5)), real


LOSS = FillIn(
    id="lm.loss",
    title="the loss of a language model",
    task="""
    logits (B, T, V) at position t predict token t + 1 of tokens (B, T). Return the mean of -log p(next token) over all
    predicted tokens that are real; real (B, T) is False at padding. The first token is never predicted.
    """,
    hints=(
        "How many predictions does a text of five tokens give?",
        "Logits without the last position, tokens without the first, and a mean over the real targets only.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "two texts": texts(),
        "no padding": (numbers(1, 4, 5), torch.randint(5, (1, 4)), torch.ones(1, 4, dtype=torch.bool)),
        "two tokens": (numbers(1, 2, 3), torch.randint(3, (1, 2)), torch.ones(1, 2, dtype=torch.bool)),
    },
    mistakes=[
        of(
            "Nothing is shifted: each position should predict the next token, not its own.",
            ("logits[:, :-1]", "logits[:, 1:]"),
        ),
        of(
            "It is shifted the wrong way: position t predicts token t + 1.",
            ("tokens[:, 1:, None]", "tokens[:, :-1, None]"),
            ("logits[:, :-1]", "logits[:, 1:]"),
        ),
        of("Padding is part of the mean: divide by the number of real targets.", ("counted.sum()", "counted.numel()")),
        of("Padding is predicted, too.", ("counted = real[:, 1:]", "counted = torch.ones_like(real[:, 1:])")),
        of("The mask belongs to the targets, which are shifted.", ("counted = real[:, 1:]", "counted = real[:, :-1]")),
        of("This is the sum, not the mean.", (" / counted.sum()", "")),
        of("The sign is missing: a loss is minus the log-probability.", ("return -(right", "return (right")),
        of(
            "The log_softmax goes over the positions; it belongs over the vocabulary.",
            ("log_softmax(dim=-1)", "log_softmax(dim=1)"),
        ),
        of(
            "This is the mean of the means of texts; every token should count the same.",
            ("-(right * counted).sum() / counted.sum()", "-((right * counted).sum(1) / counted.sum(1)).mean()"),
        ),
    ],
)


def probabilities() -> tuple[Tensor, Tensor]:
    return texts()[0][..., 0].sigmoid().log(), texts()[2]


PERPLEXITY = FillIn(
    id="lm.perplexity",
    title="perplexity",
    task="""
    log_probs (B, T) are the natural logarithms of the probabilities that a model gave to the tokens of some texts;
    those that are real (B, T) count. Return the perplexity: exp of the mean of -log p.
    """,
    hints=(
        "What is the perplexity of a model that gives every token 1/100?",
        "Sum and count over all tokens of all texts, divide once, then exp.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "two texts": probabilities(),
        "certain": (torch.zeros(1, 3, dtype=torch.double), torch.ones(1, 3, dtype=torch.bool)),
        "one in a hundred": (torch.full((1, 3), 0.01, dtype=torch.double).log(), torch.ones(1, 3, dtype=torch.bool)),
    },
    mistakes=[
        of(
            "This is the mean of -log p; the perplexity is exp of it.",
            ("torch.exp(-(log_probs * real).sum() / real.sum())", "-(log_probs * real).sum() / real.sum()"),
        ),
        of("The sign is wrong: a perplexity is at least 1.", ("torch.exp(-(", "torch.exp((")),
        of("The logarithms are natural ones; this raises 2 to the power.", ("torch.exp(", "torch.exp2(")),
        of("Padding is counted.", ("real.sum()", "real.numel()")),
        of(
            "This is the mean of the perplexities of the texts; every token should count the same.",
            (
                "torch.exp(-(log_probs * real).sum() / real.sum())",
                "torch.exp(-(log_probs * real).sum(1) / real.sum(1)).mean()",
            ),
        ),
        of(
            "This is the mean of 1 / p; the mean belongs over the logarithms.",
            ("torch.exp(-(log_probs * real).sum() / real.sum())", "(torch.exp(-log_probs) * real).sum() / real.sum()"),
        ),
    ],
)
TEACHER = FillIn(
    id="lm.teacher",
    title="teacher forcing",
    task="""
    While a decoder learns to write targets (B, T), it reads the right tokens so far, not its own. Return what it reads,
    (B, T): the targets one place later, after the token bos.
    """,
    hints=(
        "What may the decoder have read when it predicts the first target?",
        "bos in front; the last target is never read.",
    ),
    module=WRITTEN,
    cases=lambda: {"two rows": (torch.tensor([[5, 6, 2], [7, 2, 0]]), 1), "one token": (torch.tensor([[2]]), 1)},
    mistakes=[
        of(
            "The decoder reads the very token that it should predict.",
            ("torch.cat([first, targets[:, :-1]], dim=1)", "targets.clone()"),
        ),
        of(
            "It is shifted the wrong way: the decoder reads the token after the one it predicts.",
            ("[first, targets[:, :-1]]", "[targets[:, 1:], first]"),
        ),
        of("bos replaces the first target; the targets should move.", ("targets[:, :-1]", "targets[:, 1:]")),
        of("One token too many: the last target is not read.", ("targets[:, :-1]", "targets")),
    ],
)
SMOOTHING = FillIn(
    id="lm.smoothing",
    title="label smoothing",
    task="""
    The target distribution gives 1 - smoothing to the right class and spreads smoothing evenly over all V classes,
    the right one included. Return the mean cross-entropy of logits (N, V) with it; targets (N,) are the right
    classes.
    """,
    hints=(
        "What share does the right class get altogether?",
        "(1 - s) times the log-probability of the right class, plus s times the mean of all of them.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "a tenth": (numbers(5, 4), torch.randint(4, (5,)), 0.1),
        "none": (numbers(3, 4), torch.randint(4, (3,)), 0.0),
        "much": (numbers(3, 7), torch.randint(7, (3,)), 0.6),
    },
    mistakes=[
        of(
            "The share is spread over the other classes only; here it is over all of them.",
            (
                "-((1 - smoothing) * right + smoothing * log_probs.mean(dim=-1)).mean()",
                "-((1 - smoothing) * right + smoothing * (log_probs.sum(dim=-1) - right) / "
                "(log_probs.shape[-1] - 1)).mean()",
            ),
        ),
        of(
            "This is the sum over the classes: spread the share, divide by their number.",
            ("log_probs.mean(dim=-1)", "log_probs.sum(dim=-1)"),
        ),
        of("Nothing is smoothed.", ("(1 - smoothing) * right + smoothing * log_probs.mean(dim=-1)", "right")),
        of(
            "The right class keeps all of its share, and the smoothing comes on top.",
            ("(1 - smoothing) * right", "right"),
        ),
    ],
)

EXERCISES: list[Exercise] = [WARMUP, INVERSE, LOSS, PERPLEXITY, TEACHER, SMOOTHING]
