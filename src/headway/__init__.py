"""headway: a workshop for sequence models."""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.nn.attention import watch_attention
    from headway.runs.model import Model, load
    from headway.runs.run import Run

__all__ = ["Model", "Run", "__version__", "load", "watch_attention"]


HOMES = {  # where the public names live
    "Model": "headway.runs.model",
    "Run": "headway.runs.run",
    "load": "headway.runs.model",
    "watch_attention": "headway.nn.attention",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: torch takes seconds, and ``headway --help`` needs none of it."""
    if name not in HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
