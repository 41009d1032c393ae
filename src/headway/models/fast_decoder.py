"""Faster decoders for generation.

Generating token by token, a CPU spends its time reading matrices. Two other formats help:

- packed: the same numbers in the memory layout of oneDNN's kernels
- int8: each row of a matrix as integers from -127 to 127 and a scale: a quarter of the bytes, slightly less exact.
  Inputs are quantised on the fly (dynamic quantisation).

A GPU spends its time launching kernels: there, steps are CUDA graphs.

A policy that learns in half precision keeps its weights in full precision. It writes with half-precision copies of its
matrices, brought up to date before each round.
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
from headway.nn.lora import LoRALinear
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
            warnings.simplefilter("ignore")  # deprecated: torch plans to move this to torchao
            zeros = torch.zeros(len(weight), dtype=torch.long)
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x.contiguous(), self.packed, True)


WORTH_PACKING = 1 << 18  # matrix elements; below, the packed kernel's overhead exceeds its gain
FORMS: dict[str, Maker] = {"packed": Packed, "int8": Int8}


def with_matrices(model: Model, make: Maker, least: int = 0) -> Model:
    """A copy of a model in which ``make`` replaces every matrix with at least ``least`` elements, an adapter added to
    it. All else is shared."""
    twin = deepcopy(model, weights_of(model))
    for module in list(twin.modules()):
        for name, part in module.named_children():
            if isinstance(part, nn.Linear) and part.weight.numel() >= least:
                whole = part.merge() if isinstance(part, LoRALinear) else part
                setattr(module, name, make(whole.weight.detach(), None if whole.bias is None else whole.bias.detach()))
            elif isinstance(part, TiedHead):
                matrix = part.embedding.table.weight.detach()[: part.embedding.vocabulary]
                setattr(module, name, make(matrix, None if part.bias is None else part.bias.detach()))
    return twin


def weights_of(model: nn.Module) -> dict[int, Tensor]:
    """What ``deepcopy`` shall take for copied already, so that the copy shares it."""
    return {id(each): each for each in [*model.parameters(), *model.buffers()]}


def half_copy(model: Model, precision: torch.dtype) -> tuple[Model, Callable[[], None]]:
    """A copy of a model for generation under autocast, which then need not cast the matrices at every step: they are in
    ``precision`` already, all else is shared. The function brings them up to date in place, as recorded graphs need.
    """
    originals: list[Tensor] = []
    copies: list[Tensor] = []

    def half(original: Tensor) -> Tensor:
        originals.append(original)
        copies.append(nn.Parameter(original.detach().to(precision), requires_grad=False))
        return copies[-1]

    @torch.no_grad()
    def refresh() -> None:
        torch._foreach_copy_(copies, originals)

    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    halves = {id(each): half(each) for module in linear for each in module.parameters(recurse=False)}
    twin = deepcopy(model, weights_of(model) | halves).eval()
    for module in twin.modules():
        if isinstance(module, TiedHead):  # its matrix is looked up, too, in full precision
            table = module.embedding.table.weight
            module.embedding = deepcopy(module.embedding, {id(table): half(table)})
    return twin, refresh


MAX_RECORDINGS = 8


def autocast_without_cache() -> torch.autocast:
    """The present autocast without its cache of half-precision weights: on replay, cached copies would be freed, or
    outdated by training."""
    dtype = torch.get_autocast_dtype("cuda")
    return torch.autocast("cuda", dtype, enabled=torch.is_autocast_enabled("cuda"), cache_enabled=False)


@dataclass
class Recording:
    graph: torch.cuda.CUDAGraph
    state: State  # static, read and written by the graph
    shape: Hashable
    tokens: Tensor  # input of the graph
    logits: Tensor  # output of the graph
    lent: weakref.ref[State]  # the caller's state; dead once nobody uses this recording

    def lend(self) -> State:
        state = copy(self.state)
        self.lent = weakref.ref(state)
        return state


class GraphedDecoder:
    """A decoder on a GPU whose steps are CUDA graphs; the first step of a state, the prompt, runs eagerly.

    Recording a graph takes as long as a few steps, so graphs are reused: a new state of the same shape is copied into
    the graph's own state once nobody else uses it.
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
            recording = self.reuse(state) or self.record(tokens, state)
            state = recording.lend()
        recording.tokens.copy_(tokens)
        recording.graph.replay()
        return recording.logits, state.advance_counters(1)  # Python counters are not part of the graph

    def reuse(self, state: State) -> Recording | None:
        """A free recording for states of this shape, if there is one, with the state copied into it."""
        shape = state.shape()
        for recording in self.recordings:
            if recording.lent() is None and recording.shape == shape:
                recording.state.copy_from(state)
                return recording
        return None

    def record(self, tokens: Tensor, state: State) -> Recording:
        """Record on the state itself; what the rehearsals append to it is undone."""
        unused = [each for each in self.recordings if each.lent() is None]
        if len(self.recordings) >= MAX_RECORDINGS and unused:
            self.recordings.remove(unused[0])
        shape, tokens = state.shape(), tokens.clone()
        state.make_static()
        restore = state.bookmark()
        outputs: list[Tensor] = []

        def step() -> None:
            with autocast_without_cache():
                outputs[:] = [self.model.step(tokens, state)[0]]

        def rehearse() -> None:
            step()
            restore()

        graph = record(step, rehearse)
        restore()
        self.recordings.append(Recording(graph, state, shape, tokens, outputs[0], weakref.ref(state)))
        return self.recordings[-1]


def fast_decoder(model: Decoder, int8: bool = False) -> Decoder | GraphedDecoder:
    """The fastest version of a decoder on its device."""
    device = next(model.parameters()).device.type
    if int8 and device != "cpu":
        raise Problem("int8 works on the CPU only: drop it, a GPU is not limited by reading matrices")
    return GraphedDecoder(model) if device == "cuda" else batching_decoder(model, int8)


def batching_decoder(model: Decoder, int8: bool = False) -> Decoder:
    """The fastest version for batches whose rows come and go, which no graph can be recorded of."""
    if next(model.parameters()).device.type != "cpu":
        return model
    return with_matrices(model, FORMS["int8"]) if int8 else with_matrices(model, FORMS["packed"], WORTH_PACKING)
