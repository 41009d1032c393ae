"""Proximal policy optimization: a policy answers prompts, each answer gets a reward, and the policy learns to increase
it while staying close to the reference.

    headway train ppo start=runs/sft-1 data.train=prompts.jsonl data.reward=runs/reward-1

It maximises E[r(x, y) - beta log(pi(y | x) / pi_0(y | x))] + gamma E[log pi(text)] (Ouyang et al. 2022,
https://arxiv.org/abs/2203.02155), where pi_0 is the reference, its initial weights; see objectives/policy_gradient.
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
from headway.nn.lora import merge_lora
from headway.objectives import policy_gradient
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Chats, Finding, Generates, HasState, KeepsReference, Monitored, OpenRun, UsesRuns
from headway.tasks.rlhf.monitoring import alarms, preflight
from headway.tasks.rlhf.policy import Policy
from headway.tasks.rlhf.prompted import EOS, Prompted, PromptedData
from headway.tasks.rlhf.prompts import PromptExample
from headway.tasks.rlhf.rewards import RULES, Reward, rewards_of
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
        "a reward model's run, a classifier's run and a label (RUN:LABEL), a function (package.module:name), or a rule",
    )
    judge: str | None = setting(None, "a second reward, only evaluated, never trained on")
    max_new_tokens: int = setting(48, "maximum tokens of an answer", least=1, was="answer")
    rollouts: int = setting(128, "answers sampled per round", least=1)
    group_size: int = setting(1, "answers per prompt", least=1, was="group")
    ppo_epochs: int = setting(4, "epochs over each round of answers", least=1, was="passes")
    advantage: str = setting(
        "gae",
        "advantage estimator",
        parts_were={"estimated": "gae", "grouped": "grpo", "trace": "gae_lambda"},
    )
    kl_penalty: str = setting("fixed(beta=0.1)", "KL penalty against the reference", was="penalty")
    kl_estimator: str = setting(
        "k1", "estimator of the KL per token", choices=tuple(policy_gradient.ESTIMATORS), was="estimator"
    )
    clip_range: float = setting(0.2, "PPO clip range, of probability ratios and values", least=0, was="reach")
    vf_coef: float = setting(0.1, "coefficient of the value loss", least=0, was="value_weight")
    entropy_coef: float = setting(0.0, "coefficient of the entropy bonus", least=0, was="entropy_weight")
    lora_rank: int | None = setting(
        None,
        "LoRA rank: train adapters only, the weights without them are the reference; none: train all weights",
        least=1,
        was="adapters",
    )
    ptx_data: str | None = setting(
        None, "a file of texts for the pre-training loss (PPO-ptx); none: no such loss", was="mix"
    )
    ptx_coef: float = setting(1.0, "coefficient of the pre-training loss (gamma)", least=0, was="mix_weight")
    ptx_windows: int = setting(8, "windows of pre-training text per batch", least=1, was="mix_windows")


class Ppo(Prompted, Generates, Chats, HasState, KeepsReference, UsesRuns, Monitored):
    settings = PpoData
    usual_metric = "reward"
    metric_names = ("kl", "entropy", "length", "ended", "reward")
    columns = ("prompt",)
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "data.advantage": policy_gradient.ADVANTAGES,
        "data.kl_penalty": policy_gradient.PENALTIES,
        "data.reward": RULES,
        "data.judge": RULES,
        **Prompted.tables,
    }
    example = "a prompt of your own"
    stages: ClassVar[Mapping[str, str]] = {"reward": "data.reward"}
    min_answers = 0
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
            raise BadSetting("train.batch_tokens", "PPO uses batches of train.batch_size answers: leave it out")
        if data.rollouts % data.group_size:
            raise BadSetting("data.group_size", f"data.rollouts={data.rollouts} is not a multiple of it")
        self.penalty: policy_gradient.Penalty = part(policy_gradient.PENALTIES, data.kl_penalty, "data.kl_penalty")
        self.advantage = bind(policy_gradient.ADVANTAGES, data.advantage, "data.advantage")
        nothing: dict[str, Any] = {name: torch.zeros(1, 1, device="cpu") for name in ("rewards", "values")}
        real, prompts = torch.ones(1, 1, dtype=torch.bool, device="cpu"), torch.zeros(1, device="cpu")
        part(policy_gradient.ADVANTAGES, data.advantage, "data.advantage", **nothing, real=real, prompts=prompts)
        self.kl_estimator = choose(policy_gradient.ESTIMATORS, data.kl_estimator, "data.kl_estimator")
        self.beta = self.penalty.beta
        self.prompt_texts: list[str] = []  # of all sets
        self.rewards: dict[str, Reward] = {}  # the reward to train on, and the judge
        self.policy: Policy | None = None  # the model being trained
        self.rollouts: Rollouts | None = None  # its training data

    def model(self) -> nn.Module:
        data, spec = self.recipe.data, self.recipe.model
        return Policy(*build_decoder_and_reference(spec, self.vocab_size, data.max_length, data.lora_rank), spec.width)

    def begin(self, model: Policy) -> None:
        self.policy = model

    def copy_reference(self, model: Policy) -> None:
        model.copy_reference()

    def connect(self, open_run: OpenRun) -> None:
        self.open_run, self.rewards = open_run, rewards_of(self.recipe.data, open_run)

    @cached_property
    def sampler(self) -> RolloutSampler:
        data = self.recipe.data
        return RolloutSampler(self.tokenizer, self.eos, data.max_new_tokens, data.max_length, self.template.suffix)

    # --- data

    def prepare(self, progress: Progress = silent) -> None:
        data = self.recipe.data
        if parse(data.advantage, "data.advantage")[0] == "grpo" and data.group_size < 2:
            raise BadSetting("data.group_size", "grpo compares answers to the same prompt: set at least 2")
        super().prepare(progress)

    def answer_room(self, answers: list[np.ndarray]) -> int:
        return int(self.recipe.data.max_new_tokens)

    def dataset(
        self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[PromptExample]
    ) -> LabelledSequences:
        """Labels are indices into ``prompt_texts``."""
        first = len(self.prompt_texts)
        self.prompt_texts += [each.prompt for each in prompts]
        return LabelledSequences.of(tokens, list(range(first, len(self.prompt_texts))))

    def make_splits(self) -> Splits[Any]:
        splits, data = super().make_splits(), self.recipe.data
        self.train_prompts: LabelledSequences = splits.train
        example = self.longest_answers(1)
        ptx = self.ptx_stream if data.ptx_data and data.ptx_coef else None
        self.rollouts = Rollouts(
            self.roll_out, data.rollouts, data.ppo_epochs, example, ptx, data.ptx_windows, self.recipe.train.seed
        )
        return Splits(self.rollouts, splits.validation, splits.test, splits.notes)

    def longest_answers(self, count: int) -> Rollout:
        """To the longest prompt, without rewards."""
        longest = self.train_prompts.take(np.full(count, int(self.train_prompts.lengths.argmax()))).lists()
        empty = torch.zeros(count, self.recipe.data.max_new_tokens, dtype=torch.long)
        return SampledCompletions.of(longest, empty, self.eos).rollout()

    @cached_property
    def ptx_stream(self) -> Stream:
        source = self.recipe.data.ptx_data
        path = generated(source) if source in GENERATED else Path(source)
        corpus = Corpus(path, whole_texts(TextsData(train=str(path))), self.progress)
        return Stream(corpus.stream(self.tokenizer, EOS), self.recipe.data.max_length, mark=self.eos)

    # --- rollouts

    def roll_out(self, number: int) -> Rollout:
        """Round ``number``, sampled from the current policy. Without one, as where only the cost of a step is of
        interest, it is answers of the maximum length."""
        data, policy = self.recipe.data, self.policy
        if policy is None:
            return self.longest_answers(data.rollouts)
        random = np.random.default_rng([self.recipe.train.seed, 2, number])
        rows = random.integers(len(self.train_prompts), size=data.rollouts // data.group_size).repeat(data.group_size)
        prompts, training = self.train_prompts.take(rows), policy.training
        policy.eval()
        completions = self.sampler.sample(policy, prompts.lists(), random.integers(1 << 32, size=len(rows)).tolist())
        stats = self.sampler.token_stats(policy, completions)
        policy.train(training)
        rewards = torch.tensor(self.rewards["reward"](self.texts_of(prompts), self.sampler.texts(completions)))
        kl = self.kl_estimator(stats.log_probs, stats.ref_log_probs)
        estimate = self.advantage(
            rewards=completions.padded(-self.beta * kl) + completions.at_last_token(rewards),
            values=completions.padded(stats.values),
            real=completions.real,
            prompts=torch.from_numpy(rows),
        )
        self.beta = self.penalty.after(self.beta, float((stats.log_probs - stats.ref_log_probs).sum()) / len(rows))
        real = completions.real
        return completions.rollout(stats.log_probs, stats.values, estimate.advantages[real], estimate.returns[real])

    def texts_of(self, prompts: LabelledSequences) -> list[str]:
        return [self.prompt_texts[label] for label in prompts.labels]

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        assert self.rollouts is not None
        return {BETA: torch.tensor(self.beta, dtype=torch.float64), **self.rollouts.state_dict()}

    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        assert self.rollouts is not None
        self.beta = float(state[BETA])
        self.rollouts.load_state_dict(state)

    # --- loss

    def loss(self, model: nn.Module, batch: RolloutBatch) -> Tally:
        data, everywhere = self.recipe.data, torch.ones_like(batch.targets, dtype=torch.bool)
        logits, values = model(*batch.model_inputs)
        log_probs = -nn.functional.cross_entropy(logits.float(), batch.targets, reduction="none")
        clipped = policy_gradient.ppo_loss(log_probs, batch.log_probs, batch.advantages, everywhere, data.clip_range)
        total = clipped.total
        if data.vf_coef:
            value_loss = policy_gradient.value_loss(
                values.float(), batch.values, batch.returns, everywhere, data.clip_range
            )
            total = total + data.vf_coef * value_loss.total
        if data.entropy_coef:
            total = total - data.entropy_coef * policy_gradient.entropy(logits.float(), everywhere).total
        if batch.ptx_tokens is not None:
            total = total + data.ptx_coef * clipped.count * self.ptx_loss(model, batch).mean
        return Tally(total, clipped.count)

    def ptx_loss(self, model: Any, batch: RolloutBatch) -> Tally:
        assert batch.ptx_tokens is not None
        logits = model.decoder(batch.ptx_tokens[:, :-1], documents=batch.ptx_documents)
        return cross_entropy(logits, batch.ptx_tokens[:, 1:])

    # --- evaluation

    def metrics(self, model: Any, batch: RolloutBatch | LabelledBatch) -> dict[str, Tally]:
        """Of sampled answers to the prompts of a batch; its targets are indices into ``prompt_texts``."""
        if isinstance(batch, RolloutBatch):
            return {"loss": self.loss(model, batch)}
        rows, device = len(batch), batch.inputs.device
        sizes = [batch.inputs.shape[1]] * rows if batch.lengths is None else batch.lengths.tolist()
        prompts = [row[:size].tolist() for row, size in zip(batch.inputs, sizes, strict=True)]
        completions = self.sampler.sample(model, prompts, batch.targets.tolist())
        stats = self.sampler.token_stats(model, completions)
        texts, answers = [self.prompt_texts[index] for index in batch.targets.tolist()], self.sampler.texts(completions)
        tallies = {
            "kl": Tally((stats.log_probs - stats.ref_log_probs).sum(), rows),
            "entropy": Tally(stats.entropies.sum(), len(stats.log_probs)),
            "length": Tally(completions.sizes.sum(), rows),
            "ended": Tally(completions.ended.sum(), rows),
            "repeated": Tally(completions.repeated().sum(), rows),
        }
        for use, reward in sorted(self.rewards.items()):
            tallies[use] = Tally(torch.tensor(reward(texts, answers), device=device).sum(), rows)
        return tallies

    def preflight(
        self, model: Policy, splits: Splits[Any], autocast: Callable[[], AbstractContextManager[None]]
    ) -> list[Finding]:
        return preflight(self, model, splits.validation["validation"], autocast)

    def alarms(self, history: Sequence[Mapping[str, float]]) -> list[str]:
        return alarms(history)

    def generator(self, model: Any) -> Generator:
        return self.generator_of(merge_lora(model.decoder))

    @property
    def chance(self) -> float:
        return math.inf
