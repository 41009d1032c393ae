"""Tag: a label for each word, such as names and their types, parts of speech, or what the tokens of a program are.

    headway train tag
    headway train tag data.train=train.conll data.test=test.conll

Files have a word in each line and its tag in the last column; or rows with words and tags; or texts with spans of
characters. The scheme of the tags (BIO, BIOES or plain ones) is detected, and can be changed.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem, is_unicode
from headway.config.json_files import read_json
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.data.cache import key_of
from headway.data.files import Progress, silent
from headway.data.python_tags import python_tags
from headway.data.sequences import shared_sequences
from headway.data.tagged import TaggedReading, texts_of
from headway.data.tagged_files import TaggedFile
from headway.data.tagged_sequences import Marks, TaggedBatch, TaggedSequences, encode
from headway.data.words import WORDS
from headway.metrics.spans import BIO, BIOES, PLAIN, PREFIXES, TagSet
from headway.models.build import build_tagger
from headway.objectives.tally import Tally
from headway.tasks.abilities import Embeds
from headway.tasks.file_task import FileTask, in_parts
from headway.tasks.tagging.predictions import Tagging, Tags
from headway.tasks.tagging.reports import Outcome, details_of, span_tallies
from headway.tasks.tagging.tag_baselines import ComparesTags
from headway.tasks.tagging.tag_settings import TagData
from headway.tasks.task import Evaluation, Splits

TAGS = "tags.json"
BUILT_IN = {"python": python_tags}


class Tag(FileTask, Tags, Embeds, ComparesTags):
    settings = TagData
    encoding_settings = frozenset({"max_length", "scheme"})
    metric_names = ("loss", "accuracy", "f1")
    columns = ("tokens", "tags")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.words": WORDS}
    inherited: ClassVar[tuple[str, ...]] = ()

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        if recipe.data.words is not None:
            choose(WORDS, recipe.data.words, "data.words")
        self.kinds = TagSet(["no", "yes"])  # until the data are known

    @property
    def example(self) -> str:  # type: ignore[override]
        return "def area(self, width): return width * self.height" if self.is_built_in else "a text of your own"

    @property
    def splitting(self) -> str:
        """How a text is split into words."""
        return self.recipe.data.words or ("python" if self.is_built_in else "words")

    @property
    def is_built_in(self) -> bool:
        return self.recipe.data.train is None and self.recipe.data.name is not None

    @classmethod
    def identity(cls, data: Any) -> dict[str, Any]:
        settings = super().identity(data)
        if data.train:
            del settings["name"]
        return settings

    # --- data

    @property
    def reading(self) -> TaggedReading:
        data = self.recipe.data
        scheme = PLAIN if data.scheme == PLAIN else None  # others are converted
        return TaggedReading(data.text, data.label, self.splitting, scheme, data.encoding, data.bad_rows == "skip")

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if data.train:
            return {"train": data.train}
        if data.name:
            return {"train": str(choose(BUILT_IN, data.name, "data.name")(self.progress))}
        raise BadSetting("data.train", "missing: name a file of words with tags, such as data.train=train.conll")

    def open(self, path: str) -> TaggedFile:
        return TaggedFile(Path(path), self.reading, self.progress)

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Boolean masks over the sentences of the training file, by use: documents stay together."""
        return in_parts(self.train.tagged.groups, self.shares, self.files["train"], "sentences")

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        own = self.train.tagged.kinds
        self.kinds = self.learned(own)
        if len(own.names) < 2:
            raise Problem(f"{self.train.path}: all tags are {own.names[0]!r}; a tagger needs at least two")
        rows = self.parts["train"]
        key = {"tagged": self.train.key, "rows": np.packbits(rows).tobytes().hex()}
        self.use_tokenizer(self.learn_tokenizer(lambda: self.texts(self.train, rows), **key))
        super().prepare(progress)

    def learned(self, own: TagSet) -> TagSet:
        """The tags that are learned: in the scheme of the file, or in the one that is asked for."""
        asked = self.recipe.data.scheme
        if own.scheme == PLAIN and asked in PREFIXES:
            raise BadSetting("data.scheme", f"{self.train.path} has plain tags such as {own.names[-1]!r}, not {asked}")
        usual = own.scheme if own.scheme in (PLAIN, BIOES) else BIO
        return TagSet.of_types(own.types, asked or usual)

    def texts(self, file: TaggedFile, rows: np.ndarray) -> Iterator[str]:
        words, ends = file.tagged.words, np.cumsum(file.tagged.sizes)
        for row in np.flatnonzero(rows).tolist():
            yield " ".join(words[ends[row] - file.tagged.sizes[row] : ends[row]])

    def save(self, folder: Path) -> None:
        super().save(folder)
        tags = {"scheme": self.kinds.scheme, "tags": list(self.kinds.names)}
        (folder / TAGS).write_text(json.dumps(tags, ensure_ascii=False, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        saved = read_json(folder / TAGS, {"scheme": str, "tags": [str]})
        names, scheme = saved["tags"], saved["scheme"]
        kinds = TagSet(names, scheme) if len(names) > 1 and scheme in (PLAIN, BIO, BIOES) else None
        if kinds is None or len(set(names)) < len(names) or TagSet.of_types(kinds.types, scheme).names != names:
            raise Problem(f"{folder / TAGS} is damaged: expected at least two different tags of one scheme")
        self.kinds = kinds

    def make_splits(self) -> Splits[TaggedSequences]:
        whole = self.encoded(self.train)
        sets = {use: self.part(whole, np.isin(whole.sentences, np.flatnonzero(own))) for use, own in self.parts.items()}
        notes = list(self.train.notes)
        for use in self.files.keys() - {"train"}:
            file = self.source(self.files[use])
            sets[use] = self.encoded(file)
            notes += file.notes
        notes += [*shared_sequences(sets, "sentences"), *self.odd_tags(sets)]
        return Splits(sets["train"], {"validation": sets["validation"]}, {"test": sets["test"]}, tuple(notes))

    def encoded(self, file: TaggedFile) -> TaggedSequences:
        tagged = file.tagged
        tags = tagged.numbered(self.kinds, file.path)
        return self.repaired(self.sequences(tagged.words, tagged.sizes, tags, file.key))

    def part(self, whole: TaggedSequences, rows: np.ndarray) -> TaggedSequences:
        indices = np.flatnonzero(rows)
        return replace(whole.take(indices), key=key_of(tagged=whole.key, rows=np.packbits(rows).tobytes().hex()))

    def repaired(self, data: TaggedSequences) -> TaggedSequences:
        """A span that a long sentence is cut in becomes two."""
        if self.kinds.scheme == PLAIN or len(np.unique(data.sentences)) == len(data):
            return data
        return replace(data, tags=self.kinds.tags(self.kinds.spans(data.tags, data.begins), len(data.tags)))

    def odd_tags(self, sets: Mapping[str, TaggedSequences]) -> Iterator[str]:
        train = sets["train"]
        kinds = self.kinds.type_of[train.tags[train.own_words]]
        unseen = set(range(len(self.kinds.types))) - set(kinds.tolist())
        if unseen:
            names = ", ".join(self.kinds.types[index] for index in sorted(unseen)[:5])
            yield f"{len(unseen):,} of {len(self.kinds.types):,} types are not in the training part: {names}"
        cut = sum(len(data) - len(np.unique(data.sentences)) for data in sets.values())
        if cut:
            yield f"sentences of more than {self.context_length} tokens are read in parts: {cut:,} cuts"

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, TaggedSequences]:
        self.progress.to = progress
        return {path.name: self.encoded(self.open(str(path)))}

    def texts_in(self, path: Path) -> Iterator[str]:
        return texts_of(path, self.reading)

    def sequences(
        self, words: Sequence[str], sizes: np.ndarray, tags: np.ndarray | None = None, key: str = ""
    ) -> TaggedSequences:
        numbers = np.zeros(len(words), np.int64) if tags is None else tags
        index = self.tokenizer.vocabulary.index
        imported = self.tokenizer.roles is not None  # its sequences stand between two marks
        marks = Marks([index["[CLS]"]], [index["[SEP]"]]) if imported else Marks()
        with_spellings = self.recipe.model.characters != "none"
        return encode(self.tokenizer, words, numbers, sizes, self.context_length, marks, with_spellings, key)

    # --- model

    @property
    def labels(self) -> list[str]:  # type: ignore[override]
        return list(self.kinds.names)

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.max_length)

    @property
    def chance(self) -> float:
        return math.log(len(self.kinds.names))

    def model(self) -> nn.Module:
        allowed = torch.tensor(self.kinds.allowed.tolist())
        return build_tagger(self.recipe.model, self.vocab_size, self.context_length, len(self.kinds.names), allowed)

    def loss(self, model: Any, batch: TaggedBatch) -> Tally:
        loss: Tally = model.head.loss(model(*batch.model_inputs), batch.targets, batch.real)
        return loss

    def metrics(self, model: Any, batch: TaggedBatch) -> dict[str, Tally]:
        emissions, real = model(*batch.model_inputs), batch.real
        predicted = model.head.decode(emissions, real)
        right = ((predicted == batch.targets) & real).sum()
        tallies = {
            "loss": model.head.loss(emissions, batch.targets, real),
            "accuracy": Tally(right, real.sum()),
        }
        return tallies | span_tallies(self.kinds, predicted, batch.targets, real)

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """Scores without a single span are 0, not 0 / 0."""
        return {name: 0.0 for name in ("precision", "recall", "f1") if math.isnan(means.get(name, 0.0))}

    @torch.inference_mode()
    def outcomes(self, model: Any, data: TaggedSequences) -> list[Outcome]:
        """The predicted tags of each row, in order."""
        device = next(model.parameters()).device
        model.eval()
        outcomes: list[Any] = [None] * len(data)
        for rows, batch in data.batches():
            own = batch.to(device)
            emissions, real = model(*own.model_inputs), own.real
            tags = model.head.decode(emissions, real)
            chances = model.head.marginals(emissions, real).gather(2, tags[..., None])[..., 0]
            of_tags, of_targets = (model.head.log_likelihood(emissions, each, real) for each in (tags, own.targets))
            values: list[Tensor] = [each.cpu() for each in (tags, chances, of_tags, of_targets)]
            for place, row in enumerate(rows.tolist()):
                count = int(data.word_counts[row])
                own_tags, own_chances = (each[place, :count].numpy() for each in values[:2])
                outcomes[row] = Outcome(own_tags, own_chances, float(values[2][place]), float(values[3][place]))
        return outcomes

    def evaluate(self, model: nn.Module, data: TaggedSequences) -> Evaluation:
        return Evaluation(self.measure(model, data), None, details_of(self.kinds, data, self.outcomes(model, data)))

    def predicted(self, model: Any, data: TaggedSequences) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *(each.tags for each in self.outcomes(model, data))])

    def places(self, text: str) -> list[tuple[int, int]]:
        return WORDS[self.splitting](text)

    def predict(self, model: nn.Module, texts: Sequence[str]) -> list[Tagging]:
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise Problem(f"text {number} is empty: there is nothing to tag")
            if not is_unicode(text):
                raise Problem(f"text {number} is not valid UTF-8")
        places = [self.places(text) for text in texts]
        sizes = np.array([len(own) for own in places])
        words = [text[start:end] for text, own in zip(texts, places, strict=True) for start, end in own]
        with_words = np.flatnonzero(sizes)
        data = self.sequences(words, sizes[with_words])
        by_text: dict[int, list[Outcome]] = {}
        for sentence, outcome in zip(data.sentences.tolist(), self.outcomes(model, data), strict=True):
            by_text.setdefault(int(with_words[sentence]), []).append(outcome)
        return [
            self.tagging(text, own, by_text.get(number, []))
            for number, (text, own) in enumerate(zip(texts, places, strict=True))
        ]

    def tagging(self, text: str, places: list[tuple[int, int]], outcomes: Sequence[Outcome]) -> Tagging:
        """The parts of a long text together."""
        tags = np.concatenate([np.empty(0, np.int64), *(each.tags for each in outcomes)])
        chances = [float(chance) for each in outcomes for chance in each.chances]
        whole = math.exp(sum(each.log_probability for each in outcomes))
        return Tagging.of(text, places, self.kinds, tags, [*chances, whole])

    # --- vectors

    def tokens_in(self, text: str) -> list[str]:
        data = self.words_in([text])
        return [self.tokenizer.vocabulary.symbols[token] for token in data.lists()[0]] if len(data) else []

    def words_in(self, texts: Sequence[str]) -> TaggedSequences:
        words = [[text[start:end] for start, end in self.places(text)] for text in texts]
        empty = next((number for number, own in enumerate(words, start=1) if not own), None)
        if empty is not None:
            raise Problem(f"text {empty} has no word: it has no vector")
        return self.sequences([word for own in words for word in own], np.array([len(own) for own in words]))

    @torch.inference_mode()
    def embed(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        """The mean of what the head reads, over a text's words."""
        data, device = self.words_in(texts), next(model.parameters()).device
        totals = np.zeros((len(texts), self.recipe.model.width), np.float32)
        for rows, batch in data.batches():
            own = batch.to(device)
            states = model.states(*own.model_inputs).float() * own.real[..., None]
            np.add.at(totals, data.sentences[rows], states.sum(dim=1).cpu().numpy())
        counts = np.bincount(data.sentences, weights=data.word_counts, minlength=len(texts))
        return (totals / counts[:, None]).astype(np.float32)
