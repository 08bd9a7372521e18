"""lay_out: makes the layout of a prompt.

A prompt that goes on from the last one has the last one's layout at its beginning: only what is new
is rendered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from operator import lt
from typing import Any, Literal, NamedTuple

from rehydrate import _engine, formats
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import anthropic
from rehydrate.formats.neutral import RenderedMessage
from rehydrate.formats.rendering import RENDERERS, Rendered
from rehydrate.formats.translation import notes_on
from rehydrate.messages import PROVIDER_OF, Provider, normal_role
from rehydrate.prompt.compiled import Segment
from rehydrate.prompt.counting import entry_tokens, fenced, section_tokens, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.layout import Layout
from rehydrate.prompt.render_cache import same_objects, shared_entries
from rehydrate.prompt.section import Section, Stability
from rehydrate.prompt.target import Target


def insertions(
    dynamic: Sequence[Section],
    history: History,
    messages: Sequence[RenderedMessage],
    target: Target,
) -> dict[int, list[Section]]:
    """Return the sections by the index of the message that they are before."""
    last_turn = _last_user_turn(history)
    by_anchor: dict[int | None, list[Section]] = {}
    for section in dynamic:
        anchor = last_turn if section.anchor is None else section.anchor
        by_anchor.setdefault(anchor, []).append(section)
    entry_indices = [
        history.entry_index(each.sources[0]) if each.sources else -1 for each in messages
    ]
    highest = list(accumulate(entry_indices, max))  # up to and with each message
    values = [each.message for each in messages]
    inserted: dict[int, list[Section]] = {}
    for anchor, group in by_anchor.items():
        before = len(messages) if anchor is None else bisect_left(highest, anchor)
        index = insertion_point(values, before, target)
        inserted.setdefault(index, []).extend(group)
    return inserted


def _last_user_turn(history: History) -> int | None:
    """Return the entry index of the last user turn."""
    last = history.rows.last_user_message()
    return None if last is None else history.entry_index(last.index)


def insertion_point(messages: Sequence[Any], index: int, target: Target) -> int:
    """Return this index, or the nearest one before it where a section may stand.

    It may not be between a call and its results, nor after thinking that ends a message: then
    it is before the call. Nor may it be after a system message amid Anthropic's, which the reply
    must follow. Messages after the index do not count, because they were not there when the
    section came in.
    """
    while index and (start := _inseparable_start(messages, index, target)) is not None:
        index = start
    return index


def _inseparable_start(messages: Sequence[Any], index: int, target: Target) -> int | None:
    """Return the index of the message that must not be separated from what follows `index`.

    It is a message with an open call, or one that ends in thinking, in the last turn before
    `index`. None: there is no such message.
    """
    answered: set[str] = set()
    has_spoken = False
    for n in range(index - 1, -1, -1):
        message = messages[n]
        if target.provider == "anthropic" and message.get("role") == "system":
            if n == index - 1:
                return n
            continue
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


BEGINNING = "(Earlier messages are not shown.)"
"""The first user message where the provider requires one and the assistant would be first."""

_Kind = Literal["tool", "system", "message"]


def lay_out(ir: PromptIR, target: Target) -> Layout:
    """Return the layout of a prompt."""
    last = target.render_cache.layout
    if last is not None and _goes_on(ir, last, target):
        added = _added_sections(ir, last, target)
        if added is not None:
            return _extended(last, ir, added, target)
    return _whole(ir, target)


class _Added(NamedTuple):
    """Sections that the last prompt did not have."""

    sections: Sequence[Section]
    position: int
    """The position of the entry that they are before."""


def _extended(last: Layout, ir: PromptIR, added: _Added, target: Target) -> Layout:
    """Return the last prompt's layout with what is new after it."""
    history = ir.history
    own = RENDERERS[target.provider].own
    sections = [_message_of(section, ir, target) for section in added.sections]
    pieces: list[_Piece] = []
    for position in range(len(last.ir.history.entries), len(history.entries)):
        if position == added.position:
            pieces += sections
        message = RenderedMessage(own(history.entries[position]), (position,))
        pieces.append(_history_piece(message, "message", history.tokens[position], ir, target))
    if added.position == len(history.entries):
        pieces += sections
    return last._replace(
        ir=ir,
        segments=(*last.segments, *[piece.segment for piece in pieces]),
        values=(*last.values, *[piece.value for piece in pieces]),
        start=len(last.segments),
    )


