"""Pretrain: what can be learned from texts without labels, for tasks that have few.

headway pretrain                                       # from the standard library of this machine
headway pretrain data.train=reviews.jsonl,more.jsonl data.objective="masked(rate=0.3)"
headway train classify start=runs/pretrain-1 data.train=labelled.csv
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from headway.data.batch import Batch
from headway.data.cache import key_of
from headway.data.corpus import Corpus, Joined, cut
from headway.data.download import NAMED, fetch
from headway.data.examples import Reading
from headway.data.files import Progress, silent
from headway.data.noise import CORRUPTIONS, Corruption, Symbols
from headway.data.pack import Texts
from headway.errors import BadSetting, Problem
from headway.nn.packing import Packing
from headway.objectives.tally import Tally
from headway.parts import parse, part
from headway.recipe import Recipe
from headway.settings import setting
from headway.tasks.pretraining import KINDS
from headway.tasks.task import Splits
from headway.tasks.text_files import OF_TOKENS, VERBS, TextFiles, files_of_texts, whole_texts
from headway.tasks.writer import Writer

MARKS = 3  # tokens that a corruption may put around the parts of a sequence


@dataclass(frozen=True)
class PretrainData:
    name: str | None = setting(
        None, "python: the standard library of this machine; imdb: its reviews without labels; none: files of your own"
    )
    train: str | None = setting(None, "files or folders of texts, with commas between them")
    without: str | None = setting(
        None, "a file of texts that are left out of training, such as those to be tested on; none: of imdb its test set"
    )
    validation: str = setting("0.01", "a file, or the share of the training data that is set apart")
    test: str | None = setting(None, "a file, or a share; none: the validation data are all that is measured on")
    files: str = setting("*", "of a folder, the names of the files that are texts")
    text: str | None = setting(None, "of a file with columns, that of texts; none: found by its name")
    encoding: str = setting("utf-8", "of the files")
    bad_rows: str = setting("stop", "what to do when a text cannot be read", choices=("stop", "skip"))
    normalize: str = setting("", "what is done to a text first, step by step")
    tokenizer: str = setting("bpe", "what a token is")
    vocabulary: int = setting(8_000, "how many different tokens there are at most", least=1)
    least_count: int = setting(1, "how often a token must come to be one of them", least=1)
    window: int = setting(512, "tokens of a sequence at most; longer texts are several", least=2)
    objective: str = setting("masked", "what is learned from a text")


class Pretrain(TextFiles):
    settings = PretrainData
    scores = ("loss", "accuracy")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.objective": CORRUPTIONS}
    example = "The [MASK] "

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.set_up()
        self.corrupt: Corruption = part(CORRUPTIONS, recipe.data.objective, "data.objective")
        name, _ = parse(recipe.data.objective, "data.objective")
        self.kind = KINDS[name]
        self.size = recipe.data.vocabulary  # of the tokens, at most, as long as they are not known

    @staticmethod
    def deciding(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "window", "objective"}
        return {key: value for key, value in vars(data).items() if key not in own}

    @property
    def asked_with(self) -> str:  # type: ignore[override]
        return "generate" if self.kind.writes else "fill" if self.kind.fills else "evaluate"

    def next_words(self, folder: Path) -> tuple[object, ...]:
        return "train", "classify", f"start={folder}", "data.train=FILE"

    @property
    def is_causal(self) -> bool:
        return self.kind.writes or self.recipe.model.causal

    @property
    def reading(self) -> Reading:
        return whole_texts(self.recipe.data)

    def training_files(self) -> dict[str, str]:
        return files_of_texts(self.recipe.data, self.progress)

    @cached_property
    def left_out(self) -> str | None:
        """A file of texts that are not learned from; of a known set, those to test on."""
        data = self.recipe.data
        if data.without is not None or data.train or data.name not in NAMED:
            return data.without
        return fetch(NAMED[data.name], self.progress)["test"]

    def corpus(self, path: str) -> Corpus:
        """``a.txt,b.txt`` is both, one behind the other."""
        if "," not in path:
            return super().corpus(path)
        if path not in self.corpora:
            self.corpora[path] = Joined([super(Pretrain, self).corpus(each.strip()) for each in path.split(",")])
        return self.corpora[path]

    @cached_property
    def wanted(self) -> np.ndarray:
        """(rows,): whether a text may be learned from."""
        texts = self.train.index.wholes
        if self.left_out is None:
            return np.ones(len(texts), bool)
        kept = ~np.isin(texts, self.corpus(self.left_out).index.wholes)
        if not kept.any():
            raise BadSetting("data.without", "every text is in it: there is nothing left to train on")
        return kept

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The rows of the training files, as masks: those to train on, and those set apart."""
        groups = self.train.index.rows["group"]
        parts = dict(zip([*self.shares, "train"], cut(groups, list(self.shares.values())), strict=True))
        parts["train"] = parts["train"] & self.wanted
        for use, rows in parts.items():
            if not rows.any():
                few = f"its {len(groups):,} texts are too few to cut: none are left for {use}"
                raise Problem(f"{self.files['train']}: {few}; give a file, or another share")
        return parts

    def prepare(self, progress: Progress = silent) -> None:
        self.progress = progress
        self.tokenizer = self.learned_tokenizer(self.parts["train"])
        self.size = len(self.tokenizer)
        self.splits(progress)

    def save(self, folder: Path) -> None:
        self.save_files(folder)

    def restore(self, folder: Path) -> None:
        self.restore_files(folder)
        self.size = len(self.tokenizer)

    @cached_property
    def symbols(self) -> Symbols:
        index, tokenizer = self.tokenizer.vocabulary.index, self.tokenizer
        special = {"mask": "[MASK]", "before": "[CLS]", "between": "[SEP]", "end": "<eos>"}
        numbers = {use: index[name] for use, name in special.items()}
        return Symbols(len(tokenizer), np.flatnonzero(~tokenizer.is_special), tokenizer.begins_word, **numbers)

    def splits(self, progress: Progress = silent) -> Splits[Texts]:
        self.progress = progress
        self.refuse_changed_files()
        sets = {use: self.texts(self.train, use, rows) for use, rows in self.parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.texts(self.corpus(self.files[use]), use)
        measured = {"test": sets["test"]} if "test" in sets else {"validation": sets["validation"]}
        return Splits(sets["train"], {"validation": sets["validation"]}, measured, tuple(self.notes(sets)))

    def texts(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> Texts:
        """The texts of these rows, or all; rows of one line are pieces of one text."""
        encoded, lines = corpus.encoded(self.tokenizer), corpus.index.rows["line"]
        chosen = np.ones(len(lines), bool) if rows is None else rows
        begins = np.flatnonzero(np.diff(lines, prepend=-1) != 0)
        sizes = np.add.reduceat(np.where(chosen, encoded.lengths, 0), begins)
        starts = (np.cumsum(encoded.lengths) - encoded.lengths)[begins]
        there = sizes > 1
        if not there.any():
            raise Problem(f"{corpus.path}: no text has two tokens: there is nothing to {VERBS[use]} on")
        seed = self.recipe.train.seed if use == "train" else 0
        key = key_of(content=corpus.content, use=use, texts=int(there.sum()))
        window = self.recipe.data.window
        return Texts(encoded.tokens, starts[there], sizes[there], window, self.corrupt, self.symbols, seed, key)

    def notes(self, sets: dict[str, Texts]) -> list[str]:
        found = list(self.train.index.notes)
        if left_out := len(np.unique(self.train.index.rows["line"][~self.wanted])):
            found.append(f"{left_out:,} texts are in {self.left_out} and are left out")
        return found

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Texts]:
        return {path.name: self.texts(Corpus(path, self.reading, progress), "test")}

    def model(self) -> nn.Module:
        return self.kind.build(self.recipe.model, self.size, self.recipe.data.window + MARKS)

    def loss(self, model: nn.Module, batch: Batch) -> Tally:
        return self.kind.judge(model, batch, self.corrupt)["loss"]

    def metrics(self, model: nn.Module, batch: Batch) -> dict[str, Tally]:
        return self.kind.judge(model, batch, self.corrupt)

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means.get("token_loss", means["loss"]), 700))}

    def writer(self, model: Any) -> Writer:
        if not self.kind.writes:
            raise Problem(
                f"{self.recipe.data.objective!r} does not teach to write texts: headway {self.asked_with} RUN"
            )
        return Writer(model, self.tokenizer, None, None, self.recipe.data.window)

    @torch.inference_mode()
    def fill(self, model: Any, text: str, count: int) -> list[list[tuple[str, float]]]:
        """For each [MASK] of a text the likeliest pieces, with their probabilities."""
        if not self.kind.fills:
            raise Problem(f"{self.recipe.data.objective!r} does not teach to fill in")
        parts = re.split(r"\s*\[MASK\]", text)  # a piece has the space before it in itself
        if len(parts) < 2:
            raise Problem(f"there is no [MASK] in {text!r}: put one in the place that is to be filled in")
        encoded = [each.tolist() for each in self.tokenizer.encode(parts)]
        tokens = [token for part in encoded for token in (*part, self.symbols.mask)][:-1]
        if self.tokenizer.roles is not None:  # as another library's model has seen its texts
            tokens = [self.symbols.before, *tokens, self.symbols.between]
        device = next(model.parameters()).device
        row = torch.tensor([tokens], device=device)
        places = (row[0] == self.symbols.mask).nonzero()[:, 0]
        scores = model(row, Packing.of(torch.tensor([len(tokens)], device=device)), places)
        found, pieces = scores.float().softmax(dim=-1).topk(min(count, scores.shape[-1]))
        return [
            [(self.tokenizer.decode([piece]), share) for piece, share in zip(*place, strict=True)]
            for place in zip(pieces.tolist(), found.tolist(), strict=True)
        ]

    @property
    def chance(self) -> float:
        return math.log(self.size)
