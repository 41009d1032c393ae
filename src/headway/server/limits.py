"""How much one request, and all of them together, may cost."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    body: int = MIB  # bytes of a request
    text: int = 65_536  # characters of a text in it
    texts: int = 256  # in a request
    tokens: int = 4_096  # that a request may ask for
    seconds: float = 60.0  # until an answer is complete, its time in the queue included
    body_seconds: float = 10.0  # until a request has arrived
    batch: int = 32  # texts that are written at the same time
    queue: int = 64  # requests that may wait
    cache: int = 1024 * MIB  # bytes of the keys and values of a model
    drain: float = 10.0  # seconds that answers may take after a signal to stop
