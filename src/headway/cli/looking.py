"""The verbs that look closer: data, explain, gradients."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from headway.cli.output import OutFile, console, draw, json_option, next_step, note, print_json, print_table
from headway.cli.progress import bars

if TYPE_CHECKING:
    from headway.lab.explain import Explanation

MOST_CLASSES = 20  # that are listed


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("settings", nargs=-1)
@json_option
def data(file: Path, settings: tuple[str, ...], as_json: bool) -> None:
    """Show what headway sees in a FILE (or folder) of labelled texts: rows, classes, lengths, repeated texts.

    SETTINGS are those of the task classify, such as the columns to read or a file to test on.

    \b
    Examples:
      headway data reviews.csv
      headway data reviews.csv data.text=review data.label=stars data.test=later.csv data.max_length=200
    """
    from headway import recipes
    from headway.lab.survey import survey
    from headway.tasks.classify import Classify

    words = [f"data.train={file}", *settings]
    task = Classify(recipes.load("classify", words))
    with bars() as shown:
        task.prepare(shown)
        found = survey(task)
    if as_json:
        print_json({"file": str(file), **found})
        return
    names = ", ".join(f"{use} {name!r}" for use, name in found["columns"].items())
    console.print(f"{file}: {found['rows']:,} rows; columns: {names}")
    for message in found["notes"]:
        note(message)
    print_classes(found["classes"], found["rows"])
    print_lengths(found)
    twice = found["duplicates"]
    console.print(
        f"\n{twice['rows']:,} rows repeat a text; {twice['texts_with_several_labels']:,} texts have different labels"
    )
    print_table(
        ["part", "rows", "unknown tokens"],
        [(name, rows, f"{found['unknown'][name]:.2%}") for name, rows in found["parts"].items()],
    )
    next_step("headway", "train", "classify", *words)


def print_classes(classes: dict[str, int], rows: int) -> None:
    most = max(classes.values())
    ranked = sorted(classes.items(), key=lambda each: -each[1])
    console.print(f"\n{len(classes):,} classes")
    print_table(
        ["class", "rows", "share", ""],
        [
            (label, count, f"{count / rows:.1%}", "█" * round(30 * count / most))
            for label, count in ranked[:MOST_CLASSES]
        ],
    )
    if len(ranked) > MOST_CLASSES:
        rest = ranked[MOST_CLASSES:]
        console.print(f"and {len(rest):,} more, of {rest[-1][1]:,} to {rest[0][1]:,} rows")


def print_lengths(found: dict[str, Any]) -> None:
    from headway.lab.chart import columns

    tokens, histogram = found["tokens"], found["histogram"]
    console.print(
        f"\nlengths in tokens ({tokens['kind']}, {tokens['different']:,} different): {tokens['shortest']:,} to "
        f"{tokens['longest']:,}, median {tokens['median']:,.0f}, mean {tokens['mean']:,.0f}"
    )
    for line in columns(histogram["counts"], height=6):
        console.print(f"│{line}")
    width = len(histogram["counts"])
    console.print(f"└{'─' * width}")
    console.print(f" 0{histogram['up_to']:>{width - 1},}")
    print_table(
        ["read at most", "texts cut", "tokens lost"],
        [(limit, f"{cut['texts']:.1%}", f"{cut['tokens']:.1%}") for limit, cut in found["cut_off"].items()],
    )


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("text")
@click.option("--html", "page", type=click.Path(path_type=Path), help="The page to write; explanation.html in the run.")
@json_option
def explain(run: Path, text: str, page: Path | None, as_json: bool) -> None:
    """Show which words of a TEXT mattered for what a trained RUN says of it, in colours and as an HTML page.

    \b
    Example:
      headway explain runs/reviews-1 "the plot was not dull . i did really enjoy the music ."
    """
    from dataclasses import asdict

    from headway.data.storage import write_whole
    from headway.lab.explain import explain as explain_text
    from headway.lab.explain import to_html
    from headway.runs.run import Run

    found = explain_text(Run(run), text)
    page = page or run / "explanation.html"
    write_whole(page, to_html(found))
    if as_json:
        print_json({**asdict(found), "page": str(page)})
        return
    console.print(f"{found.label} ({found.probability:.1%})")
    console.print(coloured(found, "gradient"))
    console.print("gradient x input: green speaks for the label, red against it\n", style="dim")
    if found.attentions:
        console.print(coloured(found, "attention"))
        console.print("attention: what is looked at\n", style="dim")
    ranked = sorted(
        (each for each in found.pieces if each.gradient is not None), key=lambda each: -abs(each.gradient or 0)
    )
    print_table(
        ["token", "gradient x input", "attention"], [(each.text, each.gradient, each.attention) for each in ranked[:10]]
    )
    console.print(f"page: {page}")
    next_step("headway", "predict", run, text)


def coloured(found: "Explanation", what: str) -> Text:
    values = found.gradients if what == "gradient" else found.attentions
    top = max((abs(value) for value in values), default=1.0) or 1.0
    line = Text()
    for piece in found.pieces:
        value = getattr(piece, what)
        line.append(piece.text, "" if value is None else shade(value / top, what))
    return line


def shade(share: float, what: str) -> str:
    """The darker, the more: of green or red, or of blue."""
    level = round(160 * abs(share))
    if level < 8:
        return ""
    red, green, blue = (0, 0, level) if what == "attention" else (0, level, 0) if share > 0 else (level, 0, 0)
    return f"white on rgb({red},{green},{blue})"


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN|RECIPE...")
@click.option("--length", type=click.IntRange(2), help="How many tokens the sequences have; left out: what most have.")
@click.option("--picture", type=OutFile(), default=Path("gradients.png"), show_default=True)
@json_option
def gradients(names: tuple[str, ...], length: int | None, picture: Path, as_json: bool) -> None:
    """Measure how far back gradients reach in trained RUNs, or in the first weights of RECIPEs.

    Printed is the size of the derivative of the last state by the vector of the token k places before it.

    \b
    Example:
      headway gradients runs/reviews-1 reviews --length 20
    """
    from headway.lab.chart import columns
    from headway.lab.gradients import gradient_norms
    from headway.lab.plot import save_curves

    found = {}
    for name in names:
        model, sequences = model_and_data(name)
        found[name] = gradient_norms(model, sequences, length)
    curves = {name: [list(enumerate(norms))] for name, norms in found.items()}
    drawn = draw(lambda: save_curves(picture, curves, "distance in tokens", "size of the gradient", logarithmic=True))
    if as_json:
        print_json(found)
        return
    for name, norms in found.items():
        console.print(f"{name}: {norms[0]:.3g} at distance 0, {norms[-1]:.3g} at {len(norms) - 1}")
        top = max(decades(norm) for each in found.values() for norm in each)
        for line in columns([max(0.0, decades(norm) - top + 12) for norm in norms[:100]], height=6, top=12):
            console.print(f"│{line}")
        console.print(f"└{'─' * min(len(norms), 100)}  (a row is two powers of ten)")
    if drawn:
        console.print(f"curves: {picture}")
    next_step("headway", "show", names[0])


def decades(norm: float) -> float:
    from math import log10

    return log10(max(norm, 1e-12))


def model_and_data(name: str) -> tuple[Any, Any]:
    """A trained run's model, or a recipe's before it is trained; and what there is to try it on."""
    import torch

    from headway import recipes
    from headway.runs.run import Run
    from headway.tasks.abilities import Predicts, need

    if name not in recipes.names() and Path(name).is_dir():
        run = Run(name)
        need(run.task, Predicts)
        return run.model(), next(iter(run.task.splits().validation.values()))
    task = recipes.task(name)
    need(task, Predicts)
    task.prepare()
    torch.manual_seed(task.recipe.train.seed)
    return task.model(), next(iter(task.splits().validation.values()))


VERBS = [data, explain, gradients]
