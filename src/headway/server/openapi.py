"""The OpenAPI document: made from the table of routes, and so of what the server does."""

from collections.abc import Mapping, Sequence
from typing import Any

from headway import __version__
from headway.server.limits import Limits
from headway.server.routes import EXAMPLE, TEXT, WHOLE, Route, list_of, record_of
from headway.server.schemas import Schema, record

Card = dict[str, Any]
ERROR = record_of(error=record_of(message=TEXT, type=TEXT, code=TEXT))
REASONS = {
    400: "The request is not valid; the message says where",
    401: "The token is missing or wrong",
    403: "Not called by this name, or from a page of another origin",
    404: "There is no such model or page",
    405: "The route has another method",
    408: "The request took too long to arrive",
    413: "The request is too large",
    415: "The body is not application/json",
    429: "Too many requests are waiting",
    503: "The model is being started again, or the answer took too long",
}
WAITING = {"Retry-After": {"schema": WHOLE, "description": "Seconds."}}
MODEL = record_of(
    id=TEXT, object=TEXT, created=WHOLE, owned_by=TEXT, task=TEXT, parameters=WHOLE, abilities=list_of(TEXT)
)


def able(route: Route, cards: Mapping[str, Card]) -> list[str]:
    """The models that a route can ask."""
    return [name for name, card in cards.items() if route.ability in card["abilities"]]


def request_schema(route: Route, models: Sequence[str], limits: Limits) -> Schema:
    about = "The name of the run." + (f" Default: {models[0]}." if models else "")
    model = {"type": "string", "maxLength": 200, "description": about}
    return record({"model": model, **route.request(limits)}, route.required)


def document(routes: Sequence[Route], cards: Mapping[str, Card], limits: Limits) -> dict[str, Any]:
    paths: dict[str, Any] = {route.path: {"post": operation(route, cards, limits)} for route in routes}
    one = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "enum": list(cards)}}
    paths["/v1/models"] = {"get": reading("The models", record_of(object=TEXT, data=list_of(MODEL)))}
    paths["/v1/models/{model}"] = {"get": {**reading("A model", MODEL, 404), "parameters": [one]}}
    paths["/metrics"] = {"get": reading("Counts and times, in Prometheus' format", TEXT, kind="text/plain")}
    paths["/health"] = {"get": reading("Whether the model process answers", record_of(status=TEXT), 503)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "headway", "version": __version__, "description": "Trained models over HTTP."},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def operation(route: Route, cards: Mapping[str, Card], limits: Limits) -> dict[str, Any]:
    models = able(route, cards)
    example = filled_in(route.example, cards[models[0]]["example"]) | {"model": models[0]}
    schema = {**request_schema(route, models, limits), "example": example}
    schema["properties"]["model"] = {**schema["properties"]["model"], "enum": [*models, None]}
    content: dict[str, Any] = {"application/json": {"schema": route.response}}
    if route.streams:
        content["text/event-stream"] = {}  # events, for which OpenAPI 3.1 has no schema
    return {
        "summary": route.summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {"200": {"description": "The answer", "content": content}} | refusals(*REASONS),
    }


def reading(summary: str, schema: Schema, *statuses: int, kind: str = "application/json") -> dict[str, Any]:
    answer = {"description": summary, "content": {kind: {"schema": schema}}}
    return {"summary": summary, "responses": {"200": answer} | refusals(401, 403, 405, 408, 413, *statuses)}


def refusals(*statuses: int) -> dict[str, Any]:
    return {
        str(status): {
            "description": REASONS[status],
            "content": {"application/json": {"schema": ERROR}},
            **({"headers": WAITING} if status in (429, 503) else {}),
        }
        for status in sorted(statuses)
    }


def filled_in(value: Any, example: str) -> Any:
    if isinstance(value, dict):
        return {name: filled_in(each, example) for name, each in value.items()}
    if isinstance(value, list):
        return [filled_in(each, example) for each in value]
    return example if value == EXAMPLE else value
