"""Synthetic rankings: a run samples several answers to each prompt, and a judge ranks them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import Problem
from headway.config.json_files import read_json
from headway.data.cache import key_of
from headway.data.files import Progress, silent
from headway.data.storage import write_whole
from headway.generation import Sampling
from headway.generation.generator import Generator
from headway.tasks.abilities import Generates, OpenRun, need
from headway.tasks.rlhf.prompts import PromptFile
from headway.tasks.rlhf.rewards import reward_of

CHUNK = 128  # prompts
TRIES = 3  # sample at most this many times the answers needed: some are duplicates or empty


@dataclass(frozen=True)
class RankingPlan:
    answers: int = 4  # per prompt
    max_new_tokens: int = 48
    noise: float = 0.0  # standard deviation of noise added to the judge's scores
    seed: int = 1


def write_rankings(
    run: str | Path,
    prompts: Path,
    judge: str,
    out: Path,
    plan: RankingPlan,
    open_run: OpenRun,
    progress: Progress = silent,
) -> int:
    """Write answers to each prompt, ranked by the judge's noisy scores; equal scores are ties. Return the number of
    prompts. An interrupted call continues where it stopped."""
    texts = [each.prompt for each in PromptFile(prompts, min_answers=0).examples]
    about = {"run": str(run), "judge": judge, **asdict(plan), "prompts": key_of(prompts=texts)}
    if out.exists():
        check_origin(out, about)
        return sum(1 for _ in out.open())
    score, random = reward_of(judge, "judge", open_run), np.random.default_rng([plan.seed, 3])
    unfinished = Unfinished(out, key_of(**about))
    random.standard_normal((sum(map(len, unfinished.chunks)), plan.answers))  # skip the noise of finished prompts
    start = open_run(run)
    generator = need(start.task, Generates).generator(start.network)
    for chunk in sample_answers(generator, texts, plan, len(unfinished.chunks), progress):
        rows = []
        for prompt, own in chunk:
            scores = np.array(score([prompt] * len(own), own)) + plan.noise * random.standard_normal(len(own))
            order, ranks = np.argsort(-scores, kind="stable"), np.unique(-scores, return_inverse=True)[1]
            rows.append({"prompt": prompt, "answers": [own[index] for index in order], "ranks": ranks[order].tolist()})
        unfinished.add(rows)
    rankings = [row for rows in unfinished.chunks for row in rows]
    if not rankings:
        raise Problem(f"{run} did not generate {plan.answers} different answers to any prompt: is it trained?")
    write_whole(about_of(out), json.dumps(about, indent=2))
    write_whole(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rankings))
    unfinished.path.unlink()
    return len(rankings)


def about_of(out: Path) -> Path:
    """The file that says how a file of rankings was made."""
    return out.with_suffix(".json")


def check_origin(out: Path, about: dict[str, Any]) -> None:
    """Refuse a file that was made with other settings."""
    before = read_json(about_of(out))
    for key, value in about.items():
        if before.get(key) != value:
            other = f"{out} was made with {key}={before.get(key)}, not {key}={value}"
            raise Problem(f"{other}: use another --out, or remove that file")


class Unfinished:
    """The finished chunks of an unfinished file: a line with its key, then a line per chunk."""

    def __init__(self, out: Path, key: str):
        self.path = out.with_name(f".unfinished-{out.name}")
        self.chunks: list[list[dict[str, Any]]] = []
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for line in lines[1:] if lines[:1] == [key] else []:
            try:
                self.chunks.append(json.loads(line))
            except ValueError:  # the last line may be incomplete
                break
        write_whole(self.path, "".join(line + "\n" for line in [key, *lines[1 : len(self.chunks) + 1]]))

    def add(self, rows: list[dict[str, Any]]) -> None:
        self.chunks.append(rows)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows) + "\n")


def sample_answers(
    generator: Generator, prompts: list[str], plan: RankingPlan, done: int, progress: Progress
) -> Iterator[list[tuple[str, list[str]]]]:
    """Chunks of prompts with ``plan.answers`` different answers each, after the ``done`` chunks. Prompts with fewer are
    left out."""
    for first in range(done * CHUNK, len(prompts), CHUNK):
        chunk = prompts[first : first + CHUNK]
        answers: list[dict[str, None]] = [{} for _ in chunk]  # an ordered set for each prompt
        for number in range(TRIES * plan.answers):
            short = [index for index, own in enumerate(answers) if len(own) < plan.answers]
            if not short:
                break
            seeds = np.random.default_rng([plan.seed, first, number]).integers(1 << 32, size=len(chunk))[short]
            new = generator.write([chunk[index] for index in short], plan.max_new_tokens, Sampling(), seeds.tolist())
            for index, answer in zip(short, new, strict=True):
                if answer.strip():
                    answers[index][answer] = None
        progress("generating answers", min((first + CHUNK) / len(prompts), 1.0))
        yield [(prompt, list(own)) for prompt, own in zip(chunk, answers, strict=True) if len(own) == plan.answers]
