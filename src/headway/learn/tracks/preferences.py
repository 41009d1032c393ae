"""Learning from preferences: rewards, advantages, PPO and DPO."""

import torch

from headway.learn.exercise import Args, Exercise, FillIn, Mistake
from headway.learn.tracks.attention import WRITTEN, numbers

of = Mistake.of
POLICY, PREFERENCE = "headway.objectives.policy_gradient", "headway.objectives.preference"
REAL = torch.tensor([[True] * 4, [True] * 2 + [False] * 2])


def ranked(*prompts: int, ranks: tuple[int, ...]) -> Args:
    return numbers(len(prompts)), torch.tensor(ranks), torch.tensor(prompts)


REWARD = FillIn(
    id="rlhf.reward",
    title="the loss of a reward model over K ranked answers",
    task="""
    rewards, ranks and prompts are (N,): the reward that the model gives each answer, its rank (0 is the best), and
    the number of its prompt. For a prompt with K answers the loss is the mean of -log sigmoid(r_w - r_l) over its K
    (K - 1) / 2 pairs; a tie counts half for either side. Return a Tally: the sum over prompts, and how many prompts
    have a pair.

    answer_pairs(prompts) gives the indices of both answers of all pairs, wins(ranks, first, second) is 1, 0.5 or 0.
    """,
    hints=(
        "By what do you divide the losses of a prompt with four answers?",
        "Binary cross-entropy of reward differences with wins as targets; bincount gives the pairs of each prompt.",
    ),
    module=PREFERENCE,
    cases=lambda: {
        "three and two answers": ranked(0, 0, 0, 1, 1, ranks=(1, 0, 2, 1, 0)),
        "ties": ranked(0, 0, 0, ranks=(0, 1, 1)),
        "a prompt with one answer": ranked(0, 1, 1, ranks=(0, 0, 1)),
        "four answers": ranked(7, 7, 7, 7, ranks=(3, 1, 0, 2)),
    },
    mistakes=[
        of(
            "The worse answer is preferred: rank 0 is the best.",
            ("rewards[first] - rewards[second]", "rewards[second] - rewards[first]"),
        ),
        of("Losses are not divided by the number of pairs of their prompt.", ("losses / sizes[owners]", "losses")),
        of(
            "They are divided by all pairs together; a prompt's pairs count for itself.",
            ("losses / sizes[owners]", "losses / len(losses)"),
        ),
        of("The count is that of pairs, not of prompts.", (", len(numbers))", ", len(first))")),
        of(
            "A tie counts as a win of the first answer; it is half a win.",
            ("won = wins(ranks, first, second)", "won = wins(ranks, first, second).ceil()"),
        ),
        of(
            "This has no logarithm: the loss is -log sigmoid of the difference.",
            (
                'F.binary_cross_entropy_with_logits(rewards[first] - rewards[second], won, reduction="none")',
                "1 - torch.sigmoid((2 * won - 1) * (rewards[first] - rewards[second]))",
            ),
        ),
    ],
)


def estimator(id: str, name: str, formula: str, mistakes: list[Mistake], hint: str) -> FillIn:
    return FillIn(
        id=id,
        title=f"estimating a KL divergence: {name}",
        task=f"""
        log_probs and ref_log_probs are those of the tokens that the policy wrote, under itself and under the reference.
        With x = ref_log_probs - log_probs, the estimate per token is {formula}.
        """,
        hints=(hint, "A formula of the difference of both, without a mean."),
        module=POLICY,
        cases=lambda: {
            "two answers": (numbers(2, 4), numbers(2, 4)),
            "the same": (numbers(1, 3), torch.zeros(1, 3).double()),
            "small": (1e-5 * numbers(1, 3), 1e-5 * numbers(1, 3)),
        },
        mistakes=mistakes,
    )


K1 = estimator(
    "rlhf.kl1",
    "k1",
    "-x",
    [
        of(
            "The sign is wrong: it is policy minus reference.",
            ("log_probs - ref_log_probs", "ref_log_probs - log_probs"),
        ),
        of(
            "A divergence is not clipped at 0: single tokens may be negative.",
            ("log_probs - ref_log_probs", "(log_probs - ref_log_probs).clamp(min=0)"),
        ),
    ],
    "May the estimate of one token be negative?",
)
K2 = estimator(
    "rlhf.kl2",
    "k2",
    "x^2 / 2",
    [
        of("The half is missing.", (" / 2", "")),
        of("This is half of the absolute value; square it.", (".square()", ".abs()")),
    ],
    "Can it be negative, whichever model finds the token likelier?",
)
K3 = estimator(
    "rlhf.kl3",
    "k3",
    "e^x - 1 - x",
    [
        of(
            "The ratio is upside down: x is reference minus policy.",
            ("ref_log_probs - log_probs", "log_probs - ref_log_probs"),
        ),
        of("The 1 is not subtracted: at x = 0 it should be 0.", ("torch.expm1(log_ratio)", "torch.exp(log_ratio)")),
        of(
            "x is added instead of subtracted.",
            ("torch.expm1(log_ratio) - log_ratio", "torch.expm1(log_ratio) + log_ratio"),
        ),
    ],
    "What is it for small x, compared with k2?",
)


