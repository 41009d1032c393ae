"""The baselines of taggers, beside counting by hand and a regression of scikit-learn on named features."""

from collections import Counter

import numpy as np
from sklearn.feature_extraction import DictVectorizer

from headway.baselines.words import Neighbours, TaggedText, most_frequent_tags, shape


def text(size: int, seed: int) -> TaggedText:
    """A word's tag depends on the word before it."""
    random = np.random.default_rng(seed)
    words = [str(word) for word in random.choice(list("abcde"), size)]
    begins = random.random(size) < 0.2
    begins[0] = True
    tags = [2 if first else int(words[place - 1] in "ab") for place, first in enumerate(begins)]
    return TaggedText(words, np.array(tags), begins)


def test_the_most_frequent_tag() -> None:
    train, test = text(500, 1), text(100, 2)
    predict, parameters = most_frequent_tags(train)
    assert parameters == 5
    for word, tag in zip(test.words, predict(test), strict=True):
        assert (
            tag
            == Counter(own for each, own in zip(train.words, train.tags, strict=True) if each == word).most_common()[0][
                0
            ]
        )
    unknown = TaggedText(["z"], np.zeros(1, np.int64), np.ones(1, bool))
    assert predict(unknown) == [np.bincount(train.tags).argmax()]


def test_neighbours_are_the_words_of_the_sentence() -> None:
    train = text(60, 1)
    model = Neighbours(train)
    matrix = model.matrix(train).toarray()
    rows = []
    sentences = np.cumsum(train.begins)
    for place, word in enumerate(train.words):
        row = {"word": word, "first": word, "last": word, "shape": shape(word)}
        for step in (-2, -1, 1, 2):
            there = place + step
            inside = 0 <= there < len(train.words) and sentences[there] == sentences[place]
            row[str(step)] = train.words[there] if inside else "<edge>"
        rows.append(row)
    theirs = DictVectorizer(sparse=False).fit_transform(rows)
    assert np.array_equal(matrix @ matrix.T, theirs @ theirs.T)  # the same features, in another order


def test_neighbours_tell_what_a_word_alone_does_not() -> None:
    train, test = text(2000, 1), text(500, 2)
    usual, _ = most_frequent_tags(train)
    beside, parameters = Neighbours(train).fit()
    assert parameters > 50
    assert (usual(test) == test.tags).mean() < 0.6
    assert (beside(test) == test.tags).mean() > 0.99


def test_shapes() -> None:
    assert [shape(word) for word in ("Dr.", "NASA", "x2y", "1,943")] == ["Aa.", "A", "a0a", "0,0"]
