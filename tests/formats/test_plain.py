"""Plain role/content messages: lenient, each a unit of its own."""

from __future__ import annotations

import pytest

from rehydrate.formats import parse, validate
from rehydrate.messages import PieceKind


def test_every_message_is_a_unit_and_unknown_roles_are_kept_as_they_are():
    roles = ["system", "user", "Caroline", "tool_result"]
    conversation = parse([{"role": role, "content": f"I am {role}"} for role in roles])
    assert conversation.format == "plain"
    assert [unit.members for unit in conversation.units] == [(0,), (1,), (2,), (3,)]
    assert [message.role for message in conversation.messages] == [*roles[:3], "tool"]
    assert conversation.messages[3].pieces[0].kind == PieceKind.TOOL_RESULT


def test_text_parts_and_a_missing_content_are_read():
    parts = [{"type": "text", "text": "one"}, "two", {"type": "text", "text": ""}]
    entries = [{"role": "user", "content": parts}, {"role": "assistant"}]
    first, second = parse(entries).messages
    assert [piece.text for piece in first.pieces] == ["one", "two"]
    assert second.pieces == ()
    (violation,) = validate(entries)
    assert (violation.index, violation.rule) == (1, "null_content_without_calls")


@pytest.mark.parametrize(("first", "user_first"), [("user", True), ("assistant", False)])
def test_a_list_that_starts_with_the_user_goes_on_doing_so(first, user_first):
    roles = ["system", first, "assistant"]
    conversation = parse([{"role": role, "content": "x"} for role in roles])
    assert conversation.user_first is user_first
