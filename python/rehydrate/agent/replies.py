"""A reply made fit for the history: mended where its provider would refuse to be sent it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rehydrate import formats
from rehydrate.agent.models.model import Reply
from rehydrate.errors import Violation
from rehydrate.formats.calls import ToolCall, result_entries
from rehydrate.messages import Provider

_USER = {"role": "user", "content": "?"}


def fit_reply(reply: Reply, used_ids: Iterable[str]) -> tuple[Reply, list[str]]:
    """The reply with what can be mended mended, and notes of what was.

    Ids of calls that were used before get a number (local servers begin with ``call_0`` every
    time), arguments that are no object are sent back as an empty one (the call itself keeps them,
    for its error to name), empty text blocks and thoughts that led to nothing are left out. A
    reply that needs nothing is returned as it is.
    """
    notes: list[str] = []
    used = set(used_ids)
    ids: list[str] = []
    for call in reply.calls:
        new = _unused(call.id, used)
        if new != call.id:
            notes.append(f"the model used the call id {call.id!r} twice; it is {new!r} now")
        used.add(new)
        ids.append(new)
    queue = list(zip(reply.calls, ids, strict=True))
    entries = [fitted for entry in reply.entries for fitted in _entry(entry, queue)]
    entries = _led_somewhere(entries)
    if len(entries) == len(reply.entries) and all(map(_is, entries, reply.entries)):
        return reply, notes
    calls = tuple([call._replace(id=new) for call, new in zip(reply.calls, ids, strict=True)])
    return replace(reply, entries=tuple(entries), calls=calls), notes


def would_be_refused(
    entries: Sequence[Any], results: Sequence[Any], provider: Provider
) -> list[Violation]:
    """Why a provider would refuse a history that these entries are in, answered so."""
    said = [_USER, *entries, *result_entries(results), _USER]
    return formats.validate(said, provider)


def call_ids(entries: Iterable[Any]) -> Iterator[str]:
    """The ids of all calls in a history, in any provider's shape."""
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        if isinstance(found := entry.get("call_id"), str):
            yield found
        for key in ("content", "tool_calls"):
            blocks = entry.get(key)
            for block in blocks if isinstance(blocks, (list, tuple)) else ():
                if isinstance(block, Mapping) and isinstance(block.get("id"), str):
                    yield block["id"]


def _is(one: object, other: object) -> bool:
    return one is other


def _unused(name: str, used: set[str]) -> str:
    number, new = 1, name
    while new in used:
        number += 1
        new = f"{name}_{number}"
    return new


def _entry(entry: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """The entry with its calls mended, in order; none where nothing is left of it."""
    if not isinstance(entry, Mapping):
        yield entry
        return
    if "call_id" in entry and queue and queue[0][0].id == entry["call_id"]:
        yield _mended(entry, "call_id", queue.pop(0)[1], "arguments")
        return
    changed = dict(entry)
    for key, mend in (("content", _block), ("tool_calls", _chat_call)):
        blocks = entry.get(key)
        if isinstance(blocks, (list, tuple)):
            fitted = [one for block in blocks for one in mend(block, queue)]
            if len(fitted) != len(blocks) or not all(map(_is, fitted, blocks)):
                changed[key] = fitted
    same = all(changed[key] is entry[key] for key in entry)
    yield entry if same else changed


def _block(block: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """A block of Anthropic's."""
    if not isinstance(block, Mapping):
        yield block
    elif block.get("type") == "tool_use" and queue and queue[0][0].id == block.get("id"):
        yield _mended(block, "id", queue.pop(0)[1], "input")
    elif not (block.get("type") == "text" and block.get("text") == ""):
        yield block


def _chat_call(call: Any, queue: list[tuple[ToolCall, str]]) -> Iterator[Any]:
    """A tool call of OpenAI chat's."""
    if isinstance(call, Mapping) and queue and queue[0][0].id == call.get("id"):
        mended = _mended(call, "id", queue.pop(0)[1], "")
        function = call.get("function")
        if isinstance(function, Mapping) and not _is_object(function.get("arguments")):
            mended = {**mended, "function": {**function, "arguments": "{}"}}
        yield mended
    else:
        yield call


def _mended(call: Mapping[str, Any], key: str, new: str, arguments: str) -> Mapping[str, Any]:
    changes: dict[str, Any] = {}
    if call[key] != new:
        changes[key] = new
    if arguments and not _is_object(call.get(arguments)):
        changes[arguments] = {} if arguments == "input" else "{}"
    return {**call, **changes} if changes else call


def _is_object(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            return isinstance(json.loads(arguments), dict)
        except (ValueError, RecursionError):
            return False
    return isinstance(arguments, Mapping)


def _led_somewhere(entries: list[Any]) -> list[Any]:
    """Without reasoning items of Responses' at the end: their item never came."""
    while entries and isinstance(entries[-1], Mapping) and entries[-1].get("type") == "reasoning":
        entries.pop()
    return entries
