"""translate, align, bleu."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.options import AT_LEAST_1, FILE, OutFile, engine_option, lines_of, run_argument, to_option
from headway.cli.predict import processed
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, dim, prints
from headway.config.errors import Problem, visible

if TYPE_CHECKING:
    from headway.api.inspection import Alignment
    from headway.api.model import Model

SHADES = " ░▒▓█"
MOST_NOTES = 5  # about single texts


@click.command()
@run_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@to_option
@click.option("--file", type=FILE, help="File to translate, one text per line.")
@click.option("--out", type=OutFile(), help="File to write, one translation per line; or .parquet, .jsonl.")
@click.option("--beam", type=AT_LEAST_1, help="Beam width; default: the recipe's.")
@click.option("--length-penalty", type=float, help="Above 0, longer translations score higher; default: the recipe's.")
@engine_option
@click.option("--best", default=1, show_default=True, type=AT_LEAST_1, help="Number of translations per text.")
@prints
def translate(
    run: Path,
    texts: tuple[str, ...],
    to: str | None,
    file: Path | None,
    out: Path | None,
    beam: int | None,
    length_penalty: float | None,
    engine: str,
    best: int,
) -> Output:
    """Translate each TEXT with a trained RUN. Texts may also come from a file or from standard input.

    \b
    Examples:
      headway translate runs/translate-1 "a man rides a horse"
      headway translate runs/translate-2 "a man rides a horse" --to de
      headway translate runs/translate-1 --file news.en --out news.de --beam 8
      headway translate runs/translate-1 --file big.parquet --out german.parquet --engine ctranslate2
      headway translate runs/numbers-1 "de three hundred five" --best 3 --beam 3
    """
    from headway.api.model import load

    if texts and file:
        raise Problem("give either texts or --file, not both")
    if file is not None and out is not None and out.exists() and out.samefile(file):
        raise Problem(f"--out {out} is the file to translate: name another")
    model = load(run)
    how: dict[str, Any] = {"num_beams": beam, "length_penalty": length_penalty, "to": to, "progress": following()}
    if engine != "headway":
        if best > 1:
            raise Problem(f"--engine {engine} gives the best translation only: leave out --best")
        how["engine"] = engine
    if file is not None and out is not None and out.suffix in (".parquet", ".jsonl"):
        return processed(model.translate_file(file, out, **how), engine_notes(model, engine))
    inputs = list(texts) or lines_of(file)
    doubts = model.doubts(inputs)
    if not inputs:
        raise Problem(f"there is no text: try headway translate {run} {model.example!r}")
    notes = [*model.run.notes, *doubts[:MOST_NOTES]]
    if len(doubts) > MOST_NOTES:
        notes.append(f"{len(doubts) - MOST_NOTES:,} more texts have such problems")
    if engine != "headway":
        translations = model.translate(inputs, **how)
        pairs = [{"text": text, "translation": each} for text, each in zip(inputs, translations, strict=True)]
        shown = [visible(each.replace("\n", " "), "\t") for each in translations]
        return Output(pairs, written(shown, len(inputs), out), notes=[*notes, *engine_notes(model, engine)])
    hypotheses = model.beam_search(inputs, num_return_sequences=best, **how)
    rows = [[(each.text, each.score) for each in group] for group in hypotheses]
    data = [
        {"text": text, "translations": [{"translation": words, "score": score} for words, score in group]}
        for text, group in zip(inputs, rows, strict=True)
    ]
    lines = [visible(text.replace("\n", " "), "\t") for group in rows for text, _ in (group or [("", 0.0)] * best)]
    return Output(data, written(lines, len(inputs), out), notes=notes)


def engine_notes(model: "Model", engine: str) -> list[str]:
    return [*model.run.notes] if engine == "headway" else [model.engine(engine).note]


def written(lines: list[str], count: int, out: Path | None) -> Iterator[Block]:
    if out is None:
        yield from lines
        return
    from headway.api.files import write_lines

    write_lines(out, lines)
    yield f"{count:,} texts translated into {out}"


@click.command()
@run_argument
@click.argument("text")
@click.argument("translation", required=False)
@to_option
@click.option("--layer", type=AT_LEAST_1, help="Decoder layer; default: the mean of all layers.")
@click.option("--picture", type=OutFile(), help="Plot into this file (PNG, SVG, PDF).")
@prints
def align(
    run: Path, text: str, translation: str | None, to: str | None, layer: int | None, picture: Path | None
) -> Output:
    """Show the cross-attention between a TEXT and its translation. RUN translates it, unless a TRANSLATION is given.

    \b
    Examples:
      headway align runs/translate-1 "a man rides a horse" --picture horse.png
      headway align runs/numbers-1 "de eighty one"
    """
    from headway.api.model import load

    alignment = load(run).align(text, translation, layer=layer, to=to)
    if picture is not None:
        alignment.plot().save(picture)
        return Output(alignment, [*alignment_rows(alignment), f"picture: {picture}"])
    more = ["headway", "align", run, text, *(["--to", to] if to else []), "--picture", "alignment.png"]
    return Output(alignment, alignment_rows(alignment), more)


def alignment_rows(alignment: "Alignment", highest: int = 12) -> Iterator[Text]:
    """Source tokens are columns, written from top to bottom; target tokens are rows."""
    heads = [piece[:highest] for piece in alignment.source]
    margin = max(len(piece) for piece in alignment.target) + 2
    height = max(len(head) for head in heads)
    for row in range(height):
        yield dim(" " * margin + " ".join(head.rjust(height)[row] for head in heads))
    for piece, weights in zip(alignment.target, alignment.weights, strict=True):
        top = len(SHADES) - 1
        marks = " ".join(SHADES[round(top * weight / max(weights))] for weight in weights)
        yield Text(piece.ljust(margin) + marks)


@click.command()
@click.argument("written", type=FILE)
@click.argument("references", nargs=-1, required=True, type=FILE)
@click.option("--lower", is_flag=True, help="Ignore case.")
@click.option("--tokenize", help="sacrebleu's tokenizer: 13a, intl, zh, ja-mecab, char, none.")
@prints
def bleu(written: Path, references: tuple[Path, ...], lower: bool, tokenize: str | None) -> Output:
    """BLEU and chrF of translations. WRITTEN and one or more REFERENCES have one text per line; scored by sacrebleu.

    \b
    Examples:
      headway bleu news.de reference.de
      headway bleu news.de first.de second.de --lower
    """
    from headway.api.overview import bleu as score

    scores = score(lines_of(written), *map(lines_of, references), lower=lower, tokenize=tokenize)
    rows = [(each.name, each.score, each.signature) for each in scores]
    blocks: list[Block] = [Table(["metric", "score", "signature"], rows), scores[0].detail]
    return Output([each._asdict() for each in scores], blocks)
