"""What is exported of a run: its network, and how texts go in. Every export is proven from text to text against it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from headway.config.errors import Problem
from headway.generation.beam import Beam
from headway.generation.generator import Generator
from headway.generation.translator import Translator
from headway.nn.positions import Position
from headway.runs.run import Run
from headway.tasks.abilities import Fills, Generates, Predicts, RanksAnswers, Tokenizes, can, need
from headway.text.framing import Framing

TRIED, LENGTH, LIMIT = 6, 12, 20  # texts, the tokens of each, and new tokens
TOLERANCE = 1e-4  # of outputs, relative to the largest one, and of probabilities
ROOM = 40  # new tokens of a translation that is tried
LONG = 400  # tokens of a long text, for models without a limit


class Proof(NamedTuple):
    """How an export compares with its run, by the usual calls of its own engine."""

    max_difference: float  # of its outputs, relative to the largest one
    same: int = 0  # texts with the same result
    texts: int = 0


class Exportable:
    def __init__(self, run: Run):
        self.run, self.task = run, run.task
        self.model: Any = run.model().cpu().requires_grad_(False).eval()
        self.generator: Generator | None = None
        if can(self.task, Generates) and not can(self.task, RanksAnswers):
            self.generator = need(self.task, Generates).generator(self.model)
            self.model = self.generator.model

    @property
    def translator(self) -> Translator | None:
        return self.generator if isinstance(self.generator, Translator) else None

    @property
    def framings(self) -> dict[str, Framing]:
        """By the name of their files. A language model's prompts are cut where it is known how much is to be added."""
        if (translator := self.translator) is not None:
            tags = list(translator.tags.values())
            first = tuple(tags) if len(tags) == 1 else ()
            longest = translator.longest - (len(tags) > 1)  # one of several is put in front later
            source = Framing(translator.source, first, (translator.eos or 0,), longest)
            return {"source-tokenizer": source, "target-tokenizer": Framing(translator.tokenizer, writes=True)}
        if (writer := self.generator) is not None:
            first = (writer.bos,) if writer.bos is not None and writer.always_bos else ()
            return {"tokenizer": Framing(writer.tokenizer, first)}
        if can(self.task, Predicts):
            return {"tokenizer": need(self.task, Predicts).framing()}
        if can(self.task, Fills):
            return {"tokenizer": need(self.task, Fills).framing()}
        return {"tokenizer": Framing(need(self.task, Tokenizes).tokenizer_of("encoder.embedding"))}

    @property
    def framing(self) -> Framing:
        """Of the texts that it reads."""
        return next(iter(self.framings.values()))

    @property
    def length(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.framing.longest or self.task.context_length)

    @property
    def table(self) -> int | None:
        """The length of its shortest table of learned positions; longer sequences are refused."""
        positions = [part for part in self.model.modules() if isinstance(part, Position)]
        return min((part.length for part in positions if part.length is not None), default=None)

    # --- what the run itself makes of texts

    def texts(self) -> list[str]:
        """Texts to try: random ones, some with special tokens written out, one that is too long."""
        framing, random = self.framing, np.random.default_rng(0)
        tokenizer = framing.tokenizer
        usual = np.flatnonzero(~tokenizer.is_special & ~tokenizer.is_partial)

        def some(count: int) -> str:
            return tokenizer.decode(random.choice(usual, count).tolist())

        long = 2 * self.length if framing.longest is not None else LONG if self.translator else 1
        window = self.generator.window if self.generator else None
        short = LENGTH if window is None else min(LENGTH, max(window // 4, 1))
        tried = [self.task.example, *(some(short) for _ in range(TRIED)), some(long)]
        index = tokenizer.vocabulary.index
        masks = {index.get("[MASK]")} if can(self.task, Fills) else set()  # those mean something in a text
        literal = " ".join([symbol for symbol, token in framing.special.items() if token not in masks][:6])
        tried += [f"{self.task.example} {literal}", f"{literal} {some(3)}"]
        readable = [text for text in tried if text.strip() and self.reads(text)]
        if not readable:
            raise Problem(f"{self.run.folder} reads none of the texts that its export is tried with")
        return readable

    def reads(self, text: str) -> bool:
        """A masked model has no rule for texts that are too long."""
        try:
            tokens = self.tokens_of(text)
        except Problem:
            return False
        return not can(self.task, Fills) or len(tokens) < self.length

    def tokens_of(self, text: str) -> list[int]:
        """As the run reads a text."""
        if (translator := self.translator) is not None:
            several = len(translator.tags) > 1
            tokens = translator.into(next(iter(translator.tags)) if several else None).tokens_of(text)
            return tokens[1:] if several else tokens
        if self.generator is not None:
            return replace(self.generator, format_prompt=str).tokens_of(text)
        if can(self.task, Predicts):
            rows, lengths = need(self.task, Predicts).sequences([text]).pad(np.array([0]))
            return rows[0, : int(lengths[0])].tolist()
        if can(self.task, Fills):
            return need(self.task, Fills).masked_tokens(text)
        return self.framing.tokenizer.encode([text])[0].tolist()

    def written(self, texts: Sequence[str]) -> list[str]:
        """Translations by the recipe's beam search, or greedy continuations."""
        if (translator := self.translator) is not None:
            into = translator.into(next(iter(translator.tags), None))
            return [into.text_of(group) for group in into.search(texts, self.room, translator.beam)]
        assert self.generator is not None
        found = [self.generator.search([text], self.room, Beam(1))[0] for text in texts]
        return [self.generator.tokenizer.decode(group[0].tokens) for group in found]

    @property
    def room(self) -> int:
        """New tokens to try with: in hundreds of repeated ones, rounding decides between equally good texts."""
        return min(self.limit, ROOM)

    @property
    def limit(self) -> int:
        """New tokens, unless somebody asks for another number."""
        if self.translator is not None:
            return self.translator.longest - 1
        window = self.generator.window if self.generator else None
        return LIMIT if window is None else max(min(LIMIT, window // 2), 1)

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        predictions = need(self.task, Predicts).predict(self.model, texts)
        return [{str(label): chance for label, chance in each.probabilities.items()} for each in predictions]

    # --- comparing

    def refuse_other_tokens(self, read: Callable[[str], list[int]], masks: bool = True) -> None:
        """The exported tokenizer reads texts as the run does; without ``masks``, those that have none."""
        for text in self.texts():
            if not masks and can(self.task, Fills) and "[MASK]" in text:
                continue
            ours, theirs = self.tokens_of(text), read(text)
            if ours != theirs:
                raise Problem(f"the exported tokenizer reads {text[:60]!r} as {theirs[:12]}, the run as {ours[:12]}")

    def fits(self, text: str) -> bool:
        """Whether a prompt leaves room for what is added to it; the run cuts others at their beginning."""
        window = None if self.translator or self.generator is None else self.generator.window
        return window is None or len(self.tokens_of(text)) + self.limit <= window

    def compare_texts(
        self, write: Callable[[list[str]], list[str]], exact: bool = True, cut: bool = True
    ) -> tuple[int, int]:
        """How many texts have the same result, of how many; with ``exact``, all must. Without ``cut``, long prompts are
        not tried."""
        tried = [text for text in self.texts() if cut or self.fits(text)]
        ours, theirs = self.written(tried), write(tried)
        same = sum(own == other for own, other in zip(ours, theirs, strict=True))
        if exact and same < len(tried):
            text, own, other = next(row for row in zip(tried, ours, theirs, strict=True) if row[1] != row[2])
            first = next((place for place, pair in enumerate(zip(own, other)) if pair[0] != pair[1]), 0)  # noqa: B905
            own, other = (each[max(first - 20, 0) : first + 40] for each in (own, other))
            what = f"of {text[:60]!r}, it makes ...{other!r}, the run ...{own!r}"
            raise Problem(f"the export is not the same model: {what}")
        return same, len(tried)

    def compare_filled(
        self, fill: Callable[[str], list[list[tuple[str, float]]]], exact: bool = True
    ) -> tuple[int, int]:
        """By the probabilities of what may stand in the place of the mask."""
        own = need(self.task, Fills)
        tried = [f"{text[:200]} [MASK]" for text in self.texts() if "[MASK]" not in text]
        same = 0
        for text in tried:
            ours, theirs = own.fill(self.model, text, 5)[-1], fill(text)[-1]
            pairs = zip(ours, theirs, strict=True)
            close = all(abs(mine - other) <= TOLERANCE for (_, mine), (_, other) in pairs)
            if exact and not close:
                raise Problem(f"the export is not the same model: it fills {text[:60]!r} with {theirs}, the run {ours}")
            same += close if exact else ours[0][0] == theirs[0][0]
        return same, len(tried)

    def compare_probabilities(
        self, probabilities: Callable[[str], dict[str, float]], exact: bool = True
    ) -> tuple[int, int]:
        tried = self.texts()
        same = 0
        for text, own in zip(tried, self.probabilities(tried), strict=True):
            other = probabilities(text)
            close = max(abs(own[label] - other[label]) for label in own) <= TOLERANCE
            if exact and not close:
                raise Problem(f"the export is not the same model: {text[:60]!r} is {other}, of the run {own}")
            same += close if exact else max(own, key=own.__getitem__) == max(other, key=other.__getitem__)
        return same, len(tried)
