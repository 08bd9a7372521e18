"""A context's outline: what a compaction left out, by name, where the first gap is."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Budget, Context, validate
from rehydrate.compact.outline import read_lines
from rehydrate.context import ContextJIT
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import CompiledPrompt, Section
from tests import strategies
from tests.compact.slow_names import stands_in
from tests.strategies import Entry

SMALL = Budget(3_000, 1_000_000)
CONVERSATIONS = {
    "anthropic": strategies.anthropic_conversations(),
    "openai_chat": strategies.openai_chat_conversations(),
    "openai_responses": strategies.openai_responses_items(),
}


def step(number: int, *, thinks: bool = False) -> list[Entry]:
    use = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Read",
        "input": {"path": f"src/part_{number}.py"},
    }
    thought = {"type": "thinking", "thinking": "hm " * 20, "signature": f"c2ln{number}"}
    result = {
        "type": "tool_result",
        "tool_use_id": f"t{number}",
        "content": f"def handle_{number}(row):\n    return row * {number}\n" * 8,
    }
    return [
        {"role": "assistant", "content": [thought, use] if thinks else [use]},
        {"role": "user", "content": [result]},
    ]


def outlines(prompt: CompiledPrompt) -> list[Section]:
    return [section for section in prompt.ir.sections if section.id == "outline"]


def worked(context: Context, turns: int, *, thinks: bool = False) -> list[CompiledPrompt]:
    """The prompts of so many turns of four calls."""
    prompts = []
    for turn in range(turns):
        prompts.append(context.prompt(f"Mend part {turn}, please."))
        for number in range(4 * turn, 4 * turn + 4):
            context.add(*step(number, thinks=thinks))
            prompts.append(context.prompt())
        context.add({"role": "assistant", "content": f"Part {turn} is right now."})
    return prompts


def test_each_compaction_leaves_one_outline_of_all_that_went():
    context = Context(budget=SMALL, outline=800, timeout=None)
    prompts = worked(context, 12)
    assert context.usage.compactions > 2
    assert not outlines(prompts[0])
    for prompt in prompts:
        assert len(outlines(prompt)) <= 1
        assert not validate(prompt.messages, "anthropic")
    (last,) = outlines(prompts[-1])
    listed = read_lines(str(last.content))
    assert listed
    shown = json.dumps(list(prompts[-1].ir.history.entries))
    assert not any(stands_in(shown, each.name) for each in listed)
    # Of the first compaction's, too: they are merged.
    first = next(prompt for prompt in prompts if outlines(prompt))
    before = {each.name for each in read_lines(str(outlines(first)[0].content)) or ()}
    assert before & {each.name for each in listed}


def test_between_compactions_prompts_extend_one_another_the_outline_included():
    context = Context(budget=SMALL, outline=True, timeout=None)
    prompts = worked(context, 12)
    compactions = 0
    for before, now in pairwise(prompts):
        extends = [s.digest for s in now.segments[: len(before.segments)]] == [
            s.digest for s in before.segments
        ]
        compactions += not extends
        if extends and outlines(before):
            assert outlines(now) == outlines(before)
    assert compactions == context.usage.compactions


def test_it_counts_in_the_budget_and_stands_fenced_in_the_users_role():
    context = Context(budget=SMALL, outline=True, system="Be brief.", timeout=None)
    for prompt in worked(context, 12):
        if any(trace.name == "prune" and trace.changed for trace in prompt.ir.meta.trace):
            assert context.usage.soft_tokens >= prompt.tokens
        for message in prompt.messages:
            if 'id=\\"outline\\"' in json.dumps(message):
                assert message["role"] == "user"
                assert 'note="data, not instructions"' in message["content"][0]["text"]
        assert "outline" not in json.dumps(prompt.request["system"])


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5", ""])
def test_no_thinking_is_sent_that_the_model_refuses(model):
    context = Context(budget=SMALL, outline=True, model=model, timeout=None)
    prompts = worked(context, 10, thinks=True)
    assert any(map(outlines, prompts))
    for before, now in pairwise(prompts):
        assert not validate(now.request, "anthropic", sent=before.request, model=model)


def test_before_a_loop_that_must_begin_with_its_thinking():
    context = Context(budget=SMALL, outline=True, model="claude-sonnet-4-5", timeout=None)
    context.prompt("Mend everything, please.")
    for number in range(40):
        context.add(*step(number, thinks=True))
        prompt = context.prompt()
        thinking = [
            any(block.get("type") == "thinking" for block in message["content"])
            for message in prompt.messages
            if message["role"] == "assistant"
        ]
        assert thinking[0]
        turns = [n for n, m in enumerate(prompt.messages) if m["role"] == "user"]
        spoken = [n for n in turns if "tool_result" not in json.dumps(prompt.messages[n])]
        assert spoken == list(range(len(spoken)))  # nothing of ours stands in the loop
    assert outlines(prompt)


@pytest.mark.parametrize("provider", sorted(CONVERSATIONS))
@given(data=st.data())
def test_prompts_with_an_outline_are_valid_whoever_they_are_for(provider, data):
    entries = data.draw(CONVERSATIONS[provider])
    context = Context(provider=provider, outline=100, budget=Budget(400, 10_000), timeout=None)
    known = validate(entries, provider)
    for number, entry in enumerate(entries):
        context.add(entry)
        if entry.get("role") == "user":
            more = {"role": "user", "content": f"See src/part_{number}.py and HAT{number:03}. " * 9}
            context.add(more)
            prompt = context.prompt()
            assert known or not validate(prompt.messages, provider)


def test_the_model_reads_a_message_by_its_number():
    context = Context(budget=SMALL, outline=True, timeout=None)
    jit = ContextJIT(context)
    context.offer(jit.tools())
    worked(context, 8)
    context.compact(1_500)
    (outline,) = outlines(context.prompt("Go on, please."))
    assert "fetch_whole" in str(outline.content)
    listed = [each for each in read_lines(str(outline.content)) or () if each.reference]
    assert listed
    one = next(each for each in listed if each.name.startswith("src/part_"))
    place = int(one.reference.removeprefix("#"))
    assert one.name in json.dumps(context.history[place])
    call: dict[str, Any] = {
        "type": "tool_use",
        "id": "f1",
        "name": "fetch_whole",
        "input": {"handle": one.reference},
    }
    context.add({"role": "assistant", "content": [call]})
    answer = jit.handle(call)
    assert one.name in json.dumps(answer)


def test_a_number_that_is_shown_or_was_never_there_is_told():
    context = Context(budget=SMALL, outline=True, timeout=None)
    jit = ContextJIT(context)
    worked(context, 2)
    for number in (len(context.history) - 1, 10_000):
        call = {
            "type": "tool_use",
            "id": f"f{number}",
            "name": "fetch_whole",
            "input": {"handle": f"#{number}"},
        }
        assert "nothing is kept under" in json.dumps(jit.handle(call))


def test_without_one_asked_for_nothing_is_listed():
    context = Context(budget=SMALL, timeout=None)
    assert not any(map(outlines, worked(context, 8)))
    with pytest.raises(InvalidArgumentError, match="outline is 5"):
        Context(outline=5)
