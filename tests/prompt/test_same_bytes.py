"""The law that only two runs can show: the same inputs give the same bytes. And what is lawful
still is when it has been compiled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.prompt import CompiledPrompt, History, PromptIR, Provider, compile as compile_prompt
from tests.prompt.example_irs import lawful_irs

OWN: dict[str, Provider] = {
    "openai_chat": "openai_chat",
    "langchain": "openai_chat",
    "openai_responses": "openai_responses",
}


def compiled(ir: PromptIR) -> CompiledPrompt | None:
    """For the history's own provider; None for what has no message or is for another one."""
    try:
        return compile_prompt(ir, OWN.get(ir.history.format, "anthropic"))
    except (InvalidArgumentError, InvalidMessageError):
        return None


@given(lawful_irs())
def test_the_same_inputs_give_the_same_bytes(ir: PromptIR):
    one, other = compiled(ir), compiled(PromptIR.from_json(ir.to_json()))
    if one is None or ir.history.format == "langchain":
        return
    assert other is not None
    assert json.dumps(one.request) == json.dumps(other.request)
    assert one.segments == other.segments


@given(lawful_irs())
def test_what_is_lawful_still_is_after_all_passes(ir: PromptIR):
    prompt = compiled(ir)
    if prompt is not None:
        assert prompt.ir.verify() == []


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_a_compiled_prompt_survives_the_trip_through_json(provider: Provider):
    history = History(({"role": "user", "content": "Which port?"},))
    prompt = compile_prompt(PromptIR(history=history), provider)
    back = CompiledPrompt.from_json(prompt.to_json())
    assert (back.request, back.segments, back.ir) == (prompt.request, prompt.segments, prompt.ir)
