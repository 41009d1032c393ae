"""import, export."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.options import FILE, run_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints

if TYPE_CHECKING:
    from headway.interop import Exported


@click.command("import")
@click.argument("source")
@click.option("--out", type=FILE, help="Run folder; default: runs/NAME-1, runs/NAME-2, ...")
@prints
def import_model(source: str, out: Path | None) -> Output:
    """Import a model of the transformers library as a run.

    From a folder with config.json, *.safetensors and tokenizer.json, or by its name on the hub. GPT-2, BERT, RoBERTa,
    Llama, Marian and T5 are supported; pickles are not read. Outputs are compared with the original (this needs the
    transformers library), and differences are refused.

    \b
    Examples:
      headway import models/my-gpt2
      headway import openai-community/gpt2 --out runs/gpt2
      headway train classify start=runs/gpt2 data.train=reviews.csv
    """
    from headway.api.train import from_transformers

    model = from_transformers(source, out=out, progress=following())
    max_difference, unused = (model.run.about["imported"][key] for key in ("max_difference", "unused"))
    difference = f"outputs differ from the original's by at most {max_difference:.0e}"
    blocks: list[Block] = [f"{model.parameters:,} parameters in {model.run.folder}; {difference}"]
    if unused:
        blocks.append(Text.assemble(("note: ", "yellow"), f"tensors that are not used: {', '.join(unused)}"))
    data = {"run": model.run.folder, "apart": max_difference, "left": unused}
    return Output(data, blocks, model.run.next_command)


@click.command()
@run_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(["transformers", "torch", "onnx", "ctranslate2", "gguf"]),
    default="transformers",
    show_default=True,
    help="Model of the transformers library, torch.export program, ONNX files, model of CTranslate2, or GGUF file.",
)
@click.option("--out", type=FILE, required=True, help="Folder to create.")
@click.option("--int8", is_flag=True, help="Matrices in int8 (onnx, ctranslate2, gguf): smaller, slightly less exact.")
@click.option("--license", default="unknown", show_default=True, help="Licence that the model card states.")
@prints
def export(run: Path, form: str, out: Path, int8: bool, license: str) -> Output:
    """Export a RUN, with its tokenizer and a model card, to a folder that works without headway. For transformers, it
    becomes a GPT-2, Llama, BERT, Marian or T5, whichever has the same parts. The export is compared with the run, on
    random inputs and from text to text, and differences are refused; those of int8 are told.

    \b
    Examples:
      headway export runs/gpt2-small-1 --out models/mine
      headway export runs/classify-1 --to onnx --out models/reviews
      headway export runs/translate-1 --to ctranslate2 --int8 --out models/fast
    """
    from headway.api.model import load

    exported = load(run).export(out, to=form, int8=int8, license=license)
    blocks: list[Block] = [f"a {exported.kind} in {exported.folder}; {compared(exported)}"]
    data = {"folder": exported.folder, "kind": exported.kind, "apart": exported.max_difference}
    return Output(data | {"same": exported.same, "texts": exported.texts}, blocks)


def compared(exported: "Exported") -> str:
    difference = f"its outputs differ from the run's by at most {exported.max_difference:.0e}"
    if not exported.texts:
        return difference
    return f"{difference}, and {exported.same} of {exported.texts} texts tried have the same result"
