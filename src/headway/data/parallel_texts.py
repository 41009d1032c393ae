"""ParallelTexts texts: two files whose lines belong together, or two columns of one file."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.data.cache import kept, key_of
from headway.data.corpus import AT_ONCE, fingerprint, number_kind
from headway.data.examples import LeftOut, as_text, is_unicode
from headway.data.files import Progress, format_of, open_text, silent
from headway.data.readers import SOURCES, Format, Record, checksum, records
from headway.data.sequences import Sequences
from headway.text.tokenizer import Tokenizer

SIDES = ("source", "target")
USUAL = {"source": ("source", "src", "from"), "target": ("target", "tgt", "to", "translation")}


class Pair(NamedTuple):
    line: int
    source: str
    target: str


@dataclass
class ParallelTexts:
    """``files`` are two, the source's and the target's, or one that has both as columns."""

    files: tuple[Path, ...]
    columns: tuple[str, ...] = ()  # of one file, that of the source and that of the target; none: found by their names
    encoding: str = "utf-8"
    skip_bad: bool = False
    progress: Progress = silent

    def __post_init__(self) -> None:
        for path in self.files:
            if not path.is_file():
                raise Problem(f"there is no file {path} (seen from {Path.cwd()})")

    @property
    def name(self) -> str:
        return " and ".join(str(path) for path in self.files)

    @cached_property
    def content(self) -> str:
        """A checksum of what is in the files, whatever their names and age."""
        return checksum(self.files, Format())

    def check(self) -> None:
        """That they exist was checked when they were opened."""

    def pairs(self, doing: str = "reading", left_out: LeftOut | None = None) -> Iterator[Pair]:
        """All pairs of which neither side is empty; what is left out is noted."""
        left_out = LeftOut() if left_out is None else left_out
        rows = self.of_two_files(doing) if len(self.files) == 2 else self.of_columns(doing, left_out)
        empty = True
        for pair in rows:
            empty = False
            if pair.source.strip() and pair.target.strip():
                yield pair
            else:
                left_out.empty.append(pair.line)
        if empty:
            raise Problem(f"{self.name}: there is nothing in it")

    def of_two_files(self, doing: str) -> Iterator[Pair]:
        shown = lambda name, share: self.progress(f"{doing} {name}", share)  # noqa: E731
        with open_text(self.files[0], self.encoding, shown) as first, open_text(self.files[1], self.encoding) as second:
            for number, lines in enumerate(zip_longest(first, second), start=1):
                for path, line, other in zip(self.files, lines, reversed(lines), strict=True):
                    if line is None and other is not None:
                        longer = self.files[self.files[0] == path]
                        raise Problem(
                            f"{path} ends after line {number - 1:,}, but {longer} goes on with "
                            f"{other.strip()[:60]!r}: line n of one must say the same as line n of the other"
                        )
                source, target = ("" if line is None else line.rstrip("\r\n") for line in lines)
                yield Pair(number, source, target)

    def of_columns(self, doing: str, left_out: LeftOut) -> Iterator[Pair]:
        (path,) = self.files
        columns: tuple[str, str] | None = None
        how = Format(self.encoding, header=not all(column.isdigit() for column in self.columns or ("",)))
        for record in records(path, how, lambda name, share: self.progress(f"{doing} {name}", share)):
            if isinstance(inner := record.fields.get("translation"), dict):
                record = replace(record, fields=inner)
            if columns is None and record.fields:
                columns = self.find_columns(record)
            problem = record.problem or self.wrong_with(record, columns or ("", ""))
            if problem:
                left_out.take_bad(path, record.line, problem, self.skip_bad)
                continue
            assert columns is not None
            yield Pair(record.line, *(as_text(record.fields[column]) for column in columns))

    def wrong_with(self, record: Record, columns: tuple[str, str]) -> str:
        for column in columns:
            value = record.fields.get(column)
            if column not in record.fields:
                return f"there is no {column!r}"
            if isinstance(value, (dict, list)) or not is_unicode(as_text(value)):
                return f"{column!r} is not a text"
        return ""

    def find_columns(self, first: Record) -> tuple[str, str]:
        """Those that are named, or have a usual name, or are the only two."""
        there = list(first.fields)
        for column in self.columns:
            if column not in there:
                raise BadSetting("data.columns", f"{self.name} has no column {column!r}; {did_you_mean(column, there)}")
        lower = {name.lower(): name for name in there}
        usual = [next((lower[name] for name in USUAL[side] if name in lower), None) for side in SIDES]
        found = self.columns or (there if None in usual and len(there) == 2 else usual)
        if found is there and first.line == 2 and any(reads_like_a_text(name) for name in there):
            raise Problem(
                f"{self.name}: its first line, {there[0][:40]!r} and {there[1][:40]!r}, reads like a pair, not like "
                "the names of columns: set data.columns=1,2 if it has no names, or the two names"
            )
        source, target = found
        if source is None or target is None:
            names = ", ".join(repr(name[:40]) for name in there)
            raise Problem(f"{self.name}: which columns are the two sides? It has {names}: set data.columns=FROM,TO")
        return source, target


def reads_like_a_text(name: str) -> bool:
    return " " in name or name.endswith((".", "!", "?", "…", "。"))


def files_in(text: str, key: str) -> tuple[Path, ...]:
    """``"val.en,val.de"`` is two files, ``"val.tsv"`` is one."""
    files = tuple(Path(name.strip()) for name in text.split(",") if name.strip())
    if len(files) not in (1, 2):
        raise BadSetting(key, f"{text!r} is neither one file nor two with a comma between them")
    if len(files) == 1 and format_of(files[0]) not in {*SOURCES} - {"txt", "folder"}:
        known = ", ".join(f".{name}" for name in SOURCES if name not in ("txt", "folder"))
        raise BadSetting(key, f"{text} is one file without columns ({known} have them): name two, such as a.en,a.de")
    return files


class Encoded(NamedTuple):
    source: Sequences
    target: Sequences
    notes: list[str]  # what was left out


def groups_of(texts: ParallelTexts) -> np.ndarray:
    """(N,): pairs of which the source says the same stay on one side of a cut."""
    return np.fromiter((fingerprint(pair.source) for pair in texts.pairs()), dtype=np.uint64)


def encode(texts: ParallelTexts, source: Tokenizer, target: Tokenizer, end: int) -> Encoded:
    """All pairs, an end behind each side; kept in the cache, and mapped from there."""
    settings = {"columns": texts.columns, "encoding": texts.encoding, "skip": texts.skip_bad, "end": end}
    key = key_of(content=texts.content, source=source.to_json(), target=target.to_json(), **settings)
    folder = kept("pairs", key, lambda beside: write_pairs(beside, texts, {"source": source, "target": target}, end))
    sides: list[Sequences] = []
    for side, tokenizer in {"source": source, "target": target}.items():
        sides.append(Sequences.mapped(folder / f"{side}.bin", number_kind(tokenizer), folder / f"{side}.npy"))
    left_out = LeftOut(**json.loads((folder / "left_out.json").read_text()))
    return Encoded(sides[0], sides[1], left_out.notes(Path(texts.name)))


def write_pairs(folder: Path, texts: ParallelTexts, tokenizers: dict[str, Tokenizer], end: int) -> None:
    left_out = LeftOut()
    sizes: dict[str, list[int]] = {side: [] for side in SIDES}
    with (folder / "source.bin").open("wb") as source, (folder / "target.bin").open("wb") as target:
        pairs = texts.pairs("encoding", left_out)
        while chunk := list(islice(pairs, AT_ONCE)):
            for side, file in zip(SIDES, (source, target), strict=True):
                for tokens in tokenizers[side].encode([getattr(pair, side) for pair in chunk]):
                    sizes[side].append(len(tokens) + 1)
                    file.write(np.append(tokens, end).astype(number_kind(tokenizers[side])).tobytes())
    if not sizes["source"]:
        raise Problem(f"{texts.name}: no line has a text on both sides")
    for side, found in sizes.items():
        np.save(folder / f"{side}.npy", np.array(found, dtype=np.int64))
    (folder / "left_out.json").write_text(json.dumps(asdict(left_out)))
