"""Tokenizers: a text becomes characters, bytes, words, or pieces of words, each with a number.

All of them are tokenizers of the ``tokenizers`` library, which encodes many texts at once on all cores, and are saved
as one ``tokenizer.json``, which other tools read.

- char: each character
- byte: each byte of the text in UTF-8; nothing is ever unknown
- word: words and single signs; rare ones become ``<unk>``
- bpe: pairs of neighbours that are frequent become one piece, over and over (Sennrich et al. 2016,
  https://arxiv.org/abs/1508.07909), from bytes upwards, so that nothing is ever unknown
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Core
from tokenizers.decoders import ByteLevel as JoinBytes
from tokenizers.decoders import Fuse

from headway.config.errors import Problem
from headway.config.parts import part
from headway.text.normalize import normalizer
from headway.text.vocabulary import SPECIALS, Vocabulary

UNKNOWN, LINE_END = "<unk>", "\n"
SPACES = ("Ġ", "Ċ", "ĉ", "č", "▁", " ", "\n", "\t", "\r")  # with which words begin, as different tokenizers write them
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def char(texts: Iterable[str], core: Core, size: int, least_count: int) -> Core:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(core.normalizer.normalize_str(text))
    known = [symbol for symbol, count in counts.most_common(size) if count >= least_count]
    return with_symbols(core, known)


def byte(texts: Iterable[str], core: Core) -> Core:
    with_symbols(core, BYTES)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = JoinBytes()
    return core


def word(
    texts: Iterable[str], core: Core, size: int, least_count: int, signs: bool = True, lines: bool = False
) -> Core:
    """Without ``signs``, only letters and digits count; with ``lines``, the end of a line is a token, too."""
    core.model = models.WordLevel({}, UNKNOWN)
    pattern = r"\w+(?:['’]\w+)*" + (r"|[^\w\s]" if signs else "") + (rf"|{LINE_END}" if lines else "")
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    trainer = trainers.WordLevelTrainer(
        vocab_size=size + len(SPECIALS), min_frequency=least_count, special_tokens=list(SPECIALS), show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    if lines and core.token_to_id(LINE_END) is None:  # however rare it is
        known = core.get_vocab()
        core.model = models.WordLevel(known | {LINE_END: len(known)}, UNKNOWN)
    return core


def bpe(texts: Iterable[str], core: Core, size: int, least_count: int) -> Core:
    core.model = models.BPE()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = JoinBytes()
    trainer = trainers.BpeTrainer(
        vocab_size=size + len(SPECIALS),
        min_frequency=least_count,
        special_tokens=list(SPECIALS),
        initial_alphabet=BYTES,
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return core


def with_symbols(core: Core, symbols: Sequence[str]) -> Core:
    """A fixed set of single characters: pairs that are never joined."""
    core.model = models.BPE(
        {symbol: number for number, symbol in enumerate([*SPECIALS, *symbols])}, [], unk_token=UNKNOWN
    )
    core.decoder = Fuse()
    return core


TOKENIZERS: dict[str, Callable[..., Core]] = {"char": char, "byte": byte, "word": word, "bpe": bpe}


class Tokenizer:
    def __init__(self, core: Core, roles: Mapping[str, str] | None = None):
        """One of another library has ``roles``: which of its symbols stand for our special ones."""
        self.core, self.roles = core, roles
        core.encode_special_tokens = True  # "<pad>" in somebody's text is a text like any other
        numbers = core.get_vocab()
        symbols = sorted(numbers, key=numbers.__getitem__)
        if roles is not None:
            self.vocabulary = Vocabulary(symbols, (), roles)
        elif tuple(symbols[: len(SPECIALS)]) == SPECIALS:
            self.vocabulary = Vocabulary(symbols[len(SPECIALS) :])
        else:
            raise Problem(f"the tokenizer's first symbols are not {' '.join(SPECIALS)}")

    @classmethod
    def learn(cls, kind: str, texts: Iterable[str], normalize: str, size: int, least_count: int) -> "Tokenizer":
        """Of this kind: it knows the ``size`` most frequent symbols of the texts, if they come often enough."""
        core = Core(models.WordLevel({}, UNKNOWN))
        core.normalizer = normalizer(normalize)
        sizes: dict[str, Any] = {"size": size, "least_count": least_count}
        learned = part(TOKENIZERS, kind, "data.tokenizer", texts=texts, core=core, **sizes)
        learned.add_special_tokens(list(SPECIALS))
        return cls(learned)

    @classmethod
    def of_words(cls, words: Sequence[str]) -> "Tokenizer":
        """Of a few words that are known, with spaces between them."""
        core = Core(models.WordLevel({word: number for number, word in enumerate([*SPECIALS, *words])}, UNKNOWN))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        core.add_special_tokens(list(SPECIALS))
        return cls(core)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        beside = path.with_name(f"{path.stem}-roles.json")
        try:
            roles = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else None
            return cls(Core.from_str(path.read_text(encoding="utf-8")), roles)
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from None
        except Exception as error:  # the library raises nothing more particular
            raise Problem(f"{path} is not a tokenizer: {error}") from None

    def save(self, path: Path) -> None:
        path.write_text(self.to_json(), encoding="utf-8")
        if self.roles is not None:
            roles = json.dumps(dict(self.roles), ensure_ascii=False, indent=1)
            path.with_name(f"{path.stem}-roles.json").write_text(roles, encoding="utf-8")

    def to_json(self) -> str:
        return json.dumps(json.loads(self.core.to_str()), ensure_ascii=False, indent=1)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The numbers of each text's symbols."""
        encoded = self.core.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(each.ids, dtype=np.int64) for each in encoded]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text that these numbers stand for, without special symbols."""
        return self.core.decode(list(tokens), skip_special_tokens=True)

    @cached_property
    def byte_sizes(self) -> np.ndarray:
        """(V,): how many bytes of text, in UTF-8, each symbol stands for; special ones stand for none."""
        # Where symbols are made of bytes, each byte is written as one character.
        in_bytes = isinstance(self.core.decoder, JoinBytes)
        sizes = [len(symbol) if in_bytes else size_of(symbol) for symbol in self.vocabulary.symbols]
        return np.where(self.is_special, 0, sizes)

    @cached_property
    def is_special(self) -> np.ndarray:
        """(V,): whether a symbol stands for no text."""
        added = self.core.get_added_tokens_decoder()
        return np.array([number in added and added[number].special for number in range(len(self))])

    @cached_property
    def begins_word(self) -> np.ndarray:
        """(V,): whether a symbol is the first of a word, or all of it."""
        if isinstance(self.core.model, models.WordLevel):
            return np.ones(len(self), bool)
        if isinstance(self.core.model, models.WordPiece):
            return np.array([not symbol.startswith("##") for symbol in self.vocabulary.symbols])
        return np.array([symbol.startswith(SPACES) for symbol in self.vocabulary.symbols])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where in the text each symbol stands: its first character, and the one after its last."""
        return self.core.encode(text, add_special_tokens=False).offsets


def size_of(symbol: str) -> int:
    """In bytes of text: of pieces that are written otherwise than they stand there, too."""
    if len(symbol) == 6 and symbol.startswith("<0x"):  # a single byte
        return 1
    return len(symbol.replace("▁", " ").removeprefix("##").encode())
