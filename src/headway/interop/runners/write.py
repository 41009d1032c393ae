"""Continues or translates texts: ``python run.py "a text"``. It needs onnxruntime, tokenizers and numpy."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Model:
    def __init__(self, folder: Path):
        self.about: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.reads, self.writes = (Tokenizer.from_file(str(folder / self.about[key])) for key in ("reads", "writes"))
        sessions = {name: onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in self.about["programs"]}
        self.encoder, self.decoder = sessions.get("encoder"), sessions.get("decoder") or sessions["model"]
        self.inputs = {each.name: each for each in self.decoder.get_inputs()}
        self.outputs = [each.name.removeprefix("new_") for each in self.decoder.get_outputs()]

    def start(self, text: str, room: int, language: str | None) -> tuple[list[int], dict[str, np.ndarray]]:
        """The tokens to begin with, and what the decoder reads beside its tokens: memory, and an empty cache."""
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        beside = {
            name: np.zeros([0 if size == "past" else size for size in shape], kinds[self.inputs[name].type])
            for name, shape in self.about["cache"].items()
        }
        tokens = self.reads.encode(self.about["template"].replace("{prompt}", text)).ids
        if self.encoder is None:
            tokens = tokens or self.about["opening"]
            return tokens[-(self.about["window"] - room) :] if self.about["window"] else tokens, beside
        if self.about["languages"]:
            tokens = [self.about["languages"][language], *tokens]
        names = [each.name for each in self.encoder.get_outputs()]
        lengths = np.array([len(tokens)])
        memory = self.encoder.run(None, {"tokens": np.array([tokens]), "lengths": lengths})
        return self.about["opening"], beside | dict(zip(names, memory, strict=True)) | {"lengths": lengths}

    def search(
        self, text: str, beams: int = 1, limit: int = 50, penalty: float = 1.0, language: str | None = None
    ) -> list[tuple[str, float]]:
        """The best texts of a beam search, with their scores; one beam is greedy search."""
        tokens, beside = self.start(text, limit, language)
        rows, totals = np.array([tokens]), np.zeros(1)
        written: list[list[int]] = [[]]
        finished: list[tuple[float, list[int]]] = []
        for length in range(1, limit + 1):
            fed = {name: value for name, value in {"tokens": rows, **beside}.items() if name in self.inputs}
            logits, *cache = self.decoder.run(None, fed)
            last = logits[:, -1].astype(float)
            last -= last.max(axis=1, keepdims=True)
            sums = (totals[:, None] + last - np.log(np.exp(last).sum(axis=1, keepdims=True))).ravel()
            order = np.argsort(-sums, kind="stable")[: 2 * beams].tolist()
            kept = []
            for rank, (parent, token) in enumerate(divmod(index, logits.shape[-1]) for index in order):
                total = sums[order[rank]]
                if token != self.about["end"]:
                    kept.append((parent, token, total))
                elif rank < beams:
                    finished.append((total / length**penalty, written[parent]))
            kept = kept[:beams]
            written = [[*written[parent], token] for parent, token, _ in kept]
            if length == limit:
                finished += [(kept[row][2] / length**penalty, tokens) for row, tokens in enumerate(written)]
            if len(finished) >= beams:
                break
            parents, totals = [parent for parent, _, _ in kept], np.array([total for _, _, total in kept])
            rows = np.array([[token] for _, token, _ in kept])
            beside |= {name: value[parents] for name, value in zip(self.outputs[1:], cache, strict=True)}
            shared = [name for name in beside if name not in self.about["cache"] and len(beside[name]) != len(kept)]
            beside |= {name: np.repeat(beside[name][:1], len(kept), axis=0) for name in shared}
        finished.sort(key=lambda each: -each[0])
        return [(self.text_of(tokens), float(score)) for score, tokens in finished[:beams]]

    def text_of(self, tokens: list[int]) -> str:
        special = self.about["special_tokens"].values()
        text = self.writes.decode([token for token in tokens if token not in special])
        return text.removesuffix(self.about["suffix"])

    def write(self, text: str, language: str | None = None) -> str:
        """The continuation of a text, or its translation, as the model that was exported writes it."""
        (best, _), *_ = self.search(text, self.about["beams"], self.about["limit"], self.about["penalty"], language)
        return best


if __name__ == "__main__":
    model = Model(Path(__file__).parent)
    for text in sys.argv[1:]:
        print(text, model.write(text), sep="\t")
