"""Small trained models that the examples and the tests of the API share."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headway as hw
from headway.data.grammar import review

SMALL = {"layers": 1, "width": 8, "heads": 2}
TRAIN = {"steps": 150, "batch_size": 8, "learning_rate": 0.01, "warmup": 10}


class Trained:
    """Models by name, each trained when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.models: dict[str, hw.Model] = {}

    def __getitem__(self, name: str) -> hw.Model:
        if name not in self.models:
            before = Path.cwd()
            os.chdir(self.folder)
            try:
                self.models[name] = getattr(self, name)()
            finally:
                os.chdir(before)
        return self.models[name]

    def run(self, name: str) -> Path:
        return self.folder / "others" / name

    def parity(self) -> hw.Model:
        settings = {"data.examples": 200, "data.tests": 40, "train.warmup": 2}
        folder = self.folder / "runs" / "parity-1"
        return hw.train("parity", model=SMALL, train={"steps": 6}, settings=settings, out=folder)

    def letters(self) -> hw.Model:
        """A language model of a and b that exports as a GPT-2: after b, there is more b."""
        texts = ["a" * number + "b" * 12 for number in range(1, 40)]
        data = {"train": texts, "tokenizer": "char", "window": 16, "validation": 0.2, "cross_document": True}
        model = {**SMALL, "position": "learned", "embedding": "lookup(scale=1.0)", "feedforward": "gelu"}
        return hw.train("language", data=data, model=model, train=TRAIN, out=self.run("letters"))

    def masked(self) -> hw.Model:
        random = np.random.default_rng(2)
        texts = [review(int(random.integers(2)), 1, random) for _ in range(60)]
        data = {"train": texts, "tokenizer": "word", "validation": 0.2, "window": 32}
        return hw.pretrain(data=data, model=SMALL, train={"steps": 4, "batch_tokens": 200}, out=self.run("masked"))

    def critic(self) -> hw.Model:
        rankings = [
            {"prompt": "a", "answers": ["b" * (4 - n) + "a" * number, "a"]} for n in range(3) for number in (1, 2)
        ]
        rankings += [{"prompt": "b", "answers": ["ab", "ba", "bb"]}] * 4
        data = {"train": rankings, "template": "{prompt}{answer}", "validation": 0.4, "max_length": 16}
        return hw.train("reward", start=self["letters"], data=data, train={"steps": 2}, out=self.run("critic"))

    def numbers(self) -> hw.Model:
        settings = {"data.examples": 60, "data.tests": 10, "train.steps": 2}
        return hw.train("numbers", model=SMALL, settings=settings, out=self.run("numbers"))

    def chat(self) -> hw.Model:
        """It answers a with b, in a template."""
        prompts = [{"prompt": "a" * number, "answer": "b" * 6} for number in range(1, 12)] * 2
        data = {"train": prompts, "template": "{prompt}b{answer}", "validation": 0.2, "max_length": 24}
        return hw.train("sft", start=self["letters"], data=data, train={"steps": 4}, out=self.run("chat"))

    def endless(self) -> hw.Model:
        """A language model of one text, and so without an end of texts, and with layers that take their time."""
        data = {"train": ["ab" * 200], "tokenizer": "char", "window": 16, "validation": 0.2}
        train = {"steps": 2, "batch_size": 2}
        return hw.train("language", data=data, model={**SMALL, "layers": 12}, train=train, out=self.run("endless"))

    def vectors_model(self) -> hw.Model:
        random = np.random.default_rng(2)
        texts = [review(int(random.integers(2)), 1, random) for _ in range(80)]
        return hw.train(
            "vectors",
            data={"train": texts, "min_count": 1},
            model={"width": 8},
            train={"steps": 2},
            out=self.run("vectors"),
        )


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    patch = pytest.MonkeyPatch()
    patch.setenv("HEADWAY_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield Trained(tmp_path_factory.mktemp("trained"))
    patch.undo()
