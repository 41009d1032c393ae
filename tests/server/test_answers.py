"""What the server answers is what the Python API gives: with the real ``openai`` client, curl and plain requests."""

import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import openai
import pytest
import torch

import headway as hw
from server.conftest import Served

Models = dict[str, hw.Model]


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.address}/v1", api_key="unused", max_retries=0) as client:
        yield client


def test_the_openai_client_lists_the_models(client: openai.OpenAI, models: Models) -> None:
    assert [model.id for model in client.models.list()] == list(models)
    assert client.models.retrieve("letters").id == "letters"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_the_openai_client_completes(client: openai.OpenAI, models: Models) -> None:
    letters = models["letters"]
    options: dict[str, Any] = {"max_tokens": 12, "temperature": 0.9, "top_p": 0.8, "seed": 4, "stop": ["bbba"]}
    alone = letters.generate(
        ["ab", "ab", "ba", "ba"], max_new_tokens=12, temperature=0.9, top_p=0.8, stop=["bbba"], seed=4
    )
    answer = client.completions.create(model="letters", prompt=["ab", "ba"], n=2, **options)
    assert [choice.text for choice in answer.choices] == alone
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 6  # each begins with a bos token
    assert answer.usage.total_tokens == 6 + answer.usage.completion_tokens

    pieces = ["", "", "", ""]
    finishes = {}
    usage: Any = {"include_usage": True}
    stream = client.completions.create(
        model="letters", prompt=["ab", "ba"], n=2, stream=True, stream_options=usage, **options
    )
    for event in stream:
        for choice in event.choices:
            pieces[choice.index] += choice.text
            finishes[choice.index] = choice.finish_reason
        counted = event.usage
    assert pieces == alone
    assert [finishes[index] for index in range(4)] == [choice.finish_reason for choice in answer.choices]
    assert counted == answer.usage


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI, models: Models) -> None:
    letters = models["letters"]
    answer = client.completions.create(model="letters", prompt="ab", max_tokens=3, temperature=0, logprobs=2)
    (choice,) = answer.choices
    assert choice.logprobs is not None
    assert choice.logprobs.token_logprobs is not None
    generator = letters.generator()
    tokens = [*generator.tokens_of("ab"), *letters.tokenizer.encode([choice.text])[0].tolist()]
    with torch.inference_mode():
        logprobs = letters.network(torch.tensor([tokens]))[0].log_softmax(dim=-1)
    first = len(tokens) - 3
    expected = [float(logprobs[place - 1, tokens[place]]) for place in range(first, len(tokens))]
    assert choice.logprobs.token_logprobs == pytest.approx(expected, abs=1e-4)
    assert choice.logprobs.top_logprobs is not None
    assert all(len(top) == 2 for top in choice.logprobs.top_logprobs)
    assert "".join(choice.logprobs.tokens or []) == choice.text


def test_the_openai_client_chats(client: openai.OpenAI, models: Models) -> None:
    """Earlier turns stand in the template, and instructions before the first question."""
    messages: Any = [
        {"role": "system", "content": "a"},
        {"role": "user", "content": "aa"},
        {"role": "assistant", "content": "bb"},
        {"role": "user", "content": [{"type": "text", "text": "aba"}]},
    ]
    options: dict[str, Any] = {"model": "chat", "max_tokens": 5, "temperature": 0}
    answer = client.chat.completions.create(messages=messages, logprobs=True, top_logprobs=1, **options)
    expected = models["chat"].generate("a\n\naabbbaba", max_new_tokens=5, temperature=0)
    (choice,) = answer.choices
    assert choice.message.content == expected
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert choice.logprobs.content[0].top_logprobs[0].token == choice.logprobs.content[0].token
    stream = client.chat.completions.create(messages=messages, stream=True, **options)
    deltas = [event.choices[0].delta for event in stream]
    assert "".join(delta.content or "" for delta in deltas) == expected
    assert deltas[0].role == "assistant"
    with pytest.raises(openai.BadRequestError, match="take turns"):
        client.chat.completions.create(messages=[*messages, messages[-1]], **options)
    with pytest.raises(openai.NotFoundError, match="no such model"):
        client.chat.completions.create(**{**options, "model": "letters"}, messages=messages)


def test_the_openai_client_embeds(client: openai.OpenAI, models: Models) -> None:
    texts = ["ab", "abab", "b"]
    expected = models["letters"].embed(texts)
    for encoding in ("float", "base64", None):
        more: Any = {} if encoding is None else {"encoding_format": encoding}
        answer = client.embeddings.create(model="letters", input=texts, **more)
        vectors = [each.embedding for each in answer.data]
        if encoding != "base64":
            assert np.allclose(np.array(vectors), expected, atol=1e-6)
    assert answer.usage.prompt_tokens == 7


