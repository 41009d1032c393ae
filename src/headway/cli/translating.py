"""The verbs of translation: translate, align, bleu."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.asking import piped_lines, run_argument
from headway.cli.output import OutFile, console, json_option, next_step, print_json, print_table, warn
from headway.cli.progress import bars
from headway.cli.writing import clean
from headway.config.errors import Problem

if TYPE_CHECKING:
    from headway.lab.cross_attention import Alignment

SHADES = " ░▒▓█"
MOST_NOTES = 5  # about single texts


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option("--file", type=click.Path(path_type=Path), help="A text a line, in place of TEXTs.")
@click.option("--out", type=OutFile(), help="Write into this file, a translation a line.")
@click.option("--beam", type=click.IntRange(1), help="Width of the search; left out: the recipe's.")
@click.option("--length-penalty", type=float, help="Above 0 longer ones are preferred; left out: the recipe's.")
@click.option("--best", default=1, show_default=True, type=click.IntRange(1), help="Translations of each text.")
@json_option
def translate(
    run: Path,
    texts: tuple[str, ...],
    file: Path | None,
    out: Path | None,
    beam: int | None,
    length_penalty: float | None,
    best: int,
    as_json: bool,
) -> None:
    """Translate each TEXT with a trained RUN, or each line of a file or of the standard input, in their order.

    \b
    Examples:
      headway translate runs/translate-1 "a man rides a horse"
      headway translate runs/translate-1 --file news.en --out news.de --beam 8
      headway translate runs/numbers-1 "de three hundred five" --best 3 --beam 3
    """
    from dataclasses import replace

    from headway.runs.run import Run

    if texts and file:
        raise Problem("give either texts or --file, not both")
    if file is not None and out is not None and out.exists() and out.samefile(file):
        raise Problem(f"--out {out} is the file to translate: name another")
    trained = Run(run)
    task: Any = trained.task
    translator = translator_of(trained)
    wanted = {"width": beam, "length_penalty": length_penalty}
    given = {name: value for name, value in wanted.items() if value is not None}
    width = max(beam or translator.beam.width, best)
    how = replace(translator.beam, **(given | {"width": width}), best=best)
    asked = list(texts) or list(lines_of(file))
    if not asked:
        raise Problem(f"there is no text: try headway translate {run} {task.example!r}")
    odd = [f"text {number}: {what}" for number, text in enumerate(asked, start=1) if (what := task.warning(text))]
    for message in [*trained.notes, *odd[:MOST_NOTES]]:
        warn(message)
    if len(odd) > MOST_NOTES:
        warn(f"and {len(odd) - MOST_NOTES:,} more texts are odd in such ways")
    with bars() as shown:
        found = translator.translate(asked, how, shown)
    rows = [[(translator.tokenizer.decode(each.tokens), each.score) for each in some] for some in found]
    if as_json:
        keys = ("translation", "score")
        print_json(
            [
                {"text": text, "translations": [dict(zip(keys, each, strict=True)) for each in some]}
                for text, some in zip(asked, rows, strict=True)
            ]
        )
        return
    lines = [clean(text).replace("\n", " ") for some in rows for text, _ in (some or [("", 0.0)] * best)]
    if out is not None:
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        console.print(f"{len(asked):,} texts translated into {out}")
        return
    for line in lines:
        click.echo(line)


def lines_of(file: Path | None) -> list[str]:
    import sys

    from headway.data.files import open_text, require_file

    if file is None:
        return [] if sys.stdin.isatty() else list(piped_lines())
    require_file(file)
    with open_text(file, "utf-8", setting=None) as content:
        return [line.rstrip("\r\n") for line in content]


def translator_of(trained: Any) -> Any:
    from headway.tasks.abilities import Translates, need

    return need(trained.task, Translates).generator(trained.model())


@click.command()
@run_argument
@click.argument("text")
@click.argument("translation", required=False)
@click.option("--layer", type=click.IntRange(1), help="Of the decoder; left out: the mean of all.")
@click.option("--picture", type=OutFile(), help="Draw it into this file (PNG, SVG, PDF).")
@json_option
def align(
    run: Path, text: str, translation: str | None, layer: int | None, picture: Path | None, as_json: bool
) -> None:
    """Show which pieces of a TEXT its translation looks at: RUN's own, or one that is given.

    \b
    Examples:
      headway align runs/translate-1 "a man rides a horse" --picture horse.png
      headway align runs/numbers-1 "de eighty one"
    """
    from headway.lab.cross_attention import align as aligned
    from headway.lab.cross_attention import save_picture
    from headway.runs.run import Run

    found = aligned(Run(run), text, translation, layer)
    if picture is not None:
        save_picture(picture, found)
    if as_json:
        print_json(vars(found))
        return
    print_alignment(found)
    if picture is None:
        next_step("headway", "align", run, text, "--picture", "alignment.png")
    else:
        console.print(f"drawn into {picture}")


def print_alignment(found: "Alignment", highest: int = 12) -> None:
    """The source's pieces from top to bottom as columns, the target's as rows."""
    heads = [piece[:highest] for piece in found.source]
    margin = max(len(piece) for piece in found.target) + 2
    height = max(len(head) for head in heads)
    for row in range(height):
        line = " ".join(head.rjust(height)[row] for head in heads)
        console.print(Text(" " * margin + line, "dim"))
    for piece, weights in zip(found.target, found.weights, strict=True):
        top = len(SHADES) - 1
        marks = " ".join(SHADES[round(top * weight / max(weights))] for weight in weights)
        console.print(Text(piece.ljust(margin) + marks))


@click.command()
@click.argument("written", type=click.Path(path_type=Path))
@click.argument("references", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--lower", is_flag=True, help="Take upper and lower case for the same.")
@click.option("--tokenize", help="How to cut words, as sacrebleu names it: 13a, intl, zh, ja-mecab, char, none.")
@json_option
def bleu(written: Path, references: tuple[Path, ...], lower: bool, tokenize: str | None, as_json: bool) -> None:
    """Score what was WRITTEN, a text a line, against one or more files of REFERENCES: BLEU and chrF by sacrebleu.

    \b
    Examples:
      headway bleu news.de reference.de
      headway bleu news.de first.de second.de --lower
    """
    from headway.metrics.bleu import corpus_scores

    found = corpus_scores(lines_of(written), [lines_of(path) for path in references], lower, tokenize)
    if as_json:
        print_json([each._asdict() for each in found])
        return
    print_table(["metric", "score", "signature"], [(each.name, each.score, each.signature) for each in found])
    console.print(found[0].detail)


VERBS = [translate, align, bleu]
