"""Prompts with answers: how they are read, and how they become batches."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import Outcome, write_rankings
from headway.config.errors import BadSetting, Problem
from headway.config.recipe import ModelSpec
from headway.data.generated import generated
from headway.data.grammar import meaning, quality, review
from headway.data.sequences import Completions
from headway.models.build import build_decoder
from headway.objectives.likelihood import cross_entropy
from headway.tasks.rlhf.prompted import Template
from headway.tasks.rlhf.prompts import PromptExample, PromptFile
from headway.tasks.rlhf.rankings import Rankings

Headway = Callable[..., Outcome]


def read(tmp_path: Path, name: str, text: str, min_answers: int = 2, skip: bool = False) -> list[PromptExample]:
    (tmp_path / name).write_text(text)
    return PromptFile(tmp_path / name, skip_bad=skip, min_answers=min_answers).examples


def test_answers_are_read_in_every_form(tmp_path: Path) -> None:
    rows = [
        {"prompt": "p", "answers": ["best", "good", "bad"]},
        {"question": "p", "answers": ["a", "b", "c"], "ranks": [1, 0, 1.0]},
        {"instruction": "q", "chosen": "yes", "rejected": "no"},
    ]
    actual = read(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert actual == [
        PromptExample(1, "p", ["best", "good", "bad"], [0, 1, 2]),
        PromptExample(2, "p", ["a", "b", "c"], [1, 0, 1]),
        PromptExample(3, "q", ["yes", "no"], [0, 1]),
    ]
    assert [each.best for each in actual] == ["best", "b", "yes"]
    table = "prompt,answer,rank\np,good,1\nq,one,0\np,best,0\nq,two,0\n"
    assert read(tmp_path, "b.csv", table) == [
        PromptExample(2, "p", ["good", "best"], [1, 0]),
        PromptExample(3, "q", ["one", "two"], [0, 0]),
    ]
    assert read(tmp_path, "c.csv", "prompt,response\np,r\np,s\n", min_answers=1) == [
        PromptExample(2, "p", ["r"], [0]),
        PromptExample(3, "p", ["s"], [0]),
    ]
    assert [each.prompt for each in read(tmp_path, "d.txt", "one\ntwo\n", min_answers=0)] == ["one", "two"]


BAD = {
    '{"prompt": "p", "answers": ["only"]}': "there is only one answer",
    '{"prompt": "p", "answers": ["a", "a"]}': "the answer 'a' occurs twice",
    '{"prompt": "p", "answers": ["a", " "]}': "answer 2 is empty",
    '{"prompt": "p", "answers": ["a", "b"], "ranks": [0]}': "'ranks' must be 2 numbers",
    '{"prompt": "p", "answers": ["a", "b"], "ranks": [0, "x"]}': "not all ranks are numbers",
    '{"prompt": "p", "answers": ["a", "b"], "ranks": [0, NaN]}': "a rank is missing",
    '{"prompt": "p", "answers": "a"}': "'answers' is not a list of strings",
    '{"prompt": "p", "chosen": "a"}': "no 'rejected'",
    '{"answers": ["a", "b"]}': "no 'prompt' among 'answers'",
    '{"prompt": {}, "answers": ["a", "b"]}': "'prompt' is not a string",
    "{": "not a JSON object",
}


@pytest.mark.parametrize("line", BAD)
def test_what_is_no_ranking_is_refused_or_left_out(line: str, tmp_path: Path) -> None:
    good = '{"prompt": "p", "answers": ["a", "b"]}'
    with pytest.raises(Problem) as error:
        read(tmp_path, "a.jsonl", f"{good}\n{line}\n")
    assert str(error.value).startswith(f"{tmp_path / 'a.jsonl'}, line 2: ")
    assert BAD[line] in str(error.value)
    assert len(read(tmp_path, "a.jsonl", f"{good}\n{line}\n", skip=True)) == 1


def test_bad_rankings_are_one_line_on_the_command_line(headway: Headway, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"prompt": "p", "answers": ["only"]}\n')
    outcome = headway("train", "reward", "data.train=bad.jsonl")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "bad.jsonl, line 1: there is only one answer" in outcome.err
    assert not (tmp_path / "runs").exists()
    for words in (["data.train=gone.jsonl"], []):
        assert headway("train", "sft", *words).code == 2
    tied = tmp_path / "tied.jsonl"
    tied.write_text("".join(f'{{"prompt": "{n}", "answers": ["a", "b"], "ranks": [1, 1]}}\n' for n in range(40)))
    outcome = headway("train", "reward", f"data.train={tied}", "data.tokenizer=char", "--out", "tied")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "no answer is better than another" in outcome.err
    assert not Path("tied").exists()
    assert "start" in headway("train", "dpo", f"data.train={write_rankings(tmp_path / 'r.jsonl')}").err


def test_templates() -> None:
    template = Template("Q: {prompt}\nA: {answer}!")
    assert template.prompt("why?") == "Q: why?\nA: "
    assert template.answer("so") == "so!"
    for text in ("{prompt}", "{answer}", "{answer}{prompt}", "{prompt}{prompt}{answer}", "{prompt}{answer}{answer}"):
        with pytest.raises(BadSetting):
            Template(text)


def test_packed_completions_are_padded_ones() -> None:
    random = np.random.default_rng(0)
    rows = [random.integers(3, 20, size) for size in (5, 2, 9, 4)]
    padded = Completions.of(rows, [2, 1, 4, 3])
    packed = replace(padded, packed=True)
    model = build_decoder(ModelSpec(width=16, heads=2, layers=1), 20, 16)
    one: Any = padded.batch(np.arange(4))
    other: Any = packed.batch(np.arange(4))
    expected = cross_entropy(model(one.inputs), one.targets, one.weights)
    actual = cross_entropy(
        model(other.inputs, packing=other.packing, logit_positions=other.logit_positions), other.targets
    )
    torch.testing.assert_close(actual.total, expected.total)
    assert actual.count == expected.count == other.count == 3 + 1 + 5 + 1
    assert other.targets.tolist() == [*rows[0][2:], *rows[1][1:], *rows[2][4:], *rows[3][3:]]


def test_a_batch_has_all_answers_to_its_prompts_once() -> None:
    prompts = [np.array([9, 1]), np.array([9]), np.array([9, 2, 3])]
    answers = [[np.array([5, 0]), np.array([6, 6, 0])], [np.array([7, 0])] * 2, [np.array([8, 0]), np.array([4, 0])]]
    data = Rankings.of(prompts, answers, [[1, 0], [3.5, 3.5], [7, 9]])
    batch = data.batch(np.array([2, 0]))
    assert batch.inputs.tolist() == [[9, 2, 3, 8, 0, 9, 2, 3, 4, 0, 9, 1, 5, 0, 9, 1, 6, 6, 0]]
    assert batch.targets.tolist() == [0, 1, 1, 0]
    assert batch.prompt_ids.tolist() == [0, 0, 1, 1]
    assert batch.count == 2
    assert batch.inputs[0, batch.logit_positions + 1].tolist() == [8, 0, 4, 0, 5, 0, 6, 6, 0]
    assert data.batch(np.array([1])).targets.tolist() == [0, 0]
    assert sum(len(rows) for rows, _ in data.batches()) == len(data) == 3


def test_the_quality_of_a_review_is_known() -> None:
    assert meaning("the plot was not , to my mind , dull") == ("plot", 1)
    assert meaning("i did not enjoy the music") == ("music", -1)
    assert meaning("i did really regret the cast") == ("cast", -1)
    for odd in (
        "the plot was dull",
        "i did really dull the plot",
        "the plot was really enjoy",
        "plot",
        "i did really enjoy",
    ):
        assert meaning(odd) == (None, -1)
    assert quality("the plot was really good . i did not hate the music .") == 2
    assert quality("the plot was really good . i did not hate the plot .") == 0  # about the same thing again
    assert quality("the plot was really good . the") == 0
    many = " . ".join(f"the {thing} was really good" for thing in ("plot", "cast", "music", "script", "hero", "pace"))
    assert quality(many) == 4 - 2
    random = np.random.default_rng(0)
    for label in (0, 1) * 20:
        text = review(label, 1, random)
        things = {meaning(each.strip())[0] for each in text.split(".") if each.strip()}
        assert None not in things
        assert quality(text) == (2 if label else -2) if len(things) == 2 else quality(text) in (0, -2)


def test_made_files_are_made_once_and_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = generated("openings").read_bytes()
    written_at = generated("openings").stat().st_mtime_ns
    assert generated("openings").stat().st_mtime_ns == written_at
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    assert generated("openings").read_bytes() == first
