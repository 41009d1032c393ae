"""Framings: what a model reads around a text, and where a long text is cut, as one ``tokenizer.json``.

Other programs that read such a file get the same tokens as headway from the same text: special tokens in front and
behind are added, a long text is cut, and a literal ``<unk>`` or ``[CLS]`` in a text is text.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Regex
from tokenizers import Tokenizer as Core
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split, WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import SPECIALS, UNKNOWN

DIRECTIONS = {"head": "right", "tail": "left"}  # from which the tokenizers library cuts


def of_symbols(symbols: Sequence[str], are_words: bool) -> Tokenizer:
    """A tokenizer with a fixed vocabulary, special tokens included, of words or of characters. It knows no others."""
    core = Core(WordLevel({symbol: number for number, symbol in enumerate(symbols)}, UNKNOWN))
    core.pre_tokenizer = WhitespaceSplit() if are_words else Split(Regex(r"[\s\S]"), "isolated")
    if not are_words:
        core.decoder = Fuse()
    special = {symbol: symbol for symbol in symbols if symbol in SPECIALS}
    core.add_special_tokens(list(special))
    return Tokenizer(core, special)


class Framing(NamedTuple):
    tokenizer: Tokenizer
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    longest: int | None = None  # tokens, with the first and the last ones; None: unlimited
    writes: bool = False  # whether it only turns tokens into text: its special tokens are left out there
    keep: str = "head"  # which end of a longer text is kept; "both": a tokenizer.json cannot say so

    def core(self) -> Core:
        """The tokenizer without its special tokens, which no text contains; they are only added around it."""
        content = json.loads(self.tokenizer.core.to_str())
        if not self.writes:
            special = self.tokenizer.is_special
            content["added_tokens"] = [each for each in content["added_tokens"] if not special[each["id"]]]
        content["post_processor"] = content["truncation"] = content["padding"] = None
        core = Core.from_str(json.dumps(content))
        symbols = self.tokenizer.vocabulary.symbols
        if self.first or self.last:
            names = [*(symbols[token] for token in self.first), "$A", *(symbols[token] for token in self.last)]
            around = {symbols[token]: token for token in (*self.first, *self.last)}
            core.post_processor = TemplateProcessing(single=names, special_tokens=list(around.items()))
        if self.longest is not None and self.keep in DIRECTIONS:
            core.enable_truncation(self.longest, direction=DIRECTIONS[self.keep])
        return core

    def to_json(self) -> str:
        return json.dumps(json.loads(self.core().to_str()), ensure_ascii=False, indent=1)

    @property
    def special(self) -> dict[str, int]:
        """The special tokens by name."""
        symbols, special = self.tokenizer.vocabulary.symbols, self.tokenizer.is_special
        return {symbol: token for token, symbol in enumerate(symbols) if special[token]}
