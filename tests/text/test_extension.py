"""Extended tokenizers: the laws over every kind, merges by hand, and kinds that cannot be extended."""

from collections import Counter
from random import Random

import pytest
from tokenizers import Tokenizer as Core
from tokenizers import models, normalizers, pre_tokenizers

from headway.config.errors import Problem
from headway.text.extension import extend, spellings
from headway.text.tokenizer import TOKENIZERS, Tokenizer
from headway.text.vocabulary import SPECIALS, UNKNOWN

ENGLISH = ["the cat sat on the mat .", "a cat and a hat , that is that .", "the theme of the thesis"] * 5
RUSSIAN = ["кот сидит на ковре .", "кот и шляпа , это кот .", "the кот"] * 5
RANDOM = Random(3)
EXTENDABLE = sorted(TOKENIZERS.keys() - {"byte", "unigram"})
MIXED = ["".join(RANDOM.choices("theкот cams<pad>", k=RANDOM.randint(0, 12))) for _ in range(300)]


def learn(kind: str) -> Tokenizer:
    return Tokenizer.learn(kind, ENGLISH, "", 290 if kind == "bpe" else 40, 1)


@pytest.mark.parametrize("kind", EXTENDABLE)
def test_old_pieces_stay_and_a_text_without_new_ones_is_tokenized_as_before(kind: str) -> None:
    old = learn(kind)
    new = extend(old, RUSSIAN, 12)
    assert new.vocabulary.symbols[: len(old)] == old.vocabulary.symbols
    assert len(old) < len(new) <= len(old) + 12
    counts = Counter[bool]()
    for text in [*ENGLISH, *RUSSIAN, *MIXED]:
        before, after = old.encode([text])[0].tolist(), new.encode([text])[0].tolist()
        is_new = any(token >= len(old) for token in after)
        counts[is_new] += 1
        assert is_new or before == after
        assert len(after) <= len(before)
    assert min(counts[True], counts[False]) > 10


@pytest.mark.parametrize("kind", EXTENDABLE)
def test_each_new_piece_is_spelled_by_old_ones(kind: str) -> None:
    old = learn(kind)
    new = extend(old, RUSSIAN, 12)
    spelled = spellings(old, new)
    assert len(spelled) == len(new) - len(old)
    for piece, numbers in zip(new.pieces[len(old) :], spelled, strict=True):
        assert all(0 <= number < len(old) for number in numbers)
        if kind in ("char", "word"):
            assert {old.vocabulary.symbols[number] for number in numbers} == {UNKNOWN}
        else:
            assert b"".join(old.pieces[number] for number in numbers) == piece
            assert len(numbers) > 1 or piece.isascii()


def test_merges_by_hand() -> None:
    """Old pieces: a, b, c and ab. In "ab ab ab c c abc abc", the old tokenizer leaves the pair (ab, c) twice; with
    "cc" three times, c and c is the more frequent pair, and comes first."""
    core = Core(
        models.BPE({**{name: n for n, name in enumerate(SPECIALS)}, "a": 7, "b": 8, "c": 9, "ab": 10}, [("a", "b")])
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens(list(SPECIALS))
    old = Tokenizer(core)
    new = extend(old, ["ab ab ab abc abc cc cc cc"], 10, least_count=2)
    assert new.vocabulary.symbols[11:] == ["cc", "abc"]
    assert new.encode(["abcc", "abc", "bcc"])[0].tolist() == [10, 11]
    assert [ids.tolist() for ids in new.encode(["abc", "bcc"])] == [[12], [8, 11]]
    assert spellings(old, new) == [[9, 9], [10, 9]]
    assert extend(old, ["ab ab ab abc abc cc cc cc"], 1, least_count=2).vocabulary.symbols[11:] == ["cc"]


def test_no_merge_makes_an_old_piece() -> None:
    """Where a tokenizer has a piece that its own merges do not lead to, as imported ones may."""
    symbols = {**{name: n for n, name in enumerate(SPECIALS)}, "a": 7, "b": 8, "c": 9, "ab": 10, "bc": 11}
    core = Core(models.BPE({**symbols, "abc": 12}, [("b", "c"), ("a", "b")]))
    core.add_special_tokens(list(SPECIALS))
    old = Tokenizer(core)
    assert old.encode(["abc"])[0].tolist() == [7, 11]
    new = extend(old, ["abc"] * 5 + ["abca", "cc"] * 3, 10)
    assert new.encode(["abc"])[0].tolist() == [7, 11]
    assert new.vocabulary.symbols[13:] == ["cc"]


def test_characters_come_before_merges_where_unknown_ones_are_bytes() -> None:
    letters = [*SPECIALS, *(f"<0x{byte:02X}>" for byte in range(256)), *"abc", "ab"]
    core = Core(
        models.BPE({name: n for n, name in enumerate(letters)}, [("a", "b")], unk_token=UNKNOWN, byte_fallback=True)
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens(list(SPECIALS))
    old = Tokenizer(core)
    new = extend(old, ["abж abж жa", "шж ш ш"], 4, least_count=2)
    assert new.vocabulary.symbols[len(old) :] == ["ж", "ш", "abж"]
    only = extend(old, ["abж abж жa", "шж ш ш"], 1)
    assert only.vocabulary.symbols[len(old) :] == ["ж"]
    assert spellings(old, only) == [[old.vocabulary.index[f"<0x{byte:02X}>"] for byte in "ж".encode()]]


def test_texts_are_normalized_first() -> None:
    old = Tokenizer.learn("char", ["abc"], "lower", 40, 1)
    assert extend(old, ["ЖЖ ж"], 9).vocabulary.symbols[len(old) :] == ["ж", " "]
    core = learn("bpe").core
    core.normalizer = normalizers.Lowercase()
    assert "ĠÐ" not in extend(Tokenizer(core), ["THE CAT"], 9).vocabulary.symbols


@pytest.mark.parametrize(
    ("core", "why"),
    [
        (learn("byte").core, "into bytes, and knows all of them"),
        (learn("unigram").core, "of the kind Unigram cannot be extended"),
        (
            Core(models.WordPiece({name: n for n, name in enumerate(SPECIALS)}, unk_token=UNKNOWN)),
            "WordPiece cannot be",
        ),
        (
            Core(
                models.BPE(
                    {**{name: n for n, name in enumerate(SPECIALS)}, "a": 7, "##a": 8, "aa": 9},
                    [("a", "##a")],
                    continuing_subword_prefix="##",
                )
            ),
            "BPE that marks pieces of words cannot be extended",
        ),
    ],
)
def test_kinds_that_cannot_be_extended_say_so(core: Core, why: str) -> None:
    with pytest.raises(Problem, match=why):
        extend(Tokenizer(core), RUSSIAN, 5)
