"""Conversations of every format, and changes to them at any depth, by a seeded `Random`."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings

from tests.strategies import BY_FORMAT
from tests.stress.nasty import chat_round, nested, tool_round

PIXELS = base64.b64encode(bytes(range(256)) * 8).decode()
_URL = f"data:image/png;base64,{PIXELS}"
_SOURCE = {"type": "base64", "media_type": "image/png", "data": PIXELS}

ODD: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: "",
    lambda: " \n",
    list,
    dict,
    lambda: True,
    lambda: -1,
    lambda: 2**70,
    lambda: 10**400,
    lambda: 1.5,
    lambda: float("nan"),
    lambda: float("-inf"),
    lambda: "half \ud83d",
    lambda: "\udc00",
    lambda: "\0\x1b[31m\u2028\u202e",
    lambda: "e\u0301🙂漢字" * 40,
    lambda: "word " * 3_000,
    lambda: "x" * 20_000,
    lambda: PIXELS,
    lambda: _URL,
    lambda: nested(300, lambda core: [core]),
    lambda: nested(300, lambda core: {"k": core}),
    lambda: nested(300, lambda core: {"type": "text", "content": [core]}),
    lambda: [None],
    lambda: [[]],
    lambda: [{}],
    lambda: {"type": None},
    lambda: {"type": "text"},
    lambda: {1: 2},
    lambda: '{"a": [1, 2, {"b": null}]}',
    lambda: '{"a": ' + "[" * 300,
    lambda: b"bytes",
    lambda: ("tuple", 1),
    lambda: {"set"},
)
"""Values that may be anywhere."""

BLOCKS: tuple[Any, ...] = (
    {"type": "image", "source": _SOURCE},
    {"type": "document", "source": {**_SOURCE, "media_type": "application/pdf"}},
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text"}]},
    {"type": "image_url", "image_url": {"url": _URL}},
    {"type": "input_image", "image_url": _URL},
    {"type": "input_file", "file_data": _URL, "filename": "a.pdf"},
    {"type": "input_audio", "input_audio": {"data": PIXELS, "format": "wav"}},
    {"type": "file", "file": {"file_data": _URL}},
    {"type": "file", "source_type": "base64", "mime_type": "image/png", "data": PIXELS},
    {"type": "media", "mime_type": "image/png", "data": PIXELS},
    {"type": "image_generation_call", "id": "ig_1", "result": PIXELS, "status": "completed"},
    {"type": "compaction", "content": "Summary.", "encrypted_content": "c3Vt"},
    {"type": "compaction_summary", "encrypted_content": "c3Vt"},
    {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3Bh"},
    {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "b3Bh"},
    {"type": "reasoning", "reasoning": "Hm."},
    {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Read"}},
    {"type": "tool_use", "id": "odd_1", "name": "Read", "input": {"path": "a"}},
    {"type": "tool_result", "tool_use_id": "odd_1", "content": [{"type": "text", "text": "b"}]},
    {"type": "server_tool_use", "id": "srvtoolu_9", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_9", "content": []},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
    {"type": "function_call", "call_id": "odd_1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "odd_1", "output": [{"type": "input_text"}]},
    {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
    {"type": "shell_call", "call_id": "sh_1", "action": {"commands": ["ls"]}},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "output_text", "text": "said", "annotations": []},
    {"type": "refusal", "refusal": "No."},
    {"type": "from_the_future", "payload": {"deep": [PIXELS]}},
    {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}},
    {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}},
    {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
    {"document": {"format": "pdf", "name": "a", "source": {"bytes": b"%PDF"}}},
    {"cachePoint": {"type": "default"}},
    {"type": "tool-call", "toolCallId": "t", "toolName": "f", "input": {}},
    {"functionCall": {"name": "f", "args": {}}},
    {"text": "of Gemini's"},
)
"""Blocks and items of all formats, to put where they do not belong."""

ENTRIES: tuple[Any, ...] = (
    {"role": "system", "content": "By the way."},
    {"role": "developer", "content": "By the way."},
    {"role": "user", "content": "And then?"},
    {"role": "assistant", "content": "Then that."},
    {"role": "assistant", "content": []},
    {"role": "user", "content": list(BLOCKS[:3])},
    *tool_round("odd_1", "Read", {"path": "a.py"}, "def f(): ..."),
    *chat_round("odd_1", "read", '{"path": "a.py"}', "def f(): ..."),
    {"role": "function", "name": "f", "content": "r"},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"type": "user", "uuid": "odd", "message": {"role": "user", "content": "line"}},
    {"type": "summary", "summary": "s", "leafUuid": "odd"},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "x"}},
    {"role": "tool", "content": "of nobody"},
    {"role": "user", "content": [{"text": "And then?"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": 1}]}}]},
)

_KEYS = (
    *("role", "content", "type", "id", "text", "name", "input", "arguments", "tool_calls"),
    *("tool_use_id", "tool_call_id", "call_id", "cache_control", "citations", "uuid"),
    *("parentUuid", "message", "payload", "output", "summary", "isSidechain", "function_call"),
    *("toolUse", "toolResult", "toolUseId", "document", "reasoningContent"),
)


def corpus(number: int, of_each: int) -> dict[str, list[list[Any]]]:
    """Return so many valid conversations of each format, always the same for a number."""
    return {name: _drawn(name, number, of_each) for name in sorted(BY_FORMAT)}


def _drawn(name: str, number: int, size: int) -> list[list[Any]]:
    drawn: list[list[Any]] = []

    @seeded(number)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(BY_FORMAT[name]())
    def draw(entries: list[Any]) -> None:
        drawn.append(entries)

    draw()
    return drawn


def mutated(random: Random, entries: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return a copy with one to four changes, and parts of other conversations in it."""
    made = copy.deepcopy(list(entries))
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        with suppress(RecursionError):  # too deep for another copy
            if random.random() < 0.5:
                _change_list(random, made, others)
            else:
                _change_inside(random, made)
    return made


