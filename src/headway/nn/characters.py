"""Words by their characters: a vector for each spelling, which is added to the embedding of the word's first token.

- none: words are known by their tokens only
- cnn: the maximum over a convolution of the characters (Ma & Hovy 2016, https://arxiv.org/abs/1603.01354)
- lstm: the last states of an LSTM in both directions (Lample et al. 2016, https://arxiv.org/abs/1603.01360)

A spelling is a row of LONGEST numbers; 0 is padding. A longer word keeps its beginning and its end.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headway.config.errors import Problem
from headway.nn.recurrent import Recurrent

LONGEST = 20  # characters of a word
OWN, SHARED = 512, 512  # numbers of the first characters of Unicode, and those that all others share


def spell(word: str) -> list[int]:
    """The numbers of a word's characters, padded."""
    half = LONGEST // 2
    kept = word if len(word) <= LONGEST else word[:half] + word[-half:]
    numbers = [1 + (code if code < OWN else OWN + code % SHARED) for code in map(ord, kept)]
    return numbers + [0] * (LONGEST - len(numbers))


class Characters(nn.Module):
    """Spellings (U, L) to vectors (U, D)."""

    def __init__(self, inner: int):
        super().__init__()
        if inner < 2:
            raise Problem(f"inner={inner} is too small: at least 2 numbers for each character")
        self.table = nn.Embedding(1 + OWN + SHARED, inner, padding_idx=0)


class CharacterCnn(Characters):
    def __init__(self, width: int, inner: int = 32, window: int = 3):
        """``inner`` is the dimension of a character, ``window`` the number of neighbours that the convolution reads."""
        super().__init__(inner)
        if window < 1 or window % 2 == 0:
            raise Problem(f"window={window} has no middle: set an odd number of characters")
        self.convolution = nn.Conv1d(inner, width, window, padding=window // 2)

    def forward(self, spellings: Tensor) -> Tensor:
        features = self.convolution(self.table(spellings).mT)
        is_padding = (spellings == 0)[:, None]
        return features.masked_fill(is_padding, torch.finfo(features.dtype).min).amax(dim=2)


class CharacterLstm(Characters):
    def __init__(self, width: int, inner: int = 64):
        """``inner`` is the dimension of a character, half of which each direction has for its state."""
        super().__init__(inner)
        self.reader = Recurrent(nn.LSTM, inner, both=True)
        self.forward_width = inner - inner // 2
        self.project = nn.Linear(inner, width)

    def forward(self, spellings: Tensor) -> Tensor:
        real = spellings != 0
        states = self.reader.read(self.table(spellings), real)
        ends = real.sum(dim=1).clamp(min=1) - 1
        forwards = states[torch.arange(len(states), device=states.device), ends, : self.forward_width]
        return self.project(torch.cat([forwards, states[:, 0, self.forward_width :]], dim=1))


def none() -> None:
    """No characters."""


CHARACTERS: dict[str, Callable[..., nn.Module | None]] = {"none": none, "cnn": CharacterCnn, "lstm": CharacterLstm}
