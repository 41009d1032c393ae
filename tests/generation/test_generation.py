"""Sampling, beam search and exact search, against numbers worked by hand, exhaustive search, and each other."""

import bisect
import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from conftest import shake
from headway.config.errors import Problem
from headway.generation import Beam, Sampling, Tree, beam_search, exact_search, sample
from headway.generation.sampling import inverse_cdf_by_parts, min_p, penalise_repetition, top_k, top_p
from headway.models import Decoder, ModelSpec, TiedHead, build_decoder
from headway.models.build import build_decoder_and_reference
from headway.models.fast_decoder import FORMS, half_copy, with_matrices
from headway.recipes import TABLES

VOCABULARY, LENGTH, END = 5, 12, 2
SMALL = ModelSpec(layers=2, width=8, heads=2, hidden=12)
PROMPTS = [[1, 3], [4, 4, 0, 1, 3], [3]]
MIXERS = [replace(SMALL, mixer=name) for name in TABLES["model.mixer"]]
every_mixer = pytest.mark.parametrize("spec", MIXERS, ids=lambda spec: spec.mixer)


def decoder(spec: ModelSpec = SMALL) -> Decoder:
    torch.manual_seed(3)
    model = build_decoder(spec, VOCABULARY, 64)
    shake(model)
    return model


def log_probabilities(model: Decoder, prompt: list[int], tokens: list[int]) -> float:
    """Of the tokens after the prompt, in one pass, without a state."""
    rows = model(torch.tensor([prompt + tokens]))[0].double().log_softmax(dim=-1)
    return sum(rows[len(prompt) + index - 1, token].item() for index, token in enumerate(tokens))


def all_sequences(limit: int) -> list[list[int]]:
    """Everything that ends within the limit, or reaches it."""
    sequences = []
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            inner = tokens[:-1]
            if END not in inner and (tokens[-1] == END or length == limit):
                sequences.append(list(tokens))
    return sequences


def greedy_by_hand(model: Decoder, prompt: list[int], limit: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < limit:
        token = int(model(torch.tensor([prompt + tokens]))[0, -1].argmax())
        if token == END:
            break
        tokens.append(token)
    return tokens


def test_filters_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    left = {
        name: (filtered > -math.inf)[0].tolist()
        for name, filtered in {
            "top_k": top_k(logits, 2),
            "top_p": top_p(logits, 0.6),
            "just": top_p(logits, 0.5),
            "min_p": min_p(logits, 0.2),
        }.items()
    }
    assert left == {
        "top_k": [True, True, False, False],
        "top_p": [True, True, False, False],
        "just": [True, False, False, False],
        "min_p": [True, True, True, False],
    }
    penalised = penalise_repetition(torch.tensor([[2.0, -2.0, 1.0]]), torch.tensor([[0, 1, 0]]), 2.0)
    assert penalised.tolist() == [[1.0, -4.0, 1.0]]


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(0.7), Sampling(top_k=2), Sampling(top_p=0.7), Sampling(min_p=0.3)]
)
def test_tokens_come_as_often_as_their_probability_says(sampling: Sampling) -> None:
    logits = torch.randn(1, VOCABULARY).expand(20_000, -1)
    draws = torch.rand(20_000)
    nothing = torch.zeros(20_000, 0, dtype=torch.long)
    counts = torch.bincount(sampling.choose(logits, nothing, draws), minlength=VOCABULARY) / 20_000
    expected = sampling.filtered(logits[:1], nothing[:1]).softmax(dim=-1)[0]
    torch.testing.assert_close(counts, expected, atol=0.015, rtol=0)
    assert not ((counts > 0) & (expected == 0)).any()


