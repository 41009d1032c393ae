"""Language: a causal language model of texts, from files, a folder, or the Python standard library.

    headway train language                          # learns Python from the installed standard library
    headway train language data.train=novels.jsonl

How texts become streams is in tasks/text_streams.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headway.config.errors import BadSetting
from headway.config.json_files import read_json
from headway.config.parallel import layout_of
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.batch import NextTokenBatch
from headway.generation.generator import Generator
from headway.generation.prompts import PromptReader
from headway.metrics import perplexity
from headway.models.build import build_decoder
from headway.nn.state import State
from headway.objectives.likelihood import cross_entropy
from headway.objectives.tally import Tally
from headway.tasks.abilities import Generates, HasState, ReadsPrompts
from headway.tasks.embedding import Body, EmbedsTokens
from headway.tasks.text_streams import HasContext, StreamsData, TextStreams
from headway.tasks.token_baselines import ComparesStreams
from headway.text.tokenizer import TOKENIZERS
from headway.text.words import EOS

ABOUT_TEXT = "documents.json"


@dataclass(frozen=True)
class LanguageData(StreamsData):
    train: str | None = setting(None, "a file or a folder of texts, or several, separated by commas")
    tokenizer: str = setting("bpe", "how texts are split into tokens")
    vocab_size: int = setting(4_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")


class Language(TextStreams, Generates, ReadsPrompts, EmbedsTokens, HasContext, HasState, ComparesStreams):
    settings = LanguageData
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {**TextStreams.tables, "data.tokenizer": TOKENIZERS}
    metric_names = ("loss", "bits_per_byte")

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
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
        if data.carry and (train.accumulate > 1 or layout_of(train).world > 1 or train.grains is not None):
            raise BadSetting("data.carry", "true needs train.processes=1, train.accumulate=1 and no train.grains")
        if data.carry and data.language:
            raise BadSetting("data.carry", "true does not work with data.language, which mixes windows of texts")
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

    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / ABOUT_TEXT).write_text(json.dumps({"documents": self.documents}))

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        about = read_json(folder / ABOUT_TEXT, {"documents": int})
        self.documents = about["documents"]
        self.bos = str(about.get("opening", EOS))  # differs in imported models
        self.always_bos = bool(about.get("always_bos", True))

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
        real = slice(None) if batch.weights is None else batch.weights
        targets, before = batch.targets[real], batch.inputs[real]
        bits = loss.total / math.log(2)
        sizes = {"bits_per_byte": self.tokenizer.byte_sizes}
        if self.is_multilingual:  # a character has one byte in some scripts and three in others
            sizes["bits_per_character"] = self.tokenizer.character_sizes
        words = int(self.tokenizer.word_counts.begun(before, targets).sum())
        return {"loss": loss, "perplexity_word": Tally(loss.total, words)} | {
            name: Tally(bits, int(torch.from_numpy(each).to(targets.device)[targets].sum()))
            for name, each in sizes.items()
        }

    def derived(self, means: dict[str, float]) -> dict[str, float]:
        """Perplexities: by token, and by word, which tokenizers have in common."""
        names = {"perplexity": "loss", "perplexity_word": "perplexity_word"}
        return {name: perplexity(means[of]) for name, of in names.items() if of in means}

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
