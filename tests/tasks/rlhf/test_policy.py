"""Reward models and policies, whole: what they learn, that they can go on, and what they refuse."""

import itertools
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from conftest import PLAIN, SMALL, Outcome, done, policy_of_letters, shake, train_letters, write_rankings
from headway import Run, load, recipes
from headway.config import imports
from headway.config.errors import BadSetting, Problem
from headway.data.grammar import THINGS
from headway.generation import Sampling, sample
from headway.lab import rlhf_study
from headway.lab.rlhf_study import Bench, before_and_after
from headway.models import ModelSpec, fast_decoder
from headway.models.build import build_decoder_and_reference
from headway.nn.lora import merge_lora
from headway.runs.fit import Fit, resume, start
from headway.runs.run import size_of
from headway.tasks import TASKS
from headway.tasks.rlhf import ranking_data as rankings
from headway.tasks.rlhf.monitoring import alarms
from headway.tasks.rlhf.pairwise import AnswerPairs
from headway.tasks.rlhf.policy import PolicyWithReference
from headway.tasks.rlhf.ppo import Ppo
from headway.tasks.rlhf.prompts import PromptFile
from headway.tasks.rlhf.ranking_data import RankingPlan
from headway.tasks.rlhf.ranking_data import write_rankings as rank
from headway.tasks.rlhf.rewards import RULES, reward_of
from headway.tasks.rlhf.rollouts import batch_of
from headway.tasks.rlhf.sampler import RolloutSampler, SampledCompletions
from headway.text.tokenizer import Tokenizer

Headway = Callable[..., Outcome]


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_letters(tmp_path_factory.mktemp("language"))


def policy(language: Path, folder: Path, reward: str, *overrides: str) -> Fit:
    return start(recipes.load("ppo", policy_of_letters(language, folder, reward, *overrides)), folder / "ppo")


def opened(session: Fit) -> tuple[Any, Any, Any]:
    """Its task, its model and its first batch."""
    return session.task, session.model, session.batch_at(1)


# --- the law: the best policy is p(y) exp(r(y) / beta), made to add up to 1

ARMS = {"a": 1.0, "b": 0.0}
TREE = {"aa": 1.0, "ab": -1.0, "ba": 0.5}


