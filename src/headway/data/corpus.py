"""A corpus: labelled texts in a file, read as a stream, indexed and encoded once, and kept in the cache.

    index/KEY/   labels.json, left_out.json and rows.npy: of each text its label, its group and a fingerprint
    tokens/KEY/  tokens.bin and lengths.npy: all texts as numbers, one after another

Nothing here holds all texts in memory; the numbers are mapped from the disk.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.config.errors import Problem
from headway.data.cache import kept, key_of
from headway.data.examples import Example, LeftOut, Reading, examples, find_columns
from headway.data.files import Progress, silent
from headway.data.ragged import RaggedTokens
from headway.data.readers import checksum, records
from headway.text.tokenizer import Tokenizer

ROW = np.dtype([("label", "<i4"), ("group", "<u8"), ("text", "<u8"), ("line", "<i8")])
AT_ONCE, LETTERS = 256, 1 << 20  # texts that are encoded in one call, and how many letters they may have


class Index(NamedTuple):
    labels: list[str]  # the classes, sorted
    rows: np.ndarray  # of ROW; groups and texts by their fingerprints
    notes: list[str]  # what was left out

    @property
    def wholes(self) -> np.ndarray:
        """(rows,): a fingerprint of the whole text that each is a piece of: rows of one line are."""
        begins = np.flatnonzero(np.diff(self.rows["line"], prepend=-1) != 0)
        pieces = np.diff(begins, append=len(self.rows))
        return np.repeat(np.add.reduceat(self.rows["text"], begins), pieces)


class Corpus:
    def __init__(self, path: Path, reading: Reading, progress: Progress = silent):
        self.path, self.reading, self.progress = path, reading, progress
        if not path.exists():
            raise Problem(f"there is no file {path} (seen from {Path.cwd()})")

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def content(self) -> str:
        """A checksum of what is in the file, whatever its name and age."""
        return checksum([self.path], self.reading.format)

    def check(self) -> None:
        """Refuse a file that lacks the columns that are asked for."""
        _ = self.columns

    @cached_property
    def key(self) -> str:
        """Of the content and how it is read."""
        kind = "folder" if self.path.is_dir() else "".join(self.path.suffixes[-2:])
        return key_of(content=self.content, kind=kind, reading=asdict(self.reading))

    def examples(self, doing: str, left_out: LeftOut | None = None) -> Iterator[Example]:
        return examples(self.path, self.reading, left_out, lambda name, share: self.progress(f"{doing} {name}", share))

    @property
    def columns(self) -> dict[str, str]:
        """Which columns texts and labels are read from."""
        first = next(records(self.path, self.reading.format, silent))
        return find_columns(first, self.reading, self.path)

    @cached_property
    def index(self) -> Index:
        folder = kept("index", self.key, self.write_index)
        labels, left_out = (json.loads((folder / name).read_text()) for name in ("labels.json", "left_out.json"))
        rows = np.load(folder / "rows.npy", allow_pickle=False)
        notes = LeftOut(**left_out).notes(self.path)
        if not len(rows):
            raise Problem(f"{self.path} has no row with a text: {'; '.join(notes)}")
        return Index(labels, rows, notes)

    def write_index(self, folder: Path) -> None:
        left_out, numbers = LeftOut(), dict[str, int]()
        found = (
            (numbers.setdefault(each.label, len(numbers)), fingerprint(each.group), fingerprint(each.text), each.line)
            for each in self.examples("reading", left_out)
        )
        rows = np.fromiter(found, dtype=ROW)
        labels = sorted(numbers, key=in_order)
        sorted_place = np.empty(len(labels), np.int32)
        sorted_place[[numbers[label] for label in labels]] = np.arange(len(labels))
        rows["label"] = sorted_place[rows["label"]] if len(rows) else 0
        np.save(folder / "rows.npy", rows)
        (folder / "labels.json").write_text(json.dumps(labels))
        (folder / "left_out.json").write_text(json.dumps(asdict(left_out)))

    def texts(self, doing: str, rows: np.ndarray | None = None) -> Iterator[str]:
        """The texts of these rows (a mask), or all of them; ``doing`` is what the progress says."""
        for place, example in enumerate(self.examples(doing)):
            if rows is None or rows[place]:
                yield example.text

    def encoded(self, tokenizer: Tokenizer) -> RaggedTokens:
        folder = self.keep_tokens(tokenizer)
        return RaggedTokens.mapped(folder / "tokens.bin", number_kind(tokenizer), folder / "lengths.npy")

    def keep_tokens(self, tokenizer: Tokenizer) -> Path:
        """The folder of the cache that has the encoded texts; if there is none, it is made."""
        key = key_of(corpus=self.key, tokenizer=tokenizer.to_json())
        return kept("tokens", key, lambda beside: self.write_tokens(beside, tokenizer))

    def stream(self, tokenizer: Tokenizer, mark: str, rows: np.ndarray | None = None) -> np.ndarray:
        """The texts of these rows (a mask), or all of them, in one array with a mark between documents."""
        chosen = "all" if rows is None else np.packbits(rows).tobytes().hex()
        key = key_of(corpus=self.key, tokenizer=tokenizer.to_json(), mark=mark, rows=chosen)
        folder = kept("streams", key, lambda beside: self.write_stream(beside, tokenizer, mark, rows))
        path, kind = folder / "tokens.bin", number_kind(tokenizer)
        return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)

    def write_stream(self, folder: Path, tokenizer: Tokenizer, mark: str, rows: np.ndarray | None) -> None:
        lines = self.index.rows["line"] if rows is None else self.index.rows["line"][rows]
        begins = np.diff(lines, prepend=lines[:1]) != 0  # rows of the same line are pieces of one document
        between, kind, place = tokenizer.vocabulary.index[mark], number_kind(tokenizer), 0
        with (folder / "tokens.bin").open("wb") as file:
            for texts in chunks(self.texts("encoding", rows)):
                for encoded in tokenizer.encode(texts):
                    file.write(np.append([between] if begins[place] else [], encoded).astype(kind).tobytes())
                    place += 1

    def write_tokens(self, folder: Path, tokenizer: Tokenizer) -> None:
        lengths = []
        with (folder / "tokens.bin").open("wb") as file:
            for texts in chunks(self.texts("encoding")):
                encoded = tokenizer.encode(texts)
                lengths += [len(each) for each in encoded]
                file.write(np.concatenate(encoded).astype(number_kind(tokenizer)).tobytes())
        np.save(folder / "lengths.npy", np.array(lengths, dtype=np.int64))


class Joined(Corpus):
    """Several corpora as one."""

    def __init__(self, corpora: Sequence[Corpus]):
        self.corpora = corpora
        self.path = Path(", ".join(str(each.path) for each in corpora))

    @cached_property
    def content(self) -> str:
        return key_of(contents=[each.content for each in self.corpora])

    @cached_property
    def key(self) -> str:
        return key_of(keys=[each.key for each in self.corpora])

    @property
    def columns(self) -> dict[str, str]:
        first, *_ = (each.columns for each in self.corpora)
        return first

    @cached_property
    def index(self) -> Index:
        """Lines are counted on from one to the next. Labels are not joined: nobody asks for them."""
        rows, lines = [], 0
        for each in self.corpora:
            found = each.index.rows.copy()
            found["line"] += lines
            lines = int(found["line"].max())
            rows.append(found)
        return Index([], np.concatenate(rows), [note for each in self.corpora for note in each.index.notes])

    def texts(self, doing: str, rows: np.ndarray | None = None) -> Iterator[str]:
        first = 0
        for each in self.corpora:
            end = first + len(each.index.rows)
            yield from each.texts(doing, None if rows is None else rows[first:end])
            first = end

    def write_tokens(self, folder: Path, tokenizer: Tokenizer) -> None:
        found = [each.encoded(tokenizer) for each in self.corpora]
        with (folder / "tokens.bin").open("wb") as file:
            for each in found:
                each.tokens.tofile(file)
        np.save(folder / "lengths.npy", np.concatenate([each.sizes for each in found]))


def number_kind(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest that all tokens fit in."""
    return np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32


def chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    """So few at a time that what the tokenizer makes of them does not fill the memory."""
    chunk, letters = [], 0
    for text in texts:
        chunk.append(text)
        letters += len(text)
        if len(chunk) == AT_ONCE or letters > LETTERS:
            yield chunk
            chunk, letters = [], 0
    if chunk:
        yield chunk


def fingerprint(text: str) -> int:
    """64 bits: among a million texts, two different ones meet by chance once in forty million cases."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def in_order(label: str) -> tuple[bool, float, str]:
    """Numbers by their value, before words in the order of the alphabet."""
    number = re.fullmatch(r"[+-]?\d+(\.\d+)?", label)
    return (False, float(label), label) if number else (True, 0.0, label)


def cut(groups: np.ndarray, shares: Sequence[float]) -> list[np.ndarray]:
    """Rows as masks: a part of about each share, and last the rest. No group is in two of them.

    Groups are put into a random order, the same for the same groups whatever the seed of a run, and each part takes the
    next ones until it has its share.
    """
    found, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(found * np.uint64(0x9E3779B97F4A7C15), kind="stable")
    reached = np.cumsum(counts[order]) - counts[order] / 2
    bounds = np.cumsum(shares) * len(groups)
    part = np.empty(len(found), np.int64)
    part[order] = np.searchsorted(bounds, reached, side="right")
    return [part[inverse] == number for number in range(len(shares) + 1)]
