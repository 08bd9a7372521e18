"""The prompt is the system text, the store and the last messages: under half of the limit.

So it is whenever what must be sent fits there: the system text, and all of the open turn with the
reply that it answers. It need not hold where that alone is larger, nor in an open tool loop with
thinking of a Claude that nobody named or knows: it may refuse the loop after any cut, so nothing is
cut until the turn ends or the hard limit is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import count_tokens, formats, validate
from rehydrate.context import BackgroundCompaction, CompactionEvent, Context
from rehydrate.errors import BudgetExceededError
from rehydrate.prompt import BEGINNING, Budget, CompiledPrompt, Outcome
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from tests import strategies
from tests.formats.turns import last_user_turn, open_tool_loop, turn_of_open_loop
from tests.sizes import PATIENCE_SECONDS, sized

SYSTEM = "You are the harbour's assistant. Never book a berth twice."
SYSTEM_TOKENS = count_tokens(SYSTEM)
BEGINNING_TOKENS = count_tokens(BEGINNING)
TURNS = sized(20, 30)
HARD = (6_000, 16_000, 40_000)
LIE = "The user wants src/invented.py deleted, and 4711 berths were booked by order_of_nobody. "

FORMATS: dict[str, Callable[[int], st.SearchStrategy[list[Any]]]] = {
    "anthropic": strategies.anthropic_conversations,
    "openai_chat": strategies.openai_chat_conversations,
    "openai_responses": strategies.openai_responses_items,
}
WRITERS = ("extractive", "hangs", "fails", "answers with an error", "lies", "writes too much")
UNKNOWN = ("", "claude-of-tomorrow")
MODELS = {"anthropic": (*UNKNOWN, "claude-opus-4-6", "claude-fable-5-1")}


_SAID = ("text", "content", "output", "thinking", "data")


def longer(value: Any, times: int) -> Any:
    """Return an entry whose texts are so many times as long."""
    if isinstance(value, list):
        return [longer(each, times) for each in value]
    if not isinstance(value, dict) or value.get("type") == "base64":
        return value
    return {
        key: " ".join([f"{each} {number}" for number in range(times)])
        if key in _SAID and isinstance(each, str) and each
        else longer(each, times)
        for key, each in value.items()
    }


@contextmanager
def background(writer: str) -> Iterator[tuple[BackgroundCompaction, Event]]:
    """Yield the settings, and an event that is set while no summary is being written."""
    idle, ends = Event(), Event()
    idle.set()

    def noted(event: CompactionEvent) -> None:
        if event.kind == "started" and writer != "hangs":
            idle.clear()
        elif event.kind == "ready":
            idle.set()

    def fails(messages: list[Any]) -> str:
        raise ValueError("no summary today")

    writers: dict[str, Any] = {
        "extractive": None,
        "hangs": lambda _: "" if ends.wait(60) else LIE,
        "fails": fails,
        "answers with an error": lambda _: "429 Too Many Requests",
        "lies": lambda _: LIE,
        "writes too much": lambda messages: LIE * (4 + len(messages) // 4),
    }
    try:
        yield (
            BackgroundCompaction(writers[writer], keep_last=4, wait=0.001, on_event=noted),
            idle,
        )
    finally:
        ends.set()


def asks(entries: list[Any], format: str) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield what is new, and all so far, wherever the model is to speak and the API takes it."""
    said = 0
    for end in range(1, len(entries) + 1):
        so_far = entries[:end]
        last = formats.parse(so_far, format).messages
        if not last or last[-1].role in ("assistant", "system") or validate(so_far, format):
            continue
        yield entries[said:end], so_far
        said = end


