"""Prune: a prompt that is over its soft budget is cut to what is worth most for this turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rehydrate.compact.excerpts import DivisibleTexts
from rehydrate.compact.query import last_user_text, weighted_query
from rehydrate.compact.thinking import WAITS, why_waiting
from rehydrate.errors import BudgetExceededError
from rehydrate.formats._reading import compact_json
from rehydrate.messages import Conversation
from rehydrate.prompt.counting import COUNTER, prompt_tokens, room, section_tokens, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.meta import DroppedSection, Outcome
from rehydrate.prompt.passes.packing import Candidates, cut_to, is_divisible, pack
from rehydrate.prompt.passes.shortening import EntryExcerpt, Outlining, with_excerpts
from rehydrate.prompt.section import CompositionMode, Priority, Section
from rehydrate.prompt.stale_thinking import binding_of, waits_for_the_turn
from rehydrate.prompt.target import Target, traced

HISTORY_PRIORITY = Priority.NORMAL
"""The level on which those entries of the history compete that may go."""

_OVER_BUDGET = "over budget"
"""How the line of ``meta.degraded`` begins that says why a prompt stays larger than it should."""
_LAST_PART = 32
"""The last messages take at most the 32nd part of the room: at an eighth they displaced rules that
users laid down long ago, and what was used later (DESIGN.md)."""
_BEGINNING_TOKENS = 16
"""What it may cost to say that earlier messages are not shown, where the user must speak first."""


def prune(ir: PromptIR, target: Target) -> PromptIR:
    """The IR, cut to the budget's target if the upper bound of its tokens is over the soft one.

    What must stay is taken first: tools; sections that are critical, a constraint or instructions;
    of every other section its ``min_tokens``; of the history system entries, the last user turn,
    the reply that it answers and an open tool loop. Then the budget's last messages, in a 32nd
    of the room. Then priority by priority: a level that fits whole stays whole; the first that does
    not fit shares the room by one packing over its sections and, on the level of the history, its
    entries; below it everything goes but ``min_tokens``. Long sections are cut to their best
    blocks, and so are long entries where the target's granularity is "excerpt"; else entries are
    kept or go whole.

    Where an outline is asked for, it takes its tokens before anything competes.

    Raises BudgetExceededError where what must stay is over the hard budget. Over the soft one it
    is kept, and ``meta.degraded`` says so; and so is all of it in an open tool loop that the model
    may refuse however it is cut, until the turn has ended or the hard budget is crossed.
    """
    return _pruned(ir, target, waits=True)


def prune_now(ir: PromptIR, target: Target) -> PromptIR:
    """As `prune`, but it never waits for the end of a turn."""
    return _pruned(ir, target, waits=False)


def _pruned(ir: PromptIR, target: Target, *, waits: bool) -> PromptIR:
    before = upper_bound(prompt_tokens(ir), target.provider)
    if before <= ir.budget.soft_tokens:
        return traced("prune", ir, ir)
    waits = waits and before <= ir.budget.hard_tokens
    return _Pruning(ir, target, waits=waits).run(before)


class _Pruning:
    """One prompt on its way to its target."""

    def __init__(self, ir: PromptIR, target: Target, *, waits: bool) -> None:
        self._given = ir
        self._outlining = Outlining.of(ir, target)
        self._ir = ir = self._outlining.ir
        self._target = target
        self._waits = waits
        self._conversation: Conversation = ir.history.conversation
        query = ir.request.query.strip()
        # A request that is about the last user turn counts as far as that is not long ago.
        is_read = query == last_user_text(self._conversation)
        self._asked = weighted_query(self._conversation, None if is_read else query or None)
        needs_thoughts = binding_of(ir, target).needs_thoughts
        self._pins = frozenset(self._conversation.pins(thoughts=needs_thoughts))
        self._kept_units = set(self._pins)
        self._sections: dict[str, Section | None] = {}
        """By id: itself, a cut one, None where it goes; what has no entry is not decided."""
        self._reasons: dict[str, str] = {}
        self._floors: dict[str, Section] = {}
        self._excerpts: list[EntryExcerpt] = []
        """Entries of which a part is kept."""
        self._degraded: tuple[str, ...] = ()

    def run(self, before: int) -> PromptIR:
        """Decide level by level."""
        ir, provider = self._ir, self._target.provider
        must = self._take_what_must_stay()
        self._check(must)
        left = room(ir.budget.target_tokens, provider) - must
        if provider == "anthropic":
            left -= _BEGINNING_TOKENS
        self._outlining = self._outlining.within(prompt_tokens(self._given), left, self._target)
        left -= self._outlining.room_tokens
        left -= self._keep_last(left)
        contested = ""
        for level in sorted(Priority, reverse=True):
            waiting = [s for s in ir.sections if s.priority is level and s.id not in self._sections]
            has_history = level is HISTORY_PRIORITY
            if not waiting and not (has_history and self._free_units()):
                continue
            if contested:
                self._to_floors(waiting, f"no room was left below priority {contested}")
                continue
            needed = sum(section_tokens(s) - self._reserved(s) for s in waiting)
            needed += sum(map(self._unit_tokens, self._free_units())) if has_history else 0
            if needed <= left:
                left -= needed
                self._sections |= {section.id: section for section in waiting}
                self._kept_units |= set(self._free_units()) if has_history else set()
            else:
                contested = level.name.lower()
                self._share(waiting, max(left, 0), has_history=has_history)
        if self._waits and self._must_wait():
            return self._as_it_is(before)
        return self._pruned(before, must, contested)

    def _must_wait(self) -> bool:
        sections = self._ir.sections
        change = any(self._sections[section.id] is not section for section in sections)
        change = change or bool(self._outlining.older)
        kept = [unit in self._kept_units for unit in range(len(self._conversation.units))]
        cut = [each.message.index for each in self._excerpts]
        return waits_for_the_turn(self._ir, self._target, kept, cut, sections_change=change)

    def _as_it_is(self, before: int) -> PromptIR:
        ir, soft = self._given, self._given.budget.soft_tokens
        said = f"{_OVER_BUDGET}: {why_waiting(self._target.model)}"
        degraded = ir.meta.degraded if said in ir.meta.degraded else (*ir.meta.degraded, said)
        note = f"{before:,} tokens at most, over the soft budget of {soft:,}; it {WAITS}"
        meta = replace(ir.meta, degraded=degraded, outcome=Outcome.WAITS)
        return traced("prune", ir, ir.replace(meta=meta), (), [note])

    def _take_what_must_stay(self) -> int:
        """Decide on what must stay; what it costs, the floors of the rest included."""
        ir = self._ir
        tokens = sum(tool.tokens or 0 for tool in ir.tools)
        tokens += sum(map(self._unit_tokens, self._pins))
        for section in ir.sections:
            if _stays_whole(section):
                self._sections[section.id] = section
                tokens += section_tokens(section)
            elif section.min_tokens:
                self._floors[section.id] = cut_to(section, self._asked, section.min_tokens)
                tokens += self._reserved(section)
        return tokens

    def _keep_last(self, left: int) -> int:
        """Keep the last messages, newest first, while they take no more than their part of it; what
        they cost."""
        count = self._ir.budget.keep_last
        last = [message.index for message in self._conversation.messages[-count:]] if count else []
        used = 0
        for unit in reversed(self._conversation.units_holding(last)):
            if unit in self._kept_units:
                continue
            tokens = self._unit_tokens(unit)
            if used + tokens > left // _LAST_PART:
                break
            self._kept_units.add(unit)
            used += tokens
        return used

    def _check(self, must: int) -> None:
        needed, budget = upper_bound(must, self._target.provider), self._ir.budget.hard_tokens
        if needed <= budget:
            return
        parts = {
            f"section {section.id!r}": section_tokens(section)
            for section in self._ir.sections
            if section.id in self._sections
        }
        parts |= {f"section {name!r}": section_tokens(s) for name, s in self._floors.items()}
        parts["the tool definitions"] = sum(tool.tokens or 0 for tool in self._ir.tools)
        parts["what must stay of the history"] = sum(map(self._unit_tokens, self._pins))
        largest = max(parts, key=lambda name: parts[name])
        raise BudgetExceededError(
            "what must stay in the prompt",
            needed,
            budget,
            f"the largest part is {largest} with {parts[largest]:,}: shorten it, lower its "
            "priority or min_tokens, or raise Budget.hard_tokens",
            "Budget.hard_tokens",
        )

    def _share(self, waiting: list[Section], left: int, *, has_history: bool) -> None:
        """Let sections, and the history on its level, compete for the room that is left."""
        target, free = self._target, frozenset(self._free_units())
        decided = [section for section in self._sections.values() if section is not None]
        candidates = Candidates(
            self._ir.history,
            self._conversation,
            frozenset(self._kept_units),
            frozenset() if has_history else free,
            tuple(decided),
            tuple(waiting),
            self._divisible() if has_history else None,
        )
        keep = None if target.originals is None else target.keep
        packed = pack(candidates, self._asked, left, keep, target.embedder)
        self._degraded = packed.degraded
        if has_history:
            self._kept_units |= packed.units
            self._excerpts += packed.excerpts
        for section in waiting:
            kept, floor = packed.sections[section.id], self._floors.get(section.id)
            if floor is not None and (kept is None or (kept.tokens or 0) < (floor.tokens or 0)):
                kept = floor
            self._sections[section.id] = kept
            if kept is not section:
                self._reasons[section.id] = "others are worth more for their tokens"

    def _divisible(self) -> DivisibleTexts | None:
        """The texts of the history of which a part may be kept."""
        if self._target.granularity != "excerpt":
            return None
        entries, kept = self._ir.history.entries, dict.fromkeys(self._kept_units, "")
        return DivisibleTexts.find(self._conversation, entries, kept, COUNTER)

    def _to_floors(self, sections: Iterable[Section], reason: str) -> None:
        for section in sections:
            self._sections[section.id] = self._floors.get(section.id)
            self._reasons[section.id] = reason

    def _free_units(self) -> list[int]:
        units = range(len(self._conversation.units))
        return [number for number in units if number not in self._kept_units]

    def _unit_tokens(self, number: int) -> int:
        tokens = self._ir.history.tokens
        return sum(tokens[member] for member in self._conversation.units[number].members)

    def _reserved(self, section: Section) -> int:
        floor = self._floors.get(section.id)
        return 0 if floor is None else section_tokens(floor)

    def _pruned(self, before: int, must: int, contested: str) -> PromptIR:
        ir, target = self._ir, self._target
        history, dropped = self._history(contested)
        changed = [record.section for record in dropped]
        sections = []
        for section in ir.sections:
            kept = self._sections[section.id]
            if kept is section:
                sections.append(section)
                continue
            handle = section.handle or target.keep(_whole(section))
            lost = (section.tokens or 0) - (kept.tokens or 0 if kept else 0)
            what = "cut to its best blocks" if kept else "left out"
            reason = f"{what}: {self._reasons[section.id]}"
            name = section.priority.name.lower()
            dropped.append(DroppedSection(section.id, lost, reason, handle, name, "prune"))
            changed.append(section.id)
            if kept is not None:
                sections.append(replace(kept, handle=handle))
        outlines = self._outlines(history, sections)
        sections += outlines
        late_bound, unbound = self._late_bound()
        dropped += unbound
        changed += [record.section for record in unbound]
        degraded = tuple(dict.fromkeys((*ir.meta.degraded, *self._degraded)))
        meta = replace(
            ir.meta,
            dropped=(*ir.meta.dropped, *dropped),
            degraded=degraded,
            outcome=Outcome.FITS,
        )
        after = ir.replace(
            sections=tuple(sections), history=history, late_bound=late_bound, meta=meta
        )
        soft = ir.budget.soft_tokens
        notes = [f"{before:,} tokens at most, over the soft budget of {soft:,}"]
        if contested:
            notes.append(f"priority {contested} shared the room")
        left = upper_bound(prompt_tokens(after), target.provider)
        if left > ir.budget.target_tokens:
            what = f"what must stay takes {upper_bound(must, target.provider):,} tokens at most"
            notes.append(f"{_OVER_BUDGET}: {what}, the target is {ir.budget.target_tokens:,}")
            if left > soft:
                degraded = (*after.meta.degraded, f"{_OVER_BUDGET}: {what}, the budget is {soft:,}")
                after = after.replace(
                    meta=replace(after.meta, degraded=degraded, outcome=Outcome.OVER_BUDGET)
                )
        if outlines:
            notes.append(f"an outline of {section_tokens(outlines[0]):,} tokens names what went")
        return traced("prune", self._given, after, changed, notes)

    def _outlines(self, history: History, sections: Sequence[Section]) -> list[Section]:
        """The outline of what the history has lost, if one is asked for; the one before where it
        lost nothing more."""
        outlining = self._outlining
        room_tokens, older = outlining.room_tokens, outlining.older
        if history is self._ir.history and sum(map(section_tokens, older)) <= room_tokens:
            return list(older)
        if not room_tokens:
            return []
        members = [self._conversation.units[number].members for number in self._kept_units]
        kept = {member for each in members for member in each}
        partly = {each.message.index: each.left()[0] for each in self._excerpts}
        outline = outlining.section(kept, partly, sections, self._target)
        return [] if outline is None else [outline]

    def _late_bound(self) -> tuple[tuple[Section, ...], list[DroppedSection]]:
        """What the model asked for stands in the history, and goes with the result it came in."""
        late = self._ir.late_bound
        if not late:
            return late, []
        units = [self._conversation.units[number] for number in self._free_units()]
        gone = {answer for unit in units for each in unit.messages for answer in each.answers}
        dropped = [
            DroppedSection(
                section.id,
                0,  # they are the history's
                f"left out with the result of {section.carrier}",
                section.handle or section.metadata.get("handle"),
                section.priority.name.lower(),
                "prune",
            )
            for section in late
            if section.carrier in gone
        ]
        return tuple([section for section in late if section.carrier not in gone]), dropped

    def _history(self, contested: str) -> tuple[History, list[DroppedSection]]:
        """What is kept of the history, and a record of each entry that goes."""
        units, whole = self._conversation.units, self._ir.history
        if len(self._kept_units) == len(units) and not self._excerpts:
            return whole, []
        history = with_excerpts(whole, self._excerpts)
        kept = sorted(member for number in self._kept_units for member in units[number].members)
        gone = sorted(
            message.index for number in self._free_units() for message in units[number].messages
        )
        if contested == HISTORY_PRIORITY.name.lower():
            reason = "left out: others are worth more for their tokens"
        else:
            reason = f"left out: no room was left below priority {contested}"
        dropped = [
            DroppedSection(
                history.entry_id(position),
                history.tokens[position],
                reason,
                self._target.keep(compact_json(whole.entries[position])),
                HISTORY_PRIORITY.name.lower(),
                "prune",
            )
            for position in gone
        ]
        dropped += [
            DroppedSection(
                history.entry_id(position),
                whole.tokens[position] - history.tokens[position],
                "cut to its best blocks: others are worth more for their tokens",
                next(iter(each.handles.values())) or None,
                HISTORY_PRIORITY.name.lower(),
                "prune",
            )
            for each in self._excerpts
            for position in (each.message.index,)
        ]
        return (
            History(
                tuple([history.entries[position] for position in kept]),
                history.format,
                tuple([history.tokens[position] for position in kept]),
                tuple([history.place(position) for position in kept]),
            ),
            dropped,
        )


def _stays_whole(section: Section) -> bool:
    """Whether it may not be cut or left out: instructions that are the system's never are, nor is
    what has a floor and cannot be divided."""
    is_instruction = section.is_system and section.mode is CompositionMode.HIERARCHICAL
    if section.must_stay_whole or is_instruction:
        return True
    floor = section.min_tokens
    return floor > 0 and (floor >= (section.tokens or 0) or not is_divisible(section))


def _whole(section: Section) -> str:
    return (
        section.content if isinstance(section.content, str) else compact_json(list(section.content))
    )
