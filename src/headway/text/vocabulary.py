"""A vocabulary: symbols and their ids."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from headway.config.errors import Problem

PAD = 0  # the id of "<pad>" in every vocabulary
UNKNOWN = "<unk>"
SPECIALS = ("<pad>", UNKNOWN, "<sos>", "<eos>", "[CLS]", "[SEP]", "[MASK]")


class Index(dict[str, int]):
    def __missing__(self, symbol: str) -> int:
        raise Problem(f"the tokenizer has no token {symbol}")


class Vocabulary:
    """Special symbols first, then those of the text."""

    def __init__(
        self, symbols: Iterable[str], specials: Iterable[str] = SPECIALS, roles: Mapping[str, str] | None = None
    ):
        """``roles`` maps our special symbols to those of an imported tokenizer."""
        self.specials = tuple(specials)
        self.symbols = [*self.specials, *symbols]
        self.index = Index((symbol, number) for number, symbol in enumerate(self.symbols))
        self.index |= {name: self.index[symbol] for name, symbol in (roles or {}).items()}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Sequence[str], text: str) -> np.ndarray:
        """The ids of the symbols of a text, all of which must be known."""
        unknown = next((symbol for symbol in symbols if symbol not in self.index), None)
        if unknown is not None:
            known = " ".join(self.symbols[len(self.specials) :])
            raise Problem(f"{unknown!r} in {text!r:.80} is not one of the symbols {known}")
        return np.array([self.index[symbol] for symbol in symbols], dtype=np.int64)

    def save(self, path: Path) -> None:
        """As JSON, one symbol per line, in the order of their ids."""
        path.write_text(json.dumps(self.symbols, ensure_ascii=False, indent=0), encoding="utf-8")
