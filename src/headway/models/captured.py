"""A decoder on a GPU whose steps are recorded once and then played back.

A step of one token is some two hundred small kernels: to start each of them from Python takes far longer than the
kernels do. A CUDA graph starts them all at once.
"""

import torch
from torch import Tensor

from headway.models.decoder import Decoder
from headway.nn.state import State

WARM_UP = 3  # steps before the recording, in which libraries set themselves up


class Captured:
    """The steps of a decoder; the first of a state, its prompt, runs as ever."""

    def __init__(self, model: Decoder):
        self.model = model
        self.state: State | None = None
        self.graph = torch.cuda.CUDAGraph()

    def begin(self, rows: int, room: int) -> State:
        return self.model.begin(rows, room)

    def step(self, tokens: Tensor, state: State, new: Tensor | None = None) -> tuple[Tensor, State]:
        if tokens.shape[1] > 1 or state.longest == 0 or state.carried:
            return self.model.step(tokens, state, new)
        if self.state is not state:
            self.record(tokens, state)
        self.tokens.copy_(tokens)
        self.graph.replay()
        return self.scores, state.count(1)  # the recording has no part in what is known here

    def record(self, tokens: Tensor, state: State) -> None:
        """Played on the state itself; what the rehearsals write behind its end is written again."""
        state.fix()
        self.state, self.tokens = state, tokens.clone()
        go_back = state.bookmark()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.model.step(self.tokens, state)
                go_back()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores, _ = self.model.step(self.tokens, state)
        go_back()
