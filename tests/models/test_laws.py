"""Laws that hold for every entry of every table. A new entry is tested by being listed there."""

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import shake
from headway import watch_attention
from headway.config.errors import Problem
from headway.generation import Beam, Sampling, beam_search, sample
from headway.models import (
    Decoder,
    Encoder,
    ModelSpec,
    build_classifier,
    build_decoder,
    build_encoder,
    build_encoder_decoder,
)
from headway.models.build import block, build_prefix, build_tagger
from headway.nn import ATTENTION_FUNCTIONS, POOLINGS
from headway.nn.attention import Attention
from headway.nn.packing import Packing
from headway.nn.state import State
from headway.recipes import TABLES
from headway.training.checkpoint import Checkpoint, load_weights, read, weights_of, write
from torture.harness import SHARE

VOCABULARY, LENGTH = 11, 9
LENGTHS = torch.tensor([9, 4, 1, 6])
OF_TAGGERS = ("model.tag_head", "model.characters")
SMALL = ModelSpec(layers=2, width=8, heads=4, hidden=12)


def with_part(key: str, name: str) -> ModelSpec:
    changes: dict[str, Any] = {key.removeprefix("model."): name}
    return replace(SMALL, **changes)


def variants() -> list[ModelSpec]:
    """Each entry of each table by itself, and positions, placements and feed-forward networks in all pairs; with
    HEADWAY_TORTURE, as in ``make torture``, in all combinations."""
    of_encoders = {key: table for key, table in TABLES.items() if key.startswith("model.") and key not in OF_TAGGERS}
    single = [with_part(key, name) for key, table in of_encoders.items() for name in table]
    numbered = (enumerate(TABLES[f"model.{key}"]) for key in ("position", "norm", "feedforward"))
    combined = [
        replace(SMALL, position=position, norm=norm, feedforward=feedforward)
        for (one, position), (other, norm), (third, feedforward) in product(*numbered)
        if SHARE or (one + third) % len(TABLES["model.norm"]) == other
    ]
    options = [replace(SMALL, causal=True), replace(SMALL, bias=False), replace(SMALL, embedding_norm=True)]
    options += [replace(SMALL, position="t5(both=False)"), replace(SMALL, position="sinusoidal(halves=True)")]
    options += [replace(SMALL, kv_heads=2), replace(SMALL, attention_dropout=0.1)]
    options += [replace(SMALL, mixer=f"{kind}(both=True)") for kind in ("rnn", "lstm", "gru")]
    options += [replace(SMALL, mixer="lstm", norm="plain", feedforward="none")]
    options += [replace(SMALL, mixer=f"{kind}(window=2)") for kind in ("rnn", "lstm", "gru")]
    return list(dict.fromkeys([*single, *combined, *options]))


def name_of(spec: ModelSpec) -> str:
    """What sets a variant apart."""
    different = {key: value for key, value in vars(spec).items() if value != getattr(SMALL, key)}
    return ",".join(f"{key}={value}" for key, value in different.items()) or "plain"


def test_every_pair_is_among_the_variants() -> None:
    axes = ("position", "norm", "feedforward")
    for first, second in combinations(axes, 2):
        pairs = {(getattr(spec, first), getattr(spec, second)) for spec in variants()}
        assert pairs >= set(product(TABLES[f"model.{first}"], TABLES[f"model.{second}"]))


every_variant = pytest.mark.parametrize("spec", variants(), ids=name_of)


def causal(spec: ModelSpec) -> ModelSpec:
    """The same for a decoder, whose parts may not look ahead."""
    feedforward = spec.feedforward.replace("neighbourhood", "neighbourhood(after=0)")
    embedding = spec.embedding.replace("region", "region(after=0)")
    mixer = spec.mixer.replace("both=True", "both=False")
    return replace(spec, embedding=embedding, feedforward=feedforward, mixer=mixer)


def tokens(time: int = LENGTH) -> Tensor:
    return torch.randint(VOCABULARY, (len(LENGTHS), time))


@every_variant
def test_padding_changes_nothing_and_alone_is_as_batched(spec: ModelSpec) -> None:
    encoder, inputs = build_encoder(spec, VOCABULARY, LENGTH), tokens()
    shake(encoder)
    states = encoder(inputs, LENGTHS)
    assert states.isfinite().all()
    for row, length in enumerate(LENGTHS):
        alone = encoder(inputs[row : row + 1, :length])
        torch.testing.assert_close(states[row, :length], alone[0], atol=1e-5, rtol=1e-4)


