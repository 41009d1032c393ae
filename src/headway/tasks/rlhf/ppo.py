"""Proximal policy optimisation: a model writes answers to prompts, gets a reward for each, and learns to write what
gets more, without going far from what it was.

    headway train ppo start=runs/sft-1 data.train=prompts.jsonl data.reward=runs/reward-1

It maximises E[r(x, y) - beta log(pi(y | x) / pi_0(y | x))] + gamma E[log pi(text)] (Ouyang et al. 2022,
https://arxiv.org/abs/2203.02155), where pi_0 is what it was at the start; see objectives/policy_gradient.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting
from headway.config.parts import bind, choose, parse, part
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import LabelledBatch
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.generated import GENERATED, generated
from headway.data.sequences import LabelledSequences
from headway.data.stream import Stream
from headway.generation.generator import Generator
from headway.models.build import build_decoder_and_reference
from headway.nn.lora import merged
from headway.objectives import policy_gradient
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Finding, Generates, HasState, KeepsReference, Monitored, OpenRun, UsesRuns
from headway.tasks.rlhf.alarms import alarms
from headway.tasks.rlhf.policy import Policy
from headway.tasks.rlhf.preflight import preflight
from headway.tasks.rlhf.prompted import MARK, Prompted, PromptedData
from headway.tasks.rlhf.prompts import Answers
from headway.tasks.rlhf.rewards import Reward, rewards_of
from headway.tasks.rlhf.rollouts import Rollout, RolloutBatch, Rollouts
from headway.tasks.rlhf.sampler import RolloutSampler, SampledCompletions
from headway.tasks.task import Splits
from headway.tasks.unlabelled import TextsData, whole_texts

BETA = "beta"


@dataclass(frozen=True)
class PpoData(PromptedData):
    train: str | None = setting(None, "a file of prompts")
    reward: str | None = setting(
        None,
        "a run of reward, one of classify and a label (RUN:LABEL), a function (package.module:name), or a rule",
    )
    judge: str | None = setting(None, "the same, to measure by alone: what the policy never learns from")
    max_new_tokens: int = setting(48, "tokens of an answer at most", least=1, was="answer")
    rollouts: int = setting(128, "answers that are written before each round of learning", least=1)
    group_size: int = setting(1, "answers to each prompt", least=1, was="group")
    ppo_epochs: int = setting(4, "times that each answer is learned from", least=1, was="passes")
    advantage: str = setting(
        "gae",
        "how much better a token is than what was expected",
        parts_were={"estimated": "gae", "grouped": "grpo", "trace": "gae_lambda"},
    )
    kl_penalty: str = setting("fixed(beta=0.1)", "of going away from the start", was="penalty")
    kl_estimator: str = setting(
        "k1", "of how far that is, at a token", choices=tuple(policy_gradient.ESTIMATORS), was="estimator"
    )
    clip_range: float = setting(
        0.2, "how far a ratio of probabilities may go from 1, and a value from what it was", least=0, was="reach"
    )
    vf_coef: float = setting(0.1, "of the error of what was expected", least=0, was="value_weight")
    entropy_coef: float = setting(0.0, "of the entropy of the next token", least=0, was="entropy_weight")
    lora_rank: int | None = setting(
        None,
        "rank of adapters to learn in place of the matrices: one body is policy and start; none: all learns",
        least=1,
        was="adapters",
    )
    ptx_data: str | None = setting(
        None, "a file of texts that should stay as likely as they were; none: nothing is mixed in", was="mix"
    )
    ptx_coef: float = setting(1.0, "of their loss (gamma)", least=0, was="mix_weight")
    ptx_windows: int = setting(8, "windows of them in each batch", least=1, was="mix_windows")


class Ppo(Prompted, Generates, HasState, KeepsReference, UsesRuns, Monitored):
    settings = PpoData
    metric_names = ("kl", "entropy", "length", "ended", "reward")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.advantage": policy_gradient.ADVANTAGES,
        "data.kl_penalty": policy_gradient.PENALTIES,
    }
    example = "a prompt of your own"
    stages: ClassVar[Mapping[str, str]] = {"reward": "data.reward"}
    least = 0
    needs_start = True

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        data = recipe.data
        if data.max_new_tokens >= data.max_length:
            raise BadSetting(
                "data.max_new_tokens",
                f"{data.max_new_tokens} tokens leave no room for a prompt in data.max_length={data.max_length}",
            )
        if recipe.train.batch_tokens is not None:
            raise BadSetting(
                "train.batch_tokens", "answers are learned from in batches of train.batch_size: leave it out"
            )
        if data.rollouts % data.group_size:
            raise BadSetting("data.group_size", f"data.rollouts={data.rollouts} is not a multiple of it")
        self.penalty: policy_gradient.Penalty = part(policy_gradient.PENALTIES, data.kl_penalty, "data.kl_penalty")
        self.lesson = bind(policy_gradient.ADVANTAGES, data.advantage, "data.advantage")
        nothing: dict[str, Any] = {name: torch.zeros(1, 1, device="cpu") for name in ("rewards", "values")}
        real, prompts = torch.ones(1, 1, dtype=torch.bool, device="cpu"), torch.zeros(1, device="cpu")
        part(policy_gradient.ADVANTAGES, data.advantage, "data.advantage", **nothing, real=real, prompts=prompts)
        self.estimate = choose(policy_gradient.ESTIMATORS, data.kl_estimator, "data.kl_estimator")
        self.beta = self.penalty.beta
        self.asked: list[str] = []  # the prompts of all sets
        self.rewards: dict[str, Reward] = {}  # by their use: the reward that is learned from, and the judge
        self.policy: Policy | None = None  # what is trained
        self.rollouts: Rollouts | None = None  # what it is trained on

    def model(self) -> nn.Module:
        data, spec = self.recipe.data, self.recipe.model
        return Policy(*build_decoder_and_reference(spec, self.symbols, data.max_length, data.lora_rank), spec.width)

    def begin(self, model: Policy) -> None:
        self.policy = model

    def copy_reference(self, model: Policy) -> None:
        model.copy_reference()

    def connect(self, open_run: OpenRun) -> None:
        self.open_run, self.rewards = open_run, rewards_of(self.recipe.data, open_run)

    @cached_property
    def sampler(self) -> RolloutSampler:
        data = self.recipe.data
        return RolloutSampler(self.tokenizer, self.mark, data.max_new_tokens, data.max_length, self.template.after)

    # --- data

    def prepare(self, progress: Progress = silent) -> None:
        data = self.recipe.data
        if parse(data.advantage, "data.advantage")[0] == "grpo" and data.group_size < 2:
            raise BadSetting(
                "data.group_size", "answers are compared with others to the same prompt: at least 2 of them"
            )
        super().prepare(progress)

    def room(self, answers: list[np.ndarray]) -> int:
        return int(self.recipe.data.max_new_tokens)

    def dataset(
        self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[Answers]
    ) -> LabelledSequences:
        """Labels say which prompt each is."""
        first = len(self.asked)
        self.asked += [each.prompt for each in prompts]
        return LabelledSequences.of(tokens, list(range(first, len(self.asked))))

    def make_splits(self) -> Splits[Any]:
        found, data = super().make_splits(), self.recipe.data
        self.prompts_to_learn_from: LabelledSequences = found.train
        longest = found.train.take(np.array([int(found.train.lengths.argmax())])).lists()
        empty = torch.zeros(1, data.max_new_tokens, dtype=torch.long)
        example = SampledCompletions.of(longest, empty, self.mark).rollout()
        text = self.text if data.ptx_data and data.ptx_coef else None
        self.rollouts = Rollouts(
            self.roll_out, data.rollouts, data.ppo_epochs, example, text, data.ptx_windows, self.recipe.train.seed
        )
        return Splits(self.rollouts, found.validation, found.test, found.notes)

    @cached_property
    def text(self) -> Stream:
        mix = self.recipe.data.ptx_data
        path = generated(mix) if mix in GENERATED else Path(mix)
        corpus = Corpus(path, whole_texts(TextsData(train=str(path))), self.progress)
        return Stream(corpus.stream(self.tokenizer, MARK), self.recipe.data.max_length, mark=self.mark)

    # --- rollouts

    def roll_out(self, number: int) -> Rollout:
        """The round of this number, by the policy as it is now."""
        assert self.policy is not None
        data, policy = self.recipe.data, self.policy
        random = np.random.default_rng([self.recipe.train.seed, 2, number])
        rows = random.integers(len(self.prompts_to_learn_from), size=data.rollouts // data.group_size).repeat(
            data.group_size
        )
        prompts, training = self.prompts_to_learn_from.take(rows), policy.training
        policy.eval()
        written = self.sampler.write(policy, prompts.lists(), random.integers(1 << 32, size=len(rows)).tolist())
        seen = self.sampler.token_stats(policy, written)
        policy.train(training)
        rewards = torch.tensor(self.rewards["reward"](self.texts_of(prompts), self.sampler.texts(written)))
        divergence = self.estimate(seen.log_probs, seen.ref_log_probs)
        lesson = self.lesson(
            rewards=written.padded(-self.beta * divergence) + written.at_the_end(rewards),
            values=written.padded(seen.values),
            real=written.real,
            prompts=torch.from_numpy(rows),
        )
        self.beta = self.penalty.after(self.beta, float((seen.log_probs - seen.ref_log_probs).sum()) / len(rows))
        real = written.real
        return written.rollout(seen.log_probs, seen.values, lesson.advantages[real], lesson.returns[real])

    def texts_of(self, prompts: LabelledSequences) -> list[str]:
        return [self.asked[label] for label in prompts.labels]

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        assert self.rollouts is not None
        return {BETA: torch.tensor(self.beta, dtype=torch.float64), **self.rollouts.state_dict()}

    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        assert self.rollouts is not None
        self.beta = float(state[BETA])
        self.rollouts.load_state_dict(state)

    # --- learning

    def loss(self, model: nn.Module, batch: RolloutBatch) -> Tally:
        data, everywhere = self.recipe.data, torch.ones_like(batch.targets, dtype=torch.bool)
        logits, values = model(*batch.read)
        log_probs = -nn.functional.cross_entropy(logits.float(), batch.targets, reduction="none")
        found = policy_gradient.clipped(log_probs, batch.log_probs, batch.advantages, everywhere, data.clip_range)
        total = found.total
        if data.vf_coef:
            expected = policy_gradient.clipped_values(
                values.float(), batch.values, batch.returns, everywhere, data.clip_range
            )
            total = total + data.vf_coef * expected.total
        if data.entropy_coef:
            total = total - data.entropy_coef * policy_gradient.entropy(logits.float(), everywhere).total
        if batch.text is not None:
            total = total + data.ptx_coef * found.count * self.text_loss(model, batch).mean
        return Tally(total, found.count)

    def text_loss(self, model: Any, batch: RolloutBatch) -> Tally:
        assert batch.text is not None
        logits = model.decoder(batch.text[:, :-1], documents=batch.text_documents)
        return cross_entropy(logits, batch.text[:, 1:])

    # --- measuring

    def metrics(self, model: Any, batch: RolloutBatch | LabelledBatch) -> dict[str, Tally]:
        """Of what it writes to the prompts of a batch, whose targets say which they are."""
        if isinstance(batch, RolloutBatch):
            return {"loss": self.loss(model, batch)}
        rows, device = len(batch), batch.inputs.device
        sizes = [batch.inputs.shape[1]] * rows if batch.lengths is None else batch.lengths.tolist()
        prompts = [row[:size].tolist() for row, size in zip(batch.inputs, sizes, strict=True)]
        written = self.sampler.write(model, prompts, batch.targets.tolist())
        seen = self.sampler.token_stats(model, written)
        asked, texts = [self.asked[place] for place in batch.targets.tolist()], self.sampler.texts(written)
        found = {
            "kl": Tally((seen.log_probs - seen.ref_log_probs).sum(), rows),
            "entropy": Tally(seen.entropies.sum(), len(seen.log_probs)),
            "length": Tally(written.sizes.sum(), rows),
            "ended": Tally(written.ended.sum(), rows),
            "repeated": Tally(written.repeated().sum(), rows),
        }
        for use, reward in sorted(self.rewards.items()):
            found[use] = Tally(torch.tensor(reward(asked, texts), device=device).sum(), rows)
        return found

    def preflight(
        self, model: Policy, splits: Splits[Any], autocast: Callable[[], AbstractContextManager[None]]
    ) -> list[Finding]:
        return preflight(self, model, splits.validation["validation"], autocast)

    def alarms(self, history: Sequence[Mapping[str, float]]) -> list[str]:
        return alarms(history)

    def generator(self, model: Any) -> Generator:
        return self.generator_of(merged(model.decoder))

    @property
    def chance(self) -> float:
        return math.inf
