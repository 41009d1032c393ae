"""What decoding remembers from one call of a model to the next.

    state = State(rows=2, room=100)
    scores, state = decoder.step(prompts, state, lengths)    # a prompt for each row
    scores, state = decoder.step(tokens, state)              # then a token for each, as long as there is room

Weights live in modules, this does not. Parts keep here, under themselves, what they will need: attention its keys and
values, in buffers with place for more; cross attention those of the memory; recurrent networks what they carry along;
parts that read the tokens before a token, these tokens. A call writes into the buffers, so that the state before it is
used up.

In a search, ``width`` rows go on from each source. Their keys and values stay where they were written, in slots of the
source's buffer that its rows share: when a row goes on from another one, no key moves, only what the row may see. So a
reordering costs next to nothing, and the keys of a source are read once for all of its rows.

    B rows = N sources x W rows of each, side by side
"""

from collections.abc import Callable, Hashable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headway.config.errors import Problem

Tensors = tuple[Tensor, ...]
Pair = tuple[Tensor, Tensor]
FIRST_SLOTS = 64  # that a buffer begins with


class State:
    def __init__(self, rows: int, room: int, device: torch.device | None = None):
        self.sources, self.width = rows, 1
        self.room = room  # for how many tokens of a row
        self.slots = room  # of each source, for its keys and values
        self.used = 0  # of them
        self.tidied = 0  # how many there were when unseen ones were last given up
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)  # (B,) tokens that each row has had
        self.longest = 0  # of the lengths; known here without asking the device
        self.buffers: dict[nn.Module, Pair] = {}  # keys and values, (N, H, slots, K)
        self.carried: dict[nn.Module, Tensors] = {}  # (B, ...) each
        # Which slots a row may see, (B, slots), and the position of what is in them, (N, slots). None: all rows have
        # had the same number of tokens, and may see everything; a slot is a position.
        self.seen: Tensor | None = None
        self.places: Tensor | None = None
        self.next_slot: Tensor | None = None  # the first free one, on the device, once every call has the same shapes
        self.memory: Tensor | None = None  # (N, S, D), what cross attention looks at,
        self.memory_mask: Tensor | None = None  # (N, 1, 1, S),
        self.heads: dict[nn.Module, Pair] = {}  # and what it makes of it, (N, H, S, K)

    @property
    def device(self) -> torch.device:
        return self.lengths.device

    def positions(self, time: int) -> Tensor:
        """Of the next tokens: (T,) if they are the same for all rows, else (B, T)."""
        if self.seen is None:
            return torch.arange(self.longest, self.longest + time, device=self.device)
        return self.lengths[:, None] + torch.arange(time, device=self.device)

    def looking(self, time: int) -> Pair:
        """The positions of the next tokens, (T,) or (N, T W), and of all that they may look at, (S,) or (N, S)."""
        if self.places is None:
            return self.positions(time), torch.arange(self.end(time), device=self.device)
        return self.positions(time).view(self.sources, -1), self.places[:, : self.end(time)]

    def open(self, time: int) -> Tensor | None:
        """Make place for the next tokens of each row; where sources have several rows, a token each. Gives the mask of
        what they may look at, (N, 1, T W, S); None: everything before them."""
        if self.seen is None or self.places is None:
            return None
        self.places.index_copy_(1, self.next_slots(time), self.positions(time).view(self.sources, -1))
        if time == 1:
            own = torch.eye(self.width, dtype=torch.bool, device=self.device)
            self.seen.index_copy_(1, self.next_slots(1), own.repeat(self.sources, 1))
            return self.seen[:, : self.end(1)].view(self.sources, 1, self.width, -1)
        earlier = torch.ones(time, time, dtype=torch.bool, device=self.device).tril()
        before = self.seen[:, None, : self.used].expand(-1, time, -1)
        return torch.cat([before, earlier.expand(self.sources, -1, -1)], dim=2)[:, None]

    def end(self, time: int) -> int:
        """Behind the slots that a call looks at."""
        return self.slots if self.next_slot is not None else self.used + time * self.width

    def next_slots(self, time: int) -> Tensor:
        first = self.used if self.next_slot is None else self.next_slot
        return first + torch.arange(time * self.width, device=self.device)

    def grouped(self, heads: Tensor) -> Tensor:
        """(B, H, T, K) as (N, H, T W, K)."""
        if self.width == 1:
            return heads
        return heads.view(self.sources, self.width, heads.shape[1], heads.shape[3]).transpose(1, 2)

    def pad(self, heads: Tensor) -> Tensor:
        """(N, H, T W, K) as (B, H, T, K)."""
        return heads if self.width == 1 else heads.transpose(1, 2).flatten(0, 1)[:, :, None]

    def extend(self, part: nn.Module, key: Tensor, value: Tensor) -> Pair:
        """Keep the next keys and values (B, H, T, K) of a part behind those that it has; give all, (N, H, slots, K)."""
        time = key.shape[2]
        if self.longest + time > self.room:
            raise Problem(f"there is room for {self.room} tokens in this state, not for {self.longest + time}")
        self.make_place(part, key, value)
        for buffer, new in zip(self.buffers[part], (key, value), strict=True):
            if self.next_slot is None:
                buffer[:, :, self.used : self.end(time)] = self.grouped(new)
            else:
                buffer.index_copy_(2, self.next_slots(time), self.grouped(new))
        keys, values = self.buffers[part]
        return keys[:, :, : self.end(time)], values[:, :, : self.end(time)]

    def make_place(self, part: nn.Module, key: Tensor, value: Tensor) -> None:
        """Buffers grow by doubling: how long a text becomes, nobody knows. What is recorded needs them whole."""
        needed = self.end(key.shape[2])
        if part not in self.buffers:
            size = min(max(needed, FIRST_SLOTS), self.slots)
            keys, values = (new.new_zeros(self.sources, new.shape[1], size, new.shape[3]) for new in (key, value))
            self.buffers[part] = keys, values
        elif (there := self.buffers[part][0].shape[2]) < needed:
            self.buffers[part] = longer(self.buffers[part], max(needed, min(2 * there, self.slots)) - there)

    def of_memory(self, part: nn.Module, make: Callable[[], Pair]) -> Pair:
        """What a part makes of the memory: made once."""
        if part not in self.heads:
            self.heads[part] = make()
        return self.heads[part]

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

    def advance(self, time: int, new: Tensor | None = None) -> Self:
        """After a call with (B, T) tokens, of which the first ``new`` (B,) of each row are real."""
        if new is not None:
            self.keep_tables()
        if self.seen is not None and (time > 1 or new is not None):
            real = torch.arange(time, device=self.device) < (time if new is None else new[:, None])
            self.seen[:, self.used : self.used + time] = real
        self.lengths += time if new is None else new
        if self.next_slot is not None:
            self.next_slot += self.width
        return self.count(time)

    def count(self, time: int) -> Self:
        """Of an advance, what is known here without asking the device."""
        self.longest += time
        self.used += time * self.width
        return self

    def keep_tables(self) -> None:
        """From here on, of who may see what, and where that stands."""
        if self.seen is None:
            self.seen = torch.zeros(len(self.lengths), self.slots, dtype=torch.bool, device=self.device)
            self.seen[:, : self.used] = True
            self.places = torch.arange(self.slots, device=self.device).repeat(self.sources, 1)

    def fix(self) -> None:
        """From here on, calls have a token for each row and the same shapes, so that they can be recorded."""
        self.keep_tables()
        self.next_slot = torch.tensor(self.used, device=self.device)
        self.buffers = {part: longer(pair, self.slots - pair[0].shape[2]) for part, pair in self.buffers.items()}

    def shape(self) -> Hashable:
        """Of everything in it: of two states with the same, one can take over from the other."""
        mask = None if self.memory_mask is None else self.memory_mask.shape
        heads = tuple(keys.shape for keys, _ in self.heads.values())
        return self.sources, self.width, self.room, self.slots, heads, mask

    def take_over(self, other: "State") -> None:
        """Go on from where another is, in the memory that this one has; this one is fixed."""
        other.keep_tables()
        assert self.next_slot is not None
        self.longest, self.used = other.longest, other.used
        self.next_slot.fill_(other.used)
        pairs = [(self.lengths, other.lengths), (self.seen, other.seen), (self.places, other.places)]
        pairs.append((self.memory_mask, other.memory_mask))
        for part, (keys, values) in other.buffers.items():
            mine = [each[:, :, : self.used] for each in self.buffers[part]]
            pairs += zip(mine, (keys[:, :, : self.used], values[:, :, : self.used]), strict=True)
        for part, heads in other.heads.items():
            pairs += zip(self.heads[part], heads, strict=True)
        for to, source in pairs:
            if to is not None and source is not None:
                to.copy_(source)

    def bookmark(self) -> Callable[[], None]:
        """A way back to here, in place; what was written into the buffers since is seen by nobody."""
        changing = [each for each in (self.lengths, self.next_slot, self.seen) if each is not None]
        before = [each.clone() for each in changing]
        longest, used = self.longest, self.used

        def go_back() -> None:
            for each, value in zip(changing, before, strict=True):
                each.copy_(value)
            self.longest, self.used = longest, used

        return go_back

    def expand_beams(self, width: int) -> Self:
        """From here on, so many rows go on from each source."""
        if width == 1:
            return self
        self.keep_tables()
        assert self.seen is not None
        assert self.places is not None
        slots = self.used + (self.room - self.longest) * width
        self.places = F.pad(self.places, (0, slots - self.slots))
        self.seen = F.pad(self.seen, (0, slots - self.slots)).repeat_interleave(width, dim=0)
        self.lengths = self.lengths.repeat_interleave(width)
        self.carried = {
            part: tuple(each.repeat_interleave(width, dim=0) for each in all_of)
            for part, all_of in self.carried.items()
        }
        self.width, self.slots = width, slots
        return self

    def reorder(self, rows: Tensor) -> Self:
        """Each row goes on from the row (B,) of the same source that is given."""
        if self.width > 1:
            assert self.seen is not None
            self.seen.copy_(self.seen[rows])
            if self.device.type == "cpu" and self.next_slot is None and self.used > 2 * self.tidied + 32:
                self.tidy()
        self.carried = {part: tuple(each[rows] for each in all_of) for part, all_of in self.carried.items()}
        return self

    def tidy(self) -> None:
        """Give up the slots that no row sees any more: most rows of a search have the same past."""
        assert self.seen is not None
        assert self.places is not None
        wanted = self.seen[:, : self.used].view(self.sources, self.width, -1).any(dim=1)
        left = int(wanted.sum(dim=1).max())
        if left < 0.7 * self.used:
            slots = wanted.long().argsort(dim=1, descending=True, stable=True)[:, :left]
            for buffer in (each for pair in self.buffers.values() for each in pair):
                buffer[:, :, :left] = buffer.gather(
                    2, slots[:, None, :, None].expand(*buffer.shape[:2], -1, buffer.shape[3])
                )
            self.places[:, :left] = self.places.gather(1, slots)
            self.seen[:, :left] = self.seen.gather(1, slots.repeat_interleave(self.width, dim=0))
            self.seen[:, left:] = False
            self.used = left
        self.tidied = self.used

    def select(self, rows: Tensor) -> "State":
        """A state of its own for these rows, in this order; a row may come several times, or not at all."""
        return self.taken(rows // self.width, rows, 1)

    def keep(self, sources: Tensor) -> "State":
        """A state of its own for these sources, with all their rows."""
        rows = sources[:, None] * self.width + torch.arange(self.width, device=self.device)
        return self.taken(sources, rows.flatten(), self.width)

    def taken(self, sources: Tensor, rows: Tensor, width: int) -> "State":
        found = State(len(sources), self.room, self.device)
        found.width, found.slots, found.used, found.longest = width, self.slots, self.used, self.longest
        found.tidied = self.tidied
        found.lengths = self.lengths[rows]
        found.buffers = {
            part: (keys[sources, :, : self.used], values[sources, :, : self.used])
            for part, (keys, values) in self.buffers.items()
        }
        found.heads = {part: (keys[sources], values[sources]) for part, (keys, values) in self.heads.items()}
        found.carried = {part: tuple(each[rows] for each in all_of) for part, all_of in self.carried.items()}
        found.seen = None if self.seen is None else self.seen[rows]
        found.places = None if self.places is None else self.places[sources]
        found.memory = None if self.memory is None else self.memory[sources]
        found.memory_mask = None if self.memory_mask is None else self.memory_mask[sources]
        return found

    def detached(self) -> Self:
        """Cut off from the graph: gradients reach no further back than here."""
        self.carried = {part: tuple(each.detach() for each in tensors) for part, tensors in self.carried.items()}
        return self


def longer(pair: Pair, more: int) -> Pair:
    """With so many more slots."""
    keys, values = (F.pad(each, (0, 0, 0, more)) for each in pair)
    return keys, values
