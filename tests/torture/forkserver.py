"""A warm process that forks: what it starts has torch imported and a single thread, and runs after a few milliseconds.

    python -m torture.forkserver

It reads requests from standard input and answers on standard output, one line of JSON each. A request to ``call`` a
function forks a child, in a folder and with files for its output; a request to ``wait`` for a child gives its status.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NOTHING_HELPS = 70  # the exit code after an exception that reached the top, as of sysexits.h


def serve() -> None:
    warm_up()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None = fork(**request) if "call" in request else wait(**request)
        answers.write(json.dumps(answer) + "\n")


def warm_up() -> None:
    """Import and compile what takes long, with short trainings; they leave no threads behind."""
    import torch

    from conftest import write_texts
    from headway import cli
    from torture.harness import SHARE
    from torture.works import SMALLEST

    torch.set_num_threads(1)
    with TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        os.chdir(folder)
        os.environ["HEADWAY_CACHE"] = "cache"
        output, sys.stdout = sys.stdout, nowhere
        trainings = [["train", "parity", *SMALLEST, "train.steps=2"]]
        if SHARE:
            import transformers  # noqa: F401

            texts = write_texts(Path("texts"), 4)
            trainings.append(["train", "vectors", f"data.train={texts}", "data.min_count=1", "train.steps=2"])
        for words in trainings:
            sys.argv = ["headway", *words]
            with suppress(SystemExit):
                cli.main()  # without handlers of signals, which are for the children
        os.chdir("/")
        sys.stdout = output


def fork(call: str, arguments: dict[str, Any], folder: str, cache: str) -> int:
    """Start ``module:function`` in a child; returns when the child is about to call it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        run(call, arguments, folder, cache, writing)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return child


def run(call: str, arguments: dict[str, Any], folder: str, cache: str, ready: int) -> None:
    """In the child: what the function prints is in the folder's files ``out`` and ``err``."""
    code = NOTHING_HELPS
    try:
        os.chdir(folder)
        os.environ["HEADWAY_CACHE"] = cache
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        module, _, name = call.partition(":")
        function = getattr(import_module(module), name)
        os.write(ready, b".")
        os.close(ready)
        function(**arguments)
        code = 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def wait(wait: int, seconds: float) -> int | None:
    """The child's exit code, negative for a signal; None if it still runs after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(wait, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    serve()