def arms(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    return [ARMS.get(answer, 0.5) for answer in answers]


def tree(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    return [TREE.get(answer, 0.0) for answer in answers]


def distributions(session: Fit, depth: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Of all answers: what the policy gives them, and the reference, and what they are."""
    task: Any = session.task
    model: Any = session.model.eval()
    prompt, size, end = task.tokens_of_prompts(["a"])[0].tolist(), len(task.tokenizer), task.eos
    answers: list[list[int]] = []
    growing: list[list[int]] = [[]]
    while growing:
        grown = [[*each, token] for each in growing for token in range(size)]
        answers += [each for each in grown if len(each) == depth or each[-1] == end]
        growing = [each for each in grown if len(each) < depth and each[-1] != end]
    probabilities = []
    with torch.no_grad():
        for decoder in (model.decoder, model.reference):
            logs = []
            for answer in answers:
                scores = decoder(torch.tensor([[*prompt, *answer]])).double().log_softmax(dim=-1)[0, len(prompt) - 1 :]
                logs.append(sum(scores[index, token].item() for index, token in enumerate(answer)))
            probabilities.append(np.exp(logs))
    texts = [task.tokenizer.decode([token for token in answer if token != end]) for answer in answers]
    return probabilities[0], probabilities[1], texts


@pytest.mark.parametrize(
    ("depth", "reward", "advantage"), [(1, arms, "estimated"), (2, tree, "estimated"), (2, tree, "grouped")]
)
def test_a_policy_finds_the_best_of_the_regularised_rewards(
    depth: int, reward: Any, advantage: str, language: Path, tmp_path: Path
) -> None:
    beta = 0.5
    how = [f"data.max_new_tokens={depth}", f"data.kl_penalty=fixed(beta={beta})", f"data.advantage={advantage}"]
    how += ["data.rollouts=256", "data.group_size=256", "data.ppo_epochs=4", "train.batch_size=256"]
    how += ["train.steps=240", "train.learning_rate=5e-3"]
    session = done(policy(language, tmp_path, f"test_policy:{reward.__name__}", *how))
    now, before, answers = distributions(session, depth)
    assert now.sum() == pytest.approx(1, abs=1e-5)
    best = before * np.exp(np.array(reward([""] * len(answers), answers)) / beta)
    best /= best.sum()
    assert abs(before - best).sum() / 2 > 0.3
    assert abs(now - best).sum() / 2 < 0.02


def test_with_a_high_price_the_policy_stays(language: Path, tmp_path: Path) -> None:
    how = [
        "data.max_new_tokens=2",
        "data.kl_penalty=fixed(beta=1000)",
        "data.rollouts=256",
        "train.batch_size=256",
        "train.steps=60",
    ]
    session = done(policy(language, tmp_path, "test_policy:tree", *how, "train.learning_rate=1e-3"))
    now, before, _ = distributions(session, 2)
    assert abs(now - before).sum() / 2 < 0.02


def test_with_the_mix_alone_it_is_language_modelling(language: Path, tmp_path: Path) -> None:
    """Where no answer is better than another, what is left is the gradient of the text's loss, times gamma."""
    (tmp_path / "text.txt").write_text("abba" * 30)
    how = ["data.max_new_tokens=2", "data.vf_coef=0", f"data.ptx_data={tmp_path / 'text.txt'}", "data.ptx_coef=0.7"]
    session = policy(language, tmp_path, "test_policy:tree", *how, "data.rollouts=8", "train.batch_size=8")
    task, model, batch = opened(session)
    batch = type(batch)(**{**vars(batch), "advantages": torch.zeros_like(batch.advantages)})
    task.loss(model, batch).mean.backward()
    gradients = [weight.grad.clone() for weight in model.decoder.parameters()]
    model.zero_grad()
    scores = model.decoder(batch.ptx_tokens[:, :-1], documents=batch.ptx_documents)
    (0.7 * torch.nn.functional.cross_entropy(scores.flatten(0, 1), batch.ptx_tokens[:, 1:].flatten())).backward()
    for one, weight in zip(gradients, model.decoder.parameters(), strict=True):
        torch.testing.assert_close(one, weight.grad)


def test_the_first_loss_and_rewards_of_a_rollout_by_hand(language: Path, tmp_path: Path) -> None:
    how = [
        "data.max_new_tokens=4",
        "data.rollouts=16",
        "train.batch_size=16",
        "data.kl_penalty=fixed(beta=0.3)",
        "data.clip_range=0.1",
    ]
    session = policy(language, tmp_path, "test_policy:tree", *how, "model.dropout=0.3")
    task, model, _ = opened(session)
    model.train()
    rollout = task.roll_out(0)  # written and looked at without dropout
    assert model.training
    model.eval()
    assert task.loss(model, batch_of(rollout, torch.arange(16))).count == len(rollout.log_probs)
    batch = batch_of(rollout, torch.tensor([3]))
    size = len(batch.targets)
    alone = model.decoder(batch.inputs).log_softmax(dim=-1)[0, batch.logit_positions]
    logs = alone.gather(1, batch.targets[:, None])[:, 0]
    torch.testing.assert_close(logs, rollout.log_probs[rollout.answers[3] : rollout.answers[4]])
    answer = task.tokenizer.decode([token for token in batch.targets.tolist() if token != task.eos])
    # Nothing is expected at first, and the KL is 0: each token is worth 0.95^k of the reward k tokens later.
    worth = torch.tensor([tree([""], [answer])[0] * 0.95 ** (size - 1 - index) for index in range(size)])
    torch.testing.assert_close(batch.returns, worth.to(batch.returns.dtype))
    assert rollout.advantages.mean().item() == pytest.approx(0, abs=1e-6)


def test_a_policy_stopped_in_the_middle_of_a_round_ends_as_if_left_alone(language: Path, tmp_path: Path) -> None:
    how = ["data.max_new_tokens=4", "data.rollouts=24", "data.ppo_epochs=3", "train.batch_size=10", "train.steps=20"]
    how += ["train.checkpoint_every=1", "data.kl_penalty=adaptive(beta=0.2, target=0.1)", "train.evaluate_every=5"]
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    whole = done(policy(language, tmp_path / "one", "test_policy:tree", *how))
    stopped = policy(language, tmp_path / "other", "test_policy:tree", *how)
    stopped.preflight()  # which has no part in it
    for step in stopped.steps():
        if step.number == 13:  # a round has nine steps
            break
    stopped.lock.release()
    resumed = done(resume(stopped.run.folder))
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert isinstance(whole.task, Ppo)
    assert isinstance(resumed.task, Ppo)
    assert whole.task.beta == resumed.task.beta != 0.2
    assert whole.history == resumed.history
    assert len(whole.history) == 4


def test_adapters_change_nothing_at_first_and_nothing_else_learns(language: Path, tmp_path: Path) -> None:
    """One body: without its adapters, the policy is what it was at the start."""
    how = [
        "data.max_new_tokens=4",
        "data.rollouts=32",
        "train.batch_size=32",
        "train.steps=24",
        "train.learning_rate=1e-2",
    ]
    session = policy(language, tmp_path, "test_policy:tree", *how, "data.lora_rank=2")
    assert [finding.good for finding in session.preflight()[:2]] == [True, True]
    before = {name: weight.clone() for name, weight in session.model.named_parameters()}
    done(session)
    model: Any = session.model.eval()
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if name.endswith((".up", ".down"))} | {"value.weight", "value.bias"}
    assert model.reference is None
    tokens = torch.tensor([[3, 5, 6, 5]])
    now = model.decoder(tokens)
    torch.testing.assert_close(merge_lora(model.decoder)(tokens), now)
    with model.as_reference() as reference:
        then = reference(tokens)
        torch.testing.assert_close(merge_lora(reference)(tokens), then)
    torch.testing.assert_close(then, Run(language).model().cpu()(tokens))
    assert (now - then).abs().max() > 0.01
    assert before_and_after(session.run, 1, 4)[0].prompt == "a"
    assert len(load(session.run.folder).generate(["a"], max_new_tokens=3)) == 1
    for number, adapters in enumerate(("none", "2")):  # another policy goes on from what this one has become
        (tmp_path / str(number)).mkdir()
        after: Any = policy(
            session.run.folder, tmp_path / str(number), "test_policy:tree", *how, f"data.lora_rank={adapters}"
        ).model.eval()
        torch.testing.assert_close(after.decoder(tokens), now)
        with after.as_reference() as reference:
            torch.testing.assert_close(reference(tokens), now)


def test_a_policy_has_the_head_of_its_start(tmp_path: Path) -> None:
    language = train_letters(tmp_path, "model.head=own")
    model: Any = policy(language, tmp_path, "test_policy:tree", "data.max_new_tokens=4").model.eval()
    tokens = torch.tensor([[3, 5, 6, 5]])
    torch.testing.assert_close(model.decoder(tokens), Run(language).model().cpu()(tokens))


@pytest.mark.parametrize("adapters", ["none", "2"])
def test_nothing_of_the_reference_is_dropped(adapters: str, language: Path, tmp_path: Path) -> None:
    overrides = [
        "data.max_new_tokens=4",
        "model.dropout=0.5",
        f"data.lora_rank={adapters}",
        "data.rollouts=8",
        "train.batch_size=8",
    ]
    session = policy(language, tmp_path, "test_policy:tree", *overrides)
    _, model, batch = opened(session)
    model.train()
    torch.testing.assert_close(model.reference_logits(*batch.model_inputs), model.reference_logits(*batch.model_inputs))
    assert model.decoder.training
    assert not torch.equal(model(*batch.model_inputs)[0], model(*batch.model_inputs)[0])


def test_what_is_written_while_measuring_can_be_used_while_learning(language: Path, tmp_path: Path) -> None:
    """On a GPU, steps that were recorded in the one are played back in the other."""
    task, model, _ = opened(policy(language, tmp_path, "test_policy:tree", "data.max_new_tokens=4", "data.rollouts=8"))
    with torch.inference_mode():
        assert not task.sampler.sample(model, [[3, 5]], [1]).tokens.is_inference()


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lora_rank", [None, 2])
def test_answers_are_written_with_the_weights_as_they_are(
    precision: torch.dtype, lora_rank: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though other forms of them are."""
    monkeypatch.setattr(fast_decoder, "WORTH_PACKING", 1)
    decoder, _ = build_decoder_and_reference(ModelSpec(layers=2, width=16, heads=4, hidden=12), 11, 20, lora_rank)
    sampler, prompts = RolloutSampler(Tokenizer.of_words([]), 11, 8, 20), [[1, 2, 3], [4]]
    for _ in range(3):
        shake(decoder)
        policy = PolicyWithReference(decoder, None)
        with torch.no_grad(), torch.autocast("cpu", precision, enabled=precision is not torch.float32):
            expected = torch.stack(list(sample(decoder, prompts, 8, Sampling(), [5, 6])), dim=1)
            assert sampler.sample(policy, prompts, [5, 6]).tokens.tolist() == expected.tolist()


def test_with_damaged_checkpoints_alone_it_begins_again_with_its_start(language: Path, tmp_path: Path) -> None:
    how = [
        "data.max_new_tokens=4",
        "data.rollouts=8",
        "train.batch_size=8",
        "train.steps=2",
        "train.checkpoint_every=1",
    ]
    session = policy(language, tmp_path, "test_policy:tree", *how)
    next(session.steps())
    session.lock.release()
    (weights,) = session.run.checkpoints.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    again: Any = resume(session.run.folder)
    assert any("not used" in note for note in again.notes)
    assert any("starts from" in note for note in again.notes)
    tokens = torch.tensor([[3, 5, 6, 5]])
    torch.testing.assert_close(again.model.eval().decoder(tokens), Run(language).model().cpu()(tokens))


def test_a_template_goes_on_from_run_to_run(language: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "a", "answer": "b"}\n{"prompt": "b", "answer": "a"}\n' * 4)
    overrides = [f"data.train={tmp_path / 'a.jsonl'}", "data.validation=0.5", "data.max_length=8", "train.steps=1"]
    first = start(recipes.load("sft", [f"start={language}", *overrides, PLAIN]), tmp_path / "sft")
    assert first.spec.steps == len(list(first.steps())) == 1  # and not the epochs of the recipe
    assert recipes.load("ppo", [f"start={first.run.folder}", "data.max_length=60"]).data.template == "{prompt}{answer}"
    own = recipes.load("ppo", [f"start={first.run.folder}", "data.max_length=60", r"data.template={prompt}\n{answer}"])
    assert TASKS["ppo"](own).template.prompt("a") == "a\n"  # type: ignore[attr-defined]


def test_what_cannot_be_a_policy_is_refused(language: Path, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="at least 0"):
        policy(language, tmp_path, "test_policy:tree", "data.max_new_tokens=4", "data.kl_penalty=fixed(beta=-1)")
    for rule in ("words", "matches(pattern='(')"):
        with pytest.raises(Problem, match="does not work"):
            policy(language, tmp_path, rule, "data.max_new_tokens=4")
    with pytest.raises(Problem, match="at least 2"):
        policy(language, tmp_path, "test_policy:tree", "data.max_new_tokens=4", "data.advantage=grpo")
    with pytest.raises(BadSetting, match="batches of varying shapes"):
        policy(language, tmp_path, "test_policy:tree", "data.max_new_tokens=4", "train.cuda_graphs=true")


# --- rewards


def raises(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    raise ValueError("no idea")


def gives_nan(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    return [math.nan for _ in answers]


def gives_few(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    return [0.0]


TIMES = {"asked": 0}


def fails_later(prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
    TIMES["asked"] += 1
    if TIMES["asked"] > 3:
        raise ValueError("the service is down")
    return [float(len(answer)) for answer in answers]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "failed: ValueError: no idea"),
        ("gives_nan", "gave nan for the answer"),
        ("gives_few", "gave 1 numbers"),
    ],
)
def test_a_reward_that_is_none_is_one_line(name: str, message: str, language: Path, tmp_path: Path) -> None:
    with pytest.raises(Problem) as error:
        done(policy(language, tmp_path, f"test_policy:{name}", "data.max_new_tokens=2", "data.rollouts=4"))
    assert str(error.value).startswith("the reward")
    assert message in str(error.value)


def test_a_run_whose_reward_fails_is_kept_and_goes_on(language: Path, tmp_path: Path) -> None:
    TIMES["asked"] = 0
    how = ["data.max_new_tokens=2", "data.rollouts=8", "train.batch_size=8", "data.ppo_epochs=2", "train.steps=8"]
    session = policy(language, tmp_path, "test_policy:fails_later", *how)
    with pytest.raises(Problem, match="the service is down"):
        done(session)
    kept = Run(session.run.folder).newest()[0]
    assert kept is not None
    assert kept.step == session.progress.step > 0
    TIMES["asked"] = -100
    assert done(resume(session.run.folder)).run.is_done
    assert Run(session.run.folder).summary()["state"] == "done"


def test_rules_and_what_cannot_be_a_reward(language: Path) -> None:
    assert reward_of("words(wanted='good fine', unwanted='bad')", "data.reward", Run)(
        ["", ""], ["good bad x", "fine good"]
    ) == [0, 2]
    assert reward_of("length(target=2)", "data.reward", Run)([""], ["one two three"]) == [-1]
    assert reward_of("matches(pattern='^a+$')", "data.reward", Run)(["", ""], ["aa", "ab"]) == [1, 0]
    assert reward_of("quality", "data.reward", Run)(["the plot was"], [" really good ."]) == [1]
    assert sorted(RULES) == ["length", "matches", "quality", "words"]
    imports.trust(["no.module:name", "math:nothing", "math:pi"])
    refused = ("nothing", "no.module:name", "math:nothing", "math:pi", str(language), f"{language}:a", "runs/none")
    for text in refused:
        with pytest.raises(BadSetting, match=r"data\.reward") as error:
            reward_of(text, "data.reward", Run)
        assert not isinstance(error.value, imports.Untrusted)


def test_a_label_of_a_classifier_is_a_reward_and_chooses_the_best_of_n(
    language: Path, tmp_path: Path, headway: Headway
) -> None:
    """The logarithm of its odds, of a prompt with its answer."""
    rows = "".join(f"{label},{'ab'[label]} {letter * 3}\n" for label in (0, 1) for letter in "abcd")
    (tmp_path / "labelled.csv").write_text("label,text\n" + rows)
    overrides = [
        f"data.train={tmp_path / 'labelled.csv'}",
        "data.test=0.25",
        "data.validation=0.25",
        "data.tokenizer=char",
    ]
    run = done(start(recipes.load("classify", [*overrides, *SMALL, "train.steps=3"]), tmp_path / "classes")).run
    give = reward_of(f"{run.folder}:1", "data.reward", Run)
    for (prompt, answer), actual in zip(ASKED, give(*zip(*ASKED, strict=True)), strict=True):
        chance = load(run.folder).predict(f"{prompt} {answer}").probabilities["1"]
        assert actual == pytest.approx(math.log(chance / (1 - chance)), abs=1e-4)
    with pytest.raises(BadSetting, match="no label '7'"):
        reward_of(f"{run.folder}:7", "data.reward", Run)
    with pytest.raises(BadSetting, match=f"name one of its labels, {run.folder}:1"):
        reward_of(str(run.folder), "data.reward", Run)
    asked = ["generate", str(language), "a", "b", "--max-new-tokens", "6", "--seed", "3", "--json"]
    best = json.loads(headway(*asked, "--best-of", "4", "--reward", f"{run.folder}:1").out)
    for index, (prompt, row) in enumerate(zip("ab", best, strict=True)):
        texts = [load(language).generate(prompt, max_new_tokens=6, seed=3 + 4 * index + number) for number in range(4)]
        rewards = give([prompt] * 4, texts)
        assert row == {"prompt": prompt, "text": texts[int(np.argmax(rewards))], "reward": pytest.approx(max(rewards))}
    assert "reward" in headway(*asked[:-1], "--best-of", "2", "--reward", "length").out
    assert headway(*asked, "--best-of", "4").code == 2


ASKED = [("a", "aaa"), ("b", "bb"), ("ab", "b a")]


def test_repeated_runs_of_tokens_by_hand() -> None:
    """1 2 3 1 2 3 1: of its runs of three, 1 2 3 and 2 3 1 come twice; what stands behind an end does not count."""
    tokens = torch.tensor([[1, 2, 3, 1, 2, 3, 1], [1, 1, 1, 1, 0, 1, 1], [1, 2, 0, 0, 0, 0, 0]])
    written = SampledCompletions.of([[5]] * 3, tokens, 0)
    assert written.sizes.tolist() == [7, 5, 3]
    assert written.repeated().tolist() == pytest.approx([2 / 5, 1 / 3, 0])
    assert SampledCompletions.of([[5]], torch.tensor([[1, 2]]), 0).repeated().tolist() == [0]


# --- reward models and direct preference


@pytest.fixture(scope="module")
def rewarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reward")
    overrides = [
        f"data.train={write_rankings(folder / 'r.jsonl', 400)}",
        "data.tokenizer=char",
        PLAIN,
        "data.max_length=16",
    ]
    how = [*SMALL, "train.epochs=6", "train.learning_rate=5e-3", "train.evaluate_every=1000", "data.validation=0.2"]
    done(start(recipes.load("reward", [*overrides, *how]), folder / "run"))
    return folder / "run"


def test_a_reward_model_ranks_what_it_has_not_seen(rewarded: Path) -> None:
    scores = Run(rewarded).results["test"]["validation"]
    assert scores["accuracy"] > 0.75
    assert scores["accuracy_2_apart"] >= scores["accuracy_1_apart"] > 0.9
    assert 0 <= scores["calibration_error"] < 0.3
    assert 0.5 <= scores["length_alone"] < scores["accuracy"]


def test_rewards_are_centred_and_do_not_depend_on_what_stands_beside(rewarded: Path) -> None:
    run = Run(rewarded)
    task: Any = run.task
    model = run.model()
    actual = task.parts["train"]
    prompts = [each.prompt for each in actual for _ in each.answers]
    answers = [answer for each in actual for answer in each.answers]
    rewards = task.rate(model, prompts, answers)
    assert np.mean(rewards) == pytest.approx(0, abs=1e-4)
    assert task.rate(model, prompts[5:6], answers[5:6])[0] == pytest.approx(rewards[5], abs=1e-4)


def test_the_loss_of_a_reward_model_by_hand(rewarded: Path) -> None:
    run = Run(rewarded)
    task: Any = run.task
    model = run.model()
    data = task.splits().validation["validation"]
    batch = data.batch(np.arange(3))
    ends = batch.cu_seqlens.tolist()
    alone = [model(batch.inputs[:, a:b]).item() for a, b in itertools.pairwise(ends)]
    expected = 0.0
    for prompt in range(3):
        own = [index for index in range(len(alone)) if batch.prompt_ids[index] == prompt]
        pairs = list(itertools.combinations(own, 2))
        for i, j in pairs:
            won = 0.5 * (1 + np.sign(int(batch.targets[j]) - int(batch.targets[i])))
            likely = 1 / (1 + math.exp(alone[j] - alone[i]))
            expected -= (won * math.log(likely) + (1 - won) * math.log(1 - likely)) / len(pairs)
    loss = task.loss(model, batch)
    assert loss.total.item() == pytest.approx(expected, rel=1e-4)
    assert loss.count == batch.count == 3


def test_the_reward_verb_says_which_is_better(rewarded: Path, language: Path, headway: Headway) -> None:
    report = json.loads(headway("reward", str(rewarded), "abc", "bbbb", "aaaa", "--json").out)
    assert [row["answer"] for row in report["answers"]] == ["aaaa", "bbbb"]
    assert "reward" in headway("reward", str(rewarded), "abc", "bbbb", "aaaa").out
    assert headway("reward", str(language), "abc", "bbbb").code == 2


def test_the_rewards_of_better_and_worse_answers_are_shown_and_drawn(rewarded: Path, headway: Headway) -> None:
    drawn = Path("rewards.png")
    report = json.loads(headway("evaluate", str(rewarded), "--picture", str(drawn), "--json").out)["test"]["validation"]
    run = Run(rewarded)
    task: Any = run.task
    data = task.splits().validation["validation"]
    judged = task.pairs(run.model(), data)
    borders = np.array(report["rewards"]["borders"])
    for side, rewards in judged.sides.items():
        inside = [((rewards >= low) & (rewards < high)).sum() for low, high in itertools.pairwise(borders)]
        inside[-1] += (rewards == borders[-1]).sum()
        assert report["rewards"][side] == inside
    assert judged.better.mean() > judged.worse.mean()
    assert sum(each["count"] for each in report["calibration"]) == len(judged.margins)
    assert drawn.stat().st_size > 0
    assert headway("evaluate", str(rewarded), "--picture", "rewards.foo").code == 2
    for verb in ("generate", "predict"):
        assert "headway reward RUN" in headway(verb, str(rewarded), "a").err
    shown = headway("evaluate", str(rewarded)).out
    assert "next: headway reward" in shown
    assert "how often is it right" in shown
    assert "better" in shown


def test_judgements_by_hand() -> None:
    rewards, lengths = np.array([2.0, 1.0, 1.5, 0.0, 0.0]), np.array([1.0, 2.0, 2.0, 9.0, 9.0])
    actual = AnswerPairs.of(rewards, lengths, np.array([0, 1, 2, 0, 0]), np.array([0, 0, 0, 1, 1]))
    assert sorted(actual.margins.tolist()) == [-0.5, 0.5, 1.0]  # the tie of the second prompt is left out
    assert actual.accuracy == pytest.approx(2 / 3)
    assert actual.by_distance() == {1: 0.5, 2: 1.0}
    assert actual.by_length() == pytest.approx(1 - 0.5 / 3)


def test_an_answer_without_tokens_is_one_line(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "answers": ["ab", "\u0301"]}, {"prompt": "q", "answers": ["a", "b"]}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = [f"data.train={tmp_path / 'r.jsonl'}", "data.validation=0.5", "data.tokenizer=char", *SMALL]
    with pytest.raises(Problem, match=r"r\.jsonl, line 1: an answer has no known token"):
        start(recipes.load("reward", [*overrides, PLAIN, "data.normalize=accents"]), tmp_path / "run")
    with pytest.raises(Problem, match=r"r\.jsonl: every text is longer than data\.max_length=2"):
        start(recipes.load("reward", [*overrides, PLAIN, "data.max_length=2"]), tmp_path / "run")


def test_direct_preference_begins_at_chance_and_learns(language: Path, tmp_path: Path) -> None:
    rows = [{"prompt": prompt, "answers": ["aa", "bb", "ba"]} for prompt in ("a", "b", "ab", "ba", "aab", "bba")]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = [
        f"start={language}",
        f"data.train={tmp_path / 'r.jsonl'}",
        "data.validation=0.2",
        PLAIN,
        "data.max_length=8",
    ]
    how = ["train.epochs=none", "train.steps=80", "train.learning_rate=3e-3", "train.warmup=1", "data.beta=0.5"]
    session = start(recipes.load("dpo", [*overrides, *how]), tmp_path / "dpo")
    steps = list(session.steps())
    assert steps[0].loss == pytest.approx(math.log(2), abs=1e-5)
    assert steps[-1].loss < 0.3
    assert session.run.results["test"]["validation"]["accuracy"] > 0.9
    assert load(tmp_path / "dpo").generate(["a"], max_new_tokens=4, temperature=0)[0].startswith("aa")
    with pytest.raises(BadSetting, match="a run of dpo, not of reward"):
        reward_of(str(tmp_path / "dpo"), "data.reward", Run)


@pytest.mark.parametrize("after", ["", "b"])
def test_supervised_fine_tuning_answers_as_shown(after: str, language: Path, tmp_path: Path) -> None:
    """What the template has behind an answer is written, but is no part of it."""
    rows = [{"prompt": prompt, "answer": "ba"} for prompt in ("a", "b", "ab", "ba", "aab", "bba")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    overrides = [f"start={language}", f"data.train={tmp_path / 'a.jsonl'}", "data.validation=0.2", "data.max_length=9"]
    how = [
        f"data.template={{prompt}}>{{answer}}{after}",
        "train.epochs=120",
        "train.learning_rate=1e-2",
        "train.warmup=1",
    ]
    session = done(start(recipes.load("sft", [*overrides, *how]), tmp_path / "sft"))
    assert load(tmp_path / "sft").generate(["a", "bba"], temperature=0) == ["ba", "ba"]
    tokenizer = session.task.tokenizer  # type: ignore[attr-defined]
    sampler = RolloutSampler(tokenizer, 0, 4, 8, after)
    written = SampledCompletions.of([[1]], torch.tensor([[*tokenizer.encode([f"ba{after}"])[0].tolist(), 0]]), 0)
    assert sampler.texts(written) == ["ba"]


# --- around a policy


def test_a_run_writes_answers_and_a_judge_ranks_them(language: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("a\nb\nab\n")
    count = rank(language, tmp_path / "p.txt", "matches(pattern='a')", tmp_path / "r.jsonl", RankingPlan(3, 4), Run)
    examples = PromptFile(tmp_path / "r.jsonl", min_answers=2).examples
    assert count == len(examples) == 3
    for each in examples:
        judged = ["a" in answer for answer in each.answers]
        assert judged == sorted(judged, reverse=True)
        assert len(set(each.ranks)) == len(set(judged))  # equals are ties


def test_rankings_that_were_stopped_go_on_to_the_same_ones(
    language: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "CHUNK", 2)
    (tmp_path / "p.txt").write_text("a\nb\nab\nba\nbb\n")
    how, asked = RankingPlan(3, 4, noise=1.0), (language, tmp_path / "p.txt", "matches(pattern='a')")
    rank(*asked, tmp_path / "whole.jsonl", how, Run)
    shares: list[float] = []

    def stop(_: str, share: float) -> None:
        shares.append(share)
        if len(shares) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rank(*asked, tmp_path / "halted.jsonl", how, Run, stop)
    (unfinished,) = tmp_path.glob(".unfinished-*")
    with unfinished.open("a") as file:
        file.write('[{"prompt": "cut o')
    shares += [0.0]
    rank(*asked, tmp_path / "halted.jsonl", how, Run, stop)
    assert len(shares) == 3 + 2  # what was done was not done again
    assert (tmp_path / "halted.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert not list(tmp_path.glob(".*"))
    assert rank(*asked, tmp_path / "halted.jsonl", how, Run, stop) == 5  # nothing is written again
    assert len(shares) == 3 + 2
    with pytest.raises(Problem, match=r"was made with noise=1\.0, not noise=2\.0"):
        rank(*asked, tmp_path / "halted.jsonl", replace(how, noise=2.0), Run)


def test_the_check_up_finds_nothing_wrong_with_a_policy_and_says_what_is(language: Path, tmp_path: Path) -> None:
    good = policy(language, tmp_path, "length(target=1)", "data.max_new_tokens=6").preflight()
    assert [finding.good for finding in good] == [True] * 4, good
    shutil.rmtree(tmp_path / "ppo")
    bad = policy(language, tmp_path, "matches(pattern='z')", "data.max_new_tokens=6")
    model: Any = bad.model
    with torch.no_grad():
        model.decoder.embedding.table.weight.mul_(1.5)
    words = " ".join(finding.message for finding in bad.preflight() if not finding.good)
    assert "the policy differs from its reference" in words
    assert "the same reward" in words


def test_what_is_new_in_a_policy_is_new_in_its_reference(language: Path, tmp_path: Path) -> None:
    session = policy(language, tmp_path, "length(target=1)", "model.layers=3", "data.max_new_tokens=4")
    model: Any = session.model
    for one, other in zip(model.decoder.parameters(), model.reference.parameters(), strict=True):
        assert torch.equal(one, other)
    for wrong in ("estimated(discount=2)", "estimated(gae_lambda=-3)"):
        with pytest.raises(BadSetting, match=r"data\.advantage.*not both from 0 to 1"):
            policy(language, tmp_path, "length(target=1)", "data.max_new_tokens=4", f"data.advantage={wrong}")


def test_alarms_are_raised_for_what_goes_wrong_and_for_nothing_else() -> None:
    calm = {"kl": 1.0, "entropy": 2.0, "length": 20.0, "repeated": 0.1, "reward": 0.0, "judge": 0.0}
    assert alarms([calm]) == alarms([calm, calm, calm]) == []
    cases: dict[str, dict[str, float]] = {
        "below zero": {"kl": -3.0},
        "running off": {"kl": 99.0},
        "all alike": {"entropy": 0.1},
        "grew": {"length": 60.0},
        "shrank": {"length": 5.0},
        "repeat themselves": {"repeated": 0.3},
    }
    for words, change in cases.items():
        (message,) = alarms([calm, {**calm, **change}])
        assert words in message
    history = [{**calm, "reward": float(index), "judge": -float(index)} for index in range(4)]
    assert "gap" in " ".join(alarms(history))
    assert alarms([{**calm, "reward": float(index), "judge": float(index)} for index in range(4)]) == []


def test_rlhf_runs_all_stages_once_and_compares(
    headway: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = {
        "near": ("data.kl_penalty=fixed(beta=1)", "data.ptx_data=reviews"),
        "grouped": ("data.advantage=grpo", "data.group_size=4"),
    }
    monkeypatch.setattr(rlhf_study, "STUDY", study)
    monkeypatch.setattr(rlhf_study, "BEST_OF", (1, 3))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "the {thing}"}}\n' for thing in THINGS))
    of_start = ["train.steps=30", "model.width=16", "model.heads=2"]
    overrides = [f"start.{word}" for word in of_start] + ["reward.train.epochs=1", f"reward.data.train={prompts}"]
    overrides += [
        "reward.data.max_length=200",
        "reward.data.max_new_tokens=8",
        f"data.train={prompts}",
        "data.max_new_tokens=6",
    ]
    overrides += [
        "data.rollouts=8",
        "train.batch_size=4",
        "train.steps=4",
        "train.evaluate_every=2",
        "data.validation=0.2",
    ]
    first = headway("rlhf", "rlhf-lab", *overrides, "--study", "--out", "all")
    assert first.code == 0, first.err
    folders = {path.parent.relative_to("all").as_posix() for path in Path("all").rglob("recipe.toml")}
    assert folders == {"start", "reward", "policy", "study/near", "study/grouped", "study/dpo"}
    table = first.out[first.out.index("perplexity") :]
    for name in ("best of 1", "best of 3", "ppo", "near", "grouped", "dpo"):
        assert name in table
    assert Path("all/ways.png").stat().st_size > 0
    page = Path("all/answers.html").read_text()
    assert "<th>before<th>after" in page
    weights = Path("all/policy/checkpoints/step-00000004/model.safetensors").stat().st_mtime_ns
    again = headway("rlhf", "rlhf-lab", *overrides, "--out", "all")
    assert again.out.count("already done") == 3
    assert Path("all/policy/checkpoints/step-00000004/model.safetensors").stat().st_mtime_ns == weights
    for wrong, message in {
        "train.steps=5": "all/policy has train.steps=4, not train.steps=5",
        "start.train.steps=9": "all/start has train.steps=30",
        "start.train.step=9": "start.train.step: no such key; did you mean 'train.steps'?",
        "reward.data.answrs=9": "reward.data.answrs: no such key",
        "data.reward=words(wanted='good')": "there is no recipe for the reward",
    }.items():
        outcome = headway("rlhf", "rlhf-lab", *overrides, wrong, "--out", "all")
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert message in outcome.err
        assert "step 1/" not in outcome.out
    assert headway("rlhf", "parity", "train.steps=2", "train.warmup=1").code == 2


def test_the_best_of_n_by_hand(language: Path, tmp_path: Path) -> None:
    session = done(
        policy(language, tmp_path, "length(target=0)", "data.max_new_tokens=4", "train.steps=2", "data.rollouts=8")
    )
    bench = Bench.of(session.run)
    one, four = bench.best_of([1, 4])
    assert one.point.kl == 0
    assert four.point.kl == pytest.approx(math.log(4) - 0.75)
    assert four.point.reward >= one.point.reward
    assert one.perplexity == four.perplexity
    assert bench.outcome("policy", session.run).point.kl < 1
    (pair,) = before_and_after(session.run, 1, 4)
    assert pair.prompt == "a"


def test_rewards_that_are_all_the_same_are_calibrated() -> None:
    """They say one half, and are right half of the time."""
    pairs = AnswerPairs.of(np.zeros(40), np.ones(40), np.arange(40) % 2, np.arange(40) // 2)
    assert (pairs.accuracy, pairs.calibration()[0]) == (0.5, 0.0)


def test_the_frozen_reference_is_not_counted() -> None:
    model = nn.ModuleDict({"decoder": nn.Linear(3, 4), "reference": nn.Linear(3, 4)})
    assert size_of(model) == 16
