"""A check-up before a policy learns: what would make all that follows worthless, in words."""

from collections.abc import Callable
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

ANSWERS = 16
SAME, NEARLY = 1e-5, 1e-3  # of logarithms: by the same kernels, and by others


@torch.no_grad()
def preflight(
    task: "Ppo", policy: Policy, prompts: LabelledSequences, autocast: Callable[[], AbstractContextManager[None]]
) -> list[Finding]:
    """Of a policy before its first step."""
    rows = prompts.take(np.arange(ANSWERS) % len(prompts))
    tokens = rows.lists()
    policy.eval()
    with autocast():
        written = task.sampler.write(policy, tokens, range(len(tokens)))
        stats = task.sampler.token_stats(policy, written)
        stepped = by_steps(policy, written)
    policy.train()
    texts = task.sampler.texts(written)
    return [
        at_the_start(stats, task.recipe.model.dropout),
        sampled_as_learned(stats, stepped, task.recipe.train.precision),
        ends(written, task.recipe.data.max_new_tokens),
        *reward_alone(task.rewards["reward"], task.texts_of(rows), texts),
        *reward_ranks(task.recipe.data.reward, task.open_run),
    ]


def by_steps(policy: Policy, written: SampledCompletions) -> Tensor:
    """(K,): how likely each token was to the sampler, which reads one after another."""
    device = next(policy.parameters()).device
    logits, state = read_prompts(policy.decoder, written.prompts, written.tokens.shape[1], device)
    found = []
    for column in written.tokens.T.to(device):
        found.append(logits.float().log_softmax(dim=-1).gather(1, column[:, None])[:, 0])
        logits, state = policy.decoder.step(column[:, None], state)
    return torch.stack(found, dim=1).cpu()[written.real]


def at_the_start(seen: TokenStats, dropout: float) -> Finding:
    apart = float((seen.log_probs - seen.ref_log_probs).abs().max())
    if dropout:
        return Finding(False, f"with model.dropout={dropout:g} the ratio is not 1 at the first step: set it to 0")
    if apart > SAME:
        return Finding(False, f"the policy is not its reference: log-probabilities differ by {apart:.1e}, KL is not 0")
    return Finding(True, f"the ratio is 1 and the KL is 0 (log-probabilities agree to {apart:.0e})")


def sampled_as_learned(seen: TokenStats, stepped: Tensor, precision: str) -> Finding:
    apart = float((seen.log_probs - stepped).abs().mean())
    allowed = NEARLY if precision == "fp32" else 100 * NEARLY
    agree = f"sampler and trainer agree: log-probabilities of a token differ by {apart:.0e} on the mean"
    return Finding(apart <= allowed, agree if apart <= allowed else agree.replace("agree:", "do not agree:"))


def ends(written: SampledCompletions, limit: int) -> Finding:
    share = float(written.ended.float().mean())
    if int(written.sizes.max()) == 1 and share == 1:
        return Finding(False, "every answer is empty: is data.template the one that the start has learned?")
    if share == 0:
        return Finding(
            False, f"no answer came to an end within {limit} tokens: raise data.max_new_tokens, or fine-tune first"
        )
    return Finding(True, f"{share:.0%} of the answers come to an end within {limit} tokens")


def reward_alone(reward: Reward, prompts: list[str], answers: list[str]) -> list[Finding]:
    """What an answer is worth must not depend on those beside it, or on the padding that they bring."""
    together = reward(prompts, answers)
    alone = [reward([prompt], [answer])[0] for prompt, answer in zip(prompts, answers, strict=True)]
    apart = max(abs(one - other) for one, other in zip(together, alone, strict=True))
    if apart > NEARLY * (1 + max(map(abs, together))):
        return [Finding(False, f"a reward depends on the answers beside it: alone it differs by up to {apart:.1e}")]
    spread = float(np.std(together))
    if not spread:
        return [Finding(False, f"all of {len(answers)} answers get the same reward: there is nothing to learn from")]
    return [
        Finding(True, f"rewards do not depend on padding; their spread over {len(answers)} answers is {spread:.2g}")
    ]


def reward_ranks(reward: str, open_run: OpenRun) -> list[Finding]:
    """Of a reward model, how well it ranked what it had not seen."""
    if not is_run(reward):
        return []
    run = open_run(reward)
    if not run.is_done:
        return [Finding(False, f"{reward} has not been trained to its end")]
    accuracy = min(each["accuracy"] for each in run.results["test"].values())
    words = f"the reward model finds the better of two answers in {accuracy:.0%} of held-out pairs"
    return [Finding(accuracy > 0.55, words if accuracy > 0.55 else f"{words}: hardly more than chance")]
