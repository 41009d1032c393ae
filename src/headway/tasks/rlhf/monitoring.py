"""What can go wrong with PPO: checks before the first step, and alarms from one evaluation to the next."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headway.data.sequences import LabelledSequences
from headway.generation.decoder_step import read_prompts
from headway.tasks.abilities import Finding, OpenRun
from headway.tasks.rlhf.policy import Policy
from headway.tasks.rlhf.rewards import Reward, is_run
from headway.tasks.rlhf.sampler import SampledCompletions, TokenStats

if TYPE_CHECKING:
    from headway.tasks.rlhf.ppo import Ppo

ANSWERS = 16  # sampled before the first step
EXACT, CLOSE = 1e-5, 1e-3  # tolerance of log-probabilities: from the same kernels, and from different ones
MIN_ACCURACY = 0.55  # of a reward model on held-out pairs

MAX_KL = 30.0  # nats: this far from its reference, a policy writes another language
MIN_KL = -0.5  # nats: slightly below zero is sampling noise
MIN_ENTROPY = 0.2  # as a share of the initial entropy
LONGER, SHORTER = 2.0, 0.5  # than the initial answers
REPEATED, REPEATED_MORE = 2.0, 0.02  # alarm above this factor of the initial share of repeated n-grams, plus this
MIN_CHANGE = 0.05  # of the range of a metric so far, to count as rising or falling


# --- before the first step


@torch.no_grad()
def preflight(
    task: "Ppo", policy: Policy, prompts: LabelledSequences, autocast: Callable[[], AbstractContextManager[None]]
) -> list[Finding]:
    """Checks of a policy before its first step."""
    rows = prompts.take(np.arange(ANSWERS) % len(prompts))
    tokens = rows.lists()
    policy.eval()
    with autocast():
        completions = task.sampler.sample(policy, tokens, range(len(tokens)))
        stats = task.sampler.token_stats(policy, completions)
        sampler_log_probs = log_probs_by_step(policy, completions)
    policy.train()
    texts = task.sampler.texts(completions)
    return [
        equals_reference(stats, task.recipe.model.dropout),
        sampler_agrees(stats, sampler_log_probs, task.recipe.train.precision),
        answers_end(completions, task.recipe.data.max_new_tokens),
        *reward_is_independent(task.rewards["reward"], task.texts_of(rows), texts),
        *reward_accuracy(task.recipe.data.reward, task.open_run),
    ]


def log_probs_by_step(policy: Policy, completions: SampledCompletions) -> Tensor:
    """(K,): of the answer tokens, decoded one at a time as the sampler does."""
    device = next(policy.parameters()).device
    logits, state = read_prompts(policy.decoder, completions.prompts, completions.tokens.shape[1], device)
    columns = []
    for tokens in completions.tokens.T.to(device):
        columns.append(logits.float().log_softmax(dim=-1).gather(1, tokens[:, None])[:, 0])
        logits, state = policy.decoder.step(tokens[:, None], state)
    return torch.stack(columns, dim=1).cpu()[completions.real]


def equals_reference(stats: TokenStats, dropout: float) -> Finding:
    difference = float((stats.log_probs - stats.ref_log_probs).abs().max())
    if dropout:
        return Finding(False, f"with model.dropout={dropout:g} the ratio is not 1 at the first step: set it to 0")
    if difference > EXACT:
        return Finding(
            False, f"the policy differs from its reference: log-probabilities by {difference:.1e}, so the KL is not 0"
        )
    return Finding(True, f"the ratio is 1 and the KL is 0 (log-probabilities agree to {difference:.0e})")


def sampler_agrees(stats: TokenStats, sampler_log_probs: Tensor, precision: str) -> Finding:
    difference = float((stats.log_probs - sampler_log_probs).abs().mean())
    agrees = difference <= (CLOSE if precision == "fp32" else 100 * CLOSE)
    verdict = "sampler and trainer agree" if agrees else "sampler and trainer do not agree"
    return Finding(agrees, f"{verdict}: the mean difference of log-probabilities is {difference:.0e}")


def answers_end(completions: SampledCompletions, max_new_tokens: int) -> Finding:
    share = float(completions.ended.float().mean())
    if int(completions.sizes.max()) == 1 and share == 1:
        return Finding(False, "every answer is empty: is data.template the one that the start was trained with?")
    if share == 0:
        remedy = "raise data.max_new_tokens, or fine-tune first"
        return Finding(False, f"no answer ends within {max_new_tokens} tokens: {remedy}")
    return Finding(True, f"{share:.0%} of the answers end within {max_new_tokens} tokens")


def reward_is_independent(reward: Reward, prompts: list[str], answers: list[str]) -> list[Finding]:
    """A reward must not depend on the other answers in the batch, or on padding."""
    batched = reward(prompts, answers)
    alone = [reward([prompt], [answer])[0] for prompt, answer in zip(prompts, answers, strict=True)]
    difference = max(abs(one - other) for one, other in zip(batched, alone, strict=True))
    if difference > CLOSE * (1 + max(map(abs, batched))):
        return [Finding(False, f"a reward depends on the batch: alone it differs by up to {difference:.1e}")]
    spread = float(np.std(batched))
    if not spread:
        return [Finding(False, f"all {len(answers)} answers get the same reward: there is nothing to learn")]
    message = (
        f"rewards do not depend on the batch; their standard deviation over {len(answers)} answers is {spread:.2g}"
    )
    return [Finding(True, message)]


def reward_accuracy(reward: str, open_run: OpenRun) -> list[Finding]:
    """Of a reward model on held-out pairs."""
    if not is_run(reward):
        return []
    run = open_run(reward)
    if not run.is_done:
        return [Finding(False, f"the training of {reward} is not finished")]
    accuracy = min(each["accuracy"] for each in run.results["test"].values())
    message = f"the reward model has an accuracy of {accuracy:.0%} on held-out pairs"
    good = accuracy > MIN_ACCURACY
    return [Finding(good, message if good else f"{message}: hardly above chance")]


# --- at every evaluation


def alarms(history: Sequence[Mapping[str, float]]) -> list[str]:
    """About the last evaluation, compared with the first."""
    if len(history) < 2:
        return []
    first, last = history[0], history[-1]
    messages = []
    if last["kl"] < MIN_KL:
        messages.append(f"the KL is {last['kl']:.2f}, below zero: sampler and trainer do not agree")
    if last["kl"] > MAX_KL:
        messages.append(f"the KL is {last['kl']:.1f} nats and running off: raise beta, or lower train.learning_rate")
    if last["entropy"] < MIN_ENTROPY * first["entropy"]:
        fell = f"fell from {first['entropy']:.2f} to {last['entropy']:.2f}"
        messages.append(f"the entropy per token {fell}: answers become all alike")
    if "judge" in last and rises([each["reward"] for each in history]) and rises([-each["judge"] for each in history]):
        messages.append("the reward rises while the judge's score falls: the policy exploits a gap in the reward")
    if last["length"] > LONGER * first["length"]:
        messages.append(f"answers grew from {first['length']:.0f} tokens to {last['length']:.0f}")
    if last["length"] < SHORTER * first["length"]:
        messages.append(f"answers shrank from {first['length']:.0f} tokens to {last['length']:.0f}")
    if last["repeated"] > REPEATED * first["repeated"] + REPEATED_MORE:
        grew = f"from {first['repeated']:.0%} to {last['repeated']:.0%}"
        messages.append(f"answers repeat themselves: the share of repeated 3-grams grew {grew}")
    return messages


def rises(values: Sequence[float]) -> bool:
    """Whether the last value is clearly above the two before it."""
    step = MIN_CHANGE * (max(values) - min(values))
    return len(values) > 2 and values[-1] > values[-2] + step and values[-1] > values[-3] + step
