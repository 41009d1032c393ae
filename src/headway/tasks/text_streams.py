"""Shared by tasks that read texts as streams: which texts are held out, and how all of them become streams.

Documents are concatenated into one stream, each ended by <eos>; see data/stream. With ``data.language`` there is one
for each language; see data/language_stream.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import Problem
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.corpus import Corpus
from headway.data.dataset import Dataset
from headway.data.examples import Reading
from headway.data.files import Progress, silent
from headway.data.language_stream import LanguageStream, hold_out_ends
from headway.data.splitting import cut
from headway.data.stream import Stream
from headway.tasks.abilities import Ability
from headway.tasks.file_task import VERBS, in_parts, test_or_validation
from headway.tasks.limited import Limited, LimitedData
from headway.tasks.multilingual import MultilingualData
from headway.tasks.task import Splits
from headway.tasks.unlabelled import TextsData
from headway.text.words import EOS

CARRIED = 1024  # tokens at a time, in an evaluation that carries the state along


class HasContext(Ability):
    """What it predicts depends on how much it has read before: only equal contexts are comparable."""

    @property
    @abstractmethod
    def context_length(self) -> int: ...

    @property
    @abstractmethod
    def stride(self) -> int:
        """Between the sliding windows of an evaluation."""

    @abstractmethod
    def sets_in_context(self, context: int) -> Mapping[str, Dataset]:
        """The test data in windows of so many tokens."""

    @abstractmethod
    def about_context(self, context: int | None) -> str:
        """In words, which tokens are predicted in these sets, and from how many before them; None: in its own."""


@dataclass(frozen=True)
class StreamsData(MultilingualData, LimitedData, TextsData):
    validation: str = setting("0.05", "a file, or the share of the training data to hold out")
    window: int = setting(256, "context length in tokens", least=1)
    stride: int | None = setting(None, "stride of sliding-window evaluation; none: half a window", least=1)
    cross_document: bool = setting(False, "let attention cross document boundaries", was="across")
    carry: bool = setting(False, "carry the state of a recurrent network over to the next batch")


class TextStreams(Limited):
    encoding_settings = frozenset({"window", "stride", "cross_document", "carry"}) | Limited.mixing_settings

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.documents = 2  # in the training file; until they are counted, more than one

    @property
    def reading(self) -> Reading:
        return replace(super().reading, language=self.recipe.data.language)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        lines = len(np.unique(self.train.index.rows["line"]))
        self.documents = max(lines, 2) if self.is_multilingual else lines
        super().prepare(progress)

    @property
    def eos(self) -> int:
        return self.tokenizer.vocabulary.index[EOS]

    @cached_property
    def splits_by_document(self) -> bool:
        """Whole documents are held out if there are enough of them, else the end of the text."""
        distinct = len(np.unique(self.groups(self.train)))
        return all(share * distinct >= 2 for share in self.shares.values())

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Boolean masks over the rows of the training file, by use. If the end of the text is held out, there is
        only the training mask: the rows that the tokenizer is learned from."""
        groups = self.groups(self.train)
        if self.is_multilingual:
            parts = cut(groups, list(self.shares.values()), self.languages)
            return dict(zip([*self.shares, "train"], parts, strict=True))
        if self.splits_by_document:
            return in_parts(groups, self.shares, self.files["train"], "texts")
        first = max(int(len(groups) * (1 - sum(self.shares.values()))), 1)
        return {"train": np.arange(len(groups)) < first}

    def make_splits(self) -> Splits[Any]:
        if self.is_multilingual:
            return self.language_splits()
        tokens = self.split_training_tokens()
        for use in self.files.keys() - {"train"}:
            tokens[use] = self.source(self.files[use]).stream(self.tokenizer, EOS)
        streams = {use: self.stream(own, use) for use, own in tokens.items()}
        train = replace(streams["train"], carries=self.recipe.data.carry)
        ((name, stream),) = test_or_validation(streams).items()
        tests = self.evaluation_streams(name, stream)
        return Splits(train, {"validation": streams["validation"]}, tests, tuple(self.notes(streams)))

    def language_splits(self) -> Splits[Any]:
        streams = {use: self.language_stream(self.train, use, rows) for use, rows in self.parts.items()}
        single = [len(np.unique(lines)) == 1 for lines in self.lines_by_language()]
        train, held_out = hold_out_ends(streams.pop("train"), streams, self.shares, single)
        for use in self.files.keys() - {"train"}:
            held_out[use] = self.language_stream(self.source(self.files[use]), use)
        notes = [*self.notes(held_out), *self.language_notes(held_out)]
        ((name, test),) = test_or_validation(held_out).items()
        return Splits(
            train, self.old_and_new(held_out["validation"]), self.evaluation_streams(name, test), tuple(notes)
        )

    def lines_by_language(self) -> Iterator[np.ndarray]:
        index = self.train.index
        rows = index.languages.by_name()
        return (index.rows["line"][rows[name]] for name in index.language_names)

    def language_stream(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> LanguageStream:
        """Of these rows (a mask), or of all of them."""
        data, names = self.recipe.data, corpus.index.language_names
        chosen = np.ones(len(corpus.index.rows), bool) if rows is None else rows
        tokens, bounds = corpus.language_streams(self.tokenizer, EOS, chosen)
        mark, key = None if data.cross_document else self.eos, key_of(tokens=len(tokens), use=use)
        return LanguageStream(tokens, data.window, mark=mark, key=key, names=names, bounds=bounds, mixture=self.mixture)

    def split_training_tokens(self) -> dict[str, np.ndarray]:
        if self.splits_by_document:
            parts = self.parts | {"train": self.limited(self.parts["train"])}
            return {use: self.train.stream(self.tokenizer, EOS, rows) for use, rows in parts.items()}
        whole = self.train.stream(self.tokenizer, EOS)
        begin = int(len(whole) * (1 - sum(self.shares.values())))
        tokens = {"train": whole[:begin][: self.recipe.data.max_tokens]}
        for number, use in enumerate(self.shares, start=1):
            end = int(len(whole) * (1 - sum(list(self.shares.values())[number:])))
            tokens[use], begin = whole[begin:end], end
        return tokens

    def stream(self, tokens: np.ndarray, use: str, where: str | None = None) -> Stream:
        if len(tokens) < 2:
            where = where or self.files.get(use, self.files["train"])
            raise Problem(f"{where} is too short: there is nothing to {VERBS[use]} on; use a longer text")
        data = self.recipe.data
        eos = None if data.cross_document or self.documents == 1 else self.eos
        return Stream(tokens, data.window, mark=eos, key=key_of(tokens=len(tokens), use=use))

    def notes(self, streams: Mapping[str, Stream]) -> Iterator[str]:
        data = self.recipe.data
        if data.train or not data.name:
            yield from self.train.index.notes
        yield from self.shared_texts()
        if self.tokenizer.ends_lines and self.documents > 1 and not data.cross_document:
            yield "<eos> stands for line ends, too: no line sees those before it, unless data.cross_document=true"
        unknown = self.tokenizer.vocabulary.index["<unk>"]
        if unknown == self.eos:  # of an imported model: every end of a text would count
            return
        for use, stream in streams.items():
            share = float(np.mean(stream.tokens == unknown)) if len(stream.tokens) else 0.0
            if share:
                yield f"{share:.2%} of the {use} tokens are unknown: their bytes are not counted"

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Stream]:
        corpus = Corpus(path, self.reading, progress)
        if self.is_multilingual:
            return self.evaluation_streams(path.name, self.language_stream(corpus, "test"))
        return self.evaluation_streams(path.name, self.stream(corpus.stream(self.tokenizer, EOS), "test", str(path)))

    def evaluation_streams(self, name: str, stream: Stream) -> dict[str, Stream]:
        """In disjoint windows, whose first tokens have little context, and in sliding windows, where all tokens but the
        first have at least ``window - stride`` tokens of context."""
        sets = {name: stream, f"{name} sliding": replace(stream, stride=self.stride)}
        if self.recipe.data.carry:  # as it was trained, from the first token to the last
            sets[f"{name} carried"] = replace(stream, window=max(stream.window, CARRIED), carries=True)
        return sets

    def prompts(self, count: int) -> list[str]:
        """Excerpts of the validation data at equal distances, of at most half a window."""
        stream, *_ = self.splits().validation.values()
        size = min(max(self.recipe.data.window // 2, 1), len(stream.tokens))
        starts = np.unique(np.linspace(0, len(stream.tokens) - size, min(count, len(stream.tokens))).astype(int))
        return [self.tokenizer.decode(stream.tokens[start : start + size].tolist()) for start in starts]

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.window)

    @property
    def stride(self) -> int:
        return int(self.recipe.data.stride or max(self.recipe.data.window // 2, 1))

    def sets_in_context(self, context: int) -> dict[str, Stream]:
        (name, stream), *_ = self.splits().test.items()
        stream = replace(stream, window=context)
        return {name: stream, f"{name} sliding": replace(stream, stride=max(context // 2, 1))}

    def about_context(self, context: int | None) -> str:
        sets = self.splits().test if context is None else self.sets_in_context(context)
        (name, stream), (_, sliding), *carried = sets.items()
        most, least = stream.window, stream.window - (sliding.stride or 0) + 1
        own = f"each predicted from the 1 to {most:,} before it ({name}), or from at least {least:,} ({name} sliding)"
        carries = f", or from all ({name} carried)" if carried else ""
        return f"{len(stream.tokens) - 1:,} tokens of the {name} data, {own}{carries}"
