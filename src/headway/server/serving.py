"""``headway serve``: from runs to a server that answers, until a signal stops it."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.config.errors import Problem
from headway.server.limits import Limits
from headway.server.link import ModelProcess
from headway.server.logs import Log, Records
from headway.server.security import Access

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    from headway.server.app import Site
except ImportError as error:
    raise Problem(f"the server needs {error.name}: pip install 'headway[serve]'") from None
MOST_HEAD = 1 << 19  # bytes of a request before its body; above what is read at once
STOPPING = signal.SIGINT, signal.SIGTERM


class Protocol(HttpToolsProtocol):
    """With a bound on the head of a request, which its parser does not have."""

    unread = 0  # bytes since the last request was complete
    in_body = False

    def data_received(self, data: bytes) -> None:
        self.unread += len(data)
        if self.unread > MOST_HEAD and not self.in_body:
            self.send_400_response("The head of this request is too large.")
        else:
            super().data_received(data)

    def on_headers_complete(self) -> None:
        self.in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_body, self.unread = False, 0
        super().on_message_complete()


class Server(uvicorn.Server):
    """The first signal lets open requests end, the second one does not."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in STOPPING:
                loop.remove_signal_handler(number)


def serve(
    runs: Sequence[Path], port: int, access: Access, limits: Limits, log: Log, started: Callable[[str], Any]
) -> None:
    """Serve until a signal; ``started`` is called with the address once requests are answered."""
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:  # uvloop's, if it is there
        runner.run(run(named(runs), port, access, limits, log, started))


async def run(
    runs: dict[str, str], port: int, access: Access, limits: Limits, log: Log, started: Callable[[str], Any]
) -> None:
    Records.attach(log)
    listener = bound(access.host, port)
    process = ModelProcess(runs, limits, log)
    try:
        await process.start()
        site = Site(process, access, log)
        config = uvicorn.Config(
            site.app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            http=Protocol,
            timeout_graceful_shutdown=max(1, round(limits.drain)),
        )
        server = Server(config)
        loop = asyncio.get_running_loop()
        loop.call_soon(started, address(listener))
        await server.serve([listener])
    finally:
        listener.close()
        await process.stop()


def named(runs: Sequence[Path]) -> dict[str, str]:
    """The runs by the names of their folders."""
    names: dict[str, str] = {}
    for run in runs:
        name = run.resolve().name
        if name in names:
            raise Problem(f"{names[name]} and {run} are both called {name}: rename one of the folders")
        names[name] = str(run)
    return names


def bound(host: str, port: int) -> socket.socket:
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
    except OSError as error:
        raise Problem(f"cannot listen on {host}, port {port}: {error.strerror}; name another one") from None
    return listener


def address(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
