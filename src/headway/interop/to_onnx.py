"""Export a run to ONNX, with its tokenizers and a runner of a few lines that needs no headway and no torch.

Language models and translators keep what they have read in a cache, which is an input and an output (interop/cached).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway import __version__
from headway.config.errors import Problem
from headway.config.imports import library
from headway.interop.cached import CachedDecoder, SourceEncoder
from headway.interop.exportable import Exportable, Proof
from headway.interop.programs import (
    ABOUT,
    MEANINGS,
    PROGRAMS,
    about_texts,
    converting,
    inputs_of,
    quiet,
    refuse_different,
    relative_difference,
)
from headway.interop.recurrent_programs import translations, with_programs
from headway.interop.runners import classify, fill, write
from headway.models import Decoder, EncoderDecoder
from headway.tasks.abilities import Fills, Predicts, can

TRACED = (3, 9, 5)  # rows, tokens, and tokens before them
TRIED = ((2, 12, 3), (1, 1, 0), (4, 1, 7), (1, 7, 0), (2, 300, 2))  # to check it with, as far as they fit
RUNNER = "run.py"


class Part(NamedTuple):
    """A program to be: a module with its names, examples, and the axes of any size."""

    module: Any
    example: Callable[[int, int, int], tuple[Tensor, ...]]
    axes: list[dict[int, str]]
    outputs: tuple[str, ...]


def parts_of(model: Any) -> dict[str, Part]:
    """By the name of the file."""
    if type(model) is EncoderDecoder:
        encoder, decoder = SourceEncoder(model).eval(), CachedDecoder(model.decoder).eval()
        return {"encoder": part_of(encoder), "decoder": part_of(decoder)}
    if type(model) is Decoder:
        return {"model": part_of(CachedDecoder(model).eval())}
    wrapper = PROGRAMS.get(type(model))
    if wrapper is None:
        raise Problem(f"a {type(model).__name__.lower()} cannot be exported as a program")
    module: Any = wrapper(with_programs(model)).eval()
    axes = [{0: "rows"} if name == "lengths" else {0: "rows", 1: "time"} for name in module.inputs]
    return {"model": Part(module, lambda rows, time, past: inputs_of(module, rows, time), axes, ("logits",))}


def part_of(module: Any) -> Part:
    return Part(module, module.example, module.axes(), module.outputs)


def write_onnx(source: Exportable, folder: Path, int8: bool = False) -> tuple[str, Proof]:
    library("onnxscript", "onnx")
    runtime = library("onnxruntime", "onnx")
    differences = []
    parts = parts_of(source.model)
    for name, part in parts.items():
        path = folder / f"{name}.onnx"
        save(part, path)
        if int8:
            quantize(path)
        difference = verify(part, runtime.InferenceSession(path, providers=["CPUExecutionProvider"]), source.table)
        if not int8:
            refuse_different("the program", difference)
        differences.append(difference)
    for name, framing in source.framings.items():
        (folder / f"{name}.json").write_text(framing.to_json(), encoding="utf-8")
    runner = runner_of(source)
    about = about_programs(parts) | about_texts(source) | (about_writing(source, parts) if runner is write else {})
    if can(source.task, Fills):
        about |= about_filling(source)
    (folder / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False), encoding="utf-8")
    same, texts = 0, 0
    if runner is not None:
        assert runner.__file__ is not None
        (folder / RUNNER).write_text(Path(runner.__file__).read_text(encoding="utf-8"), encoding="utf-8")
        same, texts = prove_texts(source, runner, folder, not int8)
    return "program for ONNX", Proof(float(np.max(differences)), same, texts)


def runner_of(source: Exportable) -> Any:
    if source.generator is not None:
        return write
    return classify if can(source.task, Predicts) else fill if can(source.task, Fills) else None


def save(part: Part, path: Path) -> None:
    example = part.example(*TRACED)
    axes = [dict.fromkeys(each, torch.export.Dim.AUTO) for each in part.axes]
    takes_all = isinstance(part.module, CachedDecoder)  # as one tuple
    with converting("ONNX"):
        traced = torch.export.export(part.module, example, dynamic_shapes=(tuple(axes),) if takes_all else tuple(axes))
        names: dict[str, Any] = {"input_names": list(part.module.inputs), "output_names": list(part.outputs)}
        converted = torch.onnx.export(traced, dynamo=True, custom_translation_table=translations(), **names)
    assert converted is not None
    converted.save(path)


def quantize(path: Path) -> None:
    """The matrices as int8, by onnxruntime's own tool; what they are multiplied with is quantized as it comes."""
    quantization = library("onnxruntime.quantization", "onnx")
    whole = path.with_name(f"whole-{path.name}")
    path.rename(whole)
    onnx = library("onnx", "onnx")
    model = onnx.load(whole)
    del model.graph.value_info[:]  # the tool finds the shapes again, and stumbles over those that it finds
    onnx.save(model, whole)
    with quiet():
        quantization.quantize_dynamic(whole, path, weight_type=quantization.QuantType.QInt8)
    whole.unlink()


