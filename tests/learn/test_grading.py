"""A class of thirty, whose grades are known; and an exam."""

import csv
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.learn import exams, pages
from headway.learn.answers import written
from headway.learn.bugs import DEFAULT_BUGS
from headway.learn.catalogue import exercise
from headway.learn.exercise import FillIn
from headway.learn.folder import Folder
from headway.learn.hunting import BugHunt, parts_of, right_text
from headway.learn.pages import escaped

NAMES = ["attn.self", "lm.by_hand", "attn.why_scale", "bugs.rlhf"]
WRONG = """
def self_attention(x, queries, keys, values):
    return (x @ queries @ (x @ keys).T).softmax(-1) @ (x @ values)
"""


def hand_in(folder: Path, quality: int, seed: int) -> float:
    """One of six kinds of submissions; returns the grade that it should have."""
    made = Folder.create(folder, NAMES)
    made.progress.seed = seed
    made.save()
    code, numbers, text, hunt = (exercise(name) for name in NAMES)
    for each in (numbers, hunt):
        made.file(each).write_text(each.skeleton(seed))
    if quality == 0:  # nothing was done
        return 0.0
    made.file(code).write_text(code.solved(seed))
    if quality == 1:
        return 0.25
    made.file(numbers).write_text(numbers.solved(seed))
    made.file(text).write_text(text.solved(seed).replace("[1, 1, 1]", "[1, 0, 1]"))
    if quality == 2:
        made.file(code).write_text(WRONG)
        return (1 + 2 / 3) / 4
    made.file(hunt).write_text(hunt.solved(seed))
    if quality == 3:
        return (3 + 2 / 3) / 4
    question = numbers.question(seed)  # type: ignore[attr-defined]
    answers = {**question.answers, "best": 2, "uniform": 1}
    made.file(numbers).write_text("".join(f"{name} = {written(value)}\n" for name, value in answers.items()))
    if quality == 4:
        return (2 + 2 / 3 + 0.5) / 4
    made.file(code).write_text("import os\nos._exit(0)\n")
    return (1 + 2 / 3 + 0.5) / 4


def test_thirty_submissions_get_the_grades_that_they_should(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    expected = {
        f"learner{number:02}": hand_in(tmp_path / "class" / f"learner{number:02}", number % 6, number)
        for number in range(30)
    }
    (tmp_path / "class" / "broken").mkdir()
    start = time.monotonic()
    words = [part for ending in ("csv", "json", "html") for part in ("--save", f"grades.{ending}")]
    outcome = headway("learn", "grade", "class", "--seed", "4711", *words)
    assert outcome.code == 0
    assert "broken is not a folder of exercises" in outcome.err
    assert time.monotonic() - start < 150
    with open("grades.csv", newline="") as file:
        rows = {row["learner"]: row for row in csv.DictReader(file)}
    assert {name: float(row["total"]) for name, row in rows.items()} == pytest.approx(expected, abs=1e-3)
    data = json.loads(Path("grades.json").read_text())
    shares = {(share["exercise"], share["name"]): (share["held"], share["total"]) for share in data["shares"]}
    assert shares["attn.self", "values"] == (15, 20)
    assert shares["attn.self", "runs"] == (20, 30)
    assert data["mistakes"] == {"attn.self: The scores are not divided by the root of d.": 5}
    page = Path("grades.html").read_text()
    assert "learner07" in page
    assert "the softmax then puts nearly all weight" in page


def test_release_hands_out_no_solutions(headway: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = headway("learn", "release", "handout", "--only", "attn.self", "--hints", "1", "--seed", "12")
    assert "1 exercises in handout, 1 hints each, no solutions" in outcome.out
    solution = exercise("attn.self")
    assert isinstance(solution, FillIn)
    whole = "".join(path.read_text() for path in (tmp_path / "handout").rglob("*") if path.is_file())
    assert not any(line.strip() in whole for line in solution.region.solution)
    for words in (["hint"], ["hint"]):
        assert "hint 1 of 1" in headway("learn", *words, "attn.self", "--dir", "handout").out
    assert "without solutions" in headway("learn", "solution", "attn.self", "--dir", "handout").err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("grade", "nothing"), "nothing is not a folder"),
        (("grade", "a/same", "b/same"), "two folders are called same"),
        (("grade", "a/same", "--save", "x.txt"), "grades are written as .csv, .json, .html"),
        (("exam", "--minutes", "5"), "an exam takes at least 30"),
        (("exam", "--out", "exam.txt"), "an exam is written as .html"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...], says: str, headway: Callable[..., Outcome], tmp_path: Path
) -> None:
    for parent in ("a", "b"):
        Folder.create(tmp_path / parent / "same", ["start.hello"])
    outcome = headway("learn", *words)
    assert outcome.code == 2
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_learners_name_is_no_formula_and_no_markup(tmp_path: Path, headway: Callable[..., Outcome]) -> None:
    Folder.create(tmp_path / "class" / "=1+1<b>", ["start.hello"])
    headway("learn", "grade", "class", "--save", "g.csv", "--save", "g.html")
    assert "'=1+1<b>" in Path("g.csv").read_text()
    assert "&lt;b&gt;" in Path("g.html").read_text()


