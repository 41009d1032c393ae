"""``/v1/embeddings``, and the routes that mirror the Python API: ``/classify``, ``/translate``, ``/fill``, ..."""

import base64
from array import array
from typing import Any

from starlette.responses import JSONResponse, Response

from headway.server.calls import Call
from headway.server.schemas import bad


def listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


async def embeddings(call: Call) -> Response:
    answer = await call.answer("embed", {"texts": listed(call.wanted["input"])})
    as_text = call.wanted["encoding_format"] == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": vector if as_text else numbers(vector)}
        for index, vector in enumerate(answer["vectors"])
    ]
    usage = call.count_tokens(answer["tokens"])
    counted = {"prompt_tokens": usage["prompt_tokens"], "total_tokens": usage["total_tokens"]}
    return JSONResponse({"object": "list", "data": data, "model": call.model, "usage": counted})


def numbers(vector: str) -> list[float]:
    return array("f", base64.b64decode(vector)).tolist()


async def classify(call: Call) -> Response:
    return await told(call, "classify", {"texts": listed(call.wanted["texts"])})


async def translate(call: Call) -> Response:
    wanted = call.wanted
    options = {name: wanted[name] for name in ("num_beams", "length_penalty", "to")}
    return await told(call, "translate", {"texts": listed(wanted["texts"]), **options})


async def fill(call: Call) -> Response:
    return await told(call, "fill", {"text": call.wanted["text"], "top": call.wanted["top"]})


async def reward(call: Call) -> Response:
    prompts, answers = call.wanted["prompts"], call.wanted["answers"]
    prompts = [prompts] * len(answers) if isinstance(prompts, str) else prompts
    if len(prompts) != len(answers):
        raise bad("prompts", f"{len(prompts)} prompts and {len(answers)} answers: send one prompt for each answer")
    return await told(call, "reward", {"prompts": prompts, "answers": answers})


async def explain(call: Call) -> Response:
    return await told(call, "explain", {"text": call.wanted["text"]})


async def told(call: Call, do: str, ask: dict[str, Any]) -> Response:
    return JSONResponse({"model": call.model, **await call.answer(do, ask)})
