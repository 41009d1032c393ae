"""What the tests share."""

import csv
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a core of its own; torch reads this when it is imported
    os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
import torch
from torch import nn

from headway import cli, recipes
from headway.config import imports
from headway.config.recipe import Recipe
from headway.data.grammar import LABELS, THINGS, review
from headway.recipes import registry
from headway.runs.fit import Fit, start
from headway.text.spelling import FORMS
from trained import trained as trained

SMALL = ["model.layers=1", "model.width=16", "model.heads=2", "model.position=rotary", "train.warmup=1"]
PLAIN = "data.template={prompt}{answer}"
NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: at the end, no core waits for another."""
    items.sort(key=lambda item: item.path.name != "test_docs.py")


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder that is not made before it is needed: pytest's own goes through all others for the next number."""
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path_factory.getbasetemp() / f"own-cache-{next(NUMBERS)}"))


@pytest.fixture(autouse=True)
def hasty_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: tests lose no power, but for those in torture/, in processes of their own."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(autouse=True)
def forget_registered() -> Iterator[None]:
    """What a test registers or trusts is gone afterwards."""
    yield
    for key, name in registry.REGISTERED:
        for table in registry.tables_of(key):
            table.pop(name, None)
    registry.REGISTERED.clear()
    imports.TRUSTED.clear()
    imports.MODULES.clear()


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_reviews(path: Path, count: int = 120) -> Path:
    """A file of labelled texts, as a user might have one."""
    random = np.random.default_rng(1)
    rows = [(review(place % 2, 1, random), LABELS[place % 2]) for place in range(count)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def write_texts(folder: Path, count: int = 20) -> Path:
    """A folder of texts, each a few lines long."""
    random = np.random.default_rng(2)
    folder.mkdir(exist_ok=True)
    for number in range(count):
        lines = [review(int(random.integers(2)), 1, random) for _ in range(5)]
        (folder / f"{number}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_pairs(folder: Path, count: int = 120) -> tuple[Path, Path]:
    """Two parallel files: numbers in English and in German."""
    numbers = np.random.default_rng(3).integers(10_000, size=count).tolist()
    paths = folder / "pairs.en", folder / "pairs.de"
    for path, form in zip(paths, ("en", "de"), strict=True):
        path.write_text("".join(f"{FORMS[form](number)}\n" for number in numbers), encoding="utf-8")
    return paths


NAMES = {"PER": ("Ada", "Grace Hopper", "Alan Turing", "Hopper"), "LOC": ("Rome", "New York", "San Marino", "Ada")}


def write_tagged(path: Path, count: int = 120) -> Path:
    """Names of people and places in BIO, of which some are both."""
    random = np.random.default_rng(5)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            rows = []
            for kind, verb in (("PER", "lives in"), ("LOC", "since")):
                name = str(random.choice(NAMES[kind])).split()
                rows += [f"{word} {'B' if place == 0 else 'I'}-{kind}" for place, word in enumerate(name)]
                rows += [f"{word} O" for word in verb.split()]
            file.write("\n".join([*rows, f"{random.integers(1000)} O"]) + "\n\n")
    return path


def write_rankings(path: Path, count: int = 40, answers: int = 3) -> Path:
    """Prompts with ranked answers: the more often there is an a in one, the better."""
    random = np.random.default_rng(4)
    with path.open("w") as file:
        for _ in range(count):
            prompt, own = "".join(random.choice(list("abcd"), 3)), set[str]()
            while len(own) < answers:
                own.add("".join(random.choice(list("abcd"), int(random.integers(2, 7)))))
            ordered = sorted(own)
            ranks = [-answer.count("a") for answer in ordered]
            file.write(json.dumps({"prompt": prompt, "answers": ordered, "ranks": ranks}) + "\n")
    return path


def done(session: Fit) -> Fit:
    for _ in session.steps():
        pass
    return session


def train_letters(folder: Path, *more: str) -> Path:
    """A language model of a and b."""
    texts = ["".join(letters) for size in range(1, 6) for letters in itertools.product("ab", repeat=size)]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    words = [f"data.train={folder / 'texts.jsonl'}", "data.tokenizer=char", "data.window=8", "data.validation=0.2"]
    recipe = recipes.load("language", [*words, *SMALL, "train.steps=60", "train.batch_size=4", *more])
    return done(start(recipe, folder / "run")).run.folder


def policy_of_letters(language: Path, folder: Path, reward: str, *words: str) -> list[str]:
    """The settings of a policy that goes on from a."""
    imports.trust_own("data.reward", reward)
    prompts = folder / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n')
    files = [f"start={language}", f"data.train={prompts}", f"data.validation={prompts}", f"data.reward={reward}"]
    how = [PLAIN, "data.max_length=8", "train.schedule=linear", "train.evaluate_every=1000", "train.warmup=0"]
    return [*files, *how, *words]


def quick(name: str, folder: Path) -> list[str]:
    """Settings with which any built-in recipe trains in a second, on data that are made here."""
    words = ["train.steps=4", "train.evaluate_every=2", "train.epochs=none"]
    recipe = recipes.load(name)
    task = recipe.task
    if task == "classify":
        first = [f"start.{word}" for word in quick(recipe.start, folder)] if recipes.is_recipe(recipe.start) else []
        plain = ["train.precision=fp32", "train.compile=nothing"]
        return [*first, *words, f"data.train={write_reviews(folder / 'reviews.csv')}", "data.test=0.2", *plain]
    if task == "language":
        text = f"data.train={write_texts(folder / 'texts')}"
        small = ["model.layers=1", "model.width=16", "model.heads=2", "data.window=16", "data.vocab_size=300"]
        return [*words, text, "data.validation=0.2", *small, "train.precision=fp32", "train.compile=nothing"]
    if task == "pretrain":
        text = f"data.train={write_texts(folder / 'texts')}"
        small = ["model.layers=1", "model.width=16", "model.heads=2", "data.window=16", "data.vocab_size=300"]
        how = ["train.batch_tokens=64", "train.precision=fp32", "train.compile=nothing"]
        return [*words, text, "data.validation=0.2", *small, *how]
    if task == "vectors":
        text = f"data.train={write_texts(folder / 'texts')}"
        return [*words, text, "data.min_count=1", "model.width=8", "train.batch_size=60"]
    if task == "translate":
        source, target = write_pairs(folder)
        small = ["model.layers=1", "model.width=16", "model.heads=2", "data.vocab_size=320", "data.validation=0.2"]
        files = [f"data.source={source}", f"data.target={target}"]
        return [*words, *files, *small, "data.max_length=40", "train.precision=fp32", "train.compile=nothing"]
    if task == "tag":
        small = ["model.width=16", "model.heads=2", "data.validation=0.2", "data.test=0.2"]
        return [*words, f"data.train={write_tagged(folder / 'tagged.conll')}", *small]
    if task in ("sft", "reward", "dpo", "ppo"):
        return [*words, *quick_answers(recipe, folder)]
    return [*words, "data.examples=200", "data.tests=40"]


def quick_answers(recipe: Recipe, folder: Path) -> list[str]:
    start = recipe.start or "rlhf-lab-language"
    of_start = ["train.steps=4", "model.width=16", "model.heads=2", "data.window=32"]
    found = [f"start={start}", *(f"start.{word}" for word in of_start), "data.validation=0.2", "data.max_length=200"]
    if recipe.task != "ppo" and recipe.data.name is None:
        return [*found, f"data.train={write_rankings(folder / 'rankings.jsonl')}"]
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "the {thing}"}}\n' for thing in THINGS))
    small = (
        ["data.max_new_tokens=6", "data.rollouts=8", "train.batch_size=4", "data.reward=length"]
        if recipe.task == "ppo"
        else []
    )
    return [*found, f"data.train={prompts}", *small]


def shake(model: nn.Module) -> nn.Module:
    """Random numbers in every weight: what starts at zero must not hide a mistake."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn_like(weight))
    return model.eval()


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def headway(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Outcome]:
    """Run the command line in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headway", *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return Outcome(int(exit.value.code or 0), *capsys.readouterr())

    return run
