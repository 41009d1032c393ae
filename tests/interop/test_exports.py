"""Every kind of run in every form, run by its own engine from text to text, with nothing of headway's but the files.

The exports themselves are proven while they are made; here, other processes and other code read what they left.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from conftest import quick
from headway.config.errors import Problem
from headway.interop.exportable import Exportable
from headway.text.framing import Framing
from headway.text.tokenizer import Tokenizer

SHORT = ["train.steps=12", "train.evaluate_every=12"]
GPT2 = ["model.position=learned(start=0.02)", "model.feedforward=gelu(tanh=True)", "data.window=64"]
LLAMA = ["model.position=rotary", "model.feedforward=swiglu", "model.norm_kind=rmsnorm", "model.bias=false"]
MARIAN = ["model.position=sinusoidal(halves=True)", "model.norm=post", "model.head=tied(bias=True)"]
BERT = ["model.embedding=lookup(scale=1, start=0.02)", "model.position=learned(start=0.02)", "model.norm=post"]
BERT += ["model.embedding_norm=true", "model.norm_kind=layernorm(eps=1e-12)", "model.head=transformed"]
CUT = ["data.max_length=24"]
AS_BERT = [*BERT[:-1], "model.pooling=pooler", "data.keep=head", *CUT]
RUNS: dict[str, tuple[str, list[str]]] = {  # by name: a recipe and settings
    "classifier": ("classify", []),
    "bert classifier": ("classify", AS_BERT),
    "gpt2 classifier": ("classify", ["model.causal=true", "model.pooling=last", "data.keep=tail", *CUT]),
    "puzzle": ("parity", []),
    "language": ("language", ["data.window=64"]),
    "lstm": ("language", ["model.mixer=lstm", "data.cross_document=true"]),
    "gpt2": ("language", GPT2),
    "llama": ("language", [*LLAMA, "data.window=64"]),
    "masked": ("pretrain", [*BERT, "model.feedforward=gelu", "data.window=40"]),
    "translator": ("translate", []),
    "marian": ("translate", MARIAN),
}
EXPORTS = [  # those that are possible, and their engines
    *((name, "onnx") for name in ("classifier", "puzzle", "lstm", "language", "masked", "translator")),
    *((name, "torch") for name in ("classifier", "gpt2", "translator")),
    *((name, "transformers") for name in ("gpt2", "llama", "masked", "marian")),
    *((name, "transformers") for name in ("bert classifier", "gpt2 classifier")),
    *((name, "ctranslate2") for name in ("language", "llama", "translator", "marian")),
    *((name, "gguf") for name in ("gpt2", "llama")),
]
REFUSED = {  # all misfits at once
    ("translator", "transformers"): ["sinusoidal(halves=True)", "model.norm=post", "tied(bias=True)"],
    ("language", "gguf"): ["model.position=sinusoidal"],
    ("lstm", "ctranslate2"): ["model.mixer=attention"],
    ("lstm", "torch"): ["use onnx"],
    ("classifier", "transformers"): ["data.keep=head or tail", "model.pooling=last", "model.causal=true"],
    ("classifier", "ctranslate2"): ["translators and language models"],
}
Runs = Callable[[str], Path]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs by name, each trained when it is first asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def run(name: str) -> Path:
        recipe, settings = RUNS[name]
        if not (folder / name).exists():
            words = [*quick(recipe, folder), *SHORT, *settings]
            hw.train(recipe, settings=words, out=folder / name, progress=False)
        return folder / name

    return run


@pytest.mark.parametrize(("name", "form"), EXPORTS)
def test_an_export_is_the_run_in_another_engine(name: str, form: str, runs: Runs, tmp_path: Path) -> None:
    model = hw.load(runs(name))
    exported = model.export(tmp_path / "out", to=form, license="mit")
    assert exported.max_difference < 1e-4
    assert exported.same == exported.texts
    assert exported.texts > 4 or form == "torch"
    card = (tmp_path / "out" / "README.md").read_text()
    assert 'license: "mit"' in card
    assert str(runs(name).parent) not in card  # no path of this machine
    if form != "gguf":  # its card is for llama.cpp
        assert shown(tmp_path / "out", card) == expected(model, form), card


def shown(folder: Path, card: str) -> str:
    """What the lines of the card print, in a process without headway."""
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    hidden = "import sys; sys.modules['headway'] = None\n"
    command = [sys.executable, "-W", "ignore", "-c", hidden + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def expected(model: hw.Model, form: str) -> str:
    """What the run says to the same text."""
    source = Exportable(model.run)
    text = source.texts()[0]
    if form == "torch":  # the card shows what goes in and out
        return Approximately("")
    if "predict" in model.abilities:
        chosen = model.predict(text)
        return Approximately(f"{chosen.probability if form == 'transformers' else chosen.probabilities}")
    if "fill" in model.abilities:
        return Approximately(repr([round(each.probability, 3) for each in model.fill(f"{text} [MASK]")[-1]]))
    limit = source.limit
    if "translate" in model.abilities:
        return model.translate(text)
    written = model.generate(text, max_new_tokens=limit, temperature=0)
    return text + written if form == "transformers" else written


class Approximately(str):
    """Equal to a text with numbers that are nearly the same; without numbers, to any text."""

    def __eq__(self, other: object) -> bool:
        ours, theirs = ([float(each) for each in re.findall(r"\d\.\d+", str(text))] for text in (self, other))
        return not ours or theirs[: len(ours)] == pytest.approx(ours, abs=2e-3)

    def __hash__(self) -> int:
        return super().__hash__()


@pytest.mark.parametrize(("name", "form"), REFUSED)
def test_misfits_are_named_at_once(name: str, form: str, runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(Problem) as refused:
        hw.load(runs(name)).export(tmp_path / "out", to=form)
    assert all(part in str(refused.value) for part in REFUSED[name, form]), refused.value
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "form"), [("classifier", "onnx"), ("translator", "ctranslate2"), ("gpt2", "gguf")])
def test_int8_is_smaller_and_its_cost_is_told(name: str, form: str, runs: Runs, tmp_path: Path) -> None:
    model = hw.load(runs(name))
    sizes = {}
    for int8 in (False, True):
        exported = model.export(tmp_path / str(int8), to=form, int8=int8)
        suffixes = (".onnx", ".bin", ".gguf")
        sizes[int8] = sum(path.stat().st_size for path in exported.folder.iterdir() if path.suffix in suffixes)
    assert exported.max_difference > 1e-5
    assert f"{exported.same} of {exported.texts}" in (exported.folder / "README.md").read_text()
    if form != "gguf":  # rows of 16 numbers have no scale of their own there
        assert sizes[True] < sizes[False]
    with pytest.raises(Problem, match="torch has no int8"):
        model.export(tmp_path / "torch", to="torch", int8=True)


def test_the_wrong_tokenizer_is_found(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the end of the source, logits agree on random tokens all the same: only texts show it."""
    monkeypatch.setattr(Framing, "core", lambda self: self._replace(last=()).plain_core())
    monkeypatch.setattr(Framing, "plain_core", FRAMED, raising=False)
    with pytest.raises(Problem, match="the exported tokenizer reads"):
        hw.load(runs("marian")).export(tmp_path / "out", to="transformers")


