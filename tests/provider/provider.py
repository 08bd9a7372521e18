"""StrictProvider: the APIs of Anthropic and OpenAI on loopback, for the official SDKs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.provider.apis import Api, apis
from tests.provider.billed import Billed
from tests.provider.errors import RefusedError
from tests.provider.faults import Fault, FaultOf, FaultPlan
from tests.provider.ids import Ids
from tests.provider.loopback import Answer, LoopbackServer, json_answer
from tests.provider.messages import Anthropic
from tests.provider.replies import Responder, ScriptedReply, Wire, as_reply
from tests.provider.responses import Responses
from tests.provider.settings import Settings

_WIRES: dict[str, Wire] = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/responses/compact": "openai_responses",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its outcome."""

    wire: Wire
    path: str
    body: Mapping[str, Any] | None
    """None if it wasn't a JSON object, or if bodies are not kept."""
    status: int
    billed: Billed | None = None
    """None if it was not answered; then it costs nothing."""
    refusal: str | None = None
    """The provider's message if the request is invalid."""
    overflow: str | None = None
    """The provider's message if the prompt is too long for the window."""
    fault: Fault | None = None
    reply: ScriptedReply | None = None

    @property
    def asks_for_summary(self) -> bool:
        """Whether the provider was to compact a conversation."""
        return self.path.endswith("/compact") or bool((self.body or {}).get("compaction"))


class StrictProvider:
    """Serves inside a `with` block; an exception of `respond` is raised at its end.

    >>> with StrictProvider(lambda request, wire: "Hello.") as provider:
    ...     provider.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self, respond: Responder, *, faults: FaultOf | None = None, **settings: Any
    ) -> None:
        self.settings = Settings(**settings)
        self.requests: list[Exchange] = []
        self._respond = respond
        self._faults = FaultPlan(faults)
        self._failure: Exception | None = None
        self._ids = Ids()
        self._apis = apis(self.settings)
        self._server = LoopbackServer(self._handle)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop()
        if self._failure is not None and error is None:
            raise self._failure

    @property
    def url(self) -> str:
        """The base URL for Anthropic's SDK; `openai_url` is OpenAI's."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def refusals(self) -> list[Exchange]:
        """The requests that were not valid."""
        return [exchange for exchange in self.requests if exchange.refusal is not None]

    @property
    def overflows(self) -> list[Exchange]:
        """The valid requests that were too long for the window."""
        return [exchange for exchange in self.requests if exchange.overflow is not None]

    @property
    def usage(self) -> Billed:
        """The tokens billed for all requests together."""
        total = Billed()
        for exchange in self.requests:
            total = total.plus(exchange.billed or Billed())
        return total

    def fail_next(
        self, status: int = 500, *, times: int = 1, after: int = 0, midway: bool = False
    ) -> None:
        """Answer the next valid requests with this status, `after` that many good ones."""
        self._faults.plan(Fault("status", status=status, midway=midway), times, after)

    def rate_limit_next(
        self, retry_after: float | None = 1.0, *, times: int = 1, after: int = 0
    ) -> None:
        fault = Fault("status", status=429, retry_after_seconds=retry_after)
        self._faults.plan(fault, times, after)

    def stall_next(
        self, seconds: float, *, times: int = 1, after: int = 0, midway: bool = False
    ) -> None:
        """Pause for this many seconds before the reply, or in the middle of it."""
        self._faults.plan(Fault("stall", stall_seconds=seconds, midway=midway), times, after)

    def drop_next(self, *, times: int = 1, after: int = 0, midway: bool = True) -> None:
        """Close the connection in the middle of the reply, or before it; the reply is billed."""
        self._faults.plan(Fault("drop", midway=midway), times, after)

    def overflow_next(self, *, times: int = 1, after: int = 0, midway: bool = False) -> None:
        """Refuse the next prompts as too long for the window, whatever their length.

        Midway: inside the stream, as OpenAI's Responses API does.
        """
        self._faults.plan(Fault("overflow", midway=midway), times, after)

    def _handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        path = path.partition("?")[0]
        wire = _WIRES.get(path, "anthropic" if "anthropic-version" in headers else "openai_chat")
        request: Any = None
        try:
            if path not in _WIRES or method != "POST":
                raise RefusedError(f"Unknown request URL: {method} {path}.", status=404)
            api = self._apis[wire]
            api.check_headers(headers)
            request = _parsed(body)
            return self._answer(api, wire, path, request)
        except RefusedError as error:
            kind = "overflow" if error.is_overflow else "refusal"
            self._record(wire, path, request, error.status, **{kind: error.message})
            return self._refuse(error, wire)
        except Exception as failure:
            self._failure = self._failure or failure
            error = RefusedError(f"the test's respond failed: {failure!r}", status=500)
            return self._refuse(error, wire)

    def _answer(self, api: Api, wire: Wire, path: str, request: Any) -> Answer:
        if isinstance(api, Anthropic) and path.endswith("/count_tokens"):
            counted = {"input_tokens": api.count(request)}
            self._record(wire, path, request, 200)
            return json_answer(200, counted, self._headers())
        is_compact = isinstance(api, Responses) and path.endswith("/compact")
        tokens = api.check_compact(request) if is_compact else api.check(request)
        fault = self._faults.next(request, wire)
        is_stream = bool(request.get("stream"))
        if fault and fault.kind in ("status", "overflow") and not (fault.midway and is_stream):
            error = api.overflow(tokens) if fault.kind == "overflow" else fault.error(wire)
            overflow = error.message if error.is_overflow else None
            self._record(wire, path, request, error.status, fault=fault, overflow=overflow)
            return self._refuse(error, wire, fault.retry_after_seconds)
        asked = {**request, "object": "response.compaction"} if is_compact else request
        reply = as_reply(self._respond(asked, wire))
        if isinstance(api, Responses) and is_compact:
            body, billed = api.compact(request, reply.text)
        else:
            body, billed = api.reply(request, reply)
        self._record(wire, path, request, 200, billed=billed, fault=fault, reply=reply)
        if not is_stream:
            chunks: tuple[bytes, ...] = (json.dumps(body).encode(),)
        else:
            chunks = tuple(api.events(body, request))
            if fault and fault.kind in ("status", "overflow"):
                error = api.overflow(tokens) if fault.kind == "overflow" else fault.error(wire)
                chunks = (*chunks[: len(chunks) // 2], *api.failure_events(error, body))
        return Answer(
            200,
            chunks,
            is_stream,
            self._headers(),
            stall_seconds=fault.stall_seconds if fault else 0.0,
            midway=bool(fault and fault.midway),
            drops=bool(fault and fault.kind == "drop"),
        )

    def _record(self, wire: Wire, path: str, request: Any, status: int, **more: Any) -> None:
        body = request if self.settings.keeps_bodies else None
        self.requests.append(Exchange(wire, path, body, status, **more))

    def _refuse(self, error: RefusedError, wire: Wire, retry_after: float | None = None) -> Answer:
        headers = self._headers()
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        return json_answer(error.status, error.body(wire, headers["request-id"]), headers)

    def _headers(self) -> dict[str, str]:
        request_id = self._ids.new("req_01")
        return {"request-id": request_id, "x-request-id": request_id}


def _parsed(body: bytes) -> Any:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RefusedError(f"The request body is not valid JSON: {error}") from None
    if not isinstance(request, dict):
        raise RefusedError("The request body is not a JSON object")
    return request