@every_variant
def test_what_stands_in_the_padding_changes_no_gradient(spec: ModelSpec) -> None:
    encoder, inputs = build_encoder(spec, VOCABULARY, LENGTH), tokens()
    shake(encoder)
    real = torch.arange(LENGTH) < LENGTHS[:, None]
    other = torch.where(real, inputs, (inputs + 1) % VOCABULARY)
    weights = list(encoder.parameters())
    gradients = [
        torch.autograd.grad(encoder(padded, LENGTHS)[real].square().sum(), weights, allow_unused=True)
        for padded in (inputs, other)
    ]
    for one, another in zip(*gradients, strict=True):
        assert (one is None) == (another is None)
        if one is not None:
            torch.testing.assert_close(one, another, atol=1e-4, rtol=1e-4)


@every_variant
def test_packed_is_as_padded_and_alone(spec: ModelSpec) -> None:
    """Values and gradients, of an encoder."""
    encoder, inputs = build_encoder(spec, VOCABULARY, LENGTH), tokens()
    shake(encoder)
    real = torch.arange(LENGTH) < LENGTHS[:, None]
    packed = encoder(inputs[real][None], packing=Packing.of(LENGTHS))[0]
    padded = encoder(inputs, LENGTHS)[real]
    alone = torch.cat([encoder(row[None, :length])[0] for row, length in zip(inputs, LENGTHS, strict=True)])
    weights, towards = list(encoder.parameters()), torch.randn_like(packed)
    for other in (padded, alone):
        torch.testing.assert_close(packed, other, atol=1e-5, rtol=1e-4)
        gradients = [
            torch.autograd.grad(each, weights, towards, retain_graph=True, allow_unused=True)
            for each in (packed, other)
        ]
        for one, another in zip(*gradients, strict=True):
            assert (one is None) == (another is None)
            if one is not None:
                torch.testing.assert_close(one, another, atol=1e-4, rtol=1e-3)


