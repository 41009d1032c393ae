"""Normalising and tokenizers."""

import json
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer as Core

from headway.config.errors import Problem
from headway.text.detokenize import MOST_UNDECODED, REPLACEMENT, Detokenizer
from headway.text.tokenizer import NORMALIZERS, TOKENIZERS, Tokenizer, normalizer
from headway.text.vocabulary import SPECIALS

TEXTS = ["The film was good.", "The film wasn't good!", "A <b>good</b> film, ﬁne café", "日本の映画 😀"]
NORMALIZED = {
    "html": ("a<br />b </p>c 1 < 2 > 0", "a b  c 1 < 2 > 0"),
    "nfc": ("cafe\u0301", "café"),
    "nfkc": ("ﬁne Ａ", "fine A"),
    "lower": ("ÀB", "àb"),
    "accents": ("café", "cafe"),
    "spaces": ("a \n\t b", "a b"),
}


def learn(kind: str, normalize: str = "", size: int = 400, least_count: int = 1) -> Tokenizer:
    return Tokenizer.learn(kind, iter(TEXTS), normalize, size, least_count)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_each_normalizer_does_what_its_name_says(name: str) -> None:
    before, after = NORMALIZED[name]
    assert normalizer(name).normalize_str(before) == after


def test_normalizers_follow_each_other() -> None:
    assert normalizer("html nfkc lower spaces").normalize_str("A<br/><br/>ﬁNE") == "a fine"
    with pytest.raises(Problem, match=r"data.normalize: no such choice 'lowr'; did you mean 'lower'\?"):
        normalizer("nfkc lowr")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_saved_is_loaded_and_other_tools_read_it_alike(kind: str, tmp_path: Path) -> None:
    tokenizer = learn(kind, "nfkc lower")
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    loaded, plain = Tokenizer.load(path), Core.from_file(str(path))
    assert loaded.vocabulary.symbols == tokenizer.vocabulary.symbols
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert loaded.encode([text])[0].tolist() == ids.tolist()
        assert plain.encode(text, add_special_tokens=False).ids == ids.tolist()


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_specials_come_first_and_no_text_can_name_them(kind: str) -> None:
    tokenizer = learn(kind)
    assert tuple(tokenizer.vocabulary.symbols[: len(SPECIALS)]) == SPECIALS
    ids = tokenizer.encode(["a <pad> [CLS] [MASK] <eos> film"])[0]
    assert set(ids.tolist()) & {SPECIALS.index(each) for each in SPECIALS if each != "<unk>"} == set()


@pytest.mark.parametrize("kind", ["byte", "bpe", "char_bpe", "unigram"])
def test_bytes_and_pieces_of_them_give_any_text_back(kind: str) -> None:
    tokenizer = learn(kind)
    strange = "Straße\tno\u0301 ﷽ 🦆 \x00 never seen"
    assert tokenizer.core.decode(tokenizer.encode([strange])[0].tolist()) == strange


def test_characters_and_words() -> None:
    symbols = learn("char").vocabulary.symbols
    assert {"T", "日", "😀", " "} <= set(symbols)
    words = learn("word", "html nfkc lower")
    assert [words.vocabulary.symbols[each] for each in words.encode(["The film wasn't good, unheard-of"])[0]] == [
        *("the", "film", "wasn't", "good", ","),
        *("<unk>", "<unk>", "<unk>"),
    ]
    assert "!" not in learn("word(signs=False)").vocabulary.symbols


@pytest.mark.parametrize("kind", ["char", "word"])
def test_the_most_frequent_symbols_are_kept_if_they_come_often_enough(kind: str) -> None:
    three = learn(kind, size=3)
    assert len(three) == len(SPECIALS) + 3
    assert set(three.vocabulary.symbols) <= set(learn(kind).vocabulary.symbols)
    often = Tokenizer.learn(kind, iter(["a a a b b c"]), "spaces", 100, 2).vocabulary.symbols[len(SPECIALS) :]
    assert [symbol for symbol in often if symbol.strip()] == ["a", "b"]


def test_bpe_joins_what_stands_together_often() -> None:
    tokenizer = Tokenizer.learn("bpe", iter(["low lower lowest low low"]), "", 256 + 2, 1)
    assert tokenizer.vocabulary.symbols[-2:] == ["ow", "low"] or tokenizer.vocabulary.symbols[-2:] == ["lo", "low"]


def test_spans_say_where_each_token_stands() -> None:
    text = "The ﬁlm<br />was  good!"
    tokenizer = learn("word", "html nfkc lower")
    assert [text[start:end] for start, end in tokenizer.spans(text)] == ["The", "ﬁlm", "was", "good", "!"]


def test_the_vocabulary_is_saved_as_readable_json(tmp_path: Path) -> None:
    vocabulary = learn("char").vocabulary
    vocabulary.save(tmp_path / "vocabulary.json")
    content = (tmp_path / "vocabulary.json").read_text(encoding="utf-8")
    assert json.loads(content) == vocabulary.symbols
    assert '\n"日"' in content


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for content in ("{}", "no json", '{"model": 1}'):
        path.write_text(content)
        with pytest.raises(Problem, match=r"tokenizer.json is not a tokenizer"):
            Tokenizer.load(path)


def test_a_tokenizer_that_fails_on_what_is_unknown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tree = json.loads(learn("char").to_json())
    tree["model"]["unk_token"] = "<what>"
    path.write_text(json.dumps(tree))
    with pytest.raises(Problem, match=r"tokenizer.json is not a tokenizer: .*<what>"):
        Tokenizer.load(path)


def test_a_tokenizer_that_makes_the_library_panic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tree = json.loads(learn("bpe").to_json())
    assert tree["model"]["merges"]
    tree["model"]["continuing_subword_prefix"] = "longer than any token of it"
    path.write_text(json.dumps(tree))
    with pytest.raises(Problem, match=r"tokenizer.json is not a tokenizer"):
        Tokenizer.load(path)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_stream_of_tokens_has_whole_characters_only(kind: str) -> None:
    """The pieces of any tokens are those of the whole, and no character of a text comes in halves."""
    random, letters = Random(0), "aé☃🎉日 "
    tokenizer = Tokenizer.learn(kind, [f"{letters}本語x\ufffd hello"] * 3, "", 300, 1)
    for number in range(400):
        written = "".join(random.choice(letters) for _ in range(8))
        own = tokenizer.encode([written])[0].tolist()
        tokens = own if number % 2 else [random.randrange(len(tokenizer)) for _ in range(12)]
        row = Detokenizer(tokenizer.decode)
        pieces = [row.push(token) for token in tokens] + [row.finish()]
        assert "".join(pieces) == tokenizer.decode(tokens)
        assert REPLACEMENT not in "".join(pieces) or tokens is not own


def test_bytes_at_random_do_not_pile_up() -> None:
    tokenizer = Tokenizer.learn("byte", ["é"], "", 300, 1)
    half = tokenizer.encode(["é"])[0].tolist()[0]
    row = Detokenizer(tokenizer.decode)
    pieces = [row.push(half) for _ in range(500)]
    assert len(row.undecoded) <= MOST_UNDECODED
    assert len("".join(pieces) + row.finish()) == 500
