"""All exercises, in the order in which they are learned."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from headway.config.errors import Problem, did_you_mean
from headway.learn.exercise import TRACKS, Exercise


@cache
def exercises() -> dict[str, Exercise]:
    from headway.learn.tracks import (
        attention,
        blocks,
        bug_hunts,
        by_hand,
        comparisons,
        cross_attention,
        decoding,
        deep_stacks,
        goals,
        inside,
        language,
        masks,
        models,
        more_by_hand,
        more_goals,
        more_questions,
        multihead,
        positions,
        preferences,
        pretraining,
        questions,
        recurrent,
        start,
        whole_models,
    )

    to_write = (start, masks, attention, cross_attention, multihead, positions, blocks)
    to_build = (models, whole_models, recurrent, language, decoding, pretraining, preferences)
    to_think = (by_hand, more_by_hand, questions, more_questions, bug_hunts)
    to_train = (goals, comparisons, deep_stacks, more_goals, inside)
    tracks: tuple[Any, ...] = (*to_write, *to_build, *to_think, *to_train)
    order = list(TRACKS)
    listed: list[Exercise] = [exercise for track in tracks for exercise in track.EXERCISES]
    return {exercise.id: exercise for exercise in sorted(listed, key=lambda each: order.index(each.track))}


def exercise(name: str) -> Exercise:
    if name not in exercises():
        raise Problem(f"there is no exercise {name!r}; {did_you_mean(name, exercises())} (headway learn list)")
    return exercises()[name]


def chosen(words: Iterable[str]) -> list[str]:
    """The exercises that are named, by themselves or by their track; all of them if none are."""
    names: list[str] = []
    for word in words:
        members = [name for name, each in exercises().items() if word in (name, each.track)]
        names += members or [exercise(word).id]
    return [name for name in exercises() if name in names] if names else list(exercises())
