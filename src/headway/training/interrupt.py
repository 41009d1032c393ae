"""Ctrl-C and SIGTERM, as a question that the loop asks between steps."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """A context manager; ``asked`` is the signal that came, if one did. A second signal acts at once, as ever."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self.usual: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.usual[number] = signal.signal(number, self.ask)
        return self

    def ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = signal.Signals(number)
        self.restore()

    def restore(self) -> None:
        for number, handler in self.usual.items():
            signal.signal(number, handler)
        self.usual.clear()

    def __exit__(self, *error: object) -> None:
        self.restore()
