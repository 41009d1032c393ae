"""Word vectors: the engine beside a slow one in float64, units and files beside those of fastText and gensim."""

import itertools
import json
import math
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway as hw
from conftest import Outcome, write_pairs, write_reviews, write_texts
from headway import recipes
from headway.config.errors import BadSetting, Problem
from headway.data import ragged as whole
from headway.data.ragged import RaggedTokens
from headway.lab.word_vectors import map_words
from headway.runs.fit import resume, start
from headway.runs.run import Run
from headway.runs.warm_start import word_vectors_of
from headway.tasks.abilities import Tokenizes, need
from headway.tasks.word2vec import gpu_engine
from headway.tasks.word2vec.cpu_engine import (
    FULL,
    GOLDEN,
    HIERARCHICAL,
    LOW,
    NEGATIVE,
    SHARES,
    CpuEngine,
    EngineConfig,
    TrainingText,
    epoch_key,
    learner,
)
from headway.tasks.word2vec.evaluation import Judged, analogies, similarities, spearman
from headway.tasks.word2vec.fasttext import MAGIC, VERSION
from headway.tasks.word2vec.formats import FORMATS, read, write
from headway.tasks.word2vec.gpu_engine import GpuEngine
from headway.tasks.word2vec.loop import VectorLoop, engine_of
from headway.tasks.word2vec.model import NO_PATHS, VectorsSpec, WordVectorModel, full, hierarchical, huffman, negative
from headway.tasks.word2vec.ngrams import Ngrams, word_rows
from headway.tasks.word2vec.phrases import Phrases, join_phrases
from headway.tasks.word2vec.vectors import WordVectorsTask
from headway.tasks.word2vec.windows import ONE, AliasTable, ChunkSampler, WordTexts, keep_probability
from headway.tasks.word2vec.word_vectors import Buckets, WordVectors
from headway.text.extension import with_words
from headway.text.tokenizer import Tokenizer
from headway.text.words import LINE_END

Headway = Callable[..., Outcome]
KINDS = {"full": FULL, "negative": NEGATIVE, "hierarchical": HIERARCHICAL}
SENTENCE_END = 0
WORDS = ["\n", "the", "ship", "sails", "sail", "ships", "köln", "a"]
COUNTS = np.array([0, 50, 9, 8, 7, 6, 3, 30])


def mixed(number: int) -> int:
    whole = (1 << 64) - 1
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & whole
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & whole
    return number ^ (number >> 31)


def config_of(cbow: bool, kind: str, ngrams: Ngrams | None, window: int = 2) -> EngineConfig:
    starts, rows = word_rows(WORDS, ngrams)
    paths = huffman(COUNTS) if kind == "hierarchical" else NO_PATHS
    negatives = 3 if kind == "negative" else 0
    return EngineConfig(cbow, KINDS[kind], window, negatives, *AliasTable.of(COUNTS**0.75), starts, rows, *paths)


def sentences_in(text: TrainingText) -> list[list[int]]:
    """The positions of the words of each sentence."""
    sentences: list[list[int]] = []
    for first, size in zip(text.starts.tolist(), text.sizes.tolist(), strict=True):
        sentences.append([])
        for index in range(first, first + size):
            if text.tokens[index] == text.sentence_end:
                sentences.append([])
            else:
                sentences[-1].append(index)
    return sentences


def slow(
    text: TrainingText, config: EngineConfig, inputs: np.ndarray, outputs: np.ndarray, rate: float, key: int
) -> tuple[float, int]:
    """The same in float64, written down as plainly as can be."""
    loss, count = 0.0, 0
    rows_of = [config.rows[config.row_starts[word] : config.row_starts[word + 1]] for word in range(len(WORDS))]

    def towards(target: int, hidden: np.ndarray, drawn: list[int]) -> np.ndarray:
        nonlocal loss
        gradient = np.zeros_like(hidden)
        if config.loss == FULL:
            scores = outputs @ hidden
            chances = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
            loss -= math.log(chances[target])
            steps = list(enumerate((np.arange(len(outputs)) == target) - chances))
        else:
            if config.loss == NEGATIVE:
                asked = [(target, True), *((word, False) for word in drawn if word != target)]
            else:
                way = slice(config.path_starts[target], config.path_starts[target + 1])
                asked = list(zip(config.nodes[way].tolist(), config.codes[way].tolist(), strict=True))
            steps = []
            for row, yes in asked:
                chance = 1 / (1 + math.exp(-outputs[row] @ hidden))
                loss -= math.log(chance if yes else 1 - chance)
                gradient += (yes - chance) * rate * outputs[row]
                outputs[row] += (yes - chance) * rate * hidden
        for row, step in steps:
            gradient += step * rate * outputs[row]
            outputs[row] += step * rate * hidden
        return gradient

    for positions in sentences_in(text):
        chances = {index: mixed((int(key) + index * GOLDEN) & ((1 << 64) - 1)) for index in positions}
        kept = [index for index in positions if chances[index] >> 32 < int(text.keep[text.tokens[index]])]
        words = [int(text.tokens[index]) for index in kept]
        means: dict[int, np.ndarray] = {}
        moved: dict[int, np.ndarray] = {}
        for middle in range(len(kept)):
            if middle > config.window:
                gone = middle - config.window - 1
                for row in () if config.plain else rows_of[words[gone]]:
                    inputs[row] += moved[gone]
            for index in range(min(middle + config.window + 1, len(kept))):
                if index not in means:
                    own = rows_of[words[index]]
                    means[index] = inputs[own[0]] if config.plain else inputs[own].mean(axis=0)  # the row itself moves
                    moved[index] = np.zeros_like(means[index])
            chance = chances[kept[middle]]
            reach = 1 + (chance & LOW) % config.window
            around = [p for p in range(middle - reach, middle + reach + 1) if 0 <= p < len(kept) and p != middle]
            drawn = []
            for _ in range(config.negatives if around else 0):
                chance = mixed((chance + GOLDEN) & ((1 << 64) - 1))
                index = ((chance >> 32) * len(WORDS)) >> 32
                drawn.append(index if chance & LOW < int(config.probability[index]) else int(config.alias[index]))
            if config.cbow and around:
                sizes = [len(rows_of[words[index]]) for index in around]
                hidden = np.average([means[index] for index in around], axis=0, weights=sizes)
                gradient = towards(words[middle], hidden, drawn)
                count += 1
                for index in around:
                    means[index] += gradient
                    moved[index] += gradient
            elif not config.cbow:
                for index in around:
                    gradient = towards(words[middle], means[index], drawn)
                    count += 1
                    means[index] += gradient
                    moved[index] += gradient
        for index in range(max(0, len(kept) - config.window - 1), len(kept)):
            for row in () if config.plain else rows_of[words[index]]:
                inputs[row] += moved[index]
    return loss, count


