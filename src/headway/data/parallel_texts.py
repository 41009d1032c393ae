"""Parallel texts: two files whose lines correspond, or two columns of one file."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean
from headway.data.cache import kept, key_of
from headway.data.corpus import TEXTS_AT_ONCE, token_type
from headway.data.examples import LeftOut, as_text, good_rows, quoted, usual_column
from headway.data.files import Progress, format_of, open_text, require_file, silent
from headway.data.languages import Passage, language_of_file
from headway.data.readers import SOURCES, Format, Record, checksum, has_header, records
from headway.data.sequences import Sequences
from headway.data.splitting import fingerprint, joined_groups, reader
from headway.data.storage import write_array
from headway.text.tokenizer import Tokenizer

SIDES = ("source", "target")
USUAL_NAMES = {"source": ("source", "src", "from"), "target": ("target", "tgt", "to", "translation")}


class Pair(NamedTuple):
    line: int
    source: str
    target: str


@dataclass
class ParallelTexts:
    """``files`` are two, source and target, or one with both as columns."""

    files: tuple[Path, ...]
    columns: tuple[str, ...] = ()  # of one file: source and target; (): by their usual names
    encoding: str = "utf-8"
    skip_bad: bool = False
    progress: Progress = silent

    def __post_init__(self) -> None:
        for path in self.files:
            require_file(path)

    @property
    def name(self) -> str:
        return " and ".join(str(path) for path in self.files)

    @cached_property
    def content(self) -> str:
        """A hash of the files' content, independent of their names and dates."""
        return checksum(self.files, Format())

    @property
    def choices(self) -> dict[str, Any]:
        """What decides, beside the content, which pairs there are."""
        return {"columns": self.columns, "encoding": self.encoding, "skip": self.skip_bad}

    def check(self) -> None:
        """Nothing to do: missing files are refused when the object is made."""

    def pairs(self, doing: str = "reading", left_out: LeftOut | None = None) -> Iterator[Pair]:
        """All pairs with text on both sides; skipped rows are added to ``left_out``."""
        left_out = LeftOut() if left_out is None else left_out
        pairs = self.of_two_files(doing) if len(self.files) == 2 else self.of_columns(doing, left_out)
        for pair in pairs:
            if pair.source.strip() and pair.target.strip():
                yield pair
            else:
                left_out.empty.append(pair.line)

    def passages(self, notes: list[str]) -> Iterator[Passage]:
        """Both sides of all pairs, with where they stand; what is left out is noted at the end."""
        left_out, names = LeftOut(), self.languages_of_sides()
        for line, *texts in self.pairs("reading", left_out):
            for text, name, file in zip(texts, names, (self.files * 2)[:2], strict=True):
                yield Passage(text, name, file, line)
        notes += left_out.notes(Path(self.name))

    def languages_of_sides(self) -> Sequence[str]:
        """Files are named by their languages, and so are columns."""
        if len(self.files) == 2:
            names = [language_of_file(Path(path.name)) for path in self.files]
            return SIDES if names[0] == names[1] else names
        first = next(records(self.files[0], Format(self.encoding, header=self.has_header)), None)
        return SIDES if first is None else list(self.find_columns(with_inner_fields(first)).values())

    @property
    def has_header(self) -> bool:
        return has_header(*self.columns)

    def show(self, doing: str) -> Progress:
        return lambda name, share: self.progress(f"{doing} {name}", share)

    def of_two_files(self, doing: str) -> Iterator[Pair]:
        number, encoding = 0, self.encoding
        with (
            open_text(self.files[0], encoding, self.show(doing)) as first,
            open_text(self.files[1], encoding) as second,
        ):
            for number, (source, target) in enumerate(zip_longest(first, second), start=1):
                if source is None or target is None:
                    short, long = self.files if source is None else self.files[::-1]
                    raise Problem(
                        f"{short} ends after line {number - 1:,}, but {long} continues with "
                        f"{(source or target).strip()[:60]!r}: line n of one must correspond to line n of the other"
                    )
                yield Pair(number, source.rstrip("\r\n"), target.rstrip("\r\n"))
        if not number:
            raise Problem(f"{self.name} are empty")

    def of_columns(self, doing: str, left_out: LeftOut) -> Iterator[Pair]:
        (path,) = self.files
        rows = records(path, Format(self.encoding, header=self.has_header), self.show(doing))
        flat = (with_inner_fields(record) for record in rows)
        for record, columns in good_rows(flat, path, self.find_columns, left_out, self.skip_bad, SIDES):
            yield Pair(record.line, *(as_text(record.fields[columns[side]]) for side in SIDES))

    def find_columns(self, first: Record) -> dict[str, str]:
        """The columns that are set, or those with a usual name, or the only two."""
        names = list(first.fields)
        for column in self.columns:
            if column not in names:
                raise BadSetting("data.columns", f"{self.name} has no column {column!r}; {did_you_mean(column, names)}")
        usual = [usual_column(USUAL_NAMES[side], names) for side in SIDES]
        is_guess = not self.columns and None in usual and len(names) == 2
        if is_guess and first.line == 2 and any(looks_like_text(name) for name in names):
            raise Problem(
                f"{self.name}: its first line, {quoted(names)}, looks like a pair of texts, "
                "not like column names: set data.columns=1,2 if it has no header, or else the two names"
            )
        source, target = self.columns or (names if is_guess else usual)
        if source is None or target is None:
            raise Problem(
                f"{self.name}: which columns are source and target? It has {quoted(names)}: set data.columns=FROM,TO"
            )
        return {"source": source, "target": target}


