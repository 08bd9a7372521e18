"""Rendering: a PromptIR as a provider's request, with a segment for each part of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from rehydrate import _engine, formats
from rehydrate.errors import InternalError, InvalidArgumentError, Violation
from rehydrate.formats import anthropic_writing
from rehydrate.formats.neutral import RenderedMessage
from rehydrate.formats.rendering import RENDERERS, Rendered, render_history
from rehydrate.messages import Provider
from rehydrate.prompt.compiled import CompiledPrompt, Segment
from rehydrate.prompt.counting import entry_tokens, section_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.fencing import fenced, text_of
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Section, Stability
from rehydrate.prompt.target import Target

BEGINNING = "(Earlier messages are not shown.)"
"""The first user message where the provider requires one and the assistant would be first."""

_Kind = Literal["tool", "system", "message"]


class _Piece(NamedTuple):
    """One segment and the value that is sent for it."""

    segment: Segment
    value: Any
    names: frozenset[str]
    """A breakpoint with one of these names stands on its end."""


def render_prompt(ir: PromptIR, target: Target, original: History) -> CompiledPrompt:
    """Render the IR for the target's provider, and validate the result.

    ``original`` is the history before the passes. A violation that it has too goes into
    ``ir.meta.degraded``; any other raises InternalError. Raises InvalidArgumentError for a prompt
    without a message.
    """
    cache, provider = target.render_cache, target.provider
    history = render_history(ir.history.entries, ir.history.format, provider)
    tools = _tool_pieces(ir, target)
    system = _system_pieces(ir, history, target)
    messages = _message_pieces(ir, history, target)
    if not messages:
        raise InvalidArgumentError(
            "the prompt has no message; pass a history, or a query in the request"
        )
    pieces, breakpoints = _with_marks(_with_unique_ids([*tools, *system, *messages]), ir, target)
    values = [piece.value for piece in pieces]
    ends = len(tools), len(tools) + len(system)
    request = RENDERERS[provider].request(
        values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] :]
    )
    unmarked = [piece.value for piece in (*system, *messages)]
    body = request["input" if provider == "openai_responses" else "messages"]
    start = cache.first_unvalidated(unmarked) - (len(unmarked) - len(body))
    violations = _violations(body, provider, original, start)
    degraded = (*ir.meta.degraded, *history.notes, *violations)
    cache.commit(() if degraded else unmarked)
    ir = ir.replace(breakpoints=breakpoints, meta=replace(ir.meta, degraded=degraded))
    segments = tuple([piece.segment for piece in pieces])
    return CompiledPrompt(provider, request, ir, segments, target.model)


# Pieces


def _tool_pieces(ir: PromptIR, target: Target) -> list[_Piece]:
    pieces = [
        _piece([f"tools[{index}]"], "tool", tool.render(target.provider), tool.tokens or 0, target)
        for index, tool in enumerate(ir.tools)
    ]
    if pieces:
        pieces[-1] = pieces[-1]._replace(names=frozenset({"tools"}))
    return pieces


def _system_pieces(ir: PromptIR, history: Rendered, target: Target) -> list[_Piece]:
    """Return the system sections, then the history's own system entries."""
    pieces = [
        _section_piece(each, "system", partial(_system_value, each, target), target)
        for each in ir.sections
        if each.is_system
    ]
    return pieces + [
        _history_piece(each, "system", ir.history.tokens[each.sources[0]], ir, target)
        for each in history.system
    ]


def _system_value(section: Section, target: Target) -> Any:
    """Return a system section's block or message, its title above its text."""
    content = str(section.content)
    text = f"# {section.title}\n{content}" if section.title else content
    return RENDERERS[target.provider].system(text)


