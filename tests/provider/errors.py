"""RefusedError: an error response, with the body that the real provider sends."""

from __future__ import annotations

from typing import Any

from tests.provider.replies import Wire

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_OPENAI_TYPES = {429: "tokens", 500: "server_error", 503: "service_unavailable_error"}


class RefusedError(Exception):
    """A request that is not answered: status, message and, for OpenAI, parameter and code."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        kind: str | None = None,
        is_overflow: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.param = param
        self.code = code
        self.kind = kind
        self.is_overflow = is_overflow

    def body(self, wire: Wire, request_id: str) -> dict[str, Any]:
        if wire == "anthropic":
            kind = self.kind or _ANTHROPIC_TYPES.get(self.status, "api_error")
            error = {"type": kind, "message": self.message}
            return {"type": "error", "error": error, "request_id": request_id}
        kind = self.kind or _OPENAI_TYPES.get(self.status, "invalid_request_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}
