"""Files to entries and back: shapes, bytes, and errors for any other file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rehydrate.cli.options import read
from rehydrate.cli.terminal import Failure
from rehydrate.errors import InvalidArgumentError

PRETTY = (
    '[\n  {"role": "user", "content": "a"},\n  {"role": "x", "n": 1.0},\n  {"b": "\\u00e9"}\n]\n'
)


def _read(tmp_path: Path, text: str | bytes):
    path = tmp_path / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(path))


def _problem(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        _read(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(tmp_path), "")


def test_an_array_loses_entries_and_nothing_else(tmp_path):
    document = _read(tmp_path, PRETTY)
    assert document.keep([0, 2]) == (
        '[\n  {"role": "user", "content": "a"},\n  {"b": "\\u00e9"}\n]\n'
    )
    assert document.keep([1]) == '[\n  {"role": "x", "n": 1.0}\n]\n'
    assert document.keep([0, 1, 2]) == PRETTY


def test_an_array_can_lose_every_entry(tmp_path):
    assert json.loads(_read(tmp_path, PRETTY).keep([])) == []


def test_lines_are_kept_with_the_line_ends_they_had(tmp_path):
    document = _read(tmp_path, '{"a": 1}\r\n\r\n{"b": 2.50}\r\n{"c": 3}')
    assert [*document.entries] == [{"a": 1}, {"b": 2.5}, {"c": 3}]
    assert document.keep([1, 2]).endswith('{"b": 2.50}\r\n{"c": 3}')
    assert document.keep([0]) == '{"a": 1}\r\n'


def test_line_separators_inside_a_string_do_not_end_a_line(tmp_path):
    document = _read(tmp_path, '{"a": "x\u2028y\x85z"}\n{"b": 1}\n')
    assert len(document.entries) == 2


def test_a_trajectory_of_swe_agents_is_read_by_its_history(tmp_path):
    history = [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "done"}]
    steps = [{"action": "ls", "query": history}]
    text = json.dumps({"trajectory": steps, "history": history, "info": {}})
    document = _read(tmp_path, text)
    assert document.entries == history
    assert document.around == ("trajectory", "info")
    assert json.loads(document.keep([0])) == {
        "trajectory": steps,
        "history": history[:1],
        "info": {},
    }


def test_what_surrounds_the_messages_of_a_request_passes_through(tmp_path):
    body = '{"model": "m", "messages" : [ {"a": 1}, {"b": 2} ], "max_tokens": 1e3, "tools": []}'
    document = _read(tmp_path, body)
    assert document.around == ("model", "max_tokens", "tools")
    assert document.keep([1]) == body.replace('{"a": 1}, ', "")


def test_a_request_may_hold_nothing_but_messages(tmp_path):
    document = _read(tmp_path, '{"messages": [{"a": 1}]}')
    assert (document.entries, document.keep([])) == ([{"a": 1}], '{"messages": []}')


@pytest.mark.parametrize("key", ["input", "output"])
def test_the_items_of_a_responses_request_or_response_are_found(tmp_path, key):
    item = '{"type": "reasoning", "id": "rs_1", "summary": []}'
    document = _read(tmp_path, f'{{"model": "m", "{key}": [{item}], "tools": []}}')
    assert document.entries == [json.loads(item)]
    assert document.around == ("model", "tools")
    assert document.keep([]) == f'{{"model": "m", "{key}": [], "tools": []}}'


def test_an_item_with_an_output_list_of_its_own_is_a_file_of_one_line(tmp_path):
    item = {"output": [{"stdout": "x"}], "call_id": "a", "type": "shell_call_output"}
    assert _read(tmp_path, json.dumps(item)).entries == [item]


def test_a_single_message_is_a_file_of_one_line(tmp_path):
    assert _read(tmp_path, '{\n "role": "user",\n "content": "a"}').entries == [
        {"role": "user", "content": "a"}
    ]


def test_a_byte_order_mark_is_read_over(tmp_path):
    assert _read(tmp_path, b"\xef\xbb\xbf[]").entries == []


def test_an_entry_knows_its_line(tmp_path):
    assert [_read(tmp_path, PRETTY).line_of(index) for index in range(3)] == [2, 3, 4]
    assert _read(tmp_path, '{"a":1}\n\n{"b":1}').line_of(1) == 3


@given(
    entries=st.lists(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False))),
    data=st.data(),
    indent=st.sampled_from([None, 0, 2]),
    wrapped=st.booleans(),
)
def test_what_is_kept_of_any_array_parses_to_the_kept_entries(
    tmp_path_factory, entries, data, indent, wrapped
):
    value = {"x": [1], "messages": entries, "y": "]"} if wrapped else entries
    path = tmp_path_factory.mktemp("any") / "x.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    kept = data.draw(st.sets(st.integers(0, len(entries) - 1)) if entries else st.just(set()))
    again = json.loads(read(str(path)).keep(sorted(kept)))
    expected = [entries[index] for index in sorted(kept)]
    assert again == ({**value, "messages": expected} if wrapped else expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("# Title\ntext", "it begins with '# Title'"),
        ('"hi"', "is not JSON"),
        ('{"a": 1}\n{"a": 2} x\n{"a": 3}', "line 2 of"),
        ('{"a": 1}\n{"a": \n', "cut off"),
        ('[\n{"a": 1}\n{"b": 2}\n\n]', "line 3 of"),
        ("[1, 2] 3", "Extra data at column 8"),
        ('{"role": "user"', "Expecting ',' delimiter at column 16"),
        ('{\n"a": 1}\n{\n"a": 2}', "line 3 of /x.json begins a second JSON value"),
        ('{"model": "m", "prompt": []}', "(it holds model, prompt)"),
        ('{"model": "m", "input": "hi"}', "'output' or 'history' list (it holds model, input)"),
        ('{"messages": []}\n{"messages": []}', "line 1 of /x.json holds a whole conversation"),
        ('{"input": [], "a": 1}\n{"input": []}', "line 1 of /x.json holds a whole conversation"),
        ("[" * 100_000, "nested too deeply"),
        (f'[{{"n": {"1" * 5_000}}}]', "thousands of digits"),
        (b"\x89PNG\r\n\0\0", "binary"),
        (b'{"a": "x"}\n{"a": "caf\xe9"}\n', "line 2 of /x.json is not UTF-8 (byte 0xe9)"),
        (b"\xff\xfe[\0]\0", "UTF-16"),
        (b"\x1f\x8b\x08\0", "compressed"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, text, said):
    assert said in _problem(tmp_path, text)


def test_a_missing_file_is_named_with_one_that_is_there(tmp_path):
    (tmp_path / "session.jsonl").touch()
    with pytest.raises(Failure, match=r"no such file; did you mean .*session\.jsonl\?"):
        read(str(tmp_path / "sesion.jsonl"))


def test_a_link_that_leads_nowhere_is_said_to_be_one(tmp_path):
    (tmp_path / "a.jsonl").symlink_to("gone.jsonl")
    with pytest.raises(Failure, match=r"a\.jsonl is a link to gone\.jsonl, which is not there"):
        read(str(tmp_path / "a.jsonl"))


def test_a_directory_is_named_with_its_newest_session(tmp_path):
    (tmp_path / "s.jsonl").touch()
    with pytest.raises(Failure, match=r"is a directory; .*s\.jsonl"):
        read(str(tmp_path))


def test_a_null_byte_in_a_path_is_no_crash():
    with pytest.raises(Failure, match="cannot be read"):
        read("a\0b")