def with_inner_fields(record: Record) -> Record:
    """``{"translation": {"en": ..., "de": ...}}``, as many published corpora have it, has its columns inside."""
    inner = record.fields.get("translation")
    return replace(record, fields=inner) if isinstance(inner, dict) else record


def looks_like_text(name: str) -> bool:
    return " " in name or name.endswith((".", "!", "?", "…", "。"))


def files_in(text: str, key: str, is_many: bool = False) -> tuple[Path, ...]:
    """``"val.en,val.de"`` is two files, ``"val.tsv"`` is one; several if there are many languages."""
    files = tuple(Path(name.strip()) for name in text.split(",") if name.strip())
    if not files or (len(files) > 2 and not is_many):
        raise BadSetting(key, f"{text!r} is neither one file nor two separated by a comma")
    with_columns = [name for name in SOURCES if name not in ("txt", "folder")]
    if len(files) == 1 and format_of(files[0]) not in with_columns:
        known = ", ".join(f".{name}" for name in with_columns)
        raise BadSetting(key, f"{text} is one file without columns ({known} have them): name two, such as a.en,a.de")
    return files


class Encoded(NamedTuple):
    source: Sequences
    target: Sequences
    notes: list[str]  # about skipped rows


def groups_of(texts: ParallelTexts, normalize: str | None) -> np.ndarray:
    """(N,): pairs whose sources are read alike stay on one side of a split; None: whose sources are the same."""
    groups = np.fromiter((fingerprint(pair.source) for pair in texts.pairs()), dtype=np.uint64)
    if normalize is None:
        return groups
    read = reader(normalize)
    return joined_groups(
        groups, np.fromiter((fingerprint(read(pair.source)) for pair in texts.pairs()), dtype=np.uint64)
    )


def encode(texts: ParallelTexts, source: Tokenizer, target: Tokenizer, end: int) -> Encoded:
    """All pairs as tokens, each side with an end token; memory-mapped from the cache."""
    tokenizers = {"source": source, "target": target}
    key = key_of(content=texts.content, source=source.to_json(), target=target.to_json(), end=end, **texts.choices)
    folder = kept("pairs", key, lambda new: write_pairs(new, texts, tokenizers, end))
    sides = [
        Sequences.mapped(folder / f"{side}.bin", token_type(tokenizer), folder / f"{side}.npy")
        for side, tokenizer in tokenizers.items()
    ]
    left_out = LeftOut(**json.loads((folder / "left_out.json").read_text()))
    return Encoded(sides[0], sides[1], left_out.notes(Path(texts.name)))


def write_pairs(folder: Path, texts: ParallelTexts, tokenizers: dict[str, Tokenizer], end: int) -> None:
    left_out = LeftOut()
    sizes: dict[str, list[int]] = {side: [] for side in SIDES}
    with (folder / "source.bin").open("wb") as source, (folder / "target.bin").open("wb") as target:
        pairs = texts.pairs("encoding", left_out)
        while chunk := list(islice(pairs, TEXTS_AT_ONCE)):
            for side, file in zip(SIDES, (source, target), strict=True):
                for tokens in tokenizers[side].encode([getattr(pair, side) for pair in chunk]):
                    sizes[side].append(len(tokens) + 1)
                    file.write(np.append(tokens, end).astype(token_type(tokenizers[side])).tobytes())
    if not sizes["source"]:
        raise Problem(f"{texts.name}: no line has text on both sides")
    for side, counts in sizes.items():
        write_array(folder / f"{side}.npy", np.array(counts, dtype=np.int64))
    (folder / "left_out.json").write_text(json.dumps(asdict(left_out)))
