"""Export a run as a program: tokens in, logits out, for any batch size and length.

The folder has the program, the tokenizer, and about.json, which describes inputs and outputs.
"""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway import __version__
from headway.config.errors import Problem
from headway.config.imports import library
from headway.interop.from_transformers import refuse_different
from headway.interop.weights import network_of
from headway.models import Classifier, Decoder, EncoderDecoder
from headway.models.masked_lm import MaskedModel, NextModel
from headway.nn.positions import Position
from headway.nn.recurrent import Recurrent
from headway.runs.run import Run

ABOUT = "about.json"
TRACED, TRIED = (3, 9), ((2, 12), (1, 5), (4, 2), (1, 300))  # rows and tokens for tracing, and for checking


class ClassifierProgram(nn.Module):
    inputs = ("tokens", "lengths")
    output = "(batch, classes) logits of the labels"

    def __init__(self, model: Classifier):
        super().__init__()
        self.model = model

    def vocabularies(self) -> dict[str, int]:
        return {"tokens": self.model.encoder.embedding.vocabulary}

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.model(tokens, lengths)


class MaskedProgram(nn.Module):
    inputs = ("tokens", "lengths")
    output = "(batch, time, vocabulary) logits of the token at each position"

    def __init__(self, model: MaskedModel):
        super().__init__()
        self.encoder, self.head = model.encoder, model.head

    def vocabularies(self) -> dict[str, int]:
        return {"tokens": self.encoder.embedding.vocabulary}

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.head(self.encoder(tokens, lengths))


class DecoderProgram(nn.Module):
    inputs = ("tokens",)
    output = "(batch, time, vocabulary) logits of the next token"

    def __init__(self, model: Decoder):
        super().__init__()
        self.model, self.vocabulary = model, int(model.embedding.vocabulary)  # type: ignore[arg-type]

    def vocabularies(self) -> dict[str, int]:
        return {"tokens": self.vocabulary}

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens)


class EncoderDecoderProgram(nn.Module):
    inputs = ("tokens", "lengths", "written")
    output = "(batch, time, vocabulary) logits of the next token of the translation"

    def __init__(self, model: EncoderDecoder):
        super().__init__()
        self.model, self.vocabulary = model, int(model.decoder.embedding.vocabulary)  # type: ignore[arg-type]

    def vocabularies(self) -> dict[str, int]:
        return {"tokens": self.model.encoder.embedding.vocabulary, "written": self.vocabulary}

    def forward(self, tokens: Tensor, lengths: Tensor, written: Tensor) -> Tensor:
        return self.model(tokens, written, lengths)


PROGRAMS: dict[type, type[nn.Module]] = {
    Classifier: ClassifierProgram,
    Decoder: DecoderProgram,
    MaskedModel: MaskedProgram,
    NextModel: MaskedProgram,
    EncoderDecoder: EncoderDecoderProgram,
}
MEANINGS = {
    "tokens": "(batch, time) integers",
    "lengths": "(batch,) number of tokens in each row, without padding",
    "written": "(batch, time) the tokens of the translation so far",
}


class Program(NamedTuple):
    module: Any
    traced: torch.export.ExportedProgram
    tried: list[tuple[Tensor, ...]]  # inputs to check it with


def write_torch(run: Run, folder: Path) -> tuple[str, float]:
    program = trace(network_of(run))
    write_about(run, program, folder)
    return "program for torch", save_torch(program, folder / "model.pt2")


def save_torch(program: Program, path: Path) -> float:
    content = io.BytesIO()  # torch's own writer of files aborts the process when the disk is full
    torch.export.save(program.traced, content)
    path.write_bytes(content.getbuffer())
    loaded: Any = torch.export.load(path).module()
    return verify_program(program, lambda *inputs: loaded(*inputs))


def write_onnx(run: Run, folder: Path) -> tuple[str, float]:
    program = trace(network_of(run))
    write_about(run, program, folder)
    return "program for ONNX", save_onnx(program, folder / "model.onnx")


def save_onnx(program: Program, path: Path) -> float:
    library("onnxscript", "onnx")
    onnxruntime = library("onnxruntime", "onnx")
    with converting("ONNX"):
        converted = torch.onnx.export(program.traced, dynamo=True)
    assert converted is not None
    converted.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def run_onnx(*inputs: Tensor) -> Tensor:
        (output,) = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)})
        return torch.from_numpy(output)

    return verify_program(program, run_onnx)


def trace(model: Any) -> Program:
    model = model.requires_grad_(False)
    wrapper = PROGRAMS.get(type(model))
    if wrapper is None:
        raise Problem(f"a {type(model).__name__.lower()} cannot be exported as a program")
    if any(isinstance(part, Recurrent) for part in model.modules()):
        raise Problem("a recurrent network cannot be exported as a program: it would work for one length only")
    module: Any = wrapper(model).eval()
    example, *tried = [inputs_of(module, *shape) for shape in (TRACED, *TRIED)]
    dynamic = tuple(dict.fromkeys(range(tensor.ndim), torch.export.Dim.AUTO) for tensor in example)
    with converting("a program"):
        traced = torch.export.export(module, example, dynamic_shapes=dynamic)
    return Program(module, traced, tried)


def inputs_of(module: Any, rows: int, time: int) -> tuple[Tensor, ...]:
    """Random ones; as long as the positions allow, if that is less."""
    random, sizes = torch.Generator().manual_seed(rows), module.vocabularies()
    longest = min(
        (part.length for part in module.modules() if isinstance(part, Position) and part.length), default=time
    )
    time = min(time, longest - ("written" in module.inputs))
    inputs = []
    for name in module.inputs:
        if name == "lengths":
            inputs.append(torch.arange(time, time - rows, -1).clamp(min=1))
        else:
            shape = (rows, time + (name == "written"))
            inputs.append(torch.randint(sizes[name], shape, generator=random))
    return tuple(inputs)


def verify_program(program: Program, run: Callable[..., Tensor]) -> float:
    """The largest difference from the run's outputs, at sizes other than the traced one; too large is an error."""
    differences = []
    for inputs in program.tried:
        try:
            output = run(*inputs)
        except Exception as error:  # from several libraries
            shape = " and ".join(str(tuple(tensor.shape)) for tensor in inputs)
            reason = " ".join(str(error).split())[:200]
            raise Problem(f"the program fails on inputs of shape {shape}: {reason}") from None
        expected = program.module(*inputs)
        differences.append((output - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
    return refuse_different("the program", float(torch.stack(differences).max()))  # NaN if one of them is


def write_about(run: Run, program: Program, folder: Path) -> None:
    task = run.task
    about: dict[str, Any] = {
        "made_by": f"headway {__version__}",
        "recipe": run.recipe.name,
        "inputs": {name: MEANINGS[name] for name in program.module.inputs},
        "scores": program.module.output,
    }
    about |= task.export_tokens(folder)
    (folder / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")


@contextlib.contextmanager
def converting(into: str) -> Iterator[None]:
    """The exporters fail in their own ways, above all where there is no counterpart for what a part computes."""
    try:
        with quiet():
            yield
    except (Problem, MemoryError):
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = " ".join(str(cause).split())[:200]
        raise Problem(f"this model cannot be made into {into}: {type(cause).__name__}: {reason}") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The exporters print many lines about what they are doing."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
