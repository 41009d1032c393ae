"""The verbs of word vectors: vectors and what stands below it, ngrams."""

from collections import Counter
from pathlib import Path

import click

from headway.cli.output import OutFile, console, json_option, print_json, print_table
from headway.cli.training import train_recipe
from headway.config.errors import Problem

source_argument = click.argument("source", type=click.Path(path_type=Path))
top_option = click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="How many words.")


@click.group()
def vectors() -> None:
    """Word vectors: train them, ask them, measure them. A SOURCE is a run of vectors, or a file of word2vec's,
    fastText's or GloVe's.

    \b
    Examples:
      headway vectors train data.train=novels.txt
      headway vectors nearest runs/vectors-1 captain
      headway vectors analogy glove.txt man king woman
    """


@vectors.command("train")
@click.argument("settings", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path), help="The run's folder; runs/vectors-1 and so on if left out.")
def train_vectors(settings: tuple[str, ...], out: Path | None) -> None:
    """Learn vectors from texts: the recipe vectors, with SETTINGS changed by key=value.

    \b
    Examples:
      headway vectors train data.train=novels.txt
      headway vectors train data.train=novels.txt data.objective=cbow model.width=300 train.threads=1
      headway vectors train data.train=novels.txt data.units="ngrams(least=3, most=6)"
    """
    train_recipe("vectors", settings, out)


def print_near(found: list[tuple[str, float]], as_json: bool) -> None:
    if as_json:
        print_json([{"word": word, "cosine": cosine} for word, cosine in found])
    else:
        print_table(["word", "cosine"], found)


@vectors.command()
@source_argument
@click.argument("word")
@top_option
@json_option
def nearest(source: Path, word: str, top: int, as_json: bool) -> None:
    """The words whose vectors point where that of WORD does.

    \b
    Example:
      headway vectors nearest runs/vectors-1 captain --top 5
    """
    from headway.runs.warm_start import table_of

    print_near(table_of(source).nearest(word, top), as_json)


@vectors.command()
@source_argument
@click.argument("one")
@click.argument("other")
@click.argument("third")
@top_option
@json_option
def analogy(source: Path, one: str, other: str, third: str, top: int, as_json: bool) -> None:
    """What is to THIRD as OTHER is to ONE.

    \b
    Example:
      headway vectors analogy runs/vectors-1 man king woman
    """
    from headway.runs.warm_start import table_of

    print_near(table_of(source).analogy(one, other, third, top), as_json)


@vectors.command()
@source_argument
@click.argument("one")
@click.argument("other")
@json_option
def similarity(source: Path, one: str, other: str, as_json: bool) -> None:
    """The cosine of the vectors of two words.

    \b
    Example:
      headway vectors similarity runs/vectors-1 ship boat
    """
    from headway.runs.warm_start import table_of

    found = table_of(source).similarity(one, other)
    if as_json:
        print_json({"one": one, "other": other, "cosine": found})
    else:
        console.print(f"{found:.4f}")


@vectors.command()
@source_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def evaluate(source: Path, files: tuple[Path, ...], as_json: bool) -> None:
    """How vectors compare with people: FILES of pairs of words with a number each (Spearman's correlation with the
    cosines), or of analogies, four words a line, sections begun by a colon.

    \b
    Example:
      headway vectors evaluate runs/vectors-1 wordsim353.txt questions-words.txt
    """
    from headway.lab.word_judgements import is_of_questions, judged_pairs, questions
    from headway.runs.warm_start import table_of
    from headway.tasks.word2vec.evaluation import Section, analogies, similarities

    table = table_of(source)
    pairs = {path: similarities(table, judged_pairs(path)) for path in files if not is_of_questions(path)}
    sections = [
        analogies(table, name, asked)
        for path in files
        if is_of_questions(path)
        for name, asked in questions(path).items()
    ]
    if as_json:
        similar = {str(path): found._asdict() for path, found in pairs.items()}
        print_json({"similarity": similar, "analogies": [section._asdict() for section in sections]})
        return
    if pairs:
        rows = [(path.name, found.spearman, f"{found.covered:.1%}", found.pairs) for path, found in pairs.items()]
        print_table(["pairs", "spearman", "covered", "of"], rows)
    if sections:
        sums = (sum(getattr(each, key) for each in sections) for key in ("right", "asked", "questions"))
        shown = [(each.name, each.share, each.asked, each.questions) for each in [*sections, Section("all", *sums)]]
        print_table(["analogies", "right", "asked", "of"], shown)


@vectors.command()
@source_argument
@click.argument("target", type=OutFile())
@click.option(
    "--to", "form", type=click.Choice(["text", "glove", "word2vec", "fasttext"]), default="text", show_default=True
)
def convert(source: Path, target: Path, form: str) -> None:
    """Write the vectors of a SOURCE into the file TARGET: as word2vec's text (which is fastText's .vec), as GloVe's, as
    word2vec's binary, or as fastText's .bin, which keeps the n-grams.

    \b
    Example:
      headway vectors convert runs/vectors-1 vectors.txt
    """
    from headway.runs.warm_start import table_of
    from headway.tasks.word2vec.formats import write

    if target.exists():
        raise Problem(f"{target} is there already: name another file, or remove it")
    table = table_of(source)
    write(table, target, form)
    console.print(f"{len(table):,} words of width {table.width} in {target}")


@vectors.command("map")
@source_argument
@click.argument("words", nargs=-1)
@click.option("--out", type=OutFile(), required=True, help="A file that ends in .png or .html.")
@click.option("--top", default=300, show_default=True, type=click.IntRange(3), help="Without WORDS, the first so many.")
def draw_map(source: Path, words: tuple[str, ...], out: Path, top: int) -> None:
    """Draw words on a plane, near each other where their vectors are: WORDS, or the most frequent ones.

    \b
    Examples:
      headway vectors map runs/vectors-1 --out words.html
      headway vectors map glove.txt king queen man woman boy girl --out people.png
    """
    from headway.lab.word_map import maps, places
    from headway.runs.warm_start import table_of

    draw = maps(out)
    table = table_of(source)
    shown = list(dict.fromkeys(words)) or table.words[:top]
    draw(out, shown, places(table, shown), f"{len(shown):,} words of {source}")
    console.print(f"{len(shown):,} words in {out}")


@click.command()
@click.argument("word")
@click.option(
    "--min", "least", default=3, show_default=True, type=click.IntRange(1), help="Letters of a unit at least."
)
@click.option("--max", "most", default=6, show_default=True, type=click.IntRange(1), help="Letters at most.")
@click.option("--buckets", default=2_000_000, show_default=True, type=click.IntRange(1), help="How many there are.")
@json_option
def ngrams(word: str, least: int, most: int, buckets: int, as_json: bool) -> None:
    """The units of a WORD that FastText adds up, and the bucket that each falls into.

    \b
    Example:
      headway ngrams python --min 4 --max 6
    """
    from headway.tasks.word2vec.ngrams import Ngrams

    if not word.strip():
        raise Problem("an empty word has no units")
    units = Ngrams(least, most, buckets)
    found = [(unit, units.bucket(unit)) for unit in units.of(word)]
    if as_json:
        print_json([{"unit": unit, "bucket": bucket} for unit, bucket in found])
        return
    shared = {bucket for bucket, times in Counter(bucket for _, bucket in set(found)).items() if times > 1}
    print_table(
        ["unit", "bucket", ""], [(unit, bucket, "shared" if bucket in shared else "") for unit, bucket in found]
    )


VERBS = [vectors, ngrams]
