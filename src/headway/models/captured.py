"""A decoder on a GPU whose steps are recorded once and then played back.

A step of one token is some two hundred small kernels: to start each of them from Python takes far longer than the
kernels do. A CUDA graph starts them all at once. To record one takes as long as a few steps, so that it is kept: a
later state of the same shape is copied into the state that the recording reads and writes, once nobody uses that one.
"""

import weakref
from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.models.decoder import Decoder
from headway.nn.state import State

WARM_UP = 2  # steps before a recording, in which libraries set themselves up
MOST = 8  # recordings that are kept


def anew() -> torch.autocast:
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


class Captured:
    """The steps of a decoder; the first of a state, its prompt, runs as ever."""

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
            recording = self.free(state) or self.record(tokens, state)
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

    def record(self, tokens: Tensor, state: State) -> Recording:
        """Played on the state itself; what the rehearsals write behind its end is written again."""
        unused = [each for each in self.recordings if each.lent() is None]
        if len(self.recordings) >= MOST and unused:
            self.recordings.remove(unused[0])
        shape, tokens = state.shape(), tokens.clone()
        state.fix()
        go_back = state.bookmark()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), anew():
            for _ in range(WARM_UP):
                self.model.step(tokens, state)
                go_back()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), anew():
            logits, _ = self.model.step(tokens, state)
        go_back()
        self.recordings.append(Recording(graph, state, shape, tokens, logits, weakref.ref(state)))
        return self.recordings[-1]
