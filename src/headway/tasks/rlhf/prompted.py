"""What tasks share whose data are prompts with answers: the files, the template, and how both become tokens.

A text is ``<eos> prompt answer <eos>``, in the form that the template gives to both: where the prompt ends, the answer
begins with a token of its own, so that a prompt has the same tokens whether its answer is known or not.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parts import choose
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.corpus import fingerprint
from headway.data.dataset import Dataset
from headway.data.files import Progress, silent
from headway.data.generated import generated
from headway.generation.generator import Generator
from headway.tasks.file_task import OF_TOKENS, VERBS, FileTask, in_parts, test_or_validation
from headway.tasks.rlhf.prompts import Answers, PromptFile
from headway.tasks.task import Splits

MARK = "<eos>"  # before every text, and behind it


@dataclass(frozen=True)
class PromptedData:
    name: str | None = setting(None, "openings: of reviews of a small grammar, made on the spot; none: your own")
    train: str | None = setting(None, "a file of prompts and answers: JSONL, CSV, Parquet")
    validation: str = setting("0.05", "a file, or the share of the training data that is set apart")
    test: str | None = setting(None, "a file, or a share; none: the validation data are all that is measured on")
    template: str = setting("{prompt}\n{answer}", "how a prompt and its answer are written, one behind the other")
    max_length: int = setting(
        256, "tokens of a prompt and its answer at most; longer ones are left out", least=2, was="length"
    )
    encoding: str = setting("utf-8", "of the files")
    bad_rows: str = setting("stop", "what to do when a row cannot be read", choices=("stop", "skip"))
    normalize: str = setting("", "without a run to begin with: what is done to a text first, step by step")
    tokenizer: str = setting("bpe", "without a run to begin with: what a token is", choices=("char", "byte", "bpe"))
    vocab_size: int = setting(
        4_000, "how many different tokens there are at most", least=1, most=10_000_000, was="vocabulary"
    )
    min_count: int = setting(1, "how often a token must come to be one of them", least=1, was="least_count")


class Template:
    """``"Question: {prompt}\\nAnswer: {answer}"``, in two halves."""

    def __init__(self, text: str):
        text = text.replace("\\n", "\n")  # as it is written in a shell
        before, answer, self.after = text.partition("{answer}")
        self.first, prompt, self.second = before.partition("{prompt}")
        if not (answer and prompt) or "{prompt}" in self.second + self.after or "{answer}" in self.after:
            raise BadSetting("data.template", f"{text!r} should have {{prompt}} and then {{answer}}, once each")

    def prompt(self, text: str) -> str:
        return self.first + text + self.second

    def answer(self, text: str) -> str:
        return text + self.after


class Prompted(FileTask):
    settings: ClassVar[type] = PromptedData
    inherited = ("template",)
    least: ClassVar[int] = 1  # answers that a prompt must have
    needs_start: ClassVar[bool] = False  # whether it makes no sense without a run to start from

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        if recipe.train.processes > 1:
            raise BadSetting("train.processes", "prompts with answers keep to one process")
        if recipe.train.accumulate > 1:
            raise BadSetting("train.accumulate", "prompts with answers keep to whole batches")
        if recipe.train.cuda_graphs:
            raise BadSetting(
                "train.cuda_graphs", "prompts with answers are batches of any shape, which are not recorded"
            )
        self.template = Template(recipe.data.template)

    @staticmethod
    def identity(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "template", "max_length"}
        return {key: value for key, value in vars(data).items() if key not in own}

    @property
    def is_causal(self) -> bool:
        return True

    @property
    def mark(self) -> int:
        return self.tokenizer.vocabulary.index[MARK]

    def training_files(self) -> dict[str, str]:
        data = self.recipe.data
        if not (data.train or data.name):
            raise BadSetting("data.train", "missing: name a file of prompts and answers, such as answers.jsonl")
        return {"train": data.train or str(generated(choose({"openings": "openings"}, data.name, "data.name")))}

    def open(self, path: str) -> PromptFile:
        data = self.recipe.data
        return PromptFile(Path(path), data.encoding, data.bad_rows == "skip", self.progress, self.least)

    @cached_property
    def parts(self) -> dict[str, list[Answers]]:
        """The prompts for each use; a prompt is on one side of a split only."""
        parts = {use: self.source(path).all for use, path in self.files.items()}
        whole = parts["train"]
        groups = np.array([fingerprint(each.prompt) for each in whole], np.uint64)
        masks = in_parts(groups, self.shares, self.files["train"], "prompts")
        return parts | {use: [whole[index] for index in np.flatnonzero(rows)] for use, rows in masks.items()}

    def prepare(self, progress: Progress = silent) -> None:
        self.progress.to = progress
        if self.needs_start and self.recipe.start is None:
            raise BadSetting("start", f"missing: {self.recipe.task} starts from a run of language or sft, start=RUN")
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
        for path in self.files.values():
            notes += self.source(path).left_out.notes(self.source(path).path)
        return Splits(sets["train"], {"validation": sets["validation"]}, test_or_validation(sets), tuple(notes))

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Dataset]:
        self.progress.to = progress
        return {path.name: self.encoded(self.open(str(path)).all, path, "test", [])}

    def encoded(self, prompts: Sequence[Answers], path: Path, use: str, notes: list[str]) -> Dataset:
        """As data; those that are too long are left out, and noted."""
        tokens, answers = self.tokens_of_prompts([each.prompt for each in prompts]), self.tokens_of_answers(prompts)
        for each, own in zip(prompts, answers, strict=True):
            if any(len(answer) == 1 for answer in own):
                raise Problem(f"{path}, line {each.line}: an answer has no token that the tokenizer knows")
        sizes = [len(prompt) + self.room(own) for prompt, own in zip(tokens, answers, strict=True)]
        fits = [index for index, size in enumerate(sizes) if size <= self.recipe.data.max_length]
        if not fits:
            raise Problem(
                f"{path}: every text is longer than data.max_length={self.recipe.data.max_length} tokens; raise it"
            )
        if len(fits) < len(prompts):
            over = f"longer than {self.recipe.data.max_length} tokens (data.max_length)"
            notes.append(f"{len(prompts) - len(fits):,} prompts to {VERBS[use]} on have texts {over} and are left out")
        chosen = [tokens[at] for at in fits], [answers[at] for at in fits], [prompts[at] for at in fits]
        return self.dataset(*chosen)

    @property
    def context_length(self) -> int:
        return int(self.recipe.data.max_length)

    def room(self, answers: list[np.ndarray]) -> int:
        """Tokens that a prompt needs behind it."""
        return max(map(len, answers))

    @abstractmethod
    def dataset(self, tokens: list[np.ndarray], answers: list[list[np.ndarray]], prompts: list[Answers]) -> Dataset: ...

    def prompts(self, count: int) -> list[str]:
        return [each.prompt for each in self.parts["validation"][:count]]

    def generator_of(self, decoder: Any) -> Generator:
        """Of answers, as the template has them."""
        frame, after = self.template.prompt, self.template.after
        return Generator(decoder, self.tokenizer, self.mark, self.mark, self.recipe.data.max_length, frame, after)

    def tokens_of_prompts(self, prompts: Sequence[str]) -> list[np.ndarray]:
        tokens = self.tokenizer.encode([self.template.prompt(prompt) for prompt in prompts])
        return [np.concatenate([[self.mark], each]) for each in tokens]

    def tokens_of_answers(self, prompts: Sequence[Answers]) -> list[list[np.ndarray]]:
        flat = self.tokenizer.encode([self.template.answer(answer) for each in prompts for answer in each.answers])
        ended = iter([np.concatenate([each, [self.mark]]) for each in flat])
        return [[next(ended) for _ in each.answers] for each in prompts]
