"""Long texts reach tokenizers in pieces, and the tokens stay the same."""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from tokenizers import Tokenizer as Core

from headway.data.splitting import reader
from headway.text import pieces, tokenizer
from headway.text.pieces import bounded, in_pieces
from headway.text.tokenizer import TOKENIZERS, Tokenizer
from headway.text.words import word

RANDOM = Random(1)
WORDS = ["the", "old", "house,", "don't", "stands", "12", "on  a", "hill.\n", "é", "\n\nIt", "…"]
LONG = " ".join(RANDOM.choice(WORDS) for _ in range(3000))


def test_pieces_are_short_and_make_up_the_text() -> None:
    for text in (LONG, LONG.replace(" ", ""), "", "x", " " * 500):
        parts = list(bounded(text, 100))
        assert "".join(parts) == text
        assert max(map(len, parts)) <= 100
    assert all(part.startswith((" ", "\n")) for part in list(bounded(LONG, 100))[1:])
    assert list(in_pieces(["a b", "c"])) == ["a b", "c"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_long_text_has_the_same_tokens_in_pieces(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Tokenizer.learn(kind, [LONG], "nfkc lower", 300, 1)
    (whole,) = own.encode([LONG])
    monkeypatch.setattr(tokenizer, "LONGEST", 200)
    monkeypatch.setattr(tokenizer, "bounded", lambda text: bounded(text, 200))
    again, short = own.encode([LONG, "the old"])
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_array_equal(short, own.encode(["the old"])[0])
    assert reader("nfkc lower")(LONG) == reader("nfkc lower")(LONG)


def test_nothing_long_reaches_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for learning nor for reading; the memory that it takes is tens of times the size of a text."""
    seen: list[int] = []

    class Watched:
        def __init__(self, core: Core):
            self.core = core

        def __getattr__(self, name: str) -> object:
            return getattr(self.core, name)

        def encode_batch_fast(self, texts: list[str], **options: bool) -> object:
            seen.extend(map(len, texts))
            return self.core.encode_batch_fast(texts, **options)

    def learn(texts: Iterable[str], core: Core, size: int, least_count: int) -> Core:
        listed = list(texts)
        seen.extend(map(len, listed))
        return word(listed, core, size, least_count)

    monkeypatch.setitem(TOKENIZERS, "word", learn)
    text = "all work and no play " * (2 * pieces.LONGEST // 20)
    own = Tokenizer.learn("word", [text], "lower", 100, 1)
    own.core = Watched(own.core)  # type: ignore[assignment]
    assert len(own.encode([text])[0]) == len(text.split())
    assert max(seen) <= pieces.LONGEST < len(text)
