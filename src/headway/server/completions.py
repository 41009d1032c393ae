"""``/v1/completions`` and ``/v1/chat/completions``, as OpenAI's API has them."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse

from headway.server.calls import Call
from headway.server.schemas import MOST_SEED, bad
from headway.server.security import Refused

MOST_TEXTS = 32
GRACE = 5.0  # seconds beyond the deadline until a client that does not read is left


@dataclass
class Text:
    """One of the texts of an answer."""

    pieces: list[str] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish: str | None = None
    prompt_tokens: int = 0
    tokens: int = 0

    def take(self, piece: list[Any]) -> None:
        _, text, finish, prompt_tokens, logprob = piece
        self.pieces.append(text)
        if logprob is not None:
            self.logprobs.append(logprob)
        self.finish, self.tokens = finish, self.tokens + 1
        self.prompt_tokens = self.prompt_tokens or prompt_tokens


class Style:
    """What differs between completions and chat: how an answer is named, and how a choice looks."""

    kind: str
    chunk_kind: str
    prefix: str

    def ask(self, wanted: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def texts(self, ask: dict[str, Any]) -> int:
        raise NotImplementedError

    def choice(self, index: int, text: Text) -> dict[str, Any]:
        raise NotImplementedError

    def chunk(self, index: int, text: str, finish: str | None, logprob: Any, first: bool, at: int) -> dict[str, Any]:
        raise NotImplementedError


class Completions(Style):
    kind = chunk_kind = "text_completion"
    prefix = "cmpl"

    def ask(self, wanted: dict[str, Any]) -> dict[str, Any]:
        prompts = wanted["prompt"]
        return {
            "prompts": [prompts] if isinstance(prompts, str) else prompts,
            "top_logprobs": wanted["logprobs"],
            "max_new_tokens": wanted["max_tokens"],
        }

    def texts(self, ask: dict[str, Any]) -> int:
        return len(ask["prompts"]) * ask["n"]

    def choice(self, index: int, text: Text) -> dict[str, Any]:
        logprobs = self.logprobs(text.logprobs, 0) if text.logprobs else None
        return {"index": index, "text": "".join(text.pieces), "finish_reason": text.finish, "logprobs": logprobs}

    def chunk(self, index: int, text: str, finish: str | None, logprob: Any, first: bool, at: int) -> dict[str, Any]:
        logprobs = None if logprob is None else self.logprobs([logprob], at)
        return {"index": index, "text": text, "finish_reason": finish, "logprobs": logprobs}

    def logprobs(self, tokens: list[Any], at: int) -> dict[str, Any]:
        offsets = []
        for each in tokens:
            offsets.append(at)
            at += len(each["token"])
        return {
            "tokens": [each["token"] for each in tokens],
            "token_logprobs": [each["logprob"] for each in tokens],
            "top_logprobs": [dict(each["top"]) for each in tokens],
            "text_offset": offsets,
        }


class Chat(Style):
    kind, chunk_kind, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl"

    def ask(self, wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["top_logprobs"] is not None and not wanted["logprobs"]:
            raise bad("top_logprobs", "this needs logprobs to be true")
        messages = [{"role": each["role"], "content": content_of(each["content"])} for each in wanted["messages"]]
        most = wanted["max_completion_tokens"] or wanted["max_tokens"]
        top = (wanted["top_logprobs"] or 0) if wanted["logprobs"] else None
        return {"messages": messages, "top_logprobs": top, "max_new_tokens": most}

    def texts(self, ask: dict[str, Any]) -> int:
        return int(ask["n"])

    def choice(self, index: int, text: Text) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(text.pieces), "refusal": None}
        logprobs = self.logprobs(text.logprobs) if text.logprobs else None
        return {"index": index, "message": message, "finish_reason": text.finish, "logprobs": logprobs}

    def chunk(self, index: int, text: str, finish: str | None, logprob: Any, first: bool, at: int) -> dict[str, Any]:
        delta = {"role": "assistant", "content": text} if first else {"content": text}
        logprobs = None if logprob is None else self.logprobs([logprob])
        return {"index": index, "delta": delta, "finish_reason": finish, "logprobs": logprobs}

    def logprobs(self, tokens: list[Any]) -> dict[str, Any]:
        def named(token: str, logprob: float) -> dict[str, Any]:
            return {"token": token, "logprob": logprob, "bytes": list(token.encode())}

        content = [
            {**named(each["token"], each["logprob"]), "top_logprobs": [named(*pair) for pair in each["top"]]}
            for each in tokens
        ]
        return {"content": content, "refusal": None}


def content_of(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def complete(call: Call, style: Style) -> Response:
    wanted = call.wanted
    ask = style.ask(wanted) | {
        "n": wanted["n"],
        "seed": secrets.randbelow(MOST_SEED) if wanted["seed"] is None else wanted["seed"],
        "stops": [wanted["stop"]] if isinstance(wanted["stop"], str) else wanted["stop"] or [],
        "sampling": {name: wanted[name] for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")},
    }
    texts = style.texts(ask)
    if texts > MOST_TEXTS:
        raise bad("n", f"this asks for {texts} texts, and may ask for {MOST_TEXTS}")
    about = {"id": f"{style.prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": call.model}
    pieces = call.pieces(ask, texts)
    if wanted["stream"]:
        usage = bool((wanted["stream_options"] or {}).get("include_usage"))
        return await streamed(call, style, about, pieces, texts, usage)
    answers = [Text() for _ in range(texts)]
    async for piece in pieces:
        call.saw_token()
        answers[piece[0]].take(piece)
    usage_counts = call.count(answers, wanted["n"])
    choices = [style.choice(index, answer) for index, answer in enumerate(answers)]
    return JSONResponse({**about, "object": style.kind, "choices": choices, "usage": usage_counts})


async def streamed(
    call: Call, style: Style, about: dict[str, Any], pieces: AsyncIterator[list[Any]], texts: int, usage: bool
) -> Response:
    """The first piece is waited for, so that what goes wrong until then has its own status."""
    first = await anext(pieces)
    events = events_of(call, style, {**about, "object": style.chunk_kind}, first, pieces, texts, usage)
    return StreamingResponse(events, media_type="text/event-stream")


async def events_of(
    call: Call, style: Style, about: dict[str, Any], first: list[Any], rest: Any, texts: int, usage: bool
) -> AsyncIterator[str]:
    answers = [Text() for _ in range(texts)]
    offsets = [0] * texts

    def chunk_of(piece: list[Any]) -> str:
        index, text, finish, _, logprob = piece
        own = style.chunk(index, text, finish, logprob, answers[index].tokens == 0, offsets[index])
        answers[index].take(piece)
        offsets[index] += len(logprob["token"]) if logprob else 0
        return event({**about, "choices": [own]})

    async with aclosing(rest):
        try:
            async with asyncio.timeout(call.seconds + GRACE):
                call.saw_token()
                yield chunk_of(first)
                async for piece in rest:
                    if piece[1] or piece[2] or piece[4]:
                        yield chunk_of(piece)
                    else:  # a part of a character
                        answers[piece[0]].take(piece)
        except Refused as refused:
            call.failed(refused)
            yield event(refused.content)
            return
        except TimeoutError:
            return
        finally:
            counts = call.count(answers, call.wanted["n"])
            call.done(200)
    if usage:
        yield event({**about, "choices": [], "usage": counts})
    yield "data: [DONE]\n\n"


def event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"
