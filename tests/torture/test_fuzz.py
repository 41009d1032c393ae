"""Fuzzed inputs: what a reader gives for any of them are data, or a Problem with the name of the file, soon."""

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.data.examples import Reading, examples
from headway.data.multiway_texts import MultiwayTexts
from headway.data.parallel_texts import ParallelTexts
from headway.data.readers import Format
from headway.data.storage import sha256_of
from headway.interop import from_transformers, to_transformers
from headway.interop.folding import variants
from headway.interop.weights import export_weights
from headway.lab.beam_tree import search_tree
from headway.lab.mixture import plan, sizes_in
from headway.runs.run import Run
from headway.tasks.rlhf.prompts import PromptFile
from headway.tasks.word2vec import formats
from headway.text.tokenizer import Tokenizer
from headway.training import checkpoint
from headway.training.metrics_log import MetricsLog, read_records, validations
from torture import grammars as grammar
from torture.harness import SEED, Tally, attempt, count

EXAMPLES = 10_000, 60  # per reader, at full counts and in ``make test``


class Reader(NamedTuple):
    name: str  # of the file
    inputs: st.SearchStrategy[bytes]
    read: Callable[[Path], Any]


def labelled(path: Path) -> Any:
    return list(examples(path, Reading(text="text", label="label", skip_bad=True)))


def any_columns(path: Path) -> Any:
    return list(examples(path, Reading()))


def unlabelled(path: Path) -> Any:
    return list(examples(path, Reading(has_labels=False, format=Format(whole=True))))


def two_files(path: Path) -> Any:
    """The first half of the lines against the second."""
    lines = path.read_bytes().splitlines(keepends=True)
    sides = path.with_suffix(".en"), path.with_suffix(".de")
    for side, own in zip(sides, (lines[::2], lines[1::2]), strict=True):
        side.write_bytes(b"".join(own))
    return list(ParallelTexts(sides).pairs())


def one_file(path: Path) -> Any:
    return list(ParallelTexts((path,)).pairs())


def of_languages(path: Path) -> Any:
    return list(examples(path, Reading(text="text", language="language", has_labels=False, skip_bad=True)))


def many_columns(path: Path) -> Any:
    texts = MultiwayTexts((path,), languages=("en", "de", "sw"), skip_bad=True)
    texts.wanted = tuple(texts.counts)
    return texts.index("lower"), list(texts.pairs())


def rows_of_directions(path: Path) -> Any:
    return MultiwayTexts((path,), sides=("from", "to"), skip_bad=True).counts


def tensors(path: Path) -> Any:
    return from_transformers.read_tensors(path.parent)


def state_of_checkpoint(path: Path) -> Any:
    """As the state of a checkpoint with a manifest that fits."""
    folder = checkpoint.folder_of(path.parent / "checkpoints", 1)
    if not folder.exists():
        checkpoint.write(folder.parent, checkpoint.Checkpoint({}, {}, {"step": 1, "best_step": None}, {}))
    shutil.copy(path, folder / checkpoint.STATE)
    manifest = {each.name: sha256_of(each) for each in folder.iterdir() if each.name != checkpoint.MANIFEST}
    (folder / checkpoint.MANIFEST).write_text(json.dumps(manifest))
    checkpoint.prune(folder.parent)
    return checkpoint.newest(folder.parent)


def manifest_of_checkpoint(path: Path) -> Any:
    folder = checkpoint.folder_of(path.parent / "manifests", 1)
    if not folder.exists():
        checkpoint.write(folder.parent, checkpoint.Checkpoint({}, {}, {"step": 1, "best_step": None}, {}))
    shutil.copy(path, folder / checkpoint.MANIFEST)
    return checkpoint.newest(folder.parent)


def log_of_metrics(path: Path) -> Any:
    """Read, and gone on with."""
    found = list(read_records(path)), list(validations(path))
    with MetricsLog(path.parent, 3):
        return found


