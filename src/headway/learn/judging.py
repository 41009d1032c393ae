"""The order of checks: it runs; shapes and types; values; gradients; properties; speed. Then known mistakes."""

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

from headway.learn.exercise import FillIn, Finding, Grid, Mistake, Report
from headway.learn.performing import Leaves, Outcome, Performance, matches, matching, perform, same

SLOWEST = 20.0  # times the library's time,
LEAST_SECONDS = 0.2  # or this
MOST = 24  # rows and columns of a grid


def judge(exercise: FillIn, theirs: Performance, seed: int) -> Report:
    ours = reference(exercise, seed)
    findings = list(findings_of(exercise, theirs, ours))
    failed = {finding.name for finding in findings if not finding.ok}
    mistake = recognised(exercise, theirs, seed) if failed & {"values", "shapes and types"} else None
    grid = None if failed & {"runs", "shapes and types"} else grid_of(theirs, ours)
    return Report(exercise.id, findings, mistake.sentence if mistake else "", grid)


@lru_cache(maxsize=256)
def reference(exercise: FillIn, seed: int) -> Performance:
    return perform(exercise.region.function(), exercise, seed)


@lru_cache(maxsize=1024)
def mistaken(exercise: FillIn, seed: int, number: int) -> Performance:
    return perform(exercise.wrong(exercise.mistakes[number]), exercise, seed, brief=True)


def findings_of(exercise: FillIn, theirs: Performance, ours: Performance) -> Iterator[Finding]:
    """What cannot be asked any more, after something has failed, is left out."""
    failed = [outcome for outcome in theirs.outcomes if outcome.error]
    if theirs.error or failed or len(theirs.outcomes) != len(ours.outcomes):
        missing = all(outcome.is_missing for outcome in failed)
        where = "" if theirs.error or missing or not failed else f" ({failed[0].case})"
        yield Finding("runs", False, theirs.error or (f"{failed[0].error}{where}" if failed else "no result"))
        return
    yield Finding("runs", True)
    pairs = list(zip(theirs.outcomes, ours.outcomes, strict=True))
    shapes = [text for pair in pairs if (text := shape_problem(*pair))]
    yield Finding("shapes and types", not shapes, *shapes[:1])
    if shapes:
        return
    wrong = [one.case for one, other in pairs if not matches(one.leaves, other.leaves)]
    detail = f"differ from the library's: {difference(theirs, ours)}" if wrong else ""
    yield Finding("values", not wrong, detail)
    if ours.outcomes and any(outcome.gradients for outcome in ours.outcomes):
        bad = [one.case for one, other in pairs if not matches(one.gradients, other.gradients)]
        yield Finding("gradients", not bad, f"differ from the library's ({bad[0]})" if bad else "")
    yield Finding("leaves its inputs as they are", not any(one.changes_inputs for one, _ in pairs))
    yield Finding("gives the same twice", all(one.is_steady for one, _ in pairs))
    for name in exercise.properties:
        yield Finding(name, theirs.properties.get(name, False))
    seconds = [sum(outcome.seconds for outcome in each.outcomes) for each in (theirs, ours)]
    slow = seconds[0] > max(SLOWEST * seconds[1], LEAST_SECONDS)
    yield Finding("speed", not slow, f"{seconds[0] / max(seconds[1], 1e-9):.0f} times as long as the library")


def shape_problem(theirs: Outcome, ours: Outcome) -> str:
    if len(theirs.leaves) != len(ours.leaves):
        return f"it returns {described(theirs.leaves)}; it should return {described(ours.leaves)} ({ours.case})"
    for own, target in zip(theirs.leaves, ours.leaves, strict=True):
        if not isinstance(target, Tensor) or not isinstance(own, Tensor):
            if isinstance(target, Tensor) or isinstance(own, Tensor):
                return f"it returns {described([own])} where {described([target])} is expected ({ours.case})"
        elif own.shape != target.shape:
            return f"the shape is {tuple(own.shape)}, expected {tuple(target.shape)} ({ours.case})"
        elif own.dtype != target.dtype and (own.is_floating_point() or target.is_floating_point()):
            return f"the type is {own.dtype}, expected {target.dtype} ({ours.case})"
        elif own.device != target.device:
            return f"it is on {own.device}, expected on {target.device} ({ours.case})"
    return ""


def described(leaves: Leaves) -> str:
    texts = [f"a tensor {tuple(leaf.shape)}" if isinstance(leaf, Tensor) else str(leaf)[:80] for leaf in leaves[:4]]
    return ", ".join(texts) + ", ..." * (len(leaves) > 4) or "nothing"


def recognised(exercise: FillIn, theirs: Performance, seed: int) -> Mistake | None:
    """The mistake of the catalogue whose values are the learner's, in every case."""
    for number, mistake in enumerate(exercise.mistakes):
        if matching(theirs, mistaken(exercise, seed, number)):
            return mistake
    return None


def first_wrong(theirs: Performance, ours: Performance) -> tuple[Tensor, Tensor, str] | None:
    for one, other in zip(theirs.outcomes, ours.outcomes, strict=True):
        for own, target in zip(one.leaves, other.leaves, strict=True):
            if not same(own, target) and isinstance(own, Tensor) and isinstance(target, Tensor):
                return own.double(), target.double(), one.case
    return None


def difference(theirs: Performance, ours: Performance) -> str:
    pair = first_wrong(theirs, ours)
    if pair is None:
        texts = next(
            (own, target, one.case)
            for one, other in zip(theirs.outcomes, ours.outcomes, strict=True)
            for own, target in zip(one.leaves, other.leaves, strict=True)
            if own != target
        )
        return f"{texts[0]} instead of {texts[1]} ({texts[2]})"
    own, target, case = pair
    size, place = largest(own, target)
    if not own.dim():
        return f"{own.item():.6g} instead of {target.item():.6g} ({case})"
    return f"max {size:.3g} at {list(place)} ({case})"


def largest(own: Tensor, target: Tensor) -> tuple[float, tuple[int, ...]]:
    gap = torch.where(own == target, 0.0, own - target).abs().nan_to_num(math.inf, math.inf)
    place = torch.unravel_index(gap.argmax(), gap.shape)
    return float(gap.max()), tuple(int(index) for index in place)


def grid_of(theirs: Performance, ours: Performance) -> Grid | None:
    """The matrix with the largest difference; where there is none, the first matrix."""
    pair = first_wrong(theirs, ours) or first_matrix(theirs, ours)
    if pair is None or not pair[0].dim():
        return None
    own, target, case = pair
    if not own.numel():
        return None
    _, place = largest(own, target)
    own, target = (each[place[:-2]] if each.dim() > 1 else each[None] for each in (own, target))
    row, column = place[-2:] if len(place) > 1 else (0, place[0])
    first_row, first_column = (max(0, index - MOST + 1) for index in (row, column))
    shown = [each[first_row : first_row + MOST, first_column : first_column + MOST].tolist() for each in (own, target)]
    return Grid(shown[0], shown[1], case, (row - first_row, column - first_column))


def first_matrix(theirs: Performance, ours: Performance) -> tuple[Tensor, Tensor, str] | None:
    for one, other in zip(theirs.outcomes, ours.outcomes, strict=True):
        for own, target in zip(one.leaves, other.leaves, strict=True):
            if isinstance(own, Tensor) and own.dim() and isinstance(target, Tensor):
                return own.double(), target.double(), one.case
    return None