def _message_pieces(ir: PromptIR, history: Rendered, target: Target) -> list[_Piece]:
    """Return the static sections, then the history with the dynamic sections in it."""

    def section_message(section: Section) -> _Piece:
        render = partial(_user_message, section, ir.history.format, target)
        return _section_piece(section, "message", render, target)

    tokens = _message_tokens(ir.history, history, target.provider)
    messages = list(zip(history.messages, tokens, strict=True))
    sections = [section for section in ir.sections if not section.is_system]
    pieces = [section_message(section) for section in sections if section.is_static]
    dynamic = [section for section in sections if not section.is_static]
    if not dynamic:
        pieces += [_history_piece(each, "message", cost, ir, target) for each, cost in messages]
        return _with_user_first(pieces, ir, target)
    inserted = _insertions(dynamic, ir.history, history.messages, target)
    is_static = True
    for index, (message, cost) in enumerate(messages):
        here = inserted.get(index, ())
        # A section without an anchor moves in the next prompt, with all behind it.
        is_static = is_static and all(section.anchor is not None for section in here)
        pieces += map(section_message, here)
        pieces.append(_history_piece(message, "message", cost, ir, target, is_static=is_static))
    pieces += map(section_message, inserted.get(len(messages), ()))
    return _with_user_first(pieces, ir, target)


def _user_message(section: Section, format: str, target: Target) -> Any:  # noqa: A002
    """Return a section as a user message, in its fence."""
    return RENDERERS[target.provider].user(fenced(section, text_of(section, format)))


def _message_tokens(history: History, rendered: Rendered, provider: Provider) -> list[int]:
    """Return the tokens of each rendered message.

    They are those of its entries; messages that were converted from another format are counted.
    """
    if history.format in (provider, "claude_code" if provider == "anthropic" else ""):
        tokens = history.tokens
        return [
            tokens[each.sources[0]]
            if len(each.sources) == 1
            else sum(tokens[n] for n in each.sources)
            for each in rendered.messages
        ]
    conversation = formats.parse([each.message for each in rendered.messages], provider)
    return entry_tokens(conversation, len(rendered.messages))


def _with_user_first(pieces: list[_Piece], ir: PromptIR, target: Target) -> list[_Piece]:
    """Put a user message first, where Anthropic requires one and the passes left none there."""
    if target.provider != "anthropic" or not pieces:
        return pieces
    history = ir.history
    first = next((each.index for each in history.messages if each.role != "system"), 0)
    if history.format == "anthropic" and history.entry_index(first) == first:
        return pieces  # the caller's own beginning
    if pieces[0].value["role"] == "user":
        return pieces
    tokens = _engine.count(BEGINNING, ir.counter)
    message = target.render_cache.rendered(BEGINNING, lambda: anthropic_writing.user(BEGINNING))
    return [_piece(["beginning"], "message", message, tokens, target), *pieces]


def _history_piece(
    rendered: RenderedMessage,
    kind: _Kind,
    tokens: int,
    ir: PromptIR,
    target: Target,
    *,
    is_static: bool = True,
) -> _Piece:
    names = [ir.history.entry_id(source) for source in rendered.sources]
    stability = "static" if is_static else "dynamic"
    return _piece(names, kind, rendered.message, tokens, target, stability)


def _section_piece(
    section: Section, kind: _Kind, render: Callable[[], Any], target: Target
) -> _Piece:
    value = target.render_cache.rendered(section, render)
    tokens = section_tokens(section)
    return _piece([section.id], kind, value, tokens, target, section.stability)


def _piece(
    names: Sequence[str],
    kind: _Kind,
    value: Any,
    tokens: int,
    target: Target,
    stability: str = Stability.STATIC,
) -> _Piece:
    """Return the piece with these names; the first is the id of its segment."""
    _, digest, blocks, is_marked = target.render_cache.fingerprint(value)
    blocks = blocks if kind == "message" else 1
    segment = Segment(names[0], kind, tokens, digest, str(stability), blocks, is_marked)
    return _Piece(segment, value, frozenset(names))


def _with_unique_ids(pieces: list[_Piece]) -> list[_Piece]:
    """Number the ids of the pieces that one entry became, from the second on."""
    seen: dict[str, int] = {}
    unique = []
    for piece in pieces:
        name = piece.segment.id
        seen[name] = number = seen.get(name, 0) + 1
        if number > 1:
            segment = piece.segment._replace(id=f"{name}.{number}")
            piece = piece._replace(segment=segment)  # noqa: PLW2901
        unique.append(piece)
    return unique


