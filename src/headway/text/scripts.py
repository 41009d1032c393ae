"""Writing systems: the scripts that the letters of a text belong to, read off the names that Unicode gives characters.

``CYRILLIC SMALL LETTER ZHE`` is Cyrillic and ``NEW TAI LUE LETTER HIGH QA`` is New Tai Lue: the words before the first
one that says what kind of letter it is. Only letters count; digits, punctuation and marks go with any script.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

NO_SCRIPT = "none"  # of a text without letters
HAN, HIRAGANA, KATAKANA, JAPANESE = "Han", "Hiragana", "Katakana", "Japanese"

KINDS = (
    *("LETTER", "SMALL", "CAPITAL", "MTAVRULI", "SYLLABLE", "SYLLABICS", "IDEOGRAPH", "CHARACTER", "HIEROGLYPH"),
    *("LOGOGRAM", "VOWEL", "SEMIVOWEL", "VOWEL-CARRIER", "CONSONANT", "INDEPENDENT", "FINAL", "SIGN", "MODIFIER"),
    *("SUBSCRIPT", "EPIGRAPHIC", "LIGATURE"),
)
# First words of names where Unicode calls the script otherwise, or that no kind of letter ends.
SCRIPTS = {
    "CJK": HAN,
    "IDEOGRAPHIC": HAN,
    "HENTAIGANA": HIRAGANA,
    "KATAKANA-HIRAGANA": KATAKANA,
    "HALFWIDTH": KATAKANA,
    "CANADIAN": "Canadian Aboriginal",
    "EGYPTIAN": "Egyptian Hieroglyphs",
    "MEETEI": "Meetei Mayek",
    "OL": "Ol Chiki",
    "VEDIC": "",
}


def script_of(text: str) -> str:
    """The script of most letters of a text, the first of them where two have as many, or ``none`` without letters.

    Japanese is written in three scripts at once: where kana stand, Han counts with them, as ``Japanese``.

    >>> script_of("Здравствуй, world"), script_of("東京へ行く"), script_of("12 + 3")
    ('Cyrillic', 'Japanese', 'none')
    """
    return main_script(scripts_of(text))


def main_script(counts: Mapping[str, int]) -> str:
    """Of a text with so many letters of each script."""
    joined = Counter(counts)
    if HIRAGANA in counts or KATAKANA in counts:
        for script in [script for script in counts if script in (HAN, HIRAGANA, KATAKANA)]:
            joined[JAPANESE] += joined.pop(script)
    return max(joined, key=joined.__getitem__, default=NO_SCRIPT)


def scripts_of(text: str) -> Counter[str]:
    """How many letters of a text belong to each script, in the order in which the text comes to them.

    >>> scripts_of("Anna, мир 1")
    Counter({'Latin': 4, 'Cyrillic': 3})
    """
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        script = script_of_letter(character) if character.isalpha() else ""
        if script:
            counts[script] += count
    return counts


@cache
def script_of_letter(letter: str) -> str:
    """Empty for letters of no script, such as the Hawaiian ʻokina, a ``MODIFIER LETTER``."""
    plain = unicodedata.normalize("NFKD", letter)  # a full-width or bold A is an A
    words = unicodedata.name(next(filter(str.isalpha, plain), letter), "").split()
    end = next((place for place, word in enumerate(words) if word in KINDS), 1)
    return SCRIPTS.get(words[0], " ".join(words[:end]).title()) if words else ""


UNSPACED = (  # scripts that are written without spaces between words
    *("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tai_Le", "New_Tai_Lue", "Tai_Tham"),
    *("Javanese", "Balinese"),
)
ALONE = r"(?=[\p{L}\p{N}])[" + "".join(rf"\p{{{script}}}" for script in UNSPACED) + "]"
JOINED = rf"(?:(?!{ALONE})[\p{{L}}\p{{N}}\p{{M}}\x{{200C}}\x{{200D}}])+"
WORDS = Split(Regex(rf"{ALONE}[\p{{M}}ー]*|{JOINED}(?:['’]{JOINED})*"), "removed", invert=True)


def words_of(text: str) -> list[str]:
    """Letters, marks and digits that stand together, with the apostrophes between them. In scripts without spaces each
    letter with its marks is taken for a word, so that their words are shorter than others.

    >>> words_of("l'été, 2 mots"), words_of("东京 и Москва")
    (["l'été", '2', 'mots'], ['东', '京', 'и', 'Москва'])
    """
    return [word for word, _ in WORDS.pre_tokenize_str(text)]
