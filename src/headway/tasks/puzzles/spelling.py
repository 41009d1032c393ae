"""Integers below a million, spelled in English, German and French and as digits, and parsed back.

    305    three hundred five           dreihundertfünf         trois cent cinq
    81     eighty one                   einundachtzig           quatre-vingt-un
    21000  twenty one thousand          einundzwanzigtausend    vingt et un mille

English has no "and" and no hyphens, so that its parts are words; German is one word, always with "ein" before "hundert"
and "tausend"; French is that of France in the spelling before 1990: hyphens below a hundred only.

A language is a table of simple words and a rule that joins them. To parse, the values of the words are added up,
ignoring the joints; spelling the result again tells whether the text was right.
"""

import re
from collections.abc import Callable

LIMIT = 1_000_000
VALUES = [*range(20), *range(20, 100, 10), 100, 1000]  # numbers that are one word
ENGLISH = """
    zero one two three four five six seven eight nine
    ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
    twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
"""
GERMAN = """
    null ein zwei drei vier fünf sechs sieben acht neun
    zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
    zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend
"""
FRENCH = """
    zéro un deux trois quatre cinq six sept huit neuf
    dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf
    vingt trente quarante cinquante soixante quatre-vingt cent mille
"""
WORDS: dict[str, dict[int, str]] = {
    "en": dict(zip(VALUES, ENGLISH.split(), strict=True)),
    "de": dict(zip(VALUES, GERMAN.split(), strict=True)),
    "fr": dict(zip([value for value in VALUES if value not in (70, 90)], FRENCH.split(), strict=True)),
}


def english(number: int) -> str:
    count, base, rest = parts("en", number)
    before = f"{english(count)} " if base >= 100 else ""
    after = f" {english(rest)}" if rest else ""
    return before + WORDS["en"][base] + after


def german(number: int) -> str:
    return german_stem(number) + ("s" if number % 100 == 1 else "")


def german_stem(number: int) -> str:
    """Before another word: "ein", which is "eins" only at the very end."""
    count, base, rest = parts("de", number)
    word, after = WORDS["de"][base], german_stem(rest) if rest else ""
    if base >= 100:
        return german_stem(count) + word + after
    return f"{after}und{word}" if after else word


def french(number: int) -> str:
    plural = number % 100 == 80 or number % 1000 in range(200, 1000, 100)
    return french_stem(number) + ("s" if plural else "")


def french_stem(number: int) -> str:
    """Before another word: "cent" and "quatre-vingt", which take a plural only at the very end."""
    count, base, rest = parts("fr", number)
    before = f"{french_stem(count)} " if count > 1 else ""  # a hundred is "cent", a thousand "mille"
    joint = " " if base >= 100 else " et " if rest in (1, 11) and base < 80 else "-"
    after = joint + french_stem(rest) if rest else ""
    return before + WORDS["fr"][base] + after


def digits(number: int) -> str:
    return str(checked(number))


def parts(language: str, number: int) -> tuple[int, int, int]:
    """The largest word that fits into a number: how often, its value, and the rest; 305 is 3, 100 and 5."""
    base = max(value for value in WORDS[language] if value <= checked(number))
    count, rest = divmod(number, base or 1)
    return count, base, rest


def checked(number: int) -> int:
    if not 0 <= number < LIMIT:
        raise ValueError(f"{number} is not a number from 0 to {LIMIT - 1}")
    return number


def read(form: str, text: str) -> int | None:
    """The number that a text spells in this form, or None."""
    number = decimal(text) if form == "digits" else sum_of_words(form, text)
    return number if number < LIMIT and FORMS[form](number) == text else None


def decimal(text: str) -> int:
    """Stricter than `int`: no signs, blanks, underscores or digits of other scripts."""
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else LIMIT


def sum_of_words(language: str, text: str) -> int:
    """The value of the simple words in a text, ignoring everything between them."""
    values = {word: value for value, word in WORDS[language].items()}
    longest_first = sorted(values, key=len, reverse=True)  # "sixty" is not "six"
    thousands = group = 0
    for word in re.findall("|".join(longest_first), text):
        if values[word] == 1000:
            thousands, group = 1000 * (group or 1), 0
        elif values[word] == 100:
            group = 100 * (group or 1)
        else:
            group += values[word]
    return thousands + group


FORMS: dict[str, Callable[[int], str]] = {"en": english, "de": german, "fr": french, "digits": digits}
