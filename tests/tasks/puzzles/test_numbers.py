"""Numbers in words: the irregular ones by hand, and all of them there and back."""

import pytest

from headway.text.spelling import FORMS, LIMIT, read

ENGLISH = {
    0: "zero",
    1: "one",
    9: "nine",
    10: "ten",
    11: "eleven",
    12: "twelve",
    13: "thirteen",
    14: "fourteen",
    15: "fifteen",
    16: "sixteen",
    17: "seventeen",
    18: "eighteen",
    19: "nineteen",
    20: "twenty",
    21: "twenty one",
    40: "forty",
    44: "forty four",
    80: "eighty",
    81: "eighty one",
    99: "ninety nine",
    100: "one hundred",
    101: "one hundred one",
    110: "one hundred ten",
    200: "two hundred",
    201: "two hundred one",
    305: "three hundred five",
    1000: "one thousand",
    1001: "one thousand one",
    1100: "one thousand one hundred",
    1200: "one thousand two hundred",
    2000: "two thousand",
    10_010: "ten thousand ten",
    80_000: "eighty thousand",
    100_000: "one hundred thousand",
    200_000: "two hundred thousand",
    100_100: "one hundred thousand one hundred",
    999_999: "nine hundred ninety nine thousand nine hundred ninety nine",
}
GERMAN = {
    0: "null",
    1: "eins",
    6: "sechs",
    7: "sieben",
    10: "zehn",
    11: "elf",
    12: "zwölf",
    13: "dreizehn",
    14: "vierzehn",
    15: "fünfzehn",
    16: "sechzehn",
    17: "siebzehn",
    18: "achtzehn",
    19: "neunzehn",
    20: "zwanzig",
    21: "einundzwanzig",
    30: "dreißig",
    66: "sechsundsechzig",
    77: "siebenundsiebzig",
    80: "achtzig",
    81: "einundachtzig",
    100: "einhundert",
    101: "einhunderteins",
    111: "einhundertelf",
    121: "einhunderteinundzwanzig",
    200: "zweihundert",
    201: "zweihunderteins",
    305: "dreihundertfünf",
    1000: "eintausend",
    1001: "eintausendeins",
    1100: "eintausendeinhundert",
    1101: "eintausendeinhunderteins",
    2000: "zweitausend",
    21_000: "einundzwanzigtausend",
    80_000: "achtzigtausend",
    100_000: "einhunderttausend",
    101_000: "einhunderteintausend",
    101_001: "einhunderteintausendeins",
    200_000: "zweihunderttausend",
    999_999: "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
}
FRENCH = {
    0: "zéro",
    1: "un",
    11: "onze",
    12: "douze",
    13: "treize",
    14: "quatorze",
    15: "quinze",
    16: "seize",
    17: "dix-sept",
    18: "dix-huit",
    19: "dix-neuf",
    20: "vingt",
    21: "vingt et un",
    22: "vingt-deux",
    31: "trente et un",
    61: "soixante et un",
    69: "soixante-neuf",
    70: "soixante-dix",
    71: "soixante et onze",
    72: "soixante-douze",
    73: "soixante-treize",
    74: "soixante-quatorze",
    75: "soixante-quinze",
    76: "soixante-seize",
    77: "soixante-dix-sept",
    78: "soixante-dix-huit",
    79: "soixante-dix-neuf",
    80: "quatre-vingts",
    81: "quatre-vingt-un",
    82: "quatre-vingt-deux",
    83: "quatre-vingt-trois",
    84: "quatre-vingt-quatre",
    85: "quatre-vingt-cinq",
    86: "quatre-vingt-six",
    87: "quatre-vingt-sept",
    88: "quatre-vingt-huit",
    89: "quatre-vingt-neuf",
    90: "quatre-vingt-dix",
    91: "quatre-vingt-onze",
    92: "quatre-vingt-douze",
    93: "quatre-vingt-treize",
    94: "quatre-vingt-quatorze",
    95: "quatre-vingt-quinze",
    96: "quatre-vingt-seize",
    97: "quatre-vingt-dix-sept",
    98: "quatre-vingt-dix-huit",
    99: "quatre-vingt-dix-neuf",
    100: "cent",
    101: "cent un",
    171: "cent soixante et onze",
    180: "cent quatre-vingts",
    200: "deux cents",
    201: "deux cent un",
    280: "deux cent quatre-vingts",
    1000: "mille",
    1001: "mille un",
    1080: "mille quatre-vingts",
    1100: "mille cent",
    1200: "mille deux cents",
    2000: "deux mille",
    2001: "deux mille un",
    21_000: "vingt et un mille",
    80_000: "quatre-vingt mille",
    80_080: "quatre-vingt mille quatre-vingts",
    100_000: "cent mille",
    101_000: "cent un mille",
    200_000: "deux cent mille",
    200_200: "deux cent mille deux cents",
    280_000: "deux cent quatre-vingt mille",
    999_999: "neuf cent quatre-vingt-dix-neuf mille neuf cent quatre-vingt-dix-neuf",
}
BROKEN = {
    "en": [
        "hundred",
        "thousand",
        "one thousand thousand",
        "ten hundred",
        "twenty-one",
        "twentyone",
        "one twenty",
        "twenty eleven",
        "three hundred and five",
        "three hundred zero",
        "zero hundred",
        "five three hundred",
        "Three",
        "three  hundred",
        "three hundred thousand five thousand",
    ],
    "de": [
        "ein",
        "hundert",
        "tausend",
        "einsundzwanzig",
        "einhundertein",
        "einhunderteinstausend",
        "zwanzigeins",
        "zwanzigundein",
        "sechszehn",
        "siebenzig",
        "dreissig",
        "drei hundert",
        "dreihundertundfünf",
        "elfhundert",
        "Eins",
    ],
    "fr": [
        "un cent",
        "un mille",
        "deux cents un",
        "deux cents mille",
        "deux milles",
        "cents",
        "vingt-et-un",
        "vingt-un",
        "vingts",
        "quatre vingts",
        "quatre-vingt",
        "quatre-vingts-un",
        "quatre-vingt et un",
        "quatre-vingts mille",
        "soixante-onze",
        "septante",
        "mille-un",
        "zero",
    ],
    "nl": ["duizendeen", "een duizend", "tweeentwintig", "éen", "eenhonderd", "twintigeen", "honderd een"],
    "da": ["en", "hundrede", "tusind", "et hundrede et", "enogtresindstyve", "halvtredsindstyve", "tyveoget"],
    "es": ["un", "ciento", "un mil", "uno mil", "veinte y uno", "cien uno", "veintiuno mil", "treinta uno"],
    "it": ["cent", "ventotre", "ventitre", "trentuno mila", "unmille", "duemille", "mila", "cento otto", "ttanta"],
    "pt": ["cento", "um mil", "vinte um", "mil cem", "mil e duzentos e um", "dezesseis", "cem e um"],
    "pl": ["jeden tysiąc", "dwa tysiąc", "dwa tysięcy", "pięć tysiące", "dwanaście tysiące", "tysiące", "piec"],
    "cs": ["jedna tisíc", "dva tisíc", "pět tisíce", "tisíce", "dvacetjedna", "pet"],
    "ru": ["тысяча", "один тысяча", "два тысячи", "две", "пять тысячи", "двадцать один тысяч", "двенадцать тысячи"],
    "tr": ["bir yüz", "bir bin", "onbir", "iki yüzbin", "yüz on on", "uc"],
    "fi": ["yksisataa", "kaksisata", "yksituhatta", "tuhatyksi", "kymmentä", "sataa", "kaksi sataa", "nelja"],
    "hu": ["kettőezer", "két", "tizen", "tízegy", "kétezeregy", "ezer-egy", "egyezer", "harom"],
    "eu": ["bat mila", "hogei bat", "hogeita hogei", "hogeita", "ehun bat", "mila bostehun", "mila eta ehun eta bat"],
    "eo": ["unudek", "unu mil", "du cent", "dekdu", "milcent", "nau"],
    "zh": ["一十", "百", "一百一", "一百零一十", "两百", "一千一", "万", "一萬", "〇", "二零"],
    "ja": ["一百", "一千", "万", "百零一", "一十", "廿"],
    "ko": ["일십", "일백", "일만", "만일", "육십 일", "하나"],
    "th": ["หนึ่งสิบ", "สองสิบ", "สิบหนึ่ง", "ร้อย", "เอ็ด", "ยี่", "๑"],
    "vi": ["một mươi", "hai mươi một", "mười mốt", "hai mươi năm", "một trăm một", "lăm", "một nghìn linh một", "mươi"],
    "id": ["satu ratus", "satu ribu", "sepuluh satu", "belas", "ratus", "dua belas puluh", "duapuluh"],
    "digits": ["-1", "+1", "007", "00", "1_000", "1,000", "1.0", "1000000", "9" * 5000, "٣", "²", "1\n", "one"],
}