@every_variant
def test_a_packed_decoder_is_as_a_padded_one(spec: ModelSpec) -> None:
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH)
    shake(model)
    sources, targets, lengths = tokens(), tokens(), LENGTHS.flip(0)
    real = torch.arange(LENGTH)
    packings = Packing.of(lengths), Packing.of(LENGTHS)
    packed = model(sources[real < lengths[:, None]][None], targets[real < LENGTHS[:, None]][None], packings=packings)
    padded = model(sources, targets, lengths)[real < LENGTHS[:, None]]
    torch.testing.assert_close(packed[0], padded, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("position", TABLES["model.position"])
@pytest.mark.parametrize("attention", TABLES["model.attention"])
def test_tokens_of_a_prefix_see_each_other_and_no_others_see_ahead(position: str, attention: str) -> None:
    """By changing one token at a time, and by checking which logits change."""
    decoder = build_decoder(replace(SMALL, layers=1, position=position, attention=attention), VOCABULARY, LENGTH)
    shake(decoder)
    lengths, prefixes = torch.tensor([6, 4, 1]), torch.tensor([3, 4, 1])
    packing = replace(Packing.of(lengths), prefixes=prefixes)
    inputs = torch.randint(VOCABULARY, (1, 11))
    before = decoder(inputs, packing=packing)[0]
    starts = [0, 6, 10]
    for start, length, prefix in zip(starts, lengths.tolist(), prefixes.tolist(), strict=True):
        for offset in range(length):
            changed = inputs.clone()
            changed[0, start + offset] = (changed[0, start + offset] + 1) % VOCABULARY
            differs = ((decoder(changed, packing=packing)[0] - before).abs().amax(dim=-1) > 1e-6).tolist()
            sees = [start <= each < start + length and offset <= max(each - start, prefix - 1) for each in range(11)]
            if attention == "soft":
                assert differs == [each - start >= 0 and seen for each, seen in enumerate(sees)]
            else:  # hard attention may look elsewhere
                assert all(seen for seen, change in zip(sees, differs, strict=True) if change)
    whole = replace(packing, prefixes=torch.ones_like(lengths))  # a prefix of one token is no prefix
    torch.testing.assert_close(decoder(inputs, packing=whole), decoder(inputs, packing=Packing.of(lengths)))


@pytest.mark.parametrize("position", TABLES["model.position"])
@pytest.mark.parametrize("attention", TABLES["model.attention"])
def test_a_prompt_is_read_as_beginnings_were_learned_from(position: str, attention: str) -> None:
    """Prompts of different lengths, and tokens after them: the logits are those of each row with its prefix."""
    spec = replace(SMALL, position=position, attention=attention)
    decoder, inputs, more = build_prefix(spec, VOCABULARY, LENGTH + 3), tokens(), tokens(3)
    shake(decoder)
    logits, state = decoder.step(inputs, decoder.begin(len(inputs), LENGTH + 3), LENGTHS)
    outputs = [logits]
    for each in more.split(1, dim=1):
        logits, state = decoder.step(each, state)
        outputs.append(logits)
    for row, length in enumerate(LENGTHS.tolist()):
        whole = torch.cat([inputs[row, :length], more[row]])[None]
        packing = replace(Packing.of(torch.tensor([length + 3])), prefixes=torch.tensor([length]))
        expected = decoder(whole, packing=packing)[0, length - 1 :]
        torch.testing.assert_close(torch.stack(outputs)[:, row], expected, atol=1e-4, rtol=1e-4)
        same, _ = decoder.step(inputs[row : row + 1, :length], decoder.begin(1, length))
        torch.testing.assert_close(same[0], expected[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_classifier_answers_alone_as_in_a_batch(pooling: str) -> None:
    model = build_classifier(replace(SMALL, pooling=pooling), VOCABULARY, LENGTH, classes=3)
    shake(model)
    inputs = tokens()
    logits = model(inputs, LENGTHS)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(logits[row], model(inputs[row : row + 1, :length])[0], atol=1e-5, rtol=1e-4)
    packed = model(inputs[torch.arange(LENGTH) < LENGTHS[:, None]][None], packing=Packing.of(LENGTHS))
    torch.testing.assert_close(packed, logits, atol=1e-5, rtol=1e-4)


def taggers() -> list[ModelSpec]:
    mixers = ["attention", *(f"{kind}(both=True)" for kind in ("rnn", "lstm", "gru"))]
    axes = (TABLES["model.tag_head"], TABLES["model.characters"], mixers)
    return [replace(SMALL, tag_head=head, characters=kind, mixer=mixer) for head, kind, mixer in product(*axes)]


@pytest.mark.parametrize("spec", taggers(), ids=name_of)
def test_a_tagger_answers_alone_as_in_a_batch(spec: ModelSpec, tmp_path: Path) -> None:
    """Emissions, tags, probabilities and losses; and so does one with the same weights from a file."""
    model, inputs = build_tagger(spec, VOCABULARY, LENGTH, tags=3), tokens()
    shake(model)
    counts, spellings = torch.tensor([4, 2, 1, 3]), torch.randint(1, 50, (6, 7))
    spellings[torch.arange(7) >= torch.tensor([7, 1, 3, 2, 5, 6])[:, None]] = 0
    firsts = torch.tensor([[0, 2, 5, 8], [1, 3, 0, 0], [0, 0, 0, 0], [0, 1, 4, 0]])
    spelled, tags, real = torch.randint(6, (4, 4)), torch.randint(3, (4, 4)), torch.arange(4) < counts[:, None]
    same = build_tagger(spec, VOCABULARY, LENGTH, tags=3)
    write(tmp_path, Checkpoint(weights_of(model), {}, {"step": 1, "best_step": None}, {}))
    load_weights(same, read(tmp_path, 1).weights, tmp_path)
    emissions = model(inputs, LENGTHS, firsts, spellings, spelled)
    assert torch.equal(same.eval()(inputs, LENGTHS, firsts, spellings, spelled), emissions)
    head = model.head
    together = head.decode(emissions, real), head.marginals(emissions, real), head.log_likelihood(emissions, tags, real)
    for row, (length, count) in enumerate(zip(LENGTHS.tolist(), counts.tolist(), strict=True)):
        own = slice(row, row + 1)
        alone = model(inputs[own, :length], None, firsts[own, :count], spellings, spelled[own, :count])
        torch.testing.assert_close(emissions[row, :count], alone[0], atol=1e-5, rtol=1e-4)
        whole = torch.ones(1, count, dtype=torch.bool)
        assert torch.equal(together[0][row, :count], head.decode(alone, whole)[0])
        torch.testing.assert_close(together[1][row, :count], head.marginals(alone, whole)[0], atol=1e-5, rtol=1e-4)
        likelihood = head.log_likelihood(alone, tags[own, :count], whole)[0]
        torch.testing.assert_close(together[2][row], likelihood, atol=1e-4, rtol=1e-4)


@every_variant
def test_a_later_token_never_changes_an_earlier_score(spec: ModelSpec) -> None:
    decoder, inputs = build_decoder(causal(spec), VOCABULARY, LENGTH), tokens()
    shake(decoder)
    for position in range(1, LENGTH):
        changed = inputs.clone()
        changed[:, position] = (changed[:, position] + 1) % VOCABULARY
        before, after = decoder(inputs), decoder(changed)
        torch.testing.assert_close(before[:, :position], after[:, :position], atol=1e-5, rtol=1e-4)
        assert (before[:, position:] - after[:, position:]).abs().max() > 1e-4


@every_variant
def test_a_decoders_prefix_is_as_the_whole(spec: ModelSpec) -> None:
    """So padding behind a sequence needs no mask."""
    decoder, inputs = build_decoder(causal(spec), VOCABULARY, LENGTH), tokens()
    shake(decoder)
    torch.testing.assert_close(decoder(inputs)[:, :5], decoder(inputs[:, :5]), atol=1e-5, rtol=1e-4)


@every_variant
@pytest.mark.parametrize("pieces", [[1] * LENGTH, [4, 1, 1, 3]], ids=["token by token", "in pieces"])
def test_a_decoder_that_remembers_scores_as_one_that_reads_all(spec: ModelSpec, pieces: list[int]) -> None:
    decoder, inputs = build_decoder(causal(spec), VOCABULARY, LENGTH), tokens()
    shake(decoder)
    state = State(len(inputs), LENGTH)
    logits = torch.cat([decoder(piece, state=state) for piece in inputs.split(pieces, dim=1)], dim=1)
    torch.testing.assert_close(logits, decoder(inputs), atol=1e-4, rtol=1e-4)


@every_variant
def test_prompts_of_different_lengths_go_on_as_each_alone(spec: ModelSpec) -> None:
    decoder, inputs, more = build_decoder(causal(spec), VOCABULARY, LENGTH + 3), tokens(), tokens(3)
    shake(decoder)
    state = State(len(inputs), LENGTH + 3)
    logits, state = decoder.step(inputs, state, LENGTHS)
    rows, order = state.select(torch.tensor([2, 0, 0, 3])), [2, 0, 0, 3]
    for position in range(-1, 3):
        if position >= 0:
            logits, rows = decoder.step(more[order][:, position : position + 1], rows)
        for row_logits, row in zip(logits, order if position >= 0 else range(4), strict=True):
            alone = torch.cat([inputs[row, : LENGTHS[row]], more[row, : position + 1]])
            torch.testing.assert_close(row_logits, decoder(alone[None])[0, -1], atol=1e-4, rtol=1e-4)


@every_variant
def test_documents_in_one_row_are_as_each_alone(spec: ModelSpec) -> None:
    decoder, inputs = build_decoder(causal(spec), VOCABULARY, LENGTH), tokens()
    shake(decoder)
    documents = torch.tensor([[0] * 4 + [1] * 2 + [2] * 3, [7] * 9, [3] + [4] * 8, [1, 2, 3, 4, 5, 6, 7, 8, 9]])
    if reads_across(spec):
        with pytest.raises(Problem, match=r"data\.cross_document"):
            decoder(inputs, documents=documents)
        return
    logits = decoder(inputs, documents=documents)
    for row in range(len(inputs)):
        for number in documents[row].unique():
            its = documents[row] == number
            torch.testing.assert_close(logits[row, its], decoder(inputs[row, its][None])[0], atol=1e-4, rtol=1e-4)


@every_variant
def test_a_beam_of_one_is_greedy_and_a_wide_one_is_exhaustive(spec: ModelSpec) -> None:
    decoder, end = build_decoder(causal(spec), VOCABULARY, LENGTH), 2
    shake(decoder)
    prompts = [[1, 3], [4, 4, 0, 5]]
    drawn = torch.stack(list(sample(decoder, prompts, 4, Sampling(0.0))), dim=1).tolist()
    narrow = beam_search(decoder, prompts, 4, end, Beam(1))
    wide = beam_search(decoder, prompts, 2, end, Beam(VOCABULARY**2, length_penalty=0.0, early=False))
    for prompt, row, (greedy,), (best,) in zip(prompts, drawn, narrow, wide, strict=True):
        by_hand: list[int] = []
        while len(by_hand) < 4 and end not in by_hand:
            by_hand.append(int(decoder(torch.tensor([prompt + by_hand]))[0, -1].argmax()))
        assert row[: len(by_hand)] == by_hand
        assert [*greedy.tokens, *[end] * greedy.finished] == by_hand
        pairs = torch.cartesian_prod(torch.arange(VOCABULARY), torch.arange(VOCABULARY))
        whole = torch.cat([torch.tensor(prompt).expand(len(pairs), -1), pairs], dim=1)
        steps = decoder(whole)[:, len(prompt) - 1 : -1].log_softmax(dim=-1).gather(2, pairs[..., None]).squeeze(2)
        ends_at_once = pairs[:, 0] == end
        totals = torch.where(ends_at_once, steps[:, 0], steps.sum(dim=1))
        assert best.log_probability == pytest.approx(totals.max().item(), abs=1e-4)


def reads_across(spec: ModelSpec) -> bool:
    return spec.mixer != "attention" or spec.feedforward == "neighbourhood" or spec.embedding in ("region", "ngrams")


@every_variant
def test_the_padding_of_a_source_changes_no_target(spec: ModelSpec) -> None:
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH)
    shake(model)
    source, target = tokens(), tokens(6)
    logits = model(source, target, LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(logits[row], alone[0], atol=1e-5, rtol=1e-4)
    changed = target.clone()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    torch.testing.assert_close(model(source, changed, LENGTHS)[:, :3], logits[:, :3], atol=1e-5, rtol=1e-4)


@every_variant
def test_a_translation_that_remembers_is_as_one_that_reads_all(spec: ModelSpec) -> None:
    """Beams of a source share its keys: each row sees its own past, and after a reordering that of another row."""
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH, joint=True)
    shake(model)
    source, width = tokens(), 3
    steps = model.conditioned_on(source, LENGTHS)
    logits, state = steps.step(torch.ones(4, 1, dtype=torch.long), steps.begin(4, LENGTH))
    torch.testing.assert_close(logits, model(source, torch.ones(4, 1, dtype=torch.long), LENGTHS)[:, -1])
    written = torch.ones(4 * width, 1, dtype=torch.long)
    state = state.expand_beams(width)
    lengths = LENGTHS
    for position in range(5):
        if position == 3:  # two of the sources are done
            left = torch.tensor([3, 1])
            state, source, lengths = state.keep(left), source[left], lengths[left]
            written = written.view(4, width, -1)[left].flatten(0, 1)
        parents = torch.randint(width, (len(source), width)) + width * torch.arange(len(source))[:, None]
        state, written = state.reorder(parents.flatten()), written[parents.flatten()]
        written = torch.cat([written, torch.randint(VOCABULARY, (len(written), 1))], dim=1)
        logits, state = steps.step(written[:, -1:], state)
        expected = model(source.repeat_interleave(width, 0), written, lengths.repeat_interleave(width))[:, -1]
        torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("position", TABLES["model.position"])
@pytest.mark.parametrize("width", [1, 3])
def test_steps_with_static_shapes_are_as_others(position: str, width: int) -> None:
    """What a CUDA graph does, on any device: static shapes, a rehearsal that is undone, and then the reuse of a state
    that is no longer needed."""
    model = build_encoder_decoder(with_part("model.position", position), VOCABULARY, VOCABULARY, LENGTH)
    shake(model)
    steps, results = model.conditioned_on(tokens(), LENGTHS), []
    written = torch.randint(VOCABULARY, (4 * width, 5))
    used = None
    for recorded in (False, True, True):
        torch.manual_seed(3)
        _, state = steps.step(torch.ones(4, 1, dtype=torch.long), steps.begin(4, LENGTH))
        state = state.expand_beams(width)
        if used is not None:
            assert used.shape() == state.shape()
            used.copy_from(state)
            state = used
        elif recorded:
            other = model.conditioned_on(tokens().flip(0), LENGTHS.flip(0))
            _, used = other.step(torch.zeros(4, 1, dtype=torch.long), other.begin(4, LENGTH))
            used = used.expand_beams(width)
            used.make_static()
            for _ in range(LENGTH - 1):  # to its last slot
                other.step(torch.randint(VOCABULARY, (4 * width, 1)), used)
            state.make_static()
            restore = state.bookmark()
            for _ in range(3):
                steps.step(torch.randint(VOCABULARY, (4 * width, 1)), state)
            restore()
        torch.manual_seed(4)
        outputs = []
        for token in written.split(1, dim=1):
            parents = torch.randint(width, (4, width)) + width * torch.arange(4)[:, None]
            logits, state = steps.step(token, state.reorder(parents.flatten()))
            outputs.append(logits)
        results.append(torch.stack(outputs))
    for other_logits in results[1:]:
        torch.testing.assert_close(other_logits, results[0], atol=1e-4, rtol=1e-4)


@every_variant
def test_a_source_is_translated_alone_as_in_a_batch(spec: ModelSpec) -> None:
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH + 1)
    shake(model)
    source, prompts = tokens(), [[1]] * 4
    together = beam_search(model.conditioned_on(source, LENGTHS), prompts, 6, 2, Beam(3, best=3))
    for row, length in enumerate(LENGTHS):
        (alone,) = beam_search(model.conditioned_on(source[row : row + 1, :length]), [[1]], 6, 2, Beam(3, best=3))
        assert [each.score for each in alone] == pytest.approx([each.score for each in together[row]], abs=1e-4)
        if alone[0].score - alone[1].score > 1e-3:  # of equals, either may come first
            assert alone[0].tokens == together[row][0].tokens


@every_variant
def test_every_weight_learns(spec: ModelSpec) -> None:
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH)
    shake(model)
    (model(tokens(), tokens(), LENGTHS) * torch.randn(VOCABULARY)).sum().backward()
    dead = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.abs().max() > 0]
    assert not dead


