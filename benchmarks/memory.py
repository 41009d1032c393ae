"""How much memory a process takes while something runs, less the pages of files that it has mapped: those the system
takes back when it needs them."""

import re
import threading
from pathlib import Path
from types import TracebackType

EVERY = 0.05  # seconds


class Watched:
    """``most`` is what it came to, in GiB."""

    def __enter__(self) -> "Watched":
        self.most, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.over.wait(EVERY):
            found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
            self.most = max(self.most, int(found.group(1)) / 2**20 if found else float("nan"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self.thread.join()
