"""What tokenizers make of texts in many languages: by hand, and through the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Core

import headway as hw
from conftest import Outcome
from headway.lab.tokenizers import read_tokenizers
from headway.text.spelling import FORMS

Headway = Callable[..., Outcome]
SENTENCES = {"en": ["a cat", "a hat on a cat"], "ru": ["кот", "шляпа на коте"], "th": ["แมว", "หมวกบนแมว"]}
LANGUAGES = ("en", "de", "ru")


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def texts(headway: Headway) -> Path:
    """Numbers, each in all languages; there are many more in English. ``headway`` has changed the folder."""
    rows = [
        {"text": FORMS[form](7 * number), "language": form, "number": str(number)}
        for form, count in zip(LANGUAGES, (400, 60, 60), strict=True)
        for number in range(count)
    ]
    return write(Path("texts.jsonl"), rows)


def test_every_measure_by_hand() -> None:
    """With a tokenizer of bytes, tokens are bytes; Thai has no spaces: each letter with its marks is a word."""
    made = hw.train_tokenizer(SENTENCES, kind="byte")
    report = hw.report_tokenizer(made, SENTENCES, same="line")
    tokens = {name: sum(len(text.encode()) for text in own) for name, own in SENTENCES.items()}
    words = {"en": 2 + 5, "ru": 1 + 3, "th": 3 + 9}
    for name, own in report.languages.items():
        joined = "".join(SENTENCES[name])
        assert (own.tokens, own.texts, own.words) == (tokens[name], 2, words[name])
        assert own.fertility == pytest.approx(tokens[name] / words[name])
        assert own.per_character == pytest.approx(tokens[name] / len(joined))
        assert (own.per_byte, own.unknown) == (1.0, 0.0)
        letters = sum(character.isascii() for character in joined)
        assert own.bytes == pytest.approx(1 - letters / tokens[name])
        assert own.vocabulary == pytest.approx(len(set(joined.encode())) / 256)
        assert own.parity == pytest.approx(tokens[name] / tokens["en"])
    assert [own.script for own in report.languages.values()] == ["Thai", "Cyrillic", "Latin"]  # from the worst on
    assert report.worst("parity") == ("th", report.languages["th"].parity)


def test_unknown_characters_are_counted() -> None:
    made = hw.train_tokenizer({"en": ["abc"] * 5}, kind="char")
    (own,) = hw.report_tokenizer(made, {"xx": ["abxy", "c"]}).languages.values()
    assert own.unknown == pytest.approx(2 / 5)


@pytest.mark.parametrize("kind", ["bpe", "char_bpe", "unigram"])
def test_a_mixture_serves_small_languages_better(kind: str, texts: Path, headway: Headway) -> None:
    for name, mixture in (("raw", "proportional"), ("mixed", "uniform")):
        options = ["--language", "language", "--kind", kind, "--mixture", mixture, "--vocab-size", "330"]
        assert headway("tokenizer", "train", str(texts), *options, "--out", f"{name}.json").code == 0
    options = ["--data", str(texts), "--same", "number", "--picture", "a.svg"]
    shown = headway("tokenizer", "compare", "raw.json", "mixed.json", *options, "--json")
    made = json.loads(shown.out)
    raw, mixed = (each["languages"] for each in made)
    assert mixed["ru"]["parity"] < raw["ru"]["parity"]
    assert mixed["en"]["fertility"] >= raw["en"]["fertility"]
    assert Path("a.svg").read_text().count("<svg") == 1
    core, text = Core.from_file("raw.json"), FORMS["ru"](987)
    report = hw.report_tokenizer("raw.json", {"ru": [text]})
    assert report.languages["ru"].tokens == len(core.encode(text, add_special_tokens=False).ids)


def test_a_tokenizer_for_each_group(texts: Path, headway: Headway) -> None:
    options = ["--language", "language", "--groups", "script", "--vocab-size", "300", "--out", "groups"]
    assert headway("tokenizer", "train", str(texts), *options).code == 0
    made = read_tokenizers(Path("groups"))
    assert made.groups == {"en": "Latin", "de": "Latin", "ru": "Cyrillic"}
    assert len(made) == sum(len(each) for each in made.tokenizers.values()) > 500
    report = hw.report_tokenizer("groups", {"ru": ["девять"]})
    assert report.languages["ru"].tokens == len(made.of("ru").encode(["девять"])[0])
    outcome = headway(
        "tokenizer", "report", "groups", "--data", str(write(Path("x.jsonl"), [{"text": "a", "language": "fr"}]))
    )
    assert (outcome.code, "no group of its tokenizers has the language 'fr'" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "none.json", "--data", "texts.jsonl"], "none.json"),
        (["report", "texts.jsonl", "--data", "texts.jsonl"], "texts.jsonl"),
        (["train", "texts.jsonl", "--mixture", "uniform", "--out", "a.json"], "it is about languages"),
        (["train", "texts.jsonl", "--kind", "bqe", "--out", "a.json"], "did you mean 'bpe'?"),
        (["train", "texts.jsonl", "--language", "lang", "--out", "a.json"], "did you mean 'language'?"),
        (["train", "texts.jsonl", "--language", "language", "--groups", "A=en,xx", "--out", "a"], "no texts in 'xx'"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], message: str, texts: Path, headway: Headway) -> None:
    outcome = headway("tokenizer", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not Path("a.json").exists()
