"""The terminal: what is printed there and did not come from us is made visible in one place."""

from collections.abc import Iterable

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment

from headway.config.errors import visible


class Console(RichConsole):
    """Without markup: brackets and colons in a label are text. rich's own control codes are no text."""

    def __init__(self, stderr: bool = False, width: int | None = None):
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
