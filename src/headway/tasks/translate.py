"""Translate: learned from your own parallel texts.

headway train translate data.source=train.en data.target=train.de data.test=test.en,test.de
headway train translate data.train=pairs.tsv
headway train translate data.train=train.en,train.de,train.fr data.test=test.en,test.de,test.fr
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem, is_unicode
from headway.config.json_files import read_json
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.files import Progress, silent
from headway.data.pairs import Pairs
from headway.data.parallel_texts import ParallelTexts, encode, files_in, groups_of
from headway.data.sequences import shared_sequences
from headway.generation.translator import Translator
from headway.tasks.file_task import in_parts, test_or_validation
from headway.tasks.many_directions import ManyDirections, ManyDirectionsData, names_in
from headway.tasks.seq2seq import Seq2Seq, Seq2SeqData
from headway.tasks.task import Splits
from headway.text.tokenizer import Tokenizer

SOURCE_TOKENIZER, UNSEEN = "source-tokenizer.json", "unseen.json"
UNSEEN_SHARE = 0.2  # of unseen tokens in a text, above which its translation is doubtful


@dataclass(frozen=True)
class TranslateData(Seq2SeqData, ManyDirectionsData):
    source: str | None = setting(None, "file of source texts, one per line")
    target: str | None = setting(None, "file of their translations, one per line")
    train: str | None = setting(
        None, "instead of source and target: one file with columns, or several files separated by commas"
    )
    validation: str = setting("0.02", "files like train, or the share of the training data to hold out")
    test: str | None = setting(
        None, "files like train, or a share of the training data; none: test on the validation data"
    )
    columns: str | None = setting(
        None, "source and target column of a single file, such as en,de, or more languages; none: detect them"
    )
    encoding: str = setting("utf-8", "encoding of the files")
    bad_rows: str = setting("stop", "what to do with unreadable rows", choices=("stop", "skip"))
    normalize: str = setting("", "normalization steps applied to each text")
    tokenizer: str = setting("bpe", "how texts are split into tokens")
    vocab_size: int = setting(8_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    min_count: int = setting(1, "minimum count of a token", least=1, was="least_count")
    joint: bool = setting(True, "one vocabulary for both languages")


class Translate(Seq2Seq, ManyDirections):
    """``tokenizer`` is that of the target; with ``data.joint`` also of the source."""

    settings = TranslateData
    encoding_settings = frozenset(
        {"joint", "max_length", "objective", "scheduled_sampling", "beam", "length_penalty", "mixture"}
    )
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {**Seq2Seq.tables, **ManyDirections.tables}
    columns = ("source", "target")
    example = "a text of your own"
    source_tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.joint = recipe.data.joint
        self.source_vocab_size = recipe.data.vocab_size
        self.unseen: frozenset[int] = frozenset()  # source tokens that are not in the training data

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source_tokenizer, self.tokenizer

    @property
    def sizes(self) -> tuple[int, int]:
        return self.source_vocab_size, self.vocab_size

    def use_tokenizers(self, source: Tokenizer, target: Tokenizer) -> None:
        self.use_tokenizer(target)
        self.source_tokenizer, self.source_vocab_size = source, len(source)

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if (data.source is None) != (data.target is None):
            raise BadSetting(
                "data.target" if data.source else "data.source", "missing: translation needs source and target"
            )
        train = f"{data.source},{data.target}" if data.source else data.train
        if not train:
            raise BadSetting("data.source", "missing: name the files, such as data.source=a.en data.target=a.de")
        return {"train": train}

    def open(self, path: str) -> ParallelTexts:
        data, columns = self.recipe.data, names_in(self.recipe.data.columns)
        use = next((use for use, text in self.files.items() if text == path), "test")
        files = files_in(path, f"data.{use}", self.is_many)
        if self.is_many:
            return self.open_many(files, use)
        if len(columns) not in (0, 2):
            raise BadSetting("data.columns", f"{data.columns!r} is not two names separated by a comma")
        return ParallelTexts(files, columns, data.encoding, data.bad_rows == "skip", self.progress)

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Boolean masks over the pairs of the training files, by use."""
        if self.is_many:
            return self.many_parts()
        groups = groups_of(self.train, self.recipe.data.normalize if self.splits_as_read else None)
        if not len(groups):
            raise Problem(f"{self.train.name}: no line has both a source and a target")
        return in_parts(groups, self.shares, self.train.name, "pairs")

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        if self.is_many:
            learned = [self.with_tags(self.tokenizer_of_lines())]
        else:
            sides = [["source", "target"]] if self.joint else [["source"], ["target"]]
            learned = [self.tokenizer_of_sides(names) for names in sides]
        self.use_tokenizers(learned[0], learned[-1])
        seen = np.unique(self.splits(progress).train.source.tokens)
        self.unseen = frozenset(range(self.sizes[0])) - frozenset(seen.tolist())

    def tokenizer_of_sides(self, sides: list[str]) -> Tokenizer:
        """Learned from these sides of the training pairs."""
        pairs, rows = self.train, self.parts["train"]

        def texts() -> Iterator[str]:
            for index, pair in enumerate(pairs.pairs("learning the words of")):
                if rows[index]:
                    yield from (getattr(pair, side) for side in sides)

        chosen = np.packbits(rows).tobytes().hex()
        return self.learn_tokenizer(texts, content=pairs.content, columns=pairs.columns, sides=sides, rows=chosen)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if not self.joint:
            self.source_tokenizer.save(folder / SOURCE_TOKENIZER)
        (folder / UNSEEN).write_text(json.dumps(sorted(self.unseen)), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        self.unseen = frozenset(read_json(folder / UNSEEN, [int]))
        source = self.tokenizer if self.joint else Tokenizer.load(folder / SOURCE_TOKENIZER)
        self.use_tokenizers(source, self.tokenizer)

    def make_splits(self) -> Splits[Pairs]:
        first, *other = self.train.files
        notes = (
            [f"source and target are both {first}: the model will learn to copy"]
            if other and first.samefile(other[0])
            else []
        )
        sets = {use: self.pairs(self.train, notes, use, rows) for use, rows in self.parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.pairs(self.texts_for(use), notes, use)
        if self.is_many:
            return self.many_splits(sets, notes)
        tests = test_or_validation(sets)
        notes += shared_sequences({use: own.source for use, own in sets.items()}, "source texts")
        return Splits(sets["train"], {"validation": sets["validation"]}, tests, tuple(dict.fromkeys(notes)))

    def pairs(self, texts: ParallelTexts, notes: list[str], use: str, rows: np.ndarray | None = None) -> Pairs:
        """The pairs of these rows (None: all). Long pairs are left out of training, and cut in evaluation."""
        encoded, longest = encode(texts, *self.tokenizers, self.special("<eos>")), self.recipe.data.max_length
        notes += encoded.notes
        indices = np.arange(len(encoded.source)) if rows is None else np.flatnonzero(rows)
        source, directions = self.tagged(texts, encoded.source)
        source, target = source.take(indices), encoded.target.take(indices)
        fits = np.maximum(source.lengths, target.lengths) <= longest
        references: list[str] = []
        if use == "train":
            if not fits.all():
                notes.append(
                    f"{int((~fits).sum()):,} pairs are longer than {longest} tokens and are left out of training"
                )
            if not fits.any():
                raise Problem(f"{texts.name}: every pair is longer than data.max_length={longest} tokens; raise it")
            source, target = source.take(np.flatnonzero(fits)), target.take(np.flatnonzero(fits))
            indices = indices[fits]
        else:
            if not fits.all():
                notes.append(f"{int((~fits).sum()):,} {use} pairs are cut to {longest} tokens (data.max_length)")
            chosen = set(indices.tolist())
            references = [pair.target for index, pair in enumerate(texts.pairs()) if index in chosen]
        key = key_of(content=texts.content, use=use, rows=len(indices))
        languages = directions and directions.take(indices)
        return Pairs(
            source.truncate(longest), target.truncate(longest), self.special("<sos>"), key, references, languages
        )

    def warning(self, text: str) -> str:
        if not text.strip():
            return "is empty"
        if not is_unicode(text):
            return "is not valid UTF-8"
        tokens, longest = self.tokenizers[0].encode([text])[0], self.recipe.data.max_length - self.is_many
        if len(tokens) >= longest:
            return f"has {len(tokens):,} tokens, only the first {longest - 1} are translated (data.max_length)"
        share = float(np.mean([token in self.unseen for token in tokens.tolist()]))
        return f"{share:.0%} of its tokens were not in the training data" if share > UNSEEN_SHARE else ""

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Pairs]:
        self.progress.to = progress
        return {path.name: self.pairs(self.measurable(self.open(str(path))), [], "test")}

    def generator(self, model: Any) -> Translator:
        return replace(super().generator(model), tags=self.tags)

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizers[0].decode(tokens) for tokens in data.sources_of(count)]
