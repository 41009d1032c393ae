"""headway: a workshop for sequence models."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.nn.attention import watch_attention
    from headway.runs.run import Run, load

__all__ = ["Run", "__version__", "load", "watch_attention"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: torch takes seconds, and ``headway --help`` needs none of it."""
    if name == "watch_attention":
        from headway.nn.attention import watch_attention

        return watch_attention
    if name in ("Run", "load"):
        from headway.runs import run

        return getattr(run, name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
