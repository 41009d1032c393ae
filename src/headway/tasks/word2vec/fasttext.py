"""fastText's .bin format: words with counts, the input matrix of words and n-grams, and the output matrix. The matrices
are memory-mapped."""

import struct
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from headway.config.errors import Problem
from headway.tasks.word2vec.ngrams import Ngrams
from headway.tasks.word2vec.word_vectors import CHUNK, Buckets, WordVectors

MAGIC, VERSION = 793712314, 12
ARGUMENTS = struct.Struct("<12id")
MAX_BYTES = 1 << 16  # of a word
LINE_END = "</s>"
NEGATIVE, SKIPGRAM = 2, 2  # in the fields loss and model


def read_word(file: IO[bytes], end: bytes, path: Path, number: int) -> bytes:
    word = bytearray()
    while (byte := file.read(1)) != end:
        word += byte
        if not byte or len(word) > MAX_BYTES:
            raise Problem(f"{path}: word {number + 1:,} has no end")
    return bytes(word)


def check_size(path: Path, least: int) -> None:
    if path.stat().st_size < least:
        raise Problem(f"{path} is incomplete: it has {path.stat().st_size:,} bytes, expected at least {least:,}")


class Fields(NamedTuple):
    """The training arguments in a file, in this order."""

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


def read_fasttext(path: Path) -> WordVectors:
    with path.open("rb") as file:

        def take(form: str) -> tuple[Any, ...]:
            size = struct.calcsize("<" + form)
            content = file.read(size)
            if len(content) < size:
                raise Problem(f"{path} is incomplete: it ends after {path.stat().st_size:,} bytes")
            return struct.unpack("<" + form, content)

        magic, version = take("2i")
        if (magic, version) != (MAGIC, VERSION):
            raise Problem(f"{path}: version {version} of fastText's format is not supported, only {VERSION}")
        fields = Fields(*take(ARGUMENTS.format.removeprefix("<")))
        size, words_size, labels, _, pruned = take("3i2q")
        if labels or pruned >= 0:
            raise Problem(f"{path} is a fastText classifier or a pruned model, not a table of word vectors")
        if not 0 < size == words_size or not 0 < fields.width < 1 << 16 or fields.buckets < 0:
            raise Problem(f"{path} is damaged: {size:,} words of width {fields.width}")
        check_size(path, size * 10)
        words, counts = [], np.empty(size, np.int64)
        for number in range(size):
            words.append(read_word(file, b"\0", path, number).decode("utf-8", "replace"))
            counts[number], _ = take("qb")
        if take("b") != (0,):
            raise Problem(f"{path} is quantized: use fastText to write its vectors as text")
        rows, width = take("2q")
        if (rows, width) != (size + fields.buckets, fields.width):
            raise Problem(f"{path} is damaged: its matrix is {rows:,} x {width:,}")
        check_size(path, file.tell() + 4 * rows * width)
        matrix = np.memmap(path, "<f4", "r", file.tell(), (rows, width))
        refuse_not_finite(matrix, words, path)
        file.seek(4 * rows * width, 1)
        outputs = outputs_after(file, size, width, path)
        if outputs is not None:
            refuse_not_finite(outputs, words, path)
    if not fields.buckets or fields.most < 1:
        return WordVectors(words, matrix[:size], None, counts, outputs)
    try:
        ngrams = Ngrams(max(fields.least, 1), fields.most, fields.buckets)
    except Problem as problem:
        raise Problem(f"{path} is damaged: {problem}") from None
    means = np.stack(
        [
            matrix[[number, *([] if word == LINE_END else ngrams.rows(word, size))]].mean(axis=0, dtype=np.float32)
            for number, word in enumerate(words)
        ]
    )
    return WordVectors(words, means, Buckets(ngrams, matrix[size:], matrix[:size]), counts, outputs)


def refuse_not_finite(matrix: np.ndarray, words: list[str], path: Path) -> None:
    for first in range(0, len(matrix), CHUNK):
        finite = np.isfinite(matrix[first : first + CHUNK]).all(axis=1)
        if not finite.all():
            row = first + int(finite.argmin())
            what = f"word {row + 1:,}, {words[row]!r}," if row < len(words) else f"bucket {row - len(words):,}"
            raise Problem(f"{path}: the vector of {what} has a number that is not finite")


def outputs_after(file: IO[bytes], size: int, width: int, path: Path) -> np.ndarray | None:
    """The output matrix; None if it does not have one row per word (hierarchical softmax)."""
    head = file.read(17)
    if len(head) < 17 or struct.unpack("<?2q", head) != (False, size, width):
        return None
    check_size(path, file.tell() + 4 * size * width)
    return np.memmap(path, "<f4", "r", file.tell(), (size, width))


def write_fasttext(table: WordVectors, path: Path) -> None:
    """Training arguments are written as defaults, missing counts as ones, missing output vectors as zeros."""
    ngrams = None if table.buckets is None else table.buckets.ngrams
    buckets, least, most = (0, 0, 0) if ngrams is None else (ngrams.buckets, ngrams.least, ngrams.most)
    counts = np.ones(len(table), np.int64) if table.counts is None else table.counts
    fields = Fields(table.width, 5, 1, 1, 5, 1, NEGATIVE, SKIPGRAM, buckets, least, most, 100, 1e-4)
    with path.open("wb") as file:
        file.write(struct.pack("<2i", MAGIC, VERSION) + ARGUMENTS.pack(*fields))
        file.write(struct.pack("<3i2q", len(table), len(table), 0, int(counts.sum()), -1))
        for word, count in zip(table.words, counts, strict=True):
            if not word or "\0" in word:
                raise Problem(
                    f"the word {word!r} cannot be written in this format: it is empty, or contains a zero byte"
                )
            file.write(word.encode() + struct.pack("<bqb", 0, count, 0))
        own, rest = (table.matrix, []) if table.buckets is None else (table.buckets.own, [table.buckets.rows])
        write_matrix(file, [own, *rest], table.width)
        write_matrix(file, [np.zeros_like(own) if table.outputs is None else table.outputs], table.width)


def write_matrix(file: IO[bytes], parts: list[np.ndarray], width: int) -> None:
    file.write(struct.pack("<?2q", False, sum(len(part) for part in parts), width))
    for part in parts:
        for first in range(0, len(part), CHUNK):
            file.write(np.ascontiguousarray(part[first : first + CHUNK], "<f4").tobytes())


def is_fasttext(start: bytes) -> bool:
    return start[:4] == struct.pack("<i", MAGIC)
