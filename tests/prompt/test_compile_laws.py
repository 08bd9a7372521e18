"""The laws of compile, on generated IRs around conversations of every format."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings, strategies as st

import rehydrate
import rehydrate.formats
from rehydrate.errors import BudgetExceededError, InvalidArgumentError, InvalidMessageError
from rehydrate.prompt import PROVIDERS, Budget, CompiledPrompt, History, Outcome, PromptIR, compile
from rehydrate.prompt.counting import upper_bound
from tests.prompt.irs import UNTRUSTED, found, irs, system_section
from tests.strategies import conversations, damaged

providers = st.sampled_from(PROVIDERS)
tight = st.builds(
    lambda soft, more: Budget(soft_tokens=soft, hard_tokens=soft + more, compact_to=0.6),
    st.sampled_from([20, 100, 400, 1_500]),
    st.sampled_from([0, 5_000]),
)


def compiled(ir: PromptIR, provider: Any) -> CompiledPrompt | None:
    try:
        return compile(ir, provider, minimum_prefix=10)
    except BudgetExceededError as error:
        assert error.needed_tokens > error.budget_tokens
        return None
    except InvalidArgumentError as error:
        assert "no message" in str(error)
        return None


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


def a_valid_history_becomes_a_valid_prompt(ir, prompt, provider):
    assert rehydrate.validate(ir.history.entries, ir.history.format) == []
    assert rehydrate.validate(prompt.messages, provider) == []


def a_prompt_is_valid_whatever_the_budget(ir, prompt, provider):
    assert rehydrate.validate(prompt.messages, provider) == []
    budget = ir.budget
    bound = upper_bound(prompt.tokens, provider)
    is_excused = prompt.ir.meta.outcome is not Outcome.FITS
    # "(Earlier messages are not shown.)", and what a conversion writes in more words.
    slack = 40
    assert bound <= budget.soft_tokens + slack or is_excused
    assert bound <= budget.hard_tokens + slack


def what_must_stay_stays_and_floors_hold(ir, prompt, provider):
    kept = {section.id: section for section in prompt.ir.sections}
    for section in ir.sections:
        if section.must_stay_whole:
            assert kept[section.id].content == section.content
        elif section.min_tokens:
            whole = rehydrate.count_tokens(section.content)
            assert rehydrate.count_tokens(kept[section.id].content) >= min(
                section.min_tokens, whole
            )
        elif section.id not in kept:
            assert any(gone.section == section.id for gone in prompt.ir.meta.dropped)


def the_system_role_never_speaks_untrusted_words(ir, prompt, provider):
    spoken = json.dumps(prompt.request.get("system", []))
    spoken += json.dumps(
        [
            message
            for message in prompt.messages
            if isinstance(message, dict) and message.get("role") in ("system", "developer")
        ]
    )
    assert UNTRUSTED not in spoken


def all_that_is_untrusted_stands_between_its_own_tags(ir, prompt, provider):
    for message in prompt.messages:
        text = json.dumps(message, default=str)
        if UNTRUSTED in text:
            assert message["role"] == "user"
            assert "<context-" in text.partition(UNTRUSTED)[0]
            assert "</context-" in text.rpartition(UNTRUSTED)[2]


def blocks_of(messages: Any) -> list[Any]:
    """Return Converse's blocks, without those of the system and cache points."""
    return [
        block
        for message in messages
        if message["role"] != "system" and isinstance(message["content"], list)
        for block in message["content"]
        if "cachePoint" not in block
    ]


def the_callers_own_entries_are_the_very_same_objects(ir, prompt, provider):
    if ir.history.format != provider:
        return
    if provider == "bedrock":  # two messages of one role are sent as one
        theirs, said = map(blocks_of, (ir.history.entries, prompt.messages))
        rest = iter(said)
        assert all(any(block is each for each in rest) for block in theirs)
        return
    entries = [each for each in ir.history.entries if each.get("role") != "system"]
    if provider != "anthropic":
        entries = list(ir.history.entries)
    marked = {name for name in prompt.ir.breakpoints if name.startswith("history[")}
    sent = iter(prompt.messages)
    for entry in entries:
        for message in sent:
            if message is entry:
                break
            as_block = {**entry, "content": [{"type": "text", "text": entry["content"]}]}
            if marked and unmarked(message) in (unmarked(entry), unmarked(as_block)):
                break
        else:
            raise AssertionError(f"{entry} is not among what is sent")


