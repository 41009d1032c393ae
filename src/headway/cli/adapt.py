"""adapt."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.options import AT_LEAST_1, FILE, Numbers, run_argument, settings_argument, study_folder_option
from headway.cli.progress import following
from headway.cli.render import Block, Output, prints

if TYPE_CHECKING:
    from headway.api.studies import Adaptation


@click.command()
@run_argument
@settings_argument
@click.option("--data", "path", required=True, type=FILE, help="File of labelled texts.")
@click.option("--test", type=FILE, help="File to test on; default: a fifth of the data.")
@click.option("--examples", default="8,32,128,512", show_default=True, type=Numbers(), help="Training set sizes.")
@click.option("--shots", default="0,1,2,4,8,16,32", show_default=True, type=Numbers(), help="Examples in a prompt.")
@click.option("--tests", default=500, show_default=True, type=AT_LEAST_1, help="Number of test texts for prompts.")
@click.option("--words", default="", metavar="A,B,...", help="Words for the labels in prompts, in their order.")
@click.option("--seeds", default=3, show_default=True, type=AT_LEAST_1, help="Number of random draws of the examples.")
@study_folder_option
@prints
def adapt(
    run: Path,
    settings: tuple[str, ...],
    path: Path,
    test: Path | None,
    examples: tuple[int, ...],
    shots: tuple[int, ...],
    tests: int,
    words: str,
    seeds: int,
    out: Path | None,
) -> Output:
    """Compare fine-tuning, probing and prompting a RUN.

    The RUN is pre-trained; all three ways see growing numbers of labelled examples. SETTINGS override the recipe adapt.

    \b
    Examples:
      headway adapt runs/pretrain-1 --data reviews.csv
      headway adapt runs/language-1 --data train.jsonl --test test.jsonl --examples 16,256,4096 --words bad,good
    """
    from headway.api.studies import adapt as adapt_run

    result = adapt_run(
        run,
        path,
        test=test,
        examples=examples,
        shots=shots,
        tests=tests,
        words=[word.strip() for word in words.split(",") if word.strip()],
        seeds=seeds,
        settings=settings,
        out=out,
        progress=following(brief=True),
    )
    files = [f"data.train={path}", *([f"data.test={test}"] if test else [])]
    more = ["headway", "train", "adapt", f"start={run}", *files, *settings]
    return Output({"folder": result.folder, "points": result.points}, report(result, seeds), more, result.notes)


def report(result: "Adaptation", seeds: int) -> Iterator[Block]:
    yield result.table()
    yield "accuracy on the test data" + (f", mean over {seeds} seeds" if seeds > 1 else "")
    if result.compares_prompts:
        first = result.overtaken()
        yield (
            f"fine-tuning beats every prompt from {first:,} examples on"
            if first is not None
            else "fine-tuning does not beat the best prompt at any of these sizes"
        )
    yield from result.picture.line("picture")
