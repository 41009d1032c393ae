"""Extending a tokenizer: new pieces, learned from other texts, behind those that it has.

- characters and words: those of the texts that it does not know
- byte-pair encoding: the words of the texts, as the tokenizer splits them, are merged further; where it does not know a
  character, that comes first

Old pieces keep their ids, and a text in which no new piece occurs is tokenized as before: the new merges come after all
old ones, and none of them makes an old piece.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers, trainers
from tokenizers.decoders import ByteLevel as JoinBytes

from headway.config.errors import Problem
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import SPECIALS, UNKNOWN

FIRST = 0x10000  # the character that stands for piece 0 in words of pieces; neither it nor any behind it is a space
Merge = tuple[str, str]


def extend(tokenizer: Tokenizer, texts: Iterable[str], size: int, least_count: int = 1) -> Tokenizer:
    """The tokenizer with up to ``size`` new pieces, each of which occurs at least ``least_count`` times."""
    core = tokenizer.core
    refuse_fixed(core)
    words = Counter(word for text in texts for word in words_of(core, text))
    symbols = words if isinstance(core.model, models.WordLevel) else characters_of(words)
    unknown = [
        symbol
        for symbol, count in symbols.most_common()
        if count >= least_count and symbol not in tokenizer.vocabulary.index
    ]
    core = with_pieces(core, unknown[:size])
    if has_merges(core):
        room = size + len(tokenizer) - core.get_vocab_size()
        merges = learn_merges(core, words, room, least_count)
        core = with_pieces(core, list(dict.fromkeys(map("".join, merges))), merges)
    return Tokenizer(core, tokenizer.roles)


def spellings(tokenizer: Tokenizer, extended: Tokenizer) -> list[list[int]]:
    """For each new piece, the ids of the old ones that spell it."""
    unknown = tokenizer.vocabulary.index[UNKNOWN]
    symbols = extended.vocabulary.symbols[len(tokenizer) :]
    return [[token.id for token in tokenizer.core.model.tokenize(symbol)] or [unknown] for symbol in symbols]


def refuse_fixed(core: Core) -> None:
    if isinstance(core.model, models.BPE) and not has_merges(core) and isinstance(core.decoder, JoinBytes):
        raise Problem("the tokenizer splits texts into bytes, and knows all of them")
    marks = core.model.continuing_subword_prefix or core.model.end_of_word_suffix if has_merges(core) else None
    if marks or not isinstance(core.model, models.BPE | models.WordLevel):
        kind = "BPE that marks pieces of words" if marks else type(core.model).__name__
        raise Problem(f"a tokenizer of the kind {kind} cannot be extended: only BPE, characters and words can")


def has_merges(core: Core) -> bool:
    return bool(json.loads(core.to_str())["model"].get("merges"))


def words_of(core: Core, text: str) -> list[str]:
    """What the tokenizer splits into pieces, one by one."""
    if core.normalizer is not None:
        text = core.normalizer.normalize_str(text)
    return [text] if core.pre_tokenizer is None else [word for word, _ in core.pre_tokenizer.pre_tokenize_str(text)]


def characters_of(words: Mapping[str, int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return counts


def with_pieces(core: Core, symbols: Sequence[str], merges: Sequence[Merge] = ()) -> Core:
    tree = json.loads(core.to_str())
    first = core.get_vocab_size()
    tree["model"]["vocab"] |= {symbol: number for number, symbol in enumerate(symbols, start=first)}
    if merges:
        tree["model"]["merges"] += merges
    return Core.from_str(json.dumps(tree))


def learn_merges(core: Core, words: Mapping[str, int], size: int, least_count: int) -> list[Merge]:
    """Merges of neighbouring pieces, the most frequent pair first, that make up to ``size`` new pieces."""
    if size <= 0:
        return []
    known = core.get_vocab()
    learner = Core(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    alphabet = [chr(FIRST + number) for number in range(len(known))]
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + size, min_frequency=least_count, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(words_of_pieces(core, words), trainer)
    pieces = {chr(FIRST + number): symbol for symbol, number in known.items()}
    merges: list[Merge] = []
    for left, right in json.loads(learner.to_str())["model"]["merges"]:
        if left in pieces and right in pieces and pieces[left] + pieces[right] not in known:
            pieces[left + right] = pieces[left] + pieces[right]
            merges.append((pieces[left], pieces[right]))
    return merges


def words_of_pieces(core: Core, words: Mapping[str, int]) -> Iterator[str]:
    """Each word as often as it occurs, with a character for each piece. Bytes and what is unknown are never merged."""
    alone = {number for symbol, number in core.get_vocab().items() if symbol == UNKNOWN or is_byte(symbol)}
    for word, count in words.items():
        numbers = [token.id for token in core.model.tokenize(word)]
        for is_alone, group in groupby(numbers, alone.__contains__):
            if not is_alone:
                yield f"{''.join(chr(FIRST + number) for number in group)} " * count


def is_byte(symbol: str) -> bool:
    """Whether a piece is the byte of an unknown character, which a decoder reads as it stands."""
    return len(symbol) == 6 and symbol.startswith("<0x") and symbol.endswith(">")


def with_words(tokenizer: Tokenizer, words: Iterable[str], most: int) -> Tokenizer:
    """A tokenizer of words that also knows these, up to ``most`` in all, if a text can have them as one token."""
    if not isinstance(tokenizer.core.model, models.WordLevel):
        return tokenizer
    core = Core.from_str(tokenizer.core.to_str())
    vocabulary = core.get_vocab()
    room = most + len(SPECIALS)
    for word in words:
        if len(vocabulary) >= room:
            break
        if word not in vocabulary and is_one_token(core, word):
            vocabulary[word] = len(vocabulary)
    core.model = models.WordLevel(vocabulary, UNKNOWN)
    return Tokenizer(core, tokenizer.roles)


def is_one_token(core: Core, word: str) -> bool:
    """After normalization, without which no text has it."""
    normalized = core.normalizer.normalize_str(word) if core.normalizer is not None else word
    return normalized == word and [piece for piece, _ in core.pre_tokenizer.pre_tokenize_str(word)] == [word]
