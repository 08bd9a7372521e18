"""The laws of a prompt: what holds of every IR that is to be sent, and which of it does not.

    for broken in ir.verify():
        print(broken)        # two sections have the id 'notes' (once)

They are the laws of an IR that all passes have been over. Of one that was only just hydrated the
budget and the order may be broken: making them hold is what the passes are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats import parse, validate
from rehydrate.prompt.meta import Outcome
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section

if TYPE_CHECKING:
    from rehydrate.messages import Conversation
    from rehydrate.prompt.content import PromptContent
    from rehydrate.prompt.entries import History


MOST_BREAKPOINTS = 4
"""A provider takes no more cache marks."""
TOOLS = "tools"
"""The breakpoint after all tools."""

_PAIRING = frozenset(
    {
        *("unanswered_tool_call", "tool_result_without_call", "tool_message_without_call"),
        *("server_result_without_call", "duplicate_result", "results_not_first"),
        *("results_not_together", "reasoning_without_item"),
    }
)
_MENDED = "first_not_user"
"""The one rule that holds once a prompt is rendered: a user message of our own then comes first."""


class Law(StrEnum):
    """What must hold."""

    COUNTED = "counted"
    """Everything has a token count, and every entry of the history its own."""
    BUDGET = "budget"
    """At most the hard budget; over the soft one only where what must stay is larger, or where
    ``meta.outcome`` says why."""
    PRESENT = "present"
    """The system prompt, the last user turn and all that is critical are there."""
    TOOL_PAIRS = "tool_pairs"
    """Every tool call stands with its results, as the provider wants them."""
    PROVIDER_RULES = "provider_rules"
    """No other rule of the provider's is broken by the history."""
    STATIC_FIRST = "static_first"
    """Static sections come before dynamic ones."""
    BREAKPOINTS = "breakpoints"
    """At most 4, each once, in the order of the prompt, on the end of something static."""
    ONCE = "once"
    """Ids are unique, and nothing is said twice: no item, and no part of one, stands in two
    sections, late-bound ones included, and each of these in a result that is there."""
    PROVENANCE = "provenance"
    """All content says where it came from."""
    TRUST = "trust"
    """What is derived is trusted no further than the least trusted of its parents."""
    ROLES = "roles"
    """What is not fully trusted never speaks as the system."""


class BrokenLaw(NamedTuple):
    """One law that does not hold of one thing."""

    law: Law
    subject: str
    """What breaks it: a section's id, ``history[12]``, ``tools``, or "" for the whole."""
    message: str

    def __str__(self) -> str:
        """One line: what, what is wrong with it, which law."""
        return f"{self.message} ({self.law.value})"


def verify(
    ir: PromptContent,
    *,
    conversation: Conversation | None = None,
    violations: Sequence[Violation] | None = None,
) -> list[BrokenLaw]:
    """Every law that the IR breaks, law by law; an empty list means lawful.

    Reading and validating the history is nearly all it costs: whoever has just done so passes what
    came of it. ``conversation`` is ``formats.parse`` of the history's entries, ``violations`` are
    those of ``rehydrate.validate``, without those that the caller's own input had.
    """
    facts = _Facts(ir, conversation, violations)
    # Without provenance there is no trust, and without places no name for an entry: nearly all
    # other laws ask for these.
    shapeless = [*_provenance(facts), *_places(facts)]
    return shapeless or [broken for law in _LAWS for broken in law(facts)]


@dataclass
class _Facts:
    """The IR and what several laws ask of it, found out when the first does."""

    ir: PromptContent
    given_conversation: Conversation | None
    given_violations: Sequence[Violation] | None

    @cached_property
    def conversation(self) -> Conversation | None:
        """The history, read; None where some entry is no message."""
        if self.given_conversation is not None:
            return self.given_conversation
        history = self.ir.history
        try:
            return parse(history.entries, history.format)
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
        """By an entry's name, its position in the history."""
        history = self.ir.history
        return {history.entry_id(n): n for n in range(len(history.entries))}

    @cached_property
    def last_user_turn(self) -> int | None:
        """Position of the last entry in which the user speaks."""
        if self.conversation is None:
            return None
        turns = (message.index for message in self.conversation.messages if message.is_user_turn)
        return max(turns, default=None)


def _counted(facts: _Facts) -> Iterator[BrokenLaw]:
    ir = facts.ir
    for section in ir.sections:
        if section.tokens is None:
            yield BrokenLaw(Law.COUNTED, section.id, f"section {section.id!r} was not counted")
    for tool in ir.tools:
        if tool.tokens is None:
            yield BrokenLaw(Law.COUNTED, TOOLS, f"tool {tool.name!r} was not counted")
    yield from _one_each(ir.history, "tokens", ir.history.tokens)


