"""Grammars of the files that readers read: mostly right, with something wrong in many places."""

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow
from hypothesis import strategies as st
from pyarrow import parquet
from safetensors.numpy import save

from headway.config.recipe import ModelSpec, TrainSpec
from headway.nn import FEEDFORWARDS, MIXERS, NORMS, POSITIONS
from headway.tasks import TASKS
from headway.tasks.word2vec.fasttext import ARGUMENTS, MAGIC, VERSION

Files = st.SearchStrategy[bytes]
ODD = (
    *("", " ", "\t", "\0", "\x1b[2J", "\ufeff", "\u2028", "\x85", "² ³", "٣", "é", "e\u0301", "𝒳", "\ud800", '"', "'"),
    *("nan", "1e999", "none", "true", "-1", "a,b", "[UNK]", "<pad>", "../x", "x" * 5000),
)
SETTINGS = [
    f"{section}.{name}" for section, spec in (("model", ModelSpec()), ("train", TrainSpec())) for name in vars(spec)
]
SETTINGS += ["name", "task", "start", "about", "data.train", "data.examples", "data.length", "data.validation"]
PARTS = [*POSITIONS, *MIXERS, *NORMS, *FEEDFORWARDS]

plain = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Zs"]), max_size=12)
odd = st.sampled_from(ODD)
texts = st.one_of(plain, plain, odd, st.text(max_size=8))
numbers = st.one_of(
    st.integers(-3, 40), st.integers(), st.floats(), st.sampled_from([10**30, 2**31, 2**63, -(2**63), 1e308, 1e-320])
)
scalars = st.one_of(texts, numbers, st.none(), st.booleans())
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)


def encoded(strategy: st.SearchStrategy[str]) -> Files:
    return strategy.map(lambda text: text.encode("utf-8", "surrogatepass"))


@st.composite
def damaged(draw: Any, whole: Files) -> bytes:
    """Half of them as they are; in others bytes are changed, cut out, doubled or put in."""
    content = draw(whole)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 4]))):
        place = draw(st.integers(0, len(content)))
        size = draw(st.integers(0, min(64, len(content) - place)))
        piece = content[place : place + size]
        new = draw(
            st.sampled_from(
                [b"", b"\0", b"\xff", b"\xff\xfe", b"\n", b'"', piece * 3, bytes(size), b"9" * 30, b"[" * 3000]
            )
        )
        content = content[:place] + new + content[place + size :]
    return content


def in_lines(line: st.SearchStrategy[str], ends: tuple[str, ...] = ("\n", "\n", "\r\n", "\r")) -> Files:
    return encoded(st.builds(lambda lines, end: end.join(lines), st.lists(line, max_size=12), st.sampled_from(ends)))


def table(columns: tuple[str, ...], separators: str = ",;\t|") -> Files:
    """CSV with a header, whose rows may be quoted, too short or too long."""
    cell = st.one_of(texts, texts.map(lambda text: f'"{text}"'), numbers.map(str))
    header = st.one_of(st.just(list(columns)), st.lists(st.sampled_from([*columns, "", "x", *ODD[:4]]), max_size=4))
    rows = st.lists(st.one_of(st.lists(cell, min_size=len(columns), max_size=len(columns)), st.lists(cell)), max_size=8)
    return encoded(
        st.builds(
            lambda header, rows, separator: "\n".join(separator.join(row) for row in [header, *rows]),
            *(header, rows, st.sampled_from(separators)),
        )
    )


