"""Shared by tasks on prompts with answers: files, template and tokenization.

A sequence is ``<eos> prompt answer <eos>``, formatted by the template. Prompt and answer are tokenized separately, so
that a prompt has the same tokens with and without an answer.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parallel import refuse_several
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.dataset import Dataset
from headway.data.files import Progress, silent
from headway.data.generated import generated
from headway.data.splitting import READ_ALIKE, fingerprint, joined_groups, reader, shared_with_training
from headway.generation.generator import Generator
from headway.tasks.embedding import Body, EmbedsTokens
from headway.tasks.file_task import FileTask, in_parts, test_or_validation
from headway.tasks.rlhf.prompts import PromptExample, PromptFile
from headway.tasks.task import Splits
from headway.text.tokenizer import REVERSIBLE

EOS = "<eos>"  # before and after every sequence


@dataclass(frozen=True)
class PromptedData:
    name: str | None = setting(None, "openings: generated openings of reviews; none: your own files")
    train: str | None = setting(None, "a file of prompts with answers: JSONL, CSV, Parquet")
    validation: str = setting("0.05", "a file, or the share of the training data to hold out")
    test: str | None = setting(None, "a file, or a share of the training data; none: test on the validation data")
    template: str = setting("{prompt}\n{answer}", "format of a prompt with its answer")
    max_length: int = setting(
        256, "maximum tokens of a prompt with its answer; longer ones are left out", least=2, was="length"
    )
    encoding: str = setting("utf-8", "encoding of the files")
    bad_rows: str = setting("stop", "what to do with unreadable rows", choices=("stop", "skip"))
    normalize: str = setting("", "without start: normalization steps applied to each text")
    tokenizer: str = setting("bpe", "without start: how texts are split into tokens")
    vocab_size: int = setting(4_000, "maximum vocabulary size", least=1, most=10_000_000, was="vocabulary")
    min_count: int = setting(1, "minimum count of a token", least=1, was="least_count")


class Template:
    """A format such as ``"Question: {prompt}\\nAnswer: {answer}"``."""

    def __init__(self, text: str):
        text = text.replace("\\n", "\n")  # as typed in a shell
        before, answer, self.suffix = text.partition("{answer}")
        self.first, prompt, self.second = before.partition("{prompt}")
        if not (answer and prompt) or "{prompt}" in self.second + self.suffix or "{answer}" in self.suffix:
            raise BadSetting("data.template", f"{text!r} must contain {{prompt}} and then {{answer}}, once each")

    def prompt(self, text: str) -> str:
        return self.first + text + self.second

    def answer(self, text: str) -> str:
        return text + self.suffix

    def after(self, turns: Sequence[tuple[str, str]], question: str) -> str:
        """What ``prompt`` turns into earlier turns, as they were written, and the question."""
        earlier = "".join(f"{asked}{self.second}{self.answer(answer)}{self.first}" for asked, answer in turns)
        return earlier + question


class Prompted(FileTask, EmbedsTokens):
    settings: ClassVar[type] = PromptedData
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.tokenizer": REVERSIBLE}
    inherited = ("template",)
    columns: ClassVar[tuple[str, ...]] = ("prompt", "answer")
    encoding_settings = frozenset({"template", "max_length"})
    min_answers: ClassVar[int] = 1  # per prompt
    needs_start: ClassVar[bool] = False  # whether it must start from another run

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        refuse_several(recipe.train, "prompts with answers train in one process")
        if recipe.train.grains is not None:
            raise BadSetting("train.grains", "prompts with answers train in one process: leave it out")
        if recipe.train.accumulate > 1:
            raise BadSetting(
                "train.accumulate", "prompts with answers do not support gradient accumulation: leave it at 1"
            )
        if recipe.train.cuda_graphs:
            raise BadSetting(
                "train.cuda_graphs", "prompts with answers have batches of varying shapes: set it to false"
            )
        self.template = Template(recipe.data.template)

    @property
    def is_causal(self) -> bool:
        return True

    @property
    def eos(self) -> int:
        return self.tokenizer.vocabulary.index[EOS]

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if not (data.train or data.name):
            raise BadSetting(
                "data.train", "missing: name a file of prompts with answers, such as data.train=answers.jsonl"
            )
        return {"train": data.train or str(generated(choose({"openings": "openings"}, data.name, "data.name")))}

    def open(self, path: str) -> PromptFile:
        data = self.recipe.data
        return PromptFile(Path(path), data.encoding, data.bad_rows == "skip", self.progress, self.min_answers)

    @cached_property
    def parts(self) -> dict[str, list[PromptExample]]:
        """The examples of each use; equal prompts are in the same split."""
        parts = {use: self.source(path).examples for use, path in self.files.items()}
        whole = parts["train"]
        groups = np.array([fingerprint(each.prompt) for each in whole], np.uint64)
        if self.splits_as_read:
            groups = joined_groups(groups, self.as_read(whole))
        masks = in_parts(groups, self.shares, self.files["train"], "prompts")
        return parts | {use: [whole[index] for index in np.flatnonzero(rows)] for use, rows in masks.items()}

    def as_read(self, prompts: Sequence[PromptExample]) -> np.ndarray:
        """Fingerprints of prompts, equal if a model cannot tell them apart."""
        read = reader(self.recipe.data.normalize)
        return np.array([fingerprint(read(each.prompt)) for each in prompts], np.uint64)

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        if self.needs_start and self.recipe.start is None:
            raise BadSetting("start", f"missing: {self.recipe.task} needs a run of language or sft, start=RUN")
        self.use_tokenizer(
            self.learn_tokenizer(
                self.training_texts,
                content=self.train.content,
                template=self.recipe.data.template,
                shares=self.shares,
            )
        )
        super().prepare(progress)

    def training_texts(self) -> Iterator[str]:
        for each in self.parts["train"]:
            for answer in each.answers:
                yield self.template.prompt(each.prompt) + self.template.answer(answer)

    def make_splits(self) -> Splits[Any]:
        notes: list[str] = []
        files = {use: self.source(self.files.get(use, self.files["train"])).path for use in self.parts}
        sets = {use: self.encoded(prompts, files[use], use, notes) for use, prompts in self.parts.items()}
        read = {use: self.as_read(own) for use, own in self.parts.items()}
        notes += shared_with_training(read, "prompts", READ_ALIKE)
        for path in self.files.values():
            notes += self.source(path).left_out.notes(self.source(path).path)
        return Splits(sets["train"], {"validation": sets["validation"]}, test_or_validation(sets), tuple(notes))

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Dataset]:
        self.progress.to = progress
        return {path.name: self.encoded(self.open(str(path)).examples, path, "test", [])}

    def encoded(self, prompts: Sequence[PromptExample], path: Path, use: str, notes: list[str]) -> Dataset:
        """A data set of these prompts; those that are too long are left out, with a note."""
        tokens, answers = self.tokens_of_prompts([each.prompt for each in prompts]), self.tokens_of_answers(prompts)
        for each, own in zip(prompts, answers, strict=True):
            if any(len(answer) == 1 for answer in own):
                raise Problem(f"{path}, line {each.line}: an answer has no known token")
        sizes = [len(prompt) + self.answer_room(own) for prompt, own in zip(tokens, answers, strict=True)]
        fits = [index for index, size in enumerate(sizes) if size <= self.recipe.data.max_length]
        if not fits:
            raise Problem(
                f"{path}: every text is longer than data.max_length={self.recipe.data.max_length} tokens; raise it"
            )
        if len(fits) < len(prompts):
            longer = f"longer than {self.recipe.data.max_length} tokens (data.max_length)"
            notes.append(
                f"{len(prompts) - len(fits):,} {use} prompts are left out: with their answers they are {longer}"
            )
        return self.dataset([tokens[i] for i in fits], [answers[i] for i in fits], [prompts[i] for i in fits])

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.max_length)

    def body(self, model: Any) -> Body:
        return model.decoder

    def answer_room(self, answers: list[np.ndarray]) -> int:
        """Tokens to reserve for the answers to a prompt."""
        return max(map(len, answers))

    @abstractmethod
    def dataset(
        self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[PromptExample]
    ) -> Dataset: ...

    def prompts(self, count: int) -> list[str]:
        return [each.prompt for each in self.parts["validation"][:count]]

    def conversation(self, turns: Sequence[tuple[str, str]], question: str) -> str:
        return self.template.after(turns, question)

    def generator_of(self, decoder: Any) -> Generator:
        """A generator of answers that applies the template."""
        template, window = self.template, self.recipe.data.max_length
        return Generator(decoder, self.tokenizer, self.eos, self.eos, window, template.prompt, template.suffix)

    def tokens_of_prompts(self, prompts: Sequence[str]) -> list[np.ndarray]:
        tokens = self.tokenizer.encode([self.template.prompt(prompt) for prompt in prompts])
        return [np.concatenate([[self.eos], each]) for each in tokens]

    def tokens_of_answers(self, prompts: Sequence[PromptExample]) -> list[list[np.ndarray]]:
        flat = self.tokenizer.encode([self.template.answer(answer) for each in prompts for answer in each.answers])
        ended = iter([np.concatenate([each, [self.eos]]) for each in flat])
        return [[next(ended) for _ in each.answers] for each in prompts]
