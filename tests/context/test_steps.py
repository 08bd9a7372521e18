"""A prompt that goes on from the last one is the prompt that is compiled from nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import formats
from rehydrate._native import Layout
from rehydrate.context import Context, ContextJIT, prompt_builder
from rehydrate.errors import RehydrateError
from rehydrate.prompt import (
    DEFAULT_PASSES,
    PROVIDERS,
    Budget,
    Caps,
    CapToolResults,
    CompiledPrompt,
    HeldOriginals,
    History,
    Pass,
    PromptIR,
    Provenance,
    RemoveEchoes,
    Section,
    compile as compile_ir,
)
from rehydrate.prompt.caps import cap_tool_results, remove_echoes
from rehydrate.prompt.compiler import compile_for
from rehydrate.prompt.counting import counted
from rehydrate.prompt.ir import RenderCache, Target
from tests.prompt.irs import irs
from tests.prompt.long_texts import long_conversations
from tests.sizes import sized
from tests.strategies import conversations, damaged

SESSION = Path(__file__).parents[2] / "examples" / "session.jsonl"
CAPS = Caps(default_tokens=400)

Outcome = CompiledPrompt | str


def small_passes() -> tuple[Pass, ...]:
    """The default passes, which cap and refer to short texts too."""
    cap, echoes = CapToolResults(CAPS), RemoveEchoes(least_characters=60)
    own = {id(cap_tool_results): cap, id(remove_echoes): echoes}
    return tuple([own.get(id(step), step) for step in DEFAULT_PASSES])


def forgetful(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The same passes, which remember nothing of the last prompt."""
    return tuple(
        [
            RemoveEchoes(step.least_characters) if isinstance(step, RemoveEchoes) else step
            for step in passes
        ]
    )


def outcome(compile_: Callable[[], CompiledPrompt]) -> Outcome:
    try:
        return compile_()
    except RehydrateError as error:
        return f"{type(error).__name__}: {error}"


def facts(made: Outcome) -> Any:
    """All of a prompt but the times that its passes took."""
    if isinstance(made, str):
        return made
    ir = made.ir
    trace = tuple([each._replace(elapsed_ms=0.0) for each in ir.meta.trace])
    return (
        json.dumps(made.request, default=repr),
        made.segments,
        (ir.sections, ir.tools, ir.late_bound, ir.breakpoints),
        (ir.history.entries, ir.history.tokens, tuple(ir.history.indices)),
        replace(ir.meta, trace=trace),
    )


def unread(ir: PromptIR) -> PromptIR:
    """The same IR, of whose history nothing is known."""
    history = ir.history
    again = History(history.entries, history.format, history.tokens, history.entry_indices)
    return ir.replace(history=again)


@contextmanager
def compiled_twice(every: int = 1) -> Iterator[list[CompiledPrompt]]:
    """Compile each prompt of a context from nothing too, and compare; yield the prompts.

    With `every`, that many prompts are made for each that is compared.
    """
    prompts: list[CompiledPrompt] = []

    def twice(
        target: Target,
        ir: PromptIR,
        passes: tuple[Pass, ...],
        sent: CompiledPrompt | None = None,
        refresh: Callable[[], PromptIR] | None = None,
    ) -> CompiledPrompt:
        if len(prompts) % every:
            prompts.append(compile_for(target, ir, passes, sent, refresh))
            return prompts[-1]
        refreshed = refresh and cache(refresh)

        def compiled_from_nothing() -> CompiledPrompt:
            fresh, whole = replace(target, render_cache=RenderCache()), unread(ir)

            def again() -> PromptIR:
                assert refreshed is not None
                return whole if refreshed() is ir else unread(refreshed())

            return compile_for(fresh, whole, forgetful(passes), sent, refresh and again)

        expected = outcome(compiled_from_nothing)
        made = outcome(lambda: compile_for(target, ir, passes, sent, refreshed))
        assert facts(made) == facts(expected)
        if isinstance(made, str):
            return compile_for(target, ir, passes, sent, refreshed)  # it raises again
        after = made.ir.history
        assert after.messages == formats.parse(after.entries, after.format).messages
        prompts.append(made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt_builder, "compile_for", twice)
        yield prompts


def replay(data: st.DataObject, context: Context, entries: list[Any]) -> None:
    """Add the entries a few at a time, with a prompt after each few; errors are compared too."""
    left = list(entries)
    while left:
        count = data.draw(st.integers(1, 3))
        context.add(*left[:count])
        del left[:count]
        with suppress(RehydrateError):
            context.prompt()


@given(st.one_of(conversations(), long_conversations()), st.sampled_from(PROVIDERS), st.data())
def test_a_prompt_is_the_same_whether_it_goes_on_or_begins_anew(named, provider, data):
    name, entries = named
    if data.draw(st.booleans()):
        entries = [*entries, *entries[-3:]]  # some ids come twice
    budget = data.draw(st.sampled_from([Budget(), Budget(), Budget(900, 10**6), Budget(60, 2_000)]))
    sources = data.draw(
        st.sampled_from(
            [(), lambda request: f"Something about {request.query[:20]!r}.", [rules, clock()]]
        )
    )
    context = Context(
        sources,
        provider=provider,
        format=name,
        system=data.draw(st.sampled_from([None, "Be brief."])),
        passes=data.draw(st.sampled_from([None, small_passes()])),
        granularity=data.draw(st.sampled_from(["message", "excerpt"])),
        budget=budget,
        timeout=None,
    )
    with compiled_twice():
        with suppress(RehydrateError):  # an entry that the provider's format does not hold
            replay(data, context, entries)
        if data.draw(st.booleans()):
            ContextJIT(context)  # offers tools, which breaks the prefix
            replay(data, context, [])


