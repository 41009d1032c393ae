"""Exercises that are answered in a file: numbers, words, and texts that the learner marks."""

from pathlib import Path

import pytest

from headway.learn import answers
from headway.learn.answers import ByHand, Question, Short, equal
from headway.learn.catalogue import exercise, exercises

BY_HAND = [each for each in exercises().values() if isinstance(each, ByHand)]
SHORT = exercise("attn.why_scale")


@pytest.mark.parametrize("found", BY_HAND, ids=lambda found: found.id)
def test_a_class_gets_variants_and_their_solutions_pass(found: ByHand, tmp_path: Path) -> None:
    path = tmp_path / "answer.toml"
    for seed in range(20):
        path.write_text(found.solved(seed))
        report = found.check(path, seed)
        assert report.passed, (seed, report.findings)
        assert report.advice == ""
    assert len({found.skeleton(seed) for seed in range(20)}) >= 4


@pytest.mark.parametrize("found", BY_HAND, ids=lambda found: found.id)
def test_wrong_answers_are_named_and_are_wrong(found: ByHand, tmp_path: Path) -> None:
    named = 0
    for seed in range(20):
        question = found.question(seed)
        for sentence, wrong in question.wrong.items():
            given = {**question.answers, **wrong}
            path = tmp_path / "answer.toml"
            path.write_text("".join(f"{name} = {answers.written(value)}\n" for name, value in given.items()))
            report = found.check(path, seed)
            if not report.passed:  # by chance, a mistake may change nothing
                assert report.advice in question.wrong
                named += report.advice == sentence
    assert named or not any(found.question(seed).wrong for seed in range(20))


@pytest.mark.parametrize(
    ("given", "right", "is_right"),
    [
        (0.333, 1 / 3, True),
        ("1/3", 1 / 3, True),
        (0.34, 1 / 3, False),
        ("1/0", 1 / 3, False),
        (float("nan"), 1.0, False),
        (4, 4, True),
        (5, 4, False),
        (10_010, 10_000, True),  # 1 %
        ("Rain Sun", "rain  sun", True),
        (["b", "a"], {"a", "b"}, True),
        (["b", "b"], {"a", "b"}, False),
        (["b", "a"], ["a", "b"], False),
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]], True),
        (1, [1], False),
        ("x", 1.0, False),
    ],
)
def test_what_counts_as_equal(given: object, right: object, is_right: bool) -> None:
    assert equal(given, right) == is_right


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing has been written yet"),
        ("a = ", "Invalid value"),
        ("a = [" * 3000, "Invalid"),
        ("a = [1, 2]\nb = 3", "2 values; there should be 3"),
        ("a = [1, 2, 9]\nb = 3", "[1, 2, 9] is not right"),
    ],
)
def test_answers_that_are_wrong_or_cannot_be_read(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.toml"
    path.write_text(text)
    found = ByHand(id="attn.x", title="", hints=(), make=lambda random: Question("", {"a": [1, 2, 3], "b": 3}, ""))
    report = found.check(path, 1)
    assert not report.passed
    assert any(says in each.detail for each in report.findings), report.findings


def test_a_short_answer_is_written_and_then_marked(tmp_path: Path) -> None:
    assert isinstance(SHORT, Short)
    path = tmp_path / "answer.toml"
    for text, says in {
        'answer = "It is so."\nmarks = []': "at least a sentence",
        'answer = "Because the softmax would have gradients near zero otherwise."\nmarks = []': "marks = [1, 0, ...]",
        'answer = "Because the softmax would have gradients near zero otherwise."\nmarks = [2, 1, 1]': "marks = [1, 0",
        'answer = "Because the softmax would have gradients near zero otherwise."\nmarks = 3': "marks = [1, 0",
    }.items():
        path.write_text(text)
        report = SHORT.check(path, 1)
        assert not report.passed
        assert says in report.findings[-1].detail
        assert (SHORT.marks[0] in report.advice) == ("marks" in says)  # the points are shown after an answer only
    path.write_text(text.replace("marks = 3", "marks = [0, 1, 1]"))
    report = SHORT.check(path, 1)
    assert report.passed
    assert report.score == pytest.approx(2 / 3)
