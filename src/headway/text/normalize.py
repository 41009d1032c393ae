"""Normalising: what is done to a text before it is cut into tokens.

A recipe names the steps in their order, ``"html nfkc lower"``. They are steps of the ``tokenizers`` library, so that
they travel in ``tokenizer.json`` and other tools that read it do the same.
"""

from collections.abc import Callable

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer

from headway.config.parts import choose

NORMALIZERS: dict[str, Callable[[], Normalizer]] = {
    "html": lambda: normalizers.Replace(Regex(r"</?[A-Za-z][^<>]*>"), " "),  # tags, such as <br />
    "nfc": normalizers.NFC,  # one way to write each letter
    "nfkc": normalizers.NFKC,  # the same, and ligatures, full-width letters and the like as plain ones
    "lower": normalizers.Lowercase,
    "accents": lambda: normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "spaces": lambda: normalizers.Replace(Regex(r"\s+"), " "),
}


def normalizer(steps: str, key: str = "data.normalize") -> Normalizer:
    """``steps`` are names of the table, with spaces between them; ``key`` says where they stand."""
    return normalizers.Sequence([choose(NORMALIZERS, name, key)() for name in steps.split()])
