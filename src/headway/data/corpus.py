"""A corpus: labelled texts in a file, read as a stream, indexed and encoded once, and cached.

    index/KEY/   labels.json, languages.json, left_out.json, and rows.npy: the label, language, group and fingerprint of
                 each text
    tokens/KEY/  tokens.bin and lengths.npy: the tokens of all texts, one text after another

Texts are never all in memory, and tokens are memory-mapped.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.config.errors import Problem
from headway.data.cache import kept, key_of
from headway.data.examples import Example, LeftOut, Reading, examples, find_columns, passages
from headway.data.files import Progress, require_file, silent
from headway.data.languages import Languages, Passage, refuse_spellings
from headway.data.ragged import RaggedTokens, map_tokens
from headway.data.readers import checksum, records
from headway.data.splitting import fingerprint, reader
from headway.data.storage import write_array
from headway.text.tokenizer import Tokenizer

ROW = np.dtype(
    [("label", "<i4"), ("language", "<i4"), ("group", "<u8"), ("read", "<u8"), ("text", "<u8"), ("line", "<i8")]
)
TEXTS_AT_ONCE, CHARACTERS_AT_ONCE = 256, 1 << 20  # limits of one call of the tokenizer


class Index(NamedTuple):
    labels: list[str]  # the classes, sorted
    rows: np.ndarray  # of type ROW; groups and texts are fingerprints, ``read`` is that of a group as a model reads it
    notes: list[str]  # about skipped rows
    language_names: list[str]  # sorted; [""]: they are not told apart

    @property
    def languages(self) -> Languages:
        return Languages(self.language_names, self.rows["language"])

    @property
    def wholes(self) -> np.ndarray:
        """(rows,): a fingerprint of the whole text that each row is a piece of; pieces have the same line."""
        begins = np.flatnonzero(np.diff(self.rows["line"], prepend=-1) != 0)
        pieces = np.diff(begins, append=len(self.rows))
        return np.repeat(np.add.reduceat(self.rows["text"], begins), pieces)


class Corpus:
    def __init__(self, path: Path, reading: Reading, progress: Progress = silent):
        self.path, self.reading, self.progress = path, reading, progress
        require_file(path, or_folder=True)

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def content(self) -> str:
        """A hash of the file's content, independent of its name and date."""
        return checksum([self.path], self.reading.format)

    def passages(self, notes: list[str]) -> Iterator[Passage]:
        """All texts, with where they stand; what is left out is noted at the end."""
        left_out = LeftOut()
        yield from passages(
            self.path, self.reading, left_out, lambda name, share: self.progress(f"reading {name}", share)
        )
        notes += left_out.notes(self.path)

    def check(self) -> None:
        """Refuse a file that lacks the columns to read."""
        _ = self.columns

    @cached_property
    def key(self) -> str:
        """A hash of the content and of how it is read."""
        kind = "folder" if self.path.is_dir() else "".join(self.path.suffixes[-2:])
        return key_of(content=self.content, kind=kind, reading=asdict(self.reading))

    def examples(self, doing: str, left_out: LeftOut | None = None) -> Iterator[Example]:
        return examples(self.path, self.reading, left_out, lambda name, share: self.progress(f"{doing} {name}", share))

    @property
    def columns(self) -> dict[str, str]:
        """The columns of texts and labels."""
        first = next(records(self.path, self.reading.format, silent))
        return find_columns(first, self.reading, self.path)

    @cached_property
    def index(self) -> Index:
        folder = kept("index", self.key, self.write_index)
        names = ("labels.json", "left_out.json", "languages.json")
        labels, left_out, languages = (json.loads((folder / name).read_text()) for name in names)
        rows = np.load(folder / "rows.npy", allow_pickle=False)
        notes = LeftOut(**left_out).notes(self.path)
        if not len(rows):
            raise Problem(f"{self.path} has no row with a text: {'; '.join(notes)}")
        refuse_spellings(languages, self.path)
        return Index(labels, rows, notes, languages)

    def write_index(self, folder: Path) -> None:
        left_out, numbers, languages = LeftOut(), dict[str, int](), dict[str, int]()
        by_column = self.reading.group is not None
        read = str if by_column else reader(self.reading.normalize)
        entries = (
            (
                numbers.setdefault(each.label, len(numbers)),
                languages.setdefault(each.language, len(languages)),
                fingerprint(each.group),
                fingerprint(read(each.group)),
                fingerprint(each.text),
                each.line,
            )
            for each in self.examples("reading", left_out)
        )
        rows = np.fromiter(entries, dtype=ROW)
        rows["label"] = ranks(numbers)[rows["label"]] if len(rows) else 0
        rows["language"] = ranks(languages)[rows["language"]] if len(rows) else 0
        write_array(folder / "rows.npy", rows)
        (folder / "labels.json").write_text(json.dumps(sorted(numbers, key=label_order)))
        (folder / "languages.json").write_text(json.dumps(sorted(languages, key=label_order)))
        (folder / "left_out.json").write_text(json.dumps(asdict(left_out)))

    def texts(self, doing: str, rows: np.ndarray | None = None) -> Iterator[str]:
        """The texts of these rows (a mask), or all of them; ``doing`` is shown as progress."""
        for index, example in enumerate(self.examples(doing)):
            if rows is None or rows[index]:
                yield example.text

    def encoded(self, tokenizer: Tokenizer) -> RaggedTokens:
        folder = self.keep_tokens(tokenizer)
        return RaggedTokens.mapped(folder / "tokens.bin", token_type(tokenizer), folder / "lengths.npy")

    def keep_tokens(self, tokenizer: Tokenizer) -> Path:
        """The cached folder of the encoded texts."""
        key = key_of(corpus=self.key, tokenizer=tokenizer.to_json())
        return kept("tokens", key, lambda new: self.write_tokens(new, tokenizer))

    def stream(self, tokenizer: Tokenizer, mark: str, rows: np.ndarray | None = None) -> np.ndarray:
        """The texts of these rows (a mask), or all of them, as one array of tokens with a mark between documents."""
        chosen = "all" if rows is None else np.packbits(rows).tobytes().hex()
        key = key_of(corpus=self.key, tokenizer=tokenizer.to_json(), mark=mark, rows=chosen)
        folder = kept("streams", key, lambda new: self.write_stream(new, tokenizer, mark, rows))
        return map_tokens(folder / "tokens.bin", token_type(tokenizer))

    def language_streams(self, tokenizer: Tokenizer, mark: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The texts of these rows (a mask) as one stream for each language, one behind the other, with a mark before
        each document; and (languages, 2) where they begin and end."""
        key = key_of(corpus=self.key, tokenizer=tokenizer.to_json(), mark=mark, rows=np.packbits(rows).tobytes().hex())
        folder = kept("language-streams", key, lambda new: self.write_language_streams(new, tokenizer, mark, rows))
        ends = np.cumsum(np.load(folder / "sizes.npy", allow_pickle=False))
        bounds = np.stack([np.append(0, ends[:-1]), ends], axis=1)
        return map_tokens(folder / "tokens.bin", token_type(tokenizer)), bounds

    def write_language_streams(self, folder: Path, tokenizer: Tokenizer, mark: str, rows: np.ndarray) -> None:
        encoded, index = self.encoded(tokenizer), self.index
        sizes, lines = [], index.rows["line"]
        between = np.array([tokenizer.vocabulary.index[mark]], token_type(tokenizer)).tobytes()
        own = index.languages.by_name()
        with (folder / "tokens.bin").open("wb") as file:
            for name in index.language_names:
                chosen = own[name][rows[own[name]]]
                begins = np.diff(lines[chosen], prepend=-1) != 0
                for row, is_first in zip(chosen, begins, strict=True):
                    tokens = encoded.tokens[encoded.starts[row] : encoded.starts[row] + encoded.sizes[row]]
                    file.write(between * bool(is_first) + tokens.tobytes())
                sizes.append(int(encoded.sizes[chosen].sum()) + int(begins.sum()))
        write_array(folder / "sizes.npy", np.array(sizes))

    def write_stream(self, folder: Path, tokenizer: Tokenizer, mark: str, rows: np.ndarray | None) -> None:
        lines = self.index.rows["line"] if rows is None else self.index.rows["line"][rows]
        begins = np.diff(lines, prepend=lines[:1]) != 0  # rows of the same line are pieces of one document
        between, kind, row = tokenizer.vocabulary.index[mark], token_type(tokenizer), 0
        with (folder / "tokens.bin").open("wb") as file:
            for texts in chunks(self.texts("encoding", rows)):
                for encoded in tokenizer.encode(texts):
                    file.write(np.append([between] if begins[row] else [], encoded).astype(kind).tobytes())
                    row += 1

    def write_tokens(self, folder: Path, tokenizer: Tokenizer) -> None:
        lengths = []
        with (folder / "tokens.bin").open("wb") as file:
            for texts in chunks(self.texts("encoding")):
                encoded = tokenizer.encode(texts)
                lengths += [len(tokens) for tokens in encoded]
                file.write(np.concatenate(encoded).astype(token_type(tokenizer)).tobytes())
        write_array(folder / "lengths.npy", np.array(lengths, dtype=np.int64))


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

    def passages(self, notes: list[str]) -> Iterator[Passage]:
        for corpus in self.corpora:
            yield from corpus.passages(notes)

    @property
    def columns(self) -> dict[str, str]:
        first, *_ = (each.columns for each in self.corpora)
        return first

    @cached_property
    def index(self) -> Index:
        """Line numbers continue from one corpus to the next. Labels are not joined: nothing uses them."""
        joined, lines = [], 0
        languages = sorted({name for corpus in self.corpora for name in corpus.index.language_names}, key=label_order)
        refuse_spellings(languages, self.path)
        for corpus in self.corpora:
            rows = corpus.index.rows.copy()
            numbers = np.array([languages.index(name) for name in corpus.index.language_names], np.int32)
            rows["language"] = numbers[rows["language"]]
            rows["line"] += lines
            lines = int(rows["line"].max())
            joined.append(rows)
        notes = [note for corpus in self.corpora for note in corpus.index.notes]
        return Index([], np.concatenate(joined), notes, languages)

    def texts(self, doing: str, rows: np.ndarray | None = None) -> Iterator[str]:
        first = 0
        for corpus in self.corpora:
            end = first + len(corpus.index.rows)
            yield from corpus.texts(doing, None if rows is None else rows[first:end])
            first = end

    def write_tokens(self, folder: Path, tokenizer: Tokenizer) -> None:
        encoded = [corpus.encoded(tokenizer) for corpus in self.corpora]
        with (folder / "tokens.bin").open("wb") as file:
            for texts in encoded:
                file.write(np.ascontiguousarray(texts.tokens).data)
        write_array(folder / "lengths.npy", np.concatenate([texts.sizes for texts in encoded]))


def token_type(tokenizer: Tokenizer) -> type[np.unsignedinteger]:
    """The smallest integer type that holds every token."""
    return np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32


def chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Small enough that the tokenizer's output does not fill the memory."""
    chunk, characters = [], 0
    for text in texts:
        chunk.append(text)
        characters += len(text)
        if len(chunk) == TEXTS_AT_ONCE or characters > CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def ranks(numbers: Mapping[str, int]) -> np.ndarray:
    """The place of each number when its name is sorted."""
    names = sorted(numbers, key=label_order)
    places = np.empty(len(names), np.int32)
    places[[numbers[name] for name in names]] = np.arange(len(names))
    return places


def label_order(label: str) -> tuple[bool, float, str]:
    """A sort key: numbers by value, then words alphabetically."""
    number = re.fullmatch(r"[+-]?\d+(\.\d+)?", label)
    return (False, float(label), label) if number else (True, 0.0, label)
