"""Ctrl-C and SIGTERM where they do not have to wait for a training step: one line, and the exit code of the signal."""

import ctypes
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

HANDLED = signal.SIGINT, signal.SIGTERM
PATIENCE = 2.0  # seconds
received: list[int] = []


def handle() -> None:
    """The first signal unwinds the stack, so that nothing half-written stays; another one ends the process at once."""
    if int(os.environ.get("LOCAL_RANK") or 0) > 0:
        follow_parent()
        return
    for number in HANDLED:
        signal.signal(number, unwind)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=watch, args=(reader,), daemon=True).start()
    sys.unraisablehook = leave_or(sys.unraisablehook)


def unwind(number: int, frame: FrameType | None) -> NoReturn:
    if received or imports(frame):
        leave(number, frame)
    received.append(number)
    raise KeyboardInterrupt


def watch(reader: int) -> None:
    """Python's handlers wait for compiled code to return, such as the training of a tokenizer: not for ever."""
    while number := os.read(reader, 1)[0]:
        time.sleep(PATIENCE)
        if signal.getsignal(number) is unwind and not received:
            leave(number)


def imports(frame: FrameType | None) -> bool:
    """Whether a module is being imported: torch aborts with a dump if its import is broken off."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def leave(number: int, frame: FrameType | None = None) -> NoReturn:
    """Without the interpreter's clean-up, in which another signal would end in a traceback."""
    if sys.stdout.isatty():
        os.write(1, b"\x1b[?25h")  # a progress bar may have hidden the cursor
    os.write(2, b"headway: stopped\n")
    os._exit(128 + number)


def leave_or(usual: Any) -> Any:
    """Python only reports what is raised in places such as ``__del__``, and goes on."""

    def hook(unraisable: Any) -> None:
        if received and isinstance(unraisable.exc_value, KeyboardInterrupt):
            leave(received[0])
        usual(unraisable)

    return hook


def end(number: int) -> NoReturn:
    """Not by sys.exit: Python would end itself by SIGINT if the interrupt had passed through code that was made at
    run time, as that of data classes is."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(128 + number)


def use(handler: Any) -> None:
    """From now on, where signals are handled here."""
    for number in HANDLED:
        if signal.getsignal(number) in (unwind, leave):
            signal.signal(number, handler)


def exit_stopped() -> NoReturn:
    """One line, after the stack was unwound."""
    use(lambda number, frame: os._exit(128 + number))
    print("headway: stopped", file=sys.stderr)
    sys.exit(128 + (received or [signal.SIGINT])[0])


def follow_parent() -> None:
    """One of several processes that train together: signals are for the first one, and this one ends when it does."""
    for number in HANDLED:
        signal.signal(number, signal.SIG_IGN)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:  # Linux does it, whatever this process is waiting for
        end_with_parent = 1  # a constant of sys/prctl.h
        prctl(end_with_parent, signal.SIGKILL)
    else:
        threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()


def end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