@pytest.mark.parametrize("vocabulary", [1, 2, 5, 9, 10, 101, 5000])
def test_a_sum_in_parts_draws_what_a_sum_along_the_row_does(vocabulary: int) -> None:
    """Also at the edges, and where tokens are excluded: at either end, and whole parts of the row."""
    logits = 3 * torch.randn(300, vocabulary)
    logits[100:] = logits[100:].masked_fill(torch.rand(200, vocabulary) < 0.8, -math.inf)
    logits[200:, vocabulary // 4 : vocabulary // 2] = -math.inf
    logits[range(300), torch.randint(vocabulary, (300,))] = 0.0
    for draws in (torch.rand(300), torch.zeros(300), torch.full((300,), 1 - 2**-24)):
        cumulative = logits.double().softmax(dim=-1).cumsum(dim=-1)
        pairs = zip(cumulative.tolist(), draws.tolist(), strict=True)
        expected = [bisect.bisect_right(row, draw * row[-1]) for row, draw in pairs]
        tokens = inverse_cdf_by_parts(logits, draws)
        assert tokens.tolist() == expected
        assert logits.gather(1, tokens[:, None]).isfinite().all()


@every_mixer
@pytest.mark.parametrize("head", ["tied", "own", "transformed"])
@pytest.mark.parametrize("lora_rank", [None, 2])
def test_a_copy_in_half_precision_gives_what_autocast_does(spec: ModelSpec, head: str, lora_rank: int | None) -> None:
    model, _ = build_decoder_and_reference(replace(spec, head=head), VOCABULARY, 20, lora_rank)
    shake(model)
    twin, refresh = half_copy(model, torch.bfloat16)
    tokens = torch.randint(VOCABULARY, (6, 4, 1))
    for _ in range(3):
        scores = []
        for steps in (model.eval(), twin):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                state = steps.begin(4, 6)
                scores.append(torch.stack([steps.step(each, state)[0] for each in tokens]))
        assert torch.equal(*scores)
        shake(model)  # as a step of an optimizer
        refresh()
    assert not any(each.requires_grad for each in set(twin.parameters()) - set(model.parameters()))


@every_mixer
@pytest.mark.parametrize(("form", "close"), [("packed", 1e-4), ("int8", 0.15)])
def test_other_forms_of_the_matrices_give_nearly_the_same(spec: ModelSpec, form: str, close: float) -> None:
    model, tokens = decoder(spec), torch.randint(VOCABULARY, (4, 9))
    before = model(tokens)
    twin = with_matrices(model, FORMS[form])
    assert (twin(tokens) - before).abs().max() < close * before.std()
    assert torch.equal(model(tokens), before)
    assert not any(isinstance(part, torch.nn.Linear | TiedHead) for part in twin.modules())
    for prompts in ([[1, 3]], PROMPTS):
        made = torch.stack(list(sample(twin, prompts, 5, Sampling(0.0))), dim=1)
        if form == "packed":
            assert made.tolist() == torch.stack(list(sample(model, prompts, 5, Sampling(0.0))), dim=1).tolist()


def test_transformers_filters_agree() -> None:
    transformers = pytest.importorskip("transformers")
    logits = torch.randn(8, 50)
    nothing = torch.zeros(8, 1, dtype=torch.long)
    pairs = [
        (top_k(logits, 7), transformers.TopKLogitsWarper(7)),
        (top_p(logits, 0.8), transformers.TopPLogitsWarper(0.8)),
        (min_p(logits, 0.1), transformers.MinPLogitsWarper(0.1)),
    ]
    for ours, theirs in pairs:
        assert torch.equal(ours, theirs(nothing, logits))
    seen = torch.randint(50, (8, 6))
    theirs = transformers.RepetitionPenaltyLogitsProcessor(1.3)(seen, logits)
    torch.testing.assert_close(penalise_repetition(logits, seen, 1.3), theirs)


@pytest.mark.parametrize("size", [5, 20, 5000])
def test_tied_tokens_are_filtered_as_by_transformers(size: int) -> None:
    """Rounded logits have many ties; with shares between the sums of probabilities, rounding decides nothing."""
    transformers = pytest.importorskip("transformers")
    logits, nothing = (2 * torch.randn(4, size)).round(), torch.zeros(4, 1, dtype=torch.long)
    for share in (0.1234567, 0.5, 0.91234567):
        kept = top_p(logits, share).sort(dim=-1).values
        assert torch.equal(kept, transformers.TopPLogitsWarper(share)(nothing, logits).sort(dim=-1).values)
        assert torch.equal(min_p(logits, share), transformers.MinPLogitsWarper(share)(nothing, logits))
    for count in (1, 3, size):
        assert torch.equal(top_k(logits, count), transformers.TopKLogitsWarper(count)(nothing, logits))


def test_top_p_keeps_the_fewest_tokens_that_are_enough() -> None:
    """Where all are equally likely, also if a sum is exact only without rounding."""
    for size, share, enough in ((20, 0.1, 2), (20, 0.5, 10), (5000, 0.9, 4500), (3, 0.67, 3), (7, 1.0, 7)):
        assert int(top_p(torch.zeros(1, size), share).isfinite().sum()) == enough
    far = torch.cat([torch.zeros(1, 1), torch.full((1, 9), -90.0)], dim=1)
    assert torch.equal(top_p(far, 1.0), far)


@every_mixer
def test_at_temperature_zero_the_best_token_is_taken(spec: ModelSpec) -> None:
    model = decoder(spec)
    rows = torch.stack(list(sample(model, PROMPTS, 6, Sampling(0.0))), dim=1).tolist()
    for prompt, row in zip(PROMPTS, rows, strict=True):
        until_end = row[: row.index(END)] if END in row else row
        assert until_end == greedy_by_hand(model, prompt, 6)


@every_mixer
def test_a_row_is_drawn_alone_as_in_a_batch(spec: ModelSpec) -> None:
    model, how = decoder(spec), Sampling(1.0, top_k=4, repetition_penalty=1.2)
    together = torch.stack(list(sample(model, PROMPTS, 8, how, seeds=[5, 6, 7])), dim=1)
    for row, (prompt, seed) in enumerate(zip(PROMPTS, [5, 6, 7], strict=True)):
        alone = torch.stack(list(sample(model, [prompt], 8, how, seeds=[seed])), dim=1)
        assert alone[0].tolist() == together[row].tolist()
    assert together.tolist() != torch.stack(list(sample(model, PROMPTS, 8, how, seeds=[8, 9, 10])), dim=1).tolist()


def test_a_full_window_goes_on_with_its_last_half() -> None:
    model = decoder(replace(SMALL, position="learned"))
    made = [int(token) for token in sample(model, [[1, 3, 4]], 20, Sampling(0.0), window=6)]
    expected: list[int] = []
    context = [1, 3, 4]
    for _ in range(20):
        expected.append(int(model(torch.tensor([context]))[0, -1].argmax()))
        context = [*context, expected[-1]] if len(context) < 6 else [*context, expected[-1]][-3:]
    assert made == expected


def test_rows_of_different_lengths_fill_their_windows_as_each_alone() -> None:
    model = decoder(replace(SMALL, position="learned"))
    together = torch.stack(list(sample(model, PROMPTS, 15, Sampling(1.0), [1, 2, 3], window=6)), dim=1)
    for row, (prompt, seed) in enumerate(zip(PROMPTS, [1, 2, 3], strict=True)):
        alone = torch.stack(list(sample(model, [prompt], 15, Sampling(1.0), [seed], window=6)), dim=1)
        assert alone[0].tolist() == together[row].tolist()


@every_mixer
def test_a_beam_of_one_is_greedy(spec: ModelSpec) -> None:
    model = decoder(spec)
    results = beam_search(model, PROMPTS, 8, END, Beam(width=1))
    assert [row[0].tokens for row in results] == [greedy_by_hand(model, prompt, 8) for prompt in PROMPTS]


@every_mixer
@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6])
def test_a_wide_beam_is_exhaustive(spec: ModelSpec, penalty: float) -> None:
    model, limit = decoder(spec), 3
    results = beam_search(
        model, PROMPTS, limit, END, Beam(VOCABULARY**limit, best=4, length_penalty=penalty, early=False)
    )
    for prompt, row in zip(PROMPTS, results, strict=True):
        ranked = sorted(
            (
                (log_probabilities(model, prompt, tokens) / len(tokens) ** penalty, tokens)
                for tokens in all_sequences(limit)
            ),
            reverse=True,
        )
        for each, (score, tokens) in zip(row, ranked, strict=False):
            assert [*each.tokens, *[END] * each.finished] == tokens
            assert each.score == pytest.approx(score, abs=1e-4)
            assert each.log_probability == pytest.approx(log_probabilities(model, prompt, tokens), abs=1e-4)


