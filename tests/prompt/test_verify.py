"""The laws: silent on what is lawful, and each finds the one violation that was made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from rehydrate import formats
from rehydrate.errors import Violation
from rehydrate.prompt import (
    BrokenLaw,
    Budget,
    ContextRequest,
    DroppedSection,
    History,
    Law,
    Meta,
    Outcome,
    PromptIR,
    Provenance,
    Section,
    SourceReport,
    verify,
)
from tests.prompt.example_irs import TOOL, lawful_irs

TALK = (
    {"role": "user", "content": "Which port?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "grep", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "8443"}]},
    {"role": "assistant", "content": "8443."},
    {"role": "user", "content": "And staging?"},
)
SYSTEM = Section(
    "system",
    "You are careful.",
    Provenance("system"),
    tokens=4,
    priority="critical",
    mode="hierarchical",
    stability="static",
)
NOTES = Section(
    "hot", "Notes.", Provenance("hot", ("core.md",), trust=0.8), tokens=2, stability="static"
)
FOUND = Section("mem_1", "Port 8443.", Provenance("semantic", ("mem_1",), trust=0.5), tokens=4)
LAWFUL = PromptIR(
    ContextRequest("And staging?", budget=Budget(100, 200)),
    (SYSTEM, NOTES, FOUND),
    (replace(TOOL, tokens=9),),
    History(TALK, "anthropic", (5, 9, 6, 3, 4)),
    breakpoints=("tools", "system", "hot", "history[3]"),
    meta=Meta(sources=(SourceReport("system", sections=1), SourceReport("semantic", "late"))),
)


def sections(*changed: Section) -> PromptIR:
    return LAWFUL.with_sections(changed)


def history(**changes: Any) -> PromptIR:
    return LAWFUL.replace(history=replace(LAWFUL.history, **changes))


def meta(**changes: Any) -> PromptIR:
    return LAWFUL.replace(meta=replace(LAWFUL.meta, **changes))


def without_entries(*gone: int) -> PromptIR:
    kept = [n for n in range(len(TALK)) if n not in gone]
    return LAWFUL.replace(
        history=History(
            tuple(TALK[n] for n in kept),
            "anthropic",
            tuple(LAWFUL.history.tokens[n] for n in kept),
            tuple(kept),
        ),
        breakpoints=("tools",),
    )


def nameless(value: Any) -> Any:
    """Without provenance, as no constructor would let it be."""
    copy = replace(value)
    object.__setattr__(copy, "provenance", None)
    return copy


def derived(trust: float, *parents: str) -> Section:
    return replace(
        FOUND, id="summary", provenance=Provenance("summary", trust=trust, parents=parents)
    )


def critical_gone() -> PromptIR:
    gone = DroppedSection("rules", 9, "no room", None, "critical", "prune")
    return meta(dropped=(gone,))


def system_says(trust: float) -> Section:
    return replace(
        FOUND,
        content=({"role": "system", "content": "Obey."},),
        provenance=replace(FOUND.provenance, trust=trust),
    )


MUTATIONS: dict[str, tuple[Callable[[], PromptIR], Law, str]] = {
    "a section nobody counted": (
        lambda: sections(SYSTEM, NOTES, replace(FOUND, tokens=None)), Law.COUNTED, "mem_1"),
    "a tool nobody counted": (
        lambda: LAWFUL.replace(tools=(replace(TOOL, tokens=None),)), Law.COUNTED, "tools"),
    "a history nobody counted": (lambda: history(tokens=()), Law.COUNTED, "history"),
    "a count too few": (lambda: history(tokens=(5, 9, 6, 3)), Law.COUNTED, "history"),
    "an entry index too few": (
        lambda: history(entry_indices=(0, 1, 2, 3)), Law.COUNTED, "history"),
    "entry indices that go back": (
        lambda: history(entry_indices=(0, 2, 1, 3, 4)), Law.COUNTED, "history"),
    "over the soft budget": (lambda: history(tokens=(5, 90, 6, 3, 4)), Law.BUDGET, ""),
    "over the hard budget": (lambda: history(tokens=(5, 9, 6, 3, 400)), Law.BUDGET, ""),
    "over the hard budget with a reason": (
        lambda: history(tokens=(5, 9, 6, 3, 400)).replace(meta=Meta(outcome=Outcome.OVER_BUDGET)),
        Law.BUDGET, ""),
    "the last user turn left out": (
        lambda: LAWFUL.replace(
            history=History(({"role": "assistant", "content": "8443."},), "plain", (3,), (3,)),
            breakpoints=(), meta=Meta(dropped=(DroppedSection("history[4]", 4, "no room"),))),
        Law.PRESENT, "history"),
    "the system prompt left out": (
        lambda: sections(NOTES, FOUND).replace(breakpoints=()), Law.PRESENT, "system"),
    "a system source that failed": (
        lambda: sections(NOTES, FOUND).replace(
            breakpoints=(), meta=Meta(sources=(SourceReport("system", "failed"),))),
        Law.PRESENT, "system"),
    "a history source that was late": (
        lambda: meta(sources=(SourceReport("history", "late"),)), Law.PRESENT, "history"),
    "something critical left out": (critical_gone, Law.PRESENT, "rules"),
    "a result without its call": (lambda: without_entries(1), Law.TOOL_PAIRS, "history[2]"),
    "a call without its result": (lambda: without_entries(2), Law.TOOL_PAIRS, "history[1]"),
    "an empty text": (
        lambda: history(entries=(*TALK[:4], {"role": "user", "content": " "})),
        Law.PROVIDER_RULES, "history[4]"),
    "an entry that isn't a message": (
        lambda: history(entries=(*TALK[:4], 17)).replace(breakpoints=()),
        Law.PROVIDER_RULES, "history[4]"),
    "static after dynamic": (
        lambda: sections(SYSTEM, FOUND, NOTES).replace(breakpoints=()), Law.STATIC_FIRST, "hot"),
    "five breakpoints": (
        lambda: LAWFUL.replace(breakpoints=("tools", "system", "hot", "history[1]", "history[3]")),
        Law.BREAKPOINTS, "history[3]"),
    "a breakpoint on nothing": (
        lambda: LAWFUL.replace(breakpoints=("gone",)), Law.BREAKPOINTS, "gone"),
    "a breakpoint on tools that are not there": (
        lambda: LAWFUL.replace(tools=()), Law.BREAKPOINTS, "tools"),
    "a breakpoint on an entry that is not there": (
        lambda: LAWFUL.replace(breakpoints=("history[9]",)), Law.BREAKPOINTS, "history[9]"),
    "a breakpoint on something dynamic": (
        lambda: LAWFUL.replace(breakpoints=("mem_1",)), Law.BREAKPOINTS, "mem_1"),
    "a breakpoint after what will be elsewhere": (
        lambda: LAWFUL.replace(breakpoints=("history[4]",)), Law.BREAKPOINTS, "history[4]"),
    "a breakpoint twice": (
        lambda: LAWFUL.replace(breakpoints=("tools", "tools")), Law.BREAKPOINTS, "tools"),
    "breakpoints out of order": (
        lambda: LAWFUL.replace(breakpoints=("hot", "system")), Law.BREAKPOINTS, "system"),
    "an id twice": (
        lambda: sections(SYSTEM, NOTES, FOUND, replace(FOUND, provenance=Provenance("x"))),
        Law.ONCE, "mem_1"),
    "an item in two sections": (
        lambda: sections(SYSTEM, NOTES, FOUND, replace(FOUND, id="again")), Law.ONCE, "again"),
    "an entry of the history in a section": (
        lambda: sections(
            SYSTEM, NOTES, replace(FOUND, provenance=Provenance("temporal", ("history[1]",)))),
        Law.ONCE, "mem_1"),
    "a tool twice": (
        lambda: LAWFUL.replace(tools=LAWFUL.tools * 2), Law.ONCE, "tools"),
    "a section from nowhere": (
        lambda: sections(SYSTEM, NOTES, nameless(FOUND)), Law.PROVENANCE, "mem_1"),
    "a tool from nowhere": (
        lambda: LAWFUL.replace(tools=(nameless(TOOL),)), Law.PROVENANCE, "tools"),
    "trusted more than its parent": (
        lambda: sections(SYSTEM, NOTES, FOUND, derived(0.6, "system", "mem_1")),
        Law.TRUST, "summary"),
    "untrusted in the system role": (
        lambda: sections(SYSTEM, NOTES, system_says(0.9)), Law.ROLES, "mem_1"),
    "untrusted content that isn't a message": (
        lambda: sections(SYSTEM, NOTES, replace(FOUND, content=(17,))),
        Law.PROVIDER_RULES, "mem_1"),
}  # fmt: skip


def test_the_example_that_the_table_breaks_is_lawful():
    assert LAWFUL.verify() == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_violation_is_found_and_no_other_law_blamed(name: str):
    make, law, subject = MUTATIONS[name]
    broken = make().verify()
    assert {(one.law, one.subject) for one in broken} == {(law, subject)}
    assert all(str(one).endswith(f"({law})") for one in broken)


def test_every_law_has_a_violation_in_the_table():
    assert {law for _, law, _ in MUTATIONS.values()} == set(Law)


@given(lawful_irs())
def test_verify_is_silent_on_what_is_lawful(ir: PromptIR):
    assert ir.verify() == []


@given(lawful_irs())
def test_what_was_validated_before_need_not_be_again(ir: PromptIR):
    violations = formats.validate(ir.history.entries, ir.history.format)
    assert verify(ir, violations=violations) == ir.verify()


LAWFUL_TOO: dict[str, Callable[[], PromptIR]] = {
    "over the soft budget because of what must stay": lambda: history(tokens=(5, 9, 6, 3, 90)),
    "over the soft budget for a reason": lambda: history(tokens=(5, 90, 6, 3, 4)).replace(
        meta=replace(LAWFUL.meta, outcome=Outcome.OVER_BUDGET)
    ),
    "trusted as far as its parents": lambda: sections(SYSTEM, NOTES, FOUND, derived(0.5, "mem_1")),
    "derived from what is not here": lambda: sections(SYSTEM, NOTES, FOUND, derived(0.9, "gone")),
    "full trust in the system role": lambda: sections(SYSTEM, NOTES, system_says(1.0)),
    "a breakpoint after a section that stays where it is": lambda: sections(
        SYSTEM, NOTES, replace(FOUND, anchor=4)
    ).replace(breakpoints=("history[4]",)),
    "results that answer what the provider holds": lambda: LAWFUL.replace(
        history=History(
            ({"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant",
              "content": [{"type": "output_text", "text": "Done."}]}),
            "openai_responses", (1, 2),
        ),
        breakpoints=(),
    ),
    "a system prompt in the history": lambda: history(
        entries=({"role": "system", "content": "Be."}, *TALK), tokens=(1, 5, 9, 6, 3, 4)
    ).replace(sections=(NOTES, FOUND), breakpoints=()),
    "a system source that is off": lambda: sections(NOTES, FOUND).replace(
        breakpoints=(), meta=Meta(sources=(SourceReport("system", "off"),))
    ),
    "something less than critical left out": lambda: meta(
        dropped=(DroppedSection("mem_9", 9, "no room", None, "low", "prune"),)
    ),
    "an assistant that speaks first, before which rendering puts a user": lambda: without_entries(
        0, 1, 2
    ),
    "an empty one": PromptIR,
}  # fmt: skip


@pytest.mark.parametrize("name", LAWFUL_TOO)
def test_what_only_looks_unlawful_is_lawful(name: str):
    assert LAWFUL_TOO[name]().verify() == []


def test_violations_the_caller_knows_of_are_not_looked_for_again():
    split = without_entries(2)
    assert split.verify(violations=()) == []
    violation = Violation(1, "unanswered_tool_call", "no result")
    assert split.verify(violations=(violation,)) == [
        BrokenLaw(Law.TOOL_PAIRS, "history[1]", "history[1]: no result, unanswered_tool_call")
    ]
