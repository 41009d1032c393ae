"""Translation among many languages by one model: which directions are trained on and which are only measured, the token
that names the wanted language (Johnson et al. 2017, https://arxiv.org/abs/1611.04558), and how training mixes them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.config.json_files import NUMBER, known_fields, read_json
from headway.config.parts import bind
from headway.config.recipe import Recipe
from headway.config.settings import setting
from headway.data.cache import key_of
from headway.data.directions import Direction, Directions, directions_in
from headway.data.languages import language_of_file, refuse_spellings
from headway.data.mixtures import MIXTURES, Mixture, is_written
from headway.data.multiway_texts import Index, MultiwayTexts
from headway.data.pairs import Pairs, TaggedSequences
from headway.data.sequences import Sequences
from headway.data.splitting import shared_with_training
from headway.tasks.abilities import Ability
from headway.tasks.directions import HasDirections
from headway.tasks.file_task import FileTask, HasTexts, in_parts, test_or_validation
from headway.tasks.task import Splits
from headway.text.tokenizer import Tokenizer

DIRECTIONS = "directions.json"
MOST_NAMED = 8  # directions, in a note
PROPORTIONAL = "proportional"
TRAINED, ZERO_SHOT = "trained directions", "zero-shot directions"  # names of test sets


@dataclass(frozen=True)
class ManyDirectionsData:
    languages: str | None = setting(
        None,
        "columns that name the languages of source and target, such as from,to; of one: that of the target; none: each "
        "column or file is a language",
    )
    directions: str | None = setting(
        None, "directions to train on, such as en-de,de-en, or *-en,en-*; none: all that there are texts for"
    )
    zero_shot: str | None = setting(None, "directions to leave out of training, and to measure")
    mixture: str = setting(PROPORTIONAL, "share of each direction in training: a rule, or en-de=0.6,de-en=0.4")


@dataclass(frozen=True)
class DirectionShare:
    """What a direction has in the training data."""

    source: str
    target: str
    pairs: int
    share: float  # of all training steps
    epochs: float  # how often each pair is read

    @property
    def direction(self) -> Direction:
        return Direction(self.source, self.target)


SHARE_SHAPE = {"source": str, "target": str, "pairs": int, "share": NUMBER, "epochs": NUMBER}


class ManyDirections(FileTask, HasTexts, HasDirections):
    """A task with several directions, if ``is_many``; else with one, as its subclass has it."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"data.mixture": MIXTURES}

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.shares_of_training: list[DirectionShare] = []  # of a run that has begun
        self.indices: dict[str, Index] = {}  # by the names of files
        data = recipe.data
        if not is_written(data.mixture):
            bind(MIXTURES, data.mixture, "data.mixture")
        if data.mixture != PROPORTIONAL and not self.is_many:
            raise BadSetting("data.mixture", "it is about several directions of translation: there is one")
        if self.is_many and not data.joint:
            raise BadSetting("data.joint", "many languages share one vocabulary: leave it out")

    @cached_property
    def is_many(self) -> bool:
        data = self.recipe.data
        is_said = bool(data.languages or data.directions or data.zero_shot)
        return is_said or any(len(names_in(text)) > 2 for text in (data.columns, data.train))

    def abilities(self) -> list[type[Ability]]:
        return [each for each in super().abilities() if each is not HasDirections or self.is_many]

    # --- directions

    def open_many(self, files: tuple[Path, ...], use: str) -> MultiwayTexts:
        data, name = self.recipe.data, " and ".join(map(str, files))
        columns, sides = names_in(data.columns), names_in(data.languages)
        options: dict[str, Any] = {
            "encoding": data.encoding,
            "skip_bad": data.bad_rows == "skip",
            "progress": self.progress,
        }
        if sides:
            if len(files) > 1 or len(sides) > 2:
                raise BadSetting(
                    "data.languages", f"names one or two columns of one file, not {data.languages!r} of {name}"
                )
            return MultiwayTexts(files, columns, sides=sides, can_turn=data.directions is not None, **options)
        languages = tuple(language_of_file(Path(path.name)) for path in files) if len(files) > 1 else columns
        if not languages and use != "train":
            languages = tuple(languages_of(self.trained))
        if len(languages) < 2:
            raise BadSetting("data.columns", f"name the columns of {name} that are languages, such as en,de,fr")
        refuse_spellings(languages, name)
        if twice := next((each for each in languages if languages.count(each) > 1), None):
            raise Problem(f"{name}: {twice!r} is there twice, but each language is one column or file")
        return MultiwayTexts(files, languages=languages, **options)

    @cached_property
    def trained(self) -> list[Direction]:
        if self.shares_of_training:
            return [each.direction for each in self.shares_of_training]
        data, texts = self.recipe.data, self.train
        possible = texts.possible()
        names = languages_of(possible)
        if missing := next((name for name in texts.languages if name not in names), None):
            raise Problem(f"{texts.name}: no line has a text in {missing!r} and in another language: leave it out")
        chosen = directions_in(data.directions, names, "data.directions") if data.directions else possible
        left_out = directions_in(data.zero_shot, names, "data.zero_shot") if data.zero_shot else []
        entries = names_in(data.directions)
        if lacking := next((each for each in chosen if each not in possible and str(each) in entries), None):
            raise BadSetting("data.directions", f"{texts.name} has no pair of {lacking}: leave it out")
        trained = [each for each in chosen if each in possible and each not in left_out]
        if not trained:
            raise BadSetting("data.zero_shot", "no direction is left to train on")
        refuse_unreachable(left_out, trained)
        return trained

    @cached_property
    def measured(self) -> list[Direction]:
        """The trained directions first, then the zero-shot ones: from a language that is read in training into one that
        is written."""
        sources, targets = (dict.fromkeys(each[side] for each in self.trained) for side in (0, 1))
        others = [Direction(source, target) for source in sources for target in targets if source != target]
        return list(dict.fromkeys([*self.trained, *others]))

    def trained_directions(self) -> frozenset[Direction]:
        return frozenset(self.trained)

    @property
    def targets(self) -> list[str]:
        """The languages that it translates into."""
        return list(dict.fromkeys(each.target for each in self.trained)) if self.is_many else []

    # --- the token that names the target

    @property
    def tags(self) -> dict[str, int]:
        return {name: self.tokenizer.vocabulary.index[tag(name)] for name in self.targets}

    def with_tags(self, tokenizer: Tokenizer) -> Tokenizer:
        """A run that starts from another one has its tokens."""
        if self.recipe.start is None:
            return tokenizer.with_special([tag(name) for name in self.targets])
        for name in self.targets:
            if tag(name) not in tokenizer.vocabulary.index:
                raise Problem(f"{self.recipe.start} does not translate into {name!r}: it has no token {tag(name)}")
        return tokenizer

    # --- data

    def texts_for(self, use: str) -> Any:
        """The training file also has what is held out, unless there are other files."""
        return self.measurable(self.source(self.files[use]), use == "train" and not self.shares)

    def measurable(self, texts: Any, for_training: bool = False) -> Any:
        """The same texts, as pairs of the directions that are measured, or of those that are trained on."""
        if not self.is_many:
            return texts
        wanted = self.trained if for_training else self.measured
        texts.wanted = tuple(wanted)
        if not set(wanted) & set(texts.possible()):
            raise Problem(f"{texts.name} has no pair in any of {named(map(str, wanted))}")
        return texts

    def index_of(self, texts: MultiwayTexts) -> Index:
        if texts.name not in self.indices:
            self.indices[texts.name] = texts.index(self.recipe.data.normalize)
        return self.indices[texts.name]

    def many_parts(self) -> dict[str, np.ndarray]:
        """Each direction is split by itself; lines that share a text in any language stay on one side."""
        index = self.index_of(self.texts_for("train"))
        parts = in_parts(index.groups, self.shares, self.train.name, "pairs", index.directions)
        parts["train"] &= index.directions.rows < len(self.trained)
        return parts

    def tokenizer_of_lines(self) -> Tokenizer:
        """Learned from each text of the training pairs once, however many directions it is in."""
        texts, rows = self.train, self.parts["train"]
        directions = self.index_of(texts).directions

        def each_text() -> Iterator[str]:
            line, written = 0, set[str]()
            for index, pair in enumerate(texts.pairs("learning the words of")):
                if pair.line != line:
                    line, written = pair.line, set()
                if rows[index]:
                    sides = zip(directions.each[directions.rows[index]], (pair.source, pair.target), strict=True)
                    yield from (text for language, text in sides if language not in written)
                    written.update(directions.each[directions.rows[index]])

        chosen = np.packbits(rows).tobytes().hex()
        return self.learn_tokenizer(each_text, content=texts.content, rows=chosen, **texts.choices)

    def tagged(self, texts: Any, source: Sequences) -> tuple[Sequences, Directions | None]:
        """The sources with the tokens of their target languages, and the directions; if there are several."""
        if not self.is_many:
            return source, None
        directions = self.index_of(texts).directions
        tokens = np.array([self.tags[target] for _, target in directions.each])
        return TaggedSequences.of(source, tokens[directions.rows]), directions

    def many_splits(self, sets: dict[str, Pairs], notes: list[str]) -> Splits[Pairs]:
        """The trained directions are validated; they and the zero-shot ones are tested apart."""
        validation = self.of_directions(sets["validation"], True)
        if not len(validation):
            raise Problem("the validation data have no pair in a direction that is trained on")
        ((use, tested),) = test_or_validation(sets).items()
        tests = {TRAINED: self.of_directions(tested, True), ZERO_SHOT: self.of_directions(tested, False)}
        tests = {name: data for name, data in tests.items() if len(data)}
        if ZERO_SHOT not in tests:
            tests = {use: tested}
        if missing := [str(each) for each in self.trained if each not in tested.rows_by_direction]:
            notes.append(f"directions without test pairs, which are trained on and not measured: {named(missing)}")
        prints = {use: np.unique(self.prints_of(use)) for use in sets}
        notes += shared_with_training(prints, "texts", "in one of the languages")
        mixture = self.recipe.data.mixture
        if mixture != PROPORTIONAL:  # else each pair is read once in each epoch, like those of a single direction
            sets["train"] = replace(sets["train"], mixture=Mixture(mixture))
        return Splits(sets["train"], {"validation": validation}, tests, tuple(dict.fromkeys(notes)))

    def of_directions(self, data: Pairs, is_trained: bool) -> Pairs:
        trained = self.trained_directions()
        rows = [own for each, own in data.rows_by_direction.items() if (each in trained) == is_trained]
        chosen = np.sort(np.concatenate([np.empty(0, np.int64), *rows]))
        return replace(data.take(chosen), key=key_of(data=data.key, is_trained=is_trained))

    def prints_of(self, use: str) -> np.ndarray:
        """Fingerprints of all texts, as a model reads them."""
        if use in self.files and use != "train":
            return self.index_of(self.texts_for(use)).sides
        return self.index_of(self.train).sides[self.parts[use]]

    # --- what a run keeps

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.is_many:
            rows = [asdict(each) for each in self.plan()]
            (folder / DIRECTIONS).write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        super().restore(folder)
        if self.is_many:
            rows = read_json(folder / DIRECTIONS, [SHARE_SHAPE])
            self.shares_of_training = [DirectionShare(**known_fields(row, SHARE_SHAPE)) for row in rows]

    def plan(self) -> list[DirectionShare]:
        train = self.splits().train
        plan = replace(train, mixture=Mixture(self.recipe.data.mixture)).plan(self.recipe.train)
        columns = zip(self.trained, plan.sizes, plan.shares, plan.epochs, strict=False)  # zero-shot ones have nothing
        shares = [
            DirectionShare(*each, int(size), float(share), float(epochs)) for each, size, share, epochs in columns
        ]
        if idle := next((each.direction for each in shares if not each.share), None):
            raise BadSetting("data.mixture", f"{idle} has no share: leave it out of training with data.zero_shot")
        return shares


def names_in(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def tag(language: str) -> str:
    return f"<2{language}>"


def languages_of(directions: Iterable[Direction]) -> list[str]:
    return list(dict.fromkeys(name for each in directions for name in each))


def named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more


def refuse_unreachable(zero_shot: Iterable[Direction], trained: Iterable[Direction]) -> None:
    sources, targets = {each.source for each in trained}, {each.target for each in trained}
    for each in zero_shot:
        for name, known, side in ((each.source, sources, "from"), (each.target, targets, "into")):
            if name not in known:
                raise BadSetting("data.zero_shot", f"{each}: no direction that is trained on is {side} {name!r}")
