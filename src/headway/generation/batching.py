"""Continuous batching: sequences that arrive at any time are written together, a token each per step.

    batcher = Batcher(generator, rows=32)
    batcher.add(Request("first", "Call me", Sampling(0)))
    while batcher.busy:
        for piece in batcher.step():
            ...                                # piece.key, piece.text, piece.finish

A sequence that ends leaves its row, and the next one joins (Yu et al. 2022, Orca,
https://www.usenix.org/conference/osdi22/presentation/yu). Rows keep their keys when they leave: a prompt that begins
like a text whose keys are there, of a row that writes or of one that has ended, copies them and reads only the rest.

Each sequence is what it would be alone: its random numbers are its own, and every step has at least ``LEAST`` tokens
and a prompt at least ``LEAST_PROMPT``, because for fewer of them kernels add up in another order.
"""

from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.generation.generator import Generator
from headway.generation.sampling import Sampling
from headway.generation.writing import Piece, Request, TokenLogprob, Writing
from headway.models.fast_decoder import batching_decoder
from headway.nn.attention import SelfAttention
from headway.nn.row_table import RowTable, rounded_up

LEAST, LEAST_PROMPT = 4, 20
PROMPT_TOKENS = 512  # that are read before those who write get their next token
WORTH_COPYING = 8  # tokens of a common beginning


