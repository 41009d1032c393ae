"""What the tests share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

from headway import cli


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def shake(model: nn.Module) -> nn.Module:
    """Random numbers in every weight: what starts at zero must not hide a mistake."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn_like(weight))
    return model.eval()


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def headway(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Outcome]:
    """Run the command line in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return Outcome(int(exit.value.code or 0), *capsys.readouterr())

    return run
