"""What tasks share whose data are prompts with answers: the files, the template, and how both become tokens.

A text is ``<eos> prompt answer <eos>``, in the form that the template gives to both: where the prompt ends, the answer
begins with a token of its own, so that a prompt has the same tokens whether its answer is known or not.
"""

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parts import bind, choose
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.corpus import fingerprint
from headway.data.files import Progress, read_json, silent
from headway.data.generated import made
from headway.data.sets import Data
from headway.generation.generator import Generator
from headway.tasks.file_task import DATA, OF_TOKENS, TOKENIZER, VERBS, VOCABULARY
from headway.tasks.held_out import in_parts, named_files, shares_of
from headway.tasks.rlhf.prompts import AnswerFile, Answers
from headway.tasks.task import Splits, Task
from headway.text.normalize import normalizer
from headway.text.tokenizer import TOKENIZERS, Tokenizer

MARK = "<eos>"  # before every text, and behind it


@dataclass(frozen=True)
class AnsweringData:
    name: str | None = setting(None, "openings: of reviews of a small grammar, made on the spot; none: your own")
    train: str | None = setting(None, "a file of prompts and answers: JSONL, CSV, Parquet")
    validation: str = setting("0.05", "a file, or the share of the training data that is set apart")
    test: str | None = setting(None, "a file, or a share; none: the validation data are all that is measured on")
    template: str = setting("{prompt}\n{answer}", "how a prompt and its answer are written, one behind the other")
    length: int = setting(256, "tokens of a prompt and its answer at most; longer ones are left out", least=2)
    encoding: str = setting("utf-8", "of the files")
    bad_rows: str = setting("stop", "what to do when a row cannot be read", choices=("stop", "skip"))
    normalize: str = setting("", "without a run to begin with: what is done to a text first, step by step")
    tokenizer: str = setting("bpe", "without a run to begin with: what a token is", choices=("char", "byte", "bpe"))
    vocabulary: int = setting(4_000, "how many different tokens there are at most", least=1, most=10_000_000)
    least_count: int = setting(1, "how often a token must come to be one of them", least=1)


def choose_made(name: str) -> str:
    return choose({"openings": "openings"}, name, "data.name")


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


