"""The routes that ask a model: what each takes and gives. Those are served that some run has the ability for."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response

from headway.server import completions, verbs
from headway.server.calls import Call
from headway.server.limits import Limits
from headway.server.schemas import MOST_SEED, Schema, flag, listing, number, one_or_more, record, text, whole

MOST_BEAMS = 16
MOST_STOPS = 16
TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
MAYBE_NUMBER, ANY = {"type": ["number", "null"]}, {"type": ["object", "null"]}


@dataclass(frozen=True)
class Route:
    path: str
    ability: str  # of a run: a method of a Model, or "chat"
    summary: str
    request: Callable[[Limits], dict[str, Schema]]
    required: tuple[str, ...]
    response: Schema
    handle: Callable[[Call], Awaitable[Response]]
    example: dict[str, Any]  # EXAMPLE stands for the run's own example
    streams: bool = False


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def answer(**properties: Schema) -> Schema:
    return record_of(model=TEXT, **properties)


def record_of(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


USAGE = record_of(prompt_tokens=WHOLE, total_tokens=WHOLE)


def writing(limits: Limits) -> dict[str, Schema]:
    """The fields that completions and chat have in common."""
    stop = text("", 100, 1)
    return {
        "temperature": number("0: always the most likely token.", 0, 100, default=0.8),
        "top_p": number("Nucleus sampling.", 0, 1, exclusiveMinimum=0),
        "top_k": whole("Sample from the k most likely tokens only.", 1, 1 << 31),
        "min_p": number("Keep tokens at least this times as likely as the best one.", 0, 1, exclusiveMinimum=0),
        "repetition_penalty": number("Above 1, tokens that have occurred become less likely.", 0.01, 100, default=1.0),
        "stop": {"anyOf": [stop, listing(stop, MOST_STOPS, 0)], "description": "Texts to end before."},
        "seed": whole("Random seed; without it, each request has another one.", 0, MOST_SEED),
        "n": whole("Texts for each prompt; text i has the seed + i.", 1, completions.MOST_TEXTS, default=1),
        "stream": flag("Send the text in pieces, as server-sent events.", default=False),
        "stream_options": record({"include_usage": flag("Count the tokens in a last event.")}),
        "user": text("Not used.", 1_000),
        "frequency_penalty": number("Only 0; see repetition_penalty.", 0, 0),
        "presence_penalty": number("Only 0; see repetition_penalty.", 0, 0),
    }


def completion_fields(limits: Limits) -> dict[str, Schema]:
    return {
        "prompt": one_or_more("What to continue.", completions.MOST_TEXTS, limits),
        "max_tokens": whole("The most tokens of a text.", 1, limits.tokens, default=min(200, limits.tokens)),
        "logprobs": whole("The log-probabilities of each token, and of so many of the likeliest.", 0, 20),
        **writing(limits),
    }


def chat_fields(limits: Limits) -> dict[str, Schema]:
    part = record({"type": {"type": "string", "enum": ["text"]}, "text": text("", limits.text)}, ("type", "text"))
    content = {"anyOf": [text("", limits.text), listing(part, limits.texts)]}
    role = {"type": "string", "enum": ["system", "developer", "user", "assistant"]}
    message = record({"role": role, "content": content, "name": text("Not used.", 100)}, ("role", "content"))
    most = min(200, limits.tokens)
    return {
        "messages": listing(message, limits.texts, 1, "In turn user and assistant, instructions first."),
        "max_tokens": whole("The most tokens of an answer.", 1, limits.tokens, default=most),
        "max_completion_tokens": whole("The same, by its newer name.", 1, limits.tokens),
        "logprobs": flag("The log-probability of each token."),
        "top_logprobs": whole("And of so many of the likeliest.", 0, 20),
        **writing(limits),
    }


def embedding_fields(limits: Limits) -> dict[str, Schema]:
    return {
        "input": one_or_more("The texts.", limits.texts, limits, 1),
        "encoding_format": {
            "type": "string",
            "enum": ["float", "base64"],
            "default": "float",
            "description": "Numbers, or float32 bytes.",
        },
        "user": text("Not used.", 1_000),
    }


def texts_field(limits: Limits) -> dict[str, Schema]:
    return {"texts": one_or_more("A text, or a list of texts.", limits.texts, limits)}


def translate_fields(limits: Limits) -> dict[str, Schema]:
    return {
        **texts_field(limits),
        "num_beams": whole("The width of the beam; by default that of the recipe.", 1, MOST_BEAMS),
        "length_penalty": number("By default that of the recipe.", -50, 50),
        "to": text("The language to translate into, for a run that knows several.", 100, 1),
    }


def text_field(limits: Limits) -> dict[str, Schema]:
    return {"text": text("The text.", limits.text, 1)}


def fill_fields(limits: Limits) -> dict[str, Schema]:
    return {**text_field(limits), "top": whole("How many tokens for each [MASK].", 1, 1_000, default=5)}


def reward_fields(limits: Limits) -> dict[str, Schema]:
    return {
        "prompts": one_or_more("The prompt of all answers, or one for each.", limits.texts, limits),
        "answers": listing(text("", limits.text), limits.texts, 1, "The answers to rate."),
    }


PREDICTION = record_of(text=TEXT, label=TEXT, probability=NUMBER, probabilities={"type": "object"})
CANDIDATE = record_of(token=TEXT, probability=NUMBER)
PIECE = record_of(text=TEXT, gradient=MAYBE_NUMBER, attention=MAYBE_NUMBER)
FINISH = {"type": "string", "enum": ["stop", "length"]}
EMBEDDING = record_of(object=TEXT, index=WHOLE, embedding={"type": ["array", "string"]})
TEXT_CHOICE = record_of(index=WHOLE, text=TEXT, finish_reason=FINISH, logprobs=ANY)
CHAT_CHOICE = record_of(index=WHOLE, message=record_of(role=TEXT, content=TEXT), finish_reason=FINISH, logprobs=ANY)
EXAMPLE = "EXAMPLE"


def completion_of(choice: Schema) -> Schema:
    return answer(id=TEXT, object=TEXT, created=WHOLE, choices=list_of(choice), usage=USAGE)


ROUTES = (
    Route(
        "/v1/completions",
        "generate",
        "Continue texts, as OpenAI's API does",
        completion_fields,
        ("prompt",),
        completion_of(TEXT_CHOICE),
        partial(completions.complete, style=completions.Completions()),
        {"prompt": EXAMPLE, "max_tokens": 40, "temperature": 0.8},
        streams=True,
    ),
    Route(
        "/v1/chat/completions",
        "chat",
        "Answer in a conversation, in the template that the run was trained with",
        chat_fields,
        ("messages",),
        completion_of(CHAT_CHOICE),
        partial(completions.complete, style=completions.Chat()),
        {"messages": [{"role": "user", "content": EXAMPLE}], "max_tokens": 40},
        streams=True,
    ),
    Route(
        "/v1/embeddings",
        "embed",
        "A vector for each text",
        embedding_fields,
        ("input",),
        answer(object=TEXT, data=list_of(EMBEDDING), usage=USAGE),
        verbs.embeddings,
        {"input": [EXAMPLE]},
    ),
    Route(
        "/classify",
        "predict",
        "The label of each text, with its probability",
        texts_field,
        ("texts",),
        answer(predictions=list_of(PREDICTION)),
        verbs.classify,
        {"texts": [EXAMPLE]},
    ),
    Route(
        "/explain",
        "explain",
        "Which tokens mattered for the label of a text",
        text_field,
        ("text",),
        answer(label=TEXT, probability=NUMBER, pieces=list_of(PIECE)),
        verbs.explain,
        {"text": EXAMPLE},
    ),
    Route(
        "/translate",
        "translate",
        "The translation of each text, by beam search",
        translate_fields,
        ("texts",),
        answer(translations=list_of(TEXT)),
        verbs.translate,
        {"texts": [EXAMPLE]},
    ),
    Route(
        "/fill",
        "fill",
        "The likeliest tokens for each [MASK] of a text",
        fill_fields,
        ("text",),
        answer(masks=list_of(list_of(CANDIDATE))),
        verbs.fill,
        {"text": EXAMPLE, "top": 5},
    ),
    Route(
        "/reward",
        "rate",
        "The reward of each answer to a prompt",
        reward_fields,
        ("prompts", "answers"),
        answer(rewards=list_of(NUMBER)),
        verbs.reward,
        {"prompts": EXAMPLE, "answers": ["an answer", "another answer"]},
    ),
)
