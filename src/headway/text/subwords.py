"""Subwords over characters, for texts in many languages.

- char_bpe: byte-pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909) from characters on; rare
  characters are spelled in bytes, so that nothing is ever unknown
- unigram: the pieces with which the texts are most likely (Kudo 2018, https://arxiv.org/abs/1804.10959); rare
  characters are spelled in bytes

A piece is written as it stands in a text, with the space before a word and with no sign in its place, so that decoding
gives every text back exactly. Vowel signs and other marks belong to words, as do apostrophes within them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Core

from headway.text.vocabulary import SPECIALS, UNKNOWN

BYTE_TOKENS = [f"<0x{number:02X}>" for number in range(256)]
COVERAGE = 0.9995  # as in SentencePiece
LETTERS = r"[\p{L}\p{M}\x{200C}\x{200D}]"  # with marks, and joiners within a word
WORDS = Regex(
    rf" ?{LETTERS}+(?:['’]{LETTERS}+)*| ?\p{{N}}+| ?[^\s\p{{L}}\p{{M}}\p{{N}}\x{{200C}}\x{{200D}}]+|\s+(?!\S)|\s+"
)
PENALTY = 1e-4  # what the library takes off the least score for each character that it added at the end
DIGITS = 6  # of a score; later ones depend on the order in which the library adds numbers up


def char_bpe(texts: Iterable[str], core: Core, size: int, least_count: int, coverage: float = COVERAGE) -> Core:
    room = max(size - len(BYTE_TOKENS), 0)
    trainer = trainers.BpeTrainer(vocab_size=room, min_frequency=least_count, show_progress=False)
    model = trained(models.BPE(), trainer, known_parts(texts, core, room, least_count, coverage))
    symbols = [*SPECIALS, *BYTE_TOKENS, *sorted(model["vocab"], key=model["vocab"].__getitem__)]
    core.model = models.BPE(
        {symbol: number for number, symbol in enumerate(symbols)},
        [(left, right) for left, right in model["merges"]],
        unk_token=UNKNOWN,
        byte_fallback=True,
    )
    return with_spaces(core)


def unigram(texts: Iterable[str], core: Core, size: int, least_count: int, coverage: float = COVERAGE) -> Core:
    room = max(size - len(BYTE_TOKENS), 0)
    trainer = trainers.UnigramTrainer(
        vocab_size=room + 1, unk_token=UNKNOWN, special_tokens=[UNKNOWN], show_progress=False
    )
    model = trained(models.Unigram(), trainer, known_parts(texts, core, room, least_count, coverage))
    scores = {piece: score for piece, score in model["vocab"] if piece != UNKNOWN}
    fixed = dict.fromkeys([*SPECIALS, *BYTE_TOKENS], 0.0)  # no text has them as a piece
    core.model = models.Unigram(
        [*fixed.items(), *reproducible(scores)], unk_id=SPECIALS.index(UNKNOWN), byte_fallback=True
    )
    return with_spaces(core)


def with_spaces(core: Core) -> Core:
    core.pre_tokenizer = pre_tokenizers.Split(WORDS, "isolated")
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return core


def trained(model: models.Model, trainer: trainers.Trainer, texts: Iterable[str]) -> dict[str, Any]:
    """The model as JSON."""
    core = Core(model)
    core.pre_tokenizer = pre_tokenizers.Split(WORDS, "isolated")
    core.train_from_iterator(texts, trainer)
    tree: dict[str, Any] = json.loads(core.to_str())
    return tree["model"]


def known_parts(texts: Iterable[str], core: Core, room: int, least_count: int, coverage: float) -> Iterator[str]:
    """The normalised texts without their rarest characters, between which each part stands for itself."""
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage={coverage} is not a share above 0, at most 1")
    again = list(texts) if isinstance(texts, Iterator) else texts  # they are read twice
    counts: Counter[str] = Counter()
    for text in again:
        counts.update(core.normalizer.normalize_str(text))
    known = frequent(counts, room, least_count, coverage)
    rare = re.compile(f"[^{re.escape(''.join(known))}]+") if known else re.compile(r"(?s:.+)")
    for text in again:
        yield from filter(None, rare.split(core.normalizer.normalize_str(text)))


def frequent(counts: Counter[str], room: int, least_count: int, coverage: float) -> list[str]:
    """The most frequent characters: as many as make up this share of all."""
    left, known = coverage * counts.total(), []
    for character in sorted(counts, key=lambda each: (-counts[each], each))[:room]:
        if left <= 0 or counts[character] < least_count:
            break
        left -= counts[character]
        known.append(character)
    return known


def reproducible(scores: dict[str, float]) -> list[tuple[str, float]]:
    """From the most probable piece on. The library adds up numbers in an order that differs from process to process,
    and ends with characters that are no piece yet, each a little less than the last, in such an order as well: those
    get the least score."""
    least = min(scores.values(), default=0.0)
    added = least + PENALTY * sum(len(piece) == 1 for piece in scores)
    scores = {
        piece: round(least if len(piece) == 1 and score <= added else score, DIGITS) for piece, score in scores.items()
    }
    return sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
