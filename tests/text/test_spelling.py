"""Numbers in many languages: against num2words, and by hand where it differs from the standard or lacks a language."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from num2words import CONVERTER_CLASSES

from headway.text.spelling import FORMS, LIMIT, read


def same(text: str) -> str:
    return text


def apart(text: str) -> str:
    return text.replace(" ", "")


def replaced(*pairs: tuple[str, str]) -> Callable[[str], str]:
    def replace(text: str) -> str:
        for old, new in pairs:
            text = re.sub(old, new, text)
        return text

    return replace


# What is done to our spelling and to theirs before they are compared, and why: a difference in style, or a fault there.
DIFFERENCES: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    # Style: "and", hyphens and commas.
    "en": (same, replaced((" and ", " "), ("-", " "), (",", ""))),
    # A fault: "eins" only ends a number; 101,000 is "einhunderteintausend".
    "de": (same, replaced(("einstausend", "eintausend"))),
    # Style: "één" where "een" could be an article. A fault: after "duizend" there is a blank.
    "nl": (apart, replaced(("é", "e"))),
    # Faults: "treds" instead of "tres"; "tusind" and "tusinde", with "og" and without, with blanks and without.
    "da": (
        replaced(("tusind( og)?", "tusind"), (" ", "")),
        replaced(("tusind(e og)?", "tusind"), (" ", ""), ("(?<!halv)treds", "tres")),
    ),
    # A fault: "uno" before "mil".
    "es": (same, replaced(("veintiuno mil", "veintiún mil"), ("uno mil", "un mil"))),
    # Faults: no accent on "tre" above 100, where "diciotto" loses an i as well.
    "it": (replaced(("é", "e")), replaced(("é", "e"), ("dicotto", "diciotto"))),
    # Style: one word, as on a cheque. A fault: "bir" is lost before "bin" in many a large number.
    "tr": (replaced((" ", ""), ("birbin", "bin")), replaced(("birbin", "bin"))),
    # Faults: "két" at the end of 102, "kettő" before "ezer" in 12,000.
    "hu": (replaced(("kettő", "két")), replaced(("kettő", "két"))),
    # Style: "lẻ" of the South for "linh". A fault: "không trăm" is left out.
    "vi": (replaced(("không trăm( linh)?", "lẻ"), ("linh", "lẻ")), same),
    # A fault: "milcent".
    "eo": (same, replaced(("milcent", "mil cent"))),
}

# The standard of each language, where num2words is no witness.
BY_HAND = {
    "nl": {
        **{1: "een", 21: "eenentwintig", 22: "tweeëntwintig", 33: "drieëndertig", 48: "achtenveertig"},
        **{100: "honderd", 101: "honderdeen", 122: "honderdtweeëntwintig", 200: "tweehonderd", 1000: "duizend"},
        **{1001: "duizend een", 1100: "duizend honderd", 2345: "tweeduizend driehonderdvijfenveertig"},
        **{101_000: "honderdeenduizend", 103_125: "honderddrieduizend honderdvijfentwintig"},
    },
    "da": {
        **{1: "et", 21: "enogtyve", 50: "halvtreds", 55: "femoghalvtreds", 60: "tres", 70: "halvfjerds", 80: "firs"},
        **{91: "enoghalvfems", 100: "et hundrede", 101: "et hundrede og et", 199: "et hundrede og nioghalvfems"},
        **{1000: "et tusind", 1001: "et tusind og et", 1234: "et tusind to hundrede og fireogtredive"},
        **{2100: "to tusind et hundrede", 101_000: "et hundrede og et tusind", 200_001: "to hundrede tusind og et"},
    },
    "es": {
        **{16: "dieciséis", 21: "veintiuno", 22: "veintidós", 31: "treinta y uno", 100: "cien", 101: "ciento uno"},
        **{500: "quinientos", 777: "setecientos setenta y siete", 1000: "mil", 1100: "mil cien", 2001: "dos mil uno"},
        **{21_000: "veintiún mil", 31_000: "treinta y un mil", 101_000: "ciento un mil", 100_100: "cien mil cien"},
        **{21_021: "veintiún mil veintiuno", 11_000: "once mil", 221_000: "doscientos veintiún mil"},
    },
    "it": {
        **{3: "tre", 13: "tredici", 21: "ventuno", 23: "ventitré", 28: "ventotto", 33: "trentatré", 80: "ottanta"},
        **{101: "centouno", 103: "centotré", 108: "centotto", 118: "centodiciotto", 180: "centottanta"},
        **{181: "centottantuno", 188: "centottantotto", 1000: "mille", 1001: "milleuno", 1008: "milleotto"},
        **{1080: "milleottanta", 2023: "duemilaventitré", 3000: "tremila", 23_000: "ventitremila"},
        **{21_000: "ventunomila", 100_000: "centomila", 108_303: "centottomilatrecentotré"},
    },
    "tr": {
        **{11: "on bir", 100: "yüz", 101: "yüz bir", 1000: "bin", 1001: "bin bir", 21_000: "yirmi bir bin"},
        **{231_231: "iki yüz otuz bir bin iki yüz otuz bir", 999: "dokuz yüz doksan dokuz"},
    },
    "hu": {
        **{
            2: "kettő",
            12: "tizenkettő",
            22: "huszonkettő",
            102: "százkettő",
            200: "kétszáz",
            222: "kétszázhuszonkettő",
        },
        **{1002: "ezerkettő", 1999: "ezerkilencszázkilencvenkilenc", 2000: "kétezer", 2001: "kétezer-egy"},
        **{12_000: "tizenkétezer", 22_000: "huszonkétezer", 102_002: "százkétezer-kettő"},
    },
    "vi": {
        **{10: "mười", 15: "mười lăm", 20: "hai mươi", 21: "hai mươi mốt", 25: "hai mươi lăm", 11: "mười một"},
        **{101: "một trăm linh một", 105: "một trăm linh năm", 110: "một trăm mười", 115: "một trăm mười lăm"},
        **{1001: "một nghìn không trăm linh một", 1010: "một nghìn không trăm mười", 1100: "một nghìn một trăm"},
        **{1105: "một nghìn một trăm linh năm", 2025: "hai nghìn không trăm hai mươi lăm"},
    },
    "eo": {
        **{10: "dek", 11: "dek unu", 20: "dudek", 99: "naŭdek naŭ", 100: "cent", 200: "ducent", 1000: "mil"},
        **{1100: "mil cent", 2000: "du mil", 21_345: "dudek unu mil tricent kvardek kvin"},
    },
    "eu": {
        **{8: "zortzi", 11: "hamaika", 18: "hemezortzi", 19: "hemeretzi", 20: "hogei", 21: "hogeita bat"},
        **{30: "hogeita hamar", 31: "hogeita hamaika", 40: "berrogei", 55: "berrogeita hamabost", 60: "hirurogei"},
        **{79: "hirurogeita hemeretzi", 80: "laurogei", 97: "laurogeita hamazazpi", 100: "ehun", 101: "ehun eta bat"},
        **{225: "berrehun eta hogeita bost", 400: "laurehun", 1000: "mila", 1003: "mila eta hiru"},
        **{1500: "mila eta bostehun", 1202: "mila berrehun eta bi", 2022: "bi mila eta hogeita bi"},
        **{47_000: "berrogeita zazpi mila", 101_000: "ehun eta bat mila", 100_001: "ehun mila eta bat"},
        457_908: "laurehun eta berrogeita hamazazpi mila bederatziehun eta zortzi",
    },
    "zh": {
        **{0: "零", 10: "十", 11: "十一", 20: "二十", 21: "二十一", 100: "一百", 101: "一百零一", 110: "一百一十"},
        **{111: "一百一十一", 200: "二百", 1000: "一千", 1001: "一千零一", 1010: "一千零一十", 1100: "一千一百"},
        **{10_000: "一万", 10_001: "一万零一", 10_010: "一万零一十", 10_100: "一万零一百", 11_000: "一万一千"},
        **{
            100_000: "十万",
            110_000: "十一万",
            100_100: "十万零一百",
            201_000: "二十万一千",
            210_305: "二十一万零三百零五",
        },
        **{999_999: "九十九万九千九百九十九"},
    },
}


@pytest.mark.parametrize("form", sorted(FORMS.keys() & CONVERTER_CLASSES.keys()))
def test_num2words_spells_them_alike(form: str) -> None:
    theirs = CONVERTER_CLASSES[form].to_cardinal
    ours_as, theirs_as = DIFFERENCES.get(form, (same, same))
    others = np.random.default_rng(1).integers(2_000, LIMIT, 500).tolist()
    for number in [*range(2_000), *range(2_000, LIMIT, 7_000), *others]:
        assert ours_as(FORMS[form](number)) == theirs_as(theirs(number)), number


@pytest.mark.parametrize("form", BY_HAND)
def test_the_standard(form: str) -> None:
    assert {number: FORMS[form](number) for number in BY_HAND[form]} == BY_HAND[form]
    assert [read(form, text) for text in BY_HAND[form].values()] == list(BY_HAND[form])


def test_every_language_has_a_witness() -> None:
    assert FORMS.keys() - {"digits"} <= CONVERTER_CLASSES.keys() | BY_HAND.keys()
