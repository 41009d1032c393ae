"""Tokenizers: normalise a text, then split it into characters, bytes, words or subwords, each with an id.

All of them are built with the ``tokenizers`` library, which encodes many texts in parallel, and are saved as one
``tokenizer.json``, which other tools read too.

- char: characters
- byte: the bytes of the text in UTF-8; nothing is ever unknown
- word: words and punctuation; rare ones become ``<unk>``; see text/words
- bpe: byte-pair encoding, which repeatedly merges the most frequent pair of neighbours (Sennrich et al. 2016,
  https://arxiv.org/abs/1508.07909), starting from bytes, so that nothing is ever unknown
- char_bpe, unigram: see text/subwords

A recipe names the normalisation steps in order: ``"html nfkc lower"``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Core
from tokenizers.decoders import ByteLevel as JoinBytes
from tokenizers.decoders import Fuse
from tokenizers.normalizers import Normalizer

from headway.config.errors import Problem, is_unicode
from headway.config.json_files import read_json, read_text
from headway.config.parts import choose, part
from headway.text.pieces import LONGEST, bounded, in_pieces
from headway.text.subwords import BYTE_TOKENS, char_bpe, unigram
from headway.text.vocabulary import SPECIALS, UNKNOWN, Vocabulary
from headway.text.words import WordCounts, ends_lines, word

UNASSIGNED = "\U0010fffe"  # a character that no text has
SPACE_SIGN = "▁"
SPACES = ("Ġ", "Ċ", "ĉ", "č", SPACE_SIGN, " ", "\n", "\t", "\r")  # word beginnings in different tokenizers
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
OTHER_BYTES = [number for number in range(256) if chr(number) not in BYTES]  # written as the characters from 256 on
IN_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


NORMALIZERS: dict[str, Callable[[], Normalizer]] = {
    "html": lambda: normalizers.Replace(Regex(r"</?[A-Za-z][^<>]*>"), " "),  # tags, such as <br />
    "nfc": normalizers.NFC,  # canonical composition
    "nfkc": normalizers.NFKC,  # also ligatures, full-width letters and the like as plain letters
    "lower": normalizers.Lowercase,
    "accents": lambda: normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "spaces": lambda: normalizers.Replace(Regex(r"\s+"), " "),
}


def normalizer(steps: str, key: str = "data.normalize") -> Normalizer:
    """``steps`` are names from the table, separated by spaces; ``key`` is the setting, for error messages."""
    return normalizers.Sequence([choose(NORMALIZERS, name, key)() for name in steps.split()])


def char(texts: Iterable[str], core: Core, size: int, least_count: int) -> Core:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(core.normalizer.normalize_str(text))
    known = [symbol for symbol, count in counts.most_common(size) if count >= least_count]
    return with_symbols(core, known)


def byte(texts: Iterable[str], core: Core) -> Core:
    with_symbols(core, BYTES)
    core.pre_tokenizer = IN_BYTES
    core.decoder = JoinBytes()
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
    """A fixed set of characters: BPE without merges."""
    core.model = models.BPE(
        {symbol: number for number, symbol in enumerate([*SPECIALS, *symbols])}, [], unk_token=UNKNOWN
    )
    core.decoder = Fuse()
    return core


MOST = 10_000_000  # tokens of a vocabulary, or occurrences of one
REVERSIBLE: dict[str, Callable[..., Core]] = {  # those that keep every character, for models that write texts
    "char": char,
    "byte": byte,
    "bpe": bpe,
    "char_bpe": char_bpe,
    "unigram": unigram,
}
TOKENIZERS: dict[str, Callable[..., Core]] = {"word": word, **REVERSIBLE}


class Tokenizer:
    def __init__(self, core: Core, roles: Mapping[str, str] | None = None):
        """``roles`` maps our special tokens to those of an imported tokenizer."""
        self.core, self.roles = core, roles
        core.encode_special_tokens = True  # "<pad>" in a text is plain text
        numbers = core.get_vocab()
        symbols = sorted(numbers, key=numbers.__getitem__)
        if roles is not None:
            self.vocabulary = Vocabulary(symbols, (), roles)
        elif tuple(symbols[: len(SPECIALS)]) == SPECIALS:
            self.vocabulary = Vocabulary(symbols[len(SPECIALS) :])
        else:
            raise Problem(f"the first tokens of the tokenizer are not {' '.join(SPECIALS)}")

    @classmethod
    def learn(cls, kind: str, texts: Iterable[str], normalize: str, size: int, least_count: int) -> "Tokenizer":
        """Train a tokenizer on texts: up to ``size`` tokens, each occurring at least ``least_count`` times. Some kinds
        read the texts twice, and an iterator is kept in memory for it."""
        for number, what in ((size, "tokens"), (least_count, "occurrences of each token")):
            if number > MOST:  # the library would abort the process
                raise Problem(f"{number:,} {what} are too many for a tokenizer: at most {MOST:,}")
        core = Core(models.WordLevel({}, UNKNOWN))
        core.normalizer = normalizer(normalize)
        sizes: dict[str, Any] = {"size": size, "least_count": least_count}
        learned = part(TOKENIZERS, kind, "data.tokenizer", texts=in_pieces(texts), core=core, **sizes)
        learned.add_special_tokens(list(SPECIALS))
        return cls(learned)

    @classmethod
    def of_words(cls, words: Sequence[str]) -> "Tokenizer":
        """A tokenizer with a fixed vocabulary of words, separated by spaces."""
        core = Core(models.WordLevel({word: number for number, word in enumerate([*SPECIALS, *words])}, UNKNOWN))
        core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        core.add_special_tokens(list(SPECIALS))
        return cls(core)

    def with_special(self, symbols: Sequence[str]) -> "Tokenizer":
        """The same, with more special tokens, which no text contains."""
        core = Core.from_str(self.core.to_str())
        core.add_special_tokens(list(symbols))
        return Tokenizer(core, self.roles)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        beside = path.with_name(f"{path.stem}-roles.json")
        roles = read_json(beside, {str: str}) if beside.exists() else None
        core = read_core(path)
        try:
            return cls(core, roles)
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from None

    def save(self, path: Path) -> None:
        path.write_text(self.to_json(), encoding="utf-8")
        if self.roles is not None:
            roles = json.dumps(dict(self.roles), ensure_ascii=False, indent=1)
            path.with_name(f"{path.stem}-roles.json").write_text(roles, encoding="utf-8")

    def to_json(self) -> str:
        return json.dumps(json.loads(self.core.to_str()), ensure_ascii=False, indent=1)

    def __repr__(self) -> str:
        return f"<Tokenizer of {len(self):,} tokens>"

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The token ids of each text."""
        if max(map(len, texts), default=0) > LONGEST:
            return [np.concatenate([self.encode([piece])[0] for piece in bounded(text)]) for text in texts]
        try:
            encoded = self.core.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:  # what a lone surrogate gets
            number = next((number for number, text in enumerate(texts, start=1) if not is_unicode(text)), None)
            if number is None:
                raise
            raise Problem(f"text {number} is not valid UTF-8: it has a broken character") from None
        return [np.array(each.ids, dtype=np.int64) for each in encoded]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of these token ids, without special tokens."""
        return self.core.decode(self.with_whole_characters(tokens), skip_special_tokens=True)

    def with_whole_characters(self, tokens: Sequence[int]) -> list[int]:
        """With tokens that stand for bytes replaced where these are no characters. The library would give up all bytes
        in a row because of one."""
        bytes_of = self.fallback_bytes
        if not bytes_of:
            return list(tokens)
        tokens_of = {byte: token for token, byte in bytes_of.items()}
        mended: list[int] = []
        for are_bytes, group in groupby((each for each in tokens if not self.is_special[each]), bytes_of.__contains__):
            run = list(group)
            if are_bytes:
                text = bytes(bytes_of[token] for token in run).decode("utf-8", "replace")
                run = [tokens_of[byte] for byte in text.encode()]
            mended += run
        return mended

    @cached_property
    def fallback_bytes(self) -> dict[int, int]:
        """The bytes that unknown characters are spelled in, by their tokens; empty without byte fallback."""
        has_fallback = "ByteFallback" in repr(self.core.decoder) and self.vocabulary.index.keys() >= set(BYTE_TOKENS)
        return {self.vocabulary.index[token]: byte for byte, token in enumerate(BYTE_TOKENS)} if has_fallback else {}

    @cached_property
    def byte_sizes(self) -> np.ndarray:
        """(V,): the number of UTF-8 bytes of text that each token stands for; 0 for special tokens."""
        return np.array([len(piece) for piece in self.pieces])

    @cached_property
    def character_sizes(self) -> np.ndarray:
        """(V,): the number of characters that begin in each token; 0 for special tokens."""
        return np.array([sum(not 0x80 <= byte < 0xC0 for byte in piece) for piece in self.pieces])

    @cached_property
    def word_counts(self) -> WordCounts:
        """How many words each token begins."""
        whole = isinstance(self.core.model, models.WordLevel)
        return WordCounts.of(self.pieces, self.is_special, self.is_unknown, whole)

    @cached_property
    def ends_lines(self) -> bool:
        """Whether <eos> stands for the end of a line, too."""
        return ends_lines(self.core)

    @cached_property
    def is_partial(self) -> np.ndarray:
        """(V,): whether a token is no whole character, but bytes that unknown or rare characters are spelled in."""
        partial = np.array([not is_text(piece) for piece in self.pieces])
        partial[list(self.fallback_bytes)] = True
        return partial

    @cached_property
    def pieces(self) -> list[bytes]:
        """The bytes of text that each token stands for; none for special tokens."""
        in_bytes = isinstance(self.core.decoder, JoinBytes)  # each byte is written as one character
        is_piece = isinstance(self.core.model, models.WordPiece)
        has_space_signs = SPACE_SIGN in f"{self.core.normalizer!r}{self.core.pre_tokenizer!r}{self.core.decoder!r}"

        def piece_of(number: int, symbol: str) -> bytes:
            if self.is_special[number]:
                return b""
            if number in self.fallback_bytes:
                return bytes([self.fallback_bytes[number]])
            if in_bytes and set(symbol) <= set(BYTES):
                return bytes(ord(each) if ord(each) < 256 else OTHER_BYTES[ord(each) - 256] for each in symbol)
            text = symbol.removeprefix("##") if is_piece else symbol
            return (text.replace(SPACE_SIGN, " ") if has_space_signs else text).encode()

        return [piece_of(number, symbol) for number, symbol in enumerate(self.vocabulary.symbols)]

    @cached_property
    def is_special(self) -> np.ndarray:
        """(V,): whether a token is a special token."""
        added = self.core.get_added_tokens_decoder()
        return np.array([number in added and added[number].special for number in range(len(self))])

    @cached_property
    def is_unknown(self) -> np.ndarray:
        """(V,): whether a token stands for what the tokenizer does not know."""
        names = {UNKNOWN, "[UNK]", json.loads(self.core.to_str())["model"].get("unk_token")}
        return np.array([symbol in names for symbol in self.vocabulary.symbols])

    @cached_property
    def has_leading_spaces(self) -> bool:
        """Whether tokens include the space before a word, as in BPE."""
        return any(len(symbol) > 1 and symbol[0] in "Ġ▁ " for symbol in self.vocabulary.symbols)

    @cached_property
    def begins_word(self) -> np.ndarray:
        """(V,): whether a token starts a word."""
        if isinstance(self.core.model, models.WordLevel):
            return np.ones(len(self), bool)
        if isinstance(self.core.model, models.WordPiece):
            return np.array([not symbol.startswith("##") for symbol in self.vocabulary.symbols])
        return np.array([symbol.startswith(SPACES) for symbol in self.vocabulary.symbols])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The start and end of each token in the text, in characters."""
        spans: list[tuple[int, int]] = []
        for (start, end), group in groupby(self.core.encode(text, add_special_tokens=False).offsets):
            of_bytes = [(place, place + 1) for place in range(start, end) for _ in text[place].encode()]
            same = list(group)  # bytes of several unknown characters have one span
            spans += of_bytes if self.fallback_bytes and len(same) == len(of_bytes) else same
        return spans


def read_core(path: Path) -> Core:
    """The tokenizer of a ``tokenizer.json``."""
    try:
        core = Core.from_str(read_text(path))
        core.encode(UNASSIGNED)  # fails if the token for what is unknown is missing
        return core
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises nothing more specific; a panic of its Rust is no Exception
        raise Problem(f"{path} is not a tokenizer: {error}") from None


def is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
