"""The native readers read what the formats' own readers read, whatever stands in a list."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate._native import Draft, format_of, readable_texts
from rehydrate.errors import RehydrateError
from rehydrate.formats import FORMATS, detect_format
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from tests.formats import blocks_twin
from tests.formats.reading_twin import read_slowly
from tests.strategies import BY_FORMAT, damaged


class Text(str):
    """A string that is not exactly one."""

    __slots__ = ()


class Entry(dict):
    """A dict that is not exactly one."""


texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            *("", " ", "\x1c\x1f", 'quote " and \\', "\x00\x1f\x7f\n\r\t\b\f", "größe 漢字 🎈"),
            *("\ud800 lone", "data:image/png;base64,AAAA", "DATA:text/plain,x", Text("of a class")),
        ]
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=True) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.integers(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=6,
)
odd = st.one_of(st.none(), st.integers(), texts, st.lists(texts, max_size=2))
inputs = st.dictionaries(texts, json_values, max_size=3)
ids = st.sampled_from(["a", "b", "c", "\ud800", "\udfff", Text("a")])
parts = st.one_of(
    texts,
    st.fixed_dictionaries({"type": st.just("text"), "text": texts | odd}),
    st.fixed_dictionaries({"type": st.sampled_from(["image", "image_url", "file", "document"])}),
)
blocks = st.one_of(
    parts,
    st.fixed_dictionaries({"type": st.just("text"), "text": texts, "citations": odd}),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": texts | odd}, optional={"signature": texts}
    ),
    st.just({"type": "redacted_thinking", "data": "x"}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": ids | odd, "name": texts | odd},
        optional={"input": inputs | json_values},
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_use_id": ids | odd},
        optional={"content": texts | st.lists(parts, max_size=2) | odd, "is_error": st.booleans()},
    ),
    st.fixed_dictionaries({"type": texts | odd}, optional={"text": texts}),
)
contents = st.lists(blocks, max_size=3) | texts | st.none() | odd | st.tuples(blocks)
names = st.sampled_from(
    [
        *("text", "input_text", "summary_text", "document", "media", "file", "compaction", ""),
        *("refusal", "reasoning", "search_result", "cachePoint", "server_thing", "x_tool_result"),
        *("web_search_tool_use", "x_tool_use", "mcp_call", "x_approval_request", "hologram"),
        *("tool-call", "functionResponse", "x_call_output", "Tool_Error", "citation", "\ud800"),
    ]
)
payloads = st.sampled_from(
    [
        "QUJD" * 16,
        "QUJD" * 128 + "=",
        "data:image/png;base64,AA",
        "DATA:x;y;BASE64,",
        "data:,x",
        b"x",
    ]
)
values = st.recursive(
    texts | payloads | st.none() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "data", "text", "blob", "mimeType", "title", "id", "x", 3]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
foreign = st.fixed_dictionaries(
    {"type": names},
    optional=dict.fromkeys(
        (
            *("text", "content", "data", "title", "citations", "url", "tool_use_id", "name"),
            *("encrypted_x", "source_type", "toolUse", "kind", "callId", "format", "input"),
        ),
        values,
    )
    | {
        "source": st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "content", "base64", 1])},
            optional={"data": values, "content": values},
        )
    },
)


@given(st.lists(foreign | texts, max_size=3) | values, st.sampled_from(PieceKind))
def test_any_content_is_read_alike(content: Any, kind: PieceKind) -> None:
    def said(draft: Any) -> Any:
        draft.add_content(content, kind, ("at",))
        return draft.places, draft.has_pair

    read, slow = Draft(3), blocks_twin.Draft(3)
    assert outcome(lambda: said(read)) == outcome(lambda: said(slow))
    message = {"role": "tool" if kind == PieceKind.TOOL_RESULT else "user", "content": content}
    assert_read_alike("openai_chat", [message])
    found = outcome(lambda: list(readable_texts(content)))
    assert found == outcome(lambda: list(blocks_twin.readable_texts(content)))


roles = st.sampled_from(
    ["user", "assistant", "assistant", "system", "developer", "tool", "function", "critic", "", 3]
)
anthropic_entries = st.fixed_dictionaries({"role": roles}, optional={"content": contents})
plain_entries = st.fixed_dictionaries(
    {"role": roles},
    optional={"content": st.lists(parts, max_size=2) | texts | odd, "parts": odd, "name": texts},
)
calls = st.fixed_dictionaries(
    {"type": st.just("function")},
    optional={
        "id": ids | odd,
        "function": st.fixed_dictionaries(
            {"name": texts | odd}, optional={"arguments": inputs | odd}
        )
        | odd,
        "custom": st.just({"name": "x", "input": "y"}),
    },
)
chat_entries = st.fixed_dictionaries(
    {"role": roles},
    optional={
        "content": st.lists(parts, max_size=2) | texts | odd,
        "tool_calls": st.lists(calls, max_size=2) | odd,
        "tool_call_id": ids | odd,
        "name": texts,
        "refusal": odd,
        "audio": st.none() | st.just({"transcript": "said"}),
        "function_call": st.none() | st.just({"name": "f", "arguments": "{}"}),
        "reasoning": odd,
        "reasoning_content": odd,
        "reasoning_details": odd,
    },
)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "assistant", "progress", "system", 1])},
    optional={
        "uuid": st.sampled_from(["1", "2", "3", "4", "5", "\ud800", Text("1"), 7]),
        "message": st.fixed_dictionaries({"content": contents}, optional={"id": ids | odd})
        | st.none(),
        "isMeta": st.sampled_from([True, False, None, 1, ""]),
        "isSidechain": st.sampled_from([True, False, False, None]),
        "isApiErrorMessage": st.sampled_from([False, False, True]),
        "sourceToolUseID": ids | odd,
    },
)
bedrock_parts = st.dictionaries(
    st.sampled_from(
        [
            *("text", "toolUse", "toolResult", "reasoningContent", "image", "json", "document"),
            *("guardContent", "citationsContent", "cachePoint", "toolRemoval", "type", "x"),
        ]
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "toolUseId": ids | odd,
            "name": texts | odd,
            "input": inputs,
            "content": st.lists(blocks | st.fixed_dictionaries({"text": texts}), max_size=2) | odd,
            "source": st.fixed_dictionaries({}, optional={"text": texts, "content": odd}) | odd,
            "reasoningText": st.fixed_dictionaries({"text": texts | odd}) | odd,
            "citations": odd,
            "type": texts,
        },
    )
    | texts
    | odd,
    min_size=1,
    max_size=2,
)
bedrock_entries = st.fixed_dictionaries(
    {"role": roles},
    optional={
        "content": st.lists(bedrock_parts | blocks | texts, max_size=3) | texts | odd,
        "tool_calls": odd,
    },
)
ENTRIES = {
    "anthropic": anthropic_entries,
    "bedrock": bedrock_entries,
    "openai_chat": chat_entries,
    "plain": plain_entries,
    "claude_code": lines,
}


def outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RehydrateError as error:
        return type(error), str(error)


def assert_read_alike(name: str, entries: Sequence[Any]) -> None:
    found = outcome(lambda: FORMATS[name].parse(entries))
    slow = outcome(lambda: read_slowly(name, entries))
    assert found == slow
    if isinstance(found, Conversation):
        assert (found.unknown, found.opening) == (slow.unknown, slow.opening)
        assert type(found.messages) is type(found.units) is tuple
        for message in found.messages:
            assert type(message) is Message
            assert all(type(piece) is Piece for piece in message.pieces)
            assert all(type(piece.kind) is PieceKind for piece in message.pieces)
        for unit in found.units:
            assert type(unit) is Unit
            assert all(found.messages.index(each) >= 0 for each in unit.messages)


@st.composite
def hostile(draw: Any, name: str) -> list[Any]:
    entries: list[Any] = draw(st.lists(ENTRIES[name], max_size=5))
    for place in range(len(entries)):
        kind = draw(st.sampled_from(["dict", "dict", "dict", "dict", "subclass", "mapping"]))
        if kind != "dict":
            entries[place] = (Entry if kind == "subclass" else UserDict)(entries[place])
    return entries


@pytest.mark.parametrize("name", ENTRIES)
@given(st.data())
def test_hostile_lists_are_read_alike(name: str, data: st.DataObject) -> None:
    assert_read_alike(name, data.draw(hostile(name)))


@pytest.mark.parametrize("name", ENTRIES)
@given(st.data())
def test_valid_and_damaged_conversations_are_read_alike(name: str, data: st.DataObject) -> None:
    entries = data.draw(BY_FORMAT[name]())
    assert_read_alike(name, entries)
    assert_read_alike(name, data.draw(damaged(entries)))


class EveryOne(list[Any]):
    """A list of a class of its own, of which the reader looks at every entry."""


@given(st.lists(st.one_of(*ENTRIES.values()), max_size=4))
def test_the_format_is_found_as_if_every_entry_were_looked_at(entries: list[Any]) -> None:
    try:
        found = detect_format(entries)
    except RehydrateError:  # a plain list with a role that nobody knows
        found = "plain"
    assert found == format_of(EveryOne(entries))[0]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("anthropic", {"role": "user", "content": "said"}),
        ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": "said"}]}),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, "so"]},
        ),
        (
            "anthropic",
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "found"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "content": [{"type": "text", "text": "found"}, {"type": "image"}],
                    },
                ],
            },
        ),
        (
            "anthropic",
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "a",
                        "name": "Edit",
                        "input": {
                            "text": 'tab\t"x"\\ \x01 é 🎈',
                            "n": -3,
                            "x": 0.5,
                            "on": True,
                            "no": None,
                            "l": [1, []],
                        },
                    }
                ],
            },
        ),
        (
            "openai_chat",
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
            },
        ),
        ("openai_chat", {"role": "tool", "tool_call_id": "a", "content": "found"}),
        ("plain", {"role": "user", "content": "said"}),
        ("claude_code", {"type": "user", "uuid": "1", "message": {"content": "said"}}),
    ],
    ids=repr,
)
def test_common_shapes_have_nothing_uncommon(name: str, entry: dict[str, Any]) -> None:
    conversation = FORMATS[name].parse([entry])
    assert conversation.uncommon_indices() == []
    assert_read_alike(name, [entry])


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "tool_use", "id": "a", "name": "Run", "input": {"x": float("nan")}}],
        [{"type": "tool_use", "id": "a", "name": "Run", "input": "plain"}],
        [
            {
                "type": "tool_use",
                "id": "a",
                "name": "Run",
                "input": {"deep": json.loads("[" * 20 + "]" * 20)},
            }
        ],
        [{"type": "document", "source": {"type": "text", "data": "x"}}],
        ({"type": "text", "text": "in a tuple"},),
    ],
    ids=repr,
)
def test_odd_inputs_and_contents_are_read_alike(content: Any) -> None:
    entry = {"role": "assistant", "content": content}
    assert_read_alike("anthropic", [entry])


def test_a_tool_input_is_written_as_json_writes_it() -> None:
    value = {"every": "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028é🎈', "float": 1e-7}
    block = {"type": "tool_use", "id": "a", "name": "Run", "input": value}
    (message,) = FORMATS["anthropic"].parse([{"role": "assistant", "content": [block]}]).messages
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert message.pieces[0].text == f"Run {written}"


def test_a_list_that_changes_while_it_is_read_is_read_as_far_as_it_goes() -> None:
    entries: list[Any] = []

    class Shrinking(UserDict):  # type: ignore[type-arg]
        def get(self, key: str, default: Any = None) -> Any:
            del entries[1:]
            return super().get(key, default)

    entries += [Shrinking(role="user", content="a"), {"role": "user", "content": "b"}]
    for module in (FORMATS[name] for name in ("anthropic", "openai_chat", "plain")):
        assert len(module.parse(entries).messages) == 1
        entries.append({"role": "user", "content": "b"})
    assert FORMATS["claude_code"].parse([]).messages == ()