def _added_sections(ir: PromptIR, last: Layout, target: Target) -> _Added | None:
    """Return the sections that are new since the last prompt; None where it is not certain that all
    else stays where it was."""
    now, known = ir.history, len(last.ir.history.entries)
    shown = set(map(id, last.ir.sections))
    old = [section for section in ir.sections if id(section) in shown]
    new = [section for section in ir.sections if id(section) not in shown]
    names = {section.id for section in ir.sections}
    entry_ids = [now.entry_id(position) for position in range(known, len(now.entries))]
    is_certain = (
        _are_same(old, last.ir.sections)
        and len(names) == len(ir.sections)
        and names.isdisjoint(entry_ids)
        and all(last.index_of(section.id) is None for section in new)
    )
    if not is_certain:
        return None
    if not new:
        return _Added((), len(now.entries))
    anchor = new[0].anchor
    dynamic = [section for section in ir.sections if not section.is_static]
    latest = max([each.anchor or 0 for each in dynamic[: -len(new)]], default=-1)
    is_certain = (
        anchor is not None
        and _are_same(dynamic[-len(new) :], new)
        and all(section.anchor == anchor for section in new)
        and latest < anchor <= now.indices[-1] + 1
    )
    if anchor is None or not is_certain:
        return None
    position = insertion_point(now.entries, bisect_left(now.indices, anchor), target)
    return None if position < known else _Added(new, position)


def _goes_on(ir: PromptIR, last: Layout, target: Target) -> bool:
    """Whether tools and history begin with those of the last prompt."""
    before, now = last.ir.history, ir.history
    known = len(before.entries)
    return (
        last.can_go_on
        and (target.provider, ir.counter, now.format)
        == (last.provider, last.ir.counter, before.format)
        and _are_same(ir.tools, last.ir.tools)
        and shared_entries(before.entries, now) == known
        and now.tokens[:known] == before.tokens
        and tuple(now.indices[:known]) == tuple(before.indices)
        and _ascend(now.indices[known - 1 :])
        and not (target.provider == "anthropic" and any(map(_is_system, now.entries[known:])))
    )


def _ascend(indices: Sequence[int]) -> bool:
    return all(map(lt, indices, indices[1:]))


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) == same_objects(one, other)


def _is_system(entry: Any) -> bool:
    return normal_role(str(entry.get("role"))) == "system"


class _Piece(NamedTuple):
    """One segment and the value that is sent for it."""

    segment: Segment
    value: Any
    names: Sequence[str]
    """A breakpoint with one of these names is on its end."""


def _whole(ir: PromptIR, target: Target) -> Layout:
    """Return the layout of a prompt of which nothing is known."""
    index_of = ir.history.entry_index
    try:
        history = target.render_cache.converted.of(ir.history, target.provider)
    except InvalidMessageError as error:
        raise error if error.index is None else error.at(index_of(error.index)) from None
    lost = {what: frozenset(map(index_of, places)) for what, places in history.lost.items()}
    tools = _tool_pieces(ir, target)
    system = _system_pieces(ir, history, target)
    messages = _message_pieces(ir, history, target)
    pieces = list(_with_unique_ids([*tools, *system, *messages]))
    return Layout(
        ir,
        target.provider,
        tuple([piece.segment for piece in pieces]),
        tuple([piece.value for piece in pieces]),
        len(tools),
        len(system),
        _other_names(pieces),
        notes_on(lost),
        _can_go_on(ir, history, target.provider),
    )


def _can_go_on(ir: PromptIR, rendered: Rendered, provider: Provider) -> bool:
    """Whether new entries leave the parts of this prompt as they are.

    They do not where the history is converted, where a system entry of Anthropic's may move, and
    where a section is before an entry that is still to come.
    """
    history = ir.history
    if history.format != provider or not rendered.messages or not _ascend(history.indices):
        return False
    if provider == "anthropic":
        leading = len({source for each in rendered.system for source in each.sources})
        if any(map(_is_system, history.entries[leading:])):
            return False
    end = history.entry_index(len(history.entries) - 1) + 1
    anchors = [section.anchor for section in ir.sections if not section.is_static]
    return all(anchor is not None and anchor <= end for anchor in anchors)


