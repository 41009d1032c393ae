"""Decoding state: what a model remembers from one step to the next.

    state = State(rows=2, room=100)
    logits, state = decoder.step(prompts, state, lengths)    # a prompt for each row
    logits, state = decoder.step(tokens, state)              # then one token per row and step, as long as there is room

Weights live in modules, decoding state does not. Each module stores its state here, with itself as the key: attention
its keys and values, in preallocated buffers; cross attention those of the memory; recurrent networks their hidden
state; parts that read earlier tokens, these tokens. A step writes into the buffers, so that the state before the step
can no longer be used.

In beam search, each source has ``width`` rows. They share one buffer per source, and write their keys and values to its
slots. When a row continues from another row, no keys are moved; only the mask changes. So reordering is almost free,
and the keys of a source are read once for all of its rows.

    B rows = N sources x W rows of each source, next to each other
"""

from collections.abc import Callable, Hashable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import Problem

Tensors = tuple[Tensor, ...]
Pair = tuple[Tensor, Tensor]
INITIAL_SLOTS = 64  # of a buffer


class State:
    def __init__(self, rows: int, room: int, device: torch.device | None = None):
        self.sources, self.width = rows, 1
        self.room = room  # maximum tokens per row
        self.slots = room  # capacity for keys and values, per source
        self.used = 0  # slots in use
        self.compacted = 0  # slots in use after the last compaction
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)  # (B,) tokens read so far
        self.longest = 0  # the maximum of lengths, known without synchronising
        self.buffers: dict[nn.Module, Pair] = {}  # keys and values, (N, H, slots, K)
        self.carried: dict[nn.Module, Tensors] = {}  # hidden states and recent inputs, (B, ...)
        # The slots that each row may see, (B, slots), and the position of each slot, (N, slots). None as long as all
        # rows have the same length and see everything: then slot i is position i.
        self.visible: Tensor | None = None
        self.slot_positions: Tensor | None = None
        self.next_slot: Tensor | None = None  # the first free slot, on the device, once shapes are static,
        self.step_slots: Tensor | None = None  # and the slots of the present step
        self.memory: Tensor | None = None  # (N, S, D), the encoder's output,
        self.memory_mask: Tensor | None = None  # (N, 1, 1, S),
        self.memory_heads: dict[nn.Module, Pair] = {}  # and its keys and values, (N, H, S, K)

    @property
    def device(self) -> torch.device:
        return self.lengths.device

    def positions(self, time: int) -> Tensor:
        """Positions of the next tokens: (T,) if all rows agree, else (B, T)."""
        if self.visible is None:
            return torch.arange(self.longest, self.longest + time, device=self.device)
        return self.lengths[:, None] + torch.arange(time, device=self.device)

    def query_key_positions(self, time: int) -> Pair:
        """Positions of the next tokens, (T,) or (N, T W), and of the keys that they attend to, (S,) or (N, S)."""
        if self.slot_positions is None:
            return self.positions(time), torch.arange(self.end(time), device=self.device)
        return self.positions(time).view(self.sources, -1), self.slot_positions[:, : self.end(time)]

    def allocate(self, time: int) -> Tensor | None:
        """Assign slots to the next tokens of each row (one token if sources have several rows). Returns the attention
        mask (N, 1, T W, S); None: plain causal attention."""
        if self.visible is None or self.slot_positions is None:
            return None
        slots = self.next_slots(time)
        self.step_slots = None if self.next_slot is None else slots
        self.slot_positions.index_copy_(1, slots, self.positions(time).view(self.sources, -1))
        if time == 1:
            own = torch.eye(self.width, dtype=torch.bool, device=self.device)
            self.visible.index_copy_(1, slots, own.repeat(self.sources, 1))
            return self.visible[:, : self.end(1)].view(self.sources, 1, self.width, -1)
        earlier = torch.ones(time, time, dtype=torch.bool, device=self.device).tril()
        before = self.visible[:, None, : self.used].expand(-1, time, -1)
        return torch.cat([before, earlier.expand(self.sources, -1, -1)], dim=2)[:, None]

    def end(self, time: int) -> int:
        """The end of the slots that a step reads."""
        return self.slots if self.next_slot is not None else self.used + time * self.width

    def next_slots(self, time: int) -> Tensor:
        first = self.used if self.next_slot is None else self.next_slot
        return first + torch.arange(time * self.width, device=self.device)

    def group_beams(self, heads: Tensor) -> Tensor:
        """(B, H, T, K) -> (N, H, T W, K)."""
        if self.width == 1:
            return heads
        return heads.view(self.sources, self.width, heads.shape[1], heads.shape[3]).transpose(1, 2)

    def ungroup_beams(self, heads: Tensor) -> Tensor:
        """(N, H, T W, K) -> (B, H, T, K)."""
        return heads if self.width == 1 else heads.transpose(1, 2).flatten(0, 1)[:, :, None]

    def extend(self, part: nn.Module, key: Tensor, value: Tensor) -> Pair:
        """Append the next keys and values (B, H, T, K) of a module; returns all of them, (N, H, slots, K)."""
        time = key.shape[2]
        if self.longest + time > self.room:
            raise Problem(f"this state has room for {self.room} tokens, not for {self.longest + time}")
        self.grow_buffers(part, key, value)
        for buffer, new in zip(self.buffers[part], (key, value), strict=True):
            if self.step_slots is None:
                buffer[:, :, self.used : self.end(time)] = self.group_beams(new)
            else:
                buffer.index_copy_(2, self.step_slots, self.group_beams(new))
        keys, values = self.buffers[part]
        return keys[:, :, : self.end(time)], values[:, :, : self.end(time)]

    def grow_buffers(self, part: nn.Module, key: Tensor, value: Tensor) -> None:
        """Buffers grow by doubling, because the final length is unknown. CUDA graphs need them at full size."""
        needed = self.end(key.shape[2])
        if part not in self.buffers:
            size = min(max(needed, INITIAL_SLOTS), self.slots)
            keys, values = (new.new_zeros(self.sources, new.shape[1], size, new.shape[3]) for new in (key, value))
            self.buffers[part] = keys, values
        elif (size := self.buffers[part][0].shape[2]) < needed:
            self.buffers[part] = pad_slots(self.buffers[part], max(needed, min(2 * size, self.slots)) - size)

    def cached_memory_heads(self, part: nn.Module, project: Callable[[], Pair]) -> Pair:
        """The keys and values that a module projects from the memory, computed once."""
        if part not in self.memory_heads:
            self.memory_heads[part] = project()
        return self.memory_heads[part]

    def with_history(self, part: nn.Module, x: Tensor, count: int, new: Tensor | None) -> Tensor:
        """(B, count + T, ...): the last ``count`` inputs of a module (zeros at the start) followed by x.

        ``new`` (B,) is the number of real tokens of x in each row; None: all are real.
        """
        (before,) = self.carried.get(part, (x.new_zeros(len(x), count, *x.shape[2:]),))
        both = torch.cat([before, x], dim=1)
        ends = torch.full_like(self.lengths, x.shape[1]) if new is None else new
        indices = ends[:, None] + torch.arange(count, device=x.device)
        self.carried[part] = (both[torch.arange(len(x), device=x.device)[:, None], indices],)
        return both

    def advance(self, time: int, new: Tensor | None = None) -> Self:
        """Update the lengths after a step with (B, T) tokens, the first ``new`` (B,) of each row real."""
        if new is not None:
            self.track_slots()
        if self.visible is not None and (time > 1 or new is not None):
            real = torch.arange(time, device=self.device) < (time if new is None else new[:, None])
            self.visible[:, self.used : self.used + time] = real
        self.lengths += time if new is None else new
        if self.next_slot is not None:
            self.next_slot += self.width
        return self.advance_counters(time)

    def advance_counters(self, time: int) -> Self:
        """The part of ``advance`` that is outside of tensors, and so outside of CUDA graphs."""
        self.longest += time
        self.used += time * self.width
        return self

    def track_slots(self) -> None:
        """From here on, keep track of which slots each row may see, and of their positions."""
        if self.visible is None:
            self.visible = torch.zeros(len(self.lengths), self.slots, dtype=torch.bool, device=self.device)
            self.visible[:, : self.used] = True
            self.slot_positions = torch.arange(self.slots, device=self.device).repeat(self.sources, 1)

    def make_static(self) -> None:
        """From here on, every step has one token per row and the same shapes, so that it can be a CUDA graph."""
        self.track_slots()
        self.next_slot = torch.tensor(self.used, device=self.device)
        self.buffers = {part: pad_slots(pair, self.slots - pair[0].shape[2]) for part, pair in self.buffers.items()}

    def shape(self) -> Hashable:
        """The shapes of all tensors; ``copy_from`` needs equal ones."""
        mask = None if self.memory_mask is None else self.memory_mask.shape
        heads = tuple(keys.shape for keys, _ in self.memory_heads.values())
        return self.sources, self.width, self.room, self.slots, heads, mask

    def copy_from(self, other: "State") -> None:
        """Copy another state of the same shape into the tensors of this one, which is static."""
        other.track_slots()
        assert self.next_slot is not None
        self.longest, self.used = other.longest, other.used
        self.next_slot.fill_(other.used)
        pairs = [(self.lengths, other.lengths), (self.visible, other.visible)]
        pairs += [(self.slot_positions, other.slot_positions), (self.memory_mask, other.memory_mask)]
        for part, (keys, values) in other.buffers.items():
            mine = [each[:, :, : self.used] for each in self.buffers[part]]
            pairs += zip(mine, (keys[:, :, : self.used], values[:, :, : self.used]), strict=True)
        for part, heads in other.memory_heads.items():
            pairs += zip(self.memory_heads[part], heads, strict=True)
        for target, source in pairs:
            if target is not None and source is not None:
                target.copy_(source)

    def bookmark(self) -> Callable[[], None]:
        """Returns a function that restores the present state in place; slots written since become invisible."""
        changing = [each for each in (self.lengths, self.next_slot, self.visible) if each is not None]
        before = [each.clone() for each in changing]
        longest, used = self.longest, self.used

        def restore() -> None:
            for each, value in zip(changing, before, strict=True):
                each.copy_(value)
            self.longest, self.used = longest, used

        return restore

    def expand_beams(self, width: int) -> Self:
        """From here on, each source has ``width`` rows."""
        if width == 1:
            return self
        self.track_slots()
        assert self.visible is not None
        assert self.slot_positions is not None
        slots = self.used + (self.room - self.longest) * width
        self.slot_positions = F.pad(self.slot_positions, (0, slots - self.slots))
        self.visible = F.pad(self.visible, (0, slots - self.slots)).repeat_interleave(width, dim=0)
        self.lengths = self.lengths.repeat_interleave(width)
        self.carried = {
            part: tuple(each.repeat_interleave(width, dim=0) for each in tensors)
            for part, tensors in self.carried.items()
        }
        self.width, self.slots = width, slots
        return self

    def reorder(self, rows: Tensor) -> Self:
        """Each row continues from the given row (B,) of the same source."""
        if self.width > 1:
            assert self.visible is not None
            self.visible.copy_(self.visible[rows])
            if self.device.type == "cpu" and self.next_slot is None and self.used > 2 * self.compacted + 32:
                self.compact()
        self.carried = {part: tuple(each[rows] for each in tensors) for part, tensors in self.carried.items()}
        return self

    def compact(self) -> None:
        """Free the slots that no row sees any more: most rows of a beam share their past."""
        assert self.visible is not None
        assert self.slot_positions is not None
        needed = self.visible[:, : self.used].view(self.sources, self.width, -1).any(dim=1)
        left = int(needed.sum(dim=1).max())
        if left < 0.7 * self.used:
            slots = needed.long().argsort(dim=1, descending=True, stable=True)[:, :left]
            for buffer in (each for pair in self.buffers.values() for each in pair):
                buffer[:, :, :left] = buffer.gather(
                    2, slots[:, None, :, None].expand(*buffer.shape[:2], -1, buffer.shape[3])
                )
            self.slot_positions[:, :left] = self.slot_positions.gather(1, slots)
            self.visible[:, :left] = self.visible.gather(1, slots.repeat_interleave(self.width, dim=0))
            self.visible[:, left:] = False
            self.used = left
        self.compacted = self.used

    def select(self, rows: Tensor) -> "State":
        """A new state with these rows, in this order; rows may be repeated or left out."""
        return self.subset(rows // self.width, rows, 1)

    def keep(self, sources: Tensor) -> "State":
        """A new state with these sources and all their rows."""
        rows = sources[:, None] * self.width + torch.arange(self.width, device=self.device)
        return self.subset(sources, rows.flatten(), self.width)

    def subset(self, sources: Tensor, rows: Tensor, width: int) -> "State":
        state = State(len(sources), self.room, self.device)
        state.width, state.slots, state.used, state.longest = width, self.slots, self.used, self.longest
        state.compacted = self.compacted
        state.lengths = self.lengths[rows]
        state.buffers = {
            part: (keys[sources, :, : self.used], values[sources, :, : self.used])
            for part, (keys, values) in self.buffers.items()
        }
        state.memory_heads = {
            part: (keys[sources], values[sources]) for part, (keys, values) in self.memory_heads.items()
        }
        state.carried = {part: tuple(each[rows] for each in tensors) for part, tensors in self.carried.items()}
        state.visible = None if self.visible is None else self.visible[rows]
        state.slot_positions = None if self.slot_positions is None else self.slot_positions[sources]
        state.memory = None if self.memory is None else self.memory[sources]
        state.memory_mask = None if self.memory_mask is None else self.memory_mask[sources]
        return state

    def detached(self) -> Self:
        """Detached from the graph: gradients stop here."""
        self.carried = {part: tuple(each.detach() for each in tensors) for part, tensors in self.carried.items()}
        return self


def pad_slots(pair: Pair, more: int) -> Pair:
    """Keys and values with ``more`` additional slots."""
    keys, values = (F.pad(each, (0, 0, 0, more)) for each in pair)
    return keys, values
