"""Rankings without people: a run writes several answers to each prompt, and something else judges them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headway.data.answers import AnswerFile
from headway.data.files import Progress, silent
from headway.errors import Problem
from headway.generate import Sampling
from headway.rewards import reward_of
from headway.run import Run
from headway.train.files import write_whole

AT_ONCE = 128  # prompts
TRIES = 3  # times as many answers are written as are wanted, at most: some come twice, or are empty


@dataclass(frozen=True)
class Ranking:
    answers: int = 4  # to each prompt
    limit: int = 48  # tokens of an answer at most
    noise: float = 0.0  # the spread of the judge's error
    seed: int = 1


def write_rankings(
    run: str | Path, prompts: Path, judge: str, out: Path, how: Ranking, progress: Progress = silent
) -> int:
    """Answers to each prompt, ranked by what the judge gives them, and its error; gives how many prompts there are.
    Two that are judged alike are a tie."""
    asked = [each.prompt for each in AnswerFile(prompts, least=0).all]
    give, random = reward_of(judge, "judge"), np.random.default_rng([how.seed, 3])
    rows = []
    for prompt, own in written(Run(run), asked, how, progress):
        scores = np.array(give([prompt] * len(own), own)) + how.noise * random.standard_normal(len(own))
        order, ranks = np.argsort(-scores, kind="stable"), np.unique(-scores, return_inverse=True)[1]
        rows.append({"prompt": prompt, "answers": [own[at] for at in order], "ranks": ranks[order].tolist()})
    if not rows:
        raise Problem(f"{run} did not write {how.answers} different answers to any prompt: is it trained?")
    write_whole(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(rows)


def written(run: Run, prompts: list[str], how: Ranking, progress: Progress) -> Iterator[tuple[str, list[str]]]:
    """Prompts with as many different answers; those that the run has too few for are left out."""
    writer = run.task.writer(run.model())
    for first in range(0, len(prompts), AT_ONCE):
        some = prompts[first : first + AT_ONCE]
        found: list[dict[str, None]] = [{} for _ in some]
        for number in range(TRIES * how.answers):
            short = [place for place, own in enumerate(found) if len(own) < how.answers]
            if not short:
                break
            seeds = np.random.default_rng([how.seed, first, number]).integers(1 << 32, size=len(some))[short]
            new = writer.write([some[place] for place in short], how.limit, Sampling(), seeds.tolist())
            for place, answer in zip(short, new, strict=True):
                if answer.strip():
                    found[place][answer] = None
        progress("writing answers", min((first + AT_ONCE) / len(prompts), 1.0))
        yield from ((prompt, list(own)) for prompt, own in zip(some, found, strict=True) if len(own) == how.answers)