def test_verbs_answer_like_the_python_api(served: Served, models: Models) -> None:
    parity, masked, numbers = models["parity-1"], models["masked"], models["numbers"]
    predictions = served.post("/classify", {"texts": ["0110", "0111"]}).json["predictions"]
    for one, other in zip(predictions, parity.predict(["0110", "0111"]), strict=True):
        assert (one["text"], one["label"]) == (other.text, other.label)
        assert one["probabilities"] == pytest.approx(other.probabilities)
    explained, own = served.post("/explain", {"text": "0110"}).json, parity.explain("0110")
    assert explained["label"] == own.label
    assert [piece["gradient"] for piece in explained["pieces"]] == pytest.approx([each.gradient for each in own.pieces])
    masks = served.post("/fill", {"text": "the plot was [MASK] .", "top": 3}).json["masks"]
    expected = masked.fill("the plot was [MASK] .", top=3)
    assert [[each["token"] for each in mask] for mask in masks] == [[each.token for each in mask] for mask in expected]
    wanted = {"texts": ["de three hundred five", ""], "num_beams": 2}
    assert served.post("/translate", wanted).json["translations"] == numbers.translate(wanted["texts"], num_beams=2)  # type: ignore[call-overload]
    rewards = served.post("/reward", {"prompts": "a", "answers": ["ab", "ba"]}).json["rewards"]
    assert rewards == pytest.approx(models["critic"].rate("a", ["ab", "ba"]), abs=1e-5)


def test_answers_do_not_depend_on_company(served: Served, models: Models) -> None:
    """Requests of all kinds at once, of which some are wrong."""
    letters, parity = models["letters"], models["parity-1"]

    def ask(number: int) -> bool:
        if number % 4 == 0:
            text = format(number + 5, "b")
            prediction = served.post("/classify", {"texts": text}).json["predictions"][0]
            own = parity.predict(text)
            return bool(
                prediction["label"] == own.label
                and math.isclose(prediction["probability"], own.probability or 0, abs_tol=1e-6)
            )
        if number % 4 == 1:
            answer = served.post("/classify", {"texts": ["01", " "]})
            return answer.status == 400 and "text 2 is empty" in answer.json["error"]["message"]
        prompt, tokens = "ab" * (number % 5 + 1), 5 + number
        wanted = {"model": "letters", "prompt": prompt, "max_tokens": tokens, "seed": number}
        text = served.post("/v1/completions", {**wanted, "temperature": 0.7}).json["choices"][0]["text"]
        return bool(text == letters.generate(prompt, max_new_tokens=tokens, temperature=0.7, seed=number))

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(ask, range(48)))


def test_without_a_seed_each_request_has_its_own(served: Served) -> None:
    wanted = {"model": "letters", "prompt": "a", "max_tokens": 40, "temperature": 5}
    assert len({served.post("/v1/completions", wanted).body.split(b'"text"')[1] for _ in range(4)}) > 1


def test_the_document_describes_the_routes_that_the_runs_can_do(served: Served) -> None:
    document = served.get("/openapi.json").json
    asked = {path for path, methods in document["paths"].items() if "post" in methods}
    assert asked == {
        *("/v1/completions", "/v1/chat/completions", "/v1/embeddings"),
        *("/classify", "/explain", "/translate", "/fill", "/reward"),
    }
    for path in asked:  # the example of each works
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        answer = served.post(path, schema["example"])
        assert answer.status == 200, (path, answer.body)


def test_the_page_needs_nothing_from_outside(served: Served) -> None:
    page = served.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("/page.js", "/page.css"):
        assert name.encode() in page.body
        content = served.get(name).body
        assert b"innerHTML" not in content
        assert b"http:" not in content
        assert b"https:" not in content


def test_curl_can_ask(served: Served, models: Models) -> None:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl here")
    content = json.dumps({"model": "letters", "prompt": "ab", "max_tokens": 6, "temperature": 0})
    words = [f"{served.address}/v1/completions", "-H", "Content-Type: application/json", "-d", content]
    printed = subprocess.run([program, "-s", *words], capture_output=True, text=True, check=True).stdout
    expected = models["letters"].generate("ab", max_new_tokens=6, temperature=0)
    assert json.loads(printed)["choices"][0]["text"] == expected


def test_texts_are_not_logged(served: Served) -> None:
    served.post("/v1/completions", {"model": "letters", "prompt": "abbaabba", "max_tokens": 2})
    events = served.events()
    assert {"time", "event", "route", "status", "ms", "prompt_tokens"} <= set(events[-1])
    assert "abbaabba" not in served.log.read_text()
