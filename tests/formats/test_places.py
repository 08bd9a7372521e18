"""Paths of texts in entries, and entries with other texts at these paths."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate.formats import FORMATS, parse
from rehydrate.messages import PieceKind
from tests.strategies import conversations, damaged


@given(conversations(), st.data())
def test_every_piece_has_a_place_and_the_text_there_is_the_pieces(named, data):
    name, entries = named
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    for message in parse(entries, name).messages:
        entry = entries[message.index]
        places = FORMATS[name].places(entry, message.index)
        assert len(places) == len(message.pieces)
        for piece, path in zip(message.pieces, places, strict=True):
            if path is not None:
                assert _at(entry, path) == piece.text
                assert piece.kind in (PieceKind.TEXT, PieceKind.TOOL_RESULT)


@given(conversations())
def test_replacing_changes_these_texts_and_nothing_else(named):
    name, entries = named
    before = copy.deepcopy(entries)
    for message in parse(entries, name).messages:
        entry = entries[message.index]
        places = FORMATS[name].places(entry, message.index)
        texts = {path: f"other {n}" for n, path in enumerate(places) if path is not None}
        made = FORMATS[name].replace(entry, texts)
        assert made is not entry or not texts
        for path, text in texts.items():
            assert _at(made, path) == text
        back = FORMATS[name].replace(made, {path: _at(entry, path) for path in texts})
        assert back == entry
    assert entries == before


def _at(entry: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        entry = getattr(entry, step) if hasattr(entry, "model_copy") else entry[step]
    return entry


_SIGNED = {"type": "thinking", "thinking": "long", "signature": "c2ln"}
_CITED = {"type": "text", "text": "long", "citations": [{"cited_text": "x"}]}
_CITABLE = {
    "type": "document",
    "citations": {"enabled": True},
    "source": {"type": "text", "media_type": "text/plain", "data": "long"},
}
_CALL = {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "long"}}
_SEARCH = {"type": "web_search_tool_result", "tool_use_id": "a", "content": [{"title": "long"}]}


@pytest.mark.parametrize("block", [_SIGNED, _CITED, _CITABLE, _CALL, _SEARCH])
def test_signed_cited_and_called_texts_stay_as_they_are(block: dict[str, Any]):
    for name in ("anthropic", "claude_code"):
        message = {"role": "assistant", "content": [block]}
        entry = message if name == "anthropic" else {"type": "assistant", "message": message}
        places = FORMATS[name].places(entry, 0)
        assert places
        assert set(places) == {None}


def test_what_a_transcript_says_beside_its_message_stays_as_it_is():
    block = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": [{"type": "text", "text": "long"}],
    }
    line = {
        "type": "user",
        "message": {"role": "user", "content": [block]},
        "toolUseResult": {"stdout": "long"},
    }
    (path,) = FORMATS["claude_code"].places(line, 0)
    assert path == ("message", "content", 0, "content", 0, "text")
    made = FORMATS["claude_code"].replace(line, {path: "short"})
    assert made["toolUseResult"] is line["toolUseResult"]
    assert made["message"]["content"][0]["tool_use_id"] == "a"


def test_reasoning_refusals_and_calls_of_openai_stay_as_they_are():
    entry = {
        "role": "assistant",
        "reasoning_content": "because",
        "content": "said",
        "refusal": "no",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    }
    assert FORMATS["openai_chat"].places(entry, 0) == [None, ("content",), None, None]