def objects(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Objects of JSON with these fields, of which some are missing or of another type, or any other tree."""
    loose = {name: st.one_of(value, value, value, trees) for name, value in fields.items()}
    return st.one_of(st.fixed_dictionaries({}, optional=loose), st.fixed_dictionaries(loose), trees)


def json_lines(fields: dict[str, st.SearchStrategy[Any]]) -> Files:
    deep = st.integers(10, 100_000).map(lambda depth: "[" * depth)
    return in_lines(st.one_of(*[objects(fields).map(json.dumps)] * 5, texts, deep))


def json_tree(fields: dict[str, st.SearchStrategy[Any]]) -> Files:
    deep = st.integers(10, 200_000).map(lambda depth: '{"a":' * depth)
    return encoded(st.one_of(*[objects(fields).map(json.dumps)] * 8, deep))


@st.composite
def mutated(draw: Any, value: Any) -> Any:
    """The same tree of JSON with junk in some places."""
    for _ in range(draw(st.integers(0, 3))):
        value = in_one_place(draw, value)
    return value


def in_one_place(draw: Any, value: Any) -> Any:
    if isinstance(value, dict | list) and value and draw(st.integers(0, 9)):
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        place = draw(st.sampled_from(keys[:1000]))
        if draw(st.integers(0, 7)):
            copy[place] = in_one_place(draw, copy[place])
        else:
            del copy[place]
        return copy
    return draw(st.one_of(trees, st.just(value)))


# TOML recipes

values = st.one_of(
    numbers.map(repr),
    st.booleans().map(lambda value: str(value).lower()),
    texts.map(json.dumps),
    st.lists(scalars, max_size=3).map(json.dumps),
    st.sampled_from(PARTS).map(json.dumps),
    st.builds(lambda part, key, value: json.dumps(f"{part}({key}={value})"), st.sampled_from(PARTS), texts, scalars),
    st.sampled_from(["1979-05-27", "{a = 1}", "[[", "'''x", "0x1F", "1_000", "inf", "-nan"]),
)
assignments = st.one_of(
    st.builds(lambda key, value: f"{key} = {value}", st.sampled_from(SETTINGS), values),
    st.builds(lambda key, value: f"{json.dumps(key)} = {value}", texts, values),
    st.builds(
        lambda section: f"[{section}]", st.sampled_from(["model", "train", "data", "start", "[model]", "a.b", ""])
    ),
)
sizes_of_languages = in_lines(
    st.one_of(
        st.builds(
            lambda name, size: f"{name} = {size}", st.sampled_from("abcdefgh"), st.one_of(numbers.map(repr), values)
        ),
        st.builds(
            lambda name, count, size: f"{name} = {{languages = {count!r}, size = {size!r}}}",
            *(st.sampled_from("ijklmnop"), st.one_of(st.integers(-1, 300), numbers), numbers),
        ),
    ),
    ("\n",),
)
recipes = encoded(
    st.builds(
        lambda task, lines: "\n".join([f'task = "{task}"', *lines]),
        *(st.sampled_from([*TASKS, "nothing"]), st.lists(assignments, max_size=8)),
    )
)
overrides = st.builds(
    lambda key, value: f"{key}={value}",
    st.one_of(st.sampled_from(SETTINGS), texts),
    st.one_of(values, texts, numbers.map(str), trees.map(json.dumps)),
)


# Tables, vectors and weights in binary


@st.composite
def parquets(draw: Any) -> bytes:
    names = draw(st.lists(st.one_of(st.sampled_from(["text", "label"]), texts), min_size=1, max_size=3))
    rows = draw(st.integers(0, 4))
    kinds = [texts, numbers, st.binary(max_size=8), st.lists(plain, max_size=2), st.none(), st.dates()]
    columns = [draw(st.lists(draw(st.sampled_from(kinds)), min_size=rows, max_size=rows)) for _ in names]
    file = io.BytesIO()
    try:
        parquet.write_table(pyarrow.table([pyarrow.array(column) for column in columns], names=names), file)
        raw = [pyarrow.array(column).cast(pyarrow.binary()) for column in columns]
        if draw(st.booleans()):  # bytes that claim to be text
            file = io.BytesIO()
            parquet.write_table(
                pyarrow.table(
                    [pyarrow.Array.from_buffers(pyarrow.string(), rows, each.buffers()) for each in raw], names
                ),
                file,
            )
    except (pyarrow.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
        pass  # a table that cannot be written is an incomplete file
    return file.getvalue()


words = st.one_of(plain, odd)
floats = st.one_of(st.floats(-2, 2, width=32).map(str), numbers.map(str), texts)
vector_lines = st.builds(lambda word, row: " ".join([word, *row]), words, st.lists(floats, min_size=1, max_size=4))
sizes = st.one_of(st.builds(lambda a, b: f"{a} {b}", numbers, numbers), st.sampled_from(["2 3", "² ³", "1 1", "99 0"]))
text_vectors = encoded(
    st.builds(
        lambda head, lines: "\n".join([*head, *lines]), st.lists(sizes, max_size=1), st.lists(vector_lines, max_size=6)
    )
)


@st.composite
def word2vec(draw: Any) -> bytes:
    count, width = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    head = draw(st.one_of(st.just((count, width)), st.tuples(numbers, numbers)))
    rows = [
        draw(words).encode("utf-8", "surrogatepass")
        + b" "
        + np.array(draw(st.lists(st.floats(width=32), min_size=width, max_size=width)), "<f4").tobytes()
        for _ in range(count)
    ]
    return f"{head[0]} {head[1]}\n".encode() + b"".join(rows)


@st.composite
def fasttext(draw: Any) -> bytes:
    count, width, buckets = draw(st.integers(0, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 4))
    small = st.one_of(st.just(None), st.integers(-(2**31), 2**31 - 1), st.integers(-1, 9))
    usual = [width, 5, 1, 1, 5, 1, 2, 2, buckets, 1, 3, 100]
    fields = [own if (new := draw(small)) is None or draw(st.integers(0, 5)) else new for own in usual]
    own_words = [draw(words).encode("utf-8", "surrogatepass").replace(b"\0", b"") for _ in range(count)]
    body = struct.pack("<2i", MAGIC, VERSION) + ARGUMENTS.pack(*fields, 1e-4)
    body += struct.pack("<3i2q", count, draw(st.sampled_from([count, count, count, 2**31 - 1, -1])), 0, count, -1)
    body += b"".join(word + b"\0" + struct.pack("<qb", 1, 0) for word in own_words)
    rows = count + buckets
    body += struct.pack("<b2q", 0, draw(st.sampled_from([rows, rows, rows, 2**62, -1])), width)
    body += np.array(draw(st.lists(st.floats(width=32), min_size=rows * width, max_size=rows * width)), "<f4").tobytes()
    return body + struct.pack("<?2q", False, count, width) + bytes(4 * count * width)


@st.composite
def safetensors(draw: Any) -> bytes:
    """A file with another header, mostly: offsets that overlap, shapes that do not fit, types that do not exist."""
    names = draw(st.lists(plain, max_size=3, unique=True))
    whole = save({name or "x": np.zeros(draw(st.lists(st.integers(0, 3), max_size=3)), np.float32) for name in names})
    (length,) = struct.unpack("<Q", whole[:8])
    header = draw(mutated(json.loads(whole[8 : 8 + length])))
    text = json.dumps(header).encode()
    said = draw(st.one_of(st.just(len(text)), st.just(len(text)), st.integers(0, 2**64 - 1)))
    return struct.pack("<Q", said) + text + whole[8 + length :]


def compressed(inner: Files, pack: Callable[[bytes], bytes]) -> Files:
    return damaged(inner).map(pack)
