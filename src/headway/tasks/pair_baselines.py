"""The baselines of translators: copying the source, and a table of words for each direction."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from headway.baselines.word_table import WordTable
from headway.data.files import Progress, silent
from headway.data.pairs import Pairs
from headway.data.sequences import Sequences
from headway.metrics.bleu import sentence_counts
from headway.metrics.items import Items
from headway.tasks.baselines import Baseline, HasBaselines, Measured, Scored, hash_of
from headway.text.tokenizer import Tokenizer

PER_MILLION = 5.0  # seconds for a million tokens of both sides


class ComparesTranslations(HasBaselines):
    metric_names: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]: ...

    @abstractmethod
    def splits(self, progress: Progress = silent) -> Any: ...

    @abstractmethod
    def translations(self, model: Any, data: Pairs) -> list[str]: ...

    @abstractmethod
    def scores(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]: ...

    @property
    def compared_by(self) -> str:  # type: ignore[override]
        return self.metric_names[-1]

    def source_text(self, text: str) -> str:
        """What is to be translated, without what names the target language."""
        return text

    def baselines(self, tests: Mapping[str, Any]) -> Sequence[Baseline]:
        return [
            Baseline("copy of the source", partial(self.copies, tests)),
            Baseline("word by word, by IBM model 1", partial(self.by_word, tests)),
        ]

    def copies(self, tests: Mapping[str, Pairs]) -> Measured:
        return Measured({name: self.scored(self.source_texts(data), data) for name, data in tests.items()})

    def by_word(self, tests: Mapping[str, Pairs]) -> Measured:
        train = self.splits().train
        sources, targets = self.source_texts(train), texts_of(train.target, self.tokenizers[1])
        tables = {
            direction: WordTable.learn([sources[row] for row in rows], [targets[row] for row in rows])
            for direction, rows in rows_by_direction(train).items()
        }
        sets = {}
        for name, data in tests.items():
            written = self.source_texts(data)
            for direction, rows in rows_by_direction(data).items():
                for row in rows if direction in tables else ():  # others are copied
                    written[row] = tables[direction].translate(written[row])
            sets[name] = self.scored(written, data)
        return Measured(sets, sum(len(table.best) for table in tables.values()))

    def source_texts(self, data: Pairs) -> list[str]:
        return [self.source_text(text) for text in texts_of(data.source, self.tokenizers[0])]

    def scored(self, texts: Sequence[str], data: Pairs) -> Scored:
        return Scored(self.items(texts, data.references), self.scores(texts, data.references))

    def items(self, texts: Sequence[str], references: Sequence[str]) -> Items:
        if self.compared_by == "bleu":
            return Items("bleu", sentence_counts(texts, references))
        right = [text == reference for text, reference in zip(texts, references, strict=True)]
        return Items.of_values(self.compared_by, np.array(right))

    def baseline_key(self, tests: Mapping[str, Any]) -> str:
        train = self.splits().train
        pairs = [*self.source_texts(train), *texts_of(train.target, self.tokenizers[1])]
        held_out = [each for name, data in tests.items() for each in (name, *self.source_texts(data), *data.references)]
        of_directions = [each for data in (train, *tests.values()) for each in rows_by_direction(data).items()]
        return hash_of(self.compared_by, *pairs, *held_out, *(part for each in of_directions for part in each))

    def baseline_seconds(self, tests: Mapping[str, Any]) -> float:
        sets = (self.splits().train, *tests.values())
        return PER_MILLION * sum(int(data.source.sizes.sum() + data.target.sizes.sum()) for data in sets) / 1e6

    def items_of(self, model: Any, data: Pairs) -> Items:
        return self.items(self.translations(model, data), data.references)


def rows_by_direction(data: Pairs) -> dict[Any, np.ndarray]:
    """None is the only one where directions are not told apart."""
    return dict(data.rows_by_direction) or {None: np.arange(len(data))}


def texts_of(data: Sequences, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.decode(tokens) for tokens in replace(data, sizes=data.kept).lists()]