def as_mapped(tokens: np.ndarray) -> np.ndarray:
    """Such as they come from the cache: then nothing has to be compiled twice."""
    actual = tokens.astype(np.uint16)
    actual.flags.writeable = False
    return actual


@pytest.mark.parametrize("ngrams", [None, Ngrams(3, 4, 11)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cbow", [False, True])
def test_the_engine_is_the_slow_one(cbow: bool, kind: str, ngrams: Ngrams | None) -> None:
    random = np.random.default_rng(1)
    sizes = np.array([40, 1, 0, 3, 2])
    tokens = as_mapped(random.integers(0, len(WORDS), sizes.sum()))
    kept = (keep_probability(COUNTS, 0.05) * ONE).astype(np.uint64)
    text, config = (
        TrainingText(tokens, np.cumsum(sizes) - sizes, sizes, kept, SENTENCE_END),
        config_of(cbow, kind, ngrams),
    )
    rows = len(WORDS) + (0 if ngrams is None else ngrams.buckets)
    inputs, outputs = 0.5 * random.standard_normal((rows, 12)), 0.5 * random.standard_normal((len(WORDS), 12))
    own = inputs.astype(np.float32), outputs.astype(np.float32)
    key = epoch_key(7, 3)
    actual = learner(cbow, config.loss, config.plain)(text, config, *own, 0, len(sizes), 0.1, key)
    expected = slow(text, config, inputs, outputs, 0.1, int(key))
    assert actual[1] == expected[1] > 10
    assert actual[0] == pytest.approx(expected[0], rel=1e-5)
    np.testing.assert_allclose(own[0], inputs, atol=2e-5)
    np.testing.assert_allclose(own[1], outputs, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cbow", [False, True])
def test_a_step_goes_down_the_gradient_of_the_loss(cbow: bool, kind: str) -> None:
    """Two words, each the other's only one around: what moves is the rate times the gradient."""
    config = config_of(cbow, kind, None, window=1)
    shape = VectorsSpec(len(WORDS), len(WORDS), config.row_starts, config.rows, cbow, kind, huffman(COUNTS))
    model = WordVectorModel(shape, 6).double()
    with torch.no_grad():
        model.outputs.normal_(generator=torch.Generator().manual_seed(1))
        model.inputs.normal_(generator=torch.Generator().manual_seed(2))
    text = TrainingText(
        as_mapped(np.array([2, 4])), np.array([0]), np.array([2]), np.full(len(WORDS), ONE, np.uint64), SENTENCE_END
    )
    rate, key, whole = 1e-4, epoch_key(1, 1), (1 << 64) - 1
    drawn = []
    for index in range(2):
        chance, own = mixed((int(key) + index * GOLDEN) & whole), []
        for _ in range(config.negatives):
            chance = mixed((chance + GOLDEN) & whole)
            at = ((chance >> 32) * len(WORDS)) >> 32
            own.append(at if chance & LOW < int(config.probability[at]) else int(config.alias[at]))
        drawn.append(own)
    middle, around = torch.tensor([2, 4]), torch.tensor([[4], [2]])
    negatives = torch.tensor(drawn, dtype=torch.long).reshape(2, config.negatives)
    loss = model.loss(middle, around, torch.ones(2, 1, dtype=torch.bool), negatives)
    loss.total.backward()
    before = [weight.detach().numpy().astype(np.float32) for weight in model.parameters()]
    after = [each.copy() for each in before]
    total, count = learner(cbow, config.loss, config.plain)(text, config, *after, 0, 1, rate, key)
    assert count == loss.count == 2
    assert total == pytest.approx(loss.total.item(), rel=1e-3)
    for one, other, weight in zip(before, after, model.parameters(), strict=True):
        assert weight.grad is not None
        np.testing.assert_allclose((one - other) / rate, weight.grad.numpy(), atol=0.02)


def test_the_losses_have_the_gradients_that_they_should() -> None:
    random = torch.Generator().manual_seed(0)
    hidden, outputs = (torch.randn(n, 4, generator=random, dtype=torch.double, requires_grad=True) for n in (5, 7))
    targets, negatives = torch.tensor([0, 3, 6, 2, 2]), torch.randint(7, (5, 3), generator=random)
    turns, there = torch.rand(5, 3, generator=random) < 0.5, torch.rand(5, 3, generator=random) < 0.8
    for loss in (
        lambda h, w: full(h, w, targets).total,
        lambda h, w: negative(h, w, targets, negatives).total,
        lambda h, w: hierarchical(h, w, negatives, turns, there).total,
    ):
        assert torch.autograd.gradcheck(loss, (hidden, outputs))


def slow_blocks(
    text: TrainingText, config: EngineConfig, inputs: np.ndarray, outputs: np.ndarray, rate: float, key: int
) -> Any:
    """An update for the whole of a stretch, pair by pair: what tasks/word2vec/gpu_engine does in products."""
    whole, rows_of = (1 << 64) - 1, [config.rows[a:b] for a, b in itertools.pairwise(config.row_starts)]
    kept = []  # the text, the word and the chance of each word that is read
    for number, positions in enumerate(sentences_in(text)):
        for index in positions:
            chance, word = mixed((key + index * GOLDEN) & whole), int(text.tokens[index])
            if chance >> 32 < int(text.keep[word]):
                kept.append((number, word, chance))
    loss, count = 0.0, 0
    moved = [np.zeros_like(outputs) for _ in range(2)]  # of input and output vectors
    pairs = [np.zeros(len(outputs)) for _ in range(2)]
    for middle, (number, word, chance) in enumerate(kept):
        reach, drawn = 1 + (chance & LOW) % config.window, []
        for step in range(1, gpu_engine.NEGATIVES + 1):
            first = kept[middle // gpu_engine.BLOCK * gpu_engine.BLOCK][2]
            own = mixed((first + step * GOLDEN) & whole)
            at = ((own >> 32) * len(WORDS)) >> 32
            drawn.append(at if own & LOW < int(config.probability[at]) else int(config.alias[at]))
        near = range(max(0, middle - reach), min(len(kept), middle + reach + 1))
        around = [kept[index][1] for index in near if index != middle and kept[index][0] == number]
        for inputs_of_pair in [around] if config.cbow and around else [[each] for each in around]:
            rows = np.concatenate([rows_of[each] for each in inputs_of_pair])
            hidden = inputs[rows].mean(axis=0)
            share = config.negatives / gpu_engine.NEGATIVES
            count += 1
            np.add.at(pairs[0], inputs_of_pair, 1)
            for row, yes, weight in [(word, 1, 1.0), *((each, 0, share) for each in drawn if each != word)]:
                likely = 1 / (1 + math.exp(-outputs[row] @ hidden))
                loss -= weight * math.log(likely if yes else 1 - likely)
                pairs[1][row] += weight
                moved[1][row] += weight * (yes - likely) * hidden
                np.add.at(moved[0], inputs_of_pair, weight * (yes - likely) * outputs[row])
    to_inputs, to_outputs = (
        rate * move / np.maximum(rate * met / gpu_engine.MAX_STEP, 1)[:, None]
        for move, met in zip(moved, pairs, strict=True)
    )
    outputs += to_outputs
    for word, rows in enumerate(rows_of):
        np.add.at(inputs, rows, to_inputs[word])
    return loss, count


@pytest.mark.parametrize("ngrams", [None, Ngrams(3, 4, 11)])
@pytest.mark.parametrize("cbow", [False, True])
def test_blocks_are_the_slow_ones(cbow: bool, ngrams: Ngrams | None) -> None:
    """For few blocks an update is a sum over all pairs."""
    random = np.random.default_rng(2)
    sizes = np.array([90, 1, 30, 3, 200, 7])
    gaps = np.array([0, 3, 0, 1, 0, 0])  # words of texts that are not learned from
    tokens = random.integers(0, len(WORDS), (sizes + gaps).sum()).astype(np.uint16)
    kept = (keep_probability(COUNTS, 0.05) * ONE).astype(np.uint64)
    text, config = (
        TrainingText(tokens, np.cumsum(sizes + gaps) - sizes, sizes, kept, SENTENCE_END),
        config_of(cbow, "negative", ngrams),
    )
    rows = len(WORDS) + (0 if ngrams is None else ngrams.buckets)
    inputs, outputs = 0.5 * random.standard_normal((rows, 12)), 0.5 * random.standard_normal((len(WORDS), 12))
    own = torch.from_numpy(inputs.copy()), torch.from_numpy(outputs.copy())
    key = epoch_key(7, 3)
    before = np.float32(inputs), np.float32(outputs)
    expected = slow_blocks(text, config, inputs, outputs, 0.1, int(key))
    loss, count = GpuEngine(text, config, *own).learn(0, len(sizes), 0.1, key)
    assert count == expected[1]
    assert loss == pytest.approx(expected[0])
    np.testing.assert_allclose(own[0], inputs, atol=1e-12)
    np.testing.assert_allclose(own[1], outputs, atol=1e-12)
    also = learner(config.cbow, config.loss, config.plain)(text, config, *before, 0, len(sizes), 0.1, key)
    assert also[1] == count  # both engines look at the same pairs


def test_the_ways_of_a_tree_share_out_all_chances_and_are_the_shortest() -> None:
    """Over a tree, the chances of all words add up to 1; frequent words have shorter ways."""
    paths = huffman(np.array([50, 1, 20, 5, 9, 2]))
    random = np.random.default_rng(0)
    yes = 1 / (1 + np.exp(-random.standard_normal(5)))
    chances = []
    for word in range(6):
        way = slice(paths.starts[word], paths.starts[word + 1])
        chances.append(np.prod(np.where(paths.codes[way], yes[paths.nodes[way]], 1 - yes[paths.nodes[way]])))
    assert sum(chances) == pytest.approx(1)
    assert np.diff(paths.starts).tolist() == [1, 5, 2, 4, 3, 5]


def test_words_are_drawn_and_thinned_out_as_often_as_they_should() -> None:
    weights = np.array([5.0, 0.0, 1.0, 3.0, 0.5])
    table = AliasTable.of(weights)
    share = table.probability / ONE
    actual = share.copy()
    for index, other in enumerate(table.alias):
        actual[other] += 1 - share[index]
    np.testing.assert_allclose(actual / 5, weights / weights.sum(), atol=1e-9)
    kept = keep_probability(np.array([90, 10, 0]), 0.1)
    assert kept.tolist() == pytest.approx([math.sqrt(1 / 9) + 1 / 9, 1, 0])
    assert keep_probability(np.array([90, 0]), 0).tolist() == [1, 0]


def test_words_that_do_not_count_are_never_drawn() -> None:
    for power in (0.75, 0.0, -0.5):
        words = WordTexts(
            np.empty(0),
            np.empty(0),
            np.empty(0),
            word_counts=np.array([0, 9, 4, 0]),
            window=1,
            sample=0.0,
            negatives=5,
            power=power,
        )
        drawn = words.sample_negatives(np.random.default_rng(0), (1000,))
        assert set(drawn.tolist()) == {1, 2}
    with pytest.raises(Problem, match="from 1 to 1000, not 1001"):
        recipes.load("vectors", ["data.softmax=negative(count=1001)"])


@pytest.mark.parametrize(
    "key", ["average=ema", "grad_clip=2", "precision=bf16", "freeze=inputs", "optimizer=muon", "batch_tokens=9"]
)
def test_what_word_vectors_do_not_learn_by_is_refused(key: str) -> None:
    with pytest.raises(BadSetting, match=f"train.{key.partition('=')[0]}"):
        recipes.load("vectors", [f"train.{key}"])


@pytest.mark.parametrize("softmax", KINDS)
def test_a_stretch_without_pairs_has_no_loss(softmax: str) -> None:
    config = config_of(False, softmax, None)
    model = WordVectorModel(
        VectorsSpec(len(WORDS), len(WORDS), config.row_starts, config.rows, False, softmax, huffman(COUNTS)), 6
    )
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    loss = model.loss(
        torch.tensor([2]), torch.zeros(1, 2, dtype=torch.long), nothing, torch.zeros(1, 3, dtype=torch.long)
    )
    assert (loss.total.item(), int(loss.count)) == (0, 0)


def test_every_text_is_in_one_stretch() -> None:
    order = ChunkSampler(np.array([3, 3, 10, 1, 1, 1]), 5)
    assert [each.tolist() for each in order.epoch(2)] == [[2, 0, 2], [2, 2, 3], [2, 3, 6]]
    assert order.steps_in(2) == 6


def test_windows_end_where_a_line_does(tmp_path: Path) -> None:
    """Each line has words of its own: those of two lines are never a pair, in learning as in measuring."""
    lines = [f"left{number % 3} right{number % 3}" for number in range(30)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    overrides = [f"data.train={tmp_path / 'text.txt'}", *SMALL]

    def pairs_of(*more: str) -> tuple[set[tuple[str, str]], int, WordVectorsTask]:
        session = start(recipes.load("vectors", [*overrides, *more]), tmp_path / f"run {len(more)}")
        data, task, loop = session.splits.train, session.task, session.loop
        assert isinstance(task, WordVectorsTask)
        assert isinstance(loop, VectorLoop)
        batch = data.batch(np.arange(len(data)))
        middles, indices = batch.weights.nonzero(as_tuple=True)
        pairs = zip(batch.targets[middles].tolist(), batch.inputs[middles, indices].tolist(), strict=True)
        learned = loop.engine.learn(0, len(data), 0.0, epoch_key(1, 1))[1]
        return {(task.words[one], task.words[other]) for one, other in pairs}, learned, task

    pairs, learned, task = pairs_of("data.sample=0")
    assert pairs == {pair for n in range(3) for pair in itertools.permutations([f"left{n}", f"right{n}"])}
    assert learned == 2 * len(lines)
    assert task.counts[task.sentence_end] == 0  # it has no vector, and is never drawn
    pairs, learned, _ = pairs_of("data.sample=0", "data.tokenizer=word(signs=False)")
    assert ("right0", "left1") in pairs
    assert learned > 2 * len(lines)
    rare = Tokenizer.learn("word(lines=True)", ["a b\nc"], "lower", 9, least_count=2)
    assert rare.vocabulary.index[LINE_END] > 0


# --- phrases


def slow_phrases(texts: list[list[int]], counts: np.ndarray, how: Phrases) -> tuple[list[list[int]], list[list[int]]]:
    pairs = Counter(pair for text in texts for pair in itertools.pairwise(text) if counts[list(pair)].all())
    scores = {
        (left, right): (times - how.least) / counts[left] / counts[right] * counts.sum()
        for (left, right), times in pairs.items()
        if times >= how.least
    }
    phrases = sorted((pair for pair, score in scores.items() if score > how.threshold), key=lambda p: (-scores[p], p))
    joined_texts = []
    for text in texts:
        new, index = [], 0
        while index < len(text):
            pair = (text[index], text[index + 1]) if index + 1 < len(text) else None
            is_phrase = pair in phrases
            new.append(len(counts) + phrases.index(pair) if is_phrase else text[index])  # type: ignore[arg-type]
            index += 1 + is_phrase
        joined_texts.append(new)
    return [list(pair) for pair in phrases], joined_texts


@pytest.mark.parametrize("at_once", [7, 1000])
def test_phrases_are_those_of_a_slow_count(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "CHUNK", at_once)
    random = np.random.default_rng(3)
    texts = [random.choice([1, 1, 2, 2, 2, 3, 4, 5], random.integers(1, 30)).tolist() for _ in range(40)]
    tokens = np.concatenate([[9, 9], *texts, [9]])
    sizes = np.array([len(text) for text in texts])
    running = RaggedTokens(tokens.astype(np.uint16), 2 + np.cumsum(sizes) - sizes, sizes, f"texts {at_once}")
    counts = running.counts(6)
    assert counts.tolist() == np.bincount(np.concatenate(texts), minlength=6).tolist()
    counts[5] = 0  # a word that does not count
    how = Phrases(threshold=0.8, least=3)
    pairs, expected = slow_phrases(texts, counts, how)
    assert len(pairs) > 2
    actual = how.find(running, counts)
    assert actual.tolist() == pairs
    after = join_phrases(running, actual, 6)
    assert [after.tokens[a : a + n].tolist() for a, n in zip(after.starts, after.sizes, strict=True)] == expected
    assert join_phrases(running, actual[:0], 6) is running


def test_phrases_are_of_the_texts_that_are_learned_from(tmp_path: Path) -> None:
    """Two runs that leave out one of two texts each, with the same words in another order."""
    lines = ["new york is old", "york old is new"]
    rows = [json.dumps({"text": line}) + "\n" for line in lines]
    (tmp_path / "all.jsonl").write_text("".join(rows + ['{"text": "new york new york"}\n'] * 9))
    learned = []
    for index, row in enumerate(rows):
        (tmp_path / f"{index}.jsonl").write_text(row)
        overrides = [f"data.train={tmp_path / 'all.jsonl'}", f"data.exclude={tmp_path / f'{index}.jsonl'}", *SMALL]
        overrides += ["data.phrases=scored(threshold=0.1, least=5)"]
        session = start(recipes.load("vectors", overrides), tmp_path / f"run-{index}")
        task, data = session.task, session.splits.train
        assert isinstance(task, WordVectorsTask)
        tokens = data.tokens[data.starts[0] : data.starts[0] + data.sizes[0]]
        learned.append(" ".join(task.words[token] for token in tokens))
    assert learned == ["york old is new", "new_york is old"]


def test_a_run_knows_phrases(headway: Headway, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lines = (f"{random.choice(['new york', 'old tree', 'new york times'])} {random.integers(40)}" for _ in range(400))
    (tmp_path / "text.txt").write_text("\n".join(lines))
    overrides = [f"data.train={tmp_path / 'text.txt'}", *SMALL, "data.phrases=scored(threshold=2, passes=2)"]
    assert headway("vectors", "train", *overrides, "--out", "run").code == 0
    assert {"new_york", "old_tree", "new_york_times"} < set(word_vectors_of(Path("run")).words)
    assert headway("vectors", "nearest", "run", "new_york").code == 0
    assert headway("evaluate", "run").code == 0
    (Path("run") / "phrases-1.npy").unlink()
    outcome = headway("vectors", "nearest", "run", "new_york")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


# --- units


UNITS = [
    *("<pyt", "<pyth", "<pytho", "pyth", "pytho", "python"),
    *("ytho", "ython", "ython>", "thon", "thon>", "hon>"),
]


def test_the_units_of_a_word() -> None:
    assert Ngrams(4, 6).of("python") == UNITS
    assert Ngrams(1, 2).of("ab") == ["<a", "a", "ab", "b", "b>"]
    assert Ngrams(3, 3).of("öl") == ["<öl", "öl>"]
    assert Ngrams(6, 6).of("a") == []


def test_the_command_lists_them(headway: Headway) -> None:
    report = json.loads(headway("ngrams", "python", "--min", "4", "--max", "6", "--json").out)
    assert [each["unit"] for each in report] == ["<python>", *UNITS]
    assert [each["bucket"] is None for each in report] == [True, *[False] * len(UNITS)]
    assert "shared" in headway("ngrams", "python", "--buckets", "3").out
    assert headway("ngrams", "python", "--min", "5", "--max", "4").code == 2


def test_units_buckets_and_files_are_those_of_fasttext(tmp_path: Path) -> None:
    fasttext = pytest.importorskip("fasttext")
    (tmp_path / "text.txt").write_text("the ship sails to köln and the ships sail\n" * 20, encoding="utf-8")
    how = {"minCount": 1, "dim": 7, "bucket": 50, "minn": 3, "maxn": 5, "epoch": 1, "thread": 2, "verbose": 0}
    for _ in range(9):  # some builds of it begin with whatever stands in the memory, and may find no number there
        try:
            model = fasttext.train_unsupervised(str(tmp_path / "text.txt"), **how)
            break
        except RuntimeError:
            continue
    random = np.random.default_rng(0)
    sizes = [matrix.shape for matrix in (model.get_input_matrix(), model.get_output_matrix())]
    model.set_matrices(*(random.standard_normal(size).astype(np.float32) for size in sizes))
    model.save_model(str(tmp_path / "model.bin"))
    table = read(tmp_path / "model.bin")
    assert table.words == model.get_words()
    for word in ("ship", "sailing", "kölner", "日本語"):
        units, rows = model.get_subwords(word)
        own = Ngrams(3, 5, 50)
        known = word in table
        assert own.of(word) == units[known:]
        assert own.rows(word, len(table)) == rows[known:].tolist()
        np.testing.assert_allclose(table.vector(word), model.get_word_vector(word), atol=1e-6)


# --- files


def table(words: tuple[str, ...] = ("the", "ship", "köln", "a-b")) -> WordVectors:
    return WordVectors(list(words), np.random.default_rng(0).standard_normal((len(words), 5)).astype(np.float32))


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read_again(form: str, tmp_path: Path) -> None:
    FORMATS[form](table(), tmp_path / "vectors")
    actual = read(tmp_path / "vectors")
    assert actual.words == table().words
    assert np.array_equal(actual.matrix, table().matrix)


def test_any_first_number_of_a_binary_file_is_no_text(tmp_path: Path) -> None:
    for first in range(256):
        numbers = np.frombuffer(bytes([first, 0, 0x80, 0x3F]), "<f4")
        one = WordVectors(["the", "ship"], np.tile(numbers, (2, 6)))
        write(one, tmp_path / "vectors", "word2vec")
        assert np.array_equal(read(tmp_path / "vectors").matrix, one.matrix)
    before = (tmp_path / "vectors").read_bytes()
    with pytest.raises(Problem, match="cannot be written in this format"):
        write(WordVectors(["the", "a ship"], np.ones((2, 3), np.float32)), tmp_path / "vectors", "word2vec")
    assert (tmp_path / "vectors").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("binary", [False, True])
def test_files_go_to_gensim_and_back(binary: bool, tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    FORMATS["word2vec" if binary else "text"](table(), tmp_path / "ours")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
    assert theirs.index_to_key == table().words
    assert np.array_equal(theirs.vectors, table().matrix)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    actual = read(tmp_path / "theirs")
    assert actual.words == table().words
    assert np.allclose(actual.matrix, table().matrix, atol=0 if binary else 1e-6)
    theirs.save(str(tmp_path / "pickled"))
    with pytest.raises(Problem, match="is a pickle"):
        read(tmp_path / "pickled")


def with_ngrams() -> WordVectors:
    ngrams, random = Ngrams(3, 4, 11), np.random.default_rng(1)
    rows, own, outputs = (random.standard_normal((n, 5)).astype(np.float32) for n in (11, 4, 4))
    words = ["the", "ship", "köln", "a-b"]
    matrix = np.stack([np.stack([own[n], *rows[ngrams.rows(word, 0)]]).mean(axis=0) for n, word in enumerate(words)])
    return WordVectors(words, matrix, Buckets(ngrams, rows, own), np.array([9, 5, 2, 1]), outputs)


def test_a_file_of_fasttexts_keeps_all_there_is(tmp_path: Path) -> None:
    whole = with_ngrams()
    FORMATS["fasttext"](whole, tmp_path / "model.bin")
    actual = read(tmp_path / "model.bin")
    assert actual.words == whole.words
    assert actual.buckets is not None
    assert whole.buckets is not None
    for one, other in ((actual.counts, whole.counts), (actual.outputs, whole.outputs), (actual.matrix, whole.matrix)):
        assert np.array_equal(one, other)  # type: ignore[arg-type]
    assert np.array_equal(actual.vector("shipwreck"), whole.vector("shipwreck"))


@pytest.mark.parametrize("make", [table, with_ngrams])
def test_fasttext_and_gensim_read_what_is_written(make: Callable[[], WordVectors], tmp_path: Path) -> None:
    whole, words = make(), ["the", "ship", "köln"] + (["shipwreck", "kölner"] if make is with_ngrams else [])
    FORMATS["fasttext"](whole, tmp_path / "model.bin")
    theirs = pytest.importorskip("fasttext").load_model(str(tmp_path / "model.bin"))
    assert theirs.get_words() == whole.words
    for word in words:
        np.testing.assert_allclose(theirs.get_word_vector(word), whole.vector(word), atol=1e-6)
    if whole.outputs is not None:
        assert np.array_equal(theirs.get_output_matrix(), whole.outputs)
    if make is with_ngrams:  # without buckets, gensim divides by their number
        gensim = pytest.importorskip("gensim.models.fasttext").load_facebook_vectors(str(tmp_path / "model.bin"))
        for word in words:
            np.testing.assert_allclose(gensim[word], whole.vector(word), atol=1e-6)


def fasttext_file(words: list[str], matrix: np.ndarray, least: int, most: int) -> bytes:
    buckets = len(matrix) - len(words)
    fields = (matrix.shape[1], 5, 1, 1, 5, 1, 2, 2, buckets, least, most, 100, 1e-4)
    entries = b"".join(word.encode() + b"\0" + struct.pack("<qb", 3, 0) for word in words)
    head = struct.pack("<2i", MAGIC, VERSION) + struct.pack("<12id", *fields)
    about = struct.pack("<3i2q", len(words), len(words), 0, 99, -1)
    return head + about + entries + b"\0" + struct.pack("<2q", *matrix.shape) + matrix.astype("<f4").tobytes()


def test_a_fasttext_file_with_a_number_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    for row, named in ((0, "word 1, 'ship'"), (3, "bucket 1 has")):
        matrix = np.ones((12, 4), np.float32)
        matrix[row, 2] = math.nan
        (tmp_path / "model.bin").write_bytes(fasttext_file(["ship", "boat"], matrix, 3, 4))
        with pytest.raises(Problem, match=f"the vector of {named}.* a number that is not finite"):
            read(tmp_path / "model.bin")


def test_ngrams_that_nobody_can_go_through_are_refused(tmp_path: Path) -> None:
    matrix = np.ones((12, 4), np.float32)
    (tmp_path / "model.bin").write_bytes(fasttext_file(["ship", "a" * 30_000], matrix, 1, 2**31 - 1))
    with pytest.raises(Problem, match=r"of 30,000 letters with 1 to 2147483647 letters have 4,50"):
        read(tmp_path / "model.bin")
    assert len(Ngrams(1, 2**31 - 1, 10).of("a" * 300)) == 302 * 303 // 2 - 2
    assert len(Ngrams(3, 6, 10).of("a" * 30_000)) > 100_000


def test_digits_that_are_no_numbers_are_no_header(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("² ³\nship 1 2 3\n")
    with pytest.raises(Problem, match="line 1: not all are numbers"):
        read(tmp_path / "vectors.txt")


def test_a_fasttext_file_by_the_rules(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).standard_normal((2 + 11, 4)).astype(np.float32)
    content = fasttext_file(["ship", "köln"], matrix, 3, 4)
    (tmp_path / "model.bin").write_bytes(content)
    actual, ngrams = read(tmp_path / "model.bin"), Ngrams(3, 4, 11)
    np.testing.assert_allclose(actual.vector("ship"), matrix[[0, *ngrams.rows("ship", 2)]].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(actual.vector("ships"), matrix[ngrams.rows("ships", 2)].mean(axis=0), atol=1e-6)
    for size in (3, 20, 70, 90, len(content) - 1):
        (tmp_path / "short.bin").write_bytes(content[:size])
        with pytest.raises(Problem) as error:
            read(tmp_path / "short.bin")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    {
        b"": "has no vectors",
        b"2 3\nthe 1 2 3\n": "says 2 words, but there are 1",
        b"the 1 2 3\nship 1 2\n": "line 2: 2 numbers",
        b"the 1 2 3\nship 1 x 3\n": "line 2",
        b"9999999 300\nthe \x00\x01\x02\x03": "is incomplete",
        b"1 300\n" + b"x" * 2000: "line 2",
        b"2 1\nthe \x00\x00\x80\x3fship\x01\x01": "has no end",
        b"the 1 2 3\nship 1 nan 3\n": "line 2: the vector of 'ship'",
        b"1 1\nthe \x00\x00\xc0\x7f": "'the', has a number that is not finite",
        b"2 0\nthe \x00ship \x00": "says that a vector has no numbers",
    }.items(),
)
def test_a_broken_file_gets_a_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(content)
    with pytest.raises(Problem, match=message) as error:
        read(tmp_path / "vectors")
    assert "\n" not in str(error.value)


# --- tables and measures


def test_a_table_finds_what_is_near() -> None:
    words = ["man", "woman", "king", "queen", "zero"]
    matrix = np.array([[1, 0, 0.1], [0, 1, 0.1], [1, 0, 2], [0, 1, 2], [0, 0, 0]], np.float32)
    actual = WordVectors(words, matrix)
    assert actual.nearest("king", 2)[0][0] == "queen"
    assert actual.analogy("man", "woman", "king", 1)[0][0] == "queen"
    assert actual.similarity("king", "queen") == pytest.approx(4 / 5)
    assert len(actual.nearest("king", 99)) == 4
    assert all(math.isfinite(cosine) for _, cosine in actual.nearest("zero"))
    with pytest.raises(Problem, match="kings"):
        actual.vector("kings")
    spelled = WordVectors(words, matrix, Buckets(Ngrams(3, 3, 4), np.eye(4, 3, dtype=np.float32), matrix))
    assert spelled.vector("kings").shape == (3,)
    right = analogies(actual, "family", [("man", "woman", "king", "queen"), ("man", "woman", "king", "prince")])
    assert (right.right, right.asked, right.questions) == (1, 1, 2)
    pairs = [Judged("king", "queen", 9), Judged("man", "woman", 1), Judged("man", "king", 5), Judged("a", "b", 1)]
    measured = similarities(actual, pairs)
    assert measured.spearman == pytest.approx(1)
    assert measured.covered == 0.75


def test_a_map_keeps_the_directions_in_which_words_spread() -> None:
    """Points on a plane inside of a space of more directions, all of length 1: the plane is found."""
    angles = np.linspace(0, 3, 9)
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    matrix = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ turned[:2]
    words = [f"w{number}" for number in range(9)]
    where = map_words(WordVectors(words, matrix.astype(np.float32)), words)
    assert (where.min(axis=0) >= 0).all()
    assert (where.max(axis=0) <= 1).all()
    along = where[:, 0] if where[0, 0] < where[-1, 0] else where[::-1, 0]
    assert (np.diff(along) > 0).all()


def test_spearman_by_hand() -> None:
    assert spearman(np.array([1.0, 2, 2, 5]), np.array([1.0, 3, 2, 4])) == pytest.approx(0.948683, abs=1e-6)
    assert spearman(np.array([1.0, 1]), np.array([1.0, 2])) is None
    assert spearman(np.empty(0), np.empty(0)) is None


# --- runs


SMALL = ["data.min_count=1", "model.width=8", "train.batch_size=60", "train.epochs=3", "train.threads=1"]


@pytest.mark.parametrize("objective", ["skipgram", "cbow"])
@pytest.mark.parametrize("softmax", KINDS)
@pytest.mark.parametrize("units", ["words", "ngrams(buckets=50)"])
def test_a_run_learns_and_is_resumed_to_the_bit(objective: str, softmax: str, units: str, tmp_path: Path) -> None:
    overrides = [
        f"data.train={write_texts(tmp_path / 'texts')}",
        f"data.objective={objective}",
        f"data.softmax={softmax}",
    ]
    overrides += [
        f"data.units={units}",
        *SMALL,
        "train.epochs=8",
        "train.learning_rate=0.05",
        "train.checkpoint_every=4",
    ]
    recipe = recipes.load("vectors", overrides)
    losses = [step.loss for step in start(recipe, tmp_path / "whole").steps()]
    epoch = len(losses) // 8
    assert np.mean(losses[-epoch:]) < np.mean(losses[:epoch])
    steps = start(recipe, tmp_path / "halted").steps()
    first = [next(steps).loss for _ in range(4)]
    steps.close()
    assert first + [step.loss for step in resume(tmp_path / "halted").steps()] == losses
    one, other = (Run(tmp_path / name).final_checkpoint().weights for name in ("whole", "halted"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert len(word_vectors_of(tmp_path / "whole")) > 10


def test_a_single_step_learns(tmp_path: Path) -> None:
    overrides = [f"data.train={write_texts(tmp_path / 'texts')}", *SMALL, "train.batch_size=100000", "train.epochs=1"]
    (step,) = start(recipes.load("vectors", overrides), tmp_path / "run").steps()
    assert step.learning_rate == pytest.approx(0.0125)  # the mean of a rate that falls to zero


def test_threads_share_a_stretch_out(tmp_path: Path) -> None:
    overrides = [f"data.train={write_texts(tmp_path / 'texts')}", *SMALL]
    session = start(recipes.load("vectors", overrides), tmp_path / "run")
    data: Any = session.splits.train
    for threads in (1, 2, 5):
        spec = replace(session.spec, threads=threads)
        engine = engine_of(session.model, data, spec, torch.device("cpu"))  # type: ignore[arg-type]
        assert isinstance(engine, CpuEngine)
        borders = engine.shares(2, len(data))
        assert borders[0] == 2
        assert borders[-1] == len(data)
        assert borders == sorted(borders)
        assert len(borders) == SHARES * threads + 1


def test_from_texts_to_answers(headway: Headway, tmp_path: Path) -> None:
    texts = write_texts(tmp_path / "texts")
    outcome = headway("vectors", "train", f"data.train={texts}", *SMALL, "--out", "run")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1].startswith("next: headway vectors nearest run ")
    assert len(json.loads(headway("vectors", "nearest", "run", "plot", "--top", "3", "--json").out)) == 3
    assert len(json.loads(headway("vectors", "analogy", "run", "good", "bad", "plot", "--json").out)) == 10
    assert -1 <= float(headway("vectors", "similarity", "run", "plot", "music").out) <= 1
    Path("pairs.txt").write_text("plot music 3\ngood,bad,1\nplot nowhere 2\ncast plot 4\n")
    Path("questions.txt").write_text(": all\ngood bad great dull\n")
    outcome = headway("vectors", "evaluate", "run", "pairs.txt", "questions.txt")
    assert "pairs.txt" in outcome.out
    assert "75.0%" in outcome.out
    assert "all" in outcome.out
    Path("foreign.txt").write_text("haus maus 3\nbaum traum 1\n")
    report = json.loads(headway("vectors", "evaluate", "run", "foreign.txt", "--json").out)
    assert report["similarity"]["foreign.txt"] == {"spearman": None, "covered": 0, "pairs": 2}
    for out in ("map.html", "map.png"):
        assert headway("vectors", "map", "run", "--out", out, "--top", "20").code == 0
        assert Path(out).stat().st_size > 1000
    assert Path("map.html").read_text().count("<text ") == 20
    assert headway("vectors", "convert", "run", "vectors.bin", "--to", "word2vec").code == 0
    both = [headway("vectors", "nearest", source, "plot").out for source in ("run", "vectors.bin")]
    assert both[0] == both[1]
    for words in (["map", "run", "--out", "map.svg"], ["map", "run", "plot", "--out", "map.png"]):
        assert headway("vectors", *words).code == 2
    for words in (["nearest", "run", "nowhere"], ["nearest", "missing.txt", "a"], ["evaluate", "run", "vectors.bin"]):
        outcome = headway("vectors", *words)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err


# --- as the first embedding of other models


def test_a_model_begins_with_vectors(headway: Headway, tmp_path: Path) -> None:
    texts, labelled = write_texts(tmp_path / "texts"), write_reviews(tmp_path / "reviews.csv")
    assert headway("vectors", "train", f"data.train={texts}", *SMALL, "--out", "vectors").code == 0
    words = ["train", "classify", f"data.train={labelled}", "data.tokenizer=word", "model.heads=2", "train.warmup=1"]
    words += ["train.steps=3", "train.freeze=encoder.embedding", "--out", "run"]
    outcome = headway(*words, "model.embedding=./vectors", "model.width=8")
    assert outcome.code == 0, outcome.err
    run, table = Run("run"), word_vectors_of(Path("vectors"))
    symbols = need(run.task, Tokenizes).tokenizer_of("encoder.embedding").vocabulary.symbols
    known = [number for number, word in enumerate(symbols) if word in table]
    share = len(known) / len(symbols)
    assert f"encoder.embedding starts with vectors for {len(known)} of its" in outcome.out
    assert f"({share:.1%})" in outcome.out
    rows = run.final_checkpoint().weights["encoder.embedding.table.weight"][known].numpy()
    vectors = np.stack([table.vector(symbols[number]) for number in known])
    scale = np.sqrt(np.square(rows).mean() / np.square(vectors).mean())
    np.testing.assert_allclose(rows, vectors * scale, atol=1e-5)
    assert headway("evaluate", "run").code == 0
    for bad, message in {
        "model.embedding=missing.txt": "there is no file or run missing.txt",
        "model.embedding=vectors/": "set model.width=8",
        "model.embedding=look": "model.embedding",
    }.items():
        outcome = headway(*words[:-1], "other", bad, "model.width=64")
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert message in outcome.err
        assert not Path("other").exists()
    assert headway("vectors", "convert", "vectors", "v.txt").code == 0
    outcome = headway("train", "parity", "model.embedding=v.txt", "model.width=8", "model.heads=2", "train.steps=1")
    assert outcome.code == 2
    assert "this task has no words" in outcome.err


def test_a_translator_begins_with_vectors_on_both_sides(headway: Headway, tmp_path: Path) -> None:
    english, german = write_pairs(tmp_path)
    Path("v.txt").write_text("two 1 0 0 0\nzwei 1 1 0 0\nzwanzig 0 1 1 0\nt 0 0 0 1\n")
    overrides = [f"data.source={english}", f"data.target={german}", "data.tokenizer=char", "data.joint=false"]
    shape = ["model.layers=1", "model.width=4", "model.heads=1", "model.embedding=v.txt", "model.shared=false"]
    outcome = headway("train", "translate", *overrides, *shape, "train.steps=1", "train.warmup=0", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("starts with vectors for 1 of its") == 2


@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize("place", [0, 3, 8])
@pytest.mark.parametrize("word", ["a b", "new york", "x abc", "in the end"])
def test_a_word_with_a_space_in_a_binary_file_is_refused(word: str, place: int, newline: bytes, tmp_path: Path) -> None:
    words = [*(f"word{number}" for number in range(place)), word, *(f"other{number}" for number in range(8 - place))]
    matrix = np.random.default_rng(0).normal(size=(9, 20)).astype("<f4")
    records = (each.encode() + b" " + row.tobytes() + newline for each, row in zip(words, matrix, strict=True))
    path = tmp_path / "vectors.bin"
    path.write_bytes(b"9 20\n" + b"".join(records))
    with pytest.raises(Problem, match=r"damaged|finite"):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 1 2 3\n", "line 2: more numbers than in the lines before, or a space in the word 'b 1'"),
        ("a 1 2\nin 2005 3 4\n", "line 2: more numbers"),
        ("2 2\na 1 2\n. . 3 4\n", "line 3: more numbers"),
        ("a\t1 2\nb 3\n", "contains a tab"),
        ("a 1 2\n 3 4\n", "line 2: the word '' is empty"),
    ],
)
def test_a_line_that_may_be_read_in_two_ways_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    with pytest.raises(Problem, match=message):
        read(path)
    path.write_text("a 1 2\n. . 3 4\n")  # as in GloVe's
    assert read(path).words == ["a", ". ."]


@pytest.mark.parametrize("word", ["a b", "new york"])
def test_a_word_with_a_space_is_refused_where_what_follows_looks_like_text(word: str, tmp_path: Path) -> None:
    """All bytes of the numbers are letters; read from another place they are huge."""
    numbers = b"zzz=" * 20
    path = tmp_path / "vectors.bin"
    ones = np.ones(20, "<f4").tobytes()
    path.write_bytes(b"3 20\ndog " + ones + word.encode() + b" " + numbers + b"cat " + ones)
    with pytest.raises(Problem, match="huge"):
        read(path)


def test_frozen_vectors_bring_their_words(tmp_path: Path) -> None:
    """A word that has a vector is known to the classifier, although no text for training has it. Trained further, it
    would not be: then only words of the texts are."""
    known = ["good", "bad", "film", "splendid", "awful", "two words", "Upper", "left-out"]
    rows = {word: np.arange(4) + number for number, word in enumerate(known, start=1)}
    table = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items() if " " not in word)
    (tmp_path / "v.txt").write_text(table)
    texts = [f"a {word} film {number}" for number in range(20) for word in ("good", "bad")]
    shape = {"layers": 0, "width": 4, "embedding": str(tmp_path / "v.txt"), "position": "none"}

    def trained(name: str, **train: object) -> hw.Model:
        return hw.train(
            "classify", data=(texts, ["p", "n"] * 20), model=shape, train={"steps": 2, **train}, out=tmp_path / name
        )

    frozen = trained("frozen", freeze="encoder.embedding")
    unknown = frozen.tokenizer.vocabulary.index["<unk>"]
    (own,) = frozen.tokenizer.encode(["splendid awful good film Upper"])
    assert unknown not in own[:4]
    assert own[4] == unknown  # texts are in lower case, the vector is not
    assert "left-out" not in frozen.tokenizer.vocabulary.index  # which no text has as one token
    weight = frozen.network.state_dict()["encoder.embedding.table.weight"]
    ratio = weight[own[:3]].detach().numpy() / np.stack([rows[word] for word in ("splendid", "awful", "good")])
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-5)
    assert hw.load(frozen.run.folder).predict("a splendid film").probability != pytest.approx(
        frozen.predict("a nonsense film").probability
    )
    free = trained("free")
    assert "splendid" not in free.tokenizer.vocabulary.index


def test_words_of_vectors_up_to_the_size_of_the_vocabulary() -> None:
    own = Tokenizer.learn("word", ["a b c"], "lower", 5, 1)
    assert with_words(own, ["d", "e", "f"], 5).vocabulary.symbols[-2:] == ["d", "e"]
    assert with_words(own, [], 5).vocabulary.symbols == own.vocabulary.symbols
    letters = Tokenizer.learn("char", ["a b c"], "lower", 5, 1)
    assert with_words(letters, ["d"], 5) is letters