def answers(seed_size: int = 2) -> Args:
    return numbers(seed_size, 4), numbers(seed_size, 4), REAL[:seed_size], 0.9, 0.8


GAE = FillIn(
    id="rlhf.gae",
    title="generalised advantage estimation",
    task="""
    rewards and values (B, T) per token; real (B, T) is False after the end. With the errors d_t = r_t + discount
    V_(t+1) - V_t (the value after the last token is 0), the advantage at t is the sum over k of (discount
    gae_lambda)^k d_(t+k). Return it, with 0 at what is not real.
    """,
    hints=(
        "What is the advantage if gae_lambda is 0? And if it is 1?",
        "From the last token to the first: A_t = d_t + discount gae_lambda A_(t+1); or all at "
        "once, with a matrix of powers.",
    ),
    module=POLICY,
    cases=lambda: {
        "two answers": answers(),
        "lambda 0": (*answers()[:3], 1.0, 0.0),
        "lambda 1": (*answers()[:3], 1.0, 1.0),
        "one token": (numbers(1, 1), numbers(1, 1), torch.ones(1, 1, dtype=torch.bool), 0.9, 0.95),
    },
    mistakes=[
        of(
            "The value of the next token is missing in the errors.",
            ("rewards + discount * after - values", "rewards - values"),
        ),
        of("The next value is not discounted.", ("rewards + discount * after", "rewards + after")),
        of(
            "The weights fall with lambda alone: it is discount times lambda.",
            ("(discount * gae_lambda) **", "gae_lambda **"),
        ),
        of("Advantages add up what was before; they look ahead.", ("errors @ weights", "errors @ weights.T")),
        of("The values are not subtracted: these are returns.", ("discount * after - values", "discount * after")),
        of("This looks only one step ahead.", ("torch.where(delay >= 0, (", "torch.where(delay == 0, (")),
        of(
            "After the end of an answer, rewards and values do not count.",
            ("rewards, values = torch.where(real, rewards, 0), torch.where(real, values, 0)", "pass"),
        ),
    ],
)
GROUP = FillIn(
    id="rlhf.group",
    title="advantages within a group (GRPO)",
    task="""
    rewards (B,) of answers, prompts (B,) the number of each one's prompt. Among the answers to the same prompt,
    subtract the mean and divide by the standard deviation (of the population), but at least by ROUNDING. There may
    be any number of answers to each prompt, in any order.
    """,
    hints=(
        "What does an answer get that is the only one to its prompt?",
        "unique(return_inverse=True) numbers the groups; index_add sums within them.",
    ),
    module=POLICY,
    cases=lambda: {
        "two prompts": (numbers(5), torch.tensor([4, 4, 9, 4, 9])),
        "one alone": (numbers(3), torch.tensor([0, 1, 0])),
        "equal rewards": (torch.ones(3).double(), torch.tensor([1, 1, 1])),
    },
    mistakes=[
        of(
            "Rewards are normalised over the whole batch, not for each prompt.",
            ("prompts.unique(", "torch.zeros_like(prompts).unique("),
        ),
        of("The standard deviation is missing.", ("(centred / std[groups].clamp(min=ROUNDING))", "centred")),
        of("This divides by the variance, not by its root.", ("/ sizes).sqrt()", "/ sizes)")),
        of("The mean is not subtracted.", ("(centred / std", "(rewards / std")),
    ],
)


def ratios(rows: int = 2) -> Args:
    real = torch.ones(rows, 4, dtype=torch.bool)
    real[-1, 2:] = False
    return numbers(rows, 4), numbers(rows, 4), numbers(rows, 4), real, 0.2


