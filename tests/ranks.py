"""Several ranks in one process: a thread for each, with torch's collectives between them."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.testing._internal.distributed.multi_threaded_pg import (
    ProcessLocalGroup,
    _install_threaded_pg,
    _uninstall_threaded_pg,
)

T = TypeVar("T")
core: Any = torch._C  # which has no types
isolate = core._distributed_c10d._set_thread_isolation_mode


def together(world: int, body: Callable[[int], T]) -> list[T]:
    """What each rank's call of ``body(rank)`` returns. Threads share torch's random numbers: no dropout here."""
    ProcessLocalGroup.reset()
    _install_threaded_pg()
    isolate(True)
    store, results, errors = core._distributed_c10d.HashStore(), dict[int, T](), list[BaseException]()

    def run(rank: int) -> None:
        distributed.init_process_group("threaded", rank=rank, world_size=world, store=store)
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors.append(error)
            ProcessLocalGroup.exception_handle(error)  # the others stop waiting
        finally:
            distributed.destroy_process_group()

    threads: list[Any] = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        isolate(False)
        _uninstall_threaded_pg()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(world)]
