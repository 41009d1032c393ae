"""English, German, Dutch and Danish.

- en: no "and" and no hyphens, so that its parts are words.
- de: one word, units before tens, always with "ein" before "hundert" and "tausend".
- nl: units before tens, with a diaeresis where vowels meet (tweeëntwintig); "honderd" and "duizend" without "een"; a
  blank after "duizend" only.
- da: units before tens, and tens from 50 on count scores: "halvtreds" is half of the third one, 2½ · 20; "og" before
  whatever is below a hundred.
"""

from headway.text.spelling.form import Form, parts, table, then

TENS = range(20, 100, 10)
ENGLISH = table(
    """zero one two three four five six seven eight nine
    ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
    twenty thirty forty fifty sixty seventy eighty ninety hundred thousand""",
    *(range(20), TENS, 100, 1000),
)
GERMAN = table(
    """null ein zwei drei vier fünf sechs sieben acht neun
    zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
    zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend""",
    *(range(20), TENS, 100, 1000),
)
DUTCH = table(
    """nul een twee drie vier vijf zes zeven acht negen
    tien elf twaalf dertien veertien vijftien zestien zeventien achttien negentien
    twintig dertig veertig vijftig zestig zeventig tachtig negentig honderd duizend""",
    *(range(20), TENS, 100, 1000),
)
DANISH = table(
    """nul et to tre fire fem seks syv otte ni
    ti elleve tolv tretten fjorten femten seksten sytten atten nitten
    tyve tredive fyrre halvtreds tres halvfjerds firs halvfems hundrede tusind""",
    *(range(20), TENS, 100, 1000),
)


def english(number: int) -> str:
    count, base, rest = parts(ENGLISH, number)
    before = f"{english(count)} " if base >= 100 else ""
    return before + ENGLISH[base] + then(" ", english, rest)


def german(number: int) -> str:
    return german_stem(number) + ("s" if number % 100 == 1 else "")


def german_stem(number: int) -> str:
    """Before another word: "ein", which is "eins" only at the very end."""
    count, base, rest = parts(GERMAN, number)
    word, after = GERMAN[base], then("", german_stem, rest)
    if base >= 100:
        return german_stem(count) + word + after
    return f"{after}und{word}" if after else word


def dutch(number: int) -> str:
    count, base, rest = parts(DUTCH, number)
    word = DUTCH[base]
    if base >= 100:
        before = dutch(count) if count > 1 else ""
        return before + word + then(" " if base == 1000 else "", dutch, rest)
    unit, joint = then("", dutch, rest), "ën" if rest in (2, 3) else "en"
    return unit + joint + word if unit else word


def danish(number: int) -> str:
    count, base, rest = parts(DANISH, number)
    word = DANISH[base]
    if base >= 100:
        return f"{danish(count)} {word}" + then(" og " if rest < 100 else " ", danish, rest)
    unit = "en" if rest == 1 else then("", danish, rest)
    return f"{unit}og{word}" if unit else word


FORMS = {
    "en": Form(english, ENGLISH),
    "de": Form(german, GERMAN),
    "nl": Form(dutch, DUTCH),
    "da": Form(danish, DANISH, {"en": 1}),
}
