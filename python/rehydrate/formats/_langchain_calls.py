"""The tool calls of a LangChain message: one may stand in three places, and is made once.

Places are `tool_calls` beside `invalid_tool_calls`, blocks of the content, and `additional_kwargs`
as OpenAI sent them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rehydrate.formats._excerpting import Path
from rehydrate.formats._inputs import Input, Inputs
from rehydrate.formats._reading import type_of
from rehydrate.formats.openai_chat import function_id

__all__ = [
    "CALL_BLOCKS",
    "SERVER_BLOCKS",
    "Call",
    "calls_of",
    "extras_of",
    "inputs_of",
    "mappings",
]

# Blocks that are calls, and the keys of their id and of their input.
CALL_BLOCKS = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "invalid_tool_call": ("id", "args"),
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
    "server_tool_use": ("id", "input"),
    "server_tool_call": ("id", "args"),
    "mcp_tool_use": ("id", "input"),
}
SERVER_BLOCKS = frozenset({"server_tool_use", "server_tool_call", "mcp_tool_use"})


class Call(NamedTuple):
    """A tool call; `input` is a string where it is no JSON, or has not been parsed."""

    id: str | None
    name: object
    input: object
    by_server: bool = False


def calls_of(entry: Any) -> list[Call]:
    """The tool calls of an assistant's message, each once."""
    if not entry.type.startswith(("ai", "AI")):
        return []
    made: list[Call] = []
    for calls in (_listed(entry), _among_blocks(entry), _as_openai_sent(entry)):
        # By id; calls without one stand in every place too, or in none.
        ids = {call.id for call in made}
        made += [call for call in calls if call.id not in ids]
    return made


def inputs_of(entry: Any) -> Inputs:
    """The input of each call with the places in which it stands; None for a server's, and where
    nothing says whose result it waits for."""
    paths: dict[str, list[Path]] = {}
    for path, call in _places(entry):
        if isinstance(call, str):
            paths.setdefault(call, []).append(path)
    return [
        None
        if call.by_server or call.id is None or call.id not in paths
        else Input(call.id, call.name, call.input, tuple(paths[call.id]), _is_custom(entry, call))
        for call in calls_of(entry)
    ]


def _places(entry: Any) -> Iterator[tuple[Path, object]]:
    """Where inputs stand, each with the id of its call."""
    for place, call in enumerate(getattr(entry, "tool_calls", None) or ()):
        yield ("tool_calls", place, "args"), call.get("id")
    content = entry.content if isinstance(entry.content, (list, tuple)) else ()
    for place, block in enumerate(content):
        kind = type_of(block) if isinstance(block, Mapping) else ""
        if kind in CALL_BLOCKS and kind not in SERVER_BLOCKS:
            id_key, input_key = CALL_BLOCKS[kind]
            yield ("content", place, input_key), block.get(id_key)
    extras = extras_of(entry)
    for place, call in enumerate(extras.get("tool_calls") or ()):
        if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
            path = ("additional_kwargs", "tool_calls", place, "function", "arguments")
            yield path, call.get("id")


def _is_custom(entry: Any, call: Call) -> bool:
    """Whether the input is text of the tool's own."""
    blocks = mappings(entry.content)
    kinds = {type_of(block) for block in blocks if block.get("call_id") == call.id}
    return isinstance(call.input, str) and "custom_tool_call" in kinds


def extras_of(entry: Any) -> Mapping[str, Any]:
    """The message's `additional_kwargs`."""
    extras = entry.additional_kwargs
    return extras if isinstance(extras, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings in a list; none where it is no list."""
    if not isinstance(value, (list, tuple)):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _listed(entry: Any) -> Iterator[Call]:
    for key in ("tool_calls", "invalid_tool_calls"):
        for call in mappings(getattr(entry, key, None)):
            yield Call(_id(call.get("id")), call.get("name"), call.get("args"))


def _among_blocks(entry: Any) -> Iterator[Call]:
    for block in mappings(entry.content):
        kind = type_of(block)
        if kind in CALL_BLOCKS:
            id_key, input_key = CALL_BLOCKS[kind]
            call_id, by_server = _id(block.get(id_key)), kind in SERVER_BLOCKS
            yield Call(call_id, block.get("name"), block.get(input_key), by_server)


def _as_openai_sent(entry: Any) -> Iterator[Call]:
    extras = extras_of(entry)
    for call in mappings(extras.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            yield Call(_id(call.get("id")), function.get("name"), function.get("arguments"))
    function = extras.get("function_call")
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        name = function["name"]
        yield Call(function_id(name), name, function.get("arguments"))


def _id(value: object) -> str | None:
    return value if isinstance(value, str) else None
