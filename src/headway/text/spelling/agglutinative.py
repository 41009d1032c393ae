"""Turkish, Finnish, Hungarian, Basque and Esperanto, which join regular pieces.

- tr: every word apart; "yüz" and "bin" without "bir".
- fi: one word up to the thousands; what is counted is in the partitive: "sata", but "kaksisataa".
- hu: one word, with a hyphen after the thousands above 2,000; "tíz" and "húsz" become "tizen" and "huszon" before a
  unit, and "kettő" becomes "két" before what it counts.
- eu: counts in scores up to a hundred, 95 is "laurogeita hamabost"; "eta" before what ends a number, as "e" in
  Portuguese.
- eo: tens and hundreds are one word, everything else is apart.
"""

from headway.text.spelling.form import Form, parts, table, then

TENS, HUNDREDS = range(20, 100, 10), range(100, 1000, 100)
TURKISH = table(
    """sıfır bir iki üç dört beş altı yedi sekiz dokuz
    on yirmi otuz kırk elli altmış yetmiş seksen doksan yüz bin""",
    *(range(10), range(10, 100, 10), 100, 1000),
)
FINNISH_UNITS = table("yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän", range(1, 10))
FINNISH = {
    **{0: "nolla", **FINNISH_UNITS, 10: "kymmenen"},
    **{10 + unit: f"{word}toista" for unit, word in FINNISH_UNITS.items()},
    **{10 * unit: f"{word}kymmentä" for unit, word in FINNISH_UNITS.items() if unit > 1},
    **{100: "sata", 1000: "tuhat"},
}
FINNISH_COUNTED = {100: "sataa", 1000: "tuhatta"}
HUNGARIAN = table(
    """nulla egy kettő három négy öt hat hét nyolc kilenc
    tíz húsz harminc negyven ötven hatvan hetven nyolcvan kilencven száz ezer""",
    *(range(10), range(10, 100, 10), 100, 1000),
)
HUNGARIAN_JOINED = {10: "tizen", 20: "huszon"}
BASQUE = table(
    """zero bat bi hiru lau bost sei zazpi zortzi bederatzi
    hamar hamaika hamabi hamahiru hamalau hamabost hamasei hamazazpi hemezortzi hemeretzi
    hogei berrogei hirurogei laurogei
    ehun berrehun hirurehun laurehun bostehun seiehun zazpiehun zortziehun bederatziehun mila""",
    *(range(20), range(20, 100, 20), HUNDREDS, 1000),
)
ESPERANTO = table("nul unu du tri kvar kvin ses sep ok naŭ dek cent mil", *(range(11), 100, 1000))


def turkish(number: int) -> str:
    count, base, rest = parts(TURKISH, number)
    before = f"{turkish(count)} " if count > 1 else ""
    return before + TURKISH[base] + then(" ", turkish, rest)


def finnish(number: int) -> str:
    count, base, rest = parts(FINNISH, number)
    word = finnish(count) + FINNISH_COUNTED[base] if count > 1 else FINNISH[base]
    return word + then(" " if base == 1000 else "", finnish, rest)


def hungarian(number: int) -> str:
    count, base, rest = parts(HUNGARIAN, number)
    before = hungarian(count) if count > 1 else ""
    if before.endswith("kettő"):
        before = before.removesuffix("kettő") + "két"
    word = HUNGARIAN_JOINED.get(base, HUNGARIAN[base]) if rest else HUNGARIAN[base]
    return before + word + then("-" if number > 2000 and base == 1000 else "", hungarian, rest)


def basque(number: int) -> str:
    count, base, rest = parts(BASQUE, number)
    before = f"{basque(count)} " if count > 1 else ""
    is_last = base < 1000 or rest < 100 or rest % 100 == 0
    joint = "ta " if base < 100 else " eta " if is_last else " "
    return before + BASQUE[base] + then(joint, basque, rest)


def esperanto(number: int) -> str:
    count, base, rest = parts(ESPERANTO, number)
    before = "" if count <= 1 else esperanto(count) + (" " if base == 1000 else "")
    return before + ESPERANTO[base] + then(" ", esperanto, rest)


FORMS = {
    "tr": Form(turkish, TURKISH),
    "fi": Form(finnish, FINNISH, {word: value for value, word in FINNISH_COUNTED.items()}),
    "hu": Form(hungarian, HUNGARIAN, {"két": 2, "tizen": 10, "huszon": 20}),
    "eu": Form(basque, BASQUE),
    "eo": Form(esperanto, ESPERANTO),
}
