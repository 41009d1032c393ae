"""Files of tagged texts, with their tags as numbers."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from headway.config.errors import BadSetting, Problem
from headway.data.cache import key_of
from headway.data.examples import LeftOut
from headway.data.files import Progress, require_file, silent
from headway.data.readers import Format, checksum
from headway.data.splitting import fingerprint
from headway.data.tagged import Sentence, TaggedReading, sentences
from headway.metrics.spans import BIO, IOB1, OUTSIDE, PLAIN, TagSet, scheme_of


@dataclass(frozen=True)
class TaggedWords:
    """All sentences of a file, one after another."""

    words: list[str]
    tags: np.ndarray  # (words,): numbers in ``kinds``
    sizes: np.ndarray  # (sentences,)
    lines: np.ndarray  # (words,)
    groups: np.ndarray  # (sentences,): fingerprints of documents, or else of sentences
    kinds: TagSet

    @property
    def begins(self) -> np.ndarray:
        """(words,): True at the first word of each sentence."""
        begins = np.zeros(len(self.words), bool)
        begins[np.cumsum(self.sizes) - self.sizes] = True
        return begins

    def numbered(self, kinds: TagSet, path: Path) -> np.ndarray:
        """(words,): the tags as numbers of another set, in the scheme of that one."""
        own = self.kinds
        if kinds.scheme == PLAIN or list(own.names) == [OUTSIDE]:  # where there is no other tag, no scheme shows
            own = replace(own, scheme=PLAIN if kinds.scheme == PLAIN else BIO)
        spans = own.spans(self.tags, self.begins)
        numbers = {name: number for number, name in enumerate(kinds.types)}
        index = np.array([numbers.get(name, -1) for name in own.types], np.int64)
        if (unknown := index[spans.types] < 0).any():
            first = int(unknown.argmax())
            name, place = own.types[spans.types[first]], int(spans.starts[first])
            raise Problem(
                f"{path}, line {self.lines[place]}: unknown tag {own.names[self.tags[place]]!r}: {name!r} is not in "
                f"the training data ({', '.join(kinds.types[:10])})"
            )
        return kinds.tags(spans._replace(types=index[spans.types]), len(self.tags))


class TaggedFile:
    def __init__(self, path: Path, reading: TaggedReading, progress: Progress = silent):
        self.path, self.reading, self.progress = path, reading, progress
        self.left_out = LeftOut()
        require_file(path)

    @property
    def name(self) -> str:
        return str(self.path)

    @cached_property
    def content(self) -> str:
        return checksum([self.path], Format(self.reading.encoding))

    @property
    def key(self) -> str:
        return key_of(content=self.content, reading=asdict(self.reading), kind="".join(self.path.suffixes[-2:]))

    def check(self) -> None:
        """Refuse a file without words and tags."""
        next(sentences(self.path, self.reading), None)

    @cached_property
    def tagged(self) -> TaggedWords:
        def show(name: str, share: float) -> None:
            self.progress(f"reading {name}", share)

        good: list[Sentence] = []
        for each in sentences(self.path, self.reading, show):
            if each.problem:
                self.left_out.take_bad(self.path, each.lines[0], each.problem, self.reading.skip_bad)
            else:
                good.append(each)
        return self.without_faults(good)

    def without_faults(self, good: Sequence[Sentence]) -> TaggedWords:
        """Sentences whose tags contradict their scheme are left out, or refused."""
        whole = self.joined(good)
        ends = np.cumsum(whole.sizes)
        bad = np.unique(np.searchsorted(ends, whole.kinds.faulty(whole.tags, whole.begins), side="right"))
        for index in bad.tolist():
            own = slice(int(ends[index] - whole.sizes[index]), int(ends[index]))
            fault = whole.kinds.fault(whole.tags[own], whole.begins[own])
            assert fault is not None
            line = int(whole.lines[own][fault.place])
            self.left_out.take_bad(self.path, line, fault.message, self.reading.skip_bad)
        if not len(bad):
            return whole
        left = [each for index, each in enumerate(good) if index not in set(bad.tolist())]
        return self.joined(left, whole.kinds.scheme)

    def joined(self, good: Sequence[Sentence], scheme: str | None = None) -> TaggedWords:
        if not good:
            raise Problem(f"{self.path} has no sentence with words and tags{self.about_left_out()}")
        index: dict[str, int] = {}
        tags = np.array([index.setdefault(tag, len(index)) for each in good for tag in each.tags], np.int64)
        order = sorted(index)
        places = np.empty(len(order), np.int64)
        places[[index[name] for name in order]] = np.arange(len(order))
        groups = [fingerprint(each.document or "\t".join(each.words)) for each in good]
        joined = TaggedWords(
            [word for each in good for word in each.words],
            places[tags],
            np.array([len(each.words) for each in good]),
            np.array([line for each in good for line in each.lines]),
            np.array(groups, np.uint64),
            TagSet(order),
        )
        return replace(joined, kinds=TagSet(order, scheme or self.scheme(joined)))

    def scheme(self, whole: TaggedWords) -> str:
        """As set, or as the tags tell. Only their order tells iob1 from bio."""
        seen, asked = scheme_of(whole.kinds.names), self.reading.scheme
        if asked not in (None, PLAIN) and seen == PLAIN:
            odd = next(
                (name for name in whole.kinds.names if scheme_of([OUTSIDE, name]) == PLAIN and name != OUTSIDE), ""
            )
            raise BadSetting("data.scheme", f"{self.path} has tags such as {odd!r}: {asked} has O, B-TYPE and I-TYPE")
        if asked == PLAIN or seen != BIO:
            return PLAIN if asked == PLAIN else seen
        as_bio, as_iob1 = (TagSet(whole.kinds.names, each) for each in (BIO, IOB1))
        is_iob1 = as_bio.fault(whole.tags, whole.begins) and not as_iob1.fault(whole.tags, whole.begins)
        return IOB1 if is_iob1 else BIO

    def about_left_out(self) -> str:
        notes = self.left_out.notes(self.path)
        return f": {'; '.join(notes)}" if notes else ""

    @property
    def notes(self) -> list[str]:
        kinds = self.tagged.kinds
        what = f"{len(kinds.names):,} tags" if kinds.scheme == PLAIN else f"spans of {len(kinds.types):,} types"
        size = f"{len(self.tagged.words):,} words in {len(self.tagged.sizes):,} sentences"
        shown = ", ".join(kinds.types[:10]) + (", ..." if len(kinds.types) > 10 else "")
        return [*self.left_out.notes(self.path), f"{self.path}: {size}, {kinds.scheme} with {what} ({shown})"]
