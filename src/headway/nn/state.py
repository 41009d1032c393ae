"""What decoding remembers from one call of a model to the next.

    state = State(rows=2, room=100)
    scores, state = decoder.step(prompts, state, lengths)    # a prompt for each row
    scores, state = decoder.step(tokens, state)              # then a token for each, as long as there is room

Weights live in modules, this does not. Parts keep here, under themselves, what they will need: attention its keys and
values, in buffers that are made once; recurrent networks what they carry along; parts that read the tokens before a
token, these tokens. Each row has had ``lengths`` tokens; behind them its buffers hold whatever came there by the way,
and nobody may look at it. A call writes into the buffers, so that the state before it is used up.
"""

import torch
from torch import Tensor, nn

from headway.errors import Problem

Tensors = tuple[Tensor, ...]


class State:
    def __init__(self, rows: int, room: int, device: torch.device | None = None):
        self.room = room  # for how many tokens of a row
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.longest = 0  # of the lengths; known here without asking the device
        self.even = True  # whether all lengths are the same
        self.places: Tensor | None = None  # of the next tokens, once somebody asked
        self.fixed = False  # whether every call is of the same shapes: all keys that there is room for, and a mask
        self.buffers: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # keys and values, (B, H, room, K)
        self.carried: dict[nn.Module, Tensors] = {}  # (B, ...) each

    def positions(self, time: int) -> Tensor:
        """Of the next tokens: (T,) if they are the same for all rows, else (B, T)."""
        if self.even and not self.fixed:
            return torch.arange(self.longest, self.longest + time, device=self.lengths.device)
        if self.places is None:
            self.places = self.lengths[:, None] + torch.arange(time, device=self.lengths.device)
        return self.places

    def keys(self, time: int) -> Tensor:
        """The positions that there are keys for, the next tokens' among them."""
        return torch.arange(self.room if self.fixed else self.longest + time, device=self.lengths.device)

    def extend(self, part: nn.Module, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the next keys and values (B, H, T, K) behind those that a part has; give all of them."""
        end = self.longest + key.shape[2]
        if end > self.room:
            raise Problem(f"there is room for {self.room} tokens in this state, not for {end}")
        end = self.room if self.fixed else end
        if part not in self.buffers:
            count, heads, _, width = key.shape
            keys, values = (new.new_zeros(count, heads, self.room, width) for new in (key, value))
            self.buffers[part] = keys, values
        for buffer, new in zip(self.buffers[part], (key, value), strict=True):
            if self.even and not self.fixed:
                buffer[:, :, self.longest : end] = new
            else:
                places = self.positions(new.shape[2])[:, None, :, None].expand_as(new)
                buffer.scatter_(2, places, new)
        keys, values = self.buffers[part]
        return keys[:, :, :end], values[:, :, :end]

    def with_recent(self, part: nn.Module, x: Tensor, count: int, new: Tensor | None) -> Tensor:
        """(B, count + T, ...): the last ``count`` of what a part was given before, zeros at first, and x behind it.

        ``new`` (B,) says how many of x's tokens are real, if not all are.
        """
        (before,) = self.carried.get(part, (x.new_zeros(len(x), count, *x.shape[2:]),))
        both = torch.cat([before, x], dim=1)
        ends = torch.full_like(self.lengths, x.shape[1]) if new is None else new
        places = ends[:, None] + torch.arange(count, device=x.device)
        self.carried[part] = (both[torch.arange(len(x), device=x.device)[:, None], places],)
        return both

    def advance(self, time: int, new: Tensor | None = None) -> "State":
        """After a call with (B, T) tokens, of which the first ``new`` (B,) of each row are real."""
        self.lengths += time if new is None else new
        self.places = None
        self.longest += time
        self.even = self.even and new is None
        return self

    def select(self, rows: Tensor) -> "State":
        """These rows, in this order; a row may come several times, or not at all."""
        chosen = State(len(rows), self.room, self.lengths.device)
        chosen.lengths, chosen.longest, chosen.even = self.lengths[rows], self.longest, self.even
        chosen.carried = {part: tuple(each[rows] for each in tensors) for part, tensors in self.carried.items()}
        chosen.buffers = {
            part: (self.moved(keys, rows), self.moved(values, rows)) for part, (keys, values) in self.buffers.items()
        }
        return chosen

    def moved(self, buffer: Tensor, rows: Tensor) -> Tensor:
        """In place where the number of rows stays: only what is in use is copied."""
        used = buffer[rows, :, : self.longest]
        target = buffer if len(rows) == len(buffer) else buffer.new_zeros(len(rows), *buffer.shape[1:])
        target[:, :, : self.longest] = used
        return target

    def detached(self) -> "State":
        """Cut off from the graph: gradients reach no further back than here."""
        self.carried = {part: tuple(each.detach() for each in tensors) for part, tensors in self.carried.items()}
        return self
