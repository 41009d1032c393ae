"""French, Spanish, Italian and Portuguese.

- fr: that of France in the spelling before 1990, with hyphens below a hundred only; 70 is 60 + 10, and 80 four scores;
  "cent" and "quatre-vingt" take a plural only at the very end.
- es: one word below 30, "y" between tens and units; a hundred is "cien" alone and "ciento" before smaller numbers;
  "uno" loses its end before "mil".
- it: one word; tens lose their last vowel before "uno" and "otto", and "cento" its own before "otto" and "ottanta";
  "tre" at the end of another number has an accent; "mille", but "duemila".
- pt: that of Portugal (dezasseis), with "e" before tens and units, and before a hundred that ends a number.
"""

import re

from headway.text.spelling.form import Form, parts, table, then

HUNDREDS = range(100, 1000, 100)
FRENCH = table(
    """zéro un deux trois quatre cinq six sept huit neuf
    dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf
    vingt trente quarante cinquante soixante quatre-vingt cent mille""",
    *(range(20), range(20, 70, 10), 80, 100, 1000),
)
SPANISH = table(
    """cero uno dos tres cuatro cinco seis siete ocho nueve
    diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve
    veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve
    treinta cuarenta cincuenta sesenta setenta ochenta noventa
    cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos mil""",
    *(range(30), range(30, 100, 10), HUNDREDS, 1000),
)
ITALIAN = table(
    """zero uno due tre quattro cinque sei sette otto nove
    dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove
    venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento mille""",
    *(range(20), range(20, 100, 10), 100, 1000),
)
PORTUGUESE = table(
    """zero um dois três quatro cinco seis sete oito nove
    dez onze doze treze catorze quinze dezasseis dezassete dezoito dezanove
    vinte trinta quarenta cinquenta sessenta setenta oitenta noventa
    cem duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos mil""",
    *(range(20), range(20, 100, 10), HUNDREDS, 1000),
)


def french(number: int) -> str:
    plural = number % 100 == 80 or number % 1000 in range(200, 1000, 100)
    return french_stem(number) + ("s" if plural else "")


def french_stem(number: int) -> str:
    """Before another word, without a plural."""
    count, base, rest = parts(FRENCH, number)
    before = f"{french_stem(count)} " if count > 1 else ""  # a hundred is "cent", a thousand "mille"
    joint = " " if base >= 100 else " et " if rest in (1, 11) and base < 80 else "-"
    return before + FRENCH[base] + then(joint, french_stem, rest)


def spanish(number: int) -> str:
    count, base, rest = parts(SPANISH, number)
    word = "ciento" if base == 100 and rest else SPANISH[base]
    before = f"{spanish_count(count)} " if count > 1 else ""
    return before + word + then(" y " if base < 100 else " ", spanish, rest)


def spanish_count(number: int) -> str:
    """Before "mil"."""
    return re.sub("uno$", "un", re.sub("veintiuno$", "veintiún", spanish(number)))


def italian(number: int) -> str:
    text = italian_stem(number)
    return text.removesuffix("e") + "é" if text.endswith("tre") and number > 3 else text


def italian_stem(number: int) -> str:
    """Before another word, without an accent."""
    count, base, rest = parts(ITALIAN, number)
    before, word, after = italian_stem(count) if count > 1 else "", ITALIAN[base], then("", italian_stem, rest)
    if base == 1000 and count > 1:
        word = "mila"
    elif after.startswith("ott" if base == 100 else ("uno", "ott")) and 20 <= base <= 100:
        word = word[:-1]
    return before + word + after


def portuguese(number: int) -> str:
    count, base, rest = parts(PORTUGUESE, number)
    word = "cento" if base == 100 and rest else PORTUGUESE[base]
    before = f"{portuguese(count)} " if count > 1 else ""
    is_last = base < 1000 or rest < 100 or rest % 100 == 0
    return before + word + then(" e " if is_last else " ", portuguese, rest)


FORMS = {
    "fr": Form(french, FRENCH),
    "es": Form(spanish, SPANISH, {"un": 1, "veintiún": 21, "ciento": 100}),
    "it": Form(
        italian,
        ITALIAN,
        {word[:-1]: value for value, word in ITALIAN.items() if value in range(20, 100, 10)}
        | {"tré": 3, "mila": 1000, "tto": 8, "ttanta": 80, "ttant": 80},  # after "cento", which has their "o"
    ),
    "pt": Form(portuguese, PORTUGUESE, {"cento": 100}),
}
