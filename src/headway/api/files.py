"""Plain files of lines, as verbs read and write them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from headway.config.errors import Problem, is_unicode
from headway.data.files import COMPRESSIONS, open_text, require_file
from headway.data.storage import write_whole


def read_lines(path: str | Path) -> list[str]:
    """The lines of a file in UTF-8, which may be compressed."""
    require_file(Path(path))
    with open_text(Path(path), "utf-8", setting=None) as content:
        return [line.rstrip("\r\n") for line in content]


def checked_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of standard input."""
    try:
        for number, line in enumerate(lines, start=1):
            if not is_unicode(line):
                raise Problem(f"the standard input, line {number}, is not in UTF-8: convert it, for example with iconv")
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise Problem(f"the standard input is not {error.encoding}: {error.reason} at byte {error.start}") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """The file is whole, or as it was before."""
    write_whole(path, "".join(f"{line}\n" for line in lines))


def refuse_compressed(path: Path) -> None:
    """A file that is written is not compressed, whatever its name says."""
    if path.suffix.lower() in COMPRESSIONS:
        raise Problem(f"{path} would not be compressed: leave out {path.suffix}")
