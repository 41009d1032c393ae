"""Words: the tokenizer, and how many of them each token of any tokenizer begins.

A word is what stands between white space. An end of a line counts as one, as in published perplexities: it is the token
<eos> there.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Core
from torch import Tensor

from headway.text.vocabulary import SPECIALS, UNKNOWN

LINE_END, EOS = "\n", "<eos>"
SPACE = b" \t\r\n\x0b\x0c"
SPLITS = ("signs", "space")


def word(
    texts: Iterable[str],
    core: Core,
    size: int,
    least_count: int,
    signs: bool = True,
    lines: bool = False,
    split: str = "signs",
) -> Core:
    """Without ``signs``, punctuation is ignored; with ``lines``, line ends are tokens. ``split="space"`` is for texts
    that are cut at spaces already: ``'s`` and ``<unk>`` stay one token, and an end of a line is <eos>."""
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is neither 'signs' nor 'space'")
    if split == "space":
        return at_spaces(texts, core, size, least_count)
    core.model = models.WordLevel({}, UNKNOWN)
    pattern = r"\w+(?:['’]\w+)*" + (r"|[^\w\s]" if signs else "") + (rf"|{LINE_END}" if lines else "")
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    trainer = trainers.WordLevelTrainer(
        vocab_size=size + len(SPECIALS), min_frequency=least_count, special_tokens=list(SPECIALS), show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    if lines and core.token_to_id(LINE_END) is None:  # too rare, but needed
        known = core.get_vocab()
        core.model = models.WordLevel(known | {LINE_END: len(known)}, UNKNOWN)
    return core


def at_spaces(texts: Iterable[str], core: Core, size: int, least_count: int) -> Core:
    """The library's trainer would count <unk> and <eos> as new words."""
    steps = [core.normalizer] if core.normalizer is not None else []
    core.normalizer = normalizers.Sequence([*steps, normalizers.Replace(LINE_END, f" {EOS} ")])
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(core.normalizer.normalize_str(text).split())
    ranked = sorted(counts.keys() - set(SPECIALS), key=lambda word: (-counts[word], word))
    known = [word for word in ranked if counts[word] >= least_count][:size]
    core.model = models.WordLevel({word: number for number, word in enumerate([*SPECIALS, *known])}, UNKNOWN)
    return core


def ends_lines(core: Core) -> bool:
    """Whether <eos> stands for the end of a line."""
    return isinstance(core.model, models.WordLevel) and f" {EOS} " in repr(core.normalizer)


@dataclass(frozen=True)
class WordCounts:
    """(V,) each, by token: the words that begin within it, those at its start if there is space before it, and whether
    it leaves space behind."""

    within: Tensor
    at_start: Tensor
    leaves_space: Tensor

    @classmethod
    def of(
        cls, pieces: Iterable[bytes], is_special: Iterable[bool], is_unknown: Iterable[bool], whole: bool
    ) -> "WordCounts":
        """``whole``: each token is a word. Unknown tokens are parts of words, and other special ones are words of their
        own."""
        rows = [
            (1, False, True) if whole or (special and not unknown) else (0, True, False) if special else counted(piece)
            for piece, special, unknown in zip(pieces, is_special, is_unknown, strict=True)
        ]
        within, at_start, leaves_space = zip(*rows, strict=True)
        return cls(torch.tensor(within), torch.tensor(at_start), torch.tensor(leaves_space))

    def begun(self, before: Tensor, tokens: Tensor) -> Tensor:
        """How many words the tokens begin, each of which stands behind the token ``before`` it."""
        within, at_start, leaves_space = (
            each.to(tokens.device) for each in (self.within, self.at_start, self.leaves_space)
        )
        return within[tokens] + (at_start[tokens] & leaves_space[before])


def counted(piece: bytes) -> tuple[int, bool, bool]:
    is_space = [byte in SPACE for byte in piece]
    begins = sum(before and not here for before, here in pairwise(is_space))
    return begins + piece.count(b"\n"), bool(piece) and not is_space[0], bool(piece) and is_space[-1]
