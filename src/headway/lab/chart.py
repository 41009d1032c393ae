"""Charts made of characters."""

from collections.abc import Sequence

EIGHTHS = " ▁▂▃▄▅▆▇█"


def columns(values: Sequence[float], height: int = 8, top: float | None = None) -> list[str]:
    """Lines of text, top first: each value is a column; ``top``, or the largest of them, is as high as the chart."""
    top = top or max(max(values), 1e-30)
    filled = [round(8 * height * max(value, 0.0) / top) for value in values]
    return [
        "".join(EIGHTHS[min(max(eighths - 8 * row, 0), 8)] for eighths in filled) for row in reversed(range(height))
    ]
