"""The JSON-RPC server: replies, error codes, and `serve`, the loop from bytes to replies.

| code | when |
|---|---|
| -32700 | the input is not JSON |
| -32600 | JSON, but no request of JSON-RPC 2.0 |
| -32601 | no such method, or no such tool |
| -32602 | params or a tool's arguments are wrong |
| -32603 | no reply can be made, as when it would be nested too deeply to be written |

An error inside a tool that is not caused by its arguments is a result with `isError`, as the Model
Context Protocol requires: the model that called the tool can read it. So are wrong arguments where
the client has negotiated a version that says so (D81).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from rehydrate import __version__, _native
from rehydrate._text import as_json, safe_error_text
from rehydrate.compact.signals import Memory
from rehydrate.rpc import tool

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions of the Model Context Protocol that are spoken here, the oldest first."""
PROTOCOL_VERSION = "2025-06-18"
"""The version of the Model Context Protocol for a client that names none."""
_WRONG_ARGUMENTS_ARE_RESULTS = ("2025-11-25",)
"""Versions in which wrong arguments of a tool are its result, so that the model can correct them.
The older ones name them an error of the protocol, as the contract does for calls without a
handshake."""

_MISSING = object()


class Refusal(Exception):  # noqa: N818  not ours to report, the client's to read
    """Ends a request with an error reply."""

    def __init__(self, code: int, message: str) -> None:
        """Take the code of the table above and the message."""
        super().__init__(message)
        self.code = code


class Server:
    """Turns values into replies; all it keeps is its memory, and the version that was negotiated.

    >>> Server().answer({"jsonrpc": "2.0", "id": "a", "method": "ping"})
    '{"jsonrpc":"2.0","id":"a","result":{}}'
    """

    def __init__(self, memory: Memory | None = None) -> None:
        """Set up the methods, and the memory that tools work with."""
        self._memory = memory
        self._version: str | None = None
        self._methods: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "initialize": self._initialize,
            "ping": lambda _params: {},
            "tools/list": lambda _params: {"tools": [tool.describe()]},
            "tools/call": self._call,
        }

    def answer(self, value: object) -> str | None:
        """Return the reply to a request or a batch of them, as JSON; None if none is due."""
        if isinstance(value, list) and value:
            replies = [reply for entry in value if (reply := self._answer_one(entry))]
            return f"[{','.join(replies)}]" if replies else None
        return self._answer_one(value)

    def refuse(self, reason: str) -> str:
        """Return the reply to input that is not JSON."""
        return _refusal(None, PARSE_ERROR, f"this isn't JSON: {reason}")

    def _answer_one(self, request: object) -> str | None:
        if not isinstance(request, dict):
            expected = "send an object with jsonrpc, method and id, or a batch of them"
            message = f"a request is {_json_type(request)}; {expected}"
            return _refusal(None, INVALID_REQUEST, message)
        identity = request.get("id", _MISSING)
        usable = identity if _is_identity(identity) else None
        if problem := _problem(request, identity):
            return _refusal(usable, INVALID_REQUEST, problem)
        if identity is _MISSING:
            return None  # a notification: no method here has an effect, so there is nothing to do
        try:
            result = self._run(request["method"], request.get("params", {}))
            return _encode({"jsonrpc": "2.0", "id": usable, "result": result})
        except Refusal as refusal:
            return _refusal(usable, refusal.code, str(refusal))
        except Exception as error:  # above all a RecursionError: the reply is a little deeper
            message = f"no reply can be made: {safe_error_text(error, 'rpc')}"
            return _refusal(usable, INTERNAL_ERROR, message)

    def _run(self, method: str, params: object) -> dict[str, Any]:
        run = self._methods.get(method)
        if run is None:
            methods = ", ".join(self._methods)
            near = tool.nearest(method, self._methods)
            raise Refusal(METHOD_NOT_FOUND, f"no method {method!r}{near}; there are {methods}")
        if not isinstance(params, dict):
            raise Refusal(
                INVALID_PARAMS, f"params is {_json_type(params)}; send an object of named values"
            )
        return run(params)

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion", PROTOCOL_VERSION)
        # The protocol has a server that does not speak the version answer with its latest.
        self._version = asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1]
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rehydrate", "version": __version__},
        }

    def _call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arguments = _arguments(params)
        if unknown := [name for name in arguments if name not in tool.ARGUMENTS]:
            near, names = tool.nearest(unknown[0], tool.ARGUMENTS), ", ".join(tool.ARGUMENTS)
            problem = f"{tool.NAME} has no argument {unknown[0]!r}{near}; it takes {names}"
            return self._wrong_arguments(problem)
        try:
            found = tool.call(arguments, self._memory)
        except tool.WRONG_ARGUMENTS as error:
            return self._wrong_arguments(str(error))
        except Exception as error:
            return _failed(f"{safe_error_text(error, tool.NAME)}; the messages were not changed")
        return {
            "content": [{"type": "text", "text": _encode(found)}],
            "isError": False,
            "structuredContent": found,
            "structured": found,  # the name that chitta's clients look for
        }

    def _wrong_arguments(self, message: str) -> dict[str, Any]:
        """Return the result that says so, or refuse, as the negotiated version has it."""
        if self._version in _WRONG_ARGUMENTS_ARE_RESULTS:
            return _failed(message)
        raise Refusal(INVALID_PARAMS, message)


