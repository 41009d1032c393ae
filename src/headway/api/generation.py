"""What a trained model writes: completions, hypotheses of a beam search, translations, answers to questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np
from torch import nn

from headway.api.engines import Engines
from headway.api.progress import reporter
from headway.api.prompts import BeamOptions, GenerateOptions, WriteOptions, as_list
from headway.api.run import Run
from headway.api.settings import RewardFunction, Start
from headway.config import imports
from headway.config.arguments import at_least, checked_methods
from headway.config.errors import Problem
from headway.generation import Sampling, beam
from headway.generation.generator import Generator
from headway.generation.prompts import Shot
from headway.generation.translator import Translator
from headway.interop.engines import HEADWAY
from headway.lab.in_context import Replies, ask
from headway.metrics.table import Listing
from headway.runs.pipeline import Reporter
from headway.tasks.abilities import Generates, Translates, can, need
from headway.tasks.rlhf.rewards import checked, reward_of

MAX_NEW_TOKENS, TEMPERATURE, SEED = 200, 0.8, 1  # defaults, here and on the command line


@dataclass(frozen=True)
class Hypothesis:
    """A text that a beam search has found."""

    text: str
    score: float  # its log-probability, divided by its length to the power of the length penalty
    log_probability: float
    finished: bool  # whether it ended by itself, before max_new_tokens


@dataclass(frozen=True)
class Completion:
    prompt: str
    text: str
    reward: float


@checked_methods
class Generating(Engines):
    """The part of a Model that writes text."""

    run: Run
    network: nn.Module

    def generator(self, int8: bool = False) -> Generator:
        if can(self.run.task, Translates):
            raise Problem(f"{self.run.folder} translates: use translate (headway translate {self.run.folder} TEXT)")
        return replace(need(self.run.task, Generates).generator(self.network), int8=int8)

    def format_prompt(self, prompt: str) -> str:
        """The prompt as the model reads it, in the template that it was trained with.

        >>> letters.format_prompt("ab")
        'ab'
        """
        generator = self.generator()
        generator.tokens_of(prompt)  # raises what is wrong with it
        return generator.format_prompt(prompt)

    @overload
    def generate(  # type: ignore[overload-overlap]  # a text is a sequence of texts
        self, prompts: str = ..., **options: Unpack[WriteOptions]
    ) -> str: ...

    @overload
    def generate(self, prompts: Sequence[str], **options: Unpack[WriteOptions]) -> list[str]: ...

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        temperature: float = TEMPERATURE,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = SEED,
        int8: bool = False,
        engine: str = HEADWAY,
    ) -> str | list[str]:
        """The completion of a prompt, without the prompt itself; or of each of several prompts.

        ``temperature=0`` always takes the most likely token; ``top_k``, ``top_p`` and ``min_p`` leave out unlikely
        ones. A text ends before one of the ``stop`` texts. The first text has the random ``seed``, the next ones the
        following seeds, so that a text does not depend on the others. ``int8`` weights are faster on a CPU and slightly
        less exact. The ``engine`` "ctranslate2" is fast on a CPU, and writes the most likely tokens: it needs
        ``temperature=0``.

        >>> letters.generate("ab", max_new_tokens=4, temperature=0)
        'bbbb'
        >>> len(letters.generate(["a", "b"], max_new_tokens=4, top_p=0.9))
        2
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        listed = as_list(prompts)
        seeds = range(seed, seed + len(listed))
        if engine != HEADWAY:
            texts = self.greedy_texts(engine, listed, max_new_tokens, sampling, as_list(stop), int8)
            return texts[0] if isinstance(prompts, str) else texts
        texts = self.generator(int8).write(listed, max_new_tokens, sampling, seeds, as_list(stop))
        return texts[0] if isinstance(prompts, str) else texts

    def stream(
        self,
        prompt: str = "",
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        temperature: float = TEMPERATURE,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = SEED,
        int8: bool = False,
    ) -> Iterator[str]:
        """The same completion in pieces, as they are generated.

        >>> "".join(letters.stream("ab", max_new_tokens=4, temperature=0))
        'bbbb'
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        generator = self.generator(int8)
        generator.tokens_of(prompt)  # refused now, and not with the first piece
        pieces = generator.stream([prompt], max_new_tokens, sampling, [seed], as_list(stop))
        return (piece for (piece,) in pieces)

    @overload
    def best_of(  # type: ignore[overload-overlap]
        self, prompts: str, n: int, reward: Start | RewardFunction, **options: Unpack[GenerateOptions]
    ) -> Completion: ...

    @overload
    def best_of(
        self, prompts: Sequence[str], n: int, reward: Start | RewardFunction, **options: Unpack[GenerateOptions]
    ) -> Listing[Completion]: ...

    def best_of(
        self,
        prompts: str | Sequence[str],
        n: int,
        reward: Start | RewardFunction,
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        temperature: float = TEMPERATURE,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = SEED,
        int8: bool = False,
    ) -> Completion | Listing[Completion]:
        """Best-of-n sampling: of ``n`` completions of each prompt, the one with the highest reward. The reward is a
        function of prompts and answers, the run of a reward model, or the name of a rule.

        >>> letters.best_of("a", 4, lambda prompts, answers: map(len, answers), max_new_tokens=4).reward
        4.0
        """
        at_least(1, n=n)
        rate, listed = reward_function(reward), as_list(prompts)
        generator, stops = self.generator(int8), as_list(stop)
        repeated = [prompt for prompt in listed for _ in range(n)]
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        texts = generator.write(repeated, max_new_tokens, sampling, range(seed, seed + len(repeated)), stops)
        rewards = np.array(rate(repeated, texts)).reshape(len(listed), n)
        best = rewards.argmax(axis=1).tolist()
        completions = Listing(
            Completion(prompt, texts[row * n + index], float(rewards[row, index]))
            for row, (prompt, index) in enumerate(zip(listed, best, strict=True))
        )
        return completions[0] if isinstance(prompts, str) else completions

    @overload
    def beam_search(  # type: ignore[overload-overlap]
        self, prompts: str, **options: Unpack[BeamOptions]
    ) -> Listing[Hypothesis]: ...

    @overload
    def beam_search(self, prompts: Sequence[str], **options: Unpack[BeamOptions]) -> list[Listing[Hypothesis]]: ...

    def beam_search(
        self,
        prompts: str | Sequence[str],
        *,
        num_beams: int | None = None,
        num_return_sequences: int = 1,
        num_beam_groups: int = 1,
        diversity_penalty: float = 0.0,
        max_new_tokens: int = 50,
        length_penalty: float | None = None,
        to: str | None = None,
        progress: bool | Reporter | None = False,
    ) -> Listing[Hypothesis] | list[Listing[Hypothesis]]:
        """The most likely completions of a prompt, or translations of a text, best first; for several prompts a list of
        them. Without ``num_beams`` and ``length_penalty``, a translator uses those of its recipe, others 5 and 1. With
        groups, the beam is split into them, and a token pays ``diversity_penalty`` for each earlier group that has it.
        ``to`` is the language to translate into, for a translator among many.

        >>> best, second = letters.beam_search("ab", num_return_sequences=2, max_new_tokens=3)
        >>> best.score >= second.score
        True
        """
        listed, generator = as_list(prompts), need(self.run.task, Generates).generator(self.network).into(to)
        usual = generator.beam if isinstance(generator, Translator) else beam.Beam()
        width = max(usual.width, num_return_sequences) if num_beams is None else num_beams
        penalty = usual.length_penalty if length_penalty is None else length_penalty
        how = beam.Beam(width, num_return_sequences, penalty, groups=num_beam_groups, diversity=diversity_penalty)
        if isinstance(generator, Translator):
            with reporter(progress).reading() as show:
                found = generator.translate(listed, how, show)
        else:
            found = [generator.search([prompt], max_new_tokens, how)[0] for prompt in listed]
        results = [
            Listing(
                Hypothesis(generator.tokenizer.decode(each.tokens), each.score, each.log_probability, each.finished)
                for each in group
            )
            for group in found
        ]
        return results[0] if isinstance(prompts, str) else results

    def doubts(self, texts: Sequence[str]) -> list[str]:
        """Why the answer to some of these texts may be poor: a text to translate is empty, too long, or unlike the
        training data; a prompt ends with a space, which the tokenizer has in front of the next word.

        >>> numbers.doubts(["de three hundred five", "hello"])[0][:26]
        'text 2: begins with none o'
        """
        task = need(self.run.task, Generates)
        return [f"text {number}: {why}" for number, text in enumerate(texts, start=1) if (why := task.warning(text))]

    # --- questions

    def ask(
        self,
        question: str,
        *,
        shots: str | Path | Sequence[Shot | Mapping[str, str]] = (),
        think: bool = False,
        samples: int = 1,
        pattern: str | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        temperature: float = 0.7,
        seed: int = SEED,
    ) -> Replies:
        """The answer to a question: few-shot, with a chain of thought (``think``), and by a majority vote over several
        samples. ``shots`` are examples with question, answer and, if they have any, steps; ``pattern`` is a regular
        expression that finds the answer in what was generated.

        >>> replies = letters.ask("a", samples=3, pattern="b+", max_new_tokens=3)
        >>> len(replies.texts)
        3
        """
        at_least(1, samples=samples)
        examples = Path(shots) if isinstance(shots, str | Path) else [shot_of(each) for each in shots]
        return ask(self.run, question, examples, think, samples, pattern, max_new_tokens, temperature, seed)


def shot_of(example: Shot | Mapping[str, str]) -> Shot:
    if not isinstance(example, Mapping):
        return example
    try:
        return Shot(**example)
    except TypeError:
        raise Problem(f"{dict(example)!r:.80} is not an example: it needs a question and an answer") from None


def reward_function(reward: Any) -> Callable[[Sequence[str], Sequence[str]], list[float]]:
    """A reward that is named, or a function whose results are checked."""
    if isinstance(own := getattr(reward, "run", reward), Run):  # a Model, or a Run
        return reward_of(str(own.folder), "reward", Run)
    if isinstance(reward, str | Path):
        imports.trust_own("data.reward", str(reward))
        return reward_of(str(reward), "reward", Run)
    return lambda prompts, answers: checked(reward, getattr(reward, "__name__", "function"), prompts, answers)
