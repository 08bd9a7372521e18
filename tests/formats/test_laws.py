"""Laws of every format, on generated conversations: units partition, subsets stay valid."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from rehydrate.errors import InvalidMessageError
from rehydrate.formats import FORMATS, detect_format, parse, validate
from tests.strategies import BY_FORMAT, conversations, damaged, kept_units, survivors


def test_every_registered_format_has_a_strategy():
    assert set(BY_FORMAT) == set(FORMATS)


def a_generated_conversation_is_valid(name, entries, conversation):
    assert validate(entries, name) == []


def detection_names_the_format_or_one_that_reads_the_list_alike(name, entries, conversation):
    detected = detect_format(entries)
    if detected != name:
        # Text alone has no format, and a role may be another's hint: it reads the same either way.
        texts = [message.text for message in conversation.messages]
        assert [message.text for message in parse(entries).messages] == texts


@given(conversations(), st.data())
def test_every_entry_is_in_exactly_one_unit_or_ignored(named, data):
    name, entries = named
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    conversation = parse(entries, name)
    placed = [index for unit in conversation.units for index in unit.members]
    assert sorted([*placed, *conversation.ignored]) == list(range(len(entries)))
    assert [message.index for message in conversation.messages] == sorted(placed)
    assert all(list(unit.members) == sorted(unit.members) for unit in conversation.units)
    firsts = [unit.members[0] for unit in conversation.units]
    assert firsts == sorted(firsts)


def calls_and_their_results_share_a_unit(name, entries, conversation):
    for unit in conversation.units:
        called = {call for message in unit.messages for call in message.calls}
        answered = {answer for message in unit.messages for answer in message.answers}
        assert answered <= called


@given(conversations(), st.data())
def test_any_subset_of_units_of_a_valid_conversation_is_valid(named, data):
    name, entries = named
    conversation = parse(entries, name)
    kept = data.draw(kept_units(conversation))
    assert validate([entries[index] for index in survivors(conversation, kept)], name) == []


@given(conversations(), st.data())
def test_dropping_units_of_a_damaged_conversation_breaks_no_further_message(named, data):
    name, entries = named
    entries = data.draw(damaged(entries))
    conversation = parse(entries, name)
    indices = list(survivors(conversation, data.draw(kept_units(conversation))))
    # The rule about the first message is about the opener, not about a unit.
    before = Counter(
        violation.index
        for violation in validate(entries, name)
        if violation.rule != "first_not_user"
    )
    after = Counter(
        indices[violation.index]
        for violation in validate([entries[index] for index in indices], name)
        if violation.rule != "first_not_user"
    )
    assert after <= before


@given(conversations(), st.data())
def test_reading_never_changes_the_entries(named, data):
    name, entries = named
    if data.draw(st.booleans()):
        entries = data.draw(damaged(entries))
    original = copy.deepcopy(entries)
    parse(entries, name)
    validate(entries, name)
    assert entries == original


def regrouping_the_survivors_gives_the_same_units(name, entries, conversation):
    again = parse([entries[message.index] for message in conversation.messages], name)
    texts = [[message.text for message in unit.messages] for unit in conversation.units]
    assert [[message.text for message in unit.messages] for unit in again.units] == texts


def pins_hold_system_the_last_user_turn_and_the_open_loop(name, entries, conversation):
    pins = conversation.pins()
    assert all(place in pins for place, unit in enumerate(conversation.units) if unit.is_system)
    users = [message.index for message in conversation.messages if message.is_user_turn]
    if users:
        assert any(users[-1] in conversation.units[place].members for place in pins)
    else:
        assert "last user turn" not in pins.values()


LAWS = (
    a_generated_conversation_is_valid,
    detection_names_the_format_or_one_that_reads_the_list_alike,
    calls_and_their_results_share_a_unit,
    regrouping_the_survivors_gives_the_same_units,
    pins_hold_system_the_last_user_turn_and_the_open_loop,
)


@settings(max_examples=2 * settings().max_examples)
@given(conversations())
def test_the_laws_of_a_valid_conversation_hold(named):
    name, entries = named
    conversation = parse(entries, name)
    for law in LAWS:
        law(name, entries, conversation)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_an_empty_list_is_an_empty_valid_conversation(name):
    conversation = parse([], name)
    assert conversation.units == () and conversation.messages == ()
    assert conversation.pins() == {}
    assert validate([], name) == []


# Keys and values that formats read, in combinations that none of them expects.
_KEYS = st.sampled_from(
    [
        *("role", "content", "type", "text", "id", "tool_use_id", "tool_call_id", "tool_calls"),
        *("uuid", "function", "function_call", "name", "input", "message", "source", "thinking"),
        *("data", "sourceToolUseID", "cache_control", "arguments", "audio", "custom"),
        *("call_id", "output", "outputs", "action", "summary", "approval_request_id", "stdout"),
    ]
)
_LEAVES = st.sampled_from(
    [
        *(None, True, 7, float("nan"), "", "a", "b", "user", "assistant", "tool", "function"),
        *("text", "tool_use", "tool_result", "thinking", "document", "x_tool_result"),
        *("message", "function_call", "function_call_output", "reasoning", "item_reference"),
        *("mcp_approval_request", "mcp_call", "code_interpreter_call", "x_output"),
    ]
)
_BLOCKS = st.dictionaries(_KEYS, st.one_of(_LEAVES, st.lists(_LEAVES, max_size=2)), max_size=4)
_VALUES = st.one_of(_LEAVES, _BLOCKS, st.lists(st.one_of(_LEAVES, _BLOCKS), max_size=2))


@given(st.lists(st.dictionaries(_KEYS, _VALUES, max_size=5), max_size=4), st.data())
def test_anything_else_is_read_or_refused_with_an_invalid_message_error(entries, data):
    for entry in entries:  # most of them get past the first check
        if data.draw(st.booleans()):
            entry["role"] = data.draw(st.sampled_from(["user", "assistant", "tool", "function"]))
    for name in [*FORMATS, "auto"]:
        try:
            parse(entries, name)
        except InvalidMessageError as error:
            assert error.index is not None and str(error)
            with pytest.raises(InvalidMessageError):
                validate(entries, name)
        else:
            validate(entries, name)
