"""Calling a function as an exercise says, and writing down what comes out: values, gradients, properties, time.

The same is done with the learner's function and with the library's; ``judging`` compares the two.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from headway.learn.exercise import NOT_YET, Args, FillIn

MOST_TEXT = 300  # characters of a message
Leaves = list[Any]  # tensors, and texts for all else


@dataclass
class Outcome:
    """Of one case."""

    case: str
    leaves: Leaves = field(default_factory=list)
    gradients: Leaves = field(default_factory=list)
    error: str = ""
    is_missing: bool = False  # nothing has been written yet
    changes_inputs: bool = False
    is_steady: bool = True  # twice the same
    seconds: float = 0.0


@dataclass
class Performance:
    outcomes: list[Outcome] = field(default_factory=list)
    properties: dict[str, bool] = field(default_factory=dict)
    error: str = ""  # where the file cannot even be read

    def to_bytes(self) -> bytes:
        """Tensors as safetensors, all else as JSON in its metadata: reading it runs nothing."""
        tensors: dict[str, Tensor] = {}

        def kept(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            tensors[str(len(tensors))] = leaf.detach().contiguous().clone()
            return {"tensor": len(tensors) - 1}

        rows = []
        for outcome in self.outcomes:
            leaves = {"leaves": [*map(kept, outcome.leaves)], "gradients": [*map(kept, outcome.gradients)]}
            rows.append({**vars(outcome), **leaves})
        about = json.dumps({"outcomes": rows, "properties": self.properties, "error": self.error})
        return save({**tensors, "about": torch.frombuffer(bytearray(about.encode()), dtype=torch.uint8)})

    @classmethod
    def from_bytes(cls, content: bytes) -> "Performance":
        """Raises ValueError if it is damaged."""
        try:
            tensors = load(content)
            about = json.loads(bytes(tensors.pop("about").tolist()))

            def leaves(kept: list[Any]) -> Leaves:
                return [tensors[str(each["tensor"])] if isinstance(each, dict) else str(each) for each in kept]

            outcomes = [
                Outcome(**{**row, "leaves": leaves(row["leaves"]), "gradients": leaves(row["gradients"])})
                for row in about["outcomes"]
            ]
            return cls(outcomes, {str(name): bool(held) for name, held in about["properties"].items()}, about["error"])
        except Exception as error:  # whatever a stranger's process has written
            raise ValueError(f"no result: {error}") from None


def cases(exercise: FillIn, seed: int) -> Mapping[str, Args]:
    torch.manual_seed(seed)
    return exercise.cases()


def perform(
    function: Callable[..., Any], exercise: FillIn, seed: int, kind: type | None = None, brief: bool = False
) -> Performance:
    """``kind`` is the class of the method, if the learner has written one: with helpers of their own. ``brief`` is for
    values alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return performing(function, exercise, seed, kind, brief)


def performing(
    function: Callable[..., Any], exercise: FillIn, seed: int, kind: type | None, brief: bool
) -> Performance:
    performance = Performance()
    for case in cases(exercise, seed):
        outcome = Outcome(case)
        performance.outcomes.append(outcome)
        try:
            call(function, exercise, seed, kind, outcome, brief)
        except NotImplementedError as error:
            outcome.error, outcome.is_missing = NOT_YET, exercise.region.name in str(error)
            outcome.error = outcome.error if outcome.is_missing else text_of(error)
        except (Exception, SystemExit, RecursionError) as error:
            outcome.error = text_of(error)
    if not brief and not any(outcome.error for outcome in performance.outcomes):
        for name, holds in exercise.properties.items():
            performance.properties[name] = held(holds, function, exercise, seed, kind)
    return performance


def held(holds: Any, function: Callable[..., Any], exercise: FillIn, seed: int, kind: type | None) -> bool:
    first = next(iter(cases(exercise, seed).values()))
    try:
        return bool(holds(function, of_kind(first, kind)))
    except Exception:
        return False