def test_exams_are_drawn_from_all_tracks_and_have_a_marking_scheme(headway: Callable[..., Outcome]) -> None:
    data = json.loads(headway("learn", "exam", "--seed", "7", "--minutes", "90", "--json").out)
    paper, solution = (Path(page).read_text() for page in data["pages"])
    assert 80 <= data["points"] <= 90
    for track in exams.FIRST:
        assert any(name.startswith(f"{track}.") for name in data["exercises"]), track
    points = [int(number) for number in re.findall(r"(\d+) points</span>", paper)]
    assert sum(points) == data["points"]
    assert "Marking:" not in paper
    assert solution.count("Marking:") == len(data["exercises"])
    assert len({each.id for seed in range(5) for each in exams.draw(seed, 90).chosen}) > 20
    for seed in range(5):  # equally hard: as many of each kind, nearly
        kinds = [each.kind for each in exams.draw(seed, 90).chosen]
        assert kinds.count("find the bugs") == 1
        assert all(1 <= kinds.count(kind) <= 5 for kind in exams.MINUTES), kinds


@pytest.mark.parametrize("name", DEFAULT_BUGS)
def test_a_bug_hunt_on_paper_and_its_solution(name: str) -> None:
    """Who writes the corrections into the numbered lines has the right code; the paper tells nothing about them."""
    found = exercise(f"bugs.{name}")
    assert isinstance(found, BugHunt)
    hunt = found.paper(3)
    lines = hunt.planted_text().splitlines()
    paper, solution = (exams.hunt_on_paper(found, 3, 20, shown) for shown in (False, True))
    assert f"{len(lines):3}  {escaped(lines[-1])}" in paper
    assert paper.count("<td></td>") == 2 * hunt.bugs
    for number, right, why in hunt.corrections():
        assert escaped(right) in solution
        assert f"<td>{number}</td>" in solution
        assert escaped(why) not in paper
        if "\n" not in right and "should not" not in right:
            indent = lines[number - 1][: len(lines[number - 1]) - len(lines[number - 1].lstrip())]
            lines[number - 1] = indent + right
    mended = parts_of("\n".join(lines))
    whole = [bug for bug, (_, right, _) in zip(hunt.planted(), hunt.corrections(), strict=True) if "\n" not in right]
    right_parts = parts_of(right_text(hunt.paper))
    assert len(whole) >= hunt.bugs - 2
    for bug in whole:
        if bug.new:
            assert mended[bug.function].split() == right_parts[bug.function].split(), bug.why


def test_a_pdf_needs_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "BROWSERS", ("no-such-browser",))
    with pytest.raises(Problem, match="no browser is there"):
        pages.print_pdf(tmp_path / "a.html", tmp_path / "a.pdf")
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\nfor word; do case $word in --print-to-pdf=*) echo pdf > "${word#*=}";; esac; done\n')
    browser.chmod(0o755)
    monkeypatch.setattr(pages, "BROWSERS", (str(browser),))
    (tmp_path / "a.html").touch()
    pages.print_pdf(tmp_path / "a.html", tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_text() == "pdf\n"
