"""Bug hunts: each bug is noticed, mended bugs are seen whatever else is wrong, and false alarms cost points."""

from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Outcome
from headway.config.errors import Problem
from headway.learn.bugs import PAPERS
from headway.learn.hunting import Hunt, bug_lines, default_bugs, paper_problems, parts_of, right_text


@pytest.mark.parametrize("name", PAPERS)
def test_every_bug_is_noticed_and_as_loud_as_it_says(name: str) -> None:
    assert list(paper_problems(name)) == []


def test_there_are_about_forty_bugs_or_more() -> None:
    assert sum(len(paper.bugs) for paper in PAPERS.values()) >= 40


@pytest.mark.parametrize("name", PAPERS)
def test_one_bug_alone_can_be_mended_among_the_others(name: str, tmp_path: Path) -> None:
    hunt = Hunt(name, default_bugs(name), 5)
    right, path = parts_of(right_text(hunt.paper)), tmp_path / "paper.py"
    path.write_text(hunt.text())
    assert hunt.check(path).score == 0
    for number, bug in enumerate(hunt.planted()):
        text = hunt.text()
        path.write_text(text.replace(parts_of(text)[bug.function], right[bug.function]))
        report = hunt.check(path)
        mended = [finding.detail.startswith("mended") for finding in report.findings[:-1]]
        assert [place for place, is_mended in enumerate(mended) if is_mended] == [number]
        assert report.score == pytest.approx(0.5 / hunt.bugs)


@pytest.mark.parametrize("name", PAPERS)
def test_seeds_give_other_papers_whose_solutions_pass(name: str, tmp_path: Path) -> None:
    path, texts = tmp_path / "paper.py", set()
    for seed in range(1, 5):
        hunt = Hunt(name, default_bugs(name), seed)
        texts.add(hunt.text())
        assert len({bug.function for bug in hunt.planted()}) == len(hunt.planted()) == default_bugs(name)
        assert sum(bug.level == "loud" for bug in hunt.planted()) <= hunt.bugs // 4
        path.write_text(hunt.solution())
        assert hunt.check(path).score == 1
        assert hunt.check(path).passed
    assert len(texts) == 4


def test_false_alarms_cost_points(tmp_path: Path) -> None:
    hunt, path = Hunt("encoder", 8, 5), tmp_path / "paper.py"
    right = hunt.solution()
    wrong_mark = right.replace(
        "self.inner = nn.Linear(width, hidden)", "self.inner = nn.Linear(width, hidden)  # BUG: so"
    )
    path.write_text(wrong_mark)
    report = hunt.check(path)
    assert report.score == pytest.approx((8 - 0.5) / 8)
    assert "1 marked" in report.findings[-1].detail
    untouched = next(name for name in parts_of(right) if name not in {bug.function for bug in hunt.planted()})
    part = parts_of(right)[untouched]
    path.write_text(right.replace(part, part.split("\n")[0] + " ...\n"))
    assert "1 broken" in hunt.check(path).findings[-1].detail


def test_a_marked_line_may_have_moved(tmp_path: Path) -> None:
    hunt, path = Hunt("loop", 6, 1), tmp_path / "paper.py"
    path.write_text("# a comment of mine\n\n\n" + hunt.solution())
    assert hunt.check(path).passed
    assert all(number > 3 for number in bug_lines(hunt).values())


@pytest.mark.parametrize(
    ("text", "says"),
    [("def (", "invalid syntax"), ("", "is gone"), ("while True: pass", "is gone")],
)
def test_papers_that_are_broken(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "paper.py"
    path.write_text(text)
    report = Hunt("rlhf", 5, 1).check(path)
    assert report.score in (0, None)
    assert says in report.findings[0].detail


def test_the_verb_writes_and_then_checks(headway: Callable[..., Outcome]) -> None:
    written = headway("learn", "hunt", "decoding", "--seed", "3")
    assert (written.code, written.err) == (0, "")
    assert "5 bugs are in hunts/decoding-5-3.py" in written.out
    assert headway("learn", "hunt", "decoding", "--seed", "3").code == 1
    Path("hunts/decoding-5-3.py").write_text(Hunt("decoding", 5, 3).solution())
    solved = headway("learn", "hunt", "decoding", "--seed", "3")
    assert solved.code == 0
    assert "100% of the points" in solved.out
    assert "did you mean 'encoder'" in headway("learn", "hunt", "encodr").err
    assert "has room for 1 to" in headway("learn", "hunt", "rlhf", "--bugs", "50").err
    with pytest.raises(Problem):
        Hunt("rlhf", 0, 1)