class Answering(Task):
    settings: ClassVar[type] = AnsweringData
    least: ClassVar[int] = 1  # answers that a prompt must have
    needs_start: ClassVar[bool] = False  # whether it makes no sense without a run to begin with
    tokenizer: Tokenizer

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        bind(TOKENIZERS, recipe.data.tokenizer, "data.tokenizer")
        normalizer(recipe.data.normalize, "data.normalize")
        if recipe.train.processes > 1:
            raise BadSetting("train.processes", "prompts with answers keep to one process")
        if recipe.train.accumulate > 1:
            raise BadSetting("train.accumulate", "prompts with answers keep to whole batches")
        if recipe.train.recorded:
            raise BadSetting("train.recorded", "prompts with answers are batches of any shape, which are not recorded")
        self.template, self.symbols = Template(recipe.data.template), recipe.data.vocabulary
        self.progress: Progress = silent
        self.contents: dict[str, str] = {}  # the checksums of the files that a run was trained on, by their use

    @staticmethod
    def deciding(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "template", "length"}
        return {key: value for key, value in vars(data).items() if key not in own}

    @property
    def is_causal(self) -> bool:
        return True

    @property
    def mark(self) -> int:
        return self.tokenizer.vocabulary.index[MARK]

    def file(self, path: str) -> AnswerFile:
        data = self.recipe.data
        shown: Progress = lambda what, part: self.progress(what, part)  # noqa: E731
        return AnswerFile(Path(path), data.encoding, data.bad_rows == "skip", shown, self.least)

    @cached_property
    def files(self) -> dict[str, AnswerFile]:
        """By their use, those that are named."""
        data = self.recipe.data
        if not (data.train or data.name):
            raise BadSetting("data.train", "missing: name a file of prompts and answers, such as answers.jsonl")
        train = data.train or str(made(choose_made(data.name)))
        return {use: self.file(text) for use, text in {"train": train, **named_files(data)}.items()}

    @cached_property
    def parts(self) -> dict[str, list[Answers]]:
        """What there is for each use; a prompt is on one side of a cut only."""
        found = {use: file.all for use, file in self.files.items()}
        whole = found["train"]
        groups = np.array([fingerprint(each.prompt) for each in whole], np.uint64)
        parts = in_parts(groups, shares_of(self.recipe.data, found), self.files["train"].path, "prompts")
        return found | {use: [whole[place] for place in np.flatnonzero(rows)] for use, rows in parts.items()}

    def look(self) -> None:
        for file in self.files.values():
            if not file.path.is_file():
                raise Problem(f"there is no file {file.path} (seen from {Path.cwd()})")

    def prepare(self, progress: Progress = silent) -> None:
        self.progress = progress
        if self.needs_start and self.recipe.start is None:
            raise BadSetting("start", f"missing: {self.recipe.task} begins with a run of language or sft, start=RUN")
        self.learn(self.learned_tokenizer())
        self.splits(progress)

    def learned_tokenizer(self) -> Tokenizer:
        """A run that begins with another one has its tokens."""
        data = self.recipe.data
        if self.recipe.start is not None:
            return Tokenizer.load(Path(self.recipe.start) / TOKENIZER)
        texts = (
            self.template.prompt(each.prompt) + self.template.answer(answer)
            for each in self.parts["train"]
            for answer in each.answers
        )
        return Tokenizer.learn(data.tokenizer, texts, data.normalize, data.vocabulary, data.least_count)

    def learn(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.symbols = tokenizer, len(tokenizer)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.tokenizer.vocabulary.save(folder / VOCABULARY)
        contents = {use: file.content for use, file in self.files.items()}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.contents = read_json(folder / DATA)
        self.learn(Tokenizer.load(folder / TOKENIZER))

    def refuse_changed_files(self) -> None:
        for use, content in self.contents.items():
            if use not in self.files or self.files[use].content != content:
                where = self.files[use].path if use in self.files else "nowhere"
                remedy = "put the old file back, or measure on the new one with evaluate --data"
                raise Problem(f"the data to {VERBS[use]} on, {where}, are not those that the run began with; {remedy}")

    def splits(self, progress: Progress = silent) -> Splits[Any]:
        self.progress = progress
        self.refuse_changed_files()
        notes: list[str] = []
        files = {use: self.files.get(use, self.files["train"]).path for use in self.parts}
        sets = {use: self.encoded(found, files[use], use, notes) for use, found in self.parts.items()}
        notes += [note for file in self.files.values() for note in file.left_out.notes(file.path)]
        measured = {"test": sets["test"]} if "test" in sets else {"validation": sets["validation"]}
        return Splits(sets["train"], {"validation": sets["validation"]}, measured, tuple(notes))

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Data]:
        self.progress = progress
        return {path.name: self.encoded(self.file(str(path)).all, path, "test", [])}

    def encoded(self, found: Sequence[Answers], path: Path, use: str, notes: list[str]) -> Data:
        """As data; those that are too long are left out, and noted."""
        prompts, answers = self.tokens_of_prompts([each.prompt for each in found]), self.tokens_of_answers(found)
        for each, own in zip(found, answers, strict=True):
            if any(len(tokens) == 1 for tokens in own):
                raise Problem(f"{path}, line {each.line}: an answer has no token that the tokenizer knows")
        sizes = [len(prompt) + self.room(own) for prompt, own in zip(prompts, answers, strict=True)]
        fits = [place for place, size in enumerate(sizes) if size <= self.recipe.data.length]
        if not fits:
            raise Problem(f"{path}: every text is longer than data.length={self.recipe.data.length} tokens; raise it")
        if len(fits) < len(found):
            over = f"longer than {self.recipe.data.length} tokens (data.length)"
            notes.append(f"{len(found) - len(fits):,} prompts to {VERBS[use]} on have texts {over} and are left out")
        chosen = [prompts[place] for place in fits], [answers[place] for place in fits], [found[at] for at in fits]
        return self.made(*chosen)

    def room(self, answers: list[np.ndarray]) -> int:
        """Tokens that a prompt needs behind it."""
        return max(map(len, answers))

    @abstractmethod
    def made(self, prompts: list[np.ndarray], answers: list[list[np.ndarray]], found: list[Answers]) -> Data: ...

    def prompts(self, count: int) -> list[str]:
        return [each.prompt for each in self.parts["validation"][:count]]

    def generator_of(self, decoder: Any) -> Generator:
        """Of answers, as the template has them."""
        frame, after = self.template.prompt, self.template.after
        return Generator(decoder, self.tokenizer, self.mark, self.mark, self.recipe.data.length, frame, after)

    def tokens_of_prompts(self, prompts: Sequence[str]) -> list[np.ndarray]:
        tokens = self.tokenizer.encode([self.template.prompt(prompt) for prompt in prompts])
        return [np.concatenate([[self.mark], each]) for each in tokens]

    def tokens_of_answers(self, found: Sequence[Answers]) -> list[list[np.ndarray]]:
        flat = self.tokenizer.encode([self.template.answer(answer) for each in found for answer in each.answers])
        ended = iter([np.concatenate([each, [self.mark]]) for each in flat])
        return [[next(ended) for _ in each.answers] for each in found]
