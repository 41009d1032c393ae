"""What a process would send, by the part of the model that sends it: the other ranks are imagined."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from headway.nn.collectives import Imagined

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
LOSS = "loss"  # computed outside of any module
FORWARD, BACKWARD, GRADIENTS = "forward", "backward", "gradients"


@dataclass(frozen=True)
class Sending:
    """What a process hands to one collective."""

    axis: str
    kind: str
    phase: str
    part: str  # the name of a module; empty: none, gradients are added up after the backward pass
    bytes: int


@dataclass
class Watch:
    """Follows a forward and a backward pass."""

    phase: str = FORWARD
    places: list[str] = field(default_factory=list)  # the modules that are being computed, the innermost last
    sendings: list[Sending] = field(default_factory=list)

    def follow(self, model: nn.Module) -> None:
        def enter(name: str) -> Callable[..., None]:
            return lambda *given: self.places.append(name)

        def leave(*given: Any) -> None:
            self.places.pop()

        for name, part in model.named_modules():
            part.register_forward_pre_hook(enter(name), prepend=True)  # before what the part itself does on entering
            part.register_forward_hook(leave)


@dataclass(frozen=True)
class Traced(Imagined):
    watch: Watch = field(default_factory=Watch)
    place: str = ""

    def here(self) -> "Traced":
        return replace(self, place=self.watch.places[-1] if self.watch.places else LOSS)

    def count(self, kind: str, x: Tensor) -> None:
        size = x.numel() * x.element_size()
        self.watch.sendings.append(Sending(self.name, kind, self.watch.phase, self.place, size))


def in_words(counts: Mapping[str, int]) -> str:
    """Bytes by kind of collective."""
    return ", ".join(f"{kind} {in_bytes(count)}" for kind, count in counts.items())


def in_bytes(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit < len(UNITS) - 1:
        size, unit = size / 1024, unit + 1
    digits = ".0f" if unit == 0 or size >= 1000 else ".3g"
    return f"{size:{digits}} {UNITS[unit]}"
