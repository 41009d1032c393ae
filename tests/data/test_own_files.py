"""Files as people have them who never saw headway: without a header, with stray quotes, from a spreadsheet."""

import json
from pathlib import Path

import pytest

from headway import recipes
from headway.config.errors import Problem
from headway.data.examples import LONGEST_NAME, Reading, examples
from headway.data.readers import Format, records
from headway.tasks import TASKS
from headway.tasks.classify import Classify

WORDS = {"good": "pos", "bad": "neg", "fine": "pos", "dull": "neg"}
ROWS = [(f"a {word} film number {number}", label) for number in range(20) for word, label in WORDS.items()]


def task_of(*overrides: str) -> Classify:
    recipe = recipes.load("classify", overrides)
    task = TASKS["classify"](recipe)
    assert isinstance(task, Classify)
    return task


@pytest.mark.parametrize("columns", [["data.text=2", "data.label=1"], ["data.columns=2,1"]])
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_file_without_a_header(kind: str, columns: list[str], tmp_path: Path) -> None:
    path, between = tmp_path / f"reviews.{kind}", "," if kind == "csv" else "\t"
    path.write_text("".join(f"{label}{between}{text}\n" for text, label in ROWS))
    task = task_of(f"data.train={path}", *columns)
    task.prepare()
    assert task.labels == ["neg", "pos"]
    assert len(task.train.index.rows) == len(ROWS)
    with pytest.raises(Problem, match=r"which column is the text\?.*without a header, data\.text=1"):
        task_of(f"data.train={path}").prepare()


def test_columns_by_name_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text("my words,verdict\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    task = task_of(f"data.train={path}", "data.columns=my words, verdict")
    task.prepare()
    assert task.labels == ["neg", "pos"]
    with pytest.raises(Problem, match=r"data\.columns: 'one' is not two names"):
        task_of(f"data.train={path}", "data.columns=one").prepare()
    with pytest.raises(Problem, match=r"data\.columns: data\.text and data\.label say the same"):
        task_of(f"data.train={path}", "data.columns=my words,verdict", "data.text=my words").prepare()


def test_names_of_columns_can_be_copied_from_messages(tmp_path: Path) -> None:
    name = "On a scale from one to five, how much did you like what we served you?"
    path = tmp_path / "survey.csv"
    path.write_text(f'"{name}",b\n3,x\n')
    with pytest.raises(Problem) as error:
        list(examples(path, Reading()))
    assert repr(name) in str(error.value)
    path.write_text(f"{'x' * 5000},b\n3,x\n")
    with pytest.raises(Problem) as error:
        list(examples(path, Reading()))
    assert len(str(error.value)) < 2 * LONGEST_NAME + len(str(path))


@pytest.mark.parametrize("layout", ["lines", "indented", "one line", "many lines"])
def test_json_that_is_an_array(layout: str, tmp_path: Path) -> None:
    rows = [{"text": f'one, [two] "three" {number}\n', "label": number % 2} for number in range(4)]
    path = tmp_path / "reviews.json"
    path.write_text(
        {
            "lines": "\n".join(map(json.dumps, rows)),
            "indented": json.dumps(rows, indent=2),
            "one line": json.dumps(rows),
            "many lines": "\n[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n",
        }[layout]
    )
    read = list(examples(path, Reading()))
    assert [(each.text, int(each.label)) for each in read] == [(row["text"], row["label"]) for row in rows]
    lines = {"lines": [1, 2, 3, 4], "indented": [2, 6, 10, 14], "one line": [1] * 4, "many lines": [3, 4, 5, 6]}
    assert [each.line for each in read] == lines[layout]


@pytest.mark.parametrize(
    ("content", "message"),
    {
        '[{"text": "a", "label": 1},\n {"text": "b" "label": 2}]': "line 2: not JSON: Expecting ',' delimiter",
        '[{"text": "a", "label": 1},\n ["b"]]': "line 2: not a JSON object such as",
        '[{"text": "a", "label": 1}\n': r"line 2: the array of objects is not closed with \]",
        "[]": "is empty: it has no rows",
        "": "is empty: it has no rows",
    }.items(),
)
def test_json_that_is_broken(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    path.write_text(content)
    with pytest.raises(Problem, match=message):
        list(examples(path, Reading()))


def test_quotation_marks_mean_nothing_between_tabs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text('text\tlabel\n"Go!" he said\ta\n"stray\tb\n5" wide\tc\n')
    assert [each.text for each in examples(path, Reading())] == ['"Go!" he said', '"stray', '5" wide']
    path.write_text('text\tlabel\n"two\nlines ""quoted"""\ta\n')
    with pytest.raises(Problem, match=r"line 2: 1 columns, .*set data\.quotes=true"):
        list(examples(path, Reading()))
    assert next(examples(path, Reading(format=Format(quotes=True)))).text == 'two\nlines "quoted"'


def test_a_stray_quotation_mark_is_named_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text('text,label\na,x\n"stray,x\n' + "b,y\n" * 500)
    with pytest.raises(Problem, match=r"line 3: not CSV in the row that begins here: .*data\.quotes=false"):
        list(records(path, Format()))
    assert len(list(records(path, Format(quotes=False)))) == 502


def test_what_is_not_text_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    for content, message in {
        b"PK\x03\x04" + bytes(40): r"is a spreadsheet \(.xlsx, .ods\).*save it as CSV in UTF-8",
        b"\xd0\xcf\x11\xe0" + bytes(40): r"is a spreadsheet \(.xls\).*save it as CSV in UTF-8",
        b"%PDF-1.7": "is a PDF, not text",
        b"PAR1": r"rename it to end in \.parquet",
        b"text,label\na\0,b\nc,d\n": r"line 2 contains a zero byte.*tr -d '\\000'",
        "text,label\nä,b\n".encode("utf-16-be"): r"if it is UTF-16, set data\.encoding=utf-16-be",
    }.items():
        path.write_bytes(content)
        with pytest.raises(Problem, match=message) as error:
            list(records(path, Format()))
        assert ("UTF-16" in str(error.value)) == (b"\0t" in content)


@pytest.mark.parametrize("name", ["rating", "Stars", "category", "target", "class", "score"])
def test_usual_names_of_labels(name: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text(f"id,review,{name}\n1,good,5\n")
    assert next(examples(path, Reading())).label == "5"


def test_labels_that_differ_in_case_alone_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    lines = [f"{text},{label.title() if number % 10 == 0 else label}\n" for number, (text, label) in enumerate(ROWS)]
    path.write_text("text,label\n" + "".join(lines))
    task = task_of(f"data.train={path}")
    task.prepare()
    (note,) = [note for note in task.splits().notes if "are classes of their own" in note]
    assert "'Pos' (" in note
    assert "'pos' (" in note