FRAMED = Framing.core


def test_a_framing_reads_as_headway_does() -> None:
    tokenizer = Tokenizer.learn("bpe", ["a good film <unk> [CLS]"] * 3, "lower", 300, 1)
    index, text = tokenizer.vocabulary.index, "A film <unk> [CLS] <eos>"
    framing = Framing(tokenizer, (index["<sos>"],), (index["<eos>"],), 9)
    own = tokenizer.encode([text])[0].tolist()
    assert framing.core().encode(text).ids == [index["<sos>"], *own[:7], index["<eos>"]]
    assert framing._replace(keep="tail").core().encode(text).ids == [index["<sos>"], *own[-7:], index["<eos>"]]
    assert index["<unk>"] not in own


@pytest.mark.parametrize("name", ["translator", "gpt2"])
def test_another_engine_does_the_work(name: str, runs: Runs) -> None:
    model = hw.load(runs(name))
    texts = ["three hundred five", "", "the film"] if name == "translator" else ["the film", "a"]
    how: dict[str, Any] = {} if name == "translator" else {"max_new_tokens": 8, "temperature": 0}
    work = model.translate if name == "translator" else model.generate
    assert work(texts, **how, engine="ctranslate2") == work(texts, **how)
    (kept,) = (model.run.folder / "exports").iterdir()
    stamp = (kept / "model.bin").stat().st_mtime_ns
    assert str(kept) in hw.load(runs(name)).engine("ctranslate2").note
    assert (kept / "model.bin").stat().st_mtime_ns == stamp  # made once
    if name == "gpt2":
        with pytest.raises(Problem, match="set temperature=0"):
            model.generate("a", engine="ctranslate2")
        with pytest.raises(Problem, match="do not fit the window of 64"):
            model.generate("a", engine="ctranslate2", temperature=0)
    with pytest.raises(Problem, match="no such engine"):
        model.engine("turbo")
