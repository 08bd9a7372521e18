"""The tool's schema agrees with the Python function."""

from __future__ import annotations

import inspect
import json
import re

import pytest

import rehydrate
from rehydrate.compact.options import OPTIONS, CompactOptions
from rehydrate.rpc.tool import call, describe
from tests.compact.test_excerpt_inputs import session

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
