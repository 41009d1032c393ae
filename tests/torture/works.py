"""What is broken off and gone on with: every kind of run, studies, caches, imports and exports, each as small as it
can be. And what has to be the same in the end.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from conftest import write_pairs, write_rankings, write_reviews, write_texts
from headway.__main__ import main
from torture.harness import SHARE

SMALL = ["model.layers=1", "model.width=8", "model.heads=2", "model.dropout=0.1"]
OFTEN = [
    "train.steps=8",
    "train.epochs=none",
    "train.checkpoint_every=2",
    "train.evaluate_every=3",
    "train.log_every=1",
]
PLAIN = ["train.precision=fp32", "train.compile=nothing", "train.warmup=2", "train.batch_size=8"]
PARITY = ["data.examples=100", "data.tests=20", "data.length=6"]
SMALLEST = [*PARITY, *SMALL, *OFTEN, *PLAIN]
BPE = ["data.vocab_size=280", "data.window=16", "data.validation=0.2"]
ANSWERS = ["data.template={prompt}{answer}", "data.validation=0.2", "data.max_length=24", *OFTEN, "train.warmup=2"]
TIMES = ("tokens_per_second", "seconds", "created", "reached")
CLOCKS = re.compile(rf', "({"|".join(TIMES)})": [\d.]+')
OUR_OWN = ("lock", "about.json", "manifest.json", "journal.log")  # have times or hashes of them


@dataclass(frozen=True)
class Work:
    """A command, what it makes, and the command that goes on with what is half done; none: the same again."""

    begin: tuple[str, ...]
    made: str = "run"
    resume: tuple[str, ...] | None = ("resume", "run")
    small: bool = True  # whether ``make test`` has it too

    def words(self, folder: Path) -> list[str]:
        return list(self.resume if self.resume and (folder / self.made).exists() else self.begin)

    def is_done(self, folder: Path) -> bool:
        return self.resume is None and (folder / self.made).exists()


def train(recipe: str, *words: str, small: bool = True) -> Callable[[Path], Work]:
    """A run of this recipe; BASES in a word is the folder with its data."""
    return lambda bases: Work(
        ("train", recipe, *(word.replace("BASES", str(bases)) for word in words), "--out", "run"), small=small
    )


def again(*words: str, made: str, small: bool = True) -> Callable[[Path], Work]:
    """A command that is simply given again."""
    return lambda bases: Work(tuple(word.replace("BASES", str(bases)) for word in words), made, None, small)


REVIEWS, TEXTS, RANKINGS = "data.train=BASES/reviews.csv", "data.train=BASES/texts", "data.train=BASES/rankings.jsonl"
LETTERS, PROMPTS = "start=BASES/letters/run", "data.train=BASES/prompts.jsonl"
PAIRS = ["data.source=BASES/pairs.en", "data.target=BASES/pairs.de", "data.vocab_size=280", "data.max_length=40"]
STUDY = ["data.examples=40", "data.tests=10", "data.length=4", *SMALL[2:], "train.steps=4", "train.checkpoint_every=1"]
TINY_STUDY = [*STUDY, "train.batch_size=8", "train.warmup=1", "train.evaluate_every=2"]

RUNS: dict[str, Callable[[Path], Work]] = {
    "parity": train("parity", *SMALLEST, "train.optimizer=muon", "train.average=ema(decay=0.9)", "train.accumulate=2"),
    "classify": train("classify", REVIEWS, "data.test=0.2", *SMALL, *OFTEN, *PLAIN, "train.patience=3"),
    "language": train("language", TEXTS, *BPE, *SMALL, *OFTEN, *PLAIN),
    "language-lstm": train("language-lstm", TEXTS, *BPE, *SMALL[:2], *OFTEN, *PLAIN, "train.batch_size=2"),
    "translate": train("translate", *PAIRS, *SMALL, *OFTEN, *PLAIN, "data.validation=0.2", small=False),
    "pretrain": train("pretrain", TEXTS, *BPE, *SMALL, *OFTEN, *PLAIN, "train.batch_tokens=64", small=False),
    "fine-tune": train("classify", REVIEWS, "data.test=0.2", "start=BASES/masked/run", *OFTEN, *PLAIN, small=False),
    "vectors": train("vectors", TEXTS, "data.min_count=1", "model.width=8", *OFTEN, "train.batch_size=60", small=False),
    "sft": train("sft", LETTERS, RANKINGS, *ANSWERS, small=False),
    "reward": train("reward", LETTERS, RANKINGS, *ANSWERS, small=False),
    "dpo": train("dpo", LETTERS, RANKINGS, *ANSWERS, small=False),
    "ppo": train(
        *("ppo", LETTERS, PROMPTS, *ANSWERS, "data.validation=BASES/prompts.jsonl", "data.reward=length"),
        *("data.max_new_tokens=4", "data.rollouts=8", "train.batch_size=4"),
    ),
}
OTHERS: dict[str, Callable[[Path], Work]] = {
    "compare": again(
        *("compare", "parity", *TINY_STUDY, "--vary", "model.norm=pre,post", "--seeds", "2", "--out", "study"),
        made="study/comparison.json",
        small=False,
    ),
    "search": again(
        *("search", "parity", *TINY_STUDY, "--goal", "accuracy>0.3", "--trials", "4", "--out", "study"),
        made="study/front.png",
        small=False,
    ),
    "export": again("export", "BASES/letters/run", "--to", "torch", "--out", "exported", made="exported", small=False),
    "import": again("import", "BASES/gpt2", "--out", "run", made="run", small=False),
}
WORKS = RUNS | OTHERS


def verb(words: list[str]) -> None:
    """In a child: what the command headway does with these words."""
    sys.argv = ["headway", *words]
    main()


def make_bases(forks: Any, folder: Path) -> None:
    """The data that works read, and the runs that they start from."""
    write_reviews(folder / "reviews.csv", 60)
    write_texts(folder / "texts", 8)
    write_pairs(folder, 60)
    write_rankings(folder / "rankings.jsonl", 16)
    (folder / "prompts.jsonl").write_text("".join(f'{{"prompt": "{letter}"}}\n' for letter in "abcd"))
    (folder / "letters.jsonl").write_text('{"text": "abcdabcdddccbbaa"}\n' * 20)
    letters = [f"data.train={folder}/letters.jsonl", "data.tokenizer=char", "data.window=24", "data.validation=0.2"]
    plain = ["model.position=learned", "model.feedforward=gelu", "model.embedding=lookup(scale=1.0)"]
    masked = [f"data.train={folder}/texts", *BPE, *SMALL, *OFTEN, *PLAIN, "train.batch_tokens=64"]
    makes = [
        ("letters", ["train", "language", *letters, *SMALL, *plain, *OFTEN, *PLAIN, "--out", "run"]),
        ("masked", ["train", "pretrain", *masked, "--out", "run"]),
        ("", ["export", "letters/run", "--to", "transformers", "--out", "gpt2"]),
    ]
    for name, words in makes if SHARE else makes[:1]:  # works that are not small need the others
        ended = forks.run("torture.works:verb", folder / name, words=words)
        assert ended.code == 0, ended


def outcome(folder: Path) -> dict[str, str]:
    """What a work left behind, without what a clock decides: of checkpoints, the last and the best one."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    kept = {name: path for name, path in files.items() if is_result(folder, path)}
    texts = {name: CLOCKS.sub("", content_of(path)) for name, path in kept.items()}
    return {name: sha256(text.encode()).hexdigest() for name, text in texts.items()}


def content_of(path: Path) -> str:
    """JSON without times; the header of safetensors sorted: its library writes metadata in any order."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        start = 8 + int.from_bytes(content[:8], "little")
        content = json.dumps(json.loads(content[8:start]), sort_keys=True).encode() + content[start:]
    if path.suffix == ".json":
        content = json.dumps(without_clocks(json.loads(content))).encode()
    return content.decode("latin-1")


def without_clocks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_clocks(each) for key, each in value.items() if key not in TIMES}
    return [without_clocks(each) for each in value] if isinstance(value, list) else value


def is_result(folder: Path, path: Path) -> bool:
    parts = path.relative_to(folder).parts
    if path.name in OUR_OWN or path.suffix == ".png" or {"tensorboard", "cache"} & {*parts} or len(parts) == 1:
        return False
    if any(part.startswith(".") for part in parts):  # half done
        return False
    if "checkpoints" not in parts:
        return True
    results = path.parents[2] / "results.json"
    if not results.exists():  # nothing was trained
        return True
    done = json.loads(results.read_text())
    return path.parent.name in {f"step-{done[key]:08d}" for key in ("steps", "weights_of_step")}


def leftovers(folder: Path) -> list[str]:
    """Names that only something half done has."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*")]
