"""The verbs for models of other libraries: import, export."""

from pathlib import Path

import click

from headway.cli.asking import run_argument
from headway.cli.output import console, json_option, next_step, note, print_json, usage
from headway.cli.progress import bars


@click.command("import")
@click.argument("source")
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; runs/NAME-1 and so on if left out.")
@json_option
def import_model(source: str, out: Path | None, as_json: bool) -> None:
    """Make a run of a model of the transformers library, from a folder with config.json, *.safetensors, tokenizer.json,
    or by its name on the hub. GPT-2, BERT, RoBERTa, Llama, Marian and T5 are known; pickles are not read. It is proven
    beside the original (which takes the transformers library): outputs that differ are refused.

    \b
    Examples:
      headway import models/my-gpt2
      headway import openai-community/gpt2 --out runs/gpt2
      headway train classify start=runs/gpt2 data.train=reviews.csv
    """
    from headway.interop.from_transformers import import_model as make_run

    with bars() as shown:
        found = make_run(source, out, shown)
    if as_json:
        print_json({"run": str(found.run.folder), "apart": found.max_difference, "left": found.unused})
        return
    size = sum(weight.numel() for weight in found.run.task.model().parameters())
    console.print(
        f"{size:,} parameters in {found.run.folder}; outputs are {found.max_difference:.0e} from the original's at most"
    )
    if found.unused:
        note(f"left behind, because it is there twice or has no place here: {', '.join(found.unused)}")
    next_step(*usage(found.run))


@click.command()
@run_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(["transformers", "torch", "onnx"]),
    default="transformers",
    show_default=True,
    help="A model of the transformers library, or a program that torch or an ONNX runtime runs by itself.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A folder that is not there yet.")
@json_option
def export(run: Path, form: str, out: Path, as_json: bool) -> None:
    """Make a folder of a RUN that needs no headway. For the transformers library it becomes a GPT-2, Llama, BERT,
    Marian or T5, whichever is made of the same parts. It is proven beside the run: outputs that differ are refused.

    \b
    Examples:
      headway export runs/gpt2-small-1 --out models/mine
      headway export runs/classify-1 --to onnx --out models/reviews
    """
    from headway.interop import export as write_folder
    from headway.runs.run import Run

    found = write_folder(Run(run), out, form)
    if as_json:
        print_json({"folder": str(found.folder), "kind": found.kind, "apart": found.max_difference})
        return
    difference = f"its outputs are {found.max_difference:.0e} from the run's at most"
    console.print(f"a {found.kind} in {found.folder}; {difference}")


VERBS = [import_model, export]
