"""Learning in context: examples with their labels stand before a text, and a model that has learned from texts alone
says which label is the likeliest to follow (Brown et al. 2020, https://arxiv.org/abs/2005.14165).

A model that writes is asked how likely it would go on with each label; one that fills in, with what likelihood each
label stands where it is hidden. From both is subtracted what the same examples make of no text at all, so that no label
is preferred for its own sake (Zhao et al. 2021, https://arxiv.org/abs/2102.09690).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config.errors import Problem
from headway.data.files import Progress, silent
from headway.data.sequences import LabelledSequences
from headway.nn.packing import Packing
from headway.runs.run import Run
from headway.tasks.abilities import ReadsPrompts, need

BEFORE, BEHIND = "\nlabel:", "\n\n"  # what stands before a label, and behind it
AT_ONCE = 1 << 14  # tokens that are read at once
LEAST = 4  # tokens of a text that there must be room for


@dataclass(frozen=True)
class Shots:
    """The examples of a prompt."""

    texts: list[list[int]]
    labels: list[int]

    @classmethod
    def of(cls, data: LabelledSequences, rows: Sequence[int]) -> "Shots":
        return cls([text_of(data, row) for row in rows], data.labels[list(rows)].tolist())


class Prompted:
    """A pre-trained run that is asked for labels."""

    def __init__(self, run: Run, words: Sequence[str]):
        reader = need(run.task, ReadsPrompts).prompt_reader()
        self.mask, self.window, self.sees_prompt = reader.mask, reader.window, reader.sees_prompt
        self.model: Any = run.model()
        self.device = next(self.model.parameters()).device
        self.before, self.behind = (each.tolist() for each in reader.tokenizer.encode([BEFORE, BEHIND]))
        self.names = [each.tolist() for each in reader.tokenizer.encode([f" {word}" for word in words])]
        if not all(self.names) or len({tuple(name) for name in self.names}) < len(words):
            raise Problem(f"the labels {', '.join(words)} are not different words to this tokenizer: give others")

    def accuracy(
        self, data: LabelledSequences, rows: Sequence[int], shots: Shots, progress: Progress = silent
    ) -> float:
        """The share of these texts whose label is the likeliest."""
        room = self.room(len(shots.texts))
        nothing = self.likelihoods([[]], shots, room)[0]
        right, size = 0, max(AT_ONCE // (self.window * len(self.names)), 1)
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            found = self.likelihoods([text_of(data, row) for row in some], shots, room) - nothing
            right += int((found.argmax(dim=1).cpu().numpy() == data.labels[list(some)]).sum())
            progress(f"{len(shots.texts)} examples in the prompt", min((first + size) / len(rows), 1.0))
        return right / len(rows)

    @property
    def around(self) -> int:
        """Tokens of an example beside its text."""
        return len(self.before) + max(map(len, self.names)) + len(self.behind)

    @property
    def most(self) -> int:
        """How many examples fit into a prompt, with a few tokens of each text."""
        return self.window // (self.around + LEAST) - 1

    def room(self, shots: int) -> int:
        """How many tokens of each text fit in."""
        return self.window // (shots + 1) - self.around

    @torch.inference_mode()
    def likelihoods(self, texts: Sequence[list[int]], shots: Shots, room: int) -> Tensor:
        """(N, labels): the logarithm of how likely each label is behind each text."""
        examples = [self.written(text, room) for text in shots.texts]
        shown = [
            token
            for example, label in zip(examples, shots.labels, strict=True)
            for token in (*example, *self.names[label], *self.behind)
        ]
        rows: list[list[int]] = []
        places: list[int] = []
        targets: list[int] = []
        prompts: list[int] = []
        end = 0
        for text in texts:
            prompt = shown + self.written(text, room)
            for name in self.names:
                first = end + len(prompt)
                rows.append(prompt + (name if self.mask is None else [self.mask] * len(name)))
                prompts.append(len(prompt))
                end += len(rows[-1])
                targets += name
                # A model that writes says at each token what comes next.
                places += range(first - (self.mask is None), first - (self.mask is None) + len(name))
        found = self.logits(rows, prompts, torch.tensor(places, device=self.device)).float().log_softmax(dim=-1)
        each = found[torch.arange(len(targets)), torch.tensor(targets)]
        sizes = np.tile([len(name) for name in self.names], len(texts)).tolist()
        return torch.stack([part.sum() for part in each.split(sizes)]).view(len(texts), len(self.names))

    def written(self, text: list[int], room: int) -> list[int]:
        """A text, cut, up to where its label begins."""
        return [*text[:room], *self.before]

    def logits(self, rows: list[list[int]], prompts: list[int], places: Tensor) -> Tensor:
        """Of what stands at these places; so many tokens of each row are its prompt."""
        tokens = torch.tensor([[token for row in rows for token in row]], device=self.device)
        packing = Packing.of(torch.tensor([len(row) for row in rows], device=self.device))
        if self.sees_prompt:
            packing = replace(packing, prefixes=torch.tensor(prompts, device=self.device))
        if self.mask is None:
            return self.model(tokens, packing=packing, logit_positions=places)
        return self.model(tokens, packing, places)


def text_of(data: LabelledSequences, row: int) -> list[int]:
    start = int(data.starts[row])
    return data.tokens[start : start + int(data.sizes[row])].tolist()