def _with_marks(
    pieces: list[_Piece], ir: PromptIR, target: Target
) -> tuple[list[_Piece], tuple[str, ...]]:
    """Set cache marks at the breakpoints; return the pieces and the breakpoints that were set."""
    done: list[str] = []
    for name in ir.breakpoints:
        last = next((n for n in reversed(range(len(pieces))) if name in pieces[n].names), None)
        if last is None:
            continue
        piece = pieces[last]
        marked = RENDERERS[target.provider].mark(piece.value)
        if marked is not None:
            segment = piece.segment._replace(breakpoint=True)
            pieces[last] = piece._replace(value=marked, segment=segment)
            done.append(name)
    return pieces, tuple(done)


# Where dynamic sections stand


def _insertions(
    dynamic: Sequence[Section],
    history: History,
    messages: Sequence[RenderedMessage],
    target: Target,
) -> dict[int, list[Section]]:
    """Return the sections by the index of the message that they stand before."""
    last_turn = _last_user_turn(history)
    by_anchor: dict[int | None, list[Section]] = {}
    for section in dynamic:
        anchor = last_turn if section.anchor is None else section.anchor
        by_anchor.setdefault(anchor, []).append(section)
    entry_indices = [
        history.entry_index(each.sources[0]) if each.sources else -1 for each in messages
    ]
    highest = list(accumulate(entry_indices, max))  # up to and with each message
    inserted: dict[int, list[Section]] = {}
    for anchor, group in by_anchor.items():
        before = len(messages) if anchor is None else bisect_left(highest, anchor)
        index = _insertion_point(messages, before, target)
        inserted.setdefault(index, []).extend(group)
    return inserted


def _last_user_turn(history: History) -> int | None:
    """Return the entry index of the last user turn."""
    for message in reversed(history.messages):
        if message.is_user_turn:
            return history.entry_index(message.index)
    return None


def _insertion_point(messages: Sequence[RenderedMessage], index: int, target: Target) -> int:
    """Return this index, or the nearest one before it where a section may stand.

    It may not stand between a call and its results, nor behind thinking that ends a message: then
    it stands before the call. Messages behind the index do not count, because they were not there
    when the section came in.
    """
    while index and (start := _inseparable_start(messages, index, target)) is not None:
        index = start
    return index


def _inseparable_start(
    messages: Sequence[RenderedMessage], index: int, target: Target
) -> int | None:
    """Return the index of the message that must not be separated from what follows `index`.

    It is a message with an open call, or one that ends in thinking, in the last turn before
    `index`. None: there is no such message.
    """
    answered: set[str] = set()
    has_spoken = False
    for n in range(index - 1, -1, -1):
        message = messages[n].message
        parsed = target.render_cache.parsed(message, target.provider)
        if n == index - 1 and _ends_in_thinking(message):
            return n
        if (has_spoken or not parsed.answers) and parsed.role != "assistant":
            return None  # a turn before the last that had calls, or the user's words
        answered.update(parsed.answers)
        if not answered.issuperset(parsed.calls):
            return n
        has_spoken = parsed.role == "assistant"
    return None


def _ends_in_thinking(message: Any) -> bool:
    if message.get("type") == "reasoning":
        return True
    content = message.get("content")
    last = content[-1] if isinstance(content, (list, tuple)) and content else None
    return isinstance(last, dict) and last.get("type") in ("thinking", "redacted_thinking")


# Validation


def _violations(
    messages: Sequence[Any], provider: Provider, original: History, start: int
) -> tuple[str, ...]:
    """Validate the prompt; return the violations that came in with the original history.

    All before ``start`` was validated with the last prompt, together with what follows it. Raises
    InternalError for a rule that only the prompt breaks.
    """
    if start > 0:
        later = formats.validate(messages[start:], provider)
        calls = [call for message in original.messages for call in message.calls]
        # Only this part begins with the assistant: the whole prompt does not.
        if len(calls) == len(set(calls)) and all(v.rule == "first_not_user" for v in later):
            return ()
    found = formats.validate(messages, provider)
    if not found:
        return ()
    came_in: list[Violation] = formats.validate(original.entries, original.format)
    rules = {violation.rule for violation in came_in}
    new = [each for each in found if each.rule not in rules]
    if new and (original.format == provider or not came_in):
        raise InternalError(
            f"the compiled prompt breaks a rule that the history keeps: {new[0]}; "
            "please report this"
        )
    return tuple([f"history: as it came in: {violation}" for violation in came_in])
