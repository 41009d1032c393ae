"""Prompting: classification with examples in the prompt, and questions with a vote over several answers.

In-context classification: labelled examples precede a text, and the model's most likely continuation is the label
(Brown et al. 2020, https://arxiv.org/abs/2005.14165). A causal model scores each label as a continuation, a masked one
in place of mask tokens. The score of the same prompt with an empty text is subtracted, so that no label is favoured a
priori (Zhao et al. 2021, https://arxiv.org/abs/2102.09690).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.examples import as_text
from headway.data.files import Progress, silent
from headway.data.readers import Format, records
from headway.data.sequences import LabelledSequences
from headway.generation import Sampling
from headway.generation.prompts import Shot, answer_in, majority
from headway.nn.packing import Packing
from headway.runs.run import Run
from headway.tasks.abilities import Generates, ReadsPrompts, need

BEFORE, BEHIND = "\nlabel:", "\n\n"  # around each label
BATCH_TOKENS = 1 << 14
LEAST = 4  # tokens of a text that must fit


@dataclass(frozen=True)
class Shots:
    """The examples of a prompt."""

    texts: list[list[int]]
    labels: list[int]

    @classmethod
    def of(cls, data: LabelledSequences, rows: Sequence[int]) -> "Shots":
        return cls([text_of(data, row) for row in rows], data.labels[list(rows)].tolist())


class PromptedClassifier:
    """A pre-trained run that classifies by prompts."""

    def __init__(self, run: Run, words: Sequence[str]):
        """``words`` are the labels as the prompts spell them."""
        reader = need(run.task, ReadsPrompts).prompt_reader()
        self.mask, self.window, self.sees_prompt = reader.mask, reader.window, reader.sees_prompt
        self.model: Any = run.network
        self.device = next(self.model.parameters()).device
        self.before, self.behind = (each.tolist() for each in reader.tokenizer.encode([BEFORE, BEHIND]))
        self.names = [each.tolist() for each in reader.tokenizer.encode([f" {word}" for word in words])]
        if not all(self.names) or len({tuple(name) for name in self.names}) < len(words):
            raise Problem(f"the labels {', '.join(words)} are not different words to this tokenizer: give others")

    def accuracy(
        self, data: LabelledSequences, rows: Sequence[int], shots: Shots, progress: Progress = silent
    ) -> float:
        room = self.room(len(shots.texts))
        prior = self.likelihoods([[]], shots, room)[0]
        right, size = 0, max(BATCH_TOKENS // (self.window * len(self.names)), 1)
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            scores = self.likelihoods([text_of(data, row) for row in batch], shots, room) - prior
            right += int((scores.argmax(dim=1).cpu().numpy() == data.labels[list(batch)]).sum())
            progress(f"{len(shots.texts)} examples in the prompt", min((first + size) / len(rows), 1.0))
        return right / len(rows)

    @property
    def overhead(self) -> int:
        """Tokens of an example besides its text."""
        return len(self.before) + max(map(len, self.names)) + len(self.behind)

    @property
    def most_shots(self) -> int:
        """How many examples fit into a prompt, with a few tokens of each text."""
        return self.window // (self.overhead + LEAST) - 1

    def room(self, shots: int) -> int:
        """How many tokens of each text fit."""
        return self.window // (shots + 1) - self.overhead

    @torch.inference_mode()
    def likelihoods(self, texts: Sequence[list[int]], shots: Shots, room: int) -> Tensor:
        """(N, labels): the log-likelihood of each label after each text."""
        examples = [self.up_to_label(text, room) for text in shots.texts]
        shown = [
            token
            for example, label in zip(examples, shots.labels, strict=True)
            for token in (*example, *self.names[label], *self.behind)
        ]
        rows: list[list[int]] = []
        positions: list[int] = []
        targets: list[int] = []
        prompts: list[int] = []
        end = 0
        for text in texts:
            prompt = shown + self.up_to_label(text, room)
            for name in self.names:
                first = end + len(prompt)
                rows.append(prompt + (name if self.mask is None else [self.mask] * len(name)))
                prompts.append(len(prompt))
                end += len(rows[-1])
                targets += name
                # A causal model's logits at a position are for the next token.
                positions += range(first - (self.mask is None), first - (self.mask is None) + len(name))
        logits = self.logits(rows, prompts, torch.tensor(positions, device=self.device))
        log_probs = logits.float().log_softmax(dim=-1)[torch.arange(len(targets)), torch.tensor(targets)]
        sizes = np.tile([len(name) for name in self.names], len(texts)).tolist()
        return torch.stack([part.sum() for part in log_probs.split(sizes)]).view(len(texts), len(self.names))

    def up_to_label(self, text: list[int], room: int) -> list[int]:
        return [*text[:room], *self.before]

    def logits(self, rows: list[list[int]], prompts: list[int], positions: Tensor) -> Tensor:
        """Logits at these positions of the packed rows; ``prompts`` are the prompt lengths."""
        tokens = torch.tensor([[token for row in rows for token in row]], device=self.device)
        packing = Packing.of(torch.tensor([len(row) for row in rows], device=self.device))
        if self.sees_prompt:
            packing = replace(packing, prefixes=torch.tensor(prompts, device=self.device))
        if self.mask is None:
            return self.model(tokens, packing=packing, logit_positions=positions)
        return self.model(tokens, packing, positions)


def text_of(data: LabelledSequences, row: int) -> list[int]:
    start = int(data.starts[row])
    return data.tokens[start : start + int(data.sizes[row])].tolist()


@dataclass(frozen=True)
class Replies:
    prompt: str
    answer: str | None  # the majority vote
    share: float  # of the texts that gave this answer
    texts: list[dict[str, str | None]]  # each with its answer


def ask(
    run: Run,
    question: str,
    shots: Path | Sequence[Shot] = (),
    think: bool = False,
    samples: int = 1,
    pattern: str | None = None,
    max_new_tokens: int = 200,
    temperature: float = 0.7,
    seed: int = 1,
) -> Replies:
    """Generate answers to a question, and let them vote; a single sample is greedy."""
    task = need(run.task, Generates)
    generator = task.generator(run.network)
    prompt = task.question(question, read_shots(shots) if isinstance(shots, Path) else shots, think)
    how = Sampling(0.0 if samples == 1 else temperature)
    texts = generator.write([prompt] * samples, max_new_tokens, how, range(seed, seed + samples))
    answers = [answer_in(text, pattern or task.answer_pattern) for text in texts]
    vote = majority(answers)
    pairs = [{"text": text, "answer": answer} for text, answer in zip(texts, answers, strict=True)]
    return Replies(prompt, vote.answer, vote.share, pairs)


def read_shots(path: Path) -> list[Shot]:
    """Few-shot examples from a file with the columns question, answer and, optionally, steps."""
    shots = []
    for record in records(path, Format()):
        if record.problem or not {"question", "answer"} <= record.fields.keys():
            raise Problem(f"{path}, line {record.line}: {record.problem or 'question or answer is missing'}")
        shots.append(Shot(*(as_text(record.fields.get(name)) for name in Shot._fields)))
    return shots
