"""Rankings without people: a run writes several answers to each prompt, and something else judges them."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.config.errors import Problem
from headway.data.cache import key_of
from headway.data.files import Progress, read_json, silent
from headway.data.storage import write_whole
from headway.generation import Sampling
from headway.generation.generator import Generator
from headway.tasks.abilities import Generates, OpenRun, need
from headway.tasks.rlhf.prompts import PromptFile
from headway.tasks.rlhf.rewards import reward_of

AT_ONCE = 128  # prompts
TRIES = 3  # times as many answers are written as are wanted, at most: some come twice, or are empty


@dataclass(frozen=True)
class Labelling:
    answers: int = 4  # to each prompt
    max_new_tokens: int = 48  # tokens of an answer at most
    noise: float = 0.0  # the spread of the judge's error
    seed: int = 1


def write_rankings(
    run: str | Path,
    prompts: Path,
    judge: str,
    out: Path,
    how: Labelling,
    open_run: OpenRun,
    progress: Progress = silent,
) -> int:
    """Answers to each prompt, ranked by what the judge gives them, and its error; gives how many prompts there are.
    Two that are judged alike are a tie. Whoever is stopped goes on where that was; what is done is not done again."""
    asked = [each.prompt for each in PromptFile(prompts, least=0).all]
    about = {"run": str(run), "judge": judge, **asdict(how), "prompts": key_of(prompts=asked)}
    if out.exists():
        refuse_others(out, about)
        return sum(1 for _ in out.open())
    give, random = reward_of(judge, "judge", open_run), np.random.default_rng([how.seed, 3])
    kept = Kept(out, key_of(**about))
    random.standard_normal((sum(map(len, kept.chunks)), how.answers))  # the errors of those that are done
    start = open_run(run)
    generator = need(start.task, Generates).generator(start.model())
    for chunk in written(generator, asked, how, len(kept.chunks), progress):
        rows = []
        for prompt, own in chunk:
            scores = np.array(give([prompt] * len(own), own)) + how.noise * random.standard_normal(len(own))
            order, ranks = np.argsort(-scores, kind="stable"), np.unique(-scores, return_inverse=True)[1]
            rows.append({"prompt": prompt, "answers": [own[at] for at in order], "ranks": ranks[order].tolist()})
        kept.add(rows)
    found = [row for rows in kept.chunks for row in rows]
    if not found:
        raise Problem(f"{run} did not write {how.answers} different answers to any prompt: is it trained?")
    write_whole(about_of(out), json.dumps(about, indent=2))
    write_whole(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found))
    kept.path.unlink()
    return len(found)


def about_of(out: Path) -> Path:
    """What a file of rankings was made from stands beside it."""
    return out.with_suffix(".json")


def refuse_others(out: Path, about: dict[str, Any]) -> None:
    found = read_json(about_of(out))
    for key, value in about.items():
        if found.get(key) != value:
            other = f"{out} was made with {key}={found.get(key)}, and this asks for {key}={value}"
            raise Problem(f"{other}: take another --out, or remove that file")


class Kept:
    """Chunks of rows that are finished, beside the file that they are for: its key, and a line for each."""

    def __init__(self, out: Path, key: str):
        self.path = out.with_name(f".unfinished-{out.name}")
        self.chunks: list[list[dict[str, Any]]] = []
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        for line in lines[1:] if lines[:1] == [key] else []:
            try:
                self.chunks.append(json.loads(line))
            except ValueError:  # the last one may have been cut off
                break
        write_whole(self.path, "".join(line + "\n" for line in [key, *lines[1 : len(self.chunks) + 1]]))

    def add(self, rows: list[dict[str, Any]]) -> None:
        self.chunks.append(rows)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rows) + "\n")


def written(
    generator: Generator, prompts: list[str], how: Labelling, done: int, progress: Progress
) -> Iterator[list[tuple[str, list[str]]]]:
    """Chunk by chunk, behind those that are done, prompts with as many different answers; those that the run has too
    few for are left out."""
    for first in range(done * AT_ONCE, len(prompts), AT_ONCE):
        some = prompts[first : first + AT_ONCE]
        found: list[dict[str, None]] = [{} for _ in some]
        for number in range(TRIES * how.answers):
            short = [place for place, own in enumerate(found) if len(own) < how.answers]
            if not short:
                break
            seeds = np.random.default_rng([how.seed, first, number]).integers(1 << 32, size=len(some))[short]
            new = generator.write([some[place] for place in short], how.max_new_tokens, Sampling(), seeds.tolist())
            for place, answer in zip(short, new, strict=True):
                if answer.strip():
                    found[place][answer] = None
        progress("writing answers", min((first + AT_ONCE) / len(prompts), 1.0))
        yield [(prompt, list(own)) for prompt, own in zip(some, found, strict=True) if len(own) == how.answers]
