"""The served tool: the arguments and results of compact_context as JSON Schema, and its call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

from rehydrate.compact.api import compact_context
from rehydrate.compact.archive import Archive
from rehydrate.compact.options import OPTIONS
from rehydrate.compact.result import Stats
from rehydrate.compact.signals import Memory
from rehydrate.errors import InvalidArgumentError, InvalidMessageError

NAME = "compact_context"

WRONG_ARGUMENTS = (InvalidArgumentError, InvalidMessageError)
"""The errors of `call` where the arguments are at fault."""

DESCRIPTION = (
    "Make a conversation fit a token budget without rewriting it: whole messages are kept word for "
    "word, in order, or dropped. Tool calls stay with their results, so the provider accepts what "
    "is left. System messages, the last user turn, the reply that it answers and an open tool loop "
    "are always kept, and of the rest what the turn asks for and what an agent that goes on "
    "working will need."
)

ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "messages": {
        "type": "array",
        "items": {"type": "object"},
        "description": "The conversation: messages for Anthropic or OpenAI chat, plain role and "
        "content, or the lines of a Claude Code transcript.",
    },
    **{
        name: {**option.schema, "description": option.description, "default": option.default}
        for name, option in OPTIONS.items()
        if option.schema
    },
}
"""The arguments that JSON can carry."""

_JSON_TYPES: Mapping[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
    Mapping[str, int]: {"type": "object", "additionalProperties": {"type": "integer"}},
}


def describe() -> dict[str, Any]:
    """Return the tool as `tools/list` shows it.

    >>> describe()["inputSchema"]["required"]
    ['messages']
    """
    return {
        "name": NAME,
        "description": DESCRIPTION,
        "inputSchema": {
            "type": "object",
            "properties": dict(ARGUMENTS),
            "required": ["messages"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "messages": {"type": "array", "items": {"type": "object"}},
                "stats": {
                    "type": "object",
                    "properties": {
                        name: _JSON_TYPES[kind] for name, kind in get_type_hints(Stats).items()
                    },
                    "required": [*Stats._fields],
                },
            },
            "required": ["messages", "stats"],
        },
    }


def call(arguments: Mapping[str, Any], memory: Memory | None = None) -> dict[str, Any]:
    """Return ``{"messages": [...], "stats": {...}}`` of the kept messages, with the memory's help.

    Raises one of ``WRONG_ARGUMENTS`` for arguments outside their limits; each names the value, the
    limit and the remedy. The caller has checked that all names are among ``ARGUMENTS``.

    >>> call({"messages": [{"role": "user", "content": "hello"}]})["messages"]
    [{'role': 'user', 'content': 'hello'}]
    """
    if "messages" not in arguments:
        raise InvalidArgumentError("messages is missing; send the conversation as an array")
    for name in ("archive", "distill_novel"):
        if memory is None and arguments.get(name):
            raise InvalidArgumentError(
                f"{name} is {arguments[name]!r}, but this server has no memory to write to; "
                "start it as rehydrate rpc --memory FILE --namespace NAME"
            )
    given = {name: _whole(value) for name, value in arguments.items()}
    if given.pop("distill_novel", False):  # the spelling of chitta's clients
        given.setdefault("archive", {"dropped": False, "novel": True})
    if isinstance(wishes := given.get("archive"), Mapping):
        known = OPTIONS["archive"].schema["properties"]
        if unknown := [name for name in wishes if name not in known]:
            names = ", ".join(map(repr, known))
            raise InvalidArgumentError(f"archive has {unknown[0]!r}; choose among {names}")
        given["archive"] = Archive(**wishes)
    return compact_context(**given, memory=memory).to_dict()


def archives(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call asks that what it drops is written to the memory."""
    archive = arguments.get("archive")
    return archive.get("dropped") is not False if isinstance(archive, Mapping) else bool(archive)


def _whole(value: Any) -> Any:
    """Convert 20000.0 to an integer, which it is in JSON and JSON Schema."""
    if isinstance(value, list) and all(isinstance(entry, (int, float)) for entry in value):
        return [_whole(entry) for entry in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which of the names was probably meant, for an error; "" if none is like it."""
    near = get_close_matches(name, names, n=1)
    return f", did you mean {near[0]!r}?" if near else ""