def compiling_twice_gives_the_same_bytes(ir, prompt, provider):
    other = compiled(ir, provider)
    assert other is not None
    assert json.dumps(prompt.request, default=repr) == json.dumps(other.request, default=repr)
    assert prompt.segments == other.segments


def segments_say_what_is_sent_in_its_order(ir, prompt, provider):
    assert len({segment.id for segment in prompt.segments}) == len(prompt.segments)
    kinds = [segment.kind for segment in prompt.segments]
    assert kinds == sorted(kinds, key=["tool", "system", "message"].index)
    if provider == "bedrock":
        assert kinds.count("message") >= len(prompt.messages)
    else:
        system = kinds.count("system") if provider not in ("ai_sdk", "anthropic", "gemini") else 0
        assert kinds.count("message") + system == len(prompt.messages)
    names = {"bedrock": "cachePoint", "ai_sdk": "cacheControl"}
    mark = f'"{names.get(provider, "cache_control")}"'
    marks = json.dumps(prompt.request, default=str).count(mark)
    assert marks <= 4
    assert sum(segment.breakpoint for segment in prompt.segments) <= marks


def compiling_again_what_was_pruned_leaves_nothing_more_out(ir, prompt, provider):
    again = compiled(prompt.ir, provider)
    assert again is not None
    assert [s.id for s in again.ir.sections] == [s.id for s in prompt.ir.sections]
    assert again.ir.history.entries == prompt.ir.history.entries


LAWS = (
    a_valid_history_becomes_a_valid_prompt,
    the_system_role_never_speaks_untrusted_words,
    all_that_is_untrusted_stands_between_its_own_tags,
    the_callers_own_entries_are_the_very_same_objects,
    compiling_twice_gives_the_same_bytes,
    segments_say_what_is_sent_in_its_order,
)
LAWS_OF_A_BUDGET = (
    a_prompt_is_valid_whatever_the_budget,
    what_must_stay_stays_and_floors_hold,
    compiling_again_what_was_pruned_leaves_nothing_more_out,
)


@settings(max_examples=2 * settings().max_examples)
@given(irs(), providers)
def test_the_laws_of_a_prompt_hold(ir, provider):
    prompt = compiled(ir, provider)
    for law in LAWS if prompt is not None else ():
        law(ir, prompt, provider)


@settings(max_examples=2 * settings().max_examples)
@given(irs(tight), providers)
def test_the_laws_hold_whatever_the_budget(ir, provider):
    prompt = compiled(ir, provider)
    for law in LAWS_OF_A_BUDGET if prompt is not None else ():
        law(ir, prompt, provider)


@given(conversations(), providers, st.data())
def test_the_prompt_of_a_later_turn_begins_with_that_of_an_earlier_one(
    conversation, provider, data
):
    name, entries = conversation
    messages = rehydrate.formats.parse(entries, name).messages
    turns = [
        after.index
        for before, after in pairwise(messages)
        if after.is_user_turn and before.role == "assistant" and not before.calls
    ]
    if not turns:
        return
    end = data.draw(st.sampled_from(turns))
    anchors = [anchor for anchor in turns if anchor <= end]
    sections = [found(number, anchor=anchor) for number, anchor in enumerate(anchors)]
    sections.append(system_section())
    prompts = [
        compile(
            PromptIR(sections=tuple(sections), history=History(tuple(part), name)),
            provider,
            minimum_prefix=1,
        )
        for part in (entries[:end], entries)
    ]
    one, other = ([segment.digest for segment in each.segments] for each in prompts)
    assert other[: len(one)] == one


@given(conversations(), providers, st.data())
def test_a_damaged_history_is_reported_or_refused_and_never_a_fault_of_ours(
    conversation, provider, data
):
    name, entries = conversation
    broken = data.draw(damaged(entries))
    try:
        violations = rehydrate.validate(broken, name)
        prompt = compiled(PromptIR(history=History(tuple(broken), name)), provider)
    except InvalidMessageError:
        return
    if prompt is not None and rehydrate.validate(prompt.messages, provider):
        assert violations
        assert any("as it came in" in why for why in prompt.ir.meta.degraded)