PPO = FillIn(
    id="rlhf.ppo",
    title="PPO's loss",
    task="""
    With the ratio rho = exp(log_probs - old_log_probs) of each token, the gain is the smaller one of rho A and
    clip(rho, 1 - clip_range, 1 + clip_range) A. The loss is minus the gain. masked_sum(values, real) makes a Tally
    of the real tokens.
    """,
    hints=(
        "If the advantage is negative, which of the two products is the smaller one?",
        "torch.minimum of both products; clamp the ratio, not the product.",
    ),
    module=POLICY,
    cases=lambda: {
        "two answers": ratios(),
        "many": ratios(40),
        "no change": (*(numbers(1, 3),) * 2, numbers(1, 3), torch.ones(1, 3, dtype=torch.bool), 0.2),
        "a wide range": (*ratios()[:4], 0.9),
    },
    mistakes=[
        of("This is the larger of both; PPO is pessimistic.", ("torch.minimum", "torch.maximum")),
        of(
            "The ratio is always clipped: compare with the ratio that is not.",
            (
                "torch.minimum(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)",
                "ratio.clamp(1 - clip_range, 1 + clip_range) * advantage",
            ),
        ),
        of(
            "There is no clipping.",
            (
                "torch.minimum(ratio * advantage, ratio.clamp(1 - clip_range, 1 + clip_range) * advantage)",
                "ratio * advantage",
            ),
        ),
        of("The sign is wrong: the loss is minus the gain.", ("masked_sum(-gain, real)", "masked_sum(gain, real)")),
        of("The ratio is upside down: new over old.", ("(log_probs - old_log_probs)", "(old_log_probs - log_probs)")),
        of(
            "The difference of log-probabilities is not a ratio yet: take exp.",
            ("(log_probs - old_log_probs).exp()", "1 + (log_probs - old_log_probs)"),
        ),
        of(
            "The ratio is clipped above only.",
            ("ratio.clamp(1 - clip_range, 1 + clip_range)", "ratio.clamp(max=1 + clip_range)"),
        ),
        of("Tokens after the end are counted.", ("masked_sum(-gain, real)", "masked_sum(-gain, real | ~real)")),
    ],
)
VALUE = FillIn(
    id="rlhf.value",
    title="the loss of the value function, clipped",
    task="""
    Half of the squared error between values and returns. Moving more than clip_range away from the old value gains
    nothing: take the larger one of the error and of that of the clipped value. masked_sum(losses, real) makes a
    Tally.
    """,
    hints=(
        "Which is more pessimistic for a loss, the larger or the smaller one?",
        "Clip the difference to the old value, add it to the old value, compare squares.",
    ),
    module=POLICY,
    cases=lambda: {
        "two answers": (numbers(2, 4), numbers(2, 4), numbers(2, 4), REAL, 0.3),
        "many": ratios(40),
        "close": (numbers(1, 4), numbers(1, 4), numbers(1, 4), REAL[:1], 5.0),
    },
    mistakes=[
        of("The half is missing.", (" / 2, real)", ", real)")),
        of(
            "This is the smaller of both; for a loss, the larger one is pessimistic.",
            ("torch.maximum", "torch.minimum"),
        ),
        of(
            "The value itself is clipped, not its distance to the old one.",
            (
                "old_values + (values - old_values).clamp(-clip_range, clip_range)",
                "values.clamp(-clip_range, clip_range)",
            ),
        ),
        of("There is no clipping.", ("(clipped - returns).square()", "(values - returns).square()")),
    ],
)
DPO = FillIn(
    id="rlhf.dpo",
    title="DPO's loss",
    task="""
    log_probs (N, 2) are those of the better and the worse answer under the policy, ref_log_probs under the
    reference. The implicit reward is beta (log_probs - ref_log_probs); the loss is the mean of -log sigmoid(reward
    of the better one - reward of the worse one).
    """,
    hints=(
        "What is the loss before the first step, when policy and reference agree?",
        "Two rewards, their difference, F.logsigmoid, a mean.",
    ),
    module=WRITTEN,
    cases=lambda: {
        "three pairs": (numbers(3, 2), numbers(3, 2), 0.1),
        "one pair": (numbers(1, 2), numbers(1, 2), 0.5),
        "at the start": (torch.ones(2, 2).double(), torch.ones(2, 2).double(), 0.1),
    },
    mistakes=[
        of(
            "The reference is missing: this is a plain ranking.",
            ("beta * (log_probs - ref_log_probs)", "beta * (log_probs - 0 * ref_log_probs)"),
        ),
        of("Better and worse are swapped.", ("rewards[:, 0] - rewards[:, 1]", "rewards[:, 1] - rewards[:, 0]")),
        of("beta is missing.", ("beta * (log", "(log")),
        of("This is the sum, not the mean.", (".mean()", ".sum()")),
        of("The logarithm is missing.", ("-F.logsigmoid(", "-torch.sigmoid(")),
        of(
            "beta divides; it is a factor.",
            ("beta * (log_probs - ref_log_probs)", "(log_probs - ref_log_probs) / beta"),
        ),
    ],
)

EXERCISES: list[Exercise] = [REWARD, K1, K2, K3, GAE, GROUP, PPO, VALUE, DPO]
