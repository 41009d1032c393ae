"""vectors and its subcommands, ngrams, senses."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from headway.cli.options import AT_LEAST_1, FILE, OutFile, run_argument, settings_argument
from headway.cli.progress import following
from headway.cli.render import Block, Output, Table, prints
from headway.cli.train import trained

if TYPE_CHECKING:
    from headway.api.inspection import SenseStudy
    from headway.api.vectors import Benchmarks, Neighbour

source_argument = click.argument("source", type=FILE)
top_option = click.option("--top", default=10, show_default=True, type=AT_LEAST_1, help="Number of words.")


@click.group()
def vectors() -> None:
    """Train, query and evaluate word vectors. A SOURCE is a run of vectors, or a file of word2vec, fastText or GloVe.

    \b
    Examples:
      headway vectors train data.train=novels.txt
      headway vectors nearest runs/vectors-1 captain
      headway vectors analogy glove.txt man king woman
    """


@vectors.command("train")
@settings_argument
@click.option("--out", type=FILE, help="Run folder; default: runs/vectors-1, runs/vectors-2, ...")
@prints
def train_vectors(settings: tuple[str, ...], out: Path | None) -> Output:
    """Train word vectors: the recipe vectors, with SETTINGS overriding it.

    \b
    Examples:
      headway vectors train data.train=novels.txt
      headway vectors train data.train=novels.txt data.objective=cbow model.width=300 train.threads=1
      headway vectors train data.train=novels.txt data.units="ngrams(least=3, most=6)"
    """
    from headway.api.train import train as train_recipe

    return trained(train_recipe("vectors", settings=settings, out=out, progress=following()))


def neighbours(words: "list[Neighbour]") -> Output:
    return Output([{"word": word, "cosine": cosine} for word, cosine in words], [Table(["word", "cosine"], words)])


@vectors.command()
@source_argument
@click.argument("word")
@top_option
@prints
def nearest(source: Path, word: str, top: int) -> Output:
    """The nearest neighbours of WORD by cosine similarity.

    \b
    Example:
      headway vectors nearest runs/vectors-1 captain --top 5
    """
    from headway.api.vectors import load_vectors

    return neighbours(load_vectors(source).nearest(word, top))


@vectors.command()
@source_argument
@click.argument("one")
@click.argument("other")
@click.argument("third")
@top_option
@prints
def analogy(source: Path, one: str, other: str, third: str, top: int) -> Output:
    """ONE is to OTHER as THIRD is to what?

    \b
    Example:
      headway vectors analogy runs/vectors-1 man king woman
    """
    from headway.api.vectors import load_vectors

    return neighbours(load_vectors(source).analogy(one, other, third, top))


@vectors.command()
@source_argument
@click.argument("one")
@click.argument("other")
@prints
def similarity(source: Path, one: str, other: str) -> Output:
    """The cosine similarity of two words.

    \b
    Example:
      headway vectors similarity runs/vectors-1 ship boat
    """
    from headway.api.vectors import load_vectors

    cosine = load_vectors(source).similarity(one, other)
    return Output({"one": one, "other": other, "cosine": cosine}, [f"{cosine:.4f}"])


@vectors.command()
@source_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@prints
def evaluate(source: Path, files: tuple[Path, ...]) -> Output:
    """Evaluate word vectors on FILES of word pairs with similarity scores (Spearman correlation with the cosines), or
    of analogies (four words per line, sections start with a colon).

    \b
    Example:
      headway vectors evaluate runs/vectors-1 wordsim353.txt questions-words.txt
    """
    from headway.api.vectors import load_vectors

    results = load_vectors(source).evaluate(*files)
    similar = {str(path): scores._asdict() for path, scores in results.similarity.items()}
    data = {"similarity": similar, "analogies": [section._asdict() for section in results.analogies]}
    return Output(data, benchmark_tables(results))


def benchmark_tables(results: "Benchmarks") -> Iterator[Block]:
    if results.similarity:
        yield Table(
            ["pairs", "spearman", "covered", "of"],
            [(path.name, s.spearman, f"{s.covered:.1%}", s.pairs) for path, s in results.similarity.items()],
        )
    if results.analogies:
        sections = [*results.analogies, results.all_analogies]
        rows = [(section.name, section.share, section.asked, section.questions) for section in sections]
        yield Table(["analogies", "accuracy", "asked", "of"], rows)


@vectors.command()
@source_argument
@click.argument("target", type=OutFile())
@click.option(
    "--to",
    "form",
    type=click.Choice(["text", "glove", "word2vec", "fasttext"]),
    default="text",
    show_default=True,
    help="File format.",
)
@prints
def convert(source: Path, target: Path, form: str) -> Output:
    """Write the vectors of a SOURCE into the file TARGET: in word2vec's text format (fastText's .vec), GloVe's,
    word2vec's binary format, or fastText's .bin, which includes the n-grams.

    \b
    Example:
      headway vectors convert runs/vectors-1 vectors.txt
    """
    from headway.api.vectors import load_vectors

    vectors = load_vectors(source)
    vectors.save(target, to=form)
    data = {"file": target, "words": len(vectors), "width": vectors.width}
    return Output(data, [f"{len(vectors):,} words of width {vectors.width} in {target}"])


@vectors.command("map")
@source_argument
@click.argument("words", nargs=-1)
@click.option("--out", type=OutFile(), required=True, help="File to write, .png or .html.")
@click.option("--top", default=300, show_default=True, type=click.IntRange(3), help="Without WORDS: the most frequent.")
@prints
def draw_map(source: Path, words: tuple[str, ...], out: Path, top: int) -> Output:
    """Draw a two-dimensional map of WORDS, or of the most frequent words.

    \b
    Examples:
      headway vectors map runs/vectors-1 --out words.html
      headway vectors map glove.txt king queen man woman boy girl --out people.png
    """
    from headway.api.vectors import load_vectors

    shown = load_vectors(source).map(out, words, top=top, title=f"words of {source}")
    return Output({"file": out, "words": shown}, [f"{len(shown):,} words in {out}"])


@click.command()
@click.argument("word")
@click.option("--min", "least", default=3, show_default=True, type=AT_LEAST_1, help="Minimum n-gram length.")
@click.option("--max", "most", default=6, show_default=True, type=AT_LEAST_1, help="Maximum n-gram length.")
@click.option("--buckets", default=2_000_000, show_default=True, type=AT_LEAST_1, help="Number of hash buckets.")
@prints
def ngrams(word: str, least: int, most: int, buckets: int) -> Output:
    """Show the character n-grams of a WORD as fastText hashes them.

    \b
    Example:
      headway ngrams python --min 4 --max 6
    """
    from headway.api.vectors import ngrams as ngrams_of

    hashed = ngrams_of(word, least=least, most=most, buckets=buckets)
    shared = {bucket for bucket, count in Counter(bucket for _, bucket in set(hashed)).items() if count > 1}
    rows = [
        (unit, bucket, "the word's own row" if bucket is None else "shared" if bucket in shared else "")
        for unit, bucket in hashed
    ]
    data = [{"unit": unit, "bucket": bucket} for unit, bucket in hashed]
    return Output(data, [Table(["n-gram", "bucket", ""], rows)])


@click.command()
@run_argument
@click.argument("word")
@click.option("--sentences", "file", type=FILE, required=True, help="File with one sentence per line.")
@click.option("--layer", type=click.IntRange(0), help="Layer to cluster; default: the one with the clearest clusters.")
@click.option("--groups", type=click.IntRange(2), help="Number of clusters; default: the clearest.")
@click.option("--remove", default=1, show_default=True, type=click.IntRange(0), help="Principal components to remove.")
@click.option("--top", default=5, show_default=True, type=AT_LEAST_1, help="Number of sentences to show per cluster.")
@click.option("--out", type=OutFile(), help="Map of the sentences to write, .png or .html.")
@prints
def senses(
    run: Path, word: str, file: Path, layer: int | None, groups: int | None, remove: int, top: int, out: Path | None
) -> Output:
    """Cluster the contextual vectors of a WORD.

    How they vary by layer, and clusters of the sentences it occurs in. Mean cosines are shown as they are, and after
    removing the mean and the first principal components of all words.

    \b
    Example:
      headway senses runs/pretrain-1 bank --sentences sentences.txt --out bank.html
    """
    from headway.api.files import read_lines
    from headway.api.model import load

    texts = [line.strip() for line in read_lines(file) if line.strip()]
    result = load(run).senses(word, texts, layer=layer, groups=groups, remove=remove)
    best = result.senses
    if out is not None:
        result.map(out, f"{word}: {run}, layer {best.layer}")
    layers = [each._asdict() for each in result.layers]
    data = {"layers": layers, "layer": best.layer, "silhouette": best.silhouette, "groups": result.members}
    return Output(data, sense_report(result, word, top, out))


def sense_report(result: "SenseStudy", word: str, top: int, out: Path | None) -> Iterator[Block]:
    both = ("any two words", f"{word} and {word}")
    yield Table(["layer", *both, *(f"{column}, common part removed" for column in both)], result.layers)
    if result.other_spellings:
        message = f"{result.other_spellings} occurrences with other tokens, such as after a bracket, are left out"
        yield Text.assemble(("note: ", "yellow"), message)
    best = result.senses
    unclear = "" if best.is_clear else ": not clearly separated"
    yield f"\n{len(result.members)} clusters in layer {best.layer}, silhouette {best.silhouette:.2f}{unclear}"
    for number, group in enumerate(result.members, start=1):
        yield f"\n{number}. {len(group)} sentences"
        yield from (f"   {text}" for text in group[:top])
    if out is not None:
        yield f"\nmap: {out}"