def call(
    function: Callable[..., Any], exercise: FillIn, seed: int, kind: type | None, outcome: Outcome, brief: bool
) -> None:
    args = of_kind(cases(exercise, seed)[outcome.case], kind)
    inputs = [leaf.requires_grad_() for leaf in tensors_in(args) if leaf.is_floating_point()]
    before = [leaf.detach().clone() for leaf in tensors_in(args)]
    called_with = exercise.called_with() if exercise.called_with else None

    def answer(args: Args) -> Any:
        torch.manual_seed(seed)
        result = function(*args)
        return result if called_with is None else result(*called_with)

    start = time.process_time()
    result = answer(args)
    outcome.seconds = time.process_time() - start
    leaves = list(flattened(result))
    if not brief:
        after = zip(tensors_in(args), before, strict=True)
        outcome.changes_inputs = any(not torch.equal(one.detach(), other) for one, other in after)
        outcome.gradients = gradients(leaves, inputs)
        again = list(flattened(answer(of_kind(cases(exercise, seed)[outcome.case], kind))))
        outcome.is_steady = matches(leaves, again, exact=True)
    outcome.leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def of_kind(args: Args, kind: type | None) -> Args:
    if kind is not None:  # first what the learner wrote, then what the library has
        object.__setattr__(args[0], "__class__", type(kind.__name__, (kind, type(args[0])), {}))
    return args


def tensors_in(args: Any) -> list[Tensor]:
    """Of the arguments, the weights of modules included; those that can have gradients are copies of nothing."""
    found: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, nn.Module):
            found += list(value.parameters())
        elif isinstance(value, tuple | list):
            found += tensors_in(value)
    return found


def flattened(value: Any) -> Iterator[Any]:
    """Tensors, and texts for all else; a number is a tensor without dimensions."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, np.ndarray | np.generic):
        yield torch.from_numpy(np.asarray(value).copy())
    elif isinstance(value, bool) or value is None or isinstance(value, str):
        yield repr(value)
    elif isinstance(value, int | float):
        yield torch.tensor(float(value), dtype=torch.double)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield repr(key)
            yield from flattened(value[key])
    elif is_dataclass(value) and not isinstance(value, type):
        yield from flattened({name: each for name, each in vars(value).items() if each is not None})
    elif isinstance(value, tuple | list):
        yield f"{len(value)} values"
        for each in value:
            yield from flattened(each)
    else:
        yield f"a {type(value).__name__}"


def gradients(leaves: Leaves, inputs: list[Tensor]) -> Leaves:
    """Of a sum of all that came out, in which every number has a weight of its own."""
    total: Any = 0.0
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.is_floating_point():
            weights = torch.cos(torch.arange(leaf.numel(), dtype=torch.double)).view(leaf.shape)
            finite = torch.isfinite(leaf)
            total = total + (torch.where(finite, leaf, 0) * weights).sum()
    if not isinstance(total, Tensor) or not inputs:
        return []
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, inputs, strict=True)]


def same(one: Any, other: Any, exact: bool = False) -> bool:
    """In float64, a right formula differs by some 1e-16 from another, and a mistake by much more than 1e-9."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return isinstance(one, str) and isinstance(other, str) and one == other
    if one.shape != other.shape:
        return False
    if exact or not (one.is_floating_point() or other.is_floating_point()):
        return bool(((one == other) | ((one != one) & (other != other))).all())
    return torch.allclose(one.double(), other.double(), rtol=1e-9, atol=1e-10, equal_nan=True)


def matching(one: Performance, other: Performance) -> bool:
    """Whether the values are the same, in every case; where one fails, both do."""
    return all(
        bool(own.error) == bool(target.error) and matches(own.leaves, target.leaves)
        for own, target in zip(one.outcomes, other.outcomes, strict=True)
    )


def matches(own: Leaves, target: Leaves, exact: bool = False) -> bool:
    return len(own) == len(target) and all(same(a, b, exact) for a, b in zip(own, target, strict=True))


def text_of(error: BaseException) -> str:
    """In one line; where in the learner's file, if it is there."""
    where, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith(".py") and "__submission__" in trace.tb_frame.f_globals:
            where = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    line = " ".join(str(error).split())[:MOST_TEXT]
    return f"{type(error).__name__}: {line}{where}" if line else f"{type(error).__name__}{where}"
