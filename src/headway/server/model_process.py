"""The model process: ``python -m headway.server.model_process``, started by the web process alone.

Lines of JSON come in on standard input, and go out on what was standard output; what libraries print goes to standard
error. It ends when its input does, and leaves signals to the web process.

The first line names the runs. Until it comes, the process is a spare one, which has imported what takes seconds.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from headway.api.model import load
from headway.config.errors import Problem
from headway.server.engine import Engine
from headway.server.limits import Limits

Lines = SimpleQueue[dict[str, Any]]


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    first = json.loads(sys.stdin.readline() or "null")
    if first is None:
        return
    lines: Lines = SimpleQueue()
    threading.Thread(target=read, args=(lines,), daemon=True).start()
    try:
        models = {name: load(Path(run)) for name, run in first["runs"]}
        for model in models.values():
            model.network.eval()
        engine = Engine(models, Limits(**first["limits"]))
    except (Problem, OSError) as problem:
        say(out, {"refused": str(problem)})
        return
    say(out, {"ready": engine.cards()})
    while True:
        serve(engine, lines, out)


def read(lines: Lines) -> None:
    """Without input there is nobody to answer, whatever is being computed."""
    for line in sys.stdin:
        lines.put(json.loads(line))
    os._exit(0)


def serve(engine: Engine, lines: Lines, out: TextIO) -> None:
    """All that has arrived, then one turn; with nothing to do, it waits."""
    answers = []
    if not engine.busy:
        answers += list(engine.receive(lines.get()))
    while not lines.empty():
        answers += list(engine.receive(lines.get()))
    answers += list(engine.turn())
    say(out, *answers, {"counts": engine.counts()})


def say(out: TextIO, *messages: dict[str, Any]) -> None:
    out.write("".join(f"{json.dumps(message)}\n" for message in messages))
    out.flush()


if __name__ == "__main__":
    main()
