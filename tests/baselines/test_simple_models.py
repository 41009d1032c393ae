"""The simple models beside the libraries that they are equal to, and beside slow references."""

import itertools
import lzma
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from headway.baselines.documents import WORD, Words, folded_words_of, words_of
from headway.baselines.labels import PLAIN_C, WEIGHTED_CS, LabelBaselines, Labelled, log_ratios
from headway.baselines.language_model import KneserNey, discounts_of, xz_bits
from headway.baselines.minhash import SIMILAR, near_duplicates
from headway.baselines.ngrams import Ngrams
from headway.baselines.rankings import WordRewards
from headway.baselines.word_table import NONE, WordTable, translation_table
from headway.data.grammar import review

PATTERN = WORD.pattern


def reviews(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    random = np.random.default_rng(seed)
    texts = [review(number % 2, 1 + number % 3, random) for number in range(count)]
    labels = np.arange(count) % 2
    flipped = random.random(count) < 0.1
    return texts, np.where(flipped, 1 - labels, labels)


TRAIN, TEST = reviews(300, 1), reviews(200, 2)
UNSEEN = [*TEST[0][:100], "nothing known", "", *TEST[0][100:198]]


def names_of(ngrams: Ngrams, words: Words) -> list[str]:
    """Of the columns."""
    symbols = list(words.numbers)
    shorter, names = [""], list[str]()
    for codes in ngrams.codes:
        pairs = zip((codes // ngrams.base).tolist(), (codes % ngrams.base).tolist(), strict=True)
        shorter = [f"{shorter[first]} {symbols[last]}".strip() for first, last in pairs]
        names += shorter
    return names


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_counts_and_tfidf_are_those_of_scikit_learn(longest: int) -> None:
    words = Words()
    ngrams = Ngrams(words.learn(TRAIN[0]), longest)
    same = {"ngram_range": (1, longest), "min_df": 2, "token_pattern": PATTERN}
    counted, weighted = CountVectorizer(**same).fit(TRAIN[0]), TfidfVectorizer(sublinear_tf=True, **same).fit(TRAIN[0])
    order = [counted.vocabulary_[name] for name in names_of(ngrams, words)]
    assert sorted(order) == list(range(len(counted.vocabulary_)))
    counts = ngrams.counts(words.read(UNSEEN))
    np.testing.assert_array_equal(counts.toarray(), counted.transform(UNSEEN).toarray()[:, order])
    theirs = weighted.transform(UNSEEN).toarray()[:, order]
    np.testing.assert_allclose(ngrams.tfidf(counts, longest).toarray(), theirs, atol=1e-12)


def test_words_that_only_later_documents_have_are_unknown() -> None:
    """Their numbers are higher than any that was counted, and must not be taken for n-grams."""
    words = Words()
    ngrams = Ngrams(words.learn(["a b a b", "a b"]), 2, min_df=1)
    later = words.learn(["c a", "b c", "d d d", "a b"])
    names = names_of(ngrams, words)
    counted = [dict(zip(np.array(names)[row.indices], row.data, strict=True)) for row in ngrams.counts(later)]
    assert counted == [{"a": 1}, {"b": 1}, {}, {"a": 1, "b": 1, "a b": 1}]


def test_columns_of_short_ngrams_come_first() -> None:
    documents = Words().learn(TRAIN[0])
    all_of_them, pairs = Ngrams(documents, 3), Ngrams(documents, 2)
    assert all_of_them.width(2) == len(pairs)
    ours = all_of_them.tfidf(all_of_them.counts(documents), 2)
    assert abs(ours - pairs.tfidf(pairs.counts(documents), 2)).max() == 0


class ByHand:
    """The same n-grams by scikit-learn, with its columns in our order."""

    def __init__(self, ours: LabelBaselines, words: Words, longest: int):
        ngram_range = (1, longest)
        self.vectorizer = TfidfVectorizer(
            sublinear_tf=True, ngram_range=ngram_range, min_df=2, token_pattern=PATTERN
        ).fit(TRAIN[0])
        names = names_of(ours.ngrams, words)[: ours.ngrams.width(longest)]
        self.order = [self.vectorizer.vocabulary_[name] for name in names]

    def __call__(self, texts: Sequence[str]) -> Any:
        return self.vectorizer.transform(texts)[:, self.order]


def our_baselines(labels: np.ndarray, classes: int) -> tuple[LabelBaselines, Words]:
    words = Words()
    train = Labelled(words.learn(TRAIN[0]), labels)
    return LabelBaselines(train, Labelled(words.read(TEST[0]), TEST[1]), classes), words


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_is_that_of_scikit_learn(classes: int) -> None:
    labels = np.where(np.arange(300) % 7 == 3, classes - 1, TRAIN[1])
    ours, words = our_baselines(labels, classes)
    matrix_of = ByHand(ours, words, 2)
    theirs = LogisticRegression(C=PLAIN_C, max_iter=300).fit(matrix_of(TRAIN[0]), labels)
    fitted = ours.plain().probabilities(words.read(UNSEEN))
    np.testing.assert_allclose(fitted, theirs.predict_proba(matrix_of(UNSEEN)), atol=1e-6)
    right = (ours.plain().probabilities(words.read(TEST[0])).argmax(axis=1) == TEST[1]).mean()
    assert right == pytest.approx(theirs.score(matrix_of(TEST[0]), TEST[1]), abs=1e-6)


def test_naive_bayes_weights_by_hand() -> None:
    labels = TRAIN[1]
    ours, words = our_baselines(labels, 2)
    matrix_of = ByHand(ours, words, 3)
    matrix, held_out = matrix_of(TRAIN[0]), matrix_of(TEST[0])
    present = matrix.toarray() > 0
    inside, outside = 1 + present[labels == 1].sum(axis=0), 1 + present[labels == 0].sum(axis=0)
    ratios = np.log(inside / inside.sum() / (outside / outside.sum()))
    np.testing.assert_allclose(log_ratios(matrix, labels == 1), ratios)
    scores = {}
    for penalty in WEIGHTED_CS:
        model = LogisticRegression(C=penalty, max_iter=300).fit(matrix.multiply(ratios).tocsr(), labels)
        scores[penalty] = (model.score(held_out.multiply(ratios).tocsr(), TEST[1]), -penalty, model)
    _, _, best = max(scores.values(), key=lambda each: each[:2])
    expected = best.predict_proba(matrix_of(UNSEEN).multiply(ratios).tocsr())
    fitted = ours.weighted()
    np.testing.assert_allclose(fitted.probabilities(words.read(UNSEEN)), expected, atol=1e-6)
    assert fitted.about == f"C={best.C:g}"


def test_a_class_that_is_never_seen_gets_nothing() -> None:
    ours, words = our_baselines(2 * TRAIN[1], 4)
    for fitted in (ours.plain(), ours.weighted()):
        chances = fitted.probabilities(words.read(UNSEEN))
        assert chances.shape == (len(UNSEEN), 4)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert (chances[:, [1, 3]] == 0).all()


def test_words_of_scripts_without_spaces_are_their_characters() -> None:
    assert words_of("It's 3.5 語学") == ["It", "'", "s", "3", ".", "5", "語", "学"]
    assert folded_words_of("Ab") == ["ab"]


# --- Kneser-Ney


class SlowKneserNey:
    """The formulas of Chen & Goodman, one n-gram at a time."""

    def __init__(self, streams: Sequence[Sequence[int]], vocabulary: int, longest: int):
        self.vocabulary, self.longest = vocabulary, longest
        grams = {
            order: Counter(
                tuple(stream[start : start + order]) for stream in streams for start in range(len(stream) - order + 1)
            )
            for order in range(1, longest + 1)
        }
        self.counts: dict[int, Counter[tuple[int, ...]]] = {longest: grams[longest]}
        for order in range(1, longest):
            before = defaultdict(set)
            for gram in grams[order + 1]:
                before[gram[1:]].add(gram[0])
            self.counts[order] = Counter({gram: len(before[gram]) for gram in grams[order]})
        self.discounts = {order: discounts_of(np.array(list(own.values()))) for order, own in self.counts.items()}

    def chance(self, history: tuple[int, ...], token: int) -> float:
        order = len(history) + 1
        shorter = self.chance(history[1:], token) if history else 1 / self.vocabulary
        own = {gram: count for gram, count in self.counts[order].items() if gram[:-1] == history}
        total = sum(own.values())
        if not total:
            return shorter
        taken = {gram: float(self.discounts[order][min(count, 3)]) for gram, count in own.items()}
        kept = max(own.get((*history, token), 0) - taken.get((*history, token), 0.0), 0.0)
        return kept / total + sum(taken.values()) / total * shorter


@pytest.mark.parametrize("longest", [1, 2, 3, 4])
def test_kneser_ney_is_that_of_a_slow_reference(longest: int) -> None:
    random = np.random.default_rng(longest)
    streams = [np.minimum(random.geometric(0.3, size), 9) for size in (150, 40, 2)]
    test = np.minimum(random.geometric(0.2, 60), 11)
    fast = KneserNey(streams, 12, longest).probabilities(test)
    slow = SlowKneserNey([each.tolist() for each in streams], 12, longest)
    expected = []
    for place, token in enumerate(test.tolist()):
        history = tuple(test[max(place - longest + 1, 0) : place].tolist())
        expected.append(slow.chance(history, token))
    np.testing.assert_allclose(fast, expected, rtol=1e-12)


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_kneser_ney_sums_to_one(longest: int) -> None:
    random = np.random.default_rng(3)
    model = KneserNey([random.integers(6, size=400), np.array([0])], 8, longest)
    for size in range(longest):
        for history in itertools.islice(itertools.product(range(8), repeat=size), 60):
            total = sum(model.probabilities(np.array([*history, token]))[-1] for token in range(8))
            assert total == pytest.approx(1, abs=1e-12)


def test_discounts_are_those_of_the_paper() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [50, 20, 10, 6, 3])
    share = 50 / (50 + 2 * 20)
    expected = [0, 1 - 2 * share * 20 / 50, 2 - 3 * share * 10 / 20, 3 - 4 * share * 6 / 10]
    np.testing.assert_allclose(discounts_of(counts), expected)
    assert discounts_of(np.array([7, 9])).tolist() == [0, 0.5, 1, 1.5]


def test_xz_counts_what_the_test_text_adds() -> None:
    text = "".join(chr(97 + each) for each in np.random.default_rng(1).integers(26, size=4000)).encode()
    assert xz_bits(text, text) < 0.1 * 8 * len(lzma.compress(text))
    assert xz_bits(b"", text) == 8 * (len(lzma.compress(text)) - len(lzma.compress(b"")))


# --- translation and rankings


def test_ibm_model_1_by_hand() -> None:
    """One pair at a time, with a dict for each probability."""
    sources = ["the house", "the book", "a book"]
    targets = ["das haus", "das buch", "ein buch"]
    chances: dict[tuple[str, str], float] = defaultdict(lambda: 1 / 4)
    pairs = [(["", *source.split()], target.split()) for source, target in zip(sources, targets, strict=True)]
    for _ in range(5):
        expected: dict[tuple[str, str], float] = defaultdict(float)
        for source, target in pairs:
            for word in target:
                total = sum(chances[each, word] for each in source)
                for each in source:
                    expected[each, word] += chances[each, word] / total
        totals: dict[str, float] = defaultdict(float)
        for (each, _word), count in expected.items():
            totals[each] += count
        chances = defaultdict(float, {key: count / totals[key[0]] for key, count in expected.items()})
    own, other = Words(words_of), Words(words_of, {"": NONE})
    of_targets, of_sources = own.learn(targets), other.learn(sources)
    froms, tos, ours, likelihoods = translation_table(of_sources, of_targets)
    names, words = list(other.numbers), list(own.numbers)
    found = {(names[a], words[b]): chance for a, b, chance in zip(froms, tos, ours, strict=True)}
    assert found == pytest.approx({key: chances[key] for key in found})
    assert (np.diff(likelihoods) > 0).all()


def test_a_table_translates_word_by_word_and_copies_the_rest() -> None:
    table = WordTable.learn(
        ["the house", "the book", "a book", "a house."], ["das haus", "das buch", "ein buch", "ein haus."]
    )
    assert table.translate("the book, Emma (a house).") == "das buch, Emma (ein haus)."
    assert table.translate("") == ""


def test_words_are_weighted_by_which_answer_was_better() -> None:
    answers = ["a good one", "a bad one", "good", "bad bad", "neither"]
    model = WordRewards(answers, np.array([0, 2, 2]), np.array([1, 3, 4]))
    good, bad, neither = model.rewards(["so good", "so bad", "unseen"])
    assert good > neither == 0 > bad
    assert math.isclose(model.rewards(["one one"])[0], 0, abs_tol=1e-6)


# --- near-duplicates


def test_near_duplicates_are_those_of_exact_comparisons() -> None:
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(list("abcdefghij"), 40)) for _ in range(200)]
    changed = []
    for number, text in enumerate(texts[:60]):
        letters = text.split()
        for place in random.permutation(40)[: number % 12]:
            letters[place] = "z"
        changed.append(" ".join(letters))
    words = Words()
    known, documents = words.learn(texts), words.learn([*changed, "too short", ""])
    shingles = [
        [{tuple(row[place : place + 3]) for place in range(len(row) - 2)} for row in map(str.split, each)]
        for each in ([*changed], texts)
    ]
    exact = {
        (row, other): len(one & two) / len(one | two)
        for row, one in enumerate(shingles[0])
        for other, two in enumerate(shingles[1])
    }
    found = {(pair.row, pair.other): pair.similarity for pair in near_duplicates(documents, known)}
    wanted = {key for key, similarity in exact.items() if similarity >= SIMILAR}
    assert wanted == set(found)  # of these 99 in 100 are found, whose similarity is barely above the threshold
    assert found == pytest.approx({key: exact[key] for key in found})
    assert len(wanted) > 10
