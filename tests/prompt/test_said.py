"""Units without the calls of lookup tools, and what they say, as a slow twin computes it."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rehydrate import _native
from rehydrate.formats import parse
from rehydrate.messages import Message, PieceKind
from tests.strategies import conversations

TOOLS = ["grep", "Read", "Bash", "request_context", "get_weather", "search"]


def _own(message: Message, kind: PieceKind, ids: tuple[str, ...]) -> list[tuple[int, str]]:
    at = [number for number, piece in enumerate(message.pieces) if piece.kind is kind]
    return list(zip(at, ids, strict=True)) if len(at) == len(ids) else []


def _without(messages: tuple[Message, ...], tools: frozenset[str]) -> tuple[Message, ...]:
    gone = {
        id_
        for message in messages
        for at, id_ in _own(message, PieceKind.TOOL_INPUT, message.calls)
        if message.pieces[at].text.partition(" ")[0] in tools
    }
    found = []
    for each in messages:
        own = _own(each, PieceKind.TOOL_INPUT, each.calls)
        own += _own(each, PieceKind.TOOL_RESULT, each.answers)
        left_out = {at for at, id_ in own if id_ in gone}
        pieces = [piece for at, piece in enumerate(each.pieces) if at not in left_out]
        found.append(each._replace(pieces=tuple(pieces)))
    return tuple(found)


def _text(message: Message) -> str:
    texts = [
        f"[calls {text}]" if kind is PieceKind.TOOL_INPUT else text
        for text, kind in message.pieces
        if kind is not PieceKind.THINKING and text.strip()
    ]
    if message.images:
        many = "s" if message.images > 1 else ""
        texts.append(f"[{message.images} image{many} or document{many} stood here]")
    return f"{message.role}: " + "\n".join(texts) if texts else ""


@given(conversations(), st.sets(st.sampled_from(TOOLS)), st.booleans())
def test_lookups_are_left_out_and_the_rest_is_said(of, tools, all_of_them):
    name, entries = of
    conversation = parse(entries, name)
    inputs = [
        piece.text.partition(" ")[0]
        for message in conversation.messages
        for piece in message.pieces
        if piece.kind is PieceKind.TOOL_INPUT
    ]
    names = frozenset(inputs if all_of_them else tools)
    said, gone = _native.without_calls(conversation, names)
    expected_gone = []
    for number, unit in enumerate(conversation.units):
        rest = _without(unit.messages, names)
        assert said.units[number].messages == rest
        text = "\n\n".join(filter(None, map(_text, rest)))
        assert _native.unit_text(said, number) == text
        if rest != unit.messages and not text:
            expected_gone += unit.members
    assert gone == sorted(expected_gone)
