"""Programs: tokens in, logits out, for any batch size and length. Export a run as one for torch (torch.export)."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer as Core
from torch import Tensor, nn

from headway import __version__
from headway.config.errors import Problem
from headway.interop.exportable import TOLERANCE, Exportable, Proof
from headway.models import Classifier, Decoder, EncoderDecoder
from headway.models.masked_lm import MaskedModel, NextModel
from headway.nn.positions import Position
from headway.nn.recurrent import Recurrent
from headway.tasks.abilities import Predicts, can, need
from headway.text.framing import Framing

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


def write_torch(source: Exportable, folder: Path) -> tuple[str, Proof]:
    program = trace(source.model)
    for name, framing in source.framings.items():
        (folder / f"{name}.json").write_text(framing.to_json(), encoding="utf-8")
    read = Core.from_file(str(folder / f"{next(iter(source.framings))}.json"))
    # A mask is put in as its number, which about.json tells: in a text it would be plain letters.
    source.refuse_other_tokens(lambda text: cut(source.framing, read.encode(text).ids), masks=False)
    module = program.module
    about = {
        "made_by": f"headway {__version__}",
        "inputs": {name: MEANINGS[name] for name in module.inputs},
        "outputs": {"logits": module.output},
        **about_texts(source),
    }
    (folder / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
    difference = save_torch(program, folder / "model.pt2")
    return "program for torch", Proof(difference)


def about_texts(source: Exportable) -> dict[str, Any]:
    """What a user must know about the texts, for about.json."""
    framing, task = source.framing, source.task
    about: dict[str, Any] = {"special_tokens": framing.special}
    if can(task, Predicts):
        about |= {"labels": need(task, Predicts).labels, "first_tokens": len(framing.first), "longest": source.length}
        about |= {"keep": framing.keep}
    if (writer := source.generator) is not None:
        about |= {"end": writer.eos, "window": writer.window}
    if (translator := source.translator) is not None and translator.tags:
        symbols = translator.source.vocabulary.symbols
        about["target_tokens"] = {name: symbols[token] for name, token in translator.tags.items()}
    return about


def cut(framing: Framing, tokens: list[int]) -> list[int]:
    """A text of which both ends are kept, as about.json tells a user to cut it."""
    if framing.longest is None or len(tokens) <= framing.longest:
        return tokens
    front = (framing.longest + len(framing.first) + 1) // 2
    return tokens[:front] + tokens[len(tokens) - framing.longest + front :]


def save_torch(program: Program, path: Path) -> float:
    content = io.BytesIO()  # torch's own writer of files aborts the process when the disk is full
    torch.export.save(program.traced, content)
    path.write_bytes(content.getbuffer())
    loaded: Any = torch.export.load(path).module()
    return verify_program(program, lambda *inputs: loaded(*inputs))


def trace(model: Any) -> Program:
    model = model.requires_grad_(False)
    wrapper = PROGRAMS.get(type(model))
    if wrapper is None:
        raise Problem(f"a {type(model).__name__.lower()} cannot be exported as a program")
    if any(isinstance(part, Recurrent) for part in model.modules()):
        raise Problem("a recurrent network cannot be a program of torch: it would work for one length; use onnx")
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
        differences.append(relative_difference(output, expected))
    return refuse_different("the program", float(np.max(differences)))  # NaN if one of them is


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


def refuse_different(what: str, max_difference: float) -> float:
    if not max_difference <= TOLERANCE:
        raise Problem(
            f"{what} is not the same model: outputs differ by {max_difference:.1e}, more than {TOLERANCE:.0e}"
        )
    return max_difference


def relative_difference(output: Tensor, expected: Tensor) -> float:
    """The largest one, relative to the largest output."""
    if not expected.numel():
        return 0.0
    return float((output - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
