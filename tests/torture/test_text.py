"""Pathological text: every regular expression and tokenizer takes time in proportion to its length."""

import ast
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers

import headway
from headway.data.examples import Reading, examples
from headway.data.readers import Format
from headway.data.splitting import WORDS, reader
from headway.text.scripts import script_of, words_of
from headway.text.tokenizer import NORMALIZERS, Tokenizer
from headway.text.vocabulary import SPECIALS
from headway.training.fabric import keep_memory
from torture.harness import SHARE, Tally

FAMILIES: dict[str, str] = {  # what is repeated
    "letter": "a",
    "space": " ",
    "line end": "\n",
    "open tag": "<a",
    "tag": "<a b>",
    "word and space": "a ",
    "apostrophes": "a'",
    "digits and dots": "1.",
    "brackets": "[[(",
    "accent": "e\u0301",
    "many accents": "\u0301",
    "full-width": "Ａ",
    "ligature": "\ufdfa",  # eighteen letters in NFKC
    "emoji": "👩\u200d👩\u200d👧",
    "mask": " [MASK]",
    "equals": "a=",
}
SHORTEST, LONGEST = 1 << 13, 1 << 20 if SHARE else 1 << 15
MOST_TIMES = 2.6  # as long for twice the text
NOISE = 0.04  # seconds below which a ratio of times says nothing
SOURCE = Path(headway.__file__).parent


def patterns() -> Iterator[tuple[str, str, str]]:
    """Every pattern that is written out in the source, as the syntax trees have it: where, how it is used, and it."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                module, _, function = ast.unparse(node.func).rpartition(".")
                if module == "re" or function == "Regex":
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", function, str(node.args[0].value)


def use_of(function: str, pattern: str) -> Callable[[str], Any]:
    if function == "Regex":
        return pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str
    expression = re.compile(pattern)
    if function == "sub":
        return lambda text: expression.sub("", text)
    return getattr(expression, "findall" if function == "compile" else function)


@pytest.fixture(scope="module", autouse=True)
def kept_memory() -> None:
    """Else every page of a long text is given back to the system, and takes longer than the text to come again."""
    if sys.platform == "linux":
        keep_memory()


def duration(call: Callable[[str], Any], text: str, most: int = 2) -> float:
    """Of a processor, the shortest of so many: whatever else the machine does comes on top."""
    times = []
    for _ in range(most):
        began = time.process_time()
        call(text)
        times.append(time.process_time() - began)
        if times[-1] < NOISE or times[-1] > 1:
            break
    return min(times)


def is_slow(call: Callable[[str], Any], unit: str, size: int) -> bool:
    """Whether this text really takes so much longer than half of it, and twice the text so much longer than this: where
    memory gets slower, such as beyond a cache, one doubling may cost more."""
    half, own, twice = (duration(call, repeated(unit, each), 4) for each in (size // 2, size, 2 * size))
    return own > MOST_TIMES * half and twice > MOST_TIMES * own


def repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def check(what: str, call: Callable[[str], Any], tally: Tally, families: Iterable[str] = FAMILIES) -> None:
    """Twice the text takes little more than twice the time, for each family, as soon as the time can be measured."""
    for family in families:
        unit = FAMILIES[family]
        tally.add("texts")
        size, before = SHORTEST, 0.0
        while size <= LONGEST:
            now = duration(call, repeated(unit, size))
            if before > NOISE and now > MOST_TIMES * before and is_slow(call, unit, size):
                tally.found("hangs", f"{what} on {family}: {before:.3f} s, then {now:.3f} s for twice {size // 2}")
                break
            if family == "letter" and now > 2 * max(size / (1 << 20), 0.25):
                tally.found("hangs", f"{what} on {family}: {now:.1f} s for {size} characters")
                break
            size, before = 2 * size, now


def test_slow_patterns_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test below can fail: it sees the patterns, and a slow one is slow."""
    monkeypatch.setattr("torture.test_text.NOISE", 0.01)
    assert len(list(patterns())) > 10
    tally = Tally("text")
    check("slow", lambda text: sum(1 for _ in range(len(text) ** 2 // 40)), tally, ["letter"])
    assert "slow on letter" in tally.wrong[0]


@pytest.mark.parametrize(("where", "function", "pattern"), list(patterns()))
def test_regular_expressions(where: str, function: str, pattern: str, tally: Tally) -> None:
    check(where, use_of(function, pattern), tally)


@pytest.mark.parametrize(
    "kind", ["char", "byte", "word", "word(signs=False, lines=True)", "bpe", "char_bpe", "unigram"]
)
def test_tokenizers(kind: str, tally: Tally) -> None:
    texts = ["the plot was a good one . don't [MASK] <a> 12 é"] * 5
    tokenizer = Tokenizer.learn(kind, texts, "html nfkc lower accents spaces", 300 + len(SPECIALS), 1)
    check(kind, lambda text: tokenizer.decode(tokenizer.encode([text])[0].tolist()), tally)


@pytest.mark.parametrize("step", NORMALIZERS)
def test_normalization(step: str, tally: Tally) -> None:
    check(step, reader(step), tally)


def test_readers_of_text(tmp_path: Path, tally: Tally) -> None:
    """Long documents are read in pieces, also where there is no place to cut."""

    def read(name: str, reading: Reading) -> Callable[[str], Any]:
        def use(text: str) -> Any:
            (tmp_path / name).write_text(text, encoding="utf-8")
            return sum(len(each.text) for each in examples(tmp_path / name, reading))

        return lambda text: use("text,label\nx," + text if name.endswith("csv") else "x" + text)

    whole = Reading(has_labels=False, format=Format(whole=True))
    check("a text", read("a.txt", whole), tally)
    check("lines", read("b.txt", Reading(has_labels=False)), tally)
    check("a table", read("c.csv", Reading(skip_bad=True)), tally)
    check("words", lambda text: len(WORDS.findall(text)), tally)
    check("words of a script", lambda text: len(words_of(text)), tally)
    check("scripts", script_of, tally)
