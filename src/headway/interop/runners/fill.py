"""Fills in masks: ``python run.py "a [MASK] text"``. It needs onnxruntime, tokenizers and numpy."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Model:
    def __init__(self, folder: Path):
        self.about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.session = onnxruntime.InferenceSession(folder / "model.onnx")

    def tokens_of(self, text: str) -> list[int]:
        parts = re.split(r"(?<!\s)\s*\[MASK\]", text)  # the space before a word is part of its token
        mask, tokens = self.about["mask"], list(self.about["first"])
        for number, part in enumerate(parts):
            tokens += [mask] * (number > 0) + self.tokenizer.encode(part, add_special_tokens=False).ids
        return tokens + self.about["last"]

    def fill(self, text: str, count: int = 5) -> list[list[tuple[str, float]]]:
        """The likeliest tokens in the place of each [MASK], with their probabilities."""
        tokens = self.tokens_of(text)
        logits = self.session.run(None, {"tokens": np.array([tokens]), "lengths": np.array([len(tokens)])})[0][0]
        found = []
        for row in logits[np.array(tokens) == self.about["mask"]].astype(float):
            weights = np.exp(row - row.max())
            best = np.argsort(-row, kind="stable")[:count]
            found.append([(self.text_of(token), float(weights[token] / weights.sum())) for token in best.tolist()])
        return found

    def text_of(self, token: int) -> str:
        return "" if token in self.about["special_tokens"].values() else self.tokenizer.decode([token])


if __name__ == "__main__":
    model = Model(Path(__file__).parent)
    for text in sys.argv[1:]:
        print(text, model.fill(text), sep="\t")