@pytest.mark.parametrize(("form", "spelled"), [("en", ENGLISH), ("de", GERMAN), ("fr", FRENCH)])
def test_the_irregular_numbers(form: str, spelled: dict[int, str]) -> None:
    assert {number: FORMS[form](number) for number in spelled} == spelled
    assert {number: read(form, text) for number, text in spelled.items()} == {number: number for number in spelled}


@pytest.mark.parametrize("form", FORMS)
def test_every_number_is_read_back(form: str) -> None:
    # a prime step, so that all endings come up in all orders of magnitude
    numbers = [*range(1_100), *range(1_100, LIMIT, 997), *range(0, LIMIT, 3_000), LIMIT - 1]
    assert [read(form, FORMS[form](number)) for number in numbers] == numbers


@pytest.mark.parametrize("form", FORMS)
def test_no_two_numbers_are_spelled_alike(form: str) -> None:
    numbers = [*range(1_100), *range(1_100, LIMIT, 499)]
    assert len({FORMS[form](number) for number in numbers}) == len(numbers)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_spelling_is_no_number(form: str) -> None:
    right = FORMS[form](321)
    broken = [*BROKEN[form], "", " ", "?", f" {right}", f"{right} ", f"{right}\n", f"{right}?", f"{right} {right}"]
    assert {text: read(form, text) for text in broken} == dict.fromkeys(broken)


@pytest.mark.parametrize("form", FORMS)
def test_a_text_of_one_form_is_none_of_another(form: str) -> None:
    # "six" alone is both English and French, and much of Chinese is Japanese
    others = {other: FORMS[other](1321) for other in FORMS if other != form}
    assert {other: read(form, text) for other, text in others.items()} == dict.fromkeys(others)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [-1, LIMIT])
def test_what_is_out_of_range_is_refused(form: str, number: int) -> None:
    with pytest.raises(ValueError, match="is not a number from 0 to 999999"):
        FORMS[form](number)
