"""What a model answers in one go, apart from writing: a job for each verb.

A job takes several requests that are alike, of which the texts are answered as one batch.
"""

import base64
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from headway.api.model import Model
from headway.tasks.abilities import Embeds, need

Ask = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Job:
    ability: str  # the method of a Model
    answer: Callable[[Model, Sequence[Ask]], list[Answer]]
    options: tuple[str, ...] = ()  # fields in which requests must agree to be answered together
    together: bool = True

    def kind(self, ask: Ask) -> Hashable:
        return tuple(ask[name] for name in self.options)


def shared_out(results: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """The results of all texts, to the requests that they are of."""
    rest = iter(results)
    return [list(islice(rest, size)) for size in sizes]


def texts_of(asks: Sequence[Ask], field: str = "texts") -> tuple[list[str], list[int]]:
    texts = [text for ask in asks for text in ask[field]]
    return texts, [len(ask[field]) for ask in asks]


def classify(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    texts, sizes = texts_of(asks)
    predictions = [vars(each) for each in model.predict(texts)]
    return [{"predictions": own} for own in shared_out(predictions, sizes)]


def embed(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    texts, sizes = texts_of(asks)
    task = need(model.run.task, Embeds)
    vectors = model.embed(texts).astype("<f4")
    answers = []
    for own in shared_out(list(zip(texts, vectors, strict=True)), sizes):
        encoded = [base64.b64encode(np.ascontiguousarray(vector).tobytes()).decode() for _, vector in own]
        answers.append({"vectors": encoded, "tokens": sum(len(task.tokens_in(text)) for text, _ in own)})
    return answers


def translate(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    texts, sizes = texts_of(asks)
    options = {name: asks[0][name] for name in TRANSLATE}
    translations = model.translate(texts, progress=False, **options)
    return [{"translations": own} for own in shared_out(translations, sizes)]


def fill(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    return [
        {"masks": [[each._asdict() for each in mask] for mask in model.fill(ask["text"], top=ask["top"])]}
        for ask in asks
    ]


def reward(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    answers, sizes = texts_of(asks, "answers")
    prompts, _ = texts_of(asks, "prompts")
    return [{"rewards": own} for own in shared_out(model.rate(prompts, answers), sizes)]


def explain(model: Model, asks: Sequence[Ask]) -> list[Answer]:
    return [asdict(model.explain(ask["text"])) for ask in asks]


TRANSLATE = ("num_beams", "length_penalty", "to")
JOBS = {
    "classify": Job("predict", classify),
    "embed": Job("embed", embed),
    "translate": Job("translate", translate, TRANSLATE),
    "fill": Job("fill", fill, together=False),
    "reward": Job("rate", reward),
    "explain": Job("explain", explain, together=False),
}