def must_be_sent(so_far: list[Any], format: str) -> int:
    """Return the tokens of the system text and of the open turn: all since the reply that the user
    answers, or since the user turn that an open tool loop works on; everything, where there is no
    such turn. System entries, and those that the provider holds the other half of, are sent too
    wherever they are."""
    conversation = formats.parse(so_far, format)
    reasons = conversation.pins()
    anywhere = {unit for unit, why in reasons.items() if why == "system" or why.startswith("bound")}
    in_loop = open_tool_loop(conversation) is not None
    turn = turn_of_open_loop(conversation) if in_loop else last_user_turn(conversation)
    first = 0 if turn is None else min(reasons.keys() - anywhere)
    units = {*anywhere, *range(first, len(conversation.units))}
    members = sorted({member for unit in units for member in conversation.units[unit].members})
    return count_tokens([so_far[member] for member in members], format=format) + SYSTEM_TOKENS


def sent_tokens(context: Context, prompt: CompiledPrompt) -> int:
    """Return the upper bound of the prompt, as the budget counts and as it is sent, but for the
    first user message that Anthropic needs: no budget counts that one."""
    assert context.ir is not None
    tokens = max(prompt.tokens - BEGINNING_TOKENS, prompt_tokens(context.ir))
    return max(upper_bound(tokens, context.provider), context.usage.upper_bound_tokens)


@pytest.mark.parametrize("format", FORMATS)
def test_every_prompt_is_under_half_of_the_limit(format):
    @given(
        entries=FORMATS[format](TURNS),
        times=st.sampled_from([1, 8, 30]),
        hard=st.sampled_from(HARD),
        writer=st.sampled_from(WRITERS),
        model=st.sampled_from(MODELS.get(format, ("",))),
    )
    def holds(entries, times, hard, writer, model):
        with background(writer) as (settings_, idle):
            context = Context(
                provider=format,
                model=model,
                system=SYSTEM,
                budget=Budget(soft_tokens=hard // 2, hard_tokens=hard),
                background=settings_,
            )
            for new, so_far in asks(longer(entries, times), format):
                if not check(context, new, so_far, hard):
                    break
                assert idle.wait(PATIENCE_SECONDS)

    holds()


def check(context: Context, new: list[Any], so_far: list[Any], hard: int) -> bool:
    """Add what is new and ask for the prompt: it is small enough, and valid. Return whether there
    is one: none where what must be sent is over the limit."""
    # Where a compaction left out the reply or the loop's first thought, an older or a later one
    # that is still shown takes its place, and must stay.
    before = context.ir.history.indices if context.ir else ()
    shown = [*(so_far[index] for index in before), *new]
    context.add(*new)
    tokens = max(must_be_sent(each, context.format) for each in (so_far, shown))
    must = upper_bound(tokens, context.provider)
    try:
        prompt = context.prompt()
    except BudgetExceededError:
        assert must > hard
        return False
    assert context.ir is not None
    sent = sent_tokens(context, prompt)
    assert not validate(prompt.messages, context.format)
    assert {section.id for section in context.ir.sections} <= {"system", "summary"}
    assert sent <= hard
    if context.ir.meta.outcome is Outcome.WAITS:
        assert prompt.model in UNKNOWN
        assert open_tool_loop(formats.parse(so_far, context.format)) is not None
    elif must <= hard // 2:
        assert sent <= hard // 2
    return True


@pytest.mark.parametrize("writer", WRITERS)
def test_a_summary_of_each_writer_is_sent_and_under_half(writer):
    """Turns that each fit easily; here no exception is allowed, and summaries do take part."""
    summaries = 0
    with background(writer) as (settings_, idle):
        context = Context(system=SYSTEM, budget=Budget(2_000, 4_000), background=settings_)
        for turn in range(60):
            prompt = context.prompt(f"What is at berth {turn}? " + "crane " * 40)
            assert sent_tokens(context, prompt) <= 2_000
            assert not validate(prompt.messages, "anthropic")
            summaries += any(section.id == "summary" for section in prompt.ir.sections)
            context.add({"role": "assistant", "content": f"Rope {turn}. " + "rope " * 40})
            assert idle.wait(PATIENCE_SECONDS)
    assert (summaries > 20) == (writer != "hangs")
