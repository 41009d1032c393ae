"""CUDA graphs: kernels that are recorded once, and then all started together.

A small network's step is hundreds of short kernels, and to start each of them from Python takes longer than they run.
A graph reads its inputs where they lay when it was recorded, and writes its outputs where it wrote them then.
"""

from collections.abc import Callable
from typing import Any

import torch

WARM_UP = 2  # calls before a recording, in which libraries set themselves up


def record(
    body: Callable[[], None], rehearse: Callable[[], Any] | None = None, pool: Any = None
) -> torch.cuda.CUDAGraph:
    """The kernels of ``body``; ``rehearse`` is called before it, if not the body itself."""
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
