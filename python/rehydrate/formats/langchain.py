"""LangChain message objects: read in part_index; kept messages are the same objects.

The objects are recognised by their attributes, so LangChain need not be installed or imported. One
call may be in `tool_calls`, in a content block and in `additional_kwargs`; it is read once. A
ToolMessage's artifact is for the program and a RemoveMessage is an order to a graph's state:
neither is read.

LangChain sends one list to any provider. The rules are those of OpenAI chat, the model of its
messages. A list that begins with the user still does after parts are dropped, since some providers
require it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import InvalidMessageError, MissingPackageError
from rehydrate.formats._reading import (
    Path,
    Places,
    as_entry,
    as_list,
    as_message,
    as_role,
    as_sequence,
    content_without_thinking,
    json_object,
    langchain_calls,
    langchain_inputs,
    langchain_role,
    read_entries,
    read_places,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.messages import Conversation

NAME = "langchain"

_CLIENT_CALLS = frozenset(
    {"tool_use", "tool_call", "invalid_tool_call", "function_call", "custom_tool_call"}
)
"""Types of blocks that are calls which the client answers."""
_THINKING_BLOCKS = ("thinking", "reasoning", "reasoning_content", "redacted_thinking")
_REASONING_EXTRA = "reasoning_content"


def parse(entries: Sequence[Any]) -> Conversation:
    """Read LangChain messages; raises InvalidMessageError for anything else."""
    return read_entries(NAME, entries)


def places(entry: Any, index: int) -> Places:
    """Return the path of each text that `parse` reads of this message; None: it must not change."""
    return read_places(NAME, entry, index)


def replace(entry: Any, texts: Mapping[Path, Any]) -> Any:
    """Return a copy of the message with these texts at their paths; all else is the same."""
    fields = {str(step): getattr(entry, str(step)) for step, *_ in texts}
    return entry.model_copy(update=replace_texts(fields, texts))


def inputs(entry: Any) -> Inputs:
    """Return each call's input with all its paths in the message; None for a server's call, and for
    a call without an id."""
    return [found and Input(*found) for found in langchain_inputs(entry)]


def signed(entry: Any) -> bool:
    """Return whether the message holds a thought, or a signature that goes with its calls."""
    return is_signed([entry.content, extras_of(entry)])


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each message without thinking blocks: itself, a copy, or None where nothing is left.

    A message from OpenAI's Responses API stays as it is: its reasoning has an id, and other ids in
    it, also LangChain's own, refer to that id.
    """
    return [_without_thinking(entry) for entry in entries]


def _without_thinking(entry: Any) -> Any:
    if role_of(entry) != "assistant":
        return entry
    content, extras = entry.content, extras_of(entry)
    rest = content_without_thinking(content, _THINKING_BLOCKS)
    is_nothing = rest is not content and not rest
    bound = any(
        type_of(block) == "reasoning" and isinstance(block.get("id"), str)
        for block in mappings(content)
    )
    if bound or (rest is content and not extras.get(_REASONING_EXTRA)):
        return entry
    if (is_nothing or not content) and not calls_of(entry) and not extras.get("refusal"):
        return None
    kept = {key: value for key, value in extras.items() if key != _REASONING_EXTRA}
    return entry.model_copy(update={"content": rest, "additional_kwargs": kept})


role_of = langchain_role


class Call(NamedTuple):
    """A tool call; `input` is a string where it is no JSON, or has not been parsed."""

    id: str | None
    name: object
    input: object
    by_server: bool = False


def calls_of(entry: Any) -> list[Call]:
    """Return the tool calls of an assistant message, each once."""
    return list(map(Call._make, langchain_calls(entry)))


