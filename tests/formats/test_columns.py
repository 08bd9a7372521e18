"""A conversation in columns says what its named tuples say, and is grouped as they would be."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import _engine, compact_context
from rehydrate._native import Columns
from rehydrate.formats import FORMATS
from rehydrate.messages import SHAPES, Conversation, Message, Piece, PieceKind
from tests.formats.reading_twin import group
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
    ),
    max_size=8,
).map(lambda found: tuple([each._replace(index=2 * at) for at, each in enumerate(found)]))


@st.composite
def linked(draw: Any) -> tuple[tuple[Message, ...], list[tuple[int, int]]]:
    found = draw(messages)
    position = st.integers(0, max(0, len(found) - 1))
    links = draw(st.lists(st.tuples(position, position), max_size=3)) if found else []
    return found, links


@given(linked())
def test_messages_are_grouped_alike(
    given_: tuple[tuple[Message, ...], list[tuple[int, int]]],
) -> None:
    found, links = given_
    columns = Columns.grouped(found, links)
    assert columns.messages(SHAPES) == found
    assert columns.units(found, SHAPES) == group(found, links)


def assert_says_the_same(inside: Conversation) -> None:
    """Compare the columns with the named tuples; those are the slow twin."""
    _engine.columns_of(inside)
    plain = Conversation(
        inside.format,
        inside.messages,
        inside.units,
        inside.ignored,
        inside.user_first,
        inside.bound,
        opening=inside.opening,
    )
    assert plain.columns is None
    assert inside == plain
    assert hash(inside) == hash(plain)
    assert copy.deepcopy(inside) == pickle.loads(pickle.dumps(inside)) == plain
    assert inside.message_count == plain.message_count
    assert inside.unit_count == plain.unit_count
    assert inside.indices == plain.indices
    assert inside.roles == plain.roles
    assert inside.last_user_message() == plain.last_user_message()
    assert inside.last_user_turn() == plain.last_user_turn()
    assert inside.open_tool_loop() == plain.open_tool_loop()
    assert inside.loop_start() == plain.loop_start()
    assert inside.answered_reply() == plain.answered_reply()
    assert inside.thoughts_of_open_loop() == plain.thoughts_of_open_loop()
    for thoughts in (True, False):
        assert inside.pins(thoughts=thoughts) == plain.pins(thoughts=thoughts)
    assert inside.kept_for_words() == plain.kept_for_words()
    assert inside.lone_texts("") == plain.lone_texts("")
    flags = [unit % 3 == 0 for unit in range(plain.unit_count)]
    assert inside.kept_messages(flags) == plain.kept_messages(flags)
    assert inside.dropped_indices(flags) == plain.dropped_indices(flags)
    some = plain.indices[::2]
    assert inside.units_holding(some) == plain.units_holding(some)


@given(linked())
def test_columns_of_any_messages_say_what_the_messages_say(
    given_: tuple[tuple[Message, ...], list[tuple[int, int]]],
) -> None:
    found, links = given_
    columns = Columns.grouped(found, links)
    assert_says_the_same(Conversation("plain", None, None, columns=columns))
    assert_says_the_same(Conversation("plain", found, group(found, links)))


@given(conversations(), st.data())
def test_columns_of_conversations_say_what_the_messages_say(
    named: tuple[str, list[Any]], data: st.DataObject
) -> None:
    name, entries = named
    for each in (entries, data.draw(damaged(entries))):
        assert_says_the_same(FORMATS[name].parse(each))


@given(conversations())
def test_what_may_hold_thoughts_is_all_that_loses_them(named: tuple[str, list[Any]]) -> None:
    name, entries = named
    conversation = FORMATS[name].parse(entries)
    shown = FORMATS[name].without_thinking(entries)
    lost = {index for index in conversation.indices if shown[index] is not entries[index]}
    assert lost <= set(conversation.thoughtful_indices())


def test_flags_of_other_units_and_links_to_nowhere_are_refused() -> None:
    columns = Columns.grouped((Message(0, "user", ()),), [])
    with pytest.raises(IndexError):
        columns.kept_messages([True, True])
    with pytest.raises(IndexError):
        columns.message(1, SHAPES)
    with pytest.raises(IndexError):
        Columns.grouped((), [(0, 0)])
    with pytest.raises(IndexError):
        Columns.in_units((Message(0, "user", ()),), [])


def test_a_compaction_makes_no_named_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Conversation) -> Any:
        raise AssertionError("made named tuples")

    monkeypatch.setattr(Conversation, "messages", property(refuse))
    monkeypatch.setattr(Conversation, "units", property(refuse))
    session = [
        {"role": ("user", "assistant")[turn % 2], "content": f"Pier {turn} is at berth {turn}."}
        for turn in range(20)
    ]
    assert compact_context(session, "Which berth?", 0.3).stats.changed
