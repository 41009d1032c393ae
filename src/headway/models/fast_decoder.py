"""Decoders made quick for writing: a copy whose matrices are kept in another form.

At a token a step, a CPU spends its time reading matrices. Two forms help:

- packed: the same numbers in the order in which oneDNN's kernels read them
- int8: each row of a matrix as whole numbers from -127 to 127 and a scale: a quarter of the bytes, and a little less
  exact. The inputs are rounded likewise as they come (dynamic quantisation).

On a GPU the time goes into starting kernels, and steps are CUDA graphs instead.
"""

import warnings
import weakref
from collections.abc import Callable, Hashable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.models.decoder import Decoder
from headway.models.heads import TiedHead
from headway.nn.cuda_graphs import record
from headway.nn.state import State

Maker = Callable[[Tensor, Tensor | None], nn.Module]
Model = TypeVar("Model", bound=nn.Module)


class Packed(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        self.weight, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight, 1), bias

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class Int8(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__()
        scales = (weight.abs().amax(dim=1) / 127).clamp(min=1e-12).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch means to move this elsewhere
            zeros = torch.zeros(len(weight), dtype=torch.long)
            whole = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(whole, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x.contiguous(), self.packed, True)


WORTH_PACKING = 1 << 18  # numbers in a matrix: with fewer, the other kernel takes longer to start than it spares
FORMS: dict[str, Maker] = {"packed": Packed, "int8": Int8}


def with_matrices(model: Model, make: Maker, least: int = 0) -> Model:
    """A copy of a model in which ``make`` makes something else of every matrix that has at least so many numbers."""
    twin = deepcopy(model)
    for module in list(twin.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.Linear) and part.weight.numel() >= least:
                setattr(module, name, make(part.weight.detach(), None if part.bias is None else part.bias.detach()))
            elif isinstance(part, TiedHead):
                matrix = part.embedding.table.weight.detach()[: part.embedding.vocabulary]
                setattr(module, name, make(matrix, None if part.bias is None else part.bias.detach()))
    return twin


MOST = 8  # recordings that are kept


def autocast_anew() -> torch.autocast:
    """As it is, but matrices are rounded to half precision each time: what autocast keeps of them is gone when a
    recording is played, or they may have learned since."""
    halves = torch.get_autocast_dtype("cuda")
    return torch.autocast("cuda", halves, enabled=torch.is_autocast_enabled("cuda"), cache_enabled=False)


@dataclass
class Recording:
    graph: torch.cuda.CUDAGraph
    state: State  # what it reads and writes,
    shape: Hashable
    tokens: Tensor  # and the tokens that it reads
    logits: Tensor  # where it writes
    lent: weakref.ref[State]  # the state as its user knows it

    def lend(self) -> State:
        user = copy(self.state)
        self.lent = weakref.ref(user)
        return user


class GraphedDecoder:
    """The steps of a decoder on a GPU, as CUDA graphs; the first step of a state, its prompt, runs as ever.

    To record a graph takes as long as a few steps, so it is kept: a later state of the same shape is copied into the
    state that the graph reads and writes, once nobody uses that one.
    """

    def __init__(self, model: Decoder):
        self.model = model
        self.recordings: list[Recording] = []

    def begin(self, rows: int, room: int) -> State:
        return self.model.begin(rows, room)

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        if tokens.shape[1] > 1 or state.longest == 0 or state.carried:
            return self.model.step(tokens, state, new)
        recording = next((each for each in self.recordings if each.lent() is state), None)
        if recording is None:
            recording = self.free(state) or self.add(tokens, state)
            state = recording.lend()
        recording.tokens.copy_(tokens)
        recording.graph.replay()
        return recording.logits, state.count(1)  # the recording has no part in what is known here

    def free(self, state: State) -> Recording | None:
        """A recording for states of this shape, if there is one that nobody uses; it goes on from this state."""
        shape = state.shape()
        for recording in self.recordings:
            if recording.lent() is None and recording.shape == shape:
                recording.state.take_over(state)
                return recording
        return None

    def add(self, tokens: Tensor, state: State) -> Recording:
        """Played on the state itself; what the rehearsals write behind its end is written again."""
        unused = [each for each in self.recordings if each.lent() is None]
        if len(self.recordings) >= MOST and unused:
            self.recordings.remove(unused[0])
        shape, tokens = state.shape(), tokens.clone()
        state.fix()
        go_back = state.bookmark()
        outputs: list[Tensor] = []

        def step() -> None:
            with autocast_anew():
                outputs[:] = [self.model.step(tokens, state)[0]]

        def rehearse() -> None:
            step()
            go_back()

        graph = record(step, rehearse)
        go_back()
        self.recordings.append(Recording(graph, state, shape, tokens, outputs[0], weakref.ref(state)))
        return self.recordings[-1]


def fast_decoder(model: Decoder, int8: bool = False) -> Decoder | GraphedDecoder:
    """What to write with."""
    device = next(model.parameters()).device.type
    if int8 and device != "cpu":
        raise Problem("int8 is for the CPU: on a GPU the time goes elsewhere")
    if device == "cuda":
        return GraphedDecoder(model)
    if device != "cpu":
        return model
    return with_matrices(model, FORMS["int8"]) if int8 else with_matrices(model, FORMS["packed"], WORTH_PACKING)
