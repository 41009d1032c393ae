"""Reading and writing files of word vectors.

- word2vec text and fastText .vec: a header of two numbers, then a word and its numbers on each line
- GloVe text: the same without the header
- word2vec binary: the same header, then each word, a space, and its numbers as float32
- fastText .bin: see fasttext

Errors name the line or the word. Sizes in a header are checked against the size of the file before they are used.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from headway.config.errors import Problem
from headway.data.files import open_text, require_file
from headway.data.storage import new_file
from headway.tasks.word2vec.fasttext import check_size, is_fasttext, read_fasttext, read_word, write_fasttext
from headway.tasks.word2vec.word_vectors import WordVectors

MOST_DIGITS = 18
HUGE = 1e12  # of a number in a vector: bytes of something else are read as one


def read_text(path: Path) -> WordVectors:
    words: list[str] = []
    rows: list[np.ndarray] = []
    size = None
    with open_text(path, "utf-8") as file:
        for line, text in enumerate(file, start=1):
            parts = text.rstrip("\r\n ").split(" ")
            if line == 1 and len(parts) == 2 and all(is_count(part) for part in parts):
                size = counts(parts, path)
                continue
            if parts == [""]:
                continue
            width = len(rows[0]) if rows else size[1] if size else len(parts) - 1
            if width < 1 or len(parts) < width + 1:
                raise Problem(f"{path}, line {line}: {len(parts) - 1} numbers, expected {max(width, 1)}")
            try:
                rows.append(np.array(parts[-width:], np.float32))
            except ValueError:
                raise Problem(f"{path}, line {line}: not all are numbers: {' '.join(parts[-3:])[:60]!r}") from None
            if not np.isfinite(rows[-1]).all():
                raise Problem(f"{path}, line {line}: the vector of {parts[0][:60]!r} has a number that is not finite")
            words.append(word_of(parts[:-width], size is not None, f"{path}, line {line}"))
    if not words:
        raise Problem(f"{path} has no vectors")
    if size is not None and len(words) != size[0]:
        raise Problem(f"{path} is damaged: the header says {size[0]:,} words, but there are {len(words):,}")
    return WordVectors(words, np.stack(rows))


def plain_word(read: bytes, where: str) -> str:
    """Without the line end of the word before. After a word with a space, bytes of its vector stand before the next
    word: they are hardly ever text."""
    try:
        word = read.lstrip(b"\n").decode()
    except UnicodeDecodeError:
        word = ""
    if not word or any(ord(letter) < 32 for letter in word):
        raise Problem(f"{where} is no text: the file is damaged, or a word before it contains a space")
    return word


def word_of(parts: list[str], has_header: bool, where: str) -> str:
    """Some words of GloVe contain spaces; a part that may be a number is refused, since the vector may begin there."""
    word = " ".join(parts)
    if len(parts) > 1 and (has_header or is_number(parts[-1])):
        raise Problem(f"{where}: more numbers than in the lines before, or a space in the word {word[:60]!r}")
    if not word or "\t" in word:
        raise Problem(f"{where}: the word {word[:60]!r} is empty, or contains a tab")
    return word


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_count(text: str | bytes) -> bool:
    """``²`` is a digit, but no number."""
    return text.isascii() and text.isdigit()


def counts(header: Sequence[str | bytes], path: Path) -> tuple[int, int]:
    """The number of words and the width; Python reads no number of thousands of digits."""
    if any(len(count) > MOST_DIGITS for count in header):
        raise Problem(f"{path} is damaged: its first line has a number of more than {MOST_DIGITS} digits")
    if int(header[1]) < 1:
        raise Problem(f"{path} is damaged: its first line says that a vector has no numbers")
    return int(header[0]), int(header[1])


def read_word2vec(path: Path) -> WordVectors:
    with path.open("rb") as file:
        header = file.readline(100).split()
        if len(header) != 2 or not all(map(is_count, header)):
            raise Problem(f"{path} is not a word2vec or fastText file: its first line is not two numbers")
        count, width = counts(header, path)
        check_size(path, count * (width * 4 + 1))
        words, matrix = [], np.empty((count, width), np.float32)
        for number in range(count):
            words.append(plain_word(read_word(file, b" ", path, number), f"{path}: word {number + 1:,}"))
            row = file.read(4 * width)
            if len(row) < 4 * width:
                raise Problem(f"{path} is incomplete: it ends in word {number + 1:,} of {count:,}")
            matrix[number] = np.frombuffer(row, "<f4")
            if not np.abs(matrix[number]).max() < HUGE:  # nor is it NaN
                odd = f"the vector of word {number + 1:,}, {words[-1]!r}, has a number that is not finite, or huge"
                raise Problem(f"{path}: {odd}: the file is damaged, or the word contains a space")
        if file.read(2) not in (b"", b"\n"):
            raise Problem(f"{path} does not end after its {count:,} words: it is damaged, or a word contains a space")
    return WordVectors(words, matrix)


def write_text(table: WordVectors, path: Path, header: bool = True) -> None:
    with path.open("w", encoding="utf-8") as file:
        if header:
            file.write(f"{len(table)} {table.width}\n")
        for word, row in zip(table.words, table.matrix, strict=True):
            check_spaces(word)
            file.write(f"{word} {' '.join(np.format_float_positional(x, unique=True, trim='-') for x in row)}\n")


def write_glove(table: WordVectors, path: Path) -> None:
    write_text(table, path, header=False)


def write_word2vec(table: WordVectors, path: Path) -> None:
    with path.open("wb") as file:
        file.write(f"{len(table)} {table.width}\n".encode())
        for word, row in zip(table.words, table.matrix, strict=True):
            check_spaces(word)
            file.write(word.encode() + b" " + np.asarray(row, "<f4").tobytes())


def check_spaces(word: str) -> None:
    if not word or any(space in word for space in " \n\r"):
        raise Problem(f"the word {word!r} cannot be written in this format: it is empty, or contains a space")


FORMATS: dict[str, Callable[[WordVectors, Path], None]] = {
    "text": write_text,
    "glove": write_glove,
    "word2vec": write_word2vec,
    "fasttext": write_fasttext,
}


def write(table: WordVectors, path: Path, form: str) -> None:
    """Atomically: an existing file is replaced only when the new one is complete."""
    with new_file(path) as temporary:
        FORMATS[form](table, temporary)


def read(path: Path) -> WordVectors:
    """The format is detected from the content."""
    require_file(path)
    with path.open("rb") as file:
        start = file.read(4096)
    if is_fasttext(start):
        return read_fasttext(path)
    if start[:1] == b"\x80" or start[:6] == b"\x93NUMPY":
        raise Problem(
            f"{path} is a pickle, which can execute code when it is loaded: "
            "convert it with gensim's save_word2vec_format"
        )
    return read_word2vec(path) if is_binary(start) else read_text(path)


def is_binary(start: bytes) -> bool:
    """Whether a header of two numbers is followed by binary data."""
    header, _, rest = start.partition(b"\n")
    if len(header.split()) != 2:
        return False
    _, _, numbers = rest.partition(b" ")
    width = header.split()[1]
    known = is_count(width) and len(width) <= MOST_DIGITS
    shortest = 2 * int(width) - 1 if known else 0  # bytes of the shortest text: digits and spaces
    return any(byte < 9 or 13 < byte < 32 or byte > 126 for byte in numbers[: min(shortest, 64)])