TEXT_AND_LABEL = {"text": grammar.texts, "label": grammar.texts}
ANSWERS = {
    "prompt": grammar.texts,
    "answer": grammar.texts,
    "answers": st.lists(grammar.texts, max_size=3),
    "ranks": st.lists(grammar.numbers, max_size=3),
    "chosen": grammar.texts,
    "rejected": grammar.texts,
}
PROGRESS = {"step": grammar.numbers, "best_step": grammar.numbers, "ended": grammar.texts}
MEASURED = {"step": grammar.numbers, "validation": grammar.trees, "train": grammar.trees}
NODES = {"a": st.tuples(grammar.numbers, grammar.trees), "b": grammar.numbers}
ROWS = grammar.table(("text", "label"))
MARKED = grammar.in_lines(grammar.texts.map(lambda text: f"__label__{text} {text}"))
RANKED = grammar.table(("prompt", "answer", "rank"))
TRANSLATIONS = grammar.json_lines({"translation": grammar.objects({"en": grammar.texts, "de": grammar.texts})})
OF_LANGUAGES = grammar.json_lines({"text": grammar.texts, "language": grammar.texts})
COLUMNS = grammar.table(("en", "de", "sw"))
DIRECTIONS = grammar.table(("source", "target", "from", "to"), "\t")
STATES = grammar.json_tree({"progress": grammar.objects(PROGRESS), "scaler": grammar.trees})
MANIFESTS = grammar.json_tree(dict.fromkeys([checkpoint.WEIGHTS, checkpoint.MOMENTS, checkpoint.STATE], grammar.texts))

READERS = {
    "recipe": Reader("recipe.toml", grammar.recipes, recipes.load),
    "resolved recipe": Reader("recipe.toml", grammar.recipes, lambda path: recipes.load(path, resolved=True)),
    "csv": Reader("data.csv", ROWS, labelled),
    "csv of any columns": Reader("data.csv", ROWS, any_columns),
    "tsv": Reader("data.tsv", grammar.table(("text", "label"), "\t"), labelled),
    "jsonl": Reader("data.jsonl", grammar.json_lines(TEXT_AND_LABEL), labelled),
    "lines": Reader("data.txt", MARKED, any_columns),
    "text": Reader("data.txt", grammar.in_lines(grammar.texts), unlabelled),
    "parquet": Reader("data.parquet", grammar.parquets(), any_columns),
    "gzip": Reader("data.csv.gz", grammar.compressed(ROWS, gzip.compress), labelled),
    "xz": Reader("data.csv.xz", grammar.compressed(ROWS, lzma.compress), labelled),
    "bzip2": Reader("data.csv.bz2", grammar.compressed(ROWS, bz2.compress), labelled),
    "parallel texts": Reader("data.txt", grammar.in_lines(grammar.texts), two_files),
    "parallel columns": Reader("data.tsv", grammar.table(("source", "target"), "\t"), one_file),
    "translations": Reader("data.jsonl", TRANSLATIONS, one_file),
    "texts with languages": Reader("data.jsonl", OF_LANGUAGES, of_languages),
    "several languages": Reader("data.csv", COLUMNS, many_columns),
    "pairs with languages": Reader("data.tsv", DIRECTIONS, rows_of_directions),
    "sizes": Reader("sizes.toml", grammar.sizes_of_languages, lambda path: plan(sizes_in(path))),
    "prompts": Reader("data.jsonl", grammar.json_lines(ANSWERS), lambda path: PromptFile(path, min_answers=0).examples),
    "rankings": Reader(
        "data.jsonl", grammar.json_lines(ANSWERS), lambda path: PromptFile(path, min_answers=2).examples
    ),
    "ranked table": Reader("data.csv", RANKED, lambda path: PromptFile(path).examples),
    "text vectors": Reader("vectors.txt", grammar.text_vectors, formats.read),
    "word2vec": Reader("vectors.bin", grammar.word2vec(), formats.read),
    "fasttext": Reader("vectors.bin", grammar.fasttext(), formats.read),
    "safetensors": Reader("model.safetensors", grammar.safetensors(), tensors),
    "state": Reader("state.json", STATES, state_of_checkpoint),
    "manifest": Reader("manifest.json", MANIFESTS, manifest_of_checkpoint),
    "metrics": Reader("metrics.jsonl", grammar.json_lines(MEASURED), log_of_metrics),
    "tree of beams": Reader("tree.json", grammar.json_tree(NODES), lambda path: search_tree(path, [1, 2])),
}