def _places(facts: _Facts) -> Iterator[BrokenLaw]:
    history = facts.ir.history
    if history.places:
        yield from _one_each(history, "places", history.places)
    if any(one >= other for one, other in pairwise(history.places)):
        yield BrokenLaw(Law.COUNTED, "history", "the history's places do not ascend")


def _one_each(history: History, name: str, numbers: Sequence[int]) -> Iterator[BrokenLaw]:
    if len(numbers) != len(history.entries):
        yield BrokenLaw(
            Law.COUNTED,
            "history",
            f"the history has {len(history.entries):,} entries and {len(numbers):,} {name}",
        )


def _budget(facts: _Facts) -> Iterator[BrokenLaw]:
    ir = facts.ir
    tokens, budget = ir.tokens, ir.budget
    if tokens > budget.hard_tokens:
        yield BrokenLaw(
            Law.BUDGET, "", f"{tokens:,} tokens are over the hard budget of {budget.hard_tokens:,}"
        )
    elif (
        tokens > budget.soft_tokens
        and ir.meta.outcome is Outcome.FITS
        and _unavoidable(facts) <= budget.soft_tokens
    ):
        yield BrokenLaw(
            Law.BUDGET,
            "",
            f"{tokens:,} tokens are over the soft budget of {budget.soft_tokens:,} for no reason: "
            f"only {_unavoidable(facts):,} must stay",
        )


def _unavoidable(facts: _Facts) -> int:
    """Tokens that no pass may leave out: tools, floors, what is whole, what is always kept."""
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


def _present(facts: _Facts) -> Iterator[BrokenLaw]:
    ir = facts.ir
    if _lost_user_turn(facts):
        yield BrokenLaw(
            Law.PRESENT, "history", "entries of the history were left out, the user's last turn too"
        )
    for source in ir.meta.sources:
        brought = source.status != "off" and (source.sections or source.status != "ok")
        if source.name == "system" and brought and not _has_system(facts):
            why = f": {source.detail}" if source.detail else ""
            yield BrokenLaw(
                Law.PRESENT, "system", f"the system prompt is missing ({source.status}{why})"
            )
        elif source.name == "history" and source.status in ("late", "failed"):
            yield BrokenLaw(
                Law.PRESENT, "history", f"the history is missing: its source {source.status}"
            )
    for dropped in ir.meta.dropped:
        if dropped.priority.lower() == Priority.CRITICAL.name.lower():
            yield BrokenLaw(
                Law.PRESENT,
                dropped.section,
                f"{dropped.section!r} is critical and was left out: {dropped.reason}",
            )


def _lost_user_turn(facts: _Facts) -> bool:
    """Whether no user turn is left of a history that lost entries. One that came in without any
    (results that go on from a response that the provider holds) is as the caller wants it."""
    if not any(EntryId.index_of(one.section) is not None for one in facts.ir.meta.dropped):
        return False
    return facts.conversation is not None and facts.last_user_turn is None


def _has_system(facts: _Facts) -> bool:
    if any(section.provenance.source == "system" for section in facts.ir.sections):
        return True
    return facts.conversation is not None and any(
        message.role == "system" for message in facts.conversation.messages
    )


def _provider_rules(facts: _Facts) -> Iterator[BrokenLaw]:
    size = len(facts.ir.history.entries)
    for violation in facts.violations:
        if violation.rule == _MENDED:
            continue
        law = Law.TOOL_PAIRS if violation.rule in _PAIRING else Law.PROVIDER_RULES
        place = facts.ir.history.place(violation.index) if violation.index < size else 0
        subject = EntryId.of(place)
        yield BrokenLaw(law, subject, f"{subject}: {violation.message}, {violation.rule}")


def _static_first(facts: _Facts) -> Iterator[BrokenLaw]:
    dynamic: str | None = None
    for section in facts.ir.sections:
        if not section.is_static:
            dynamic = dynamic or section.id
        elif dynamic is not None:
            yield BrokenLaw(
                Law.STATIC_FIRST,
                section.id,
                f"section {section.id!r} is static and stands after {dynamic!r}, which is not",
            )


def _breakpoints(facts: _Facts) -> Iterator[BrokenLaw]:
    ir = facts.ir
    marks = ir.breakpoints
    if len(marks) > MOST_BREAKPOINTS:
        yield BrokenLaw(
            Law.BREAKPOINTS, marks[-1], f"{len(marks)} breakpoints, {MOST_BREAKPOINTS} are allowed"
        )
    before = (-1, -1)
    for mark in marks:
        place = _place_of(mark, facts)
        if place is None:
            problem = "names nothing in the prompt"
        elif place == before:
            problem = "stands there twice"
        elif place < before:
            problem = "stands before the one that precedes it in the list"
        elif not _is_static_end(mark, facts):
            problem = "is no static end"
        else:
            problem = ""
        if problem:
            yield BrokenLaw(Law.BREAKPOINTS, mark, f"breakpoint {mark!r} {problem}")
        before = max(before, place or before)


