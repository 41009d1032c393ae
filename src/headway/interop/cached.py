"""Decoders as programs that take what they remember as inputs, and return it as outputs.

A program reads the next tokens of each row and a cache: keys and values of attention, hidden states of recurrent
networks. It returns logits and the longer cache, so that nobody runs a whole prefix again. A translator is two
programs: the encoder reads the source, once, and gives the keys and values that the decoder looks at.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.interop.recurrent_programs import with_programs
from headway.models import Decoder, EncoderDecoder
from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.context import Context
from headway.nn.masks import over_keys, real_tokens
from headway.nn.state import Pair, State, Tensors

PAST = "past"  # the axis of a cache that grows


class InTurn(dict[nn.Module, Tensors]):
    """What parts carry, given and kept in the order in which they ask: a part that is traced is not the part itself."""

    def __init__(self, given: list[Tensors]):
        super().__init__()
        self.given, self.kept = iter(given), list[Tensors]()

    def get(self, part: nn.Module, default: Any = None) -> Any:
        return next(self.given)

    def __setitem__(self, part: nn.Module, tensors: Tensors) -> None:
        self.kept.append(tensors)


class ProgramState(State):
    """A state whose tensors come from outside, in the order in which parts ask for them, and which is never written to
    in place."""

    def __init__(self, tokens: Tensor, past: Any, pairs: list[Pair], carried: list[Tensors], memory: list[Pair]):
        super().__init__(tokens.shape[0], 0, tokens.device)
        self.used = self.longest = past
        self.pairs, self.longer, self.memory_pairs = iter(pairs), list[Pair](), iter(memory)
        self.carried: InTurn = InTurn(carried)
        self.read: Tensor | None = None  # (B,) tokens read so far, if no cache has an axis that tells

    def positions(self, time: int) -> Tensor:
        if self.read is None:
            return torch.arange(self.used, self.used + time, device=self.device)
        return self.read[:, None] + torch.arange(time, device=self.device)

    def query_key_positions(self, time: int) -> Pair:
        return self.positions(time), torch.arange(self.used + time, device=self.device)

    def extend(self, part: nn.Module, key: Tensor, value: Tensor) -> Pair:
        keys, values = next(self.pairs)
        self.longer.append((torch.cat([keys, key], dim=2), torch.cat([values, value], dim=2)))
        return self.longer[-1]

    def cached_memory_heads(self, part: nn.Module, project: Callable[[], Pair]) -> Pair:
        return next(self.memory_pairs)


class Slots:
    """The caches of a decoder: keys and values of its attention parts, then what other parts carry from one token to
    the next, in the order of its modules. The first axis is that of rows."""

    def __init__(self, decoder: Decoder):
        attending, carried = parts_of(decoder, SelfAttention), carried_by(decoder)
        self.attending, self.attends = len(attending), bool(attending)
        self.shapes: dict[str, list[int | str]] = {}
        self.whole: set[str] = set()  # those that hold tokens, not real numbers
        self.carriers: list[int] = []  # how many tensors each part carries
        for number, part in enumerate(attending):
            for name in ("key", "value"):
                self.shapes[f"{name}_{number}"] = [1, part.kv_heads, PAST, part.head_width]
        for number, tensors in enumerate(carried.values()):
            self.carriers.append(len(tensors))
            for place, tensor in enumerate(tensors):
                self.shapes[name := f"hidden_{number}_{place}"] = list(tensor.shape)
                self.whole |= set() if tensor.dtype.is_floating_point else {name}
        if not self.attends:
            self.shapes["read"] = [1]  # tokens so far, as no cache has an axis that tells

    def axes(self, name: str) -> dict[int, str]:
        """Those whose size may be any."""
        sizes = enumerate(self.shapes[name])
        return {place: "rows" if place == 0 else PAST for place, size in sizes if place == 0 or size == PAST}

    def random(self, rows: int, past: int) -> list[Tensor]:
        """Caches of this size, to try a program with."""
        random, tensors = torch.Generator().manual_seed(past), []
        for name, shape in self.shapes.items():
            sizes = [rows, *(past if size == PAST else int(size) for size in shape[1:])]
            if name == "read":
                tensors.append(torch.full((rows,), past))
            elif name in self.whole:
                tensors.append(torch.ones(sizes, dtype=torch.long))
            else:
                tensors.append(torch.randn(sizes, generator=random))
        return tensors

    def state(self, tokens: Tensor, given: list[Tensor], memory: list[Tensor]) -> ProgramState:
        tensors = iter(given)
        pairs = [(next(tensors), next(tensors)) for _ in range(self.attending)]
        carried = [tuple(next(tensors) for _ in range(count)) for count in self.carriers]
        heads = list(zip(memory[::2], memory[1::2], strict=True))
        state = ProgramState(tokens, pairs[0][0].shape[2] if pairs else 0, pairs, carried, heads)
        state.read = None if self.attends else next(tensors)
        return state

    def after(self, state: ProgramState, tokens: Tensor) -> list[Tensor]:
        tensors = [tensor for each in (*state.longer, *state.carried.kept) for tensor in each]
        return tensors if state.read is None else [*tensors, state.read + tokens.shape[1]]


def parts_of(decoder: nn.Module, kind: type[nn.Module]) -> list[Any]:
    return [part for part in decoder.modules() if isinstance(part, kind)]


def carried_by(decoder: Decoder) -> dict[nn.Module, Tensors]:
    """What its parts carry from one token to the next, but for keys and values, after one token of one row."""
    state = State(1, 1)
    if parts_of(decoder, CrossAttention):
        state.memory = torch.zeros(1, 1, int(decoder.embedding.width))  # type: ignore[arg-type]
    with torch.no_grad():
        decoder.step(torch.zeros(1, 1, dtype=torch.long), state)
    return state.carried


class CachedDecoder(nn.Module):
    output = "(batch, time, vocabulary) logits of the next token"

    def __init__(self, decoder: Decoder):
        super().__init__()
        self.slots = Slots(decoder)
        self.decoder: Any = with_programs(decoder)
        crossing = parts_of(decoder, CrossAttention)
        memory = [f"memory_{name}_{number}" for number in range(len(crossing)) for name in ("key", "value")]
        self.memory = ["lengths", *memory] if crossing else []
        self.inputs = ("tokens", *self.memory, *self.slots.shapes)
        self.outputs = ("logits", *(f"new_{name}" for name in self.slots.shapes))

    def axes(self) -> list[dict[int, str]]:
        """Of each input, those whose size may be any."""
        memory = [{0: "rows"}, *({0: "rows", 2: "sources"} for _ in self.memory[1:])] if self.memory else []
        return [{0: "rows", 1: "time"}, *memory, *(self.slots.axes(name) for name in self.slots.shapes)]

    def example(self, rows: int, time: int, past: int) -> tuple[Tensor, ...]:
        """Random inputs of this size."""
        random, sources = torch.Generator().manual_seed(rows), time + 4
        memory = [torch.arange(sources, sources - rows, -1).clamp(min=1)] if self.memory else []
        for part in parts_of(self.decoder, CrossAttention):
            shape = rows, part.kv_heads, sources, part.head_width
            memory += [torch.randn(shape, generator=random) for _ in range(2)]
        tokens = torch.randint(self.decoder.embedding.vocabulary, (rows, time), generator=random)
        return tokens, *memory, *self.slots.random(rows, past)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        beside = 1 + len(self.memory)
        tokens, memory, cache = inputs[0], list(inputs[1:beside]), list(inputs[beside:])
        state, time = self.slots.state(tokens, cache, memory[1:]), tokens.shape[1]
        context = Context(causal=True, no_empty_rows=True, state=state)
        if self.slots.attends:
            past = state.used
            earlier = torch.arange(past + time)[None, :] <= torch.arange(past, past + time)[:, None]
            context = replace(context, causal=False, mask=earlier[None, None])
        if memory:
            mask = over_keys(real_tokens(memory[0], memory[1].shape[2]))
            context = replace(context, memory=memory[1], memory_mask=mask)
        logits = self.decoder.head(self.decoder.states(tokens, context))
        return logits, *self.slots.after(state, tokens)


class SourceEncoder(nn.Module):
    """The encoder, with the keys and values that each layer of the decoder makes of its states."""

    inputs = ("tokens", "lengths")
    output = "(batch, heads, time, head width) keys and values of the source"

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.encoder: Any = with_programs(model.encoder)
        self.crossing = nn.ModuleList(parts_of(model.decoder, CrossAttention))
        names = range(len(self.crossing))
        self.outputs = tuple(f"memory_{name}_{number}" for number in names for name in ("key", "value"))

    def axes(self) -> list[dict[int, str]]:
        return [{0: "rows", 1: "time"}, {0: "rows"}]

    def example(self, rows: int, time: int, past: int = 0) -> tuple[Tensor, ...]:
        random = torch.Generator().manual_seed(rows)
        tokens = torch.randint(self.encoder.embedding.vocabulary, (rows, time), generator=random)
        return tokens, torch.arange(time, time - rows, -1).clamp(min=1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        memory = self.encoder(tokens, lengths)
        parts: list[Any] = list(self.crossing)
        return tuple(heads for part in parts for heads in part.project_memory(memory, memory))
