"""Bug hunts, with a paper for every learner's seed."""

from headway.learn.bugs import DEFAULT_BUGS
from headway.learn.exercise import Exercise
from headway.learn.hunting import BugHunt

TITLES = {
    "encoder": "an encoder",
    "loop": "a training loop",
    "decoding": "decoding functions",
    "rlhf": "RLHF losses",
}
HINTS = {
    "encoder": (
        "Which shapes and arguments does every part get, and what would each line do in the first Transformer?",
        "Go through sizes, then masks, residuals and norms, then what is looked up with what.",
    ),
    "loop": (
        "What happens to gradients, to dropout and to padding in each of the functions?",
        "Compare the order of the lines with a training loop that you trust.",
    ),
    "decoding": (
        "For each function: what comes out for two tokens that you make up?",
        "Look at the ends: which token stops, which one is returned, which ones are removed.",
    ),
    "rlhf": (
        "For each formula: which way should it push a probability?",
        "Check signs, masks and what is divided by what.",
    ),
}

EXERCISES: list[Exercise] = [
    BugHunt(
        id=f"bugs.{name}",
        title=f"{TITLES[name]} with {bugs} bugs",
        task="Mend the bugs, and mark the line of each with a comment at its end, # BUG: why.",
        hints=HINTS[name],
        hunt=name,
    )
    for name, bugs in DEFAULT_BUGS.items()
]