def names_file(message: str, path: Path) -> bool:
    """Or its folder, if that is what is read."""
    return path.stem in message or str(path.parent) in message


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What is imported when it is needed first is imported before time is taken. And numbers are as IEEE has them."""
    torch.set_flush_denormal(False)
    for name in ("parity", "ppo", "vectors"):
        recipes.load(name, ["start=rlhf-lab-language"] if name == "ppo" else [])


def fuzzed(inputs: st.SearchStrategy[Any], use: Callable[[Any], None], full: int = EXAMPLES[0]) -> None:
    how = settings(
        max_examples=count(full, EXAMPLES[1]),
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    seed(SEED)(how(given(inputs)(use)))()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_gives_data_or_a_problem(name: str, tmp_path: Path, tally: Tally) -> None:
    reader = READERS[name]
    path = tmp_path / reader.name

    def use(content: bytes) -> None:
        path.write_bytes(content)
        found = attempt(tally, f"{name}: {content[:200]!r}", lambda: reader.read(path))
        if isinstance(found, Problem) and not isinstance(found, BadSetting) and not names_file(str(found), path):
            tally.found("tracebacks", f"{name}: the message does not name the file: {found}")
        tally.add("inputs")

    fuzzed(grammar.damaged(reader.inputs), use)


def test_settings(tally: Tally) -> None:
    def use(override: str) -> None:
        attempt(tally, f"parity {override!r}", lambda: recipes.load("parity", [override]))
        tally.add("inputs")

    fuzzed(grammar.overrides, use)


def test_tokenizer(tmp_path: Path, tally: Tally) -> None:
    path = tmp_path / "tokenizer.json"
    whole = json.loads(Tokenizer.learn("bpe", ["a b ab"] * 4, "nfkc", 270, 1).to_json())

    def use(tree: Any) -> None:
        path.write_text(json.dumps(tree))
        attempt(tally, json.dumps(tree)[-300:], lambda: Tokenizer.load(path).encode(["a b", "\0é"]))
        tally.add("inputs")

    fuzzed(grammar.mutated(whole), use)


@pytest.fixture(scope="module")
def transformers_folder(bases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 as the transformers library has it, made without that library."""
    folder = tmp_path_factory.mktemp("transformers") / "whole"
    folder.mkdir()
    run = Run(bases / "letters" / "run")
    model = run.model()
    tokenizer = run.task.tokenizer  # type: ignore[attr-defined]
    networks = list(variants(run.recipe.model, model, 24, lambda own: own))
    chosen = to_transformers.choose_family(networks, ("gpt2",), len(tokenizer), 24, [])
    assert chosen.family == "gpt2"
    save_file(export_weights(chosen.config, chosen.network.model), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(chosen.config))
    tokenizer.save(folder / "tokenizer.json")
    return folder


def test_transformers_folders(
    transformers_folder: Path, tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_transformers, "verify", lambda *arguments: 0.0)
    folder, out = tmp_path / "model", tmp_path / "run"
    shutil.copytree(transformers_folder, folder)
    names = {name: json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json")}
    weights = (folder / "model.safetensors").read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    strategies = {
        name: grammar.mutated(tree).map(lambda tree: json.dumps(tree).encode()) for name, tree in names.items()
    }
    strategies["model.safetensors"] = grammar.mutated(header).map(
        lambda tree: (
            len(json.dumps(tree)).to_bytes(8, "little") + json.dumps(tree).encode() + weights[-header_size(weights) :]
        )
    )

    def use(changed: tuple[str, bytes]) -> None:
        name, content = changed
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        attempt(tally, f"{name}: {content[:600]!r}", lambda: from_transformers.import_model(str(folder), out))
        (folder / name).write_bytes(whole)
        shutil.rmtree(out, ignore_errors=True)
        tally.add("inputs")

    fuzzed(st.one_of([st.tuples(st.just(name), inputs) for name, inputs in strategies.items()]), use)


def header_size(weights: bytes) -> int:
    """The number of bytes after the header."""
    return len(weights) - 8 - int.from_bytes(weights[:8], "little")


def test_run_folders(bases: Path, tmp_path: Path, tally: Tally) -> None:
    """Any file of a run, with a line of its list, its task and its model."""
    folder = tmp_path / "run"
    shutil.copytree(bases / "letters" / "run", folder, ignore=shutil.ignore_patterns("tensorboard", "lock"))
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def contents(path: Path) -> st.SearchStrategy[bytes]:
        bytes_of_it = grammar.damaged(st.just(files[path]))
        if path.suffix != ".json":
            return bytes_of_it
        trees = grammar.mutated(json.loads(files[path])).map(lambda tree: json.dumps(tree).encode())
        return st.one_of(bytes_of_it, trees)

    def use(changed: tuple[Path, bytes]) -> None:
        path, content = changed
        path.write_bytes(content)
        for read in (lambda: Run(folder).summary(), lambda: Run(folder).predictions(), lambda: Run(folder).model()):
            attempt(tally, f"{path.name}: {content[:300]!r}", read)
        path.write_bytes(files[path])
        tally.add("inputs")

    fuzzed(st.one_of([st.tuples(st.just(path), contents(path)) for path in files]), use, full=5000)
