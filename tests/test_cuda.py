"""What holds on a CPU holds on a GPU too, in every precision; skipped where there is none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import PLAIN, SMALL, done, policy_of_letters, shake, train_letters, write_rankings, write_texts
from headway import recipes
from headway.generation import Beam, Sampling, beam_search, sample
from headway.generation.sampling import inverse_cdf
from headway.models import ModelSpec, build_classifier, build_decoder, build_encoder, build_encoder_decoder
from headway.models.build import build_decoder_and_reference
from headway.models.fast_decoder import GraphedDecoder, half_copy
from headway.nn import attend
from headway.nn.packing import Packing
from headway.recipes import TABLES
from headway.runs.fit import resume, start
from headway.tasks.word2vec.cpu_engine import epoch_key
from headway.tasks.word2vec.gpu_engine import GpuEngine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("length", "head_width"), [(5, 8), (64, 16), (200, 64)])
@pytest.mark.parametrize("biased", [False, True])
def test_who_may_look_at_nothing_gets_zeros(precision: torch.dtype, length: int, head_width: int, biased: bool) -> None:
    shape = (3, 4, length, head_width)
    query, key, value = (torch.randn(shape, device="cuda", dtype=precision, requires_grad=True) for _ in range(3))
    bias = torch.randn(4, length, length, device="cuda") if biased else None
    mask = torch.rand(3, 1, length, length, device="cuda") < 0.7
    mask[1] = False
    mask[2, :, 3] = False
    output = attend(query, key, value, mask, bias)
    assert output[1].abs().max() == 0
    assert output[2, :, 3].abs().max() == 0
    gradients = torch.autograd.grad(output.float().square().sum(), [query, key, value])
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert gradient[1].abs().max() == 0
    assert gradients[0][2, :, 3].abs().max() == 0
    query, key, value = (each.detach().float().cpu() for each in (query, key, value))
    expected = attend(query, key, value, mask.cpu(), None if bias is None else bias.cpu())
    loose = 1e-4 if precision is torch.float32 else 3e-2
    torch.testing.assert_close(output.detach().float().cpu(), expected, atol=loose, rtol=loose)


@pytest.mark.parametrize(
    ("key", "name"), [(key, name) for key, table in TABLES.items() if key.startswith("model.") for name in table]
)
def test_every_part_gives_what_it_gives_on_a_cpu(key: str, name: str) -> None:
    changes: dict[str, Any] = {key.removeprefix("model."): name}
    model = shake(build_classifier(replace(ModelSpec(layers=2, width=16, heads=4, hidden=12), **changes), 11, 9, 3))
    tokens, lengths = torch.randint(11, (4, 9)), torch.tensor([9, 4, 1, 6])
    expected = model(tokens, lengths)
    torch.testing.assert_close(model.cuda()(tokens.cuda(), lengths.cuda()).cpu(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("changes", [{}, {"kv_heads": 2}, {"qk_norm": "rmsnorm"}, {"position": "t5"}], ids=str)
def test_packed_is_as_padded(causal: bool, changes: dict[str, Any]) -> None:
    """In bf16, where one kernel works through sequences of all lengths; with a bias, they go one by one."""
    spec = replace(ModelSpec(layers=2, width=64, heads=4, hidden=64, position="rotary"), **changes)
    model: Any = shake(build_decoder(spec, 11, 99) if causal else build_encoder(spec, 11, 99)).cuda()
    tokens, lengths = torch.randint(11, (4, 99), device="cuda"), torch.tensor([99, 40, 1, 64], device="cuda")
    real = torch.arange(99, device="cuda") < lengths[:, None]
    with torch.autocast("cuda", torch.bfloat16):
        padded = model(tokens)[real] if causal else model(tokens, lengths)[real]
        packed = model(tokens[real][None], packing=Packing.of(lengths))[0]
    torch.testing.assert_close(packed.float(), padded.float(), atol=0.1, rtol=0.05)
    towards = torch.randn_like(packed)
    gradients = [torch.autograd.grad(each, list(model.parameters()), towards) for each in (packed, padded)]
    for one, other in zip(*gradients, strict=True):
        assert (one - other).norm() < 0.03 * other.norm() + 1e-3


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_run_learns_and_resumes(tmp_path: Path, precision: str, optimizer: str) -> None:
    overrides = [f"train.precision={precision}", f"train.optimizer={optimizer}", "model.dropout=0.05"]
    recipe = recipes.load("parity", [*overrides, "train.steps=400", "train.checkpoint_every=100"])
    losses = [step.loss for step in start(recipe, tmp_path / "whole").steps()]
    assert losses[-1] < 0.7 * losses[0]
    steps = start(recipe, tmp_path / "halted").steps()
    first = [next(steps).loss for _ in range(100)]
    steps.close()
    rest = [step.loss for step in resume(tmp_path / "halted").steps()]
    assert first + rest == pytest.approx(losses, rel=0.1, abs=0.05)


@pytest.mark.parametrize("mixer", TABLES["model.mixer"])
@pytest.mark.parametrize("position", TABLES["model.position"])
def test_recorded_steps_write_what_plain_ones_do(mixer: str, position: str) -> None:
    spec = ModelSpec(layers=2, width=16, heads=4, hidden=12, mixer=mixer, position=position)
    model: Any = shake(build_decoder(spec, 11, 40)).cuda()
    device = torch.device("cuda")
    for prompts in ([[1, 2, 3]], [[1, 2, 3], [4], [5, 6, 7, 8]]):
        captured = GraphedDecoder(model)
        with torch.inference_mode():
            plain = torch.stack(list(sample(model, prompts, 20, Sampling(0.0), device=device)), dim=1)
            for _ in range(2):  # recorded, and then played from a state that takes its place
                actual = torch.stack(list(sample(captured, prompts, 20, Sampling(0.0), device=device)), dim=1)
                assert actual.tolist() == plain.tolist()
                assert len(captured.recordings) <= 1
            both = zip(*(sample(captured, prompts, 20, Sampling(0.0), device=device) for _ in range(2)), strict=True)
            first, second = (torch.stack(each, dim=1) for each in zip(*both, strict=True))  # side by side
            assert first.tolist() == second.tolist() == plain.tolist()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_recorded_steps_follow_weights_that_learn(precision: torch.dtype) -> None:
    """A policy writes, learns and writes again: nothing may be left of its matrices as they were."""
    spec = ModelSpec(layers=2, width=64, heads=4, position="rotary")
    model: Any = shake(build_decoder(spec, 11, 40)).cuda()
    captured, tokens = GraphedDecoder(model), torch.randint(11, (12, 4, 1), device="cuda")
    for _ in range(3):
        actual = []
        with torch.no_grad():
            for steps in (model, captured):
                with torch.autocast("cuda", precision, enabled=precision is not torch.float32):
                    state, scores = steps.begin(4, 12), []
                    for each in tokens:
                        new, state = steps.step(each, state)
                        scores.append(new.float().clone())
                actual.append(torch.stack(scores))
            loose = 1e-4 if precision is torch.float32 else 5e-2
            torch.testing.assert_close(*actual, atol=loose, rtol=loose)
            shake(model)
        assert actual[0].std() > 10 * loose


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head", ["tied", "own"])
@pytest.mark.parametrize("lora_rank", [None, 2])
def test_recorded_steps_of_a_copy_in_half_precision_follow_too(
    precision: torch.dtype, head: str, lora_rank: int | None
) -> None:
    """Recorded once: what is brought up to date is in the same memory."""
    spec = ModelSpec(layers=2, width=64, heads=4, position="rotary", head=head)
    model: Any = shake(build_decoder_and_reference(spec, 11, 40, lora_rank)[0]).cuda()
    twin, refresh = half_copy(model, precision)
    captured, tokens = GraphedDecoder(twin), torch.randint(11, (12, 4, 1), device="cuda")
    for _ in range(3):
        actual = []
        with torch.no_grad(), torch.autocast("cuda", precision):
            for steps in (model, captured):
                state, scores = steps.begin(4, 12), []
                for each in tokens:
                    new, state = steps.step(each, state)
                    scores.append(new.clone())
                actual.append(torch.stack(scores))
            del state
        spread = float(actual[0].std())
        torch.testing.assert_close(*actual, atol=0.05 * spread, rtol=5e-2)
        assert len(captured.recordings) == 1
        shake(model)
        refresh()


def test_long_rows_are_drawn_from_as_on_a_cpu() -> None:
    logits, draws = 3 * torch.randn(64, 50_257), torch.rand(64)
    logits[:, 7_000:9_000] = -torch.inf
    assert inverse_cdf(logits.cuda(), draws.cuda()).tolist() == inverse_cdf(logits, draws).tolist()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("adapters", ["none", "2"])
def test_a_policy_learns_and_goes_on(precision: str, adapters: str, tmp_path: Path) -> None:
    language = train_letters(tmp_path)
    words = [
        "data.max_new_tokens=4",
        "data.rollouts=64",
        "train.batch_size=32",
        "train.learning_rate=1e-2",
        "train.steps=40",
    ]
    words += [f"train.precision={precision}", f"data.lora_rank={adapters}", "train.checkpoint_every=13"]
    words = policy_of_letters(language, tmp_path, "matches(pattern='^a')", *words)
    (tmp_path / "prompts.jsonl").write_text(
        "".join(f'{{"prompt": "{one}{other}"}}\n' for one in "ab" for other in "ab") * 16
    )
    recipe = recipes.load("ppo", words)
    session = start(recipe, tmp_path / "whole")
    for good, finding in session.preflight():
        assert good, finding
    before = session.measure(session.splits.validation)["validation"]
    after = done(session).run.results["test"]["validation"]
    assert abs(before["kl"]) < 1e-3
    assert after["reward"] > before["reward"]
    assert 0 < after["kl"] < 20
    steps = start(recipe, tmp_path / "halted").steps()
    for _ in range(13):
        next(steps)
    steps.close()
    again = done(resume(tmp_path / "halted")).run.results["test"]["validation"]
    assert again["reward"] == pytest.approx(after["reward"], abs=0.3)


def test_a_reward_model_ranks(tmp_path: Path) -> None:
    overrides = [
        f"data.train={write_rankings(tmp_path / 'r.jsonl', 400)}",
        "data.tokenizer=char",
        PLAIN,
        "data.max_length=16",
    ]
    how = [*SMALL, "train.epochs=6", "train.learning_rate=5e-3", "data.validation=0.2", "train.precision=bf16"]
    run = done(start(recipes.load("reward", [*overrides, *how]), tmp_path / "run")).run
    assert run.results["test"]["validation"]["accuracy"] > 0.8


@pytest.mark.parametrize("position", TABLES["model.position"])
def test_recorded_searches_find_what_plain_ones_do(position: str) -> None:
    spec = ModelSpec(layers=2, width=16, heads=4, hidden=12, position=position)
    model: Any = shake(build_encoder_decoder(spec, 11, 11, 40)).cuda()
    sources, lengths = torch.randint(11, (5, 9), device="cuda"), torch.tensor([9, 4, 1, 6, 2], device="cuda")
    with torch.inference_mode():
        captured = GraphedDecoder(model.decoder)
        for beam in (Beam(4, best=2), Beam(4, length_penalty=0.5, early=False)):
            sources, lengths = sources.flip(0), lengths.flip(0)  # others, in the same shape
            plain, recorded = (
                beam_search(model.conditioned_on(sources, lengths, steps), [[1]] * 5, 20, 2, beam, torch.device("cuda"))
                for steps in (model.decoder, captured)
            )
            assert len(captured.recordings) == 1
            for one, other in zip(plain, recorded, strict=True):
                assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-3)


@pytest.mark.parametrize("objective", ["likelihood", "rdrop"])
def test_recorded_steps_translate_as_plain_ones_do(tmp_path: Path, objective: str) -> None:
    overrides = ["data.examples=600", "data.tests=20", "train.steps=40", f"data.objective={objective}(smoothing=0.1)"]
    losses = [
        [
            step.loss
            for step in start(recipes.load("numbers", [*overrides, f"train.cuda_graphs={on}"]), tmp_path / on).steps()
        ]
        for on in ("true", "false")
    ]
    torch.testing.assert_close(*map(torch.tensor, losses), atol=2e-3, rtol=2e-3)


def test_a_compiled_loss_is_the_same(tmp_path: Path) -> None:
    overrides = ["data.examples=200", "data.tests=20", "train.steps=12", "train.epochs=none", "train.log_every=1"]
    losses = [
        [step.loss for step in start(recipes.load("steps", [*overrides, f"train.compile={on}"]), tmp_path / on).steps()]
        for on in ("blocks", "loss", "nothing")
    ]
    *compiled, plain = map(torch.tensor, losses)
    for actual in compiled:
        torch.testing.assert_close(actual, plain, atol=2e-3, rtol=2e-3)


def test_recorded_steps_train_as_plain_ones_do(tmp_path: Path) -> None:
    overrides = [
        "data.examples=400",
        "data.tests=20",
        "train.steps=30",
        "train.epochs=none",
        "train.average=ema(decay=0.9)",
    ]
    losses = [
        [
            step.loss
            for step in start(recipes.load("steps", [*overrides, f"train.cuda_graphs={on}"]), tmp_path / on).steps()
        ]
        for on in ("true", "false")
    ]
    torch.testing.assert_close(*map(torch.tensor, losses), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("units", ["words", "ngrams(buckets=50)"])
@pytest.mark.parametrize("objective", ["skipgram", "cbow"])
def test_word_vectors_move_as_on_a_cpu_and_go_on_to_the_bit(objective: str, units: str, tmp_path: Path) -> None:
    overrides = [f"data.train={write_texts(tmp_path / 'texts')}", f"data.objective={objective}", f"data.units={units}"]
    overrides += [
        "data.min_count=1",
        "model.width=8",
        "train.batch_size=200",
        "train.epochs=4",
        "train.checkpoint_every=3",
    ]
    recipe = recipes.load("vectors", [*overrides, "train.device=cuda"])
    session = start(recipe, tmp_path / "whole")
    loop: Any = session.loop
    engine = loop.engine
    other = GpuEngine(engine.text, engine.config, *(each.cpu().clone() for each in (engine.inputs, engine.outputs)))
    losses = [step.loss for step in session.steps()]
    steps = start(recipe, tmp_path / "halted").steps()
    first = [next(steps).loss for _ in range(3)]
    steps.close()
    assert first + [step.loss for step in resume(tmp_path / "halted").steps()] == losses
    spec, order = session.spec, session.sampler
    for number, loss in enumerate(losses, start=1):
        epoch, begin, end = order.rows_at(number).tolist()
        rate = spec.learning_rate * loop.schedule(number - 0.5)
        total, count = other.learn(begin, end, rate, epoch_key(spec.seed, epoch))
        assert total / count == pytest.approx(loss, rel=1e-4)
    for mine, theirs in ((engine.inputs, other.inputs), (engine.outputs, other.outputs)):
        torch.testing.assert_close(mine.cpu(), theirs, atol=1e-4, rtol=1e-3)
