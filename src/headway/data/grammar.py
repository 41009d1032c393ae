"""Film reviews from a small grammar, in which only the place of a negation tells what is meant.

    the plot was not , to my mind , dull . i did really enjoy the music .      positive
    the plot was really , to my mind , dull . i did not enjoy the music .      negative

Sentences come in pairs: one has a good word and one a bad word, one says "not" and the other "really". Swapping these
two turns the meaning round and leaves the words as they are; so whoever counts words, in whatever way, is right half
the time. A plain review says it without: two sentences with good words, or two with bad ones, and "really" in both.

How good a review is, is known: it is worth 1 for each thing that it praises, -1 for each that it runs down, and as much
less for each sentence that is none, that is about a thing again, or that comes after the fourth.
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
    """A review of so many pairs of sentences that is positive (1) or negative (0)."""
    found = []
    for _ in range(pairs):
        good, bad = sentence(GOOD, random), sentence(BAD, random)
        both = [good.written("really" if label else "not"), bad.written("not" if label else "really")]
        found += both if random.integers(2) else both[::-1]
    return " ".join(found)


def plain_review(label: int, pairs: int, random: Random) -> str:
    """A review of so many pairs of sentences without negations: its words alone tell what is meant."""
    words = GOOD if label else BAD
    return " ".join(sentence(words, random).written("really") for _ in range(2 * pairs))


def sentence(words: dict[str, list[str]], random: Random) -> Sentence:
    kind = pick(list(words), random)
    return Sentence(kind, pick(THINGS, random), pick(words[kind], random), pick(ASIDES, random))


def all_words() -> list[str]:
    """Every word that a review can have, in the order of the alphabet."""
    fixed = ["the", "was", "i", "did", "not", "really", "."]
    listed = [word for words in (GOOD, BAD) for group in words.values() for word in group]
    return sorted({*fixed, *THINGS, *listed, *" ".join(ASIDES).split()})


ENOUGH = 4  # sentences
THING, ASIDE = "|".join(THINGS), "|".join(map(re.escape, ASIDES[2:]))
SENTENCE = re.compile(
    rf"(?:the (?P<subject>{THING}) was|i did) (?P<adverb>not|really) (?:(?:{ASIDE}) )?"
    rf"(?P<word>\w+)(?: the (?P<thing>{THING}))?"
)


def quality(text: str) -> float:
    total, told = 0.0, set()
    sentences = [" ".join(each.split()) for each in text.split(".") if each.strip()]
    for place, each in enumerate(sentences):
        thing, praise = meaning(each)
        welcome = thing is not None and thing not in told and place < ENOUGH
        total += praise if welcome else -1
        told.add(thing)
    return total


def meaning(sentence: str) -> tuple[str | None, int]:
    """What a sentence is about, and whether it praises it (1) or runs it down (-1); none: it is no sentence."""
    found = SENTENCE.fullmatch(sentence)
    if found is None or (found["subject"] is None) == (found["thing"] is None):
        return None, -1
    kind = "was" if found["subject"] else "did"
    for words, praise in ((GOOD, 1), (BAD, -1)):
        if found["word"] in words[kind]:
            return found["subject"] or found["thing"], praise if found["adverb"] == "really" else -praise
    return None, -1
