"""Tagged texts from files, and as sequences of tokens."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.config.errors import Problem
from headway.data.python_tags import sentences_of
from headway.data.tagged import TaggedReading, texts_of
from headway.data.tagged_files import TaggedFile, TaggedWords
from headway.data.tagged_sequences import MOST_PIECES, Marks, encode, pieces_of
from headway.data.words import WORDS
from headway.metrics.spans import BIO, TagSet
from headway.text.tokenizer import TOKENIZERS, Tokenizer

CONLL = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nNew NNP B-LOC\nYork NNP I-LOC\n. . O\n"


def read(tmp_path: Path, content: str, name: str = "x.conll", **how: Any) -> TaggedWords:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return TaggedFile(path, TaggedReading(**how)).tagged


def listed(own: TaggedWords) -> list[list[tuple[str, str]]]:
    ends = np.cumsum(own.sizes)
    pairs = [(word, own.kinds.names[tag]) for word, tag in zip(own.words, own.tags, strict=True)]
    return [pairs[end - size : end] for size, end in zip(own.sizes, ends, strict=True)]


EXPECTED = [[("EU", "B-ORG"), ("rejects", "O")], [("New", "B-LOC"), ("York", "I-LOC"), (".", "O")]]
ROWS = [{"tokens": [word for word, _ in each], "tags": [tag for _, tag in each]} for each in EXPECTED]
SPANS = [
    {"text": "EU rejects", "spans": [{"start": 0, "end": 2, "label": "ORG"}]},
    {"text": "New  York.", "spans": [[0, 9, "LOC"]]},
]


def lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.conll", CONLL),
        ("x.txt", CONLL.replace(" ", "\t")),
        ("x.jsonl", lines(ROWS)),
        ("x.jsonl", lines(SPANS)),
        ("x.csv", "tokens,tags\nEU rejects,B-ORG O\nNew York .,B-LOC I-LOC O\n"),
        ("x.conll", CONLL.replace("B-", "I-")),  # iob1: B only between two of one type
    ],
    ids=["conll", "tabs", "lists", "spans", "csv", "iob1"],
)
def test_the_same_sentences_from_every_format(name: str, content: str, tmp_path: Path) -> None:
    own = read(tmp_path, content, name)
    assert own.words == [word for each in EXPECTED for word, _ in each]
    bio = TagSet.of_types(own.kinds.types, BIO)
    tags = own.numbered(bio, tmp_path)
    assert [bio.names[tag] for tag in tags] == [tag for each in EXPECTED for _, tag in each]


def test_columns_are_chosen_by_number_and_documents_stay_together(tmp_path: Path) -> None:
    own = read(tmp_path, CONLL + "\n-DOCSTART- -X- O\n\nNew NNP O\n", label="2")
    assert [pair for each in listed(own) for pair in each][:2] == [("EU", "NNP"), ("rejects", "VBZ")]
    assert own.kinds.scheme == "plain"
    assert [group == own.groups[0] for group in own.groups] == [True, True, False]
    assert own.lines.tolist() == [3, 4, 6, 7, 8, 12]
    with pytest.raises(Problem, match=r"data\.label: .*x\.conll, line 3 has 3 columns: set a number from 1 to 3"):
        read(tmp_path, "\n\na b c\n", label="4")


def test_universal_dependencies(tmp_path: Path) -> None:
    content = "# text = vamos\n1-2\tvámonos\t_\t_\n1\tvamos\tir\tVERB\n2\tnos\tyo\tPRON\n\n1\tsí\tsí\tINTJ\n"
    assert listed(read(tmp_path, content, "x.conllu")) == [[("vamos", "VERB"), ("nos", "PRON")], [("sí", "INTJ")]]


WRONG = {
    "columns": ("x.conll", "a O\nb\n\nc O\n", "x.conll, line 2: 1 column, but the first line with a word has 2"),
    "one column": ("x.conll", "a\nb\n", "x.conll, line 1: one column only"),
    "inside": ("x.conll", "a B-X\nb O\n\nc O\nd I-X\n\ne B-X\n", "x.conll, line 5: 'I-X' does not go on with a span"),
    "open": ("x.conll", "a B-X\nb E-X\n\nc S-X\nd B-X\n", "x.conll, line 5: the sentence ends with 'B-X'"),
    "numbers": (
        "x.jsonl",
        '{"tokens": ["a", "b"], "tags": ["O"]}',
        "line 1: 2 words in 'tokens', but 1 tags in 'tags'",
    ),
    "empty": ("x.jsonl", lines(ROWS) + '{"tokens": [], "tags": []}', "x.jsonl, line 3: 'tokens' is empty"),
    "empty word": ("x.jsonl", '{"tokens": ["a", ""], "tags": ["O", "O"]}', "line 1: word 2 in 'tokens' is empty"),
    "no tag": ("x.jsonl", '{"tokens": ["a"], "tags": [null]}', "line 1: tag 1 in 'tags' is empty"),
    "no list": ("x.jsonl", '{"tokens": ["a"], "tags": 3}', "line 1: 'tags' is not a list of tags"),
    "outside": (
        "x.jsonl",
        '{"text": "In Rome", "spans": [[3, 8, "LOC"]]}',
        "line 1: the span from 3 to 8 is not within the 7 characters of its text",
    ),
    "overlap": ("x.jsonl", '{"text": "In Rome", "spans": [[0, 7, "A"], [3, 7, "B"]]}', "overlaps the one before it"),
    "space": ("x.jsonl", '{"text": "In Rome", "spans": [[2, 3, "A"]]}', "line 1: the span ' ' (2 to 3) has no word"),
    "no span": ("x.jsonl", '{"text": "In Rome", "spans": [[2, "A"]]}', "[2, 'A'] is not a span such as"),
    "no columns": ("x.jsonl", '{"a": 1}', "which column has the tokens? Its columns are 'a': set data.text"),
    "nothing": ("x.conll", "\n\n", "has no sentence with words and tags"),
    "format": ("x.pdf", "a", "unknown format; known are .conll"),
    "unicode": ("x.jsonl", '{"tokens": ["\\ud800"], "tags": ["O"]}', "line 1: word 1 in 'tokens' is not valid Unicode"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_its_line(what: str, tmp_path: Path) -> None:
    name, content, message = WRONG[what]
    with pytest.raises(Problem) as problem:
        read(tmp_path, content, name)
    assert message in str(problem.value)


def test_bad_sentences_can_be_skipped(tmp_path: Path) -> None:
    content = "a B-X\nb\n\nc O\nd I-X\n\ne B-X\nf I-X\n"
    file = TaggedFile(tmp_path / "x.conll", TaggedReading(skip_bad=True)) if (tmp_path / "x.conll").exists() else None
    assert file is None
    own = read(tmp_path, content, skip_bad=True)
    assert listed(own) == [[("e", "B-X"), ("f", "I-X")]]
    skipping = TaggedFile(tmp_path / "x.conll", TaggedReading(skip_bad=True))
    assert any("2 bad rows are skipped, the first on line 2" in note for note in skipping.notes)


def test_a_scheme_that_the_tags_are_not_in(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"data\.scheme: .* has tags such as 'NOUN': bio has O, B-TYPE and I-TYPE"):
        read(tmp_path, "a NOUN\nb B-X\n", scheme="bio")
    assert read(tmp_path, "a I-X\nb O\n", scheme="plain").kinds.scheme == "plain"


@pytest.mark.parametrize("scheme", [BIO, "plain"])
def test_a_file_without_any_span(scheme: str, tmp_path: Path) -> None:
    kinds = TagSet.of_types(["O", "X"] if scheme == "plain" else ["X"], scheme)
    assert read(tmp_path, "a O\nb O\n").numbered(kinds, tmp_path).tolist() == [0, 0]


def test_words_are_cut_where_spans_begin_and_end(tmp_path: Path) -> None:
    row = {"text": "a 5-year-old's Dr.Who", "spans": [[2, 3, "N"], [18, 21, "P"]]}
    own = read(tmp_path, lines([row]), "x.jsonl", words="spaces")
    assert listed(own) == [[("a", "O"), ("5", "B-N"), ("-year-old's", "O"), ("Dr.", "O"), ("Who", "B-P")]]


TEXTS = ["the cat's 漢字 sat", "naïve ﬁsh 😀 x", "a_very_long_word_that_has_many_characters_in_it end", "\u00ad y"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_first_token_of_each_word_is_where_the_word_begins(kind: str) -> None:
    """By the places of the tokens in each text alone."""
    tokenizer = Tokenizer.learn(kind, TEXTS, "nfkc lower", 300, 1)
    words = [text.split(" ") for text in TEXTS]
    sizes = np.array([len(each) for each in words])
    pieces = pieces_of(tokenizer, [word for each in words for word in each], sizes)
    firsts = iter(pieces.firsts.tolist())
    base = 0
    for number, text in enumerate(TEXTS):
        spans, place = tokenizer.spans(text), 0
        for word in words[number]:
            own = [
                index for index, (start, end) in enumerate(spans) if end > start and place < end <= place + len(word)
            ]
            first = next(firsts)
            if own and len(own) <= MOST_PIECES and all(len(each) <= MOST_PIECES for each in words[number]):
                assert pieces.tokens[first] == tokenizer.encode([text])[0][own[0]]
            place += len(word) + 1
            assert base <= first < base + pieces.sizes[number]
        base += int(pieces.sizes[number])
    assert base == len(pieces.tokens)
    assert len(np.unique(pieces.firsts)) == sizes.sum()  # each word has a token of its own, one without any letter too
    assert (np.diff(pieces.firsts) <= max(MOST_PIECES, 8) + 8).all()


def test_long_sentences_become_rows_that_have_all_words() -> None:
    random = np.random.default_rng(0)
    words = [f"w{number}" for number in random.integers(50, size=400)]
    sizes, tokenizer = np.array([300, 1, 99]), Tokenizer.of_words([f"w{number}" for number in range(50)])
    marks = Marks([7], [8])
    data = encode(tokenizer, words, np.arange(400), sizes, 34, marks, with_spellings=True)
    assert data.sizes.max() == 34
    assert data.word_counts.sum() == 400
    assert data.sentences.tolist() == [0] * 10 + [1] + [2] * 4
    assert np.array_equal(data.own_words, np.arange(400))
    rows = random.permutation(len(data))
    batch = data.batch(rows)
    for place, row in enumerate(rows):
        first, count = data.word_starts[row], data.word_counts[row]
        own = batch.take(np.array([place]))  # type: ignore[arg-type]
        assert own.inputs[0, 0] == 7
        assert own.inputs[0, -1] == 8
        assert own.targets[0].tolist() == list(range(first, first + count))
        symbols = [tokenizer.vocabulary.symbols[token] for token in own.inputs[0, own.firsts[0]]]
        assert symbols == words[first : first + count]
        assert own.spellings is not None
        assert own.spelled is not None
        letters = own.spellings[own.spelled[0]]
        assert ["".join(chr(code - 1) for code in each if code) for each in letters] == symbols


def test_texts_without_regard_to_tags(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text(CONLL)
    (tmp_path / "x.jsonl").write_text('{"tokens": ["a", "b"]}\n{"text": "c d"}\n')
    (tmp_path / "x.txt").write_text("a b\nc\n")
    reading = TaggedReading(text="1", label="3")
    assert list(texts_of(tmp_path / "x.conll", reading)) == ["EU rejects", "New York ."]
    assert list(texts_of(tmp_path / "x.jsonl", reading)) == ["a b", "c d"]
    assert list(texts_of(tmp_path / "x.txt", reading)) == ["a b", "c"]


def test_splitting() -> None:
    def words(kind: str, text: str) -> list[str]:
        return [text[start:end] for start, end in WORDS[kind](text)]

    assert words("words", "It's 3.5 km.") == ["It's", "3", ".", "5", "km", "."]
    assert words("spaces", " It's\n3.5 ") == ["It's", "3.5"]
    assert words("python", "x = 'é a' # no\nif x:\n  y += (1") == [
        "x",
        "=",
        "'é a'",
        "if",
        "x",
        ":",
        "y",
        "+=",
        "(",
        "1",
    ]
    assert words("python", "a b ' c") == ["a", "b", "'", "c"]


def test_the_tags_of_python_are_those_of_its_syntax_tree() -> None:
    source = (
        "from a.b import c as d\nclass É(B, metaclass=M):\n    def run(self, x, *, y=1):\n"
        "        self.x = 'é'; self.go(x, y=y)[0]\n        for i in f(x): pass\n"
        "        match x:\n            case 1: z = i\n"
    )
    tagged = [pair for words, tags in sentences_of(source) for pair in zip(words, tags, strict=True)]
    kinds: dict[str, list[str]] = {}
    for word, tag in tagged:
        kinds.setdefault(word, []).append(tag)
    expected = {
        **{"a": ["module"], "d": ["module"], "É": ["class"], "B": ["name"], "metaclass": ["argument"]},
        **{"run": ["function"], "self": ["parameter", "name", "name"], "go": ["method"], "'é'": ["string"]},
        **{"x": ["parameter", "attribute", "name", "name", "name"], "y": ["parameter", "argument", "name"]},
        **{"i": ["target", "name"], "f": ["call"], "match": ["keyword"], "case": ["keyword"], "z": ["target"]},
        **{"1": ["number", "number"], "for": ["keyword"], "as": ["keyword"], "[": ["operator"]},
    }
    assert {word: kinds[word] for word in expected} == expected
