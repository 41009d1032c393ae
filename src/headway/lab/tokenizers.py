"""Tokenizers by themselves: learned from files, one for all languages or one for each group of them, and read again."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from pathlib import Path

import numpy as np

from headway.config.errors import BadSetting, Problem, did_you_mean, is_unicode
from headway.config.json_files import read_json
from headway.data.corpus import Corpus, Joined
from headway.data.examples import Reading
from headway.data.files import Progress, require_file, silent
from headway.data.languages import Languages, refuse_spellings
from headway.data.mixtures import PROPORTIONAL, drawn
from headway.data.readers import Format
from headway.tasks.file_task import TOKENIZER, Again
from headway.text.scripts import main_script, scripts_of
from headway.text.tokenizer import Tokenizer, read_core
from headway.text.vocabulary import SPECIALS

GROUPS = "groups.json"
OTHERS = "others"


@dataclass(frozen=True)
class Texts:
    """Texts that can be read again and again, and the languages that they are in."""

    read: Callable[[], Iterable[str]]
    languages: Languages

    def of(self, names: Iterable[str]) -> "Texts":
        chosen = [self.languages.names.index(name) for name in names]
        own = np.isin(self.languages.rows, chosen)
        return Texts(lambda: compress(self.read(), own.tolist()), self.languages.take(np.flatnonzero(own)))


def texts_in(paths: Sequence[Path], language: str | None, text: str | None, progress: Progress = silent) -> Texts:
    """``language`` is a column, or ``files``; None: all texts are in one language. A plain text file is one text."""
    reading = Reading(text, language=language, has_labels=False, format=Format(whole=True))
    corpora = [Corpus(path, reading, progress) for path in paths]
    corpus = corpora[0] if len(corpora) == 1 else Joined(corpora)
    return Texts(partial(corpus.texts, "reading"), corpus.index.languages)


def texts_of(texts: Mapping[str, Sequence[str]]) -> Texts:
    """By language."""
    refuse_bad_texts(texts)
    rows = [number for number, own in enumerate(texts.values()) for _ in own]
    return Texts(lambda: (text for own in texts.values() for text in own), Languages(list(texts), np.array(rows)))


def refuse_bad_texts(texts: Mapping[str, Sequence[str]]) -> None:
    if not texts:
        raise Problem("there are no texts: pass a list of them for each language")
    refuse_spellings(texts, "the texts")
    for name, own in texts.items():
        if isinstance(own, str) or not all(isinstance(text, str) and is_unicode(text) for text in own) or not any(own):
            raise Problem(f"{name!r} has no texts: pass a list of them, such as {{'en': ['a text', 'another']}}")


@dataclass(frozen=True)
class TokenizerSet:
    """One tokenizer for all languages, or one for each group of them."""

    name: str
    tokenizers: Mapping[str, Tokenizer]  # by group
    groups: Mapping[str, str]  # the group of each language; none: there is one tokenizer

    def of(self, language: str) -> Tokenizer:
        if not self.groups:
            return next(iter(self.tokenizers.values()))
        if language not in self.groups:
            hint = did_you_mean(language, self.groups)
            raise Problem(f"{self.name}: no group of its tokenizers has the language {language!r}; {hint}")
        return self.tokenizers[self.groups[language]]

    def __len__(self) -> int:
        """The size of all vocabularies together."""
        return sum(len(tokenizer) for tokenizer in self.tokenizers.values())

    def save(self, path: Path) -> None:
        """A file; for groups a folder."""
        if not self.groups:
            self.of("").save(path)
            return
        path.mkdir(parents=True, exist_ok=True)
        members = {group: [name for name, own in self.groups.items() if own == group] for group in self.tokenizers}
        (path / GROUPS).write_text(json.dumps(members, ensure_ascii=False, indent=1), encoding="utf-8")
        for group, tokenizer in self.tokenizers.items():
            tokenizer.save(path / f"{group}.json")


def read_tokenizers(path: Path) -> TokenizerSet:
    """Of a run, a tokenizer.json, a folder of a model in the form of transformers, or a folder of groups."""
    require_file(path, or_folder=True)
    if (path / GROUPS).is_file():
        members = read_json(path / GROUPS, {str: [str]})
        if not members:
            raise Problem(f"{path / GROUPS} has no groups")
        for group in members:
            refuse_bad_name(group, path / GROUPS)
        groups = {name: group for group, names in members.items() for name in names}
        return TokenizerSet(str(path), {group: read_one(path / f"{group}.json") for group in members}, groups)
    if path.is_dir() and not (path / TOKENIZER).is_file():
        raise Problem(f"{path} has no {TOKENIZER}: name a run, a tokenizer.json, or a folder with one")
    return TokenizerSet(str(path), {"": read_one(path / TOKENIZER if path.is_dir() else path)}, {})


def read_one(path: Path) -> Tokenizer:
    """Of headway, or of another library."""
    require_file(path)
    core = read_core(path)
    numbers = core.get_vocab()
    is_ours = tuple(sorted(numbers, key=numbers.__getitem__)[: len(SPECIALS)]) == SPECIALS
    return Tokenizer.load(path) if is_ours else Tokenizer(core, {})


@dataclass(frozen=True)
class Learning:
    """How a tokenizer is learned."""

    kind: str
    size: int
    mixture: str = PROPORTIONAL
    normalize: str = ""
    least_count: int = 1

    def learn(self, texts: Texts) -> Tokenizer:
        if self.mixture != PROPORTIONAL and texts.languages.names == [""]:
            raise BadSetting("mixture", "it is about languages: say which column has them, or that each file is one")

        @cache
        def draw() -> Callable[[], Iterable[str]]:
            is_raw = self.mixture == PROPORTIONAL
            return texts.read if is_raw else drawn(texts.read, texts.languages, self.mixture, "mixture")

        return Tokenizer.learn(self.kind, Again(lambda: draw()()), self.normalize, self.size, self.least_count)

    def learn_groups(self, texts: Texts, groups: Mapping[str, str], name: str) -> TokenizerSet:
        """One for each group: ``groups`` are those of the languages."""
        learned = {}
        for group in dict.fromkeys(groups.values()):
            refuse_bad_name(group)
            learned[group] = self.learn(texts.of(name for name, own in groups.items() if own == group))
        return TokenizerSet(name, learned, groups)


def refuse_bad_name(group: str, where: object = "groups") -> None:
    """It is the name of a file, too."""
    if not re.fullmatch(r"[\w -]+", group):
        raise Problem(f"{where}: {group!r} is no name of a group: use letters, digits, spaces, - and _")


def groups_by_script(texts: Texts) -> dict[str, str]:
    """The script of each language."""
    names = texts.languages.names
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for text, row in zip(texts.read(), texts.languages.rows.tolist(), strict=True):
        counts[names[row]].update(scripts_of(text))
    return {name: main_script(own) for name, own in counts.items()}


def groups_by_name(names: Sequence[str], groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The group of each language, from the languages of each group; those that are in none are a group of their own."""
    group_of: dict[str, str] = {}
    for group, members in groups.items():
        for name in members:
            if name not in names:
                raise Problem(f"group {group}: there are no texts in {name!r}; {did_you_mean(name, names)}")
            if group_of.setdefault(name, group) != group:
                raise Problem(f"{name!r} is in two groups: {group_of[name]} and {group}")
    return {name: group_of.get(name, OTHERS) for name in names}
