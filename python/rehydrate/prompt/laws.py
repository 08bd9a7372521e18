"""The laws of a prompt: every IR that is sent must keep them; `verify` returns the broken ones.

    for broken in ir.verify():
        print(broken)        # two sections have the id 'notes' (once)

An IR keeps them after all passes. Before the passes it may break those of budget and order, because
the passes establish these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats import parse, validate
from rehydrate.prompt.section import (
    FULL_TRUST,
    MOST_BREAKPOINTS,
    TOOLS,
    Outcome,
    Priority,
    Provenance,
    Section,
)

if TYPE_CHECKING:
    from rehydrate.messages import Conversation
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.section import PromptContent


_PAIRING_RULES = frozenset(
    {
        *("unanswered_tool_call", "tool_result_without_call", "tool_message_without_call"),
        *("server_result_without_call", "duplicate_result", "results_not_first"),
        *("results_not_together", "reasoning_without_item"),
    }
)
_REPAIRED_RULE = "first_not_user"
"""Rendering repairs a history that breaks this rule: it puts a user message in front."""


class Law(StrEnum):
    """The name of a law."""

    COUNTED = "counted"
    """Every section, tool and entry of the history has a token count."""
    BUDGET = "budget"
    """The prompt is within the hard budget. It is over the soft one only if what must stay is
    larger, or if ``meta.outcome`` says why."""
    PRESENT = "present"
    """The system prompt, the last user turn and all critical sections are there."""
    TOOL_PAIRS = "tool_pairs"
    """Every tool call is with its results, as the provider requires."""
    PROVIDER_RULES = "provider_rules"
    """The history breaks no other rule of the provider."""
    STATIC_FIRST = "static_first"
    """Static sections come before dynamic ones."""
    BREAKPOINTS = "breakpoints"
    """There are at most 4 breakpoints, each once, in the order of the prompt, each on a static
    end."""
    ONCE = "once"
    """Ids are unique. No item, and no part of one, is in two sections, late-bound ones
    included. A late-bound section is in a result that the history has."""
    PROVENANCE = "provenance"
    """All content has a provenance."""
    TRUST = "trust"
    """A derived section has no more trust than the least trusted of its parents."""
    ROLES = "roles"
    """Content that is not fully trusted is never in the system role."""


class BrokenLaw(NamedTuple):
    """One law that one part of the prompt breaks."""

    law: Law
    subject: str
    """The part: a section's id, ``history[12]``, ``tools``, or "" for the whole prompt."""
    message: str

    def __str__(self) -> str:
        """Return one line: the part, its problem, the law."""
        return f"{self.message} ({self.law.value})"


def verify(ir: PromptContent, *, violations: Sequence[Violation] | None = None) -> list[BrokenLaw]:
    """Return the broken laws, in the order of the laws; empty for a lawful IR.

    Nearly all the time goes into reading and validating the history. It is read once; a caller that
    has just validated it passes the ``violations`` of ``rehydrate.validate``, without those of the
    caller's own input.
    """
    facts = _Facts(ir, violations)
    # Nearly all other laws need the provenance, for trust, and the entry indices, for names.
    for laws in (_FORMS, _LAWS):
        broken = [BrokenLaw(law, *problem) for law, check in laws for problem in check(facts)]
        if broken:
            break
    return broken


