"""Model cards: the README.md of an export says what it is, what it was trained on, how well it does, and how it is
loaded. The front matter is that of the Hugging Face hub."""

import json
from pathlib import Path
from typing import Any

from headway import __version__
from headway.config.errors import Problem
from headway.interop.exportable import Exportable, Proof
from headway.interop.runners import classify, fill, write
from headway.interop.to_onnx import runner_of
from headway.runs.run import size_of
from headway.tasks.abilities import Fills, Predicts, can

FILES = ("train", "source", "target", "name")  # settings that say what a run was trained on
SECTIONS = ("## Trained on", "## Scores", "## Use", "## Proof", "## License")

ONNX = """\
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from run import Model
print(Model(Path({folder!r})).{call}({text!r}))
"""
GENERATING = """\
from transformers import {kind}, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained({folder!r}), {kind}.from_pretrained({folder!r})
inputs = tokenizer({text!r}, return_tensors="pt"{cut})
print(tokenizer.decode(model.generate(**inputs{how})[0], skip_special_tokens=True))
"""
PIPELINE = """\
from transformers import pipeline
print(pipeline({task!r}, {folder!r})({text!r}))
"""
CT2_TRANSLATOR = """\
import ctranslate2, tokenizers
reads, writes = (tokenizers.Tokenizer.from_file(f"{folder}/{{side}}-tokenizer.json") for side in ("source", "target"))
how = dict(beam_size={beams}, length_penalty={penalty}, max_decoding_length={limit})
results = ctranslate2.Translator({folder!r}).translate_batch([reads.encode({text!r}).tokens], **how)
print(writes.decode([writes.token_to_id(token) for token in results[0].hypotheses[0]]))
"""
CT2_GENERATOR = """\
import ctranslate2, tokenizers
tokenizer = tokenizers.Tokenizer.from_file("{folder}/tokenizer.json")
how = dict(sampling_topk=1, max_length={limit}, include_prompt_in_result=False)
results = ctranslate2.Generator({folder!r}).generate_batch([tokenizer.encode({text!r}).tokens], **how)
print(tokenizer.decode(results[0].sequences_ids[0]))
"""
GGUF = """\
from llama_cpp import Llama
model = Llama("{folder}/model.gguf")
print(model({text!r}, max_tokens={limit}, temperature=0)["choices"][0]["text"])
"""
TORCH = """\
import json
import torch
about = json.load(open({folder!r} + "/about.json"))
program = torch.export.load({folder!r} + "/model.pt2").module()
print(about["inputs"], about["outputs"])
"""


def write_card(source: Exportable, form: str, kind: str, proof: Proof, license: str, folder: Path) -> None:
    recipe = source.run.recipe
    front = {"license": license, "library_name": form, "tags": ["headway", recipe.task]}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in front.items()), "---", ""]
    lines += [f"# {recipe.name}", ""]
    size = f"{size_of(source.model):,} parameters"
    lines += [f"A {kind} with {size}, made by headway {__version__} from a run of `{recipe.task}`.", ""]
    lines += [SECTIONS[0], "", trained_on(source), "", SECTIONS[1], "", *scores(source), "", SECTIONS[2], ""]
    lines += ["```python", usage(source, form).strip(), "```", ""]
    lines += [SECTIONS[3], "", proven(proof), "", SECTIONS[4], "", licensed(license), ""]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def trained_on(source: Exportable) -> str:
    data, about = source.run.recipe.data, source.run.about
    if "imported" in about:
        return f"Imported from {Path(str(about['imported']['source'])).name}."
    named = {key: getattr(data, key, None) for key in FILES}
    # Only names: the folders of whoever trained it are nobody's business.
    files = {key: ", ".join(Path(each).name for each in str(name).split(",")) for key, name in named.items() if name}
    what = "; ".join(f"{key}: {name}" for key, name in files.items()) or "data of its own making"
    steps = f", in {source.run.results['steps']:,} steps" if source.run.is_done else ""
    return f"{what}{steps}. Seed {source.run.recipe.train.seed}."


def scores(source: Exportable) -> list[str]:
    try:
        sets = source.run.results["test"] if source.run.is_done else {}
    except Problem:
        sets = {}
    if not sets:
        return ["None: it was not evaluated."]
    names = [name for name in next(iter(sets.values())) if name != "examples"]
    rows = [f"| {' | '.join(['test set', *names])} |", f"|{' --- |' * (len(names) + 1)}"]
    for own, values in sets.items():
        numbers = [f"{values[name]:.4g}" if name in values else "" for name in names]
        rows.append(f"| {' | '.join([own, *numbers])} |")
    return rows


def usage(source: Exportable, form: str) -> str:
    """A few lines of Python that load it from the current folder, and use it."""
    words: dict[str, Any] = {"folder": ".", "text": source.texts()[0]}
    return USAGES[form](source, words)


def use_onnx(source: Exportable, words: dict[str, Any]) -> str:
    calls = {classify: "probabilities", fill: "fill", write: "write"}
    runner = runner_of(source)
    if runner is fill:
        words["text"] += " [MASK]"
    return ONNX.format(call=calls[runner], **words) if runner else "import onnxruntime  # see about.json\n"


def use_transformers(source: Exportable, words: dict[str, Any]) -> str:
    if source.generator is not None:
        kind = "AutoModelForSeq2SeqLM" if source.translator else "AutoModelForCausalLM"
        how = {"how": "", "cut": ", truncation=True"}
        if source.translator is None:  # a prompt has to leave room for what is added
            how = {"how": f", max_new_tokens={source.limit}", "cut": ""}
        return GENERATING.format(kind=kind, **how, **words)
    if can(source.task, Fills):
        words["text"] += " [MASK]"
    return PIPELINE.format(task="text-classification" if can(source.task, Predicts) else "fill-mask", **words)


def use_torch(source: Exportable, words: dict[str, Any]) -> str:
    return TORCH.format(**words)


def use_ctranslate2(source: Exportable, words: dict[str, Any]) -> str:
    if (translator := source.translator) is None:
        return CT2_GENERATOR.format(limit=source.limit, **words)
    beam = translator.beam
    how = {"beams": beam.width, "penalty": beam.length_penalty, "limit": source.limit}
    return CT2_TRANSLATOR.format(**how, **words)


def use_gguf(source: Exportable, words: dict[str, Any]) -> str:
    return GGUF.format(limit=source.limit, **words)


USAGES = {
    "gguf": use_gguf,
    "ctranslate2": use_ctranslate2,
    "onnx": use_onnx,
    "transformers": use_transformers,
    "torch": use_torch,
}


def proven(proof: Proof) -> str:
    line = f"Outputs differ from those of the run by at most {proof.max_difference:.0e} of the largest"
    if not proof.texts:
        return f"{line}, on random inputs."
    return f"{line}, on random inputs; {proof.same} of {proof.texts} texts tried have the same result."


def licensed(license: str) -> str:
    if license == "unknown":
        return "Not stated. Whoever passes this model on should name one that its training data allow."
    return f"{license}."
