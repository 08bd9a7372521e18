"""StrictProvider: the APIs of Anthropic and OpenAI on loopback, for the official SDKs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.provider.billed import Billed
from tests.provider.faults import Fault, FaultOf, FaultPlan
from tests.provider.ids import Ids
from tests.provider.loopback import Answer, LoopbackServer, json_answer
from tests.provider.messages import Anthropic
from tests.provider.refused import Refused
from tests.provider.says import Brain, Says, Wire, as_says
from tests.provider.settings import Settings
from tests.provider.verdict import Api, apis

_WIRES: dict[str, Wire] = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and what became of it."""

    wire: Wire
    path: str
    body: Mapping[str, Any] | None
    """None: it was no JSON object, or bodies are not kept."""
    status: int
    billed: Billed | None = None
    """None: it was not answered, and costs nothing."""
    refusal: str | None = None
    """Why it is no valid request, in the provider's words."""
    overflow: str | None = None
    """That it is too long for the window, in the provider's words."""
    fault: Fault | None = None
    says: Says | None = None


class StrictProvider:
    """Serves from `with` to its end; a failure of the brain is raised there.

    >>> with StrictProvider(lambda request, wire: "Hello.") as provider:
    ...     provider.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, brain: Brain, *, faults: FaultOf | None = None, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.requests: list[Exchange] = []
        self._brain = brain
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
        """Anthropic's base_url; OpenAI's is `openai_url`."""
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
        """What all requests together are billed for."""
        total = Billed()
        for exchange in self.requests:
            total = total.plus(exchange.billed or Billed())
        return total

    def fail_next(
        self, status: int = 500, *, times: int = 1, after: int = 0, midway: bool = False
    ) -> None:
        """Answer the next valid requests, `after` so many good ones, with this status."""
        self._faults.plan(Fault("status", status=status, midway=midway), times, after)

    def rate_limit_next(
        self, retry_after: float | None = 1.0, *, times: int = 1, after: int = 0
    ) -> None:
        fault = Fault("status", status=429, retry_after_seconds=retry_after)
        self._faults.plan(fault, times, after)

    def stall_next(
        self, seconds: float, *, times: int = 1, after: int = 0, midway: bool = False
    ) -> None:
        """Say nothing for so long, before the reply or in the middle of it."""
        self._faults.plan(Fault("stall", stall_seconds=seconds, midway=midway), times, after)

    def drop_next(self, *, times: int = 1, after: int = 0, midway: bool = True) -> None:
        """Close the connection in the middle of the reply, or before it; the reply is billed."""
        self._faults.plan(Fault("drop", midway=midway), times, after)

    def overflow_next(self, *, times: int = 1, after: int = 0, midway: bool = False) -> None:
        """Find the prompt too long for the window, whatever it is.

        Midway: in the stream, as OpenAI's Responses do.
        """
        self._faults.plan(Fault("overflow", midway=midway), times, after)

    def _handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        path = path.partition("?")[0]
        wire = _WIRES.get(path, "anthropic" if "anthropic-version" in headers else "openai_chat")
        request: Any = None
        try:
            if path not in _WIRES or method != "POST":
                raise Refused(f"Unknown request URL: {method} {path}.", status=404)
            api = self._apis[wire]
            api.check_headers(headers)
            request = _parsed(body)
            return self._answer(api, wire, path, request)
        except Refused as refused:
            why = {"overflow" if refused.is_overflow else "refusal": refused.message}
            self._record(wire, path, request, refused.status, **why)
            return self._refuse(refused, wire)
        except Exception as failure:
            self._failure = self._failure or failure
            failed = Refused(f"the test's brain failed: {failure!r}", status=500)
            return self._refuse(failed, wire)

    def _answer(self, api: Api, wire: Wire, path: str, request: Any) -> Answer:
        if isinstance(api, Anthropic) and path.endswith("/count_tokens"):
            counted = {"input_tokens": api.count(request)}
            self._record(wire, path, request, 200)
            return json_answer(200, counted, self._headers())
        tokens = api.check(request)
        fault = self._faults.next(request, wire)
        is_stream = bool(request.get("stream"))
        if fault and fault.kind in ("status", "overflow") and not (fault.midway and is_stream):
            refused = api.overflow(tokens) if fault.kind == "overflow" else fault.refused(wire)
            overflow = refused.message if refused.is_overflow else None
            self._record(wire, path, request, refused.status, fault=fault, overflow=overflow)
            return self._refuse(refused, wire, fault.retry_after_seconds)
        says = as_says(self._brain(request, wire))
        body, billed = api.reply(request, says)
        self._record(wire, path, request, 200, billed=billed, fault=fault, says=says)
        if not is_stream:
            chunks: tuple[bytes, ...] = (json.dumps(body).encode(),)
        else:
            chunks = tuple(api.events(body, request))
            if fault and fault.kind in ("status", "overflow"):
                refused = api.overflow(tokens) if fault.kind == "overflow" else fault.refused(wire)
                chunks = (*chunks[: len(chunks) // 2], *api.failure_events(refused, body))
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

    def _refuse(self, refused: Refused, wire: Wire, retry_after: float | None = None) -> Answer:
        headers = self._headers()
        if retry_after is not None:
            headers["retry-after"] = f"{retry_after:g}"
        return json_answer(refused.status, refused.body(wire, headers["request-id"]), headers)

    def _headers(self) -> dict[str, str]:
        request_id = self._ids.new("req_01")
        return {"request-id": request_id, "x-request-id": request_id}


def _parsed(body: bytes) -> Any:
    try:
        request = json.loads(body)
    except ValueError as error:
        raise Refused(f"The request body is not valid JSON: {error}") from None
    if not isinstance(request, dict):
        raise Refused("The request body is not a JSON object")
    return request
