"""Logs: a line of JSON for each request, on standard error, without the texts unless they are asked for."""

import json
import logging
import sys
import traceback
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


class Records(logging.Handler):
    """What uvicorn has to say, in the same form."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else None
        self.log.write("web_process", level=record.levelname.lower(), message=record.getMessage(), trace=trace)

    @classmethod
    def attach(cls, log: Log) -> None:
        logger = logging.getLogger("uvicorn")
        logger.handlers, logger.propagate = [cls(log)], False
