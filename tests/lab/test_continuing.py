"""Going on from a run: more pieces in the vocabulary, replay, what is forgotten; and repeating a text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from conftest import SMALL, Outcome, done
from headway import recipes
from headway.runs.fit import Fit, resume, start
from headway.runs.run import Run
from headway.tasks.multilingual import NEW, OLD

Headway = Callable[..., Outcome]
WORDS = {  # of made languages
    "en": ("the", "house", "garden", "is", "and", "old"),
    "nl": ("het", "huis", "tuin", "is", "en", "oud"),
    "ru": ("дом", "сад", "старый", "и", "это", "там"),
    "el": ("σπίτι", "κήπος", "είναι", "και", "το", "εκεί"),
}


def write(path: Path, *languages: str, texts: int = 60) -> Path:
    random = np.random.default_rng(5)
    rows = [
        {"language": name, "text": " ".join(random.choice(WORDS[name], 8))} for name in languages for _ in range(texts)
    ]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


QUICK = ["data.language=language", "data.validation=0.2", "data.window=16", "train.batch_size=4", "train.steps=4"]
FEW = [*QUICK, *SMALL, "data.vocab_size=280", "train.evaluate_every=2", "train.checkpoint_every=2"]


@pytest.fixture
def started(tmp_path: Path) -> Run:
    """A model of two languages."""
    words = [*FEW, f"data.train={write(tmp_path / 'old.jsonl', 'en', 'nl')}"]
    return done(start(recipes.load("language", words), tmp_path / "start")).run


def test_study(started, tmp_path, headway):
    both = write(tmp_path / "both.jsonl", "en", "nl", "ru", "el")
    out = headway("forgetting", str(started.folder), "--data", str(both), "data.extend_vocabulary=30", "--replay", "0,0.5", "--out", str(tmp_path / "study"), "train.steps=6")
    print(out.out, out.err)
    assert out.code == 0
    out = headway("repeat", "language", f"data.train={both}", "--passes", "1,2", "--seeds", "2", "--out", str(tmp_path / "rep"), *[w for w in FEW if "language" not in w])
    print(out.out, out.err)
    assert out.code == 0
    assert 0