def verify(part: Part, session: Any, limit: int | None) -> float:
    """The largest difference from the model's outputs, at sizes other than the traced one."""
    names, differences = {entry.name for entry in session.get_inputs()}, [0.0]
    for rows, time, past in TRIED:
        if limit is not None and time + past > limit:
            continue
        inputs = part.example(rows, time, past)
        fed = {name: each.numpy() for name, each in zip(part.module.inputs, inputs, strict=True) if name in names}
        try:
            outputs = [torch.from_numpy(each) for each in session.run(None, fed)]
        except Exception as error:  # the library has many
            reason = " ".join(str(error).split())[:200]
            raise Problem(f"the program fails on {rows} rows of {time} tokens: {reason}") from None
        expected = part.module(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        differences += map(relative_difference, outputs, expected)
    return float(np.max(differences))  # NaN if one of them is


def about_programs(parts: dict[str, Part]) -> dict[str, Any]:
    about: dict[str, Any] = {"made_by": f"headway {__version__}", "programs": list(parts)}
    for name, part in parts.items():
        inputs = {each: MEANINGS.get(each, "from the last step") for each in part.module.inputs}
        about |= {f"inputs of {name}": inputs, f"outputs of {name}": {part.outputs[0]: part.module.output}}
    return about


def about_writing(source: Exportable, parts: dict[str, Part]) -> dict[str, Any]:
    """What the search in the runner needs to know."""
    writer, translator = source.generator, source.translator
    assert writer is not None
    reads, *_, writes = *source.framings, *source.framings
    decoder: Any = parts.get("decoder", parts.get("model"))
    languages = dict(translator.tags) if translator and len(translator.tags) > 1 else {}
    about = {"reads": f"{reads}.json", "writes": f"{writes}.json", "languages": languages, "suffix": writer.after}
    about["cache"] = decoder.module.slots.shapes
    if translator is not None:
        beam = translator.beam
        how = {"beams": beam.width, "penalty": beam.length_penalty, "limit": source.limit, "template": "{prompt}"}
        return about | how | {"opening": [translator.bos or 0], "window": None}
    opening = [writer.bos] if writer.bos is not None else writer.tokenizer.encode(["\n"])[0].tolist()
    how = {"beams": 1, "penalty": 1.0, "limit": source.limit, "template": writer.format_prompt("{prompt}")}
    return about | how | {"opening": opening}


def about_filling(source: Exportable) -> dict[str, Any]:
    framing = source.framing
    mask = framing.tokenizer.vocabulary.index["[MASK]"]
    return {"mask": mask, "first": list(framing.first), "last": list(framing.last)}


def prove_texts(source: Exportable, runner: Any, folder: Path, exact: bool) -> tuple[int, int]:
    """By the runner that lies in the folder."""
    model = runner.Model(folder)
    if runner is classify:
        source.refuse_other_tokens(model.tokens_of)
        return source.compare_probabilities(model.probabilities, exact)
    if runner is fill:
        source.refuse_other_tokens(model.tokens_of)
        return source.compare_filled(model.fill, exact)
    languages = list(model.about["languages"])
    source.refuse_other_tokens(lambda text: model.reads.encode(text).ids or model.about["opening"])
    how = model.about["beams"], source.room, model.about["penalty"], languages[0] if languages else None
    return source.compare_texts(lambda texts: [model.search(text, *how)[0][0] for text in texts], exact)