@every_variant
def test_saved_is_loaded(spec: ModelSpec, tmp_path: Path) -> None:
    first, second = (build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH) for _ in range(2))
    shake(first)
    shake(second)
    progress = {"step": 7, "best_step": None}
    write(tmp_path, Checkpoint(weights_of(first), {}, progress, {}))
    load_weights(second, read(tmp_path, 7).weights, tmp_path)
    source, target = tokens(), tokens()
    assert torch.equal(first(source, target, LENGTHS), second(source, target, LENGTHS))


@every_variant
def test_watching_changes_nothing_and_shows_every_head(spec: ModelSpec) -> None:
    model = build_encoder_decoder(causal(spec), VOCABULARY, VOCABULARY, LENGTH)
    shake(model)
    source, target = tokens(), tokens(6)
    unwatched = model(source, target, LENGTHS)
    with watch_attention(model) as maps:
        watched = model(source, target, LENGTHS)
    torch.testing.assert_close(watched, unwatched, atol=1e-5, rtol=1e-4)
    shapes = {"encoder": (4, 4, 9, 9), "decoder.stack.blocks.0.mixer": (4, 4, 6, 6), "cross": (4, 4, 6, 9)}
    for name, weights in maps.items():
        kind = next(kind for kind in ("cross", "decoder.stack.blocks.0.mixer", "encoder", "") if kind in name)
        assert tuple(weights.shape) == shapes.get(kind, (4, 4, 6, 6))
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        if "encoder" in name:
            assert weights[1, :, :, 4:].abs().max() == 0
    assert len(maps) == sum(isinstance(module, Attention) for module in model.modules())
    after = [module.attention_function for module in model.modules() if isinstance(module, Attention)]
    assert all(attention_function is ATTENTION_FUNCTIONS[spec.attention] for attention_function in after)


@every_variant
def test_plain_tensors_need_no_context(spec: ModelSpec) -> None:
    x = torch.randn(3, 5, spec.width)
    whole: Any = block(spec)
    for part in (whole, *whole.values(), *(residual.sublayer for residual in whole.values())):
        assert part(x).shape == x.shape


def test_names_of_models_parts_are_where_one_looks_for_them() -> None:
    encoder, decoder = build_encoder(SMALL, VOCABULARY, LENGTH), build_decoder(SMALL, VOCABULARY, LENGTH)
    assert isinstance(encoder, Encoder)
    assert isinstance(decoder, Decoder)
    assert "stack.blocks.1.mixer.sublayer.project.weight" in dict(encoder.named_parameters())


def test_a_tied_head_is_the_embeddings_own_matrix() -> None:
    decoder: Any = build_decoder(SMALL, VOCABULARY, LENGTH)
    assert decoder.head.embedding.table.weight is decoder.embedding.table.weight
    names = [name for name, _ in decoder.named_parameters()]
    assert sum("embedding" in name for name in names) == 1
    assert set(weights_of(decoder)) == set(names)