def _place_of(mark: str, facts: _Facts) -> tuple[int, int] | None:
    """Where in the prompt it stands: tools, system, the other static sections, the history."""
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
    """Whether what it ends is the same in the next turn.

    A dynamic section without an anchor stands before the last user turn in this prompt and
    elsewhere in the next: nothing from there on is static.
    """
    section = facts.sections.get(mark)
    if section is not None:
        return section.is_static
    if mark == TOOLS or all(one.is_static or one.anchor is not None for one in facts.ir.sections):
        return True
    last = facts.last_user_turn
    return last is None or facts.positions[mark] < last


def _once(facts: _Facts) -> Iterator[BrokenLaw]:
    seen: dict[object, str] = {}
    ids: set[str] = set()
    yield from _carried(facts)
    for section in (*facts.ir.sections, *facts.ir.late_bound):
        if section.id in ids:
            yield BrokenLaw(Law.ONCE, section.id, f"two sections have the id {section.id!r}")
        ids.add(section.id)
        for item in dict.fromkeys(section.provenance.items):
            # A model that saw a part may have asked for another one, or for the whole.
            part = str(section.content) if section.handle is not None else ""
            other = seen.get((item, part) if section.late_bound else item, section.id)
            if other != section.id:
                yield BrokenLaw(
                    Law.ONCE,
                    section.id,
                    f"{item!r} stands in section {section.id!r} and in {other!r}",
                )
            elif item in facts.positions:
                yield BrokenLaw(
                    Law.ONCE,
                    section.id,
                    f"{item!r} stands in section {section.id!r} and in the history",
                )
            for shown in (item, (item, part)):
                seen.setdefault(shown, section.id)
    names: set[str] = set()
    for tool in facts.ir.tools:
        if tool.name in names:
            yield BrokenLaw(Law.ONCE, TOOLS, f"two tools have the name {tool.name!r}")
        names.add(tool.name)


def _carried(facts: _Facts) -> Iterator[BrokenLaw]:
    late, conversation = facts.ir.late_bound, facts.conversation
    if not late or conversation is None:
        return
    answers = {answer for message in conversation.messages for answer in message.answers}
    for section in late:
        if section.carrier not in answers:
            what = f"the result of call {section.carrier!r}"
            yield BrokenLaw(
                Law.ONCE, section.id, f"section {section.id!r} stands in {what}, which is not there"
            )


def _provenance(facts: _Facts) -> Iterator[BrokenLaw]:
    for section in (*facts.ir.sections, *facts.ir.late_bound):
        if not _is_known(section.provenance):
            yield BrokenLaw(
                Law.PROVENANCE, section.id, f"section {section.id!r} does not say where it is from"
            )
    for tool in facts.ir.tools:
        if not _is_known(tool.provenance):
            yield BrokenLaw(
                Law.PROVENANCE, TOOLS, f"tool {tool.name!r} does not say where it is from"
            )


def _is_known(provenance: object) -> bool:
    return isinstance(provenance, Provenance) and bool(provenance.source)


def _trust(facts: _Facts) -> Iterator[BrokenLaw]:
    for section in facts.ir.sections:
        if not section.provenance.parents:
            continue
        known = [facts.sections[p] for p in section.provenance.parents if p in facts.sections]
        least = min(known, key=lambda parent: parent.trust, default=section)
        if section.trust > least.trust:
            yield BrokenLaw(
                Law.TRUST,
                section.id,
                f"section {section.id!r} has trust {section.trust:g} and is derived from "
                f"{least.id!r}, which has {least.trust:g}",
            )


def _roles(facts: _Facts) -> Iterator[BrokenLaw]:
    for section in facts.ir.sections:
        if isinstance(section.content, str) or section.trust >= FULL_TRUST:
            continue
        try:
            messages = parse(section.content, facts.ir.history.format).messages
        except InvalidMessageError as error:
            yield BrokenLaw(
                Law.PROVIDER_RULES, section.id, f"section {section.id!r} is no message: {error}"
            )
            continue
        if any(message.role == "system" for message in messages):
            yield BrokenLaw(
                Law.ROLES,
                section.id,
                f"section {section.id!r} speaks as the system and has trust {section.trust:g}",
            )


_LAWS: tuple[Callable[[_Facts], Iterator[BrokenLaw]], ...] = (
    _counted,
    _budget,
    _present,
    _provider_rules,
    _static_first,
    _breakpoints,
    _once,
    _trust,
    _roles,
)
