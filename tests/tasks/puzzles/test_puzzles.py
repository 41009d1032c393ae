"""The two puzzles: what the data are, and that train and test do not overlap."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from headway import recipes
from headway.data.grammar import BAD, GOOD, all_words, plain_review, review
from headway.data.samplers import ExampleSampler
from headway.data.sequences import LabelledSequences
from headway.objectives.likelihood import binary_cross_entropy, cross_entropy
from headway.tasks import TASKS, Splits, Task
from headway.tasks.labelling import no_and_yes
from headway.tasks.puzzles.strings import count_without


def task(name: str, *overrides: str) -> Task:
    recipe = recipes.load(name, overrides)
    return TASKS[recipe.task](recipe)


def texts(task: Task, sequences: LabelledSequences) -> list[str]:
    symbols = np.array(task.vocabulary.symbols)  # type: ignore[attr-defined]
    return [
        "".join(symbols[sequences.tokens[start : start + size]])
        for start, size in zip(sequences.starts, sequences.sizes, strict=True)
    ]


def held_out(task: Task, splits: Splits) -> set[str]:
    return {text for sets in (splits.validation, splits.test) for data in sets.values() for text in texts(task, data)}


@pytest.mark.parametrize("length", [8, 16, 40])
def test_parity_strings_and_labels(length: int) -> None:
    puzzle = task("parity", f"data.length={length}")
    splits = puzzle.splits()
    for data in (splits.train, *splits.validation.values(), *splits.test.values()):
        for text, label in zip(texts(puzzle, data), data.labels, strict=True):
            assert len(text) == length
            assert set(text) <= {"0", "1"}
            assert label == text.count("1") % 2


@pytest.mark.parametrize("words", [["data.length=16"], ["data.length=8"], ["data.length=24", "data.shortest=6"]])
def test_parity_strings_for_testing_are_never_seen_in_training(words: list[str]) -> None:
    puzzle = task("parity", *words)
    splits = puzzle.splits()
    train = set(texts(puzzle, splits.train))
    shared = train & held_out(puzzle, splits)
    unavoidable = {
        text for text in shared if len(set(text)) == 1 or (len(text) < 8 and text.count("1") in (1, len(text) - 1))
    }
    assert shared == unavoidable
    assert all(text in splits.notes[0] for text in shared)
    validation, test = (
        {text for data in sets.values() for text in texts(puzzle, data)} for sets in (splits.validation, splits.test)
    )
    assert not (validation & test) - unavoidable


def test_parity_has_a_random_and_a_uniform_test_set() -> None:
    puzzle = task("parity", "data.tests=3400")
    splits = puzzle.splits()
    counts = {name: Counter(text.count("1") for text in texts(puzzle, data)) for name, data in splits.test.items()}
    middle = sum(counts["random"][ones] for ones in range(6, 11)) / 3400
    assert middle == pytest.approx(0.79, abs=0.03)  # of all strings of 16 bits, 79 % have 6 to 10 ones
    assert all(counts["uniform"][ones] == pytest.approx(200, abs=60) for ones in range(17))


def test_parity_lengths_are_spread_over_their_range() -> None:
    puzzle = task("parity", "data.shortest=10", "data.length=14")
    lengths = Counter(len(text) for text in texts(puzzle, puzzle.splits().train))
    assert set(lengths) == set(range(10, 15))
    assert all(count == pytest.approx(4000, rel=0.1) for count in lengths.values())


@pytest.mark.parametrize("pattern", ["cab", "aa", "abcd", "b"])
def test_substring_strings_and_labels(pattern: str) -> None:
    puzzle = task("substring", f"data.pattern={pattern}", "data.examples=2000", "data.longer=60")
    splits = puzzle.splits()
    for data, length in ((splits.train, 20), (splits.test["same"], 20), (splits.test["longer"], 60)):
        strings = texts(puzzle, data)
        assert {len(text) for text in strings} == {length}
        assert [pattern in text for text in strings] == data.labels.astype(bool).tolist()
        assert data.labels.mean() == 0.5


def test_substring_negatives_are_near_misses_too() -> None:
    puzzle = task("substring")
    data = puzzle.splits().test["same"]
    negatives = [text for text, label in zip(texts(puzzle, data), data.labels, strict=True) if not label]

    def nearly(text: str) -> bool:
        windows = (text[index : index + 3] for index in range(len(text) - 2))
        return any(sum(a == b for a, b in zip(window, "cab", strict=True)) == 2 for window in windows)

    random = np.random.default_rng(0)
    plain = ["".join(random.choice(list("abcd"), 20)) for _ in range(4000)]
    plain = [text for text in plain if "cab" not in text]
    assert np.mean([nearly(text) for text in negatives]) > np.mean([nearly(text) for text in plain])


def test_substring_strings_for_testing_are_never_seen_in_training() -> None:
    puzzle = task("substring", "data.length=14")
    splits = puzzle.splits()
    assert not set(texts(puzzle, splits.train)) & held_out(puzzle, splits)
    assert splits.notes == ()


def test_substring_says_where_there_are_too_few_strings() -> None:
    puzzle = task("substring", "data.length=12", "data.shortest=4")
    splits = puzzle.splits()
    shared = set(texts(puzzle, splits.train)) & held_out(puzzle, splits)
    assert 0 < max(map(len, shared)) <= 8
    assert splits.notes == ("strings of up to 8 letters are in both train and test: there are too few of them",)


@pytest.mark.parametrize("name", ["parity", "substring"])
def test_data_are_a_function_of_the_seed(name: str) -> None:
    same, again = (task(name, "train.seed=5").splits() for _ in range(2))
    other = task(name, "train.seed=6").splits()
    assert np.array_equal(same.train.tokens, again.train.tokens)
    assert not np.array_equal(same.train.tokens, other.train.tokens)


def test_cls_stands_in_front_only_for_the_pooling_that_reads_it() -> None:
    for pooling, extra in (("cls", 1), ("mean", 0)):
        batch = task("substring", f"model.pooling={pooling}").splits().train.batch(np.arange(4))
        assert batch.inputs.shape == (4, 20 + extra)
        assert (batch.inputs[:, 0] == 1).all() == bool(extra)


def test_batches_are_padded_and_know_their_lengths() -> None:
    sequences: Any = LabelledSequences.of([np.array([2, 3, 4]), np.array([5]), np.array([6, 7])], [0, 1, 1])
    batch = sequences.batch(np.array([2, 1, 0]))
    assert batch.inputs.tolist() == [[6, 7, 0], [5, 0, 0], [2, 3, 4]]
    assert batch.lengths is not None
    assert batch.lengths.tolist() == [2, 1, 3]
    assert batch.targets.tolist() == [1, 1, 0]
    assert batch.tokens == 6
    assert sequences.batch(np.array([0])).lengths is None
    short, long = batch.split(2)
    assert (short.inputs.tolist(), short.targets.tolist()) == ([[5, 0], [6, 7]], [1, 1])
    assert short.lengths is not None
    assert short.lengths.tolist() == [1, 2]
    assert (long.inputs.tolist(), long.targets.tolist(), long.lengths) == ([[2, 3, 4]], [0], None)
    assert [len(part) for part in batch.split(9)] == [1, 1, 1]
    assert [len(part) for part in sequences.batch(np.array([0, 0, 0])).split(2)] == [2, 1]
    assert batch.take(slice(0, 2)).inputs.tolist() == [[6, 7], [5, 0]]
    batches = list(sequences.batches(rows=2))
    assert [rows.tolist() for rows, _ in batches] == [[1, 2], [0]]
    assert [each.inputs.tolist() for _, each in batches] == [[[5, 0], [6, 7]], [[2, 3, 4]]]


def test_a_softmax_over_two_scores_is_a_sigmoid_of_their_difference() -> None:
    scores, targets = torch.randn(20, 2), torch.randint(2, (20,))
    difference = scores[:, 1:] - scores[:, :1]
    torch.testing.assert_close(cross_entropy(scores, targets).total, binary_cross_entropy(difference, targets).total)
    torch.testing.assert_close(scores.softmax(dim=-1), no_and_yes(difference))


def test_losses_by_hand() -> None:
    scores, targets = torch.randn(4, 5, 7), torch.randint(7, (4, 5))
    probabilities = scores.double().exp() / scores.double().exp().sum(dim=-1, keepdim=True)
    expected = -sum(probabilities[b, t, targets[b, t]].log().item() for b in range(4) for t in range(5))
    tally = cross_entropy(scores, targets)
    assert tally.total.item() == pytest.approx(expected, rel=1e-6)
    assert tally.count == 20
    single, answers = torch.randn(6, 1), torch.randint(2, (6,))
    yes = 1 / (1 + (-single.double().squeeze()).exp())
    by_hand = -torch.where(answers == 1, yes, 1 - yes).log().sum()
    binary = binary_cross_entropy(single, answers)
    assert binary.total.item() == pytest.approx(by_hand.item(), rel=1e-6)
    assert binary.count == 6


def test_a_mean_does_not_depend_on_how_examples_are_grouped() -> None:
    scores, targets = torch.randn(10, 3), torch.randint(3, (10,))
    parts = [cross_entropy(scores[rows], targets[rows]) for rows in (slice(0, 7), slice(7, 9), slice(9, 10))]
    torch.testing.assert_close((parts[0] + parts[1] + parts[2]).mean, cross_entropy(scores, targets).mean)


def test_strings_without_a_pattern_are_counted() -> None:
    for pattern, length in product(("a", "ab", "aab", "aba", "cab", "aaa", "abab"), range(7)):
        strings = ("".join(letters) for letters in product("abc", repeat=length))
        assert count_without(pattern, "abc", length) == sum(pattern not in text for text in strings)


def test_where_few_strings_lack_the_pattern_they_are_in_train_and_test() -> None:
    overrides = ["data.pattern=ab", "data.letters=2", "data.examples=100", "data.tests=20"]
    splits = task("substring", *overrides).splits()
    assert len(splits.train) == 100
    assert "there are too few of them" in splits.notes[0]


def test_the_order_is_a_shuffle_of_its_own_in_each_epoch_and_with_each_seed() -> None:
    order = ExampleSampler(np.ones(10), 4, None, seed=1)
    epochs = [np.concatenate([order.rows_at(step) for step in range(first, first + 3)]) for first in (1, 4, 7)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert order.rows_at(2).tolist() == epochs[0][4:8].tolist()
    assert ExampleSampler(np.ones(10), 4, None, seed=2).rows_at(1).tolist() != epochs[0][:4].tolist()


def test_swapping_not_and_really_turns_a_review_round_and_keeps_its_words() -> None:
    """So no way of counting words can tell: each review has a twin with the same words and the other label."""
    swapped = {"not": "really", "really": "not"}
    for seed in range(200):
        text, twin = (review(label, 2, np.random.default_rng(seed)) for label in (0, 1))
        assert " ".join(swapped.get(word, word) for word in text.split()) == twin
        assert Counter(text.split()) == Counter(twin.split())
        assert set(text.split()) <= set(all_words())


def test_plain_reviews_have_words_of_one_kind_and_no_negation() -> None:
    for label, words in enumerate((BAD, GOOD)):
        text = plain_review(label, 2, np.random.default_rng(label)).split()
        assert "not" not in text
        assert sum(word in {*words["was"], *words["did"]} for word in text) == 4
        assert set(text) <= set(all_words())
    half = task("reviews", "data.plain=0.5", "data.examples=2000")
    without = ["not" not in text for text in texts(half, half.splits().train)]
    assert 0.45 < np.mean(without) < 0.55


def test_reviews_fit_their_length_and_are_in_one_part_each() -> None:
    puzzle = task("reviews", "data.pairs=2", "data.examples=3000", "data.tests=500")
    splits = puzzle.splits()
    symbols = np.array(puzzle.vocabulary.symbols)  # type: ignore[attr-defined]
    actual = [
        " ".join(symbols[data.tokens[start : start + size]])
        for data in splits.sets.values()
        for start, size in zip(data.starts, data.sizes, strict=True)
    ]
    assert len(set(actual)) == len(actual) == 4000
    assert max(data.lengths.max() for data in splits.sets.values()) <= puzzle.length  # type: ignore[attr-defined]
    assert splits.train.labels.mean() == 0.5
