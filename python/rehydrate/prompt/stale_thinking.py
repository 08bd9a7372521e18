"""Stale thinking: leaves out the model's thinking where the model refuses it after a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rehydrate import formats
from rehydrate._check import check_choice
from rehydrate.compact.thinking import PrefixBinding
from rehydrate.entry_id import EntryId
from rehydrate.formats._reading import compact_json
from rehydrate.formats.thinking import UNBOUND, thinking_model
from rehydrate.messages import PROVIDER_OF
from rehydrate.prompt.counting import entry_tokens
from rehydrate.prompt.ir import (
    CompiledPrompt,
    PromptIR,
    Target,
    shared_segments,
    traced,
    valid_until,
)
from rehydrate.prompt.laying_out import Layout
from rehydrate.prompt.section import DroppedSection, Section

__all__ = [
    "binding_of",
    "checked_policy",
    "first_change",
    "waits_for_the_turn",
    "without_stale_thinking",
]


NAME = "thinking"
"""The name of the entry in the trace."""


def checked_policy(thinking: object) -> str:
    """Return the policy; raises InvalidArgumentError for any other value."""
    check_choice("thinking", thinking, ("auto", "keep"))
    return str(thinking)


def binding_of(ir: PromptIR, target: Target) -> PrefixBinding:
    """Return what the history's thinking is bound to; nothing where it is not sent as it is."""
    history, model = ir.history, UNBOUND
    if target.thinking == "auto" and history.format in _own_formats(target):
        model = thinking_model(target.model, history.format, history.entries)
    return PrefixBinding(history.conversation, history.entries, model)


def waits_for_the_turn(
    ir: PromptIR,
    target: Target,
    kept_units: Sequence[bool],
    cut: Sequence[int] = (),
    *,
    sections_change: bool,
) -> bool:
    """Whether a prompt can be cut to these units only after the turn has ended.

    ``cut`` are the positions of entries that are kept in part. It must wait if the model may refuse
    its open tool loop both with the thinking after the change and without it.
    """
    binding = binding_of(ir, target)
    if binding.model.open_loop == "any" or not binding.model.refuses_changed_prefix:
        return False
    return binding.loop_is_at_risk(0) if sections_change else binding.must_wait(kept_units, cut)


def first_change(ir: PromptIR, layout: Layout, sent: CompiledPrompt | None) -> int | None:
    """Return the position of the first history entry that is after a change; None for none.

    With ``sent``, a change is the first segment that differs from the prompt that was sent. Without
    it, a change is the first entry that prune left out.
    """
    history, (provider, *_) = ir.history, layout.of
    if sent is None:
        pruned = [each for each in ir.meta.dropped if each.by == "prune"]
        indices = [EntryId.index_of(each.section) for each in pruned]
        first = min([index for index in indices if index is not None], default=None)
        if first is None:
            return None
        return next((n for n, index in enumerate(history.indices) if index > first), None)
    shared = shared_segments(sent.segments, layout.segments)
    if shared == len(sent.segments) and sent.provider == provider:
        return None
    summary = _new_summary(ir, provider, sent)
    if summary is not None and _only_swaps(summary, layout, sent, shared):
        limit = valid_until(summary)
        return next((n for n, index in enumerate(history.indices) if index >= limit), None)
    after = {EntryId.index_of(segment.id) for segment in layout.segments[shared:]}
    return next((n for n, index in enumerate(history.indices) if index in after), None)


def _new_summary(ir: PromptIR, provider: str, sent: CompiledPrompt) -> Section | None:
    """Return the summary of Anthropic's own that was not in the prompt that was sent."""
    for section in ir.sections:
        if section.native_to == provider == sent.provider == "anthropic":
            is_known = any(each is section for each in sent.ir.sections)
            return None if is_known else section
    return None


def _only_swaps(summary: Section, layout: Layout, sent: CompiledPrompt, shared: int) -> bool:
    """Whether all after the summary followed, in the prompt that was sent, right after the
    messages that it is of. Then the API accepts what was thought under them
    (https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks)."""
    head = layout.system
    start = head + len(summary.content)
    kept, was = layout.segments[start:], sent.segments
    if shared != head or start >= len(layout.segments):
        return False
    position = next((n for n, each in enumerate(was) if each.id == kept[0].id), head)
    if position <= head or shared_segments(kept, was[position:]) != len(was) - position:
        return False
    before = sent.messages[position - head - 1]
    return bool(before["role"] != layout.values[start]["role"])


def without_stale_thinking(ir: PromptIR, target: Target, first: int) -> PromptIR:
    """Return the IR without the thinking that the model refuses from this position on.

    It is the very same IR where there is none.
    """
    binding = binding_of(ir, target)
    if not binding.model.refuses_changed_prefix:
        return ir
    history = ir.history
    tail = history.entries[first:]
    without = formats.FORMATS[history.format].without_thinking(tail)
    changed = {
        first + n: entry
        for n, (entry, original) in enumerate(zip(without, tail, strict=True))
        if entry is not original
    }
    if not changed:
        return ir
    left = {n: entry for n, entry in changed.items() if entry is not None}
    read = formats.parse([*left.values()], history.format)
    tokens = dict(zip(left, entry_tokens(read, len(left)), strict=True))
    messages = {each.index: each for each in read.renumbered([*left]).messages}
    kept = [n for n in range(len(history.entries)) if changed.get(n, ()) is not None]
    after = history.with_changed_entries(left, messages, tokens).select(kept)
    names = [history.entry_id(n) for n in changed]
    dropped = [
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
    meta = replace(ir.meta, dropped=(*ir.meta.dropped, *dropped))
    if binding.loop_is_at_risk(first):
        why = "thinking: the open tool loop lost what it begins with, which the model may refuse"
        meta = replace(meta, degraded=(*meta.degraded, why))
    return traced(NAME, ir, ir.replace(history=after, meta=meta), names, notes)


def _own_formats(target: Target) -> tuple[str, ...]:
    """Return the formats whose entries are sent as they are."""
    return (
        target.provider,
        *[name for name in PROVIDER_OF if PROVIDER_OF[name] == target.provider],
    )
