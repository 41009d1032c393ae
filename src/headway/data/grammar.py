"""Film reviews from a small grammar, whose meaning depends on where the negation is.

    the plot was not , to my mind , dull . i did really enjoy the music .      positive
    the plot was really , to my mind , dull . i did not enjoy the music .      negative

Sentences come in pairs: one has a good word and one a bad word, one says "not" and the other "really". Swapping these
two reverses the meaning and leaves the words the same, so a model that counts words is right half the time. A plain
review has no negation: two sentences with good words, or two with bad ones, and "really" in both.

The quality of a review is known: 1 for each thing that it praises and -1 for each that it criticizes; -1 also for each
sentence that is not grammatical, repeats a thing, or comes after the fourth.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Random = np.random.Generator

THINGS = [
    "plot",
    "acting",
    "music",
    "story",
    "ending",
    "cast",
    "dialogue",
    "script",
    "pace",
    "camera",
    "hero",
    "villain",
]
GOOD = {
    "was": ["good", "great", "fine", "moving", "funny", "brilliant", "clever", "lovely"],
    "did": ["enjoy", "like", "love", "admire"],
}
BAD = {
    "was": ["bad", "dull", "weak", "boring", "awful", "stupid", "clumsy", "tired"],
    "did": ["hate", "regret", "dislike", "mind"],
}
ASIDES = ("", "", ", to my mind ,", ", as my friends had said ,", ", in the end ,", ", all in all ,", "on the whole")
LABELS = ["negative", "positive"]


def pick(choices: Sequence[str], random: Random) -> str:
    return choices[int(random.integers(len(choices)))]


class Sentence(NamedTuple):
    kind: str  # "was" or "did"
    thing: str
    word: str
    aside: str

    def written(self, adverb: str) -> str:
        start = f"the {self.thing} was" if self.kind == "was" else "i did"
        end = self.word if self.kind == "was" else f"{self.word} the {self.thing}"
        return " ".join(f"{start} {adverb} {self.aside} {end} .".split())


def review(label: int, pairs: int, random: Random) -> str:
    """A positive (1) or negative (0) review of this many pairs of sentences."""
    sentences = []
    for _ in range(pairs):
        good, bad = sentence(GOOD, random), sentence(BAD, random)
        both = [good.written("really" if label else "not"), bad.written("not" if label else "really")]
        sentences += both if random.integers(2) else both[::-1]
    return " ".join(sentences)


def plain_review(label: int, pairs: int, random: Random) -> str:
    """The same without negations: the words alone decide."""
    words = GOOD if label else BAD
    return " ".join(sentence(words, random).written("really") for _ in range(2 * pairs))


def sentence(words: dict[str, list[str]], random: Random) -> Sentence:
    kind = pick(list(words), random)
    return Sentence(kind, pick(THINGS, random), pick(words[kind], random), pick(ASIDES, random))


def all_words() -> list[str]:
    """Every word of the grammar, sorted."""
    fixed = ["the", "was", "i", "did", "not", "really", "."]
    listed = [word for words in (GOOD, BAD) for group in words.values() for word in group]
    return sorted({*fixed, *THINGS, *listed, *" ".join(ASIDES).split()})


MAX_SENTENCES = 4
THING, ASIDE = "|".join(THINGS), "|".join(map(re.escape, ASIDES[2:]))
SENTENCE = re.compile(
    rf"(?:the (?P<subject>{THING}) was|i did) (?P<adverb>not|really) (?:(?:{ASIDE}) )?"
    rf"(?P<word>\w+)(?: the (?P<thing>{THING}))?"
)


def quality(text: str) -> float:
    total, seen = 0.0, set()
    sentences = [" ".join(sentence.split()) for sentence in text.split(".") if sentence.strip()]
    for index, sentence in enumerate(sentences):
        thing, praise = meaning(sentence)
        counts = thing is not None and thing not in seen and index < MAX_SENTENCES
        total += praise if counts else -1
        seen.add(thing)
    return total


def meaning(sentence: str) -> tuple[str | None, int]:
    """What a sentence is about, and whether it praises it (1) or criticizes it (-1); None: not grammatical."""
    match = SENTENCE.fullmatch(sentence)
    if match is None or (match["subject"] is None) == (match["thing"] is None):
        return None, -1
    kind = "was" if match["subject"] else "did"
    for words, praise in ((GOOD, 1), (BAD, -1)):
        if match["word"] in words[kind]:
            return match["subject"] or match["thing"], praise if match["adverb"] == "really" else -praise
    return None, -1