@dataclass
class _Facts:
    """The IR, and facts that several laws need. Each is computed when it is first needed."""

    ir: PromptContent
    given_violations: Sequence[Violation] | None

    @cached_property
    def conversation(self) -> Conversation | None:
        """The history, parsed; None where some entry is not a message."""
        try:
            return self.ir.history.conversation
        except InvalidMessageError:
            return None

    @cached_property
    def violations(self) -> Sequence[Violation]:
        if self.given_violations is not None:
            return self.given_violations
        history = self.ir.history
        try:
            return validate(history.entries, history.format)
        except InvalidMessageError as error:
            return [Violation(error.index or 0, "no_message", str(error))]

    @cached_property
    def sections(self) -> Mapping[str, Section]:
        return {section.id: section for section in self.ir.sections}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each entry, by its id."""
        history = self.ir.history
        return {history.entry_id(n): n for n in range(len(history.entries))}

    @cached_property
    def last_user_turn(self) -> int | None:
        """The position of the last user turn."""
        last = self.conversation and self.conversation.last_user_message()
        return None if last is None else last.index


_Problems = Iterator[tuple[str, str]]
"""What breaks a law: the part and the message, as in `BrokenLaw`."""
_Check = Callable[[_Facts], _Problems]


def _counted(facts: _Facts) -> _Problems:
    ir = facts.ir
    for section in ir.sections:
        if section.tokens is None:
            yield section.id, f"section {section.id!r} was not counted"
    for tool in ir.tools:
        if tool.tokens is None:
            yield TOOLS, f"tool {tool.name!r} was not counted"
    yield from _one_each(ir.history, "tokens", ir.history.tokens)


def _entry_indices(facts: _Facts) -> _Problems:
    history = facts.ir.history
    if history.entry_indices:
        yield from _one_each(history, "entry indices", history.entry_indices)
    if any(one >= other for one, other in pairwise(history.entry_indices)):
        yield "history", "the history's entry indices do not ascend"


def _one_each(history: History, name: str, numbers: Sequence[int]) -> _Problems:
    """Check that there is one number for each entry."""
    size = len(history.entries)
    if len(numbers) != size:
        yield "history", f"the history has {size:,} entries and {len(numbers):,} {name}"


def _budget(facts: _Facts) -> _Problems:
    ir = facts.ir
    tokens, soft, hard = ir.tokens, ir.budget.soft_tokens, ir.budget.hard_tokens
    if tokens > hard:
        yield "", f"{tokens:,} tokens are over the hard budget of {hard:,}"
    elif tokens > soft and ir.meta.outcome is Outcome.FITS:
        required = _required_tokens(facts)
        if required <= soft:
            over = f"{tokens:,} tokens are over the soft budget of {soft:,}"
            yield "", f"{over} for no reason: only {required:,} must stay"


def _required_tokens(facts: _Facts) -> int:
    """Return the tokens that no pass may leave out: tools, whole sections, minimums, pins."""
    ir = facts.ir
    tokens = sum(tool.tokens or 0 for tool in ir.tools)
    for section in ir.sections:
        whole = section.tokens or 0
        tokens += whole if section.must_stay_whole else min(section.min_tokens, whole)
    counts, conversation = ir.history.tokens, facts.conversation
    if conversation is not None and len(counts) == len(ir.history.entries):
        for unit in conversation.pins():
            tokens += sum(counts[member] for member in conversation.units[unit].members)
    return tokens


def _present(facts: _Facts) -> _Problems:
    ir = facts.ir
    has_lost_entries = any(one.of_entry for one in ir.meta.dropped)
    # A history may come in without a user turn: results for a response that the provider stores.
    if has_lost_entries and facts.conversation is not None and facts.last_user_turn is None:
        yield "history", "entries of the history were left out, the user's last turn too"
    for source in ir.meta.sources:
        has_prompt = source.status != "off" and (source.sections or source.status != "ok")
        if source.name == "system" and has_prompt and not _has_system(facts):
            why = f": {source.detail}" if source.detail else ""
            yield "system", f"the system prompt is missing ({source.status}{why})"
        elif source.name == "history" and source.status in ("late", "failed"):
            yield "history", f"the history is missing: its source {source.status}"
    for name, _, reason, _, priority, _ in ir.meta.dropped:
        if priority.lower() == Priority.CRITICAL.name.lower():
            yield name, f"{name!r} is critical and was left out: {reason}"


def _has_system(facts: _Facts) -> bool:
    if any(section.provenance.source == "system" for section in facts.ir.sections):
        return True
    return facts.conversation is not None and any(
        message.role == "system" for message in facts.conversation.messages
    )


def _provider_rules(facts: _Facts, *, paired: bool = False) -> _Problems:
    size = len(facts.ir.history.entries)
    for index, rule, message in facts.violations:
        if rule != _REPAIRED_RULE and (rule in _PAIRING_RULES) is paired:
            entry = facts.ir.history.entry_index(index) if index < size else 0
            yield EntryId.of(entry), f"{EntryId.of(entry)}: {message}, {rule}"


def _static_first(facts: _Facts) -> _Problems:
    dynamic: str | None = None
    for section in facts.ir.sections:
        if not section.is_static:
            dynamic = dynamic or section.id
        elif dynamic is not None:
            where = f"static and stands after {dynamic!r}, which is not"
            yield section.id, f"section {section.id!r} is {where}"


def _breakpoints(facts: _Facts) -> _Problems:
    marks = facts.ir.breakpoints
    if len(marks) > MOST_BREAKPOINTS:
        yield marks[-1], f"{len(marks)} breakpoints, {MOST_BREAKPOINTS} are allowed"
    before = (-1, -1)
    for mark in marks:
        end = _end_of(mark, facts)
        if end is None:
            problem = "names nothing in the prompt"
        elif end == before:
            problem = "stands there twice"
        elif end < before:
            problem = "stands before the one that precedes it in the list"
        else:
            problem = "" if _is_static_end(mark, facts) else "is no static end"
        if problem:
            yield mark, f"breakpoint {mark!r} {problem}"
        before = max(before, end or before)


def _end_of(mark: str, facts: _Facts) -> tuple[int, int] | None:
    """Return the layer and the index in it of a breakpoint, in the order of the prompt.

    The layers are the tools, the system, the other static sections, the history.
    """
    if mark == TOOLS:
        return (0, 0) if facts.ir.tools else None
    if mark in facts.positions:
        return (3, facts.positions[mark])
    section = facts.sections.get(mark)
    if section is None:
        return None
    layer = 1 if section.is_system else 2 if section.is_static else 4
    return (layer, facts.ir.sections.index(section))


def _is_static_end(mark: str, facts: _Facts) -> bool:
    """Whether everything up to the breakpoint is the same in the next turn.

    A dynamic section without an anchor is before the last user turn, so it moves in the next
    prompt. Nothing from there on is static.
    """
    section = facts.sections.get(mark)
    if section is not None:
        return section.is_static
    if mark == TOOLS or all(one.is_static or one.anchor is not None for one in facts.ir.sections):
        return True
    last = facts.last_user_turn
    return last is None or facts.positions[mark] < last


def _once(facts: _Facts) -> _Problems:
    seen: dict[object, str] = {}
    ids: set[str] = set()
    yield from _results_present(facts)
    for section in (*facts.ir.sections, *facts.ir.late_bound):
        if section.id in ids:
            yield section.id, f"two sections have the id {section.id!r}"
        ids.add(section.id)
        for item in dict.fromkeys(section.provenance.items):
            # A model that saw a part may ask for another part, or for the whole.
            part = str(section.content) if section.handle is not None else ""
            other = seen.get((item, part) if section.late_bound else item, section.id)
            where = f"{item!r} stands in section {section.id!r} and in"
            if other != section.id:
                yield section.id, f"{where} {other!r}"
            elif item in facts.positions:
                yield section.id, f"{where} the history"
            for key in (item, (item, part)):
                seen.setdefault(key, section.id)
    names: set[str] = set()
    for tool in facts.ir.tools:
        if tool.name in names:
            yield TOOLS, f"two tools have the name {tool.name!r}"
        names.add(tool.name)


def _results_present(facts: _Facts) -> _Problems:
    """Check that the history has the result that each late-bound section is in."""
    late_bound, conversation = facts.ir.late_bound, facts.conversation
    if not late_bound or conversation is None:
        return
    answered = {answer for message in conversation.messages for answer in message.answers}
    for section in late_bound:
        if section.tool_call_id not in answered:
            result = f"the result of call {section.tool_call_id!r}"
            yield section.id, f"section {section.id!r} stands in {result}, which is not there"


def _provenance(facts: _Facts) -> _Problems:
    for section in (*facts.ir.sections, *facts.ir.late_bound):
        if not _has_source(section.provenance):
            yield section.id, f"section {section.id!r} does not say where it is from"
    for tool in facts.ir.tools:
        if not _has_source(tool.provenance):
            yield TOOLS, f"tool {tool.name!r} does not say where it is from"


def _has_source(provenance: object) -> bool:
    return isinstance(provenance, Provenance) and bool(provenance.source)


def _trust(facts: _Facts) -> _Problems:
    for section in facts.ir.sections:
        parents = [facts.sections[p] for p in section.provenance.parents if p in facts.sections]
        least = min(parents, key=lambda parent: parent.trust, default=section)
        if section.trust > least.trust:
            derived = f"is derived from {least.id!r}, which has {least.trust:g}"
            yield section.id, f"section {section.id!r} has trust {section.trust:g} and {derived}"


def _roles(facts: _Facts, *, read: bool = True) -> _Problems:
    """Check the sections of messages that are not fully trusted: those that can be read, or not."""
    for section in facts.ir.sections:
        if isinstance(section.content, str) or section.trust >= FULL_TRUST:
            continue
        name = f"section {section.id!r}"
        try:
            messages = parse(section.content, facts.ir.history.format).messages
        except InvalidMessageError as error:
            if not read:
                yield section.id, f"{name} is no message: {error}"
            continue
        if read and any(message.role == "system" for message in messages):
            yield section.id, f"{name} speaks as the system and has trust {section.trust:g}"


_FORMS: Sequence[tuple[Law, _Check]] = (
    (Law.PROVENANCE, _provenance),
    (Law.COUNTED, _entry_indices),
)
_LAWS: Sequence[tuple[Law, _Check]] = (
    (Law.COUNTED, _counted),
    (Law.BUDGET, _budget),
    (Law.PRESENT, _present),
    (Law.TOOL_PAIRS, partial(_provider_rules, paired=True)),
    (Law.PROVIDER_RULES, _provider_rules),
    (Law.STATIC_FIRST, _static_first),
    (Law.BREAKPOINTS, _breakpoints),
    (Law.ONCE, _once),
    (Law.TRUST, _trust),
    (Law.PROVIDER_RULES, partial(_roles, read=False)),
    (Law.ROLES, _roles),
)
