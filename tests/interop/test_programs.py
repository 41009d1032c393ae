"""Models as programs of torch and of ONNX: the same logits, for every part, at sizes that they were not made with."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from torch import nn

import headway as hw
from conftest import Outcome, quick, shake
from headway import Run
from headway.config.errors import Problem
from headway.interop.programs import Program, save_torch, trace, verify_program
from headway.interop.to_onnx import TRIED, Part, parts_of, save, verify
from headway.models import ModelSpec, build_classifier, build_decoder, build_encoder_decoder
from headway.models.build import build_masked, build_next
from headway.recipes import TABLES
from trained import Trained

Headway = Callable[..., Outcome]
SPEC = ModelSpec(layers=2, width=16, heads=4, kv_heads=2, hidden=24)
FLAT = replace(SPEC, layers=1)  # where a layer shows it all: exporters take their time for each
PARTS = ("embedding", "position", "attention", "feedforward", "norm", "norm_kind", "qk_norm", "pooling")
MODELS: dict[str, Callable[[ModelSpec], Any]] = {
    "classifier": lambda spec: build_classifier(spec, 20, 32, 3),
    "decoder": lambda spec: build_decoder(spec, 20, 32),
    "masked": lambda spec: build_masked(spec, 20, 32),
    "next": lambda spec: build_next(spec, 20, 32),
    "encoder-decoder": lambda spec: build_encoder_decoder(spec, 20, 25, 32),
}


@pytest.mark.parametrize(("key", "name"), [(key, name) for key in PARTS for name in TABLES[f"model.{key}"]])
def test_every_part_becomes_a_program_of_torch(key: str, name: str, tmp_path: Path) -> None:
    change: dict[str, Any] = {key: name}
    program = trace(shake(MODELS["classifier"](replace(FLAT, **change))))
    assert save_torch(program, tmp_path / "model.pt2") < 1e-5


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("position", ["learned", "t5", "rotary"])
def test_every_kind_of_model_becomes_a_program(kind: str, position: str, tmp_path: Path) -> None:
    model = shake(MODELS[kind](replace(SPEC, position=position, bias=position != "rotary")))
    assert save_torch(trace(model), tmp_path / "model.pt2") < 1e-5
    if position == "t5":
        assert onnx_difference(model, tmp_path) < 1e-4


def onnx_difference(model: Any, folder: Path, limit: int | None = 32) -> float:
    """Of the programs of a model, at sizes other than the traced one, with and without tokens before."""
    worst = 0.0
    for name, part in parts_of(model.requires_grad_(False)).items():
        save(part, folder / f"{name}.onnx")
        worst = max(worst, verify(part, onnxruntime.InferenceSession(folder / f"{name}.onnx"), limit))
    return worst


@pytest.mark.parametrize("mixer", ["rnn", "lstm(window=2)", "gru"])
def test_recurrent_networks_keep_their_hidden_state(mixer: str, tmp_path: Path) -> None:
    """A window of truncated backpropagation is for training alone."""
    assert onnx_difference(shake(MODELS["decoder"](replace(SPEC, mixer=mixer))), tmp_path) < 1e-4


def test_a_recurrent_network_in_both_directions(tmp_path: Path) -> None:
    spec = replace(SPEC, mixer="lstm", encoder_mixer="gru(both=True)", position="sinusoidal")
    assert onnx_difference(shake(MODELS["encoder-decoder"](spec)), tmp_path) < 1e-4


@pytest.mark.parametrize("position", [name for name in TABLES["model.position"] if name not in ("t5", "rotary")])
def test_a_cache_goes_with_every_position(position: str, tmp_path: Path) -> None:
    assert onnx_difference(shake(MODELS["decoder"](replace(SPEC, layers=1, position=position))), tmp_path) < 1e-4


@pytest.mark.parametrize("pooling", TABLES["model.pooling"])
def test_every_pooling_becomes_onnx(pooling: str, tmp_path: Path) -> None:
    """With the other parts that the programs above do not have."""
    more: dict[str, Any] = {"feedforward": "swiglu", "norm": "post", "norm_kind": "rmsnorm", "position": "relative"}
    assert onnx_difference(shake(MODELS["classifier"](replace(FLAT, pooling=pooling, **more))), tmp_path) < 1e-4


def test_a_program_that_differs_is_refused() -> None:
    program = trace(shake(MODELS["decoder"](SPEC)))
    assert verify_program(program, program.module) == 0
    with pytest.raises(Problem, match="is not the same model"):
        verify_program(program, lambda tokens: program.module(tokens) * 1.001)
    with pytest.raises(Problem, match="is not the same model: outputs differ by nan"):
        verify_program(program, lambda tokens: program.module(tokens) * (math.nan if len(tokens) == 2 else 1))
    with pytest.raises(Problem, match="fails on inputs of shape"):
        verify_program(Program(program.module, program.traced, [(torch.zeros(1, 2),)]), program.module)


def test_what_cannot_be_a_program_says_so(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="recurrent"):
        trace(MODELS["decoder"](replace(SPEC, mixer="lstm")))
    product = Part(
        Product(), lambda rows, time, past: (torch.ones(rows, time),), [{0: "rows", 1: "time"}], ("products",)
    )
    with pytest.raises(Problem, match=r"cannot be made into ONNX: DispatchError: No ONNX function found for .*prod"):
        save(product, tmp_path / "model.onnx")


class Product(nn.Module):
    """What ONNX has no counterpart for."""

    inputs = ("numbers",)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.cumprod(dim=-1)


@pytest.mark.parametrize("embedding", [name for name in TABLES["model.embedding"] if name != "lookup"])
def test_every_embedding_becomes_onnx(embedding: str, tmp_path: Path) -> None:
    """At lengths beyond those that distances are clipped at, too."""
    assert max(time for _, time, _ in TRIED) == 300
    model = shake(MODELS["classifier"](replace(FLAT, embedding=embedding, position="t5")))
    assert onnx_difference(model, tmp_path, limit=None) < 1e-4


@pytest.mark.parametrize("kind", ["classifier", "encoder-decoder"])
def test_a_model_of_few_positions_becomes_a_program(kind: str, tmp_path: Path) -> None:
    short = replace(FLAT, position="learned")
    model = build_classifier(short, 20, 6, 3) if kind == "classifier" else build_encoder_decoder(short, 20, 25, 6)
    program = trace(shake(model))
    assert max(tensor.shape[1] for inputs in program.tried for tensor in inputs if tensor.ndim > 1) == 6
    assert save_torch(program, tmp_path / "model.pt2") < 1e-5


@pytest.mark.parametrize("name", ["classify", "parity", "language", "pretrain", "translate"])
def test_a_run_becomes_a_folder_that_needs_no_headway(name: str, headway: Headway, tmp_path: Path) -> None:
    assert headway("train", name, *quick(name, tmp_path), "--out", "run").code == 0
    outcome = headway("export", "run", "--to", "torch", "--out", "program")
    assert outcome.code == 0, outcome.err
    assert "a program for torch in program; its outputs differ from the run's by at most" in outcome.out
    about = json.loads(Path("program/about.json").read_text())
    loaded: Any = torch.export.load("program/model.pt2").module()
    if name == "classify":
        text = "the plot was not dull . i did really enjoy the music ."
        tokens = torch.tensor([Tokenizer.from_file("program/tokenizer.json").encode(text).ids])
        answer = Run("run").load().predict(text)
        scores = loaded(tokens, torch.tensor([tokens.shape[1]])).softmax(dim=-1)
        assert dict(zip(about["labels"], scores[0].tolist(), strict=True)) == pytest.approx(
            answer.probabilities, abs=1e-4
        )
    again = headway("export", "run", "--to", "torch", "--out", "program")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert not list(tmp_path.glob(".new-*"))


def test_a_policy_goes_out_as_its_decoder_with_the_adapters_merged(trained: Trained, tmp_path: Path) -> None:
    rankings = [{"prompt": "a" * n, "answers": ["bb", "b" * 3 + "a" * n]} for n in range(1, 9)]
    data = {"train": rankings, "template": "{prompt}{answer}", "validation": 0.4, "max_length": 16, "lora_rank": 2}
    how: dict[str, Any] = {"start": trained["letters"], "train": {"steps": 2, "learning_rate": 0.1}, "progress": False}
    model = hw.train("dpo", data=data, out=tmp_path / "dpo", **how)
    assert model.export(tmp_path / "gpt2", to="transformers").kind == "gpt2"
    model.export(tmp_path / "program", to="torch")
    tokens = torch.tensor([[1, 2, 3]])
    unmerged: Any = model.network.double().decoder
    linear = [part for part in trained["letters"].network.modules() if type(part) is nn.Linear]
    trainable = sum(weight.numel() for weight in unmerged.parameters() if weight.requires_grad)
    assert trainable == 2 * sum(part.in_features + part.out_features for part in linear) > 0
    expected = unmerged(tokens).detach().float()
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    program: Any = torch.export.load(tmp_path / "program" / "model.pt2").module()
    for logits in (theirs(tokens).logits.detach(), program(tokens)):
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert (expected - trained["letters"].network(tokens)).abs().max() > 0.01