def _change_list(random: Random, made: list[Any], others: Sequence[Any]) -> None:
    size = len(made)
    place, other = random.randrange(size + 1), random.randrange(size + 1)
    kind = random.choice(("drop", "double", "move", "swap", "odd", "entry", "block", "borrow"))
    if kind == "drop":
        del made[place : place + random.choice((1, 1, 2, 5))]
    elif kind == "double":
        made[other:other] = copy.deepcopy(made[place : place + random.choice((1, 1, 3))])
    elif kind == "move" and place < size:
        made.insert(other, made.pop(place))
    elif kind == "swap" and size > 1:
        one, two = random.sample(range(size), 2)
        made[one], made[two] = made[two], made[one]
    elif kind == "odd":
        made.insert(place, random.choice(ODD)())
    elif kind == "entry":
        made.insert(place, copy.deepcopy(random.choice(ENTRIES)))
    elif kind == "block":
        made.insert(place, copy.deepcopy(random.choice(BLOCKS)))
    else:
        made.insert(place, copy.deepcopy(random.choice(others)))


def _change_inside(random: Random, made: list[Any]) -> None:
    """Change one value somewhere in an entry: replace, drop, rename, wrap it, or add to it."""
    places = list(_places(made))
    if not places:
        return
    # The upper levels have few values and most of the meaning.
    deepest = random.choice((2, 3, 4, 5, 99))
    shallow = [place for place in places if place[2] <= deepest] or places
    holder, key, _ = random.choice(shallow)
    value = holder[key]
    kind = random.choice(
        ("odd", "odd", "block", "blocks", "drop", "rename", "wrap", "unwrap", "double", "id", "add")
    )
    if kind in ("drop", "rename") and "additional_kwargs" in holder:
        return  # the objects of LangChain never lack a field
    if kind == "id":
        _change_id(random, places)
    elif kind == "drop":
        del holder[key]
    elif kind == "rename" and isinstance(holder, dict):
        holder[random.choice(_KEYS)] = holder.pop(key)
    elif kind == "double" and isinstance(value, list):
        value.extend(copy.deepcopy(value))
    elif kind == "add" and isinstance(value, dict):
        value[random.choice(_KEYS)] = random.choice(ODD)()
    else:
        holder[key] = _another(random, kind, value)


def _another(random: Random, kind: str, value: Any) -> Any:  # noqa: PLR0911  a table of kinds
    """Return a replacement for a value."""
    if kind == "odd":
        return random.choice(ODD)()
    if kind == "block":
        return copy.deepcopy(random.choice(BLOCKS))
    if kind == "blocks":
        found = [copy.deepcopy(random.choice(BLOCKS)) for _ in range(random.choice((1, 2, 3)))]
        return (
            [*value[: random.randrange(len(value) + 1)], *found]
            if isinstance(value, list)
            else found
        )
    if kind == "wrap":
        return random.choice(([value], {"content": value}, [value, value], {"type": value}))
    if kind == "unwrap" and isinstance(value, list) and value:
        return value[0]
    if kind == "unwrap" and isinstance(value, dict) and value:
        return random.choice([*value.values()])
    return value


def spoil(random: Random, messages: Sequence[Any]) -> None:
    """Put odd values into the fields of a framework's own messages, which it does not check
    again."""
    for _ in range(random.choice((1, 1, 2, 4))):
        places = list(_places(list(messages)))
        if not places:
            return
        if random.random() < 0.3:
            _change_id(random, places)
        else:
            holder, key, _depth = random.choice(places)
            holder[key] = random.choice(ODD)()


_IDS = frozenset({"id", "tool_use_id", "tool_call_id", "call_id", "uuid", "parentUuid"})
_IDS |= {"toolUseId"}


def _change_id(random: Random, places: Sequence[tuple[Any, Any, int]]) -> None:
    ids = [(holder, key) for holder, key, _ in places if key in _IDS]
    if not ids:
        return
    holder, key = random.choice(ids)
    other, other_key = random.choice(ids)
    holder[key] = random.choice((other[other_key], "", None, 7, "\ud800", {"id": 1}, "x" * 5_000))


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any, int]]:
    """Yield each value's holder, key and depth, down to where a copy may be too deep."""
    if depth > 12:
        return
    keys: Any = ()
    if hasattr(value, "__dict__") and not callable(value):  # a framework's message, or a part
        value = value.__dict__
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        if depth:
            yield value, key, depth
        yield from _places(value[key], depth + 1)