def _arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call; refuse what is not a call of the tool at all."""
    name = params.get("name", _MISSING)
    if not isinstance(name, str):
        given = "missing" if name is _MISSING else _json_type(name)
        raise Refusal(INVALID_PARAMS, f"name is {given}; name a tool: {tool.NAME!r}")
    if name != tool.NAME:
        raise Refusal(METHOD_NOT_FOUND, f"no tool {name!r}; there is {tool.NAME!r}")
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        raise Refusal(
            INVALID_PARAMS, f"arguments is {_json_type(arguments)}; send an object of named values"
        )
    return arguments


def _failed(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _problem(request: Mapping[str, Any], identity: object) -> str | None:
    """Return why an object is not a request; None if it is one."""
    if request.get("jsonrpc") != "2.0":
        given = _json_type(request["jsonrpc"]) if "jsonrpc" in request else "missing"
        return f"jsonrpc is {given}; send the string '2.0'"
    if not isinstance(request.get("method"), str):
        given = _json_type(request["method"]) if "method" in request else "missing"
        return f"method is {given}; send its name as a string"
    if identity is not _MISSING and not _is_identity(identity):
        return f"id is {_json_type(identity)}; send a string, a number or null"
    return None


def _is_identity(value: object) -> bool:
    return value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool))


def _refusal(identity: object, code: int, message: str) -> str:
    error = {"code": code, "message": message}
    return _encode({"jsonrpc": "2.0", "id": identity, "error": error})


def _encode(value: object) -> str:
    return as_json(value, allow_nan=False, separators=(",", ":"))


def _json_type(value: object) -> str:
    """Return the JSON type of a value; the value itself may be huge."""
    match value:
        case None | True | False:
            return json.dumps(value)
        case int() | float():
            return "a number"
        case str():
            return repr(value) if len(value) <= 40 else "a string"
        case list():
            return "an array" if value else "an empty array"
        case _:
            return "an object"


READ_BYTES = 2**20
MAX_VALUE_BYTES = 256 * 2**20
"""The largest single value that is read; a session of a hundred million characters fits."""


def serve(
    read: Callable[[int], bytes], write: Callable[[str], None], memory: Memory | None = None
) -> None:
    r"""Answer requests until `read` returns no more bytes.

    ``read(n)`` waits for some bytes, at most n. ``write`` takes a whole reply, line end included,
    and sends it at once. A sender that puts `Content-Length` headers before its requests gets
    replies with such headers. Compactions use the ``memory``.

    >>> import io
    >>> stream = io.BytesIO(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}')
    >>> serve(stream.read1, print)
    {"jsonrpc":"2.0","id":1,"result":{}}
    <BLANKLINE>
    """
    stream, server = _native.JsonStream(MAX_VALUE_BYTES), Server(memory)
    ended = False
    while not ended:
        data = read(READ_BYTES)
        ended = not data
        stream.feed(data)
        for value in list(values(stream, ended=ended)):  # all of it says whether it has headers
            is_broken = isinstance(value, Malformed)
            reply = server.refuse(value.reason) if is_broken else server.answer(value)
            if reply is not None and stream.has_headers:
                # Escaped or not, the header counts bytes.
                write(f"Content-Length: {len(reply.encode())}\r\n\r\n{reply}")
            elif reply is not None:
                write(reply + "\n")


class Malformed(NamedTuple):
    """Input between values that is not JSON; `reason` says what is wrong."""

    reason: str


def values(stream: _native.JsonStream, *, ended: bool) -> Iterator[Any]:
    """Yield the values that are complete, in any layout, and a Malformed for what is not JSON.

    Whole requests inside that are found again. The engine finds where values begin and end; values
    and what is wrong with them are those of `json`.
    """
    while (found := stream.next(ended)) is not None:
        kind, data = found
        value = Malformed(data) if isinstance(data, str) else _parsed(data)
        is_json = not isinstance(value, Malformed)
        if kind == "word" and not is_json:
            stream.skip_line()
        if is_json or kind != "line":  # of a broken value, only whole requests
            yield value


def _parsed(data: bytes) -> Any:
    try:
        return _decode(data.decode())
    except UnicodeDecodeError as error:
        return Malformed(f"it is not UTF-8: 0x{data[error.start]:02x} at byte {error.start} of it")
    except json.JSONDecodeError as error:
        return Malformed(f"{error.msg.removesuffix(' at')} at character {error.pos} of it")
    except RecursionError:
        return Malformed("it is nested too deeply; send it in fewer than a thousand levels")
    except ValueError as error:
        return Malformed(str(error))


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits[:40]} is too large; JSON readers take up to 1.8e308")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(
            f"a number has {len(digits)} digits, more than Python reads; send it as a string"
        ) from None


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} isn't JSON; send null, or a number")


_decode = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_constant).decode
