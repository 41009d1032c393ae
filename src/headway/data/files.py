"""Opening files: compressed or not, in UTF-8 or in the encoding that a setting names."""

import bz2
import codecs
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from headway.config.errors import BadSetting, Problem

Progress = Callable[[str, float], None]  # what is being done, and the fraction done


def silent(what: str, share: float) -> None:
    """Show no progress."""


def tell_making(progress: Progress, made: int, count: int) -> None:
    """Of a thousand examples, now and then."""
    if made % 1000 == 0:
        progress("making the data", made / count)


class Relay:
    """Passes progress on to the current listener."""

    def __init__(self) -> None:
        self.to: Progress = silent

    def __call__(self, what: str, share: float) -> None:
        self.to(what, share)


def zstandard(file: IO[bytes]) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file), "zstd")


COMPRESSIONS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".xz": lzma.LZMAFile,
    ".bz2": bz2.BZ2File,
    ".zst": zstandard,
}
MOST_EXPANSION, SMALL = 200, 1 << 26  # of a compressed file beyond so many bytes
BYTE_ORDER_MARKS = {  # that of UTF-8 is skipped when reading
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MAGIC_BYTES = {b"\x1f\x8b": ".gz", b"\xfd7zXZ": ".xz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}


SAVE_AS = "open it in the program that made it, and save it as CSV in UTF-8"
NO_TEXT = {  # files that are often named .csv or .txt, by how they begin
    b"PK\x03\x04": f"a spreadsheet (.xlsx, .ods), another document or a zip archive, not text: {SAVE_AS}",
    b"\xd0\xcf\x11\xe0": f"a spreadsheet (.xls) or another document of an old Office, not text: {SAVE_AS}",
    b"%PDF-": "a PDF, not text: extract its text first",
    b"PAR1": "Parquet: rename it to end in .parquet",
    b"SQLite format 3\0": "a database of SQLite, not text: export a table as CSV",
}


def require_file(path: Path, or_folder: bool = False) -> None:
    """Not a pipe or a device either: files are read more than once, and reading could have no end."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise Problem(f"{path} is neither a file nor a folder: write its content into a file")
    if not (os.path.exists(path) if or_folder else os.path.isfile(path)):  # for names of any length
        near = get_close_matches(path.name, names_in(path.parent), n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ""
        raise Problem(f"there is no file {path} (current folder: {Path.cwd()}){hint}")


def names_in(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def format_of(path: Path) -> str:
    """``reviews.csv.gz`` is ``csv``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1][1:] if suffixes else ""


@contextmanager
def open_bytes(path: Path, progress: Progress = silent) -> Iterator[Any]:
    """The uncompressed content; errors while reading name this file."""
    try:
        with Counted(path, progress) as file:
            expand = COMPRESSIONS.get(path.suffix.lower())
            yield io.BufferedReader(file if expand is None else Expanded(expand(io.BufferedReader(file)), file))
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem(f"{path} cannot be read: {reason}") from None


@contextmanager
def open_text(
    path: Path, encoding: str, progress: Progress = silent, setting: str | None = "data.encoding"
) -> Iterator[io.TextIOWrapper]:
    """The text with its line ends unchanged and without the byte-order mark of UTF-8; ``setting`` is the one that an
    error about the encoding names."""
    refuse_unknown(encoding)
    refuse_other_encoding(path, encoding, setting)
    with open_bytes(path, progress) as file:
        try:
            name = "utf-8-sig" if is_utf8(encoding) else encoding
            yield io.TextIOWrapper(file, name, newline="")
        except UnicodeError as error:
            raise Problem(undecodable(path, encoding, error, setting)) from None


class Counted(io.FileIO):
    """A file that reports how much of it has been read."""

    def __init__(self, path: Path, progress: Progress):
        super().__init__(path)
        self.size = max(path.stat().st_size, 1)
        self.what, self.progress = path.name, progress

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.progress(self.what, self.tell() / self.size)
        return count


class Expanded(io.RawIOBase):
    """The content of a compressed file: no text expands to more than 200 times its size, but a bomb does."""

    def __init__(self, content: Any, file: Counted):
        self.content, self.file, self.count = content, file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.content.read(len(buffer))
        buffer[: len(piece)] = piece
        self.count += len(piece)
        if self.count > SMALL + MOST_EXPANSION * self.file.size:
            raise OSError(f"it expands to more than {MOST_EXPANSION} times its size")
        return len(piece)


def refuse_unknown(encoding: str) -> None:
    try:
        bytes(4).decode(encoding, "replace")  # a lookup alone would accept codecs that are not for text
    except LookupError:
        raise BadSetting("data.encoding", f"no encoding {encoding!r}; try utf-8, utf-16, cp1252 or latin-1") from None


def remedy(path: Path, encoding: str, setting: str | None) -> str:
    return f"set {setting}={encoding}" if setting else f"convert it: iconv -f {encoding} -t utf-8 {path.name}"


def refuse_other_encoding(path: Path, encoding: str, setting: str | None) -> None:
    """Look at the first bytes: compressed, a spreadsheet, UTF-16 or UTF-32?"""
    with open_bytes(path) as file:
        start = file.read(1024)
    suffix = next((name for magic, name in MAGIC_BYTES.items() if start.startswith(magic)), None)
    if suffix is not None:
        raise Problem(f"{path} is compressed, but its name does not end in {suffix}: rename it")
    if what := next((what for magic, what in NO_TEXT.items() if start.startswith(magic)), None):
        raise Problem(f"{path} is {what}")
    if not is_utf8(encoding):
        return
    for mark, name in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            what = remedy(path, name, setting)
            raise Problem(f"{path} is not UTF-8: it begins with the byte-order mark of {name.upper()}; {what}")
    if b"\0" in start:
        raise Problem(f"{path} is not UTF-8: {about_zeros(path, start, setting)}")


def about_zeros(path: Path, start: bytes, setting: str | None) -> str:
    """In UTF-16, every second byte of European text is zero; a few zeros come from a damaged file."""
    for name, own in {"utf-16-le": start[1::2], "utf-16-be": start[0::2]}.items():
        if own.count(0) > len(own) / 4:
            return f"it contains zero bytes; if it is UTF-16, {remedy(path, name, setting)}"
    line = start[: start.index(0)].count(b"\n") + 1
    return (
        f"line {line} contains a zero byte, which no text has; if the rest is text, remove them: "
        f"tr -d '\\000' < {path.name} > clean-{path.name}"
    )


def is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "utf-8"


def undecodable(path: Path, encoding: str, error: UnicodeError, setting: str | None) -> str:
    """Search for the line: the decoder failed in a buffer and does not know its position in the file."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as bad:
                byte = f"byte {line[bad.start]:#04x} at column {bad.start + 1}"
                likely = "cp1252" if decodes(line, "cp1252") else "latin-1"
                what = f"if it is {likely}, {remedy(path, likely, setting)}"
                return f"{path}, line {number}: {byte} is not {encoding}; {what}"
    return f"{path} is not {encoding}: {error}"


def decodes(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
