"""Tokenizers by themselves: learned from texts in several languages, measured by language, and compared."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headway.api.progress import reporter
from headway.config.arguments import at_least, checked
from headway.config.errors import Problem
from headway.data.files import Progress
from headway.data.mixtures import PROPORTIONAL
from headway.lab import fertility, sentences
from headway.lab import tokenizers as learning
from headway.lab.fertility import LanguageFertility, TokenizerComparison, TokenizerReport
from headway.lab.sentences import LINE, Parallel, Sentence
from headway.lab.tokenizers import Learning, TokenizerSet
from headway.runs.pipeline import Reporter

__all__ = [
    "LanguageFertility",
    "TokenizerComparison",
    "TokenizerReport",
    "TokenizerSet",
    "compare_tokenizers",
    "report_tokenizer",
    "train_tokenizer",
]

Files = str | Path | Sequence[str | Path]
Texts = Mapping[str, Sequence[str]]  # by language
Tokenizers = str | Path | TokenizerSet
BY_SCRIPT = "script"


@checked
def train_tokenizer(
    texts: Files | Texts,
    *,
    kind: str = "bpe",
    vocab_size: int = 8_000,
    language: str | None = None,
    text: str | None = None,
    mixture: str = PROPORTIONAL,
    groups: str | Mapping[str, Sequence[str]] | None = None,
    normalize: str = "",
    min_count: int = 1,
    out: str | Path | None = None,
    progress: bool | Reporter | None = None,
) -> TokenizerSet:
    """A tokenizer of a ``kind`` that ``data.tokenizer`` knows, learned from texts that a mixture of languages draws,
    and written to ``out`` if it is given. ``texts`` are files, with their languages in the column ``language``
    (``files``: each file is a language), or a dict of texts by language. ``groups`` learns one for each group of
    languages: ``script``, or a dict of their languages by name.

    >>> made = hw.train_tokenizer({"en": ["a cat and a hat"], "de": ["die Katze"]}, kind="unigram", mixture="uniform")
    >>> tokenizer = made.of("en")
    >>> tokenizer.decode(tokenizer.encode(["日 a hat"])[0].tolist())
    '日 a hat'
    """
    at_least(1, vocab_size=vocab_size, min_count=min_count)
    target = None if out is None else Path(out)
    if target is not None:
        refuse_unwritable(target, is_folder=groups is not None)
    choices = Learning(kind, vocab_size, mixture, normalize, min_count)
    with reporter(progress).reading() as show:
        own = learning.texts_of(texts) if isinstance(texts, Mapping) else in_files(texts, language, text, show)
        name = str(target or kind)
        if groups is None:
            made = TokenizerSet(name, {"": choices.learn(own)}, {})
        else:
            made = choices.learn_groups(own, groups_of(groups, own), name)
    if target is not None:
        made.save(target)
    return made


def in_files(files: Files, language: str | None, text: str | None, show: Progress) -> learning.Texts:
    return learning.texts_in(paths_of(files), language, text, show)


def paths_of(files: Files) -> list[Path]:
    paths = [Path(each) for each in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise Problem("there are no texts: name a file, or pass a dict of texts by language")
    return paths


def groups_of(groups: str | Mapping[str, Sequence[str]], texts: learning.Texts) -> dict[str, str]:
    names = texts.languages.names
    if list(names) == [""]:
        raise Problem("groups are of languages: say which column has them (language)")
    if isinstance(groups, Mapping):
        return learning.groups_by_name(names, groups)
    if groups != BY_SCRIPT:
        raise Problem(f"groups={groups!r} is neither {BY_SCRIPT!r} nor a list of languages for each group")
    return learning.groups_by_script(texts)


def refuse_unwritable(path: Path, is_folder: bool) -> None:
    """Before the work starts."""
    if not path.parent.is_dir():
        raise Problem(f"cannot write {path.name}: there is no folder {path.parent}; create it first")
    if path.is_dir() and not is_folder:
        raise Problem(f"{path} is a folder: name a file, such as {path / 'tokenizer.json'}")
    if path.is_file() and is_folder:
        raise Problem(f"{path} is a file: name a folder for the tokenizers of the groups")


@checked
def report_tokenizer(
    tokenizer: Tokenizers,
    texts: Files | Texts,
    *,
    language: str = "language",
    text: str | None = None,
    same: str | None = None,
    translation: str | None = None,
    against: str | None = None,
    progress: bool | Reporter | None = None,
) -> TokenizerReport:
    """How well a tokenizer serves each language: of a run, a ``tokenizer.json``, a folder of a transformers model, a
    folder of groups, or just trained. ``texts`` are files whose texts have their ``language`` in a column (``files``:
    each file is a language), or a dict of texts by language.

    Parity needs translations: ``same`` is the column that says which sentence a text is (``line``: its line, or its
    place in the dict), or ``translation`` is the column with the translation of each text into English, or into the
    language ``against``.

    >>> made = hw.train_tokenizer({"en": ["a cat", "a hat"], "de": ["die Katze"]}, kind="byte")
    >>> report = hw.report_tokenizer(made, {"en": ["a cat"], "de": ["eine Katze"]}, same="line")
    >>> report.languages["de"].parity, report.languages["de"].fertility
    (2.0, 5.0)
    """
    parallel = Parallel(same, translation, against)
    with sentences_from(texts, language, text, parallel, progress) as own:
        (report,) = fertility.measure([set_of(tokenizer)], own, parallel)
    return report


@checked
def compare_tokenizers(
    tokenizers: Sequence[Tokenizers],
    texts: Files | Texts,
    *,
    language: str = "language",
    text: str | None = None,
    same: str | None = None,
    translation: str | None = None,
    against: str | None = None,
    progress: bool | Reporter | None = None,
) -> TokenizerComparison:
    """Several tokenizers on the same texts, side by side; the other arguments are those of ``report_tokenizer``.

    >>> texts = {"en": ["a cat and a hat"] * 9, "ru": ["кот и шляпа"]}
    >>> kinds = [hw.train_tokenizer(texts, kind=kind) for kind in ("byte", "char")]
    >>> comparison = hw.compare_tokenizers(kinds, texts)
    >>> [(report.name, report.worst("fertility")[0]) for report in comparison.reports]
    [('byte', 'ru'), ('char', 'ru')]
    """
    if not tokenizers or isinstance(tokenizers, str):
        raise Problem("name the tokenizers to compare, as a list")
    sets = [set_of(each) for each in tokenizers]
    parallel = Parallel(same, translation, against)
    with sentences_from(texts, language, text, parallel, progress) as own:
        return TokenizerComparison(fertility.measure(sets, own, parallel))


def set_of(tokenizer: Tokenizers) -> TokenizerSet:
    return tokenizer if isinstance(tokenizer, TokenizerSet) else learning.read_tokenizers(Path(tokenizer))


@contextmanager
def sentences_from(
    texts: Files | Texts, language: str, text: str | None, parallel: Parallel, progress: bool | Reporter | None
) -> Iterator[Iterator[Sentence]]:
    with reporter(progress).reading() as show:
        if not isinstance(texts, Mapping):
            yield sentences.sentences_in(paths_of(texts), language, text, parallel, show)
        elif parallel.column is None:
            yield sentences.sentences_of(texts, parallel.same == LINE)
        else:
            raise Problem(
                "texts in memory have no columns: same='line' if text n of each language is the same sentence"
            )
