"""Writing systems: the scripts that the letters of a text belong to, read off the names that Unicode gives characters.

``CYRILLIC SMALL LETTER ZHE`` is Cyrillic and ``NEW TAI LUE LETTER HIGH QA`` is New Tai Lue: the words before the first
one that says what kind of letter it is. Only letters count; digits, punctuation and marks go with any script.
"""

import unicodedata
from collections import Counter
from functools import cache

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
    counts = scripts_of(text)
    if HIRAGANA in counts or KATAKANA in counts:
        for script in [script for script in counts if script in (HAN, HIRAGANA, KATAKANA)]:
            counts[JAPANESE] += counts.pop(script)
    return max(counts, key=counts.__getitem__, default=NO_SCRIPT)


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
