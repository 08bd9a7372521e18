"""OpenAI Responses items: messages, reasoning, tool calls and outputs, each an entry of its own.

One assistant message of other formats is several consecutive items here: the model's turn. Within a
turn a reasoning item and the items it led to are one unit, up to the next reasoning. From the first
tool call on the rest of the turn is one unit: the API refuses a reasoning item without what
followed it, and what followed without its reasoning. Outputs belong to the call with their
`call_id`, not `id`, which names the item.

Items that refer to something only the provider holds are always kept: an `item_reference` and what
followed from it, the last `compaction`, and an output whose call was made in the response that
`previous_response_id` names.

Server tools and items of unknown types are counted as text and pass through unchanged. An output
that the provider made itself (of a tool search, a program, a hosted shell) does not end the model's
turn. The calls that a program makes belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.formats import openai_chat
from rehydrate.formats._reading import (
    Places,
    entries_without_thinking,
    read_entries,
    read_places,
    replace_texts,
    response_item,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    Part,
    RenderedMessage,
    Result,
    Text,
    arguments,
    one_or_all,
)
from rehydrate.messages import Conversation

NAME = "openai_responses"
replace = replace_texts
system, user = openai_chat.system, openai_chat.user

_CLIENT_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls of the caller's own tools, and the key of their input."""
_CALLS = frozenset(_CLIENT_CALLS) | {
    *("mcp_call", "mcp_approval_request", "computer_call", "local_shell_call", "shell_call"),
    *("apply_patch_call", "web_search_call", "file_search_call", "code_interpreter_call"),
    *("tool_search_call", "program"),
}


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Responses items; raises InvalidMessageError for an entry that is no item."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the path of each text that `parse` reads of this entry; None: it must not change."""
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the input of a call of a function or custom tool, which the caller runs."""
    kind, _, call, _ = response_item(entry, 0)
    if kind not in _CLIENT_CALLS:
        return [None] if kind in _CALLS else []
    key = _CLIENT_CALLS[kind]
    is_text = kind == "custom_tool_call"
    return [Input(call, entry.get("name"), entry.get(key), ((key,),), is_text)]


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the item is a thought, or holds its signature."""
    return is_signed(entry)


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each item without reasoning: itself, None for reasoning, or a copy without its id for
    an item that reasoning led to, since the API refuses that id without the reasoning.

    Reasoning stays if it led to an item that needs its id (a server tool's call, a reference).
    """
    return entries_without_thinking(NAME, entries)


def program_of(call: Mapping[str, Any]) -> Any:
    """Return the id of the program that made this call; None for a call of the model's."""
    caller = call.get("caller")
    return caller.get("caller_id") if isinstance(caller, Mapping) else None


_CHAT_KEYS = frozenset(
    {
        *("name", "tool_calls", "function_call", "refusal", "audio", "annotations"),
        *("reasoning", "reasoning_content", "reasoning_details"),
    }
)


def own(entry: Any) -> Any:
    """Return a message without chat's keys beside its content; an item unchanged.

    >>> own({"role": "assistant", "content": "hi", "tool_calls": None})
    {'role': 'assistant', 'content': 'hi'}
    """
    if "role" not in entry or _CHAT_KEYS.isdisjoint(entry):
        return entry
    return {key: value for key, value in entry.items() if key not in _CHAT_KEYS}


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.responses.create``."""
    return {**({"tools": tools} if tools else {}), "input": [*system, *messages]}


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return the messages as items."""
    return [
        RenderedMessage(item, each.sources)
        for each in messages
        for item in ([each.entry] if each.entry is not None else _items(each))
    ]


def mark(message: Any) -> None:
    """Return None: OpenAI caches prefixes without marks."""
    del message


def _items(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        if message.text:
            yield system(message.text)
    elif message.role == "assistant":
        if message.text:
            yield {"role": "assistant", "content": message.text}
        for part in message.parts:
            if isinstance(part, Call):
                yield {
                    "type": "function_call",
                    "call_id": part.id,
                    "name": part.name,
                    "arguments": arguments(part.input),
                }
    else:
        for part in message.parts:
            if isinstance(part, Result):
                output = _content(part.parts) if part.parts else ""
                yield {"type": "function_call_output", "call_id": part.id, "output": output}
        rest = [part for part in message.parts if isinstance(part, (Text, Media))]
        if rest:
            yield {"role": "user", "content": _content(rest)}


def _content(parts: Sequence[Part]) -> Any:
    shown: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            shown.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Media):
            shown.append(_media(part))
    return one_or_all(shown, "input_text")


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "image":
        return {"type": "input_image", "image_url": media.url, "detail": "auto"}
    if media.url.startswith("data:"):
        name = media.name or "file.pdf"
        return {"type": "input_file", "filename": name, "file_data": media.url}
    return {"type": "input_file", "file_url": media.url}
