"""The server reads the same values for any layout, any split of the bytes, and any rubbish."""

from __future__ import annotations

import inspect
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate import _native
from rehydrate.compact.options import OPTIONS, CompactOptions
from rehydrate.rpc.server import MAX_VALUE_BYTES, Malformed, values as values_in
from rehydrate.rpc.tool import call, describe
from tests.compact.test_excerpt_inputs import session

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
json_values = st.recursive(
    scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
layouts = st.sampled_from([{}, {"indent": 0}, {"indent": 2}, {"separators": (",", ":")}])
gaps = st.sampled_from(["\n", " ", "\r\n", "\n\n\t ", "\n\ufeff"])
rubbish = st.sampled_from(
    [
        *(b"oops", b"}", b"]", b"{]", b'{"a"', b'{"a": [1', b"[", b'"open', b'{"a": "b\n', b"nul"),
        *(b"Content-Length: 12\r\n\r\n", b"\xef\xbb\xbf", b"\xff", b'"\xff"', b"{'a': 1}", b"\\"),
        *(b"[{]}\n", b'{"x": {}{}}', b"\n", b"  \n", b"NaN", b"1e999", b'{"jsonrpc": 1}', b'"\\'),
    ]
)


def fed(stream: _native.JsonStream, data: bytes) -> list[object]:
    stream.feed(data)
    return list(values_in(stream, ended=False))


def pieces(
    data: bytes, cuts: list[int] | None = None, max_bytes: int = MAX_VALUE_BYTES
) -> list[object]:
    stream = _native.JsonStream(max_bytes)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or ())})
    found = []
    for start, end in pairwise(edges):
        found += fed(stream, data[start:end])
    return [*found, *values_in(stream, ended=True)]


def values(data: bytes) -> list[object]:
    return ["Malformed" if isinstance(piece, Malformed) else piece for piece in pieces(data)]


@given(st.lists(st.tuples(json_values, layouts, gaps), max_size=6), st.lists(st.integers(0)))
def test_any_values_in_any_layout_come_out_as_they_went_in(reported, cuts):
    data = "".join(json.dumps(value, **layout) + gap for value, layout, gap in reported)
    assert pieces(data.encode(), cuts) == [value for value, _, _ in reported]


@given(st.lists(st.lists(json_values, max_size=2), max_size=6), st.lists(st.integers(0)))
def test_values_that_end_by_themselves_need_no_gap(reported, cuts):
    data = "".join(json.dumps(value, ensure_ascii=False) for value in reported)
    assert pieces(data.encode(), cuts) == reported


valid = json_values.map(lambda value: json.dumps(value).encode())
streams = st.lists(valid | rubbish | st.sampled_from([b"\n", b" ", b"\n{}"]), max_size=12)


@given(streams, st.lists(st.integers(0)), st.sampled_from([5, 16, 2**20]))
def test_where_reads_end_changes_nothing_whatever_is_read(parts, cuts, max_bytes):
    data = b"".join(parts)
    whole = pieces(data, max_bytes=max_bytes)
    assert pieces(data, cuts, max_bytes=max_bytes) == whole
    assert pieces(data, list(range(len(data))), max_bytes=max_bytes) == whole


REQUEST = b'{"jsonrpc": "2.0", "id": 7}'


@given(st.lists(rubbish, min_size=1, max_size=4).map(b"".join))
def test_a_request_on_a_line_of_its_own_is_found_behind_any_rubbish(before):
    found = values(before + b"\n" + REQUEST + b"\n" + REQUEST)
    assert found.count(json.loads(REQUEST)) == 2


@pytest.mark.parametrize(
    "broken",
    [
        b'{"jsonrpc": "2.0", "id": 1',
        b'{"jsonrpc": "2.0", "id":',
        b'{"jsonrpc": "2.0", "params": [',
        b'{"jsonrpc": "2.0", "method": "pi',
        b'{"jsonrpc": "2.0", "method": "pi\\',
        b'{"jsonrpc": "2.0", "id": 1]',
        b'{"jsonrpc": "2.0", "id": 1}}',
        b"what is this?",
        b"]",
        b"\x00\x01",
        b'["\xff"]',
    ],
)
@pytest.mark.parametrize("indent", [b"", b"  "])
def test_what_follows_a_broken_line_is_read(broken, indent):
    found = values(indent + broken + b"\n" + indent + REQUEST + b"\r\n" + indent + REQUEST + b"\n")
    requests = [value for value in found if value == json.loads(REQUEST)]
    assert len(requests) == 2
    assert found.count("Malformed") == 1


@pytest.mark.parametrize("broken", [b'{"jsonrpc": "2.0", "id": 1', b'{"id": "pi', b"oops"])
def test_the_request_after_a_broken_line_is_not_kept_waiting(broken):
    stream = _native.JsonStream(MAX_VALUE_BYTES)
    first, second = fed(stream, broken + b"\n"), fed(stream, REQUEST)
    assert [type(piece) for piece in first + second] == [Malformed, dict]


def test_a_broken_pretty_printed_value_is_reported_once():
    broken = b'{\n  "a": [1, 2},\n  "b": {\n    "c": [{}]\n  }\n}\n'
    assert values(broken + REQUEST) == ["Malformed", json.loads(REQUEST)]
    assert values(b'{\n  "a": oops,\n  "b": [\n]}\n' + REQUEST) == [
        "Malformed",
        json.loads(REQUEST),
    ]


