"""Logs: a line of JSON for each request, on standard error, without the texts unless they are asked for."""

import json
import sys
from datetime import UTC, datetime
from typing import Any


class Log:
    def __init__(self, texts: bool = False, quiet: bool = False):
        self.texts, self.quiet = texts, quiet

    def write(self, event: str, **fields: Any) -> None:
        if self.quiet:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "event": event, **{name: value for name, value in fields.items() if value is not None}}
        print(json.dumps(line, ensure_ascii=False, default=str), file=sys.stderr, flush=True)
