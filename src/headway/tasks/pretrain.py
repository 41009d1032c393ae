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

from headway.config.errors import Problem
from headway.config.parts import parse, part
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.corpus import Corpus
from headway.data.corruption import CORRUPTIONS, Corruption, Symbols
from headway.data.files import Progress, silent
from headway.data.packed_batch import PackedTokenBatch
from headway.data.packed_texts import PackedTexts
from headway.generation.generator import Generator
from headway.nn.packing import Packing
from headway.objectives.tally import Tally
from headway.tasks.file_task import OF_TOKENS
from headway.tasks.pretraining import KINDS
from headway.tasks.task import Splits
from headway.tasks.unlabelled import Unlabelled, UnlabelledData

MARKS = 3  # tokens that a corruption may put around the parts of a sequence


@dataclass(frozen=True)
class PretrainData(UnlabelledData):
    window: int = setting(512, "tokens of a sequence at most; longer texts are several", least=2)
    objective: str = setting("masked", "what is learned from a text")


class Pretrain(Unlabelled):
    settings = PretrainData
    metric_names = ("loss", "accuracy")
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

    def splits(self, progress: Progress = silent) -> Splits[PackedTexts]:
        self.progress = progress
        self.refuse_changed_files()
        sets = {use: self.texts(self.train, use, rows) for use, rows in self.parts.items()}
        for use in self.files.keys() - {"train"}:
            sets[use] = self.texts(self.corpus(self.files[use]), use)
        measured = {"test": sets["test"]} if "test" in sets else {"validation": sets["validation"]}
        return Splits(sets["train"], {"validation": sets["validation"]}, measured, tuple(self.notes()))

    def texts(self, corpus: Corpus, use: str, rows: np.ndarray | None = None) -> PackedTexts:
        """The texts of these rows, or all."""
        whole = self.whole(corpus, use, rows)
        seed = self.recipe.train.seed if use == "train" else 0
        how = {"window": self.recipe.data.window, "corrupt": self.corrupt, "symbols": self.symbols, "seed": seed}
        return PackedTexts(whole.tokens, whole.starts, whole.sizes, whole.key, **how)

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, PackedTexts]:
        return {path.name: self.texts(Corpus(path, self.reading, progress), "test")}

    def model(self) -> nn.Module:
        return self.kind.build(self.recipe.model, self.size, self.recipe.data.window + MARKS)

    def loss(self, model: nn.Module, batch: PackedTokenBatch) -> Tally:
        return self.kind.judge(model, batch, self.corrupt)["loss"]

    def metrics(self, model: nn.Module, batch: PackedTokenBatch) -> dict[str, Tally]:
        return self.kind.judge(model, batch, self.corrupt)

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means.get("token_loss", means["loss"]), 700))}

    def generator(self, model: Any) -> Generator:
        if not self.kind.writes:
            raise Problem(
                f"{self.recipe.data.objective!r} does not teach to write texts: headway {self.asked_with} RUN"
            )
        return Generator(model, self.tokenizer, None, None, self.recipe.data.window)

    @torch.inference_mode()
    def fill(self, model: Any, text: str, count: int) -> list[list[tuple[str, float]]]:
        """For each [MASK] of a text the likeliest pieces, with their probabilities."""
        if not self.kind.fills:
            way = "headway generate goes on from a text" if self.kind.writes else "masked and next do"
            raise Problem(f"{self.recipe.data.objective!r} does not teach to fill in: {way}")
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
        logits = model(row, Packing.of(torch.tensor([len(tokens)], device=device)), places)
        found, pieces = logits.float().softmax(dim=-1).topk(min(count, logits.shape[-1]))
        return [
            [(self.tokenizer.decode([piece]), share) for piece, share in zip(*place, strict=True)]
            for place in zip(pieces.tolist(), found.tolist(), strict=True)
        ]

    @property
    def chance(self) -> float:
        return math.log(self.size)