def extras_of(entry: Any) -> Mapping[str, Any]:
    """Return the message's `additional_kwargs`."""
    extras = entry.additional_kwargs
    return extras if isinstance(extras, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none where it is no list."""
    if not isinstance(value, (list, tuple)):
        return []
    return [item for item in value if isinstance(item, Mapping)]


_DEVELOPER = "__openai_role__"  # LangChain's note that a system message is the developer's
_SPEAKS_OTHERWISE = frozenset({"tool_calls", "function_call", "refusal", "audio"})
_EXTRAS = ("refusal", "reasoning_content", "audio", "function_call")


def langchain_to_openai(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert LangChain message objects to OpenAI chat dicts; LangChain need not be installed.

    Texts, blocks, tool calls (invalid ones too), results, ids, names and refusals are kept. Fields
    that no provider is sent are dropped: a message's own id, its metadata, a tool's artifact.
    Raises InvalidMessageError with the index for an entry that is no message or cannot be in a
    request.

    >>> from langchain_core.messages import HumanMessage
    >>> langchain_to_openai([HumanMessage("hi")])
    [{'role': 'user', 'content': 'hi'}]
    """
    return [_to_openai(as_message(raw, i), i) for i, raw in enumerate(as_sequence(messages))]


def openai_to_langchain(messages: Sequence[Any]) -> list[Any]:
    """Convert OpenAI chat dicts to LangChain message objects, made by langchain-core.

    Arguments of a call that are no JSON object become an invalid tool call, which keeps their text.
    Raises MissingPackageError without langchain-core, InvalidMessageError for an entry that is no
    message.

    >>> openai_to_langchain([{"role": "user", "content": "hi"}])[0].content
    'hi'
    """
    entries = [as_entry(raw, index) for index, raw in enumerate(as_sequence(messages))]
    for index, entry in enumerate(entries):
        as_role(entry, index)
    try:
        from langchain_core.messages import convert_to_messages
    except ImportError:
        raise MissingPackageError("langchain-core", "makes LangChain's messages") from None
    converted = []
    for index, entry in enumerate(entries):
        calls = _calls_for_langchain(entry, index)
        # LangChain's own parser of calls refuses arguments that are no JSON, as models write them.
        rest = {key: entry[key] for key in entry if key != "tool_calls" and entry[key] is not None}
        try:
            (message,) = convert_to_messages([{"content": "", **rest}])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            remedy = f"LangChain says: {str(error).splitlines()[0]}"
            raise InvalidMessageError(index, "", entry, "an OpenAI chat message", remedy) from error
        converted.append(message.model_copy(update=calls) if any(calls.values()) else message)
    return converted


def _to_openai(entry: Any, index: int) -> dict[str, Any]:
    role = role_of(entry)
    if entry.type == "remove":
        remedy = "it is an order to a graph's state; leave it out"
        raise InvalidMessageError(index, "", entry, "a message that is sent", remedy)
    extras = extras_of(entry)
    message: dict[str, Any] = {"role": extras.get(_DEVELOPER, role), "content": _content(entry)}
    if isinstance(getattr(entry, "tool_call_id", None), str):
        message["tool_call_id"] = entry.tool_call_id
    elif role == "tool":
        message["role"] = "function"
    if entry.name is not None:
        message["name"] = entry.name
    message |= {key: extras[key] for key in _EXTRAS if key in extras}
    calls = [call for call in calls_of(entry) if not call.by_server]
    if calls and "function_call" not in message:
        message["tool_calls"] = [_call_for_openai(call) for call in calls]
    if message["content"] in ("", []) and not _SPEAKS_OTHERWISE.isdisjoint(message):
        message["content"] = None
    return message


def _content(entry: Any) -> Any:
    if not isinstance(entry.content, list):
        return entry.content
    # Calls among the blocks are moved into `tool_calls`, which holds all of them.
    return [
        block
        for block in entry.content
        if not (isinstance(block, Mapping) and type_of(block) in _CLIENT_CALLS)
    ]


def _call_for_openai(call: Call) -> dict[str, Any]:
    arguments = call.input
    if not isinstance(arguments, str):
        given = {} if arguments is None else arguments
        arguments = json.dumps(given, ensure_ascii=False, default=str)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _calls_for_langchain(entry: Mapping[str, Any], index: int) -> dict[str, list[Any]]:
    """Return the fields of an AIMessage that hold these calls."""
    calls: list[Any] = []
    invalid: list[Any] = []
    for part_index, raw in enumerate(as_list(entry.get("tool_calls") or [], index, "tool_calls")):
        part = f"tool_calls[{part_index}]"
        call = as_entry(raw, index, part)
        function = call.get("function")
        if not isinstance(function, Mapping):
            remedy = "LangChain's messages hold no others; leave its message and its result out"
            raise InvalidMessageError(index, part, call, "a function call", remedy)
        arguments = function.get("arguments")
        made = {"name": function.get("name"), "args": arguments, "id": call.get("id")}
        parsed = json_object(arguments)
        if parsed is None:
            invalid.append(made | {"error": None, "type": "invalid_tool_call"})
        else:
            calls.append(made | {"args": parsed, "type": "tool_call"})
    return {"tool_calls": calls, "invalid_tool_calls": invalid}
