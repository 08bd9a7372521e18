"""Rendering: a PromptIR as a provider's request, with a segment for each part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rehydrate import formats
from rehydrate.errors import InternalError, InvalidArgumentError, Violation
from rehydrate.formats.rendering import RENDERERS, render_history
from rehydrate.prompt.compiled import CompiledPrompt, Segment
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.laying_out import BEGINNING, lay_out
from rehydrate.prompt.layout import Layout
from rehydrate.prompt.target import Target

__all__ = ["BEGINNING", "render_prompt"]


def render_prompt(ir: PromptIR, target: Target, original: History) -> CompiledPrompt:
    """Render the IR for the target's provider, and validate the result.

    ``original`` is the history before the passes. A violation that it has too goes into
    ``ir.meta.degraded``; any other raises InternalError. Raises InvalidArgumentError for a prompt
    without a message.
    """
    cache, provider = target.render_cache, target.provider
    layout = lay_out(ir, target)
    tools, system = layout.tools, layout.tools + layout.system
    if len(layout.values) == system:
        raise InvalidArgumentError(
            "the prompt has no message; pass a history, or a query in the request"
        )
    segments, values, breakpoints = _with_marks(layout, ir)
    request = RENDERERS[provider].request(values[:tools], values[tools:system], values[system:])
    unmarked = layout.values[tools:]
    body = request["input" if provider == "openai_responses" else "messages"]
    start = cache.first_unvalidated(unmarked) - (len(unmarked) - len(body))
    violations = _violations(body, target, original, start)
    degraded = (*ir.meta.degraded, *layout.notes, *violations)
    cache.commit(layout, () if degraded else unmarked)
    ir = ir.replace(breakpoints=breakpoints, meta=replace(ir.meta, degraded=degraded))
    return CompiledPrompt(provider, request, ir, tuple(segments), target.model)


def _with_marks(layout: Layout, ir: PromptIR) -> tuple[list[Segment], list[Any], tuple[str, ...]]:
    """Set cache marks at the breakpoints; return the segments, their values and the breakpoints
    that were set."""
    segments, values = list(layout.segments), list(layout.values)
    done: list[str] = []
    for name in ir.breakpoints:
        last = layout.index_of(name)
        if last is None:
            continue
        marked = RENDERERS[layout.provider].mark(values[last])
        if marked is not None:
            segments[last] = segments[last]._replace(breakpoint=True)
            values[last] = marked
            done.append(name)
    return segments, values, tuple(done)


def _violations(
    messages: Sequence[Any], target: Target, original: History, start: int
) -> tuple[str, ...]:
    """Validate the prompt; return the violations that came in with the original history.

    All before ``start`` was validated with the last prompt, together with what follows it. Raises
    InternalError where the history breaks no rule, and the prompt does.
    """
    provider = target.provider
    if start > 0:
        later = formats.validate(messages[start:], provider)
        # Only this part begins with the assistant: the whole prompt does not.
        is_valid = all(v.rule == "first_not_user" for v in later)
        if is_valid and not target.render_cache.repeats_calls(original):
            return ()
    found = formats.validate(messages, provider)
    if not found:
        return ()
    came_in: list[Violation] = formats.validate(original.entries, original.format)
    if not came_in:
        # Another format's rules do not judge all that is sent, nor do ours of a conversion.
        history = render_history(original.entries, original.format, provider)
        came_in = formats.validate([each.message for each in history.messages], provider)
    if not came_in:
        raise InternalError(
            f"the compiled prompt breaks a rule that the history keeps: {found[0]}; "
            "please report this"
        )
    return tuple([f"history: as it came in: {violation}" for violation in came_in])
