"""Chinese, Japanese, Korean, Thai, Vietnamese and Indonesian, in their scripts.

- zh: a word for each power of ten up to ten thousand, each with its count, but 十 for 一十 at the beginning; 零 where
  powers are skipped; always the formal 二, never 两.
- ja: 一 only before ten thousand, and no zero: 1,011 is 千十一.
- ko: never a one before a power of ten; a blank after ten thousand.
- th: a word for each power of ten up to a hundred thousand; 20 is ยี่สิบ, and 1 after another word เอ็ด.
- vi: that of the North: "linh" where the tens are skipped, "không trăm" where the hundreds are; one and five are "mốt"
  and "lăm" after tens.
- id: "se" for one before ten, a hundred and a thousand; "belas" in 11 to 19.
"""

from headway.text.spelling.form import Form, parts, table, then

POWERS = (100, 1000, 10_000)
CHINESE = table("零 一 二 三 四 五 六 七 八 九 十 百 千 万", range(11), *POWERS)
JAPANESE = CHINESE
KOREAN = table("영 일 이 삼 사 오 육 칠 팔 구 십 백 천 만", range(11), *POWERS)
THAI = table("ศูนย์ หนึ่ง สอง สาม สี่ ห้า หก เจ็ด แปด เก้า สิบ ร้อย พัน หมื่น แสน", range(11), *POWERS, 100_000)
VIETNAMESE = table("không một hai ba bốn năm sáu bảy tám chín mười trăm nghìn", *(range(11), 100, 1000))
INDONESIAN_UNITS = table("dua tiga empat lima enam tujuh delapan sembilan", range(2, 10))
INDONESIAN = {
    **{0: "nol", 1: "satu", **INDONESIAN_UNITS, 10: "sepuluh", 11: "sebelas"},
    **{10 + unit: f"{word} belas" for unit, word in INDONESIAN_UNITS.items()},
    **{10 * unit: f"{word} puluh" for unit, word in INDONESIAN_UNITS.items()},
    **{100: "ratus", 1000: "ribu"},
}


def chinese(number: int) -> str:
    text = chinese_stem(number)
    return text.removeprefix("一") if text.startswith("一十") else text


def chinese_stem(number: int) -> str:
    """After another word: with the count of every power."""
    count, base, rest = parts(CHINESE, number)
    before = chinese_stem(count) if base >= 10 else ""
    return before + CHINESE[base] + then("零" if 10 * rest < base else "", chinese_stem, rest)


def japanese(number: int) -> str:
    count, base, rest = parts(JAPANESE, number)
    before = japanese(count) if count > 1 or base == 10_000 else ""
    return before + JAPANESE[base] + then("", japanese, rest)


def korean(number: int) -> str:
    count, base, rest = parts(KOREAN, number)
    before = korean(count) if count > 1 else ""
    return before + KOREAN[base] + then(" " if base == 10_000 else "", korean, rest)


def thai(number: int) -> str:
    count, base, rest = parts(THAI, number)
    before = "" if base < 10 or (base == 10 and count == 1) else "ยี่" if base == 10 and count == 2 else thai(count)
    return before + THAI[base] + ("เอ็ด" if rest == 1 else then("", thai, rest))


def vietnamese(number: int) -> str:
    count, base, rest = parts(VIETNAMESE, number)
    if base <= 10:
        word = f"{vietnamese(count)} mươi" if count > 1 else VIETNAMESE[base]
        return word + (" lăm" if rest == 5 else " mốt" if rest == 1 and count > 1 else then(" ", vietnamese, rest))
    skipped = " không trăm" if base == 1000 and rest < 100 else ""
    skipped += " linh" if rest < 10 else ""
    return f"{vietnamese(count)} {VIETNAMESE[base]}" + then(f"{skipped} ", vietnamese, rest)


def indonesian(number: int) -> str:
    count, base, rest = parts(INDONESIAN, number)
    before = "" if base < 100 else "se" if count == 1 else f"{indonesian(count)} "
    return before + INDONESIAN[base] + then(" ", indonesian, rest)


FORMS = {
    "zh": Form(chinese, CHINESE),
    "ja": Form(japanese, JAPANESE),
    "ko": Form(korean, KOREAN),
    "th": Form(thai, THAI, {"ยี่": 2, "เอ็ด": 1}),
    "vi": Form(vietnamese, VIETNAMESE, {"mốt": 1, "lăm": 5, "mươi": 10, "không trăm": 0}),
    "id": Form(indonesian, INDONESIAN),
}
