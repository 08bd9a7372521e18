"""The native reader of common contents agrees with the format's own, or declines the content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.formats import _reading, anthropic
from rehydrate.messages import Message, Piece
from tests.strategies import anthropic_conversations

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", 'quote " and \\', "\x00\x1f\x7f\n\r\t\b\f", "größe 漢字 🎈", "\ud800 lone"]
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
blocks = st.one_of(
    texts,
    st.fixed_dictionaries({"type": st.just("text"), "text": texts | odd}),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": texts | odd}, optional={"signature": texts}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": texts | odd, "name": texts | odd},
        optional={"input": inputs | json_values},
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_result"), "tool_use_id": texts | odd, "content": texts},
        optional={"is_error": st.booleans()},
    ),
    st.fixed_dictionaries({"type": texts | odd}, optional={"text": texts}),
)


@given(st.lists(blocks, max_size=4) | texts | st.none())
def test_what_the_fast_reader_reads_is_what_the_format_reads(content: Any) -> None:
    found = _reading.read_common(content)
    if found is not None:
        assert found == tuple(anthropic.read_content(content, 0))
        assert all(type(piece) is Piece for piece in found[0])


@given(anthropic_conversations())
def test_whole_conversations_are_read_alike(messages: list[dict[str, Any]]) -> None:
    slow = [anthropic.read_content(message.get("content"), 0) for message in messages]
    for message, body in zip(anthropic.parse(messages).messages, slow, strict=True):
        assert type(message) is Message
        read = (message.pieces, message.images, message.calls, message.answers)
        assert read == tuple(body[:4])


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "said"},
        {"type": "thinking", "thinking": "thought", "signature": "x"},
        {"type": "tool_result", "tool_use_id": "a", "content": "found"},
        {
            "type": "tool_use",
            "id": "a",
            "name": "Edit",
            "input": {
                "text": 'tab\t"x"\\ \x01 é 🎈',
                "n": -3,
                "on": True,
                "no": None,
                "l": [1, []],
            },
        },
    ],
    ids=lambda block: block["type"],
)
def test_the_common_blocks_take_the_fast_path(block: dict[str, Any]) -> None:
    found = _reading.read_common([block])
    assert found is not None
    assert found == tuple(anthropic.read_content([block], 0))


def test_a_tool_input_is_written_as_json_writes_it() -> None:
    value = {"every": "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028é🎈'}
    found = _reading.read_common([{"type": "tool_use", "id": "a", "name": "Run", "input": value}])
    assert found is not None
    assert found[0][0].text == "Run " + json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    "content",
    [
        None,
        [{"type": "image", "source": {}}],
        [{"type": "tool_use", "id": "a", "name": "Run", "input": {"x": 0.5}}],
        [{"type": "tool_use", "id": "a", "name": "Run", "input": "plain"}],
        [
            {
                "type": "tool_use",
                "id": "a",
                "name": "Run",
                "input": {"deep": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]},
            }
        ],
        [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}],
        ["bare"],
    ],
    ids=repr,
)
def test_what_is_not_common_is_left_to_the_format(content: Any) -> None:
    assert _reading.read_common(content) is None
