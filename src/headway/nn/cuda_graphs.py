"""CUDA graphs: a sequence of kernels recorded once and launched together.

One step of a small network is hundreds of short kernels; launching each from Python takes longer than running it. A
graph reads its inputs from, and writes its outputs to, the memory addresses used at recording time.
"""

from collections.abc import Callable
from typing import Any

import torch

WARM_UP = 2  # calls before recording, in which libraries initialise


def record(
    body: Callable[[], None], rehearse: Callable[[], Any] | None = None, pool: Any = None
) -> torch.cuda.CUDAGraph:
    """A graph of the kernels of ``body``; ``rehearse``, by default ``body`` itself, is run first to warm up."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            (rehearse or body)()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        body()
    return graph
