"""Integers below a million, spelled in many languages and as digits, and read back.

    305      three hundred five    dreihundertfünf      trois cent cinq        三百零五
    95       ninety five           fünfundneunzig       quatre-vingt-quinze    九十五
    21000    twenty one thousand   einundzwanzigtausend vingt et un mille      二万一千

A language is a table of words, and a rule that joins them; each file has a family of them, and names their oddities.
"""

from headway.text.spelling import agglutinative, asian, germanic, romance, slavic
from headway.text.spelling.form import LIMIT, Digits, Form

__all__ = ["FORMS", "LIMIT", "Form", "read"]


def read(form: str, text: str) -> int | None:
    """The number that a text spells in this form, or None."""
    return FORMS[form].read(text)


FORMS: dict[str, Form] = {
    **germanic.FORMS,
    **romance.FORMS,
    **slavic.FORMS,
    **agglutinative.FORMS,
    **asian.FORMS,
    "digits": Digits(str, {}),
}
