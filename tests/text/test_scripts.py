"""Scripts of letters, against another library's tables."""

import sys
import unicodedata
from collections import Counter
from time import perf_counter

import pytest
from tokenizers import Regex
from tokenizers.normalizers import Replace

from headway.text.scripts import script_of, script_of_letter, scripts_of

# A bold or full-width A is an A for us, and belongs to no script for Unicode.
LETTERS = [
    each for each in map(chr, range(sys.maxunicode + 1)) if each.isalpha() and not unicodedata.decomposition(each)
]
# Letters with names of their own: raised and turned ones, iteration and tone marks, the Arabic tatweel.
ODD = set("ↃⅎℲᵎᴯᴻـー〆〻ꧏᧈᧉ") | {"\U00010780", "\U00016fe3"}
SCRIPTS = """Latin Greek Cyrillic Armenian Georgian Hebrew Arabic Syriac Thaana Nko Devanagari Bengali Gurmukhi Gujarati
    Oriya Tamil Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Khmer Ethiopic Cherokee Canadian_Aboriginal
    Mongolian Tifinagh Hangul Hiragana Katakana Bopomofo Han Yi Vai Javanese Balinese Sundanese Ol_Chiki Lisu
    New_Tai_Lue Meetei_Mayek Adlam"""


@pytest.mark.parametrize("script", SCRIPTS.split())
def test_letters_are_of_the_scripts_that_oniguruma_knows(script: str) -> None:
    theirs = set(Replace(Regex(rf"[^\p{{{script}}}]+"), "").normalize_str("".join(LETTERS)))
    ours = {letter for letter in LETTERS if script_of_letter(letter) == script.replace("_", " ")}
    assert ours
    assert (ours ^ theirs) - ODD == set()


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Привет, world", "Cyrillic"),
        ("देवनागरी में", "Devanagari"),
        ("Ａ𝐁ℂ ﬁ", "Latin"),  # compatibility forms
        ("东京", "Han"),
        ("東京大学へ", "Japanese"),  # more Han than kana
        ("カタカナ", "Japanese"),
        ("서울 大學", "Hangul"),
        ("ᱥᱟᱱᱛᱟᱲᱤ ᱽ", "Ol Chiki"),
        ("abвг", "Latin"),  # as many of both: the first
        ("вгab", "Cyrillic"),
        ("12 + 3 = 15 😀\n", "none"),
        ("ʻ \U00017000 \u0301", "none"),  # letters of no script, or without a name, and a mark
        ("", "none"),
    ],
)
def test_a_text_is_of_the_script_of_most_of_its_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def test_letters_are_counted_by_script() -> None:
    assert scripts_of("Ｗo, мир 日本の1ー") == Counter(Latin=2, Cyrillic=3, Han=2, Hiragana=1, Katakana=1)
    assert list(scripts_of("мир wo")) == ["Cyrillic", "Latin"]  # in the order in which they come


def test_large_texts_are_quick() -> None:
    text = "Здравствуй, world: 東京 " * 500_000
    started = perf_counter()
    assert scripts_of(text)["Han"] == 1_000_000
    assert perf_counter() - started < 5  # half a second on a quiet machine
