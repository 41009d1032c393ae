"""Every exercise fails unsolved and passes solved, and every mistake of the catalogue is named: in selfcheck."""

import re
from pathlib import Path

import pytest

from headway.learn import selfcheck
from headway.learn.catalogue import exercise, exercises
from headway.learn.exercise import Exercise, FillIn, Mistake
from headway.learn.training import Train

TRAINED = ("look.parity",)  # of those that train; headway learn selfcheck goal look trains them all


@pytest.mark.parametrize("name", exercises())
def test_exercises_are_right(name: str) -> None:
    brief = isinstance(exercise(name), Train) and name not in TRAINED
    assert list(selfcheck.problems(exercise(name), brief=brief)) == []


def test_ids_are_spelled_once_and_files_have_places_of_their_own() -> None:
    files = [each.file for each in exercises().values()]
    assert len(set(files)) == len(files)


class Open(FillIn):
    """An exercise that gives its solution away."""

    def skeleton(self, seed: int = 0) -> str:
        return self.solved(seed)


def changed(exercise: Exercise, **parts: object) -> FillIn:
    return FillIn(**{**vars_of(exercise), **parts})  # type: ignore[arg-type]


def vars_of(exercise: Exercise) -> dict[str, object]:
    return {name: value for name, value in vars(exercise).items() if name != "region"}


def test_selfcheck_finds_what_is_wrong() -> None:
    good = exercise("attn.self")
    assert isinstance(good, FillIn)
    harmless = Mistake.of("This is no mistake.", ("query @ key.T", "(query @ key.T)"))
    twice = Mistake.of("Another sentence for the first one.", *good.mistakes[0].edits)
    tells_all = ("query, key, value = x @ queries, x @ keys, x @ values", "", "")
    for wrong, text in {
        changed(good, mistakes=[harmless]): "passes",
        changed(good, mistakes=[*good.mistakes, twice]): "another one",
        changed(good, hints=tells_all): "a line of the solution",
        Open(**vars_of(good)): "unsolved",  # type: ignore[arg-type]
    }.items():
        assert any(text in problem for problem in selfcheck.problems(wrong)), text


def test_every_topic_of_the_guide_has_exercises_and_every_exercise_a_topic() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "learn.md"
    rows = re.findall(r"^\| (?!topic|---)([^|]+) \| ([^|]+) \|$", guide.read_text(), re.MULTILINE)
    listed = {name for _, cell in rows for name in re.findall(r"`([\w.]+)`", cell)}
    assert len(rows) == 21
    assert listed - set(exercises()) == set()
    beyond = {"start", "mask", "look", "decode", "pos", "tokens"}
    assert {name for name in set(exercises()) - listed if name.partition(".")[0] not in beyond} == set()
    assert len(exercises()) >= 60
    cells = dict(rows)
    for topic in ("schedule", "parity", "substring", "sentiment", "taming", "translation", "RLHF"):
        own = {exercise(name).kind for name in re.findall(r"`([\w.]+)`", cells[topic])}
        assert "train" in own, topic
    assert {exercise(name).kind for name in re.findall(r"`([\w.]+)`", cells["find the errors"])} == {"find the bugs"}
    assert f"{len(exercises())} exercises" in (guide.parents[2] / "CHANGELOG.md").read_text()
