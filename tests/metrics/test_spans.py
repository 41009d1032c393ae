"""Spans and their scores, beside seqeval."""

import warnings

import numpy as np
import pytest
from seqeval.metrics import classification_report

from headway.metrics.spans import BIO, BIOES, IOB1, PLAIN, SpanCounts, TagSet, scheme_of

SCHEMES = [BIO, BIOES]


def random_tags(kinds: TagSet, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of sentences with one to nine words: tags, most of which contradict each other, and where sentences begin."""
    sizes = random.integers(1, 10, 200)
    begins = np.zeros(sizes.sum(), bool)
    begins[np.cumsum(sizes) - sizes] = True
    return random.integers(len(kinds.names), size=sizes.sum()), begins


def in_lists(tags: np.ndarray, begins: np.ndarray, kinds: TagSet) -> list[list[str]]:
    return [[kinds.names[tag] for tag in each] for each in np.split(tags, np.flatnonzero(begins)[1:])]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_are_those_of_seqeval(scheme: str) -> None:
    """Also where tags contradict each other."""
    kinds, random = TagSet.of_types(["LOC", "PER", "MISC-x"], scheme), np.random.default_rng(0)
    for noise in (1.0, 0.5, 0.0):
        targets, begins = random_tags(kinds, random)
        targets = kinds.tags(kinds.spans(targets, begins), len(targets)) if noise < 1 else targets
        predicted = np.where(
            random.random(len(targets)) < noise, random.integers(len(kinds.names), size=len(targets)), targets
        )
        own, true = (kinds.spans(each, begins) for each in (predicted, targets))
        counts = SpanCounts.of(own, true, len(kinds.types))
        lists = in_lists(targets, begins, kinds), in_lists(predicted, begins, kinds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = classification_report(*lists, output_dict=True)
        for row in counts.report(kinds.types):
            expected = theirs[row["type"]]
            assert row["precision"] == pytest.approx(expected["precision"])
            assert row["recall"] == pytest.approx(expected["recall"])
            assert row["f1"] == pytest.approx(expected["f1-score"])
            assert row["spans"] == expected["support"]
        f1 = 2 * counts.hits.sum() / (counts.predicted.sum() + counts.actual.sum())
        assert f1 == pytest.approx(theirs["micro avg"]["f1-score"])


def test_spans_by_hand() -> None:
    kinds = TagSet(["B-A", "B-B", "I-A", "I-B", "O"], BIO)
    words = ["B-A", "I-A", "I-B", "O", "I-A", "I-A", "B-A", "I-A"]
    tags = np.array([kinds.names.index(word) for word in words])
    begins = np.array([True, False, False, False, True, False, False, True])
    spans = kinds.spans(tags, begins)
    assert list(zip(spans.starts, spans.ends, spans.types, strict=True)) == [
        *((0, 2, 0), (2, 3, 1)),
        *((4, 6, 0), (6, 7, 0), (7, 8, 0)),
    ]


@pytest.mark.parametrize("first", SCHEMES)
@pytest.mark.parametrize("second", SCHEMES)
def test_schemes_are_converted_both_ways(first: str, second: str) -> None:
    one, other = (TagSet.of_types(["X", "Y"], scheme) for scheme in (first, second))
    tags, begins = random_tags(one, np.random.default_rng(1))
    valid = one.tags(one.spans(tags, begins), len(tags))
    assert one.fault(valid, begins) is None
    there = other.tags(one.spans(valid, begins), len(tags))
    assert other.fault(there, begins) is None
    assert np.array_equal(one.tags(other.spans(there, begins), len(tags)), valid)


def test_each_plain_tag_is_a_span_so_that_f1_is_accuracy() -> None:
    kinds, random = TagSet(["A", "B", "C"]), np.random.default_rng(2)
    targets, begins = random_tags(kinds, random)
    predicted = random.integers(3, size=len(targets))
    own, true = (kinds.spans(each, begins) for each in (predicted, targets))
    counts = SpanCounts.of(own, true, types=3)
    f1 = 2 * counts.hits.sum() / (counts.predicted.sum() + counts.actual.sum())
    assert f1 == pytest.approx((predicted == targets).mean())
    assert np.array_equal(kinds.tags(kinds.spans(targets, begins), len(targets)), targets)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["O", "B-A", "I-A"], BIO),
        (["O", "S-A", "B-A", "E-A"], BIOES),
        (["NOUN", "VERB"], PLAIN),
        (["O"], PLAIN),
        (["B-A", "NOUN"], PLAIN),
        (["B-", "O"], PLAIN),
    ],
)
def test_a_scheme_is_known_by_its_tags(tags: list[str], scheme: str) -> None:
    assert scheme_of(tags) == scheme


@pytest.mark.parametrize(
    ("scheme", "words", "place"),
    [
        (BIO, "O I-A O", 1),
        (BIO, "B-A I-A I-B", 2),
        (BIO, "B-A I-A B-A I-A O B-B", None),
        (BIOES, "B-A E-A S-B O B-B I-B E-B", None),
        (BIOES, "B-A O", 1),
        (BIOES, "S-A E-A", 1),
        (BIOES, "O B-A", 1),
        (BIOES, "B-A B-A E-A", 1),
        (IOB1, "I-A I-A B-A O I-B I-A", None),
        (IOB1, "O B-A", 1),
    ],
)
def test_what_a_scheme_does_not_allow_is_found(scheme: str, words: str, place: int | None) -> None:
    names = sorted({*words.split(), "O"})
    tags = np.array([names.index(word) for word in words.split()])
    kinds, begins = TagSet(names, scheme), np.arange(len(tags)) == 0
    fault = kinds.fault(tags, begins)
    assert (None if fault is None else fault.place) == place
    assert kinds.faulty(tags, begins)[:1].tolist() == ([] if place is None else [place])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_may_follow_what_is_what_has_no_fault(scheme: str) -> None:
    kinds = TagSet.of_types(["X", "Y"], scheme)
    size = len(kinds.names)
    for first in range(size):
        alone = kinds.fault(np.array([first]), np.array([True]))
        assert (alone is None) == (kinds.allowed[size, first] and kinds.allowed[first, size])
        for second in range(size):
            pair = kinds.fault(np.array([first, second]), np.array([True, False]))
            allowed = kinds.allowed[size, first], kinds.allowed[first, second], kinds.allowed[second, size]
            assert (pair is None) == all(allowed)
