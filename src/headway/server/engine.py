"""The work of the model process: requests come in, answers go out, and what arrives together is answered together."""

import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headway.api.model import Model
from headway.config.errors import Problem
from headway.generation.batching import Batcher, rows_within
from headway.generation.sampling import Sampling
from headway.generation.writing import Piece, Request
from headway.server.jobs import JOBS, Answer, Ask
from headway.server.limits import Limits
from headway.tasks.abilities import Chats, Generates, Translates, can, need

Message = dict[str, Any]
TOGETHER = 256  # texts of a batch
LATE = "late"


@dataclass
class Asked:
    """A request that waits for its answer in one go."""

    number: int
    model: str
    do: str
    ask: Ask
    deadline: float

    @property
    def size(self) -> int:
        return max(len(each) for each in [*(value for value in self.ask.values() if isinstance(value, list)), [""]])


@dataclass
class Written:
    """A request whose texts are being written."""

    model: str
    deadline: float
    open: set[int] = field(default_factory=set)  # indices of the texts


class Engine:
    def __init__(self, models: dict[str, Model], limits: Limits):
        self.models, self.limits = models, limits
        self.batchers = {name: self.batcher(model) for name, model in models.items() if "generate" in model.abilities}
        self.asked: deque[Asked] = deque()
        self.written: dict[int, Written] = {}

    def batcher(self, model: Model) -> Batcher:
        generator = model.generator()
        return Batcher(generator, rows_within(self.limits.cache, generator, self.limits.batch))

    @property
    def busy(self) -> bool:
        return bool(self.asked or self.written)

    def cards(self) -> dict[str, Message]:
        """What the web process has to know of the models."""
        return {name: self.card(model) for name, model in self.models.items()}

    def card(self, model: Model) -> Message:
        task, abilities = model.run.task, model.abilities
        has_labels, translates = "predict" in abilities, can(task, Translates)
        return {
            "task": model.run.recipe.task,
            "parameters": model.parameters,
            "abilities": [*abilities, *(["chat"] if can(task, Chats) else [])],
            "labels": model.labels if has_labels else [],
            "targets": list(need(task, Translates).targets) if translates else [],
            "window": need(task, Generates).generator(model.network).window if "generate" in abilities else None,
            "example": model.example,
        }

    # --- requests

    def receive(self, message: Message) -> Iterator[Message]:
        """What can be said of a message at once."""
        if "cancel" in message:
            self.cancel(message["cancel"])
            return
        number = message["id"]
        try:
            if message["do"] == "write":
                self.start_writing(number, message)
            else:
                words = {name: message[name] for name in ("model", "do", "ask", "deadline")}
                self.asked.append(Asked(number, **words))
        except Problem as problem:
            self.cancel(number)
            yield {"id": number, "problem": str(problem)}

    def start_writing(self, number: int, message: Message) -> None:
        model, ask = message["model"], message["ask"]
        prompts = ask["prompts"] if "messages" not in ask else [self.prompt_of(model, ask["messages"])]
        written = self.written[number] = Written(model, message["deadline"])
        sampling = Sampling(**ask["sampling"])
        for index, prompt in enumerate(prompt for prompt in prompts for _ in range(ask["n"])):
            seed = ask["seed"] + index
            stops, top = ask["stops"], ask["top_logprobs"]
            request = Request((number, index), prompt, sampling, ask["max_new_tokens"], seed, stops, top)
            self.batchers[model].add(request)
            written.open.add(index)

    def prompt_of(self, model: str, messages: Sequence[dict[str, str]]) -> str:
        """Instructions stand before the first question."""
        instructions = [each["content"] for each in messages if each["role"] in ("system", "developer")]
        rest = [each for each in messages if each["role"] in ("user", "assistant")]
        questions, answers = rest[::2], rest[1::2]
        in_turn = [each["role"] for each in questions], [each["role"] for each in answers]
        if in_turn != (["user"] * len(questions), ["assistant"] * len(answers)) or len(rest) % 2 == 0:
            raise Problem("messages: user and assistant have to take turns, and the user has the last word")
        asked = [each["content"] for each in questions]
        asked[0] = "\n\n".join([*instructions, asked[0]])
        turns = list(zip(asked[:-1], (each["content"] for each in answers), strict=True))
        return need(self.models[model].run.task, Chats).conversation(turns, asked[-1])

    def cancel(self, number: int) -> None:
        """Nobody waits for this any more."""
        self.asked = deque(each for each in self.asked if each.number != number)
        if (written := self.written.pop(number, None)) is not None:
            for index in written.open:
                self.batchers[written.model].cancel((number, index))

    # --- answers

    def turn(self) -> Iterator[Message]:
        """One token for all that is being written, and one batch of the rest."""
        yield from self.end_late()
        for batcher in self.batchers.values():
            if batcher.busy:
                pieces = [self.told(piece) for piece in batcher.step()]
                yield {"pieces": pieces}
        if self.asked:
            yield from self.answer(self.next_batch())

    def end_late(self) -> Iterator[Message]:
        now = time.monotonic()
        late = [number for number, each in self.written.items() if each.deadline < now]
        late += [each.number for each in self.asked if each.deadline < now]
        for number in late:
            self.cancel(number)
            yield {"id": number, LATE: True}

    def told(self, piece: Piece) -> list[Any]:
        number, index = piece.key
        if piece.finish:
            written = self.written[number]
            written.open.discard(index)
            if not written.open:
                del self.written[number]
        logprob = None if piece.logprob is None else asdict(piece.logprob)
        return [number, index, piece.text, piece.finish, piece.prompt_tokens, logprob]

    def next_batch(self) -> list[Asked]:
        """The first request, and those that can be answered with it."""
        first = self.asked[0]
        job, size = JOBS[first.do], 0
        batch: list[Asked] = []
        rest: deque[Asked] = deque()
        for each in self.asked:
            fits = (each.model, each.do) == (first.model, first.do) and job.kind(each.ask) == job.kind(first.ask)
            if not batch or (job.together and fits and size + each.size <= TOGETHER):
                batch.append(each)
                size += each.size
            else:
                rest.append(each)
        self.asked = rest
        return batch

    def answer(self, batch: Sequence[Asked]) -> Iterator[Message]:
        model, job = self.models[batch[0].model], JOBS[batch[0].do]
        try:
            answers: list[Answer] = job.answer(model, [each.ask for each in batch])
        except Problem as problem:
            if len(batch) > 1:  # whose it is, and what it says, is found out one by one
                for each in batch:
                    yield from self.answer([each])
            else:
                yield {"id": batch[0].number, "problem": str(problem)}
            return
        except Exception:  # the others have to be answered
            trace = traceback.format_exc()
            yield from ({"id": each.number, "failed": trace} for each in batch)
            return
        yield from ({"id": each.number, "answer": own} for each, own in zip(batch, answers, strict=True))

    def counts(self) -> dict[str, int]:
        return {
            "writing": sum(len(each.writing) for each in self.batchers.values()),
            "waiting": sum(len(each.waiting) for each in self.batchers.values()) + len(self.asked),
            "shared_tokens": sum(each.shared_tokens for each in self.batchers.values()),
        }
