"""Film reviews from a small grammar, in which only the place of a negation tells what is meant.

    the plot was not , to my mind , dull . i did really enjoy the music .      positive
    the plot was really , to my mind , dull . i did not enjoy the music .      negative

Sentences come in pairs: one has a good word and one a bad word, one says "not" and the other "really". Swapping these
two turns the meaning round and leaves the words as they are; so whoever counts words, in whatever way, is right half
the time. A plain review says it without: two sentences with good words, or two with bad ones, and "really" in both.
"""

from typing import NamedTuple

from headway.data.synthetic import Random, pick

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