@every_mixer
def test_prompts_are_searched_alone_as_together(spec: ModelSpec) -> None:
    model, beam = decoder(spec), Beam(4, best=4)
    for prompt, together in zip(PROMPTS, beam_search(model, PROMPTS, 7, END, beam), strict=True):
        (alone,) = beam_search(model, [prompt], 7, END, beam)
        assert [each.tokens for each in alone] == [each.tokens for each in together]


@every_mixer
def test_exact_search_is_exhaustive(spec: ModelSpec) -> None:
    model = decoder(spec)
    for prompt in PROMPTS:
        best = max(all_sequences(4), key=lambda tokens: log_probabilities(model, prompt, tokens))
        exact = exact_search(model, prompt, 4, END)
        assert exact is not None
        assert [*exact.tokens, *[END] * exact.finished] == best
        assert exact_search(model, prompt, 4, END, at_least=exact.log_probability) is None


def test_groups_that_cost_nothing_find_the_same_and_others_differ() -> None:
    model = decoder()
    (same,) = beam_search(model, PROMPTS[:1], 6, END, Beam(4, best=4, groups=2))
    assert [each.tokens for each in same][::2] == [each.tokens for each in same][1::2]
    (other,) = beam_search(model, PROMPTS[:1], 6, END, Beam(4, best=4, groups=2, diversity=50.0))
    assert len({tuple(each.tokens) for each in other}) > 2


EXAM = {"the": [0.6, {"cat": 0.5, "dog": 0.5}], "a": [0.4, {"cat": 0.9, "dog": 0.1}]}


