"""A conversation says what its named tuples say."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import compact_context
from rehydrate.formats import FORMATS, parse
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from tests.formats import turns
from tests.strategies import conversations, damaged

ids = st.lists(st.sampled_from(["a", "b", "c", "\ud800", "\udfff"]), max_size=2).map(tuple)
messages = st.lists(
    st.builds(
        Message,
        st.just(0),
        st.sampled_from(["user", "assistant", "tool", "system", "critic", "\ud800"]),
        st.lists(
            st.builds(
                Piece,
                st.sampled_from(["", " ", "\x1c", "said", "\ud800"]),
                st.sampled_from(list(PieceKind)),
            ),
            max_size=2,
        ).map(tuple),
        st.integers(0, 2),
        ids,
        ids,
        st.booleans(),
        st.integers(0, 5_000),
    ),
    max_size=8,
).map(lambda found: tuple([each._replace(index=2 * at) for at, each in enumerate(found)]))


@st.composite
def linked(draw: Any) -> tuple[tuple[Message, ...], list[tuple[int, int]]]:
    found = draw(messages)
    position = st.integers(0, max(0, len(found) - 1))
    links = draw(st.lists(st.tuples(position, position), max_size=3)) if found else []
    return found, links


def grouped(found: tuple[Message, ...], links: list[tuple[int, int]]) -> Conversation:
    """Return messages in units of what is linked by position; nobody asked for its tuples yet."""
    owner = list(range(len(found)))
    for one, other in links:
        owner = [owner[other] if each == owner[one] else each for each in owner]
    members = [[n for n, of in enumerate(owner) if of == each] for each in dict.fromkeys(owner)]
    units = tuple(_unit([found[n] for n in each]) for each in sorted(members))
    return Conversation("plain", found, units).replace()


def _unit(messages: list[Message]) -> Unit:
    return Unit(tuple(each.index for each in messages), tuple(messages))


def assert_says_what_its_messages_say(inside: Conversation) -> None:
    """Other readings of the messages are recorded in `test_readings`."""
    messages, units = inside.messages, inside.units
    facts = (inside.ignored, inside.user_first, inside.bound)
    same = Conversation(inside.format, messages, units, *facts)
    assert inside == same and hash(inside) == hash(same)
    assert copy.deepcopy(inside) == pickle.loads(pickle.dumps(inside)) == same
    assert (inside.message_count, inside.unit_count) == (len(messages), len(units))
    assert inside.indices == [message.index for message in messages]
    assert inside.unit_of() == {
        index: at for at, unit in enumerate(units) for index in unit.members
    }
    some = set(inside.indices[::2])
    holding = [at for at, unit in enumerate(units) if some.intersection(unit.members)]
    assert inside.units_holding(some) == holding
    assert inside.pins() == pins(inside)
    assert inside.answers() == [(id_, m.index) for m in messages for id_ in m.answers]
    for start in range(0, len(messages) + 2, 3):
        assert inside.messages_from(start) == tuple(m for m in messages if m.index >= start)
        assert (start in inside) == (start in inside.indices)
    moved = tuple(each._replace(index=each.index + 1_000) for each in messages)
    assert inside.followed_by(inside, 1_000).messages == messages + moved


def pins(inside: Conversation) -> dict[int, str]:
    """Return the units that are always kept, by what the slow search finds."""
    found = {
        n: "system"
        for n, unit in enumerate(inside.units)
        if any(each.role == "system" for each in unit.messages)
    }
    for unit in (turns.last_user_turn(inside), turns.turn_of_open_loop(inside)):
        if unit is not None:
            found.setdefault(unit, "last user turn")
    for unit in (turns.open_tool_loop(inside), turns.thoughts_of_open_loop(inside)):
        if unit is not None:
            found.setdefault(unit, "open tool loop")
    for unit in inside.units_holding(inside.bound):
        found.setdefault(unit, "bound to what the provider holds")
    return found


@given(linked())
def test_a_conversation_of_any_messages_says_what_the_messages_say(
    given_: tuple[tuple[Message, ...], list[tuple[int, int]]],
) -> None:
    found, links = given_
    inside = grouped(found, links)
    assert inside.messages == found
    assert_says_what_its_messages_say(inside)
    units = tuple(_unit([found[at // 2] for at in each.members]) for each in inside.units)
    inside = Conversation("plain", found, units)
    assert inside.messages is found
    assert inside.units is units
    assert_says_what_its_messages_say(inside)
    assert_says_what_its_messages_say(inside.replace(bound=[each.index for each in found[::2]]))


@given(linked())
def test_messages_are_changed_and_taken_out(
    given_: tuple[tuple[Message, ...], list[tuple[int, int]]],
) -> None:
    found, links = given_
    inside = grouped(found, links)
    other = {each.index: each._replace(role="critic", images=7) for each in found[::2]}
    changed = inside.with_messages(other)
    assert changed.messages == tuple(other.get(each.index, each) for each in found)
    assert changed.unit_of() == inside.unit_of()
    indices = [index + 5 for index in range(2 * len(found))]
    moved = inside.replace(bound=list(other)).renumbered(indices)
    assert moved.messages == tuple(each._replace(index=each.index + 5) for each in found)
    assert list(moved.unit_of().values()) == list(inside.unit_of().values())
    assert moved.bound == tuple(index + 5 for index in other)
    rest = inside.without(other)
    assert rest.messages == found[1::2]
    left = [[each for each in unit.messages if each.index not in other] for unit in inside.units]
    units = sorted(unit for unit in left if unit)
    assert rest.units == tuple(map(_unit, units))


@given(conversations(), st.data())
def test_conversations_say_what_their_messages_say(
    named: tuple[str, list[Any]], data: st.DataObject
) -> None:
    name, entries = named
    for each in (entries, data.draw(damaged(entries))):
        assert_says_what_its_messages_say(FORMATS[name].parse(each))


@given(conversations())
def test_what_may_hold_thoughts_is_all_that_loses_them(named: tuple[str, list[Any]]) -> None:
    name, entries = named
    conversation = FORMATS[name].parse(entries)
    shown = FORMATS[name].without_thinking(entries)
    lost = {index for index in conversation.indices if shown[index] is not entries[index]}
    assert lost <= set(conversation.thoughtful_indices())


def test_flags_of_other_units_and_messages_of_none_are_refused() -> None:
    one = grouped((Message(0, "user", ()),), [])
    with pytest.raises(IndexError):
        one.kept_messages([True, True])
    with pytest.raises(IndexError):
        one.message(1)
    with pytest.raises(IndexError):
        one.renumbered([])
    with pytest.raises(IndexError):
        Conversation("plain", (Message(0, "user", ()),), ())


def test_a_compaction_makes_no_named_tuples() -> None:
    session = [
        {"role": ("user", "assistant")[turn % 2], "content": f"Quay {turn} is at berth {turn}."}
        for turn in range(20)
    ]

    def made() -> int:
        found = [each for each in gc.get_objects() if type(each) is Piece]
        return sum(each.text.startswith("Quay ") for each in found)

    compaction = compact_context(session, "Which berth?", 0.3)
    assert compaction.stats.changed
    assert made() == 0
    compaction.explain()
    assert made() == 0
    held = parse(session).messages
    assert made() == len(held)


def test_a_light_copy_leaves_out_the_texts_of_long_inputs_alone() -> None:
    def call(id_: str, size: int) -> Message:
        inputs = (Piece("Say", PieceKind.TEXT), Piece("x" * size, PieceKind.TOOL_INPUT))
        return Message(0, "assistant", inputs, 0, (id_,))

    whole = (call("a", 500), call("b", 501)._replace(index=1), call("c", 9)._replace(index=2))
    light = Conversation("anthropic", whole).light()
    assert light.messages == (whole[0], whole[1]._replace(pieces=()), whole[2])
    assert light.light_indices(0) == [1] and light.light_indices(2) == []
    assert light.light().followed_by(light, 3).light_indices(0) == [1, 4]
    again = light.with_messages({1: whole[1]})
    assert again.messages == whole and again.light_indices(0) == []


# Paths of texts in entries, and entries with other texts at these paths.


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


def test_what_a_transcript_says_next_to_its_message_stays_as_it_is():
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