def _other_names(pieces: Sequence[_Piece]) -> dict[str, int | None]:
    others: dict[str, int | None] = {}
    for index, (segment, _, names) in enumerate(pieces):
        if segment.id in names:
            others.pop(segment.id, None)
        else:
            others[segment.id] = None
        others |= dict.fromkeys([name for name in names if name != segment.id], index)
    return others


def _tool_pieces(ir: PromptIR, target: Target) -> list[_Piece]:
    pieces = [
        _piece([f"tools[{index}]"], "tool", tool.render(target.provider), tool.tokens or 0, target)
        for index, tool in enumerate(ir.tools)
    ]
    if pieces:
        pieces[-1] = pieces[-1]._replace(names=("tools",))
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
    """Return what is the provider's own, the static sections, and the history with the dynamic
    sections in it."""
    tokens = _message_tokens(ir.history, history, target.provider)
    messages = list(zip(history.messages, tokens, strict=True))
    native = [section for section in ir.sections if section.native_to == target.provider]
    others = [section for section in ir.sections if section.native_to != target.provider]
    sections = [section for section in others if not section.is_system]
    pieces = [piece for section in native for piece in _native_pieces(section, target)]
    pieces += [_message_of(section, ir, target) for section in sections if section.is_static]
    dynamic = [section for section in sections if not section.is_static]
    if not dynamic:
        pieces += [_history_piece(each, "message", cost, ir, target) for each, cost in messages]
        return _with_user_first(pieces, ir, target)
    inserted = insertions(dynamic, ir.history, history.messages, target)
    is_static = True
    for index, (message, cost) in enumerate(messages):
        here = inserted.get(index, ())
        # A section without an anchor moves in the next prompt, with all after it.
        is_static = is_static and all(section.anchor is not None for section in here)
        pieces += [_message_of(section, ir, target) for section in here]
        pieces.append(_history_piece(message, "message", cost, ir, target, is_static=is_static))
    pieces += [_message_of(section, ir, target) for section in inserted.get(len(messages), ())]
    return _with_user_first(pieces, ir, target)


def _native_pieces(section: Section, target: Target) -> Iterator[_Piece]:
    """Yield the provider's own messages as they are; the last one has the tokens of all."""
    last = len(section.content) - 1
    for number, message in enumerate(section.content):
        tokens = section_tokens(section) if number == last else 0
        yield _piece([section.id], "message", message, tokens, target, section.stability)


def _message_of(section: Section, ir: PromptIR, target: Target) -> _Piece:
    """Return a section as a user message, in its fence."""

    def render() -> Any:
        text = fenced(section, text_of(section, ir.history.format))
        return RENDERERS[target.provider].user(text)

    return _section_piece(section, "message", render, target)


def _message_tokens(history: History, rendered: Rendered, provider: Provider) -> list[int]:
    """Return the tokens of each rendered message.

    They are those of its entries; messages that were converted from another format are counted.
    """
    if provider in (history.format, PROVIDER_OF.get(history.format)):
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
    first, _ = history.rows.first_said() or (0, "")
    if history.format == "anthropic" and history.entry_index(first) == first:
        return pieces  # the caller's own beginning
    if pieces[0].value["role"] == "user" or any(each.native_to for each in ir.sections):
        return pieces
    tokens = _engine.count(BEGINNING, ir.counter)
    message = target.render_cache.rendered(BEGINNING, lambda: anthropic.user(BEGINNING))
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
    return _Piece(segment, value, names)


def _with_unique_ids(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Number the ids of the pieces that one entry became, from the second on."""
    seen: dict[str, int] = {}
    for piece in pieces:
        name = piece.segment.id
        seen[name] = number = seen.get(name, 0) + 1
        if number > 1:
            segment = piece.segment._replace(id=f"{name}.{number}")
            piece = piece._replace(segment=segment)  # noqa: PLW2901
        yield piece