@given(irs(), st.sampled_from(PROVIDERS), st.data())
def test_prompts_of_one_cache_whatever_their_sections(ir, provider, data):
    ir = counted(ir)  # so that its sections stay the same objects
    entries, name = ir.history.entries, ir.history.format
    cache, passes = RenderCache(), small_passes()
    some = data.draw(st.lists(st.integers(0, len(ir.sections)), min_size=1, max_size=4))
    history = History((), name)
    for end in sorted(data.draw(st.lists(st.integers(0, len(entries)), min_size=1, max_size=4))):
        # The same sections mostly, so that one prompt goes on from the other.
        sections = ir.sections[: data.draw(st.sampled_from(some))]
        new = slice(len(history.entries), end)
        added = History(entries[new], name, ir.history.tokens[new], tuple(range(end))[new])
        history = history.followed_by(added)
        part = ir.replace(sections=sections, history=history)
        unread = ir.replace(sections=sections, history=History(entries[:end], name))
        fresh = outcome(lambda: compile_ir(unread, provider, passes=forgetful(passes)))  # noqa: B023
        made = outcome(lambda: compile_ir(part, provider, passes=passes, render_cache=cache))  # noqa: B023
        assert facts(made) == facts(fresh)


def test_a_section_goes_before_an_open_call_that_the_last_prompt_had():
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}
    with compiled_twice() as prompts:
        context = Context(clock(), timeout=None)
        context.prompt("Read it.")
        context.add({"role": "assistant", "content": [call]})
        context.prompt()
        context.add({"role": "user", "content": "Stop."})
        context.prompt()
    assert "struck 2 times" in json.dumps(prompts[-1].messages[-3])


@given(conversations(), st.data())
def test_damaged_histories_too(named, data):
    name, entries = named
    provider = name if name in PROVIDERS else "anthropic"
    context = Context(provider=provider, format=name, passes=small_passes())
    with compiled_twice(), suppress(RehydrateError):
        replay(data, context, data.draw(damaged(entries)))


def rules(request):
    del request
    return [
        Section(
            "rules",
            "Never write to main.",
            Provenance("wiki", items=("rule_1", "history[1]"), trust=0.5),
            stability="static",
        ),
        Section(
            "seen", "What stood in the second entry.", Provenance("notes", items=("history[1]",))
        ),
    ]


def clock() -> Callable[[Any], str]:
    struck = 0

    def tell(request):
        nonlocal struck
        del request
        struck += 1
        return f"The clock of the tower struck {struck} times since the morning."

    return tell


class Store(HeldOriginals):
    """A store of originals that may be full for a while."""

    is_full = False

    def put(self, text, /, **options):
        if self.is_full:
            raise OSError("the disk is full")
        return super().put(text, **options)


def coding_session() -> list[dict[str, Any]]:
    """The messages of the example, as they are sent."""
    lines = [json.loads(line) for line in SESSION.read_text("utf-8").splitlines() if line.strip()]
    ir = PromptIR(history=History(tuple(lines), "claude_code"))
    return compile_ir(ir, "anthropic", passes=()).messages


@pytest.mark.parametrize(("passes", "thinking"), [(None, "auto"), (small_passes(), "keep")])
def test_a_coding_session_step_by_step(passes, thinking):
    context = Context(
        clock(),
        system="You are a coding agent.",
        tools=[{"name": "grep", "description": "Searches.", "input_schema": {"type": "object"}}],
        passes=passes,
        thinking=thinking,
        budget=Budget(30_000, 10**7),
        timeout=None,
    )
    gone_on = 0
    # A mistake in one prompt is in the next ones too.
    with compiled_twice(every=sized(3, 2)) as prompts:
        for number, message in enumerate(coding_session()):
            context.add(message)
            if message["role"] == "user":
                context.prompt()
                _, layout = context._builder.target.render_cache.known(Layout, History())
                gone_on += layout.kept > 0
            if number == 60:
                context.name_model("claude-opus-4-1")
    assert context.usage.compactions > 0
    assert len(prompts) > gone_on > len(prompts) // 2


def test_a_store_that_was_full_is_asked_again():
    long = "\n".join([f"line {number} of the log, port {8000 + number}" for number in range(400)])
    originals = Store()
    context = Context(passes=small_passes(), originals=originals)
    context.add({"role": "user", "content": "Read the logs."})
    with compiled_twice() as prompts:
        for number in range(9):
            call = f"toolu_{number}"
            asked = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": call}}
            text = long if number % 3 else long[number:] + f"\nend {number}"
            found = {"type": "tool_result", "tool_use_id": call, "content": text}
            originals.is_full = number in (2, 3, 6)
            context.add(
                {"role": "assistant", "content": [asked]}, {"role": "user", "content": [found]}
            )
            context.prompt()
    shown = [len(json.dumps(prompt.messages[2 * n + 2])) for n, prompt in enumerate(prompts)]
    last = [len(json.dumps(message)) for message in prompts[-1].messages[2::2]]
    assert max(shown[2], shown[3], shown[6]) > len(long) > max(last)


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat"])
def test_a_system_entry_in_mid_conversation(provider):
    entries: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for turn in range(4):
        call = f"toolu_{turn}"
        asked = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": "a"}}
        found = {"type": "tool_result", "tool_use_id": call, "content": f"line {turn}"}
        entries += [
            {"role": "user", "content": f"Question {turn}?"},
            {"role": "assistant", "content": [asked]},
            {"role": "system", "content": f"Rule {turn}."},
            {"role": "user", "content": [found]},
            {"role": "assistant", "content": "Done."},
        ]
    context = Context(provider=provider, format="anthropic")
    with compiled_twice() as prompts:
        for entry in entries:
            context.add(entry)
            if len(context.history) > 1:
                context.prompt()
    assert len(prompts) == len(entries) - 1
