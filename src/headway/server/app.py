"""The web application: routes, errors and pages, behind the gate."""

import asyncio
import pathlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as Path

from headway.server.calls import Call
from headway.server.link import RETRY_AFTER, ModelProcess
from headway.server.logs import Log
from headway.server.metrics import Metrics
from headway.server.openapi import REASONS, able, document, request_schema
from headway.server.routes import ROUTES, Route
from headway.server.schemas import check, parse
from headway.server.security import Access, Gate, Refused

PAGES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
FOLDER = pathlib.Path(__file__).parent / "page"
CLIENT_GONE = 499  # as nginx logs it; nobody receives it


class Site:
    def __init__(self, process: ModelProcess, access: Access, log: Log):
        self.process, self.limits, self.log = process, process.limits, log
        self.metrics = Metrics(process)
        self.created = int(time.time())
        self.routes = [route for route in ROUTES if able(route, process.cards)]
        self.document = document(self.routes, process.cards, self.limits)
        paths = [Path(path, self.page(*page), methods=["GET"]) for path, page in PAGES.items()]
        paths += [Path(route.path, self.endpoint(route), methods=["POST"]) for route in self.routes]
        paths += [
            Path("/openapi.json", self.openapi),
            Path("/v1/models", self.models),
            Path("/v1/models/{name}", self.model),
            Path("/metrics", self.show_metrics),
            Path("/health", self.health),
        ]
        handlers: Any = {HTTPException: show_http_error, Refused: show_refusal, Exception: show_failure}
        self.app = Gate(Starlette(routes=paths, exception_handlers=handlers), access, self.limits, self.note_refusal)

    def note_refusal(self, refused: Refused) -> None:
        self.metrics.requests.labels("", str(refused.status)).inc()
        self.log.write("refused", status=refused.status, problem=refused.code)

    # --- what is there

    def page(self, name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
        content = (FOLDER / name).read_bytes()

        async def show(request: Request) -> Response:
            return Response(content, media_type=kind)

        return show

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.document)

    def card(self, name: str) -> dict[str, Any]:
        card = self.process.cards[name]
        return {"id": name, "object": "model", "created": self.created, "owned_by": "headway", **card}

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self.card(name) for name in self.process.cards]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.process.cards:
            raise no_model(list(self.process.cards))
        return JSONResponse(self.card(name))

    async def show_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.render(), media_type="text/plain; version=0.0.4")

    async def health(self, request: Request) -> Response:
        if self.process.ready:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "starting"}, 503, RETRY_AFTER)

    # --- asking models

    def endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        models = able(route, self.process.cards)
        schema = request_schema(route, models, self.limits)

        async def answer(request: Request) -> Response:
            call = Call(route.path, self.process, self.metrics, self.log)
            status = 500
            try:
                require_json(request)
                call.wanted = check(parse(await request.body()), schema)
                name = models[0] if call.wanted["model"] is None else call.wanted["model"]
                if name not in models:
                    raise no_model(models)
                call.model = name
                response = await unless_gone(request, route.handle(call))
                status = response.status_code
                if not response.headers["content-type"].startswith("text/event-stream"):
                    call.done(status)
                return response
            except Refused as refused:
                status = refused.status
                call.failed(refused)
                raise
            finally:
                if status != 200:
                    call.done(status)

        return answer


def no_model(names: list[str]) -> Refused:
    return Refused(404, f"there is no such model here; there are {', '.join(names)}", "model_not_found")


def require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the body has to be JSON, with Content-Type: application/json", "bad_type")


async def unless_gone(request: Request, answer: Awaitable[Response]) -> Response:
    """The answer, unless the client leaves before it is there: then its work is cancelled."""
    work = asyncio.current_task()
    assert work is not None
    gone = asyncio.ensure_future(disconnected(request))
    gone.add_done_callback(lambda gone: gone.cancelled() or work.cancel())
    try:
        return await answer
    except asyncio.CancelledError:
        if gone.done():
            work.uncancel()
            raise Refused(CLIENT_GONE, "the client has gone", "client_gone") from None
        raise
    finally:
        gone.cancel()


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def show_refusal(request: Request, refused: Refused) -> Response:
    return JSONResponse(refused.content, refused.status, refused.headers)


async def show_http_error(request: Request, error: HTTPException) -> Response:
    """Of the router: no such page, or not by this method."""
    message = REASONS.get(error.status_code, "this request is not answered")
    refused = Refused(error.status_code, message, "no_such_page", dict(error.headers or {}))
    return await show_refusal(request, refused)


async def show_failure(request: Request, error: Exception) -> Response:
    return await show_refusal(request, Refused(500, "this request could not be answered", "failed"))