def test_a_tree_written_by_hand() -> None:
    """Greedy takes "the" (0.6) and ends at 0.3; a beam of two finds "a cat", 0.36."""
    tree = Tree(EXAM)
    words = [
        [tree.words[token] for token in row[0].tokens]
        for row in (
            beam_search(tree, [[0]], tree.depth, 0, Beam(1))[0:1] + beam_search(tree, [[0]], tree.depth, 0, Beam(2))
        )
    ]
    assert words == [["the", "cat"], ["a", "cat"]]
    (hypotheses,) = beam_search(tree, [[0]], tree.depth, 0, Beam(2, length_penalty=0.0))
    assert math.exp(hypotheses[0].log_probability) == pytest.approx(0.36)
    exact = exact_search(tree, [0], tree.depth, 0)
    assert exact is not None
    assert [tree.words[token] for token in exact.tokens] == ["a", "cat"]


def test_without_early_a_search_goes_on_while_something_better_can_come() -> None:
    """The end has 0.6 at once, a score of log 0.6; "a b c" has 0.4 in four tokens, (log 0.4) / 4, which is more."""
    tree = Tree({"<eos>": 0.6, "a": [0.4, {"b": [1.0, {"c": 1.0}]}]})
    for early, words in [(True, ""), (False, "a b c")]:
        (hypotheses,) = beam_search(tree, [[0]], tree.depth, 0, Beam(1, early=early))
        assert tree.text(hypotheses[0].tokens) == words


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "there should be words"),
        ({"a": 0.5}, "add up to 0.5"),
        ({"a": "x"}, "not a probability"),
        ({"a": [1, []]}, "words"),
    ],
)
def test_what_is_wrong_with_a_tree_is_said(content: object, message: str) -> None:
    with pytest.raises(Problem, match=message):
        Tree(content)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": 1e-40},
        {"repetition_penalty": math.inf},
        {"top_k": 0},
        {"top_p": 0.0},
        {"min_p": 2.0},
        {"repetition_penalty": 0.0},
    ],
)
def test_samplings_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(Problem):
        Sampling(**options)  # type: ignore[arg-type]


def by_hand(tree: Tree, width: int) -> list[list[int]]:
    """A beam search in plain Python: of equally likely extensions, the first ones."""
    beam: list[tuple[float, list[int], Any]] = [(0.0, [], tree.root)]
    done: list[tuple[float, list[int]]] = []
    while len(done) < width and beam:
        extended = [
            (total + math.log(probability), [*tokens, token], below)
            for total, tokens, node in beam
            for token, (probability, below) in sorted((node or {0: (1.0, None)}).items())
        ]
        best = sorted(extended, key=lambda each: -round(each[0], 6))[: 2 * width]
        done += [(total / len(tokens), tokens[:-1]) for total, tokens, _ in best[:width] if tokens[-1] == 0]
        done = sorted(done, key=lambda each: -round(each[0], 6))[:width]
        beam = [each for each in best if each[1][-1] != 0][:width]
    return [tokens for _, tokens in done]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, 40])
def test_ties_are_broken_by_order_at_every_width(width: int, rows: int) -> None:
    after = {word: {"x": 0.25, "y": 0.25, "<eos>": 0.5} for word in "abcd"}
    tree = Tree({"b": [0.2, after["b"]], "a": [0.4, {"x": 0.5, "y": 0.5}], "c": [0.2, after["c"]], "d": 0.2})
    for found in beam_search(tree, [[0]] * rows, tree.depth, 0, Beam(width, best=width)):
        assert [each.tokens for each in found] == by_hand(tree, width)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("words", ["ab", "ba"])
def test_ties_of_products_are_broken_by_order_too(width: int, words: str) -> None:
    """0.2 times 0.6 and 0.6 times 0.2 differ in the last bit of their logarithms."""
    below = {"a": [0.2, {"x": 0.6, "y": 0.4}], "b": [0.6, {"x": 0.2, "y": 0.8}]}
    tree = Tree({**{word: below[word] for word in words}, "c": 0.2})
    (found,) = beam_search(tree, [[0]], tree.depth, 0, Beam(width, best=width))
    assert [each.tokens for each in found] == by_hand(tree, width)


@pytest.mark.parametrize(
    ("size", "share", "kept"),
    [(10, 0.9, 9), (24, 0.75, 18), (40, 0.25, 10), (30, 0.1, 3), (110, 0.6, 66)],  # 67 in float32
)
def test_equal_tokens_at_the_edge_of_the_nucleus(size: int, share: float, kept: int) -> None:
    assert int(top_p(torch.zeros(1, size), share).isfinite().sum()) == kept


def test_a_nucleus_of_everything_keeps_everything() -> None:
    assert top_p(6 * torch.randn(1, 200_000), 1.0).isfinite().all()
