"""The verb senses: what a word means in each sentence."""

from pathlib import Path

import click

from headway.cli.asking import run_argument
from headway.cli.output import OutFile, console, json_option, note, print_json, print_table


@click.command()
@run_argument
@click.argument("word")
@click.option("--sentences", type=click.Path(path_type=Path), required=True, help="A file, a sentence a line.")
@click.option(
    "--layer", type=click.IntRange(0), help="Whose vectors are grouped; left out: that with the clearest groups."
)
@click.option("--groups", type=click.IntRange(2), help="How many senses; left out: as many as are the clearest.")
@click.option(
    "--remove",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="Directions that are taken out of vectors.",
)
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), help="Sentences of each sense.")
@click.option("--out", type=OutFile(), help="A map of the sentences, as .png or .html.")
@json_option
def senses(
    run: Path,
    word: str,
    sentences: Path,
    layer: int | None,
    groups: int | None,
    remove: int,
    top: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """How the one vector of a WORD becomes several in context: by layer, and in groups of sentences.

    Cosines are shown as they are, and less what all words share: their mean, and the direction in which they vary
    the most.

    \b
    Example:
      headway senses runs/pretrain-1 bank --sentences sentences.txt --out bank.html
    """
    from headway.data.files import open_text
    from headway.lab import senses as contextual
    from headway.lab.word_map import maps, on_a_plane
    from headway.runs.run import Run

    draw = None if out is None else maps(out)
    with open_text(sentences, "utf-8", setting=None) as file:
        texts = [line.strip() for line in file if line.strip()]
    found = contextual.in_context(Run(run), texts)
    layers = contextual.by_layer(found, word, remove)
    best = contextual.senses(found, word, remove, layer, groups)
    if draw is not None and out is not None:
        shown = [texts[number] for number in best.sentences]
        draw(out, shown, on_a_plane(best.vectors), f"{word}: {run}, layer {best.layer}", best.groups)
    members = [[texts[n] for n in best.sentences[best.groups == group]] for group in range(best.groups.max() + 1)]
    if as_json:
        about = {"layer": best.layer, "silhouette": best.clear, "groups": members}
        print_json({"layers": [each._asdict() for each in layers], **about})
        return
    head = [
        "layer",
        "any two words",
        f"{word} and {word}",
        "any two, less what all share",
        f"{word} and {word}, likewise",
    ]
    print_table(head, layers)
    if left := found.words.count(word.lower()) - len(best.sentences):
        note(f"{left} more have other tokens, as behind a bracket, and so another vector from the start: left out")
    clear = "" if best.clear >= contextual.CLEAR else ": they are not clearly apart"
    console.print(f"\n{len(members)} groups in layer {best.layer}, silhouette {best.clear:.2f}{clear}", highlight=False)
    for number, group in enumerate(members, start=1):
        console.print(f"\n{number}. {len(group)} sentences", highlight=False)
        for text in group[:top]:
            console.print(f"   {text}", highlight=False, markup=False)
    if out is not None:
        console.print(f"\na map in {out}")


VERBS = [senses]
