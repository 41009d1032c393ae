"""Numbers that are not finite: found in the step in which they come up, named, and no weight changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from headway import recipes
from headway.objectives.tally import Tally as LossTally
from headway.runs.fit import start
from headway.training.checkpoint import weights_of
from headway.training.finite import NotFinite
from headway.training.loop import Loop
from torture.harness import Tally, chance, count
from torture.works import SMALLEST

BAD = (float("nan"), float("inf"), -float("inf"))
Place = tuple[str, Callable[[float], Any]]  # what the message names, and a context manager that plants the number


@contextmanager
def weight(tensor: torch.Tensor, bad: float) -> Iterator[None]:
    kept = tensor.detach().clone()
    with torch.no_grad():
        tensor.view(-1)[tensor.numel() // 2] = bad
    yield
    with torch.no_grad():
        tensor.copy_(kept)


@contextmanager
def output(module: nn.Module, bad: float) -> Iterator[None]:
    def spoil(_: nn.Module, inputs: Any, result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return result + bad
        return type(result)((spoil(_, inputs, result[0]), *result[1:]))  # of an LSTM: all outputs, and the last ones

    hook = module.register_forward_hook(spoil)
    yield
    hook.remove()


@contextmanager
def gradient(tensor: torch.Tensor, bad: float) -> Iterator[None]:
    hook = tensor.register_hook(lambda own: own + bad)
    yield
    hook.remove()


@contextmanager
def attribute(loop: Loop, name: str, value: Any) -> Iterator[None]:
    kept = getattr(loop, name)
    setattr(loop, name, value)
    yield
    setattr(loop, name, kept)


def called_by(work: Callable[[], Any], model: nn.Module) -> set[nn.Module]:
    """The modules that this calls: not those that only have methods of other names, such as positions."""
    called: set[nn.Module] = set()
    hooks = [each.register_forward_hook(lambda module, *_: called.add(module)) for each in model.modules()]
    work()
    for hook in hooks:
        hook.remove()
    return called


def places(loop: Loop, called: set[nn.Module]) -> Iterator[Place]:
    """Everywhere: weights, inputs and outputs of modules, gradients, the loss and the rate."""
    for name, parameter in loop.model.named_parameters():
        yield f"the weight {name}", partial(weight, parameter)
        yield f"the gradient of {name}", partial(gradient, parameter)
    for name, module in loop.model.named_modules():
        if module in called and not isinstance(module, nn.Sequential | nn.Dropout):
            yield f"the output of {name or 'the model'}", partial(output, module)
    loss = loop.loss

    def spoiled(bad: float) -> Callable[..., LossTally]:
        return lambda model, batch: LossTally(loss(model, batch).total * bad, loss(model, batch).count)

    yield "the loss itself", lambda bad: attribute(loop, "loss", spoiled(bad))
    yield "the learning rate", lambda bad: attribute(loop, "schedule", lambda *_: bad)


NAMES = {"parity": SMALLEST, "recurrent": [*SMALLEST, "model.mixer=lstm", "model.position=none", "model.pooling=mean"]}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_it_is_found_in_the_same_step(name: str, optimizer: str, tmp_path: Path, tally: Tally) -> None:
    overrides = [*NAMES[name], f"train.optimizer={optimizer}", "model.dropout=0"]
    fit = start(recipes.load("parity", overrides), tmp_path / "run")
    loop = fit.loop
    assert isinstance(loop, Loop)
    steps = loop.steps()
    next(steps)
    called = called_by(lambda: next(steps), loop.model)
    before = {name: tensor.clone() for name, tensor in weights_of(loop.model).items()}
    everywhere = list(places(loop, called))
    random = chance("numbers", name, optimizer)
    for place in random.permutation(len(everywhere))[: count(len(everywhere), 12)].tolist():
        what, plant = everywhere[place]
        bad = BAD[int(random.integers(3))]
        said, is_hidden = "nothing", False
        with plant(bad):
            try:
                loop.step(3)
                is_hidden = True  # an infinite weight may hide behind a sigmoid, but it is never saved
                loop.checkpoint({"step": 3})
            except NotFinite as error:
                said = str(error)
        for optimizer_of_loop in loop.optimizers:
            optimizer_of_loop.zero_grad()
        if is_hidden:
            before = {name: tensor.clone() for name, tensor in weights_of(loop.model).items()}
        if what not in said:
            tally.found("wrong loads", f"{name}, {bad} in {what}: {said}")
        changed = [key for key, tensor in weights_of(loop.model).items() if not torch.equal(tensor, before[key])]
        if changed:
            tally.found("wrong loads", f"{name}, {bad} in {what}: changed {changed}")
            break
        tally.add("places")