def test_a_message_that_quotes_brackets_and_quotes_is_one_value():
    value = {"text": '}]{["\\', '"}': ["\\\\", "\n\r\t", "\u2028"]}
    assert values(json.dumps(value).encode() * 3) == [value] * 3


def test_several_values_are_on_one_line_with_rubbish_at_the_end():
    assert values(b'{"a":1}[2] 3 true"x"{} oops {}\n[]') == [
        *({"a": 1}, [2], 3, True, "x", {}, "Malformed", []),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[NaN]", "NaN isn't JSON"),
        (b"[-Infinity]", "-Infinity isn't JSON"),
        (b"[1e999]", "too large"),
        (b"[" + b"1" * 5_000 + b"]", "5000 digits"),
        (b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b'["\xc3"]', "not UTF-8: 0xc3 at byte 2"),
        (b'["a\x01"]', "control character, at byte 3"),
        (b"[1,]", "at character"),
        (b'{"a": 1', "ends before its brackets do"),
        (b'"a', "ends before its brackets do"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_json_says_why(data, reason):
    (found,) = pieces(data)
    assert isinstance(found, Malformed)
    assert reason in found.reason


def test_of_a_name_given_twice_the_last_counts():
    assert values(b'{"a": 1, "a": 2}') == [{"a": 2}]


def test_half_a_surrogate_pair_is_a_value():
    assert values(b'["\\ud800"]') == [["\ud800"]]


def test_a_value_over_the_limit_is_refused_and_the_next_line_read():
    large = b'["' + b"x" * 100 + b'"]\n'
    (refused, after) = pieces(large + b"[1]", max_bytes=50)
    assert refused.reason.startswith("it has more than 50 bytes; send a smaller one")
    assert after == [1]


def test_headers_are_read_past_and_remembered():
    stream = _native.JsonStream(MAX_VALUE_BYTES)
    framed = b"Content-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
    assert fed(stream, framed * 2) == [{}, {}]
    assert stream.has_headers


def test_brackets_that_never_close_are_one_mistake_however_many():
    assert values(b"[\n" * 20_000 + b'{"a":\n' * 20_000) == ["Malformed"]


# The tool's schema agrees with the Python function.


HELLO = [{"role": "user", "content": "hello"}]
INPUT = describe()["inputSchema"]
CHOICES = [name for name, schema in INPUT["properties"].items() if "enum" in schema]


PARAMETERS = inspect.signature(rehydrate.compact_context).parameters


def test_the_function_takes_the_options_in_their_order_with_their_defaults():
    taken = {name: each.default for name, each in PARAMETERS.items() if name != "messages"}
    defaults = {name: option.default for name, option in OPTIONS.items()}
    assert [*taken.items()] == [*{**defaults, "pin": ()}.items()]
    assert CompactOptions.__annotations__.keys() < OPTIONS.keys()


def test_the_defaults_have_the_type_that_the_schema_gives():
    names = {list: "array", str: "string", float: "number", int: "integer", type(None): "null"}
    names[bool] = "boolean"
    for name, schema in INPUT["properties"].items():
        if name not in INPUT["required"]:
            kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
            assert names[type(schema["default"])] in kinds
    assert INPUT["required"] == ["messages"]
    assert all(option.description for option in OPTIONS.values())


@pytest.mark.parametrize("name", CHOICES)
def test_the_choices_of_the_schema_are_those_that_the_function_takes(name):
    choices = INPUT["properties"][name]["enum"]
    for choice in choices:
        rehydrate.compact_context([], **{name: choice})
    with pytest.raises(rehydrate.errors.InvalidArgumentError) as refused:
        rehydrate.compact_context([], **{name: "something else"})
    offered = str(refused.value).partition(";")[2]
    assert set(re.findall(r"'(\w+)'", offered)) == {choice for choice in choices if choice}


def test_every_argument_is_described_and_the_schema_is_plain_json():
    assert all(schema["description"] for schema in INPUT["properties"].values())
    assert json.loads(json.dumps(describe())) == describe()


def test_the_result_has_the_shape_that_the_schema_gives():
    found = call({"messages": HELLO})
    schema = describe()["outputSchema"]
    assert [*found] == schema["required"]
    stats = schema["properties"]["stats"]
    assert [*found["stats"]] == stats["required"] == [*stats["properties"]]
    types = {"integer": int, "number": float, "boolean": bool, "string": str, "array": list}
    types["object"] = dict
    for name, value in json.loads(json.dumps(found["stats"])).items():
        assert type(value) is types[stats["properties"][name]["type"]], name


def test_inputs_of_calls_are_cut_in_excerpts():
    options = {"granularity": "excerpt", "target_ratio": 0.5}
    kept = call({"messages": session(), **options})["messages"]
    assert "lines omitted" in kept[1]["content"][0]["input"]["content"]


def test_an_outline_crosses_as_a_truth_value_a_share_or_a_number_of_tokens():
    said = "see src/part_of_rows.py and HAT017, then go on with the rest of it; " * 20
    talk = [{"role": role, "content": said} for role in ("user", "assistant")] * 4
    talk = [*talk, {"role": "user", "content": "hello"}]
    for outline, most in ((True, 200), (0.1, 999), (150.0, 150)):
        found = call({"messages": talk, "budget_tokens": 900, "outline": outline})
        assert found["stats"]["outline_tokens"] <= most
    with pytest.raises(rehydrate.errors.InvalidArgumentError, match="outline is 7"):
        call({"messages": talk, "outline": 7.0})
