"""Translate: from parallel texts of your own.

headway train translate data.source=train.en data.target=train.de data.test=test.en,test.de
headway train translate data.train=pairs.tsv
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import kept, key_of
from headway.data.examples import is_unicode
from headway.data.files import Progress, read_json, silent
from headway.data.pairs import Pairs
from headway.data.parallel_texts import Parallel, encode, files_in, groups_of
from headway.tasks.file_task import DATA, OF_TOKENS, TOKENIZER, VERBS, VOCABULARY
from headway.tasks.held_out import in_parts, named_files, shares_of
from headway.tasks.seq2seq import Translation, TranslationData
from headway.tasks.task import Splits
from headway.text.normalize import normalizer
from headway.text.tokenizer import TOKENIZERS, Tokenizer

SOURCE_TOKENIZER, UNSEEN = "source-tokenizer.json", "unseen.json"
ODD_SHARE = 0.2  # of unseen tokens in a text, above which its translation is worth little


@dataclass(frozen=True)
class TranslateData(TranslationData):
    source: str | None = setting(None, "a file of texts, one a line")
    target: str | None = setting(None, "a file of their translations, one a line")
    train: str | None = setting(None, "in place of both: one file with columns, or two with a comma between them")
    validation: str = setting("0.02", "the same, or the share of the training data that is set apart")
    test: str | None = setting(None, "the same, or a share; none: the validation data are all that is measured on")
    columns: str | None = setting(None, "of one file, the source's and the target's, such as en,de; none: found")
    encoding: str = setting("utf-8", "of the files")
    bad_rows: str = setting("stop", "what to do when a row cannot be read", choices=("stop", "skip"))
    normalize: str = setting("", "what is done to a text first, step by step")
    tokenizer: str = setting("bpe", "what a token is", choices=("char", "byte", "bpe"))
    vocabulary: int = setting(8_000, "how many different tokens there are at most", least=1, most=10_000_000)
    least_count: int = setting(1, "how often a token must come to be one of them", least=1)
    joint: bool = setting(True, "whether both languages have one set of tokens, or each its own")


class Translate(Translation):
    settings = TranslateData
    example = "a text of your own"

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        data = recipe.data
        self.joint = data.joint
        self.progress: Progress = silent
        bind(TOKENIZERS, data.tokenizer, "data.tokenizer")
        normalizer(data.normalize, "data.normalize")
        self.learned: tuple[Tokenizer, Tokenizer] | None = None
        self.unseen: frozenset[int] = frozenset()  # tokens of the source that the training data do not have
        self.contents: dict[str, str] = {}  # the checksums of the files that a run was trained on, by their use

    @staticmethod
    def deciding(data: Any) -> dict[str, Any]:
        own = {*OF_TOKENS, "joint", "longest", "objective", "own_guesses", "beam", "length_penalty"}
        return {key: value for key, value in vars(data).items() if key not in own}

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        if self.learned is None:
            raise Problem("the tokens are not known yet: the data have not been read")
        return self.learned

    @property
    def sizes(self) -> tuple[int, int]:
        if self.learned is None:
            return self.recipe.data.vocabulary, self.recipe.data.vocabulary
        return len(self.learned[0]), len(self.learned[1])

    def parallel(self, text: str, key: str) -> Parallel:
        data = self.recipe.data
        columns = tuple(name.strip() for name in data.columns.split(",")) if data.columns else ()
        if len(columns) not in (0, 2):
            raise BadSetting("data.columns", f"{data.columns!r} is not two names with a comma between them")
        shown: Progress = lambda what, part: self.progress(what, part)  # noqa: E731
        return Parallel(files_in(text, key), columns, data.encoding, data.bad_rows == "skip", shown)

    @cached_property
    def texts(self) -> dict[str, Parallel]:
        """By their use, those that have files of their own."""
        data = self.recipe.data
        if (data.source is None) != (data.target is None):
            raise BadSetting("data.target" if data.source else "data.source", "missing: translation takes two sides")
        train = f"{data.source},{data.target}" if data.source else data.train
        if not train:
            raise BadSetting("data.source", "missing: name the files, such as data.source=a.en data.target=a.de")
        files = {"train": train, **named_files(data)}
        return {use: self.parallel(text, f"data.{use}") for use, text in files.items()}

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """The pairs of the training files, as masks: those to train on, and those set apart."""
        file, groups = self.texts["train"].name, groups_of(self.texts["train"])
        if not len(groups):
            raise Problem(f"{file}: no line has a text on both sides")
        return in_parts(groups, shares_of(self.recipe.data, self.texts), file, "pairs")

    def prepare(self, progress: Progress = silent) -> None:
        self.progress = progress
        sides = [["source", "target"]] if self.joint else [["source"], ["target"]]
        found = [self.learn(names) for names in sides]
        self.learned = (found[0], found[-1])
        train = self.splits(progress).train
        seen = np.unique(train.source.tokens)
        self.unseen = frozenset(range(self.sizes[0])) - frozenset(seen.tolist())

    def learn(self, sides: list[str]) -> Tokenizer:
        """From these sides of the pairs to train on; kept, so that the next run need not read them again."""
        data, texts, rows = self.recipe.data, self.texts["train"], self.parts["train"]
        choices: dict[str, Any] = {
            "kind": data.tokenizer,
            "normalize": data.normalize,
            "size": data.vocabulary,
            "least_count": data.least_count,
        }

        def words() -> Iterator[str]:
            for place, pair in enumerate(texts.pairs("learning the words of")):
                if rows[place]:
                    yield from (getattr(pair, side) for side in sides)

        def make(folder: Path) -> None:
            (folder / TOKENIZER).write_text(Tokenizer.learn(texts=words(), **choices).to_json(), encoding="utf-8")

        chosen = np.packbits(rows).tobytes().hex()
        key = key_of(content=texts.content, columns=texts.columns, sides=sides, rows=chosen, **choices)
        return Tokenizer.load(kept("tokenizers", key, make) / TOKENIZER)

    def save(self, folder: Path) -> None:
        source, target = self.tokenizers
        target.save(folder / TOKENIZER)
        target.vocabulary.save(folder / VOCABULARY)
        if not self.joint:
            source.save(folder / SOURCE_TOKENIZER)
        contents = {use: texts.content for use, texts in self.texts.items()}
        (folder / DATA).write_text(json.dumps(contents, indent=0), encoding="utf-8")
        (folder / UNSEEN).write_text(json.dumps(sorted(self.unseen)), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.contents, self.unseen = read_json(folder / DATA), frozenset(read_json(folder / UNSEEN))
        target = Tokenizer.load(folder / TOKENIZER)
        self.learned = target if self.joint else Tokenizer.load(folder / SOURCE_TOKENIZER), target

    def refuse_changed_files(self) -> None:
        for use, content in self.contents.items():
            if use not in self.texts or self.texts[use].content != content:
                where = self.texts[use].name if use in self.texts else "nowhere"
                remedy = "put the old files back, or measure on the new ones with evaluate --data"
                raise Problem(f"the data to {VERBS[use]} on, {where}, are not those that the run began with; {remedy}")

    def splits(self, progress: Progress = silent) -> Splits[Pairs]:
        self.progress = progress
        self.refuse_changed_files()
        first, *other = self.texts["train"].files
        notes = [f"both sides are {first}: it learns to copy"] if other and first.samefile(other[0]) else []
        sets = {use: self.pairs(self.texts["train"], notes, use, rows) for use, rows in self.parts.items()}
        for use in self.texts.keys() - {"train"}:
            sets[use] = self.pairs(self.texts[use], notes, use)
        measured = {"test": sets["test"]} if "test" in sets else {"validation": sets["validation"]}
        return Splits(sets["train"], {"validation": sets["validation"]}, measured, tuple(dict.fromkeys(notes)))

    def pairs(self, texts: Parallel, notes: list[str], use: str, rows: np.ndarray | None = None) -> Pairs:
        """Those of these rows; of pairs to train on, those that are not too long. Others are cut."""
        found, longest = encode(texts, *self.tokenizers, self.special("<eos>")), self.recipe.data.longest
        notes += found.notes
        places = np.arange(len(found.source)) if rows is None else np.flatnonzero(rows)
        source, target = found.source.take(places), found.target.take(places)
        fits = np.maximum(source.sizes, target.sizes) <= longest
        references: list[str] = []
        if use == "train":
            if not fits.all():
                notes.append(
                    f"{int((~fits).sum()):,} pairs are longer than {longest} tokens and are left out of training"
                )
            if not fits.any():
                raise Problem(f"{texts.name}: every pair is longer than data.longest={longest} tokens; raise it")
            source, target = source.take(np.flatnonzero(fits)), target.take(np.flatnonzero(fits))
        else:
            if not fits.all():
                notes.append(
                    f"{int((~fits).sum()):,} pairs to {VERBS[use]} on are cut to {longest} tokens (data.longest)"
                )
            wanted = set(places.tolist())
            references = [pair.target for place, pair in enumerate(texts.pairs()) if place in wanted]
        key = key_of(content=texts.content, use=use, rows=len(places))
        return Pairs(source.truncate(longest), target.truncate(longest), self.special("<sos>"), key, references)

    def odd(self, text: str) -> str:
        if not text.strip():
            return "is empty"
        if not is_unicode(text):
            return "is not in UTF-8, or has half a character in it"
        tokens, longest = self.tokenizers[0].encode([text])[0], self.recipe.data.longest
        if len(tokens) >= longest:
            return f"has {len(tokens):,} tokens, of which the first {longest - 1} are translated (data.longest)"
        share = float(np.mean([token in self.unseen for token in tokens.tolist()]))
        return f"{share:.0%} of its tokens were not in the training data" if share > ODD_SHARE else ""

    def data_in(self, path: Path, progress: Progress = silent) -> dict[str, Pairs]:
        self.progress = progress
        return {path.name: self.pairs(self.parallel(str(path), "data.test"), [], "test")}

    def prompts(self, count: int) -> list[str]:
        (data,) = self.splits().validation.values()
        return [self.tokenizers[0].decode(tokens) for tokens in data.sources_of(count)]
