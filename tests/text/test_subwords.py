"""Tokenizers over characters with byte fallback, and what holds for every tokenizer that keeps its text."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer as Core
from tokenizers import decoders, models, normalizers, pre_tokenizers

from headway.config.errors import Problem
from headway.text.detokenize import REPLACEMENT, Detokenizer
from headway.text.subwords import BYTE_TOKENS, reproducible
from headway.text.tokenizer import REVERSIBLE, Tokenizer
from headway.text.vocabulary import SPECIALS

SCRIPTS = [
    *("Wie geht's? L'été, où ça", "Привет, м’яч и ёлка", "Καλημέρα κόσμε", "नमस्ते दुनिया, क्षत्रिय", "مرحبا می‌خواهم ﷽"),
    *(
        "שָׁלוֹם עולם",
        "สวัสดีชาวโลก",
        "你好，世界。",
        "こんにちは世界ー",
        "안녕하세요 세계",
        "ሰላም ልዑል",
        "வணக்கம் உலகம்",
        "សួស្តី​ពិភពលោក",
    ),
]
ODD = [
    "  two  spaces\n\n\tand\r\n lines ",
    "▁sign ▁▁",
    "<0x41> <pad> <unk> [CLS]",
    "\x00\x7f\ufffd\ufeff",
    "👩‍👩‍👧 🦆 𠀀𠀁 e\u0301",
]
KEEPING = [kind for kind in REVERSIBLE if kind != "char"]  # a character that is in no text is unknown to it
FALLBACK = ["char_bpe", "unigram"]


def learn(kind: str, size: int = 500, texts: list[str] = SCRIPTS) -> Tokenizer:
    return Tokenizer.learn(kind, texts, "", size, 1)


def jumbles(count: int, seed: int = 0) -> Iterator[str]:
    """Texts of characters of all scripts and of none."""
    random, letters = Random(seed), "".join([*SCRIPTS, *ODD])
    for _ in range(count):
        own = [random.choice(letters) for _ in range(random.randrange(12))]
        numbers = [random.randrange(0x110000) for _ in range(random.randrange(3))]
        other = [chr(number) for number in numbers if not 0xD800 <= number < 0xE000]
        yield "".join(random.sample(own + other, len(own + other)))


@pytest.mark.parametrize("kind", KEEPING)
def test_the_pieces_of_any_text_are_its_bytes(kind: str) -> None:
    """What bits per byte and round trips rest on."""
    tokenizer = learn(kind)
    unknown = SPECIALS.index("<unk>")
    for text in [*SCRIPTS, *ODD, *jumbles(300)]:
        tokens = tokenizer.encode([text])[0].tolist()
        assert b"".join(tokenizer.pieces[token] for token in tokens) == text.encode()
        assert sum(tokenizer.byte_sizes[tokens].tolist()) == len(text.encode())
        assert tokenizer.decode(tokens) == text
        assert unknown not in tokens
        for token, (start, end) in zip(tokens, tokenizer.spans(text), strict=True):
            assert tokenizer.pieces[token] in text[start:end].encode()


@pytest.mark.parametrize("kind", ["byte", "bpe"])
def test_bytes_that_are_no_character_are_partial(kind: str) -> None:
    tokenizer = learn(kind, 256)
    partial = [tokenizer.is_partial[token].tolist() for token in tokenizer.encode(["aé", " "])]
    assert partial == [[False, True, True], [False]]
    assert not tokenizer.is_partial[: len(SPECIALS)].any()


def test_characters_know_their_bytes() -> None:
    tokenizer = learn("char", texts=[*SCRIPTS, *ODD])
    for text in [*SCRIPTS, *ODD]:
        assert b"".join(tokenizer.pieces[token] for token in tokenizer.encode([text])[0]) == text.encode()


@pytest.mark.parametrize("kind", FALLBACK)
def test_rare_characters_are_spelled_in_bytes(kind: str) -> None:
    texts = ["the cat and the hat " * 50, "ß"]
    some, every = (Tokenizer.learn(f"{kind}(coverage={share})", texts, "", 300, 1) for share in (0.99, 1))
    (eszett,) = every.encode(["ß"])[0].tolist()
    assert every.vocabulary.symbols[eszett] == "ß"
    spelled = some.encode(["ß"])[0]
    assert [some.vocabulary.symbols[each] for each in spelled] == ["<0xC3>", "<0x9F>"]
    assert some.is_partial[spelled].all()
    assert not every.is_partial[eszett]
    assert tuple(some.vocabulary.symbols[:263]) == (*SPECIALS, *BYTE_TOKENS)


@pytest.mark.parametrize("kind", FALLBACK)
def test_the_vocabulary_is_no_larger_than_asked_for(kind: str) -> None:
    for size in (1, 256, 260, 270, 300):
        tokenizer = learn(kind, size)
        assert len(tokenizer) <= max(size, 256) + len(SPECIALS)
        assert tokenizer.decode(tokenizer.encode(["été 世"])[0].tolist()) == "été 世"


@pytest.mark.parametrize("kind", FALLBACK)
@pytest.mark.parametrize("texts", [["a"], [" "], ["\n"], ["😀"], ["ab ab"], [""], []])
def test_tiny_texts_make_a_tokenizer(kind: str, texts: list[str]) -> None:
    tokenizer = learn(kind, 300, texts)
    assert tokenizer.decode(tokenizer.encode(["a é"])[0].tolist()) == "a é"


@pytest.mark.parametrize("kind", FALLBACK)
def test_pieces_are_parts_of_words(kind: str) -> None:
    """With their marks and apostrophes, and with the space before them."""
    texts = ["नमस्ते दुनिया l'homme 'they' said-it 12 a\nb"] * 20
    symbols = Tokenizer.learn(kind, texts, "", 10_000, 1).vocabulary.symbols[263:]
    assert all(symbol.count(" ") <= 1 and " " not in symbol[1:] for symbol in symbols)
    assert not [
        symbol for symbol in symbols if len(symbol) > 1 and set(symbol) & set("-\n12") and set(symbol) & set("saitb")
    ]
    if kind == "char_bpe":
        assert {" दुनिया", " l'homme", "नमस्ते", "they"} <= set(symbols)


def test_char_bpe_merges_the_most_frequent_pair_of_characters_first() -> None:
    tokenizer = Tokenizer.learn("char_bpe", ["дом дома домик"], "", 256 + 7 + 3, 1)  # 7 characters
    assert tokenizer.vocabulary.symbols[-3:] == ["до", "дом", " дом"]


def test_unigram_splits_a_word_in_the_most_likely_way() -> None:
    """Against all splits."""
    tokenizer = learn("unigram", 600)
    scores = dict(json.loads(tokenizer.core.to_str())["model"]["vocab"])

    def splits(word: str) -> Iterator[list[str]]:
        yield from ([] for _ in range(not word))
        for end in range(1, len(word) + 1):
            yield from ([word[:end], *rest] for rest in splits(word[end:]) if word[:end] in scores)

    for word in ("geht's", " Привет", "नमस्ते", "สวัสดี", " κόσμε"):
        best = max(math.fsum(scores[piece] for piece in split) for split in splits(word))
        tokens = tokenizer.encode([word])[0]
        chosen = math.fsum(scores[tokenizer.vocabulary.symbols[token]] for token in tokens)
        assert chosen == pytest.approx(best, abs=1e-9)


LEARN = "from headway.text.tokenizer import Tokenizer as T; print(T.learn({!r}, {!r}, '', 400, 1).to_json())"


@pytest.mark.parametrize("kind", FALLBACK)
def test_learning_is_reproducible(kind: str) -> None:
    """In another process, where the library walks through its hash tables in another order."""
    written = learn(kind, 400).to_json()
    again = subprocess.run([sys.executable, "-c", LEARN.format(kind, SCRIPTS)], capture_output=True, check=True)
    assert again.stdout.decode().rstrip("\n") == written


def test_scores_do_not_depend_on_the_order_of_additions() -> None:
    scores = {"ab": -1.0, "a": -2.5, "x": -9.0, "y": -8.9999}
    other = {"ab": -1.0 + 1e-12, "y": -9.0, "x": -8.9999, "a": -2.5}
    assert reproducible(scores) == reproducible(other) == [("ab", -1.0), ("a", -2.5), ("x", -9.0), ("y", -9.0)]


@pytest.mark.parametrize("kind", FALLBACK)
def test_one_wrong_byte_spoils_no_other_character(kind: str) -> None:
    tokenizer = learn(kind, 256)
    é, half = tokenizer.encode(["é日"])[0].tolist()[:2], tokenizer.encode(["日"])[0].tolist()[:2]
    assert tokenizer.decode([*é, *half]) == f"é{REPLACEMENT}"
    assert tokenizer.decode([*é, SPECIALS.index("<eos>"), *é, half[1], *é]) == f"éé{REPLACEMENT}é"
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", FALLBACK)
def test_characters_of_bytes_are_streamed_when_they_are_whole(kind: str) -> None:
    tokenizer = learn(kind, 256)
    row = Detokenizer(tokenizer.decode)
    tokens = tokenizer.encode(["é日"])[0].tolist()
    assert [row.push(token) for token in tokens] == ["", "é", "", "", "日"]


@pytest.mark.parametrize("coverage", [0, -1, 1.5])
def test_a_wrong_coverage_is_one_line(coverage: float) -> None:
    with pytest.raises(Problem, match=r"data.tokenizer: .* is not a share above 0, at most 1"):
        learn(f"unigram(coverage={coverage})")


def test_pieces_of_an_imported_tokenizer_know_their_bytes(tmp_path: Path) -> None:
    """As Llama's: a sign for each space, and byte fallback."""
    pieces = ["<unk>", *BYTE_TOKENS, "▁", "▁a", "a", "b"]
    core = Core(models.BPE({piece: number for number, piece in enumerate(pieces)}, [("▁", "a")], byte_fallback=True))
    core.normalizer = normalizers.Replace(" ", "▁")
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = Tokenizer(core, {})
    for text in ("a b é", "ab 日"):
        tokens = tokenizer.encode([text])[0].tolist()
        assert tokenizer.byte_sizes[tokens].sum() == len(text.encode())
        assert tokenizer.decode(tokens) == text
    words = Core(models.WordPiece({"[UNK]": 0, "un": 1, "##known": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    assert Tokenizer(words, {}).byte_sizes.tolist() == [5, 2, 5]
