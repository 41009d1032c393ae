"""Language: what comes next? A causal model of texts, from files, a folder, or the Python that it runs on.

    headway train language                          # learns to write Python from the standard library of this machine
    headway train language data.train=novels.jsonl

Documents stand in one stream, with a mark between them; see data/stream.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting, Problem
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import NextTokenBatch
from headway.data.cache import key_of
from headway.data.corpus import Corpus
from headway.data.examples import Reading
from headway.data.files import Progress, read_json, silent
from headway.data.stream import Stream
from headway.generation.generator import Generator
from headway.models.build import build_decoder
from headway.nn.state import State
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, HasState, PromptReader, ReadsPrompts
from headway.tasks.file_task import OF_TOKENS, VERBS, FileTask, in_parts
from headway.tasks.task import Splits
from headway.tasks.unlabelled import TextsData, files_of_texts, whole_texts

MARK = "<eos>"
ABOUT_TEXT = "documents.json"


@dataclass(frozen=True)
class LanguageData(TextsData):
    validation: str = setting("0.05", "a file, or the share of the training data that is set apart")
    tokenizer: str = setting("bpe", "what a token is", choices=("char", "byte", "bpe"))
    vocab_size: int = setting(
        4_000, "how many different tokens there are at most", least=1, most=10_000_000, was="vocabulary"
    )
    window: int = setting(256, "tokens that are read at once", least=1)
    stride: int | None = setting(None, "tokens between windows that slide, to measure on; none: half a window", least=1)
    cross_document: bool = setting(False, "whether a token may look at the documents before its own", was="across")
    carry: bool = setting(False, "whether a recurrent network goes on from where the batch before it ended")


class Language(FileTask, Generates, ReadsPrompts, HasState):
    settings = LanguageData
    metric_names = ("loss", "bits_per_byte")

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.documents, self.opening = 2, MARK  # how many there are, and what one begins with
        self.state: State | None = None  # what the next batch goes on from
        self.refuse_what_cannot_be()

    @property
    def example(self) -> str:  # type: ignore[override]
        return "The " if self.recipe.data.train else "def main("

    @property
    def is_causal(self) -> bool:
        return True

    def refuse_what_cannot_be(self) -> None:
        data, train = self.recipe.data, self.recipe.train
        if data.stride is not None and data.stride > data.window:
            raise BadSetting(
                "data.stride", f"{data.stride} is above data.window={data.window}: tokens would be left out"
            )
        if data.carry and (train.accumulate > 1 or train.processes > 1):
            raise BadSetting("data.carry", "true keeps to one process and to whole batches: set train.accumulate=1")
        if data.carry and train.cuda_graphs:
            raise BadSetting(
                "data.carry",
                "true goes on from what a batch left, which a recorded step does not: set train.cuda_graphs=false",
            )

    def check_model(self, model: Any) -> None:
        if self.recipe.data.carry and not model.is_recurrent:
            raise BadSetting("data.carry", "true is for recurrent networks: attention carries nothing along")
        if self.recipe.data.carry and not self.recipe.data.cross_document:
            raise BadSetting(
                "data.carry", "true reads on from document to document: set data.cross_document=true as well"
            )
        if not self.recipe.data.cross_document:
            tokens = torch.zeros(1, 1, dtype=torch.long)
            model(tokens, documents=tokens)

    @staticmethod
    def identity(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "window", "stride", "cross_document", "carry"}
        return {key: value for key, value in vars(data).items() if key not in own}

    @property
    def reading(self) -> Reading:
        return whole_texts(self.recipe.data)

    def training_files(self) -> dict[str, str]:
        return files_of_texts(self.recipe.data, self.progress)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.use_tokenizer(self.tokenizer_from(self.train, self.parts["train"]))
        self.documents = len(np.unique(self.train.index.rows["line"]))
        super().prepare(progress)

    def open(self, path: str) -> Corpus:
        return Corpus(Path(path), self.reading, self.progress)

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / ABOUT_TEXT).write_text(json.dumps({"documents": self.documents}))

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        try:
            about = read_json(folder / ABOUT_TEXT)
            self.documents = int(about["documents"])
            self.opening = str(about.get("opening", MARK))  # of another library's model
        except (KeyError, TypeError, ValueError):
            raise Problem(f"{folder / ABOUT_TEXT} is damaged: it should say how many documents there are") from None

    @property
    def mark(self) -> int:
        return self.tokenizer.vocabulary.index[MARK]

    @cached_property
    def is_cut_by_documents(self) -> bool:
        """Whole documents are set apart if there are enough of them; else the end of the text is."""
        documents = len(np.unique(self.train.index.rows["group"]))
        return all(share * documents >= 2 for share in self.shares.values())

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The rows of the training file, as masks: those to train on, and those set apart. If the end of the text is
        set apart, there are only those to learn the tokens from."""
        groups = self.train.index.rows["group"]
        if self.is_cut_by_documents:
            return in_parts(groups, self.shares, self.files["train"], "texts")
        first = max(int(len(groups) * (1 - sum(self.shares.values()))), 1)
        return {"train": np.arange(len(groups)) < first}

    def make_splits(self) -> Splits[Stream]:
        tokens = self.streams_of_training_file()
        for use in self.files.keys() - {"train"}:
            tokens[use] = self.source(self.files[use]).stream(self.tokenizer, MARK)
        streams = {use: self.stream(found, use) for use, found in tokens.items()}
        train = replace(streams["train"], carries=self.recipe.data.carry)
        measured = "test" if "test" in streams else "validation"
        tests = self.measured(measured, streams[measured])
        return Splits(train, {"validation": streams["validation"]}, tests, tuple(self.notes(streams)))

    def streams_of_training_file(self) -> dict[str, np.ndarray]:
        if self.is_cut_by_documents:
            return {use: self.train.stream(self.tokenizer, MARK, rows) for use, rows in self.parts.items()}
        whole, found = self.train.stream(self.tokenizer, MARK), {}
        begin = int(len(whole) * (1 - sum(self.shares.values())))
        found["train"] = whole[:begin]
        for place, use in enumerate(self.shares, start=1):
            end = int(len(whole) * (1 - sum(list(self.shares.values())[place:])))
            found[use], begin = whole[begin:end], end
        return found

    def stream(self, tokens: np.ndarray, use: str, where: str | None = None) -> Stream:
        if len(tokens) < 2:
            where = where or self.files.get(use, self.files["train"])
            raise Problem(f"{where} is too short: there is nothing to {VERBS[use]} on; give a longer text")
        data = self.recipe.data
        mark = None if data.cross_document or self.documents == 1 else self.mark
        return Stream(tokens, data.window, mark=mark, key=key_of(tokens=len(tokens), use=use))

    def notes(self, streams: dict[str, Stream]) -> Iterator[str]:
        if not self.recipe.data.name:
            yield from self.train.index.notes
        unknown = self.tokenizer.vocabulary.index["<unk>"]
        for use, stream in streams.items():
            share = float(np.mean(stream.tokens == unknown))
            if share:
                yield f"{share:.2%} of the tokens of the {use} data are unknown: their bytes are not counted"

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Stream]:
        tokens = Corpus(path, self.reading, progress).stream(self.tokenizer, MARK)
        return self.measured(path.name, self.stream(tokens, "test", str(path)))

    def measured(self, name: str, stream: Stream) -> dict[str, Stream]:
        """In windows that do not overlap, where the first tokens of each know nothing of what was before, and in
        windows that slide, where each token but the first ones has at least a window less a stride before it."""
        stride = self.recipe.data.stride or max(self.recipe.data.window // 2, 1)
        return {name: stream, f"{name} sliding": replace(stream, stride=stride)}

    def prompts(self, count: int) -> list[str]:
        """Beginnings from the validation data, of half a window at most, to try a model on."""
        (stream,) = self.splits().validation.values()
        size = min(max(self.recipe.data.window // 2, 1), len(stream.tokens))
        starts = np.unique(np.linspace(0, len(stream.tokens) - size, count).astype(int))
        return [self.tokenizer.decode(stream.tokens[start : start + size].tolist()) for start in starts]

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.window)

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, self.symbols, self.recipe.data.window)

    def generator(self, model: Any) -> Generator:
        opening = self.tokenizer.vocabulary.index[self.opening] if self.documents > 1 else None
        mark = self.mark if self.documents > 1 else None
        return Generator(model, self.tokenizer, opening, mark, None if model.is_recurrent else self.recipe.data.window)

    def prompt_reader(self) -> PromptReader:
        return PromptReader(self.tokenizer, self.recipe.data.window)

    def loss(self, model: nn.Module, batch: NextTokenBatch) -> Tally:
        return cross_entropy(self.logits_of(model, batch), batch.targets, batch.weights)

    def logits_of(self, model: nn.Module, batch: NextTokenBatch) -> Tensor:
        if not (self.recipe.data.carry and model.training):
            return model(batch.inputs, documents=batch.documents)
        if batch.fresh or self.state is None:
            self.state = State(len(batch), 0, batch.inputs.device)
        logits = model(batch.inputs, state=self.state)
        self.state = self.state.detached()
        return logits

    def metrics(self, model: nn.Module, batch: NextTokenBatch) -> dict[str, Tally]:
        loss = self.loss(model, batch)
        targets = batch.targets if batch.weights is None else batch.targets[batch.weights]
        sizes = torch.from_numpy(self.tokenizer.byte_sizes).to(targets.device)
        return {"loss": loss, "bits_per_byte": Tally(loss.total / math.log(2), int(sizes[targets].sum()))}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700))}

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        if self.state is None:
            return {}
        names = {part: name for name, part in model.named_modules()}
        return {
            f"{names[part]}:{place}": tensor.contiguous()
            for part, tensors in self.state.carried.items()
            for place, tensor in enumerate(tensors)
        }

    def load_state_dict(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        if not state:
            return
        device = next(model.parameters()).device
        rows = len(next(iter(state.values())))
        self.state, parts = State(rows, 0, device), dict(model.named_modules())
        for key in sorted(state):
            part = parts[key.rpartition(":")[0]]
            self.state.carried[part] = (*self.state.carried.get(part, ()), state[key].to(device))

    @property
    def chance(self) -> float:
        return math.log(self.symbols)