class Batcher:
    def __init__(self, generator: Generator, rows: int = 32):
        self.generator, self.rows = generator, max(rows, LEAST)
        self.most = rows  # sequences at a time
        self.decoder = batching_decoder(generator.model, generator.int8)
        self.window = generator.window
        self.table = RowTable(self.rows, self.window, generator.device)
        self.waiting: deque[Writing] = deque()
        self.writing: list[Writing] = []  # number i has row i of the table
        # Of each row: the tokens whose keys it has, and when it was last used.
        self.read = np.full((self.rows, self.window or 0), -1, dtype=np.int64)
        self.used = [0] * self.rows
        self.time = 0
        self.shared_tokens = 0  # that were not read again, because another row had read them

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.writing)

    def add(self, request: Request) -> Writing:
        """Raises what is wrong with the prompt."""
        writing = Writing(request, self.generator)
        self.waiting.append(writing)
        return writing

    @torch.inference_mode()
    def cancel(self, key: Any) -> None:
        self.waiting = deque(each for each in self.waiting if each.request.key != key)
        for row, each in reversed(list(enumerate(self.writing))):
            if each.request.key == key:
                self.leave(row)

    @torch.inference_mode()
    def step(self) -> list[Piece]:
        """The next token of every sequence; of new ones the first."""
        self.time += 1
        pieces: list[Piece] = []
        budget = PROMPT_TOKENS
        while self.waiting and len(self.writing) < self.most and budget > 0:
            first = len(self.writing)
            budget -= self.join()
            pieces += self.read_prompts(first, len(self.writing))
        if self.writing:
            pieces += self.read_again()
            pieces += self.write()
        return pieces

    # --- joining

    def join(self) -> int:
        """Give rows to the next sequences; returns how many tokens are read for them."""
        longest = count = 0
        group: list[Writing] = []
        while self.waiting and len(self.writing) < self.most:
            new = self.waiting[0]
            source, shared = self.best_source(new.context)
            if any(common(each.context, new.context) > shared + WORTH_COPYING for each in group):
                break  # once that prompt has been read
            needed = self.prompt_time(len(new.context) - shared)
            if group and max(longest, needed) * (count + 1) > PROMPT_TOKENS:
                break
            longest, count = max(longest, needed), count + 1
            self.take_row(len(self.writing), source, shared)
            self.writing.append(self.waiting.popleft())
            group.append(new)
        return longest * count

    def best_source(self, context: list[int]) -> tuple[int, int]:
        """The row that has read the longest beginning of these tokens, and its length. The last token is read anyway:
        what follows it is the question."""
        size = len(context) - 1
        if not self.shares_prefixes or size < WORTH_COPYING:
            return 0, 0
        differs = self.read[:, :size] != np.array(context[:size])
        lengths = np.where(differs.any(axis=1), differs.argmax(axis=1), size)
        best = int(lengths.argmax())
        return (best, int(lengths[best])) if lengths[best] >= WORTH_COPYING else (0, 0)

    @property
    def shares_prefixes(self) -> bool:
        """A hidden state is that of one place alone."""
        return self.decoder.shares_prefixes and not self.decoder.is_recurrent and not self.table.carried

    def take_row(self, row: int, source: int, shared: int) -> None:
        """Make a free row one that has read the first ``shared`` tokens of ``source``."""
        if shared and source >= row:
            self.swap(row, source)
        else:
            oldest = min(range(row, self.rows), key=self.used.__getitem__)
            if oldest != row:  # what the row has read may be wanted again
                self.copy(row, oldest, self.table.lengths[row])
            if shared:
                self.copy(source, row, shared)
        self.table.forget(row, shared)
        self.read[row, shared:] = -1
        self.used[row] = self.time
        self.shared_tokens += shared

    def copy(self, source: int, target: int, length: int) -> None:
        self.table.copy(source, target, length)
        self.read[target] = -1
        self.read[target, :length] = self.read[source, :length]
        self.used[target] = self.used[source]

    def swap(self, one: int, other: int) -> None:
        self.table.swap(one, other)
        self.read[[one, other]] = self.read[[other, one]]
        self.used[one], self.used[other] = self.used[other], self.used[one]

    def leave(self, row: int) -> None:
        """The last row takes its place."""
        last = len(self.writing) - 1
        self.used[row] = self.time
        self.swap(row, last)
        self.writing[row] = self.writing[last]
        self.writing.pop()

    # --- steps

    def read_prompts(self, first: int, last: int) -> list[Piece]:
        """Read what the contexts of these rows have more than their keys; write a token to each."""
        news = [self.writing[row].context[self.table.lengths[row] :] for row in range(first, last)]
        time = self.prompt_time(max(map(len, news)))
        tokens = torch.tensor([[*new, *[0] * (time - len(new))] for new in news], device=self.generator.device)
        counts = torch.tensor([len(new) for new in news], device=self.generator.device)
        for row, new in enumerate(news, start=first):
            self.remember(row, new)
        return self.choose(self.logits_after(tokens, first, last, counts), first)

    def write(self) -> list[Piece]:
        """A token to each row, after the last one that was written to it."""
        count = len(self.writing)
        last = max(count, LEAST)  # rows beyond those that write get a token that does not count
        news = [each.tokens[-1] for each in self.writing]
        tokens = torch.tensor([*news, *[0] * (last - count)], device=self.generator.device)[:, None]
        counts = (torch.arange(last, device=self.generator.device) < count).long()
        for row, token in enumerate(news):
            self.remember(row, [token])
        return self.choose(self.logits_after(tokens, 0, last, counts)[:count], 0)

    def remember(self, row: int, tokens: list[int]) -> None:
        """That a row is about to read these tokens."""
        if self.window is not None:
            length = self.table.lengths[row]
            self.read[row, length : length + len(tokens)] = tokens

    def prompt_time(self, tokens: int) -> int:
        """How many tokens a step has that reads so many of a prompt."""
        return min(max(rounded_up(tokens, LEAST), LEAST_PROMPT), self.window or tokens)

    def read_again(self) -> list[Piece]:
        """A row that is full continues with the last half of its window."""
        pieces: list[Piece] = []
        if self.window is None:
            return pieces
        for row in reversed(range(len(self.writing))):
            if self.table.lengths[row] == self.window:
                self.writing[row].context = self.writing[row].tokens[-max(self.window // 2, 1) :]
                self.table.forget(row)
                self.read[row] = -1
                pieces += self.read_prompts(row, row + 1)
        return pieces

    def logits_after(self, tokens: Tensor, first: int, last: int, counts: Tensor) -> Tensor:
        """(B, V): ``Decoder.step`` for rows of the table, with a head that reads at least ``LEAST`` states."""
        time = tokens.shape[1]
        state = self.table.rows_of_step(first, last, time)
        states = self.decoder.states(tokens, self.decoder.step_context(state, time, None if time == 1 else counts))
        ends = states[torch.arange(last - first, device=tokens.device), (counts - 1).clamp(min=0)]
        missing = max(LEAST - len(ends), 0)
        logits = self.decoder.head(torch.cat([ends, ends[:1].expand(missing, -1)]))
        state.advance(time, counts)
        return logits[: last - first].float()

    def choose(self, logits: Tensor, first: int) -> list[Piece]:
        """A token for each row from ``first`` on, by its own settings and random numbers."""
        rows = self.writing[first : first + len(logits)]
        alike: dict[Sampling, list[int]] = {}
        for index, each in enumerate(rows):
            alike.setdefault(each.request.sampling, []).append(index)
        chosen = [0] * len(rows)
        for sampling, indices in alike.items():
            draws = torch.stack([rows[index].draws[rows[index].written] for index in indices]).to(logits.device)
            seen = torch.tensor(padded([rows[index].tokens for index in indices], sampling), device=logits.device)
            tokens = sampling.choose(logits[indices], seen, draws)
            for index, token in zip(indices, tokens.tolist(), strict=True):
                chosen[index] = token
        pieces = []
        for index, (each, token) in enumerate(zip(rows, chosen, strict=True)):
            wanted = each.request.top_logprobs
            logprob = None if wanted is None else self.logprob(logits[index], token, wanted)
            pieces.append(each.push(token, self.generator.eos, logprob))
        for index in reversed(range(len(rows))):
            if pieces[index].finish:
                self.leave(first + index)
        return pieces

    def logprob(self, logits: Tensor, token: int, top: int) -> TokenLogprob:
        logprobs = logits.log_softmax(dim=-1)
        best = logprobs.topk(min(top, len(logprobs)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        named = [(self.generator.name_of(number), value) for number, value in pairs]
        return TokenLogprob(self.generator.name_of(token), float(logprobs[token]), named)


def common(one: list[int], other: list[int]) -> int:
    """The length of the longest beginning that both have."""
    size = min(len(one), len(other))
    differs = np.flatnonzero(np.array(one[:size]) != np.array(other[:size]))
    return int(differs[0]) if len(differs) else size


def padded(texts: list[list[int]], sampling: Sampling) -> list[list[int]]:
    """What the repetition penalty looks at: shorter texts are padded with a token of their own."""
    if sampling.repetition_penalty == 1:
        return [[] for _ in texts]
    longest = max(map(len, texts))
    return [text[:1] * (longest - len(text)) + text for text in texts]


def rows_within(budget: int, generator: Generator, most: int) -> int:
    """How many rows have room for their keys and values in so many bytes; at least one."""
    parts = [part for part in generator.model.modules() if isinstance(part, SelfAttention)]
    numbers = sum(2 * part.kv_heads * part.head_width for part in parts)
    size = numbers * (generator.window or 0) * next(generator.model.parameters()).element_size()
    return min(most, max(budget // size, 1)) if size else most
