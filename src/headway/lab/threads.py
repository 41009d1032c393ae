"""Several ranks in one process, a thread for each: they compute what processes would, on one small model."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from headway.nn.collectives import Axis

T = TypeVar("T")


class Board:
    """Where all ranks put something, and then see what all have put there."""

    def __init__(self, ranks: int):
        self.slots: list[Any] = [None] * ranks
        self.barrier = threading.Barrier(ranks)

    def all(self, rank: int, own: Any) -> list[Any]:
        self.slots[rank] = own
        self.barrier.wait()
        everyone = list(self.slots)
        self.barrier.wait()  # before anyone puts something else there
        return everyone


@dataclass(frozen=True)
class Threaded(Axis):
    board: Board = field(default_factory=lambda: Board(1))

    def all_reduce(self, x: Tensor) -> Tensor:
        first, *others = self.board.all(self.rank, x)
        return sum(others, start=first.clone())

    def all_gather(self, x: Tensor) -> list[Tensor]:
        return [each.clone() for each in self.board.all(self.rank, x)]

    def swap(self, x: Tensor, sizes_out: list[int] | None = None, sizes_in: list[int] | None = None) -> Tensor:
        everyone = self.board.all(self.rank, (x, sizes_in))
        return torch.cat([theirs.split(sizes or 1)[self.rank] for theirs, sizes in everyone])


class Blind(Threaded):
    """Nobody tells a rank what stands beyond its slice of a sequence: it reads zeros there."""

    def neighbours(self, to_right: Tensor, to_left: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(to_right), torch.zeros_like(to_left)


def together(axis: str, ranks: int, body: Callable[[Axis], T], kind: type[Threaded] = Threaded) -> list[T]:
    """What ``body`` returns to each rank. Threads share torch's random numbers: nothing may draw any."""
    board, results, errors = Board(ranks), dict[int, T](), list[BaseException]()

    def run(rank: int) -> None:
        try:
            results[rank] = body(kind(axis, rank, ranks, board=board))
        except threading.BrokenBarrierError:
            pass  # because another one has failed
        except BaseException as error:
            errors.append(error)
            board.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(ranks)]
