"""import, export."""

from pathlib import Path

import click
from rich.text import Text

from headway.cli.options import FILE, run_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints


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
    type=click.Choice(["transformers", "torch", "onnx"]),
    default="transformers",
    show_default=True,
    help="Model of the transformers library, torch.export program, or ONNX file.",
)
@click.option("--out", type=FILE, required=True, help="Folder to create.")
@prints
def export(run: Path, form: str, out: Path) -> Output:
    """Export a RUN to a folder that works without headway. For transformers, it becomes a GPT-2, Llama, BERT, Marian or
    T5, whichever has the same parts. Outputs are compared with the run's, and differences are refused.

    \b
    Examples:
      headway export runs/gpt2-small-1 --out models/mine
      headway export runs/classify-1 --to onnx --out models/reviews
    """
    from headway.api.model import load

    exported = load(run).export(out, to=form)
    difference = f"its outputs differ from the run's by at most {exported.max_difference:.0e}"
    data = {"folder": exported.folder, "kind": exported.kind, "apart": exported.max_difference}
    return Output(data, [f"a {exported.kind} in {exported.folder}; {difference}"])
