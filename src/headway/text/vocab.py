"""A vocabulary: which number stands for which symbol."""

from collections.abc import Iterable, Sequence

import numpy as np

from headway.errors import Problem

SPECIALS = ("<pad>", "[CLS]")
PAD, CLS = range(len(SPECIALS))


class Vocabulary:
    """The special symbols, then single characters."""

    def __init__(self, characters: Iterable[str]):
        self.symbols = [*SPECIALS, *characters]
        self.index = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, text: str, prefix: Sequence[int] = ()) -> np.ndarray:
        """The numbers of the text's characters, after those of the prefix."""
        unknown = next((character for character in text if character not in self.index), None)
        if unknown is not None:
            known = " ".join(self.symbols[len(SPECIALS) :])
            raise Problem(f"{unknown!r} in {text!r} is not one of the symbols {known}")
        return np.array([*prefix, *(self.index[character] for character in text)], dtype=np.int64)
