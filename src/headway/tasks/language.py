"""Language: a causal language model of texts, from files, a folder, or the Python standard library.

    headway train language                          # learns Python from the installed standard library
    headway train language data.train=novels.jsonl

Documents are concatenated into one stream, each ended by <eos>; see data/stream.
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
from headway.config.json_files import read_json
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import NextTokenBatch
from headway.data.cache import key_of
from headway.data.corpus import Corpus
from headway.data.files import Progress, silent
from headway.data.stream import Stream
from headway.generation.generator import Generator
from headway.metrics import perplexity
from headway.models.build import build_decoder
from headway.nn.state import State
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, HasContext, HasState, PromptReader, ReadsPrompts
from headway.tasks.embedding import Body, EmbedsTokens
from headway.tasks.file_task import VERBS, in_parts, test_or_validation
from headway.tasks.task import Splits
from headway.tasks.unlabelled import TextsData, TextsTask

EOS = "<eos>"
CARRIED = 1024  # tokens at a time, in an evaluation that carries the state along
ABOUT_TEXT = "documents.json"


@dataclass(frozen=True)
class LanguageData(TextsData):
    validation: str = setting("0.05", "a file, or the share of the training data to hold out")
    tokenizer: str = setting("bpe", "how texts are split into tokens", choices=("char", "byte", "bpe"))
    vocab_size: int = setting(4_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    window: int = setting(256, "context length in tokens", least=1)
    stride: int | None = setting(None, "stride of sliding-window evaluation; none: half a window", least=1)
    cross_document: bool = setting(False, "let attention cross document boundaries", was="across")
    carry: bool = setting(False, "carry the state of a recurrent network over to the next batch")


class Language(TextsTask, Generates, ReadsPrompts, EmbedsTokens, HasContext, HasState):
    settings = LanguageData
    encoding_settings = frozenset({"window", "stride", "cross_document", "carry"})
    metric_names = ("loss", "bits_per_byte")

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.documents = 2  # in the training file; until they are counted, more than one
        self.bos = EOS  # the token that begins a document
        self.always_bos = True  # whether every prompt starts with it
        self.state: State | None = None  # carried over to the next batch in training,
        self.evaluation_state: State | None = None  # and in an evaluation
        self.check_settings()

    @property
    def example(self) -> str:  # type: ignore[override]
        return "The" if self.recipe.data.train else "def main("

    @property
    def is_causal(self) -> bool:
        return True

    def check_settings(self) -> None:
        data, train = self.recipe.data, self.recipe.train
        if data.stride is not None and data.stride > data.window:
            raise BadSetting(
                "data.stride", f"{data.stride} is above data.window={data.window}: tokens would be skipped"
            )
        if data.carry and (train.accumulate > 1 or train.processes > 1):
            raise BadSetting("data.carry", "true needs train.processes=1 and train.accumulate=1")
        if data.carry and train.cuda_graphs:
            raise BadSetting("data.carry", "true does not work with CUDA graphs: set train.cuda_graphs=false")

    def check_model(self, model: Any) -> None:
        if self.recipe.data.carry and not model.is_recurrent:
            raise BadSetting("data.carry", "true is for recurrent networks: attention has no state to carry")
        if self.recipe.data.carry and not self.recipe.data.cross_document:
            raise BadSetting("data.carry", "true carries state across documents: set data.cross_document=true as well")
        if not self.recipe.data.cross_document:
            # Parts that cannot keep documents apart raise here.
            tokens = torch.zeros(1, 1, dtype=torch.long)
            model(tokens, documents=tokens)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        self.documents = len(np.unique(self.train.index.rows["line"]))
        super().prepare(progress)

    def open(self, path: str) -> Corpus:
        return Corpus(Path(path), self.reading, self.progress)

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / ABOUT_TEXT).write_text(json.dumps({"documents": self.documents}))

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        about = read_json(folder / ABOUT_TEXT, {"documents": int})
        self.documents = about["documents"]
        self.bos = str(about.get("opening", EOS))  # differs in imported models
        self.always_bos = bool(about.get("always_bos", True))

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
        if self.splits_by_document:
            return in_parts(groups, self.shares, self.files["train"], "texts")
        first = max(int(len(groups) * (1 - sum(self.shares.values()))), 1)
        return {"train": np.arange(len(groups)) < first}

    def make_splits(self) -> Splits[Stream]:
        tokens = self.split_training_tokens()
        for use in self.files.keys() - {"train"}:
            tokens[use] = self.source(self.files[use]).stream(self.tokenizer, EOS)
        streams = {use: self.stream(own, use) for use, own in tokens.items()}
        train = replace(streams["train"], carries=self.recipe.data.carry)
        ((name, stream),) = test_or_validation(streams).items()
        tests = self.evaluation_streams(name, stream)
        return Splits(train, {"validation": streams["validation"]}, tests, tuple(self.notes(streams)))

    def split_training_tokens(self) -> dict[str, np.ndarray]:
        if self.splits_by_document:
            return {use: self.train.stream(self.tokenizer, EOS, rows) for use, rows in self.parts.items()}
        whole = self.train.stream(self.tokenizer, EOS)
        begin = int(len(whole) * (1 - sum(self.shares.values())))
        tokens = {"train": whole[:begin]}
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

    def notes(self, streams: dict[str, Stream]) -> Iterator[str]:
        if not self.recipe.data.name:
            yield from self.train.index.notes
        yield from self.shared_texts()
        unknown = self.tokenizer.vocabulary.index["<unk>"]
        if unknown == self.eos:  # of an imported model: every end of a text would count
            return
        for use, stream in streams.items():
            share = float(np.mean(stream.tokens == unknown))
            if share:
                yield f"{share:.2%} of the {use} tokens are unknown: their bytes are not counted"

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Stream]:
        tokens = Corpus(path, self.reading, progress).stream(self.tokenizer, EOS)
        return self.evaluation_streams(path.name, self.stream(tokens, "test", str(path)))

    def evaluation_streams(self, name: str, stream: Stream) -> dict[str, Stream]:
        """In disjoint windows, whose first tokens have little context, and in sliding windows, where all tokens but the
        first have at least ``window - stride`` tokens of context."""
        sets = {name: stream, f"{name} sliding": replace(stream, stride=self.stride)}
        if self.recipe.data.carry:  # as it was trained, from the first token to the last
            sets[f"{name} carried"] = replace(stream, window=max(stream.window, CARRIED), carries=True)
        return sets

    def prompts(self, count: int) -> list[str]:
        """Excerpts of the validation data at equal distances, of at most half a window."""
        (stream,) = self.splits().validation.values()
        size = min(max(self.recipe.data.window // 2, 1), len(stream.tokens))
        starts = np.unique(np.linspace(0, len(stream.tokens) - size, count).astype(int))
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

    def model(self) -> nn.Module:
        return build_decoder(self.recipe.model, self.vocab_size, self.recipe.data.window)

    def generator(self, model: Any) -> Generator:
        bos = self.tokenizer.vocabulary.index[self.bos] if self.documents > 1 else None
        eos = self.eos if self.documents > 1 else None
        window = None if model.is_recurrent else self.recipe.data.window
        return Generator(model, self.tokenizer, bos, eos, window, always_bos=self.always_bos)

    def body(self, model: Any) -> Body:
        return model

    def prompt_reader(self) -> PromptReader:
        return PromptReader(self.tokenizer, self.recipe.data.window)

    def loss(self, model: nn.Module, batch: NextTokenBatch) -> Tally:
        return cross_entropy(self.logits_of(model, batch), batch.targets, batch.weights)

    def logits_of(self, model: nn.Module, batch: NextTokenBatch) -> Tensor:
        if not batch.carries:
            return model(batch.inputs, documents=batch.documents)
        before = self.state if model.training else self.evaluation_state
        state = State(len(batch), 0, batch.inputs.device) if batch.fresh or before is None else before
        logits = model(batch.inputs, state=state)
        if model.training:
            self.state = state.detached()
        else:
            self.evaluation_state = state.detached()
        return logits

    def metrics(self, model: nn.Module, batch: NextTokenBatch) -> dict[str, Tally]:
        loss = self.loss(model, batch)
        targets = batch.targets if batch.weights is None else batch.targets[batch.weights]
        sizes = torch.from_numpy(self.tokenizer.byte_sizes).to(targets.device)
        return {"loss": loss, "bits_per_byte": Tally(loss.total / math.log(2), int(sizes[targets].sum()))}

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means["loss"])}

    def state_dict(self, model: nn.Module) -> dict[str, Tensor]:
        if self.state is None:
            return {}
        names = {part: name for name, part in model.named_modules()}
        return {
            f"{names[part]}:{index}": tensor.contiguous()
            for part, tensors in self.state.carried.items()
            for index, tensor in enumerate(tensors)
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
        return math.log(self.vocab_size)
