"""Labels texts: ``python run.py "a text"``. It needs onnxruntime, tokenizers and numpy."""

import json
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
        tokens, longest = self.tokenizer.encode(text).ids, self.about["longest"]
        if len(tokens) > longest:  # the middle of a long text is left out
            front = (longest + self.about["first_tokens"] + 1) // 2
            tokens = tokens[:front] + tokens[len(tokens) - longest + front :]
        return tokens

    def probabilities(self, text: str) -> dict[str, float]:
        tokens = self.tokens_of(text)
        inputs = {"tokens": np.array([tokens or [0]]), "lengths": np.array([len(tokens)])}
        logits = self.session.run(None, inputs)[0][0].astype(float)
        if len(logits) == 1:  # of the second of two labels
            logits = np.array([0, logits[0]])
        weights = np.exp(logits - logits.max())
        return dict(zip(self.about["labels"], (weights / weights.sum()).tolist(), strict=True))


if __name__ == "__main__":
    model = Model(Path(__file__).parent)
    for text in sys.argv[1:]:
        print(text, model.probabilities(text), sep="\t")
