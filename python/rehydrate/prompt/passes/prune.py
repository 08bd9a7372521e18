"""prune: cuts a prompt over its soft budget to the content that is worth most in this turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rehydrate import _native
from rehydrate._native import PrefixBinding
from rehydrate.formats._reading import compact_json
from rehydrate.formats.thinking import UNBOUND, WAITS, thinking_model, why_waiting
from rehydrate.messages import PROVIDER_OF, SYSTEM_APART, Conversation
from rehydrate.prompt.counting import (
    check_hard_budget,
    prompt_tokens,
    room,
    section_tokens,
    upper_bound,
)
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.passes.packing import Outlining, Packed, Packing, cut_to, is_divisible
from rehydrate.prompt.section import CompositionMode, DroppedSection, Outcome, Priority, Section

HISTORY_PRIORITY = Priority.NORMAL
"""The level on which the entries of the history compete."""

OVER_BUDGET = "over budget"
"""The beginning of the line in ``meta.degraded`` that says why a prompt is over its budget."""
_LAST_SHARE = 32
"""The last messages take at most a 32nd of the room. At an eighth they displaced rules that users
gave long ago, and content that was used later (DESIGN.md)."""
_BEGINNING_TOKENS = 16
"""At most, the cost of `BEGINNING`, if the user must speak first."""

_LEFT_OUT, _CUT = "left out", "cut to its best blocks"


def prune(ir: PromptIR, target: Target) -> PromptIR:
    """Cut the IR to the budget's target, if the upper bound of its tokens is over the soft budget.

    1. What must stay is taken: tools; sections that are critical, constraints or instructions; the
       ``min_tokens`` of every other section; of the history the system entries, the last user turn,
       the reply that it answers, and an open tool loop.
    2. The outline, if one is asked for, takes its tokens.
    3. The last messages take at most a 32nd of the room.
    4. The priorities follow from high to low. A level that fits stays whole. The first level that
       does not fit is packed: its sections, and on the level of the history its entries, share the
       room. Of the levels below only ``min_tokens`` are kept.

    Long sections are cut to their best blocks. So are long entries where the target's granularity
    is "excerpt"; otherwise an entry is kept whole or left out.

    Raises BudgetExceededError if what must stay is over the hard budget. If it is over the soft
    budget, it is kept, and ``meta.degraded`` says so. The whole prompt is kept in an open tool loop
    that the model may refuse after any cut, until the turn ends or the hard budget is exceeded,
    unless the target says not to wait.
    """
    before_tokens = upper_bound(prompt_tokens(ir), target.provider)
    if before_tokens <= ir.budget.soft_tokens:
        return traced("prune", ir, ir)
    waits = target.waits and before_tokens <= ir.budget.hard_tokens
    return _Pruning(ir, target, before_tokens, waits=waits).run()


class _Pruning:
    """The decisions about one prompt that is over its budget."""

    def __init__(self, ir: PromptIR, target: Target, before_tokens: int, *, waits: bool) -> None:
        self._original = ir
        self._before_tokens = before_tokens
        self._outlining = Outlining.of(ir, target)
        self._ir = ir = self._outlining.ir
        self._target = target
        self._waits = waits
        self._conversation: Conversation = ir.history.conversation
        query = ir.request.query.strip()
        # A query that repeats the last user turn has no weight of its own if that is long ago.
        is_last_turn = query == self._conversation.last_user_text()
        asked = None if is_last_turn else query or None
        self._query = _native.weighted_query(self._conversation, asked)
        self._binding = binding_of(ir, target)
        self._units = units = self._conversation.units
        pins = set(self._conversation.pins(thoughts=self._binding.needs_thoughts))
        if units and all(units[pin].is_system for pin in pins):
            pins.add(len(units) - 1)  # a prompt has a message
        self._kept_units = pins
        self._sections: dict[str, Section | None] = {}
        """The decision on each section by its id: itself, a cut one, or None: left out."""
        self._minimums: dict[str, Section] = {}
        """By id, the section cut to its `min_tokens`."""
        self._contested: Priority | None = None
        """The level that shares the room that is left."""
        self._packed = Packed()

    def run(self) -> PromptIR:
        """Decide level by level, and return the IR."""
        ir, provider = self._ir, self._target.provider
        required = self._take_what_must_stay()
        left = room(ir.budget.target_tokens, provider) - required
        if provider in SYSTEM_APART:
            left -= _BEGINNING_TOKENS
        before = prompt_tokens(self._original)
        outline = _native.outline_tokens(self._target.outline, before, left)
        self._outlining = self._outlining._replace(room_tokens=outline)
        left -= outline
        left -= self._keep_last(left)
        for level in sorted(Priority, reverse=True):
            undecided = [
                s for s in ir.sections if s.priority is level and s.id not in self._sections
            ]
            units = self._free_units() if level is HISTORY_PRIORITY else []
            if self._contested is not None:  # no room was left
                self._sections |= {each.id: self._minimums.get(each.id) for each in undecided}
                continue
            needed = sum(section_tokens(s) - self._minimum_tokens(s) for s in undecided)
            needed += sum(map(self._unit_tokens, units))
            if not undecided and not units:
                continue
            if needed <= left:
                left -= needed
                self._sections |= {section.id: section for section in undecided}
                self._kept_units.update(units)
            else:
                self._contested = level
                self._pack(undecided, units, max(left, 0))
        if self._waits and self._must_wait():
            return self._unchanged()
        return self._pruned(required)

    def _must_wait(self) -> bool:
        """Whether the model may refuse its open tool loop both with the thinking after this cut and
        without it."""
        binding, sections = self._binding, self._ir.sections
        if not binding.may_wait:
            return False
        change = any(self._sections[section.id] is not section for section in sections)
        if change or self._outlining.older:
            return binding.loop_is_at_risk(0)
        kept = [unit in self._kept_units for unit in range(len(self._units))]
        return binding.must_wait(kept, list(self._packed.excerpts))

    @property
    def _cause(self) -> str:
        """The figures for which something must go."""
        soft = self._original.budget.soft_tokens
        return f"{self._before_tokens:,} tokens at most, over the soft budget of {soft:,}"

    def _unchanged(self) -> PromptIR:
        """Return the original IR, with the reason why it stays over its budget."""
        ir = self._original
        why = f"{OVER_BUDGET}: {why_waiting(self._target.model)}"
        degraded = tuple(dict.fromkeys((*ir.meta.degraded, why)))
        meta = replace(ir.meta, degraded=degraded, outcome=Outcome.WAITS)
        return traced("prune", ir, ir.replace(meta=meta), (), [f"{self._cause}; it {WAITS}"])

    def _take_what_must_stay(self) -> int:
        """Keep what must stay; return its tokens, with the minimums of other sections.

        Raises BudgetExceededError if it is over the hard budget.
        """
        ir = self._ir
        of_history = sum(map(self._unit_tokens, self._kept_units))
        tokens = sum(tool.tokens or 0 for tool in ir.tools) + of_history
        for section in ir.sections:
            if _stays_whole(section):
                self._sections[section.id] = section
                tokens += section_tokens(section)
            elif section.min_tokens:
                self._minimums[section.id] = cut_to(section, self._query, section.min_tokens)
                tokens += self._minimum_tokens(section)
        check_hard_budget(
            ir,
            tokens,
            self._target.provider,
            "what must stay in the prompt",
            [*filter(None, self._sections.values()), *self._minimums.values()],
            {"what must stay of the history": of_history},
            "shorten it, lower its priority or min_tokens",
        )
        return tokens

    def _keep_last(self, left: int) -> int:
        """Keep the last messages, newest first, within their share; return their tokens."""
        count = self._ir.budget.keep_last
        last = [message.index for message in self._conversation.messages[-count:]] if count else []
        used = 0
        for unit in reversed(self._conversation.units_holding(last)):
            if unit in self._kept_units:
                continue
            tokens = self._unit_tokens(unit)
            if used + tokens > left // _LAST_SHARE:
                break
            self._kept_units.add(unit)
            used += tokens
        return used

    def _pack(self, sections: list[Section], units: list[int], left: int) -> None:
        """Let sections, and these units of the history, compete for the room that is left."""
        target = self._target
        packing = Packing(
            self._ir.history,
            sections,
            kept=[section for section in self._sections.values() if section is not None],
            kept_units=self._kept_units,
            left_out=set(self._free_units()).difference(units),
            divisible=self._divisible(units),
            embedder=target.embedder,
        )
        keep = None if target.originals is None else target.keep
        self._packed = packed = packing.pack(self._query, left, keep)
        self._kept_units |= packed.units
        for section in sections:
            kept, minimum = packed.sections[section.id], self._minimums.get(section.id)
            if minimum is not None and (kept is None or (kept.tokens or 0) < (minimum.tokens or 0)):
                kept = minimum
            self._sections[section.id] = kept

    def _divisible(self, free_units: list[int]) -> _native.DivisibleTexts | None:
        """Return the texts of the history that may be kept in part.

        What the model asked for stays whole.
        """
        if self._target.granularity != "excerpt" or self._contested is not HISTORY_PRIORITY:
            return None
        calls = {section.tool_call_id for section in self._ir.late_bound}
        asked_for = [
            number
            for number in free_units
            for message in self._units[number].messages
            if not calls.isdisjoint(message.answers)
        ]
        whole = {*self._kept_units, *asked_for}
        return _native.DivisibleTexts(self._conversation, self._ir.history.entries, whole)

    def _free_units(self) -> list[int]:
        """Return the units of the history that are not kept, or not yet."""
        return [number for number in range(len(self._units)) if number not in self._kept_units]

    def _unit_tokens(self, number: int) -> int:
        tokens = self._ir.history.tokens
        return sum(tokens[member] for member in self._units[number].members)

    def _minimum_tokens(self, section: Section) -> int:
        minimum = self._minimums.get(section.id)
        return 0 if minimum is None else section_tokens(minimum)

    def _reason(self, what: str, level: Priority) -> str:
        """Return why something of this level was left out or cut."""
        if level is self._contested:
            return f"{what}: others are worth more for their tokens"
        contested = self._contested.name.lower() if self._contested else ""
        return f"{what}: no room was left below priority {contested}"

    def _pruned(self, required: int) -> PromptIR:
        """Return the IR after all decisions, with a record of everything that is left out."""
        ir, target = self._ir, self._target
        history, dropped = self._pruned_history()
        sections = []
        for section in ir.sections:
            kept = self._sections[section.id]
            if kept is section:
                sections.append(section)
                continue
            handle = section.handle or target.keep(_whole_text(section))
            lost = (section.tokens or 0) - (kept.tokens or 0 if kept else 0)
            reason = self._reason(_CUT if kept else _LEFT_OUT, section.priority)
            dropped.append(DroppedSection.of(section, reason, "prune", lost, handle or ""))
            if kept is not None:
                sections.append(replace(kept, handle=handle))
        outlines = self._outlines(history, sections)
        late_bound = []
        answers = {
            answer
            for number in self._free_units()
            for message in self._units[number].messages
            for answer in message.answers
        }
        for section in ir.late_bound:
            call = section.tool_call_id
            if call in answers:  # its tokens are those of the history
                why = f"left out with the result of {call}"
                dropped.append(DroppedSection.of(section, why, "prune", tokens=0))
            else:
                late_bound.append(section)
        after = ir.replace(
            sections=(*sections, *outlines), history=history, late_bound=tuple(late_bound)
        )
        soft, notes, outcome = ir.budget.soft_tokens, [self._cause], Outcome.FITS
        degraded = dict.fromkeys((*ir.meta.degraded, *self._packed.degraded))
        if self._contested is not None:
            notes.append(f"priority {self._contested.name.lower()} shared the room")
        left = upper_bound(prompt_tokens(after), target.provider)
        if left > ir.budget.target_tokens:
            why = f"what must stay takes {upper_bound(required, target.provider):,} tokens at most"
            notes.append(f"{OVER_BUDGET}: {why}, the target is {ir.budget.target_tokens:,}")
            if left > soft:
                outcome = Outcome.OVER_BUDGET
                degraded[f"{OVER_BUDGET}: {why}, the budget is {soft:,}"] = None
        if outlines:
            notes.append(f"an outline of {section_tokens(outlines[0]):,} tokens names what went")
        meta = replace(
            ir.meta,
            dropped=(*ir.meta.dropped, *dropped),
            degraded=tuple(degraded),
            outcome=outcome,
        )
        changed = [record.section for record in dropped]
        return traced("prune", self._original, after.replace(meta=meta), changed, notes)

    def _outlines(self, history: History, sections: Sequence[Section]) -> list[Section]:
        """Return the outline, if one is asked for; the older ones where the history lost nothing
        more."""
        outlining = self._outlining
        room_tokens, older = outlining.room_tokens, outlining.older
        if history is self._ir.history and sum(map(section_tokens, older)) <= room_tokens:
            return list(older)
        if not room_tokens:
            return []
        kept = {member for number in self._kept_units for member in self._units[number].members}
        cut = {position: each.message for position, each in self._packed.excerpts.items()}
        outline = outlining.section(kept, cut, sections, self._target)
        return [] if outline is None else [outline]

    def _pruned_history(self) -> tuple[History, list[DroppedSection]]:
        """Return the kept history, and a record of each entry that is left out or cut."""
        units, whole, cut = self._units, self._ir.history, self._packed.excerpts
        if len(self._kept_units) == len(units) and not cut:
            return whole, []
        history = whole
        if cut:
            history = whole.with_changed_entries(
                {position: each.entry for position, each in cut.items()},
                {position: each.message for position, each in cut.items()},
                {position: each.tokens for position, each in cut.items()},
            )

        def dropped(position: int, tokens: int, what: str, handle: str | None) -> DroppedSection:
            reason = f"{self._reason(what, HISTORY_PRIORITY)}; {self._cause}"
            level = HISTORY_PRIORITY.name.lower()
            return DroppedSection(whole.entry_id(position), tokens, reason, handle, level, "prune")

        left_out = sorted(index for n in self._free_units() for index in units[n].members)
        records = [
            dropped(
                position,
                whole.tokens[position],
                _LEFT_OUT,
                self._target.keep(compact_json(whole.entries[position])),
            )
            for position in left_out
        ]
        records += [
            dropped(position, whole.tokens[position] - each.tokens, _CUT, each.handle)
            for position, each in cut.items()
        ]
        kept = sorted(index for number in self._kept_units for index in units[number].members)
        return history.select(kept), records


def binding_of(ir: PromptIR, target: Target) -> PrefixBinding:
    """Return what the history's thinking is bound to; nothing if it is not sent as it is."""
    history = ir.history
    # A provider's own format, or a transcript's, is sent as it is.
    is_own = target.provider in (history.format, PROVIDER_OF.get(history.format))
    rules = UNBOUND
    if is_own and target.thinking == "auto":
        rules = thinking_model(target.model, history.conversation.format, history.entries)
    return PrefixBinding(history.conversation, history.entries, rules)


def _stays_whole(section: Section) -> bool:
    """Whether a section may not be cut or left out.

    Besides those that say so, these are system instructions, and sections with `min_tokens` that
    cannot be divided.
    """
    is_instruction = section.is_system and section.mode is CompositionMode.HIERARCHICAL
    if section.must_stay_whole or is_instruction:
        return True
    minimum = section.min_tokens
    return minimum > 0 and (minimum >= (section.tokens or 0) or not is_divisible(section))


def _whole_text(section: Section) -> str:
    return (
        section.content if isinstance(section.content, str) else compact_json(list(section.content))
    )
