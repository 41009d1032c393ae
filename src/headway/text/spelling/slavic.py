"""Polish, Czech and Russian: what follows a thousand takes its case from the count.

    1 tysiąc    2, 3, 4, 22 tysiące    5, 12, 21 tysięcy
    1 tisíc     2, 3, 4, 22 tisíce     5, 12, 21 tisíc
    1, 21 тысяча    2, 3, 4, 22 тысячи    5, 12 тысяч

All have words of their own for the hundreds. In Russian a thousand is feminine, and so is what counts it: одна, две.
"""

from headway.text.spelling.form import Form, parts, table, then

VALUES = (range(20), range(20, 100, 10), range(100, 1000, 100), 1000)
POLISH = table(
    """zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć
    dziesięć jedenaście dwanaście trzynaście czternaście
    piętnaście szesnaście siedemnaście osiemnaście dziewiętnaście
    dwadzieścia trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt osiemdziesiąt dziewięćdziesiąt
    sto dwieście trzysta czterysta pięćset sześćset siedemset osiemset dziewięćset tysiąc""",
    *VALUES,
)
CZECH = table(
    """nula jedna dva tři čtyři pět šest sedm osm devět
    deset jedenáct dvanáct třináct čtrnáct patnáct šestnáct sedmnáct osmnáct devatenáct
    dvacet třicet čtyřicet padesát šedesát sedmdesát osmdesát devadesát
    sto dvěstě třista čtyřista pětset šestset sedmset osmset devětset tisíc""",
    *VALUES,
)
RUSSIAN = table(
    """ноль один два три четыре пять шесть семь восемь девять
    десять одиннадцать двенадцать тринадцать четырнадцать
    пятнадцать шестнадцать семнадцать восемнадцать девятнадцать
    двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто
    сто двести триста четыреста пятьсот шестьсот семьсот восемьсот девятьсот тысяча""",
    *VALUES,
)


def polish(number: int) -> str:
    count, base, rest = parts(POLISH, number)
    counted = f"{polish(count)} {'tysiące' if few(count) else 'tysięcy'}" if count > 1 else POLISH[base]
    return counted + then(" ", polish, rest)


def czech(number: int) -> str:
    count, base, rest = parts(CZECH, number)
    counted = f"{czech(count)} {'tisíce' if few(count) else 'tisíc'}" if count > 1 else CZECH[base]
    return counted + then(" ", czech, rest)


def russian(number: int) -> str:
    count, base, rest = parts(RUSSIAN, number)
    word = f"{russian_thousands(count)}" if base == 1000 else RUSSIAN[base]
    return word + then(" ", russian, rest)


def russian_thousands(count: int) -> str:
    text = russian(count)
    if count % 10 == 1 and count % 100 != 11:
        return f"{text.removesuffix('один')}одна тысяча"
    text = f"{text.removesuffix('два')}две" if count % 10 == 2 and count % 100 != 12 else text
    return f"{text} {'тысячи' if few(count) else 'тысяч'}"


def few(count: int) -> bool:
    """Whether it ends with two, three or four."""
    return count % 10 in (2, 3, 4) and count % 100 not in (12, 13, 14)


FORMS = {
    "pl": Form(polish, POLISH, {"tysiące": 1000, "tysięcy": 1000}),
    "cs": Form(czech, CZECH, {"tisíce": 1000}),
    "ru": Form(russian, RUSSIAN, {"одна": 1, "две": 2, "тысячи": 1000, "тысяч": 1000}),
}
