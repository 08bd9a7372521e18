"""The served tool: the arguments and results of compact_context as JSON Schema, and its call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

from rehydrate._engine import COUNTERS
from rehydrate.compact.api import compact_context
from rehydrate.compact.archive import Archive
from rehydrate.compact.arguments import GRANULARITIES, THINKING
from rehydrate.compact.result import Stats
from rehydrate.compact.scoring import PROFILES
from rehydrate.compact.signals import Memory
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.formats import FORMATS
from rehydrate.messages import PROVIDERS

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
    "query": {
        "type": ["string", "null"],
        "description": "What the next turn is about; null: what the user said last.",
    },
    "target_ratio": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "description": "Share of the tokens to keep, from 0.05 (what is less is taken as that).",
    },
    "budget_tokens": {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "Tokens to keep, instead of target_ratio.",
    },
    "scoring": {
        "type": "string",
        "enum": [*PROFILES],
        "description": "How messages are judged; chitta is the plain formula of three signals.",
    },
    "counter": {
        "type": ["string", "null"],
        "enum": [*COUNTERS, None],
        "description": "What counts tokens: an exact encoding, or an estimate by words or "
        "characters. null: the scoring's own.",
    },
    "format": {
        "type": "string",
        "enum": ["auto", *FORMATS],
        "description": "The messages' format, where it should not be detected.",
    },
    "granularity": {
        "type": "string",
        "enum": [*GRANULARITIES],
        "description": "What is kept or dropped whole: messages, or also blocks of long texts.",
    },
    "thinking": {
        "type": "string",
        "enum": [*THINKING],
        "description": "The model's thinking in kept messages: auto keeps what the model takes "
        "back (newer Claude models refuse it behind a change), keep all of it, strip none but "
        "that of an open tool loop.",
    },
    "provider": {
        "type": ["string", "null"],
        "enum": [*PROVIDERS, None],
        "description": "For whom a list of OpenAI chat or plain messages is, where a gateway sends "
        "it on; null: the list's own, or anthropic where the model is a Claude.",
    },
    "model": {
        "type": "string",
        "description": "The model that is asked next, which decides what thinking auto keeps; "
        "empty: a Claude that takes none behind a change.",
    },
    "timeout": {
        "type": ["number", "null"],
        "minimum": 0,
        "description": "Seconds after which the answer is made with the vectors there are.",
    },
    "archive": {
        "type": ["boolean", "object"],
        "properties": {
            "dropped": {"type": "boolean", "description": "Every dropped message, whole."},
            "novel": {"type": "boolean", "description": "What memory does not hold yet."},
            "episode": {"type": "boolean", "description": "One line about this compaction."},
            "thread": {"type": ["string", "null"], "description": "The conversation's name."},
        },
        "additionalProperties": False,
        "description": "What is written to the server's memory before it is dropped; true: every "
        "dropped message, whole. Marks of gaps name its handle.",
    },
    "outline": {
        "type": ["boolean", "number"],
        "description": "List the names in what is dropped, in a message of its own where the first "
        "gap is: true, or its size in tokens (a whole number) or as a share of the conversation.",
    },
    "pin": {
        "type": "array",
        "items": {"type": "integer"},
        "description": "Messages that are always kept: their indices, from the end if negative.",
    },
}
"""The arguments that JSON can carry; their defaults are those of the Python function."""

NOT_SERVED = {
    "memory": "the server's own: `rehydrate rpc --memory FILE --namespace NAME`",
    "embedder": "a callable, or which of the server's own models to use: the server's choice",
}
"""The function's other parameters, and why a client cannot set them."""

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
            "properties": {name: schema | _default(name) for name, schema in ARGUMENTS.items()},
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
    if memory is None:
        _refuse_writing(arguments)
    given = {name: _whole(value) for name, value in arguments.items()}
    if given.pop("distill_novel", False):  # the spelling of chitta's clients
        given.setdefault("archive", {"dropped": False, "novel": True})
    if isinstance(given.get("archive"), Mapping):
        given["archive"] = _archive(given["archive"])
    return compact_context(**given, memory=memory).to_dict()


def _refuse_writing(arguments: Mapping[str, Any]) -> None:
    for name in ("archive", "distill_novel"):
        if arguments.get(name):
            raise InvalidArgumentError(
                f"{name} is {arguments[name]!r}, but this server has no memory to write to; "
                "start it as rehydrate rpc --memory FILE --namespace NAME"
            )


def _archive(wishes: Mapping[str, Any]) -> Archive:
    unknown = [name for name in wishes if name not in ("dropped", "novel", "episode", "thread")]
    if unknown:
        raise InvalidArgumentError(
            f"archive has {unknown[0]!r}; choose among 'dropped', 'novel', 'episode', 'thread'"
        )
    return Archive(**wishes)


def _whole(value: Any) -> Any:
    """Convert 20000.0 to an integer, which it is in JSON and JSON Schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_whole(entry) for entry in value] if _are_numbers(value) else value


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, (int, float)) for entry in value)


def _default(name: str) -> dict[str, Any]:
    default = inspect.signature(compact_context).parameters[name].default
    if default is inspect.Parameter.empty:
        return {}
    return {"default": list(default) if isinstance(default, tuple) else default}
