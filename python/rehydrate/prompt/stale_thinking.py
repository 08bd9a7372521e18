"""Stale thinking: what a model refuses, since something before it is not as it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rehydrate import formats
from rehydrate._check import check_choice
from rehydrate.compact.thinking import PrefixBinding
from rehydrate.entry_id import EntryId
from rehydrate.formats._reading import compact_json
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.prompt.compiled import CompiledPrompt
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.meta import DroppedSection
from rehydrate.prompt.target import Target, traced

__all__ = [
    "binding_of",
    "checked_policy",
    "first_change",
    "waits_for_the_turn",
    "without_stale_thinking",
]


NAME = "thinking"
"""Of the entry in the trace."""


def checked_policy(thinking: object) -> str:
    """The policy, or a clear error."""
    check_choice("thinking", thinking, ("auto", "keep"))
    return str(thinking)


def binding_of(ir: PromptIR, target: Target) -> PrefixBinding:
    """What the history's thinking is bound to; nothing where it is not sent as it stands."""
    history, row = ir.history, UNBOUND
    if target.thinking == "auto" and history.format in _own_formats(target):
        row = thinking_model(target.model, history.format, history.entries)
    return PrefixBinding(history.conversation, history.entries, row)


def waits_for_the_turn(
    ir: PromptIR,
    target: Target,
    kept_units: Sequence[bool],
    cut: Sequence[int] = (),
    *,
    sections_change: bool,
) -> bool:
    """Whether a prompt may not be cut to these units, with `cut` entries of them kept in part,
    before the turn has ended, since the model may refuse its open tool loop with thinking behind a
    change as well as without it."""
    binding = binding_of(ir, target)
    if binding.model.open_loop == "any" or not binding.model.refuses_changed_prefix:
        return False
    if sections_change:
        return binding.loop_is_at_risk(0)
    return binding.must_wait(kept_units, cut)


def first_change(compiled: CompiledPrompt, sent: CompiledPrompt | None) -> int | None:
    """The position in the history of the first entry behind what differs from what was sent; None
    where the prompt goes on from it. Nothing was sent: behind what the passes left out."""
    history = compiled.ir.history
    if sent is None:
        gone = [
            EntryId.index_of(each.section)
            for each in compiled.ir.meta.dropped
            if each.by == "prune"
        ]
        places = [place for place in gone if place is not None]
        if not places:
            return None
        return next(
            (n for n in range(len(history.entries)) if history.place(n) > min(places)), None
        )
    shared = 0
    for one, other in zip(sent.segments, compiled.segments, strict=False):
        if one.digest != other.digest:
            break
        shared += 1
    if shared == len(sent.segments) and sent.provider == compiled.provider:
        return None
    positions = {history.place(n): n for n in range(len(history.entries))}
    named = {EntryId.index_of(segment.id) for segment in compiled.segments[shared:]}
    return min([n for place, n in positions.items() if place in named], default=None)


def without_stale_thinking(ir: PromptIR, target: Target, first: int) -> PromptIR:
    """The IR without the thinking of its history from this position on, as far as the model refuses
    it there; the very same where there is none."""
    binding = binding_of(ir, target)
    if not binding.model.refuses_changed_prefix:
        return ir
    history = ir.history
    tail = history.entries[first:]
    shown = formats.FORMATS[history.format].without_thinking(tail)
    changed = {
        first + n: entry
        for n, (entry, came) in enumerate(zip(shown, tail, strict=True))
        if entry is not came
    }
    if not changed:
        return ir
    left = {n: entry for n, entry in changed.items() if entry is not None}
    counted = entry_tokens(formats.parse([*left.values()], history.format), len(left))
    tokens = dict(zip(left, counted, strict=True))
    stay = [n for n in range(len(history.entries)) if changed.get(n, ()) is not None]
    after = History(
        tuple([left.get(n, history.entries[n]) for n in stay]),
        history.format,
        tuple([tokens.get(n, history.tokens[n]) for n in stay]),
        tuple([history.place(n) for n in stay]),
    )
    names = [history.entry_id(n) for n in changed]
    gone = [
        DroppedSection(
            history.entry_id(n),
            history.tokens[n],
            "left out: nothing but thinking, and something before it changed",
            target.keep(compact_json(history.entries[n])),
            by=NAME,
        )
        for n, entry in changed.items()
        if entry is None
    ]
    notes = [
        f"the thinking of {len(names)} entries went, since something before {names[0]} is not "
        "what it was"
    ]
    meta = replace(ir.meta, dropped=(*ir.meta.dropped, *gone))
    if binding.loop_is_at_risk(first):
        said = "thinking: the open tool loop lost what it begins with, which the model may refuse"
        meta = replace(meta, degraded=(*meta.degraded, said))
    return traced(NAME, ir, ir.replace(history=after, meta=meta), names, notes)


def _own_formats(target: Target) -> tuple[str, ...]:
    """The formats whose entries are sent as they are."""
    if target.provider == "anthropic":
        return ("anthropic", "claude_code")
    return (target.provider,)
