"""fastText's .bin: words with their counts, and a matrix of words and n-grams, from which any word has a vector; then
a matrix of the words as those that are looked for. The matrices stay on the disk."""

import struct
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from headway.config.errors import Problem
from headway.tasks.word2vec.ngrams import Ngrams
from headway.tasks.word2vec.table import AT_ONCE, Buckets, Table

MAGIC, VERSION = 793712314, 12
ARGUMENTS = struct.Struct("<12id")
LONGEST = 1 << 16  # bytes of a word
END = "</s>"  # the end of a line
NEGATIVE, SKIPGRAM = 2, 2  # the numbers of a loss and of a model


def word_up_to(file: IO[bytes], end: bytes, path: Path, number: int) -> str:
    found = bytearray()
    while (byte := file.read(1)) != end:
        found += byte
        if not byte or len(found) > LONGEST:
            raise Problem(f"{path}: word {number + 1:,} has no end")
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found.decode("utf-8", "replace")


def refuse_small(path: Path, least: int) -> None:
    if path.stat().st_size < least:
        raise Problem(f"{path} is not whole: it has {path.stat().st_size:,} bytes, and should have {least:,} or more")


class Fields(NamedTuple):
    """What a fastText file says of its training, in the order in which it stands there."""

    width: int
    window: int
    epochs: int
    least_count: int
    negatives: int
    word_ngrams: int
    loss: int
    model: int
    buckets: int
    least: int
    most: int
    rate_every: int
    sample: float


def read_fasttext(path: Path) -> Table:
    with path.open("rb") as file:

        def take(form: str) -> tuple[Any, ...]:
            size = struct.calcsize("<" + form)
            content = file.read(size)
            if len(content) < size:
                raise Problem(f"{path} is not whole: it ends after {path.stat().st_size:,} bytes")
            return struct.unpack("<" + form, content)

        magic, version = take("2i")
        if (magic, version) != (MAGIC, VERSION):
            raise Problem(f"{path}: version {version} of fastText's format is not known here: {VERSION} is")
        fields = Fields(*take(ARGUMENTS.format.removeprefix("<")))
        size, words_there, labels, _, pruned = take("3i2q")
        if labels or pruned >= 0:
            raise Problem(f"{path} is a classifier of fastText's, or one that was made smaller: no table of words")
        if not 0 < size == words_there or not 0 < fields.width < 1 << 16 or fields.buckets < 0:
            raise Problem(f"{path} is damaged: {size:,} words of width {fields.width}")
        refuse_small(path, size * 10)
        words, counts = [], np.empty(size, np.int64)
        for number in range(size):
            words.append(word_up_to(file, b"\0", path, number))
            counts[number], _ = take("qb")
        if take("b") != (0,):
            raise Problem(f"{path} is compressed (quantized): fastText itself can write its vectors as text")
        rows, width = take("2q")
        if (rows, width) != (size + fields.buckets, fields.width):
            raise Problem(f"{path} is damaged: its matrix is {rows:,} x {width:,}")
        refuse_small(path, file.tell() + 4 * rows * width)
        matrix = np.memmap(path, "<f4", "r", file.tell(), (rows, width))
        file.seek(4 * rows * width, 1)
        outputs = outputs_after(file, size, width, path)
    if not fields.buckets or fields.most < 1:
        return Table(words, matrix[:size], None, counts, outputs)
    ngrams = Ngrams(max(fields.least, 1), fields.most, fields.buckets)
    means = np.stack(
        [
            matrix[[number, *([] if word == END else ngrams.rows(word, size))]].mean(axis=0, dtype=np.float32)
            for number, word in enumerate(words)
        ]
    )
    return Table(words, means, Buckets(ngrams, matrix[size:], matrix[:size]), counts, outputs)


def outputs_after(file: IO[bytes], size: int, width: int, path: Path) -> np.ndarray | None:
    """The second matrix; none where the file has none of a row a word, as that of a tree."""
    head = file.read(17)
    if len(head) < 17 or struct.unpack("<?2q", head) != (False, size, width):
        return None
    refuse_small(path, file.tell() + 4 * size * width)
    return np.memmap(path, "<f4", "r", file.tell(), (size, width))


def write_fasttext(table: Table, path: Path) -> None:
    """What is not known (how it was trained, and at times the counts and the second matrix) is written as its least."""
    ngrams = None if table.buckets is None else table.buckets.ngrams
    buckets, least, most = (0, 0, 0) if ngrams is None else (ngrams.buckets, ngrams.least, ngrams.most)
    counts = np.ones(len(table), np.int64) if table.counts is None else table.counts
    fields = Fields(table.width, 5, 1, 1, 5, 1, NEGATIVE, SKIPGRAM, buckets, least, most, 100, 1e-4)
    with path.open("wb") as file:
        file.write(struct.pack("<2i", MAGIC, VERSION) + ARGUMENTS.pack(*fields))
        file.write(struct.pack("<3i2q", len(table), len(table), 0, int(counts.sum()), -1))
        for word, count in zip(table.words, counts, strict=True):
            if not word or "\0" in word:
                raise Problem(f"the word {word!r} cannot be written in this format")
            file.write(word.encode() + struct.pack("<bqb", 0, count, 0))
        own, rest = (table.matrix, []) if table.buckets is None else (table.buckets.own, [table.buckets.rows])
        write_matrix(file, [own, *rest], table.width)
        write_matrix(file, [np.zeros_like(own) if table.outputs is None else table.outputs], table.width)


def write_matrix(file: IO[bytes], parts: list[np.ndarray], width: int) -> None:
    file.write(struct.pack("<?2q", False, sum(len(part) for part in parts), width))
    for part in parts:
        for first in range(0, len(part), AT_ONCE):
            file.write(np.ascontiguousarray(part[first : first + AT_ONCE], "<f4").tobytes())


def is_fasttext(start: bytes) -> bool:
    return start[:4] == struct.pack("<i", MAGIC)
