"""A cell and a line of a table: what they hold letter for letter, or what is wrong with them."""

from __future__ import annotations

import pytest

from rehydrate._native import JsonMessages, json_row
from rehydrate.errors import InvalidArgumentError


def test_kept_messages_are_written_as_they_are_in_the_list():
    read = JsonMessages(' [{"role" : "user"}, 1.50 , "\\ud800" ]')
    user, number, half = read.messages
    assert (user, number, half) == ({"role": "user"}, 1.5, "\ud800")
    assert read.written([half, user], [2, 0]) == '["\\ud800",{"role" : "user"}]'
    assert read.written([user, {"a": "é"}], [0, -1]) == '[{"role" : "user"},{"a": "é"}]'


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"id": 7, "messages": [{"role":"user"} ], "query": null}', ("7", '[{"role":"user"} ]')),
        (b'\xef\xbb\xbf{"messages": "[1]", "id": "a"}', ("a", "[1]")),
        (b'{"messages": 1, "messages": [ 2 ]}', (None, "[ 2 ]")),
    ],
)
def test_a_line_has_an_id_messages_and_a_query(line: bytes, row: tuple[str | None, str]):
    assert json_row(line) == (*row, None)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[]", "the line isn't a JSON object: Expecting '{' at character 0"),
        (b'{"a": 1,}', "the line isn't a JSON object: "),
        (b'{"a": 1}', r"the line has no messages \(it has a\)"),
        (b'{"messages": [], "query": 3}', "query is of type int; pass a text"),
        (b'{"messages": "\xff"}', "the line isn't UTF-8 from byte 14 on"),
        (b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b'{"messages": ' + b"9" * 5_000 + b"}", "thousands of digits"),
    ],
)
def test_a_line_that_is_not_a_row_is_a_typed_error(line: bytes, problem: str):
    with pytest.raises(InvalidArgumentError, match=problem):
        json_row(line)
