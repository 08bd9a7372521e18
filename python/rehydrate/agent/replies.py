"""Repair of a model's reply, so that its provider accepts the history with the reply in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rehydrate import formats
from rehydrate._text import FreeNames
from rehydrate.agent.models.model import Reply
from rehydrate.errors import Violation
from rehydrate.formats.calls import ToolCall, result_entries
from rehydrate.messages import Provider

_USER = {"role": "user", "content": "?"}


def repair_reply(reply: Reply, used_ids: Iterable[str]) -> tuple[Reply, list[str]]:
    """Return the repaired reply, and a note for each id that changed.

    A call id that was used before gets a number: some local servers begin with ``call_0`` in every
    reply. Arguments that are not a JSON object become an empty one in the history; the `ToolCall`
    keeps them, so that the error result can quote them. Empty text blocks are dropped, and
    reasoning items that nothing follows. A reply that needs no repair is returned as it is.
    """
    notes: list[str] = []
    names = FreeNames(used_ids, "_")
    new_ids: list[str] = []
    for call in reply.calls:
        new_id = names.take(call.id)
        if new_id != call.id:
            notes.append(f"the model used the call id {call.id!r} twice; it is {new_id!r} now")
        new_ids.append(new_id)
    queue = list(zip(reply.calls, new_ids, strict=True))
    entries = [repaired for entry in reply.entries for repaired in _repaired_entry(entry, queue)]
    entries = _without_trailing_reasoning(entries)
    if _are_same(entries, reply.entries):
        return reply, notes
    calls = tuple(
        [call._replace(id=new_id) for call, new_id in zip(reply.calls, new_ids, strict=True)]
    )
    return replace(reply, entries=tuple(entries), calls=calls), notes


def violations_of_reply(
    entries: Sequence[Any], results: Sequence[Any], provider: Provider
) -> list[Violation]:
    """Return what the provider would refuse in a history of these entries and results."""
    history = [_USER, *entries, *result_entries(results), _USER]
    return formats.validate(history, provider)


def call_ids(entries: Iterable[Any]) -> Iterator[str]:
    """Yield the ids of all calls in a history, in any provider's shape."""
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        if isinstance(call_id := entry.get("call_id"), str):
            yield call_id
        for key in ("content", "tool_calls"):
            blocks = entry.get(key)
            for block in blocks if isinstance(blocks, (list, tuple)) else ():
                if isinstance(block, Mapping) and isinstance(block.get("id"), str):
                    yield block["id"]


def _are_same(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """Return whether two sequences hold the very same objects."""
    return len(new) == len(old) and all(one is other for one, other in zip(new, old, strict=True))


def _repaired_entry(entry: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield the entry with its calls repaired. `queue` holds the calls that follow, in order."""
    if not isinstance(entry, Mapping):
        yield entry
        return
    if "call_id" in entry and queue and queue[0][0].id == entry["call_id"]:
        yield _repaired_call(entry, "call_id", queue.pop(0)[1], "arguments")
        return
    changed = dict(entry)
    for key, repair in (("content", _repaired_block), ("tool_calls", _repaired_chat_call)):
        blocks = entry.get(key)
        if isinstance(blocks, (list, tuple)):
            repaired = [one for block in blocks for one in repair(block, queue)]
            if not _are_same(repaired, blocks):
                changed[key] = repaired
    same = all(changed[key] is entry[key] for key in entry)
    yield entry if same else changed


def _repaired_block(block: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield a content block of Anthropic's, repaired; nothing for an empty text."""
    if not isinstance(block, Mapping):
        yield block
    elif block.get("type") == "tool_use" and queue and queue[0][0].id == block.get("id"):
        yield _repaired_call(block, "id", queue.pop(0)[1], "input")
    elif not (block.get("type") == "text" and block.get("text") == ""):
        yield block


def _repaired_chat_call(call: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """Yield a tool call of OpenAI chat's, repaired."""
    if isinstance(call, Mapping) and queue and queue[0][0].id == call.get("id"):
        repaired = _repaired_call(call, "id", queue.pop(0)[1], "")
        function = call.get("function")
        if isinstance(function, Mapping) and not _is_object(function.get("arguments")):
            repaired = {**repaired, "function": {**function, "arguments": "{}"}}
        yield repaired
    else:
        yield call


def _repaired_call(
    call: Mapping[str, Any], id_key: str, new_id: str, arguments_key: str
) -> Mapping[str, Any]:
    changes: dict[str, Any] = {}
    if call[id_key] != new_id:
        changes[id_key] = new_id
    if arguments_key and not _is_object(call.get(arguments_key)):
        changes[arguments_key] = {} if arguments_key == "input" else "{}"
    return {**call, **changes} if changes else call


def _is_object(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            return isinstance(json.loads(arguments), dict)
        except (ValueError, RecursionError):
            return False
    return isinstance(arguments, Mapping)


def _without_trailing_reasoning(entries: list[Any]) -> list[Any]:
    """Return the entries without Responses' reasoning items at the end; the API refuses them."""
    while entries and isinstance(entries[-1], Mapping) and entries[-1].get("type") == "reasoning":
        entries.pop()
    return entries
