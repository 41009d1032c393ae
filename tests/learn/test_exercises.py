"""Every exercise fails unsolved and passes solved, and every mistake of the catalogue is named: in selfcheck."""

import pytest

from headway.learn import selfcheck
from headway.learn.catalogue import exercise, exercises
from headway.learn.exercise import Exercise, FillIn, Mistake


@pytest.mark.parametrize("name", exercises())
def test_exercises_are_right(name: str) -> None:
    assert list(selfcheck.problems(exercise(name))) == []


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
