"""What rehydrate calls valid, and what it compiles, the strict provider takes.

Neither knows the other's rules: each was written from the providers' own words.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehydrate.compiler.compile import compile
from rehydrate.formats import validate
from rehydrate.ir import ContextRequest, History, PromptIR, Provenance, ToolDef
from tests.ir.irs import lawful_irs
from tests.provider.sendable import request_of, sendable
from tests.provider.verdict import refusal
from tests.strategies import BY_FORMAT, damaged

FORMATS = ["anthropic", "openai_chat", "openai_responses"]
# The generated thoughts are nobody's, and one kind of block is from the future.
ELSEWHERE = {"checks_seals": False, "extra_blocks": ("from_the_future",)}
TOOL = ToolDef("get", "Gets it.", {"type": "object"}, None, "anthropic", 9, Provenance("tools"))


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_valid_is_taken(format, data):
    entries = sendable(format, data.draw(BY_FORMAT[format]()))
    assert validate(entries, format) == []
    assert refusal(format, request_of(format, entries), **ELSEWHERE) is None


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_what_is_valid_after_damage_is_taken_too(format, data):
    entries = data.draw(BY_FORMAT[format]().flatmap(damaged))
    if validate(entries, format) == []:
        request = request_of(format, sendable(format, entries))
        assert refusal(format, request, **ELSEWHERE) is None


@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=settings().max_examples // 4)  # of nine pairs
@given(data=st.data())
def test_what_is_compiled_is_taken_by_whom_it_is_for(format, provider, data):
    entries = sendable(format, data.draw(BY_FORMAT[format]()))
    ir = data.draw(lawful_irs())
    history = History(tuple(entries), format)
    ir = PromptIR(ContextRequest("Go on."), ir.sections, (TOOL,), history)
    compiled = compile(ir, provider, minimum_prefix=1)
    request = json.loads(json.dumps({"model": "test", **compiled.request}))
    if provider == "anthropic":
        request["max_tokens"] = 100
    assert refusal(provider, request, **ELSEWHERE) is None
