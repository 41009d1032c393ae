"""Decoding state of rows that join and leave at any time, as a server needs it.

A ``State`` belongs to rows that begin together. In a ``RowTable`` each row has its own length: slot i of a row holds
its position i, in one buffer (R, H, slots, K) for each attention module that is allocated once. A step reads and writes
the rows from ``first`` to ``last``:

    table = RowTable(rows=32, room=256)
    state = table.rows_of_step(0, 2, time=5)    # which parts take for a State
    ...
    state.advance(5, new)                       # the first new[b] of these 5 tokens of row b are real

A row gives the same numbers whoever its neighbours are, to the bit where kernels add up in an order that depends on
shapes alone: steps read a multiple of ``SLOT_MULTIPLE`` slots, so that the last ones of a row are not added up apart.
"""

from typing import Self

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.state import Pair, State, Tensors

SLOT_MULTIPLE = 64


def rounded_up(number: int, multiple: int) -> int:
    return number + -number % multiple


class RowTable:
    """``room`` is the most tokens of a row; None: there is no limit, and so no attention."""

    def __init__(self, rows: int, room: int | None, device: torch.device | None = None):
        self.rows, self.room, self.device = rows, room, device
        # The last one is for padding, and nobody looks at it.
        self.slots = 0 if room is None else rounded_up(room + 1, SLOT_MULTIPLE)
        self.lengths = [0] * rows  # tokens that each row has read
        self.buffers: dict[nn.Module, Pair] = {}  # keys and values, (R, H, slots, K)
        self.carried: dict[nn.Module, Tensors] = {}  # hidden states and recent inputs, (R, ...)

    def rows_of_step(self, first: int, last: int, time: int) -> "RowsOfStep":
        return RowsOfStep(self, first, last, time)

    def forget(self, row: int, keep: int = 0) -> None:
        """All but the first ``keep`` tokens of a row."""
        self.lengths[row] = keep
        for tensors in self.carried.values():
            for each in tensors:
                each[row] = 0

    def copy(self, source: int, target: int, length: int) -> None:
        """The first tokens of a row to another one."""
        for each in (each for pair in self.buffers.values() for each in pair):
            each[target, :, :length] = each[source, :, :length]
        self.lengths[target] = length

    def swap(self, one: int, other: int) -> None:
        if one == other:
            return
        end = max(self.lengths[one], self.lengths[other])
        rows, exchanged = [one, other], [other, one]
        for each in (each for pair in self.buffers.values() for each in pair):
            each[rows, :, :end] = each[exchanged, :, :end]
        for each in (each for tensors in self.carried.values() for each in tensors):
            each[rows] = each[exchanged]
        self.lengths[one], self.lengths[other] = self.lengths[other], self.lengths[one]


class RowsOfStep(State):
    """The rows of a table during one step of ``time`` tokens."""

    def __init__(self, table: RowTable, first: int, last: int, time: int):
        super().__init__(last - first, table.room or 0, table.device)
        lengths = table.lengths[first:last]
        self.table, self.first, self.last, self.time = table, first, last, time
        self.lengths = torch.tensor(lengths, device=table.device)
        self.longest = max(lengths)
        self.stop = min(rounded_up(self.longest + time, SLOT_MULTIPLE), table.slots)
        self.own = self.lengths[:, None] + torch.arange(time, device=table.device)  # (B, T) positions
        self.carried = {part: tuple(each[first:last] for each in own) for part, own in table.carried.items()}

    def positions(self, time: int) -> Tensor:
        return self.own.clamp(max=self.room - 1) if self.room else self.own  # padding may lie beyond the end

    def query_key_positions(self, time: int) -> Pair:
        return self.positions(time), torch.arange(self.stop, device=self.device)

    def end(self, time: int) -> int:
        return self.stop

    def allocate(self, time: int) -> Tensor | None:
        """The attention mask (B, 1, T, S)."""
        if not self.room:
            return None
        return (torch.arange(self.stop, device=self.device) <= self.own[:, :, None])[:, None]

    def extend(self, part: nn.Module, key: Tensor, value: Tensor) -> Pair:
        if not self.room:
            raise Problem("a model without a window cannot have attention in batches that change")
        if part not in self.table.buffers:
            shape = self.table.rows, key.shape[1], self.table.slots, key.shape[3]
            self.table.buffers[part] = key.new_zeros(shape), value.new_zeros(shape)
        rows = torch.arange(len(key), device=self.device)[:, None]
        slots = self.own.clamp(max=self.table.slots - 1)
        keys, values = (each[self.first : self.last] for each in self.table.buffers[part])
        keys[rows, :, slots], values[rows, :, slots] = key.transpose(1, 2), value.transpose(1, 2)
        return keys[:, :, : self.stop], values[:, :, : self.stop]

    def advance(self, time: int, new: Tensor | None = None) -> Self:
        counts = [time] * (self.last - self.first) if new is None else new.tolist()
        for row, count in enumerate(counts, start=self.first):
            self.table.lengths[row] += count
        for part, tensors in self.carried.items():
            if part not in self.table.carried:
                self.table.carried[part] = tuple(each.new_zeros(self.table.rows, *each.shape[1:]) for each in tensors)
            for all_rows, own in zip(self.table.carried[part], tensors, strict=True):
                all_rows[self.first : self.last] = own
        return self
