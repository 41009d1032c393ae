"""Files and folders of labelled texts, as people have them."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from headway.config.errors import Problem
from headway.data.examples import Example, LeftOut, Reading, examples, plain_texts
from headway.data.files import COMPRESSIONS, format_of
from headway.data.readers import SOURCES, Format, records

ROWS = [
    ("A good film", "pos"),
    ("Ein schöner Film\nmit zwei Zeilen", "pos"),
    ('He said "no", twice; never', "very bad"),
]


def compress(suffix: str, content: bytes) -> bytes:
    if suffix == ".zst":
        stream = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(stream, "zstd") as file:
            file.write(content)
        return stream.getvalue().to_pybytes()
    squeeze: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
    return squeeze[suffix](content)


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def content_of(kind: str) -> bytes:
    """The rows in each format."""
    if kind == "parquet":
        stream = pyarrow.BufferOutputStream()
        columns = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
        parquet.write_table(pyarrow.table(columns), stream)
        return stream.getvalue().to_pybytes()
    if kind in ("csv", "tsv"):
        between = "," if kind == "csv" else "\t"
        lines = [f"text{between}label", *(f"{quoted(text)}{between}{label}" for text, label in ROWS)]
        return ("\n".join(lines) + "\n").encode()
    if kind == "txt":
        return "".join(
            f"__label__{label.replace(' ', '_')} {' '.join(text.split())}\n" for text, label in ROWS
        ).encode()
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS).encode()


def read(path: Path, **options: object) -> list[Example]:
    return list(examples(path, Reading(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["", *COMPRESSIONS])
@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "folder"])
def test_every_format_in_every_compression_gives_the_same(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"some.reviews.{kind}{suffix}"
    content = content_of(kind)
    path.write_bytes(compress(suffix, content) if suffix else content)
    assert format_of(path) == kind
    form = Format(quotes=True) if kind == "tsv" else Format()
    found = [(example.text, example.label) for example in read(path, format=form)]
    if kind == "txt":
        assert found == [(" ".join(text.split()), label.replace(" ", "_")) for text, label in ROWS]
    else:
        assert found == ROWS


def test_a_folder_for_each_label(tmp_path: Path) -> None:
    for label, names in {"neg": ["0_2.txt", "1_1.txt"], "pos": ["0_9.txt"], "unsup": ["0_0.txt"]}.items():
        (tmp_path / label).mkdir()
        for name in names:
            (tmp_path / label / name).write_text(f"text {label} {name}")
    (tmp_path / "urls_neg.txt").write_text("http://films/7/\nhttp://films/8/\n")
    (tmp_path / "urls_pos.txt").write_text("http://films/7/\n")
    found = read(tmp_path, group="url")
    assert [(each.text, each.label, each.group) for each in found] == [
        ("text neg 0_2.txt", "neg", "http://films/7/"),
        ("text neg 1_1.txt", "neg", "http://films/8/"),
        ("text pos 0_9.txt", "pos", "http://films/7/"),
    ]


AWKWARD = (
    "\ufeffReview;Stars;Film\r\n"
    '"It was ""fine"";\r\nnothing more";3 of 5;Up\r\n'
    "plain;1 of 5;Up\r\n"
    '"";2 of 5;Down\r\n'
    "\r\n"
    "last;3 of 5;Down"
)


def test_a_file_with_semicolons_quotes_line_breaks_a_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "awkward.csv"
    path.write_text(AWKWARD, encoding="utf-8", newline="")
    left_out = LeftOut()
    found = list(examples(path, Reading(label="Stars", group="Film"), left_out))
    assert found == [
        Example('It was "fine";\r\nnothing more', "3 of 5", "Up", 2),
        Example("plain", "1 of 5", "Up", 4),
        Example("last", "3 of 5", "Down", 7),
    ]
    assert left_out.notes(path) == [f"{path}: 1 rows without a text are skipped, the first on line 5"]
    assert list(plain_texts(path, Reading())) == ['It was "fine";\r\nnothing more', "plain", "", "last"]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "latin-1"])
def test_another_encoding_is_named_not_guessed(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\nfine,a\ncafé noir,b\n", encoding=encoding)
    with pytest.raises(Problem) as error:
        read(path)
    expected = (
        f"{path} is not UTF-8: it begins with the byte-order mark of UTF-16; set data.encoding=utf-16"
        if encoding == "utf-16"
        else f"{path}, line 3: byte 0xe9 at column 4 is not utf-8; if it is cp1252, set data.encoding=cp1252"
    )
    assert str(error.value) == expected
    assert [each.text for each in read(path, format=Format(encoding))] == ["fine", "café noir"]


PROBLEMS = {
    "columns": ("csv", "text,label\na,b\nc,d,e\n", "line 3: 3 columns, but the first line has 2 (text, label)"),
    "no label": ("csv", "text,label\na,b\nc, \n", "line 3: there is no 'label'"),
    "open quote": ("csv", 'text,label\na,b\n"c,d\n', "line 3: not CSV"),
    "not json": ("jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2: not a JSON object on one line"),
    "no object": ("jsonl", '{"text": "a", "label": 1}\n[1]\n', "line 2: not a JSON object such as"),
    "no fields": ("jsonl", '{}\n{"text": "a", "label": 1}\n', "line 1: it has no fields"),
    "no such field": ("jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "line 2: there is no 'label'"),
    "a list": ("jsonl", '{"text": "a", "label": 1}\n{"text": ["b"], "label": 1}\n', "line 2: 'text' is not a text"),
    "empty": ("csv", "", "is empty"),
    "header alone": ("csv", "text,label\n", "is empty: it has no rows"),
    "twice": ("csv", "text,text\na,b\n", "line 1: two columns are called 'text'"),
    "which column": (
        "csv",
        "foo,label\na,b\n",
        "which column is the text? Its columns are 'foo', 'label': set data.text",
    ),
    "no header": ("csv", "I liked it,pos\nI did not,neg\n", "which column is the text?"),
    "lines": ("txt", "a text without a label\n", "line 1: there is no 'label'"),
    "unknown": ("doc", "a", "unknown format; known are .csv, .tsv"),
    "not parquet": ("parquet", "text", "is not Parquet"),
    "not gzip": ("csv.gz", "text,label", "cannot be read"),
    "cut off": ("csv.xz", "", "cannot be read"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_mistake_is_named_with_its_file_and_line(name: str, tmp_path: Path) -> None:
    kind, content, message = PROBLEMS[name]
    path = tmp_path / f"reviews.{kind}"
    path.write_bytes(lzma.compress(b"text,label\na,b\n" * 1000)[:60] if kind == "csv.xz" else content.encode())
    with pytest.raises(Problem) as error:
        read(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_columns_that_are_not_there() -> None:
    path = Path(__file__).parent / "no.csv"
    with pytest.raises(Problem, match=r"there is no file .*no.csv"):
        read(path)


def test_a_wrong_column_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label,movie\na,b,c\n")
    for option, key in (("text", "data.text"), ("label", "data.label"), ("group", "data.group")):
        with pytest.raises(Problem, match=rf"{key}: .*has no column 'moveie'; did you mean 'movie'\?"):
            read(path, **{option: "moveie"})


def test_bad_rows_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\na,x\nb\nc,y\nd,\n")
    left_out = LeftOut()
    found = list(examples(path, Reading(skip_bad=True), left_out))
    assert [each.text for each in found] == ["a", "c"]
    assert left_out.notes(path)[0].startswith(f"{path}: 2 bad rows are skipped, the first on line 3: 1 columns")


def test_labels_may_be_numbers_and_truth_values(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "a", "label": 1}\n{"text": "b", "label": true}\n{"text": 3, "label": 2.5}\n')
    assert [(each.text, each.label) for each in read(path)] == [("a", "1"), ("b", "true"), ("3", "2.5")]


def test_a_bad_first_row_is_a_bad_row(tmp_path: Path) -> None:
    for name, content in {
        "a.csv": "text,label\nonly text\ngood,x\n",
        "a.jsonl": '[]\n{"text": "good", "label": "x"}\n',
    }.items():
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(Problem, match=rf"{name}, line [12]: (1 columns|not a JSON object)"):
            read(path)
        assert [each.text for each in read(path, skip_bad=True)] == ["good"]


def test_half_characters_and_missing_numbers(tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "a \\ud83d b", "label": "x"}\n')
    with pytest.raises(Problem, match="line 1: 'text' is not valid Unicode"):
        read(path)
    assert list(plain_texts(path, Reading())) == ["a ? b"]
    path.write_text('{"text": "a", "label": NaN}\n')
    with pytest.raises(Problem, match="line 1: there is no 'label'"):
        read(path)
    path.write_text('{"text": ' + "[" * 100_000 + "\n")
    with pytest.raises(Problem, match="line 1: not a JSON object on one line"):
        read(path)


def test_parquet_with_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reviews.parquet"
    raw = pyarrow.array([b"good", b"\xff\xfe"]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": raw, "label": ["x", "y"]}), path)
    with pytest.raises(Problem, match="from row 1 on: text that is not UTF-8"):
        list(records(path, Format()))


def test_bytes_in_parquet_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "reviews.parquet"
    parquet.write_table(pyarrow.table({"text": ["schön".encode()], "label": ["x"]}), path)
    assert read(path)[0].text == "schön"


@pytest.mark.parametrize("separator", ["tab", "\\t", "\t"])
def test_a_separator_by_its_name(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("text\tlabel\na, b; c\tx\n")
    assert read(path, format=Format(separator=separator))[0].text == "a, b; c"
    with pytest.raises(Problem, match=r"data.separator: 'xx' is neither a single character"):
        read(path, format=Format(separator="xx"))


def test_what_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    for content, message in {
        gzip.compress(b"text,label\na,b\n"): "is compressed, but its name does not end in .gz: rename it",
        "text,label\na,b\n".encode("utf-16-le"): "it contains zero bytes; if it is UTF-16, set data.encoding=utf-16-le",
    }.items():
        path.write_bytes(content)
        with pytest.raises(Problem, match=message):
            read(path)
    assert read(path, format=Format("utf-16-le"))[0].text == "a"
    for encoding in ("rot13", "utf-9"):
        with pytest.raises(Problem, match=r"data.encoding: no encoding"):
            read(path, format=Format(encoding))
    damaged = tmp_path / "reviews.csv.gz"
    packed = gzip.compress(b"text,label\n" + b"some text,b\n" * 5000)
    damaged.write_bytes(packed[:40] + bytes(20) + packed[60:])
    with pytest.raises(Problem, match=r"reviews.csv.gz cannot be read"):
        read(damaged)


@pytest.mark.parametrize("suffix", ["", *COMPRESSIONS])
def test_reading_shows_its_progress_and_errors_in_packed_files_have_a_line(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"reviews.csv{suffix}"
    content = b"text,label\n" + b"some text,b\n" * 5000
    path.write_bytes(compress(suffix, content) if suffix else content)
    seen: list[float] = []
    assert len(list(examples(path, Reading(), progress=lambda what, share: seen.append(share)))) == 5000
    assert seen[-1] == 1.0
    path.write_bytes(compress(suffix, content + b"caf\xe9,b\n") if suffix else content + b"caf\xe9,b\n")
    with pytest.raises(Problem, match=r"line 5002: byte 0xe9 at column 4 is not utf-8"):
        read(path)


def test_folders_that_are_none_and_files_that_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "acl" / "train" / "pos").mkdir(parents=True)
    with pytest.raises(Problem, match=r"acl is not a folder of texts: .*did you mean .*train\?"):
        read(tmp_path / "acl")
    (tmp_path / "acl" / "train" / "pos" / "1.txt").write_text("good")
    (tmp_path / "acl" / "train" / "pos" / ".DS_Store").write_bytes(b"\x00\xff")
    assert [each.text for each in read(tmp_path / "acl" / "train")] == ["good"]
