"""lay_out: makes the layout of a prompt, of the parts that the last prompt had and of new ones.

A part is a tool, a system block or a message, as it is sent, with its segment. Those of the history
are kept by row: where a history goes on from the last one, only what its new rows become is
rendered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from rehydrate import _engine, _native, formats
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.formats.rendering import (
    RENDERERS,
    Rendered,
    RenderedMessage,
    notes_on,
    render_history,
)
from rehydrate.messages import PROVIDER_OF, SYSTEM_APART, Provider, normal_role
from rehydrate.prompt.counting import entry_tokens, fenced, section_tokens, text_of
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, Segment, Target
from rehydrate.prompt.section import Section, Stability, ToolDef

BEGINNING = "(Earlier messages are not shown.)"
"""The first user message where the provider requires one and the assistant would be first."""

_Kind = Literal["tool", "system", "message"]
_Part = tuple[Segment, Any]
"""A segment, and the value that is sent for it."""


class Layout(NamedTuple):
    """The parts of a prompt in the order in which a provider reads them."""

    of: tuple[str, str, str]
    """The provider, the counter and the history's format."""
    segments: list[Segment]
    values: list[Any]
    tools: int
    """How many of the parts are tools."""
    system: int
    """How many of the parts are system blocks or messages; they follow the tools."""
    notes: tuple[str, ...]
    """Notes on content that was left out or changed."""
    named: dict[str, int]
    """The index of the last part of each tool or section, by its name."""
    first: int
    """The index at which the history's first message is, or would be without sections in it."""
    inserted: list[int]
    """For each section in the history, the index of the message that it is before."""
    rows: RenderedRows
    messages: _Messages
    tool_parts: tuple[tuple[ToolDef, ...], list[_Part]]
    section_parts: dict[str, tuple[Section, list[_Part]]]

    def index_of(self, name: str, history: History) -> int | None:
        """Return the index of the last part of this name."""
        index = EntryId.index_of(name)
        if index is None or EntryId.of(index) != name:
            return self.named.get(name)
        rendered = self.rows.rendered

        def is_of(each: RenderedMessage) -> bool:
            return index in map(history.entry_index, each.sources)

        found = self.named.get(name, -1)
        for number, each in enumerate(rendered.system):
            if is_of(each):
                return max(found, self.system - len(rendered.system) + number)
        for number in range(len(rendered.messages) - 1, -1, -1):
            if is_of(rendered.messages[number]):
                found = max(found, self.first + number + bisect_right(self.inserted, number))
                break
        return None if found < 0 else found


class _Messages(NamedTuple):
    """The history's messages, as if no section were among them."""

    segments: list[Segment]
    values: list[Any]
    highest: list[int]
    """Up to and with each message, the highest entry index."""


class RenderedRows(NamedTuple):
    """A history in the provider's shape."""

    rendered: Rendered
    rows: int
    kept: int = 0
    """How many of the messages are those of the last prompt."""
    has_late_system: bool = False
    """Whether a system entry of the provider's own comes after others, so that it may move."""


_BY_MESSAGE = frozenset({"anthropic", "bedrock", "gemini", "langchain", "openai_chat", "plain"})
"""Formats of which each entry has one role wherever it is sent."""


def rendered_rows(
    history: History, provider: Provider, known: int = 0, last: RenderedRows | None = None
) -> RenderedRows:
    """Return what `render_history` returns for this history, of the last prompt's and new messages.

    ``known`` rows are those of the last prompt. Of a history in another format all is rendered from
    the last turn that both have. A turn begins where the assistant speaks after others, or the user
    after the assistant, and all calls before it are answered before it: nothing after it changes
    how what is before it is sent.
    """
    entries, format_ = history.entries, history.format
    is_own, start, has_late_system = format_ == provider, 0, False
    if is_own and provider in SYSTEM_APART:
        is_going_on = known > 0 and last is not None and not last.has_late_system
        new = entries[known if is_going_on else 0 :]
        leading = 0 if is_going_on else sum(1 for _ in takewhile(_is_system, new))
        has_late_system = any(map(_is_system, new[leading:]))
    if last is not None and known:
        if is_own:
            start = 0 if has_late_system else known
        elif format_ in _BY_MESSAGE:
            # What came after the last row that both have may be in one message with it.
            start = history.rows.last_turn_within(known if known == last.rows else known - 1)
    rendered, kept = render_history(entries[start:], format_, provider, start), 0
    if last is not None and start:
        earlier = last.rendered
        kept = len(earlier.messages)
        while kept and max(earlier.messages[kept - 1].sources) >= start:
            kept -= 1
        lost = {what: {n for n in rows if n < start} for what, rows in earlier.lost.items()}
        for what, rows in rendered.lost.items():
            lost.setdefault(what, set()).update(rows)
        rendered = Rendered(
            earlier.system,
            [*earlier.messages[:kept], *rendered.messages],
            {what: frozenset(rows) for what, rows in lost.items() if rows},
        )
    elif last is not None and is_own:
        pairs = zip(last.rendered.messages, rendered.messages, strict=False)
        same = (old.sources == now.sources and max(now.sources) < known for old, now in pairs)
        kept = sum(takewhile(bool, same))
    return RenderedRows(rendered, len(entries), kept, has_late_system)


def _is_system(entry: Any) -> bool:
    return normal_role(str(entry.get("role"))) == "system"


def lay_out(ir: PromptIR, target: Target) -> Layout:
    """Return the layout of a prompt."""
    history, provider = ir.history, target.provider
    of = (provider, ir.counter, history.format)
    known, last = target.render_cache.known(Layout, history)
    if last is not None and last.of != of:
        known, last = 0, None
    try:
        rows = rendered_rows(history, provider, known, last and last.rows)
    except InvalidMessageError as error:
        index = error.index
        raise error if index is None else error.at(history.entry_index(index)) from None
    tool_parts = last and last.tool_parts
    if tool_parts is None or tool_parts[0] is not ir.tools:
        tool_parts = ir.tools, _tool_parts(ir.tools, provider)
    layers = _section_parts(ir, provider, last.section_parts if last else {})
    parts = _Parts()
    for number, part in enumerate(tool_parts[1], 1):
        parts.add([part], "tools" if number == len(ir.tools) else part[0].id)
    parts.add_sections(layers[_Layer.SYSTEM])
    for each in rows.rendered.system:
        row = each.sources[0]
        parts.add([_part(history.entry_id(row), "system", history.tokens[row], each.message)])
    system = len(parts.values)

    messages = _messages(history, rows, provider, last)
    inserted = _inserted(layers[_Layer.DYNAMIC], history, messages, provider)
    static = [*layers[_Layer.NATIVE], *layers[_Layer.STATIC]]
    opening = [value for _, own in static for _, value in own[:1]] or messages.values[:1]
    if opening and (static or 0 not in inserted) and _lacks_user(opening[0], ir, provider):
        tokens = _engine.count(BEGINNING, ir.counter)
        part = _part("beginning", "message", tokens, RENDERERS[provider].user(BEGINNING))
        parts.add([part], "beginning")
    parts.add_sections(static)
    first, done, is_static = len(parts.values), 0, True
    for at in sorted({*inserted, len(messages.values)}):
        parts.segments += (
            messages.segments[done:at]
            if is_static
            else [segment._replace(stability="dynamic") for segment in messages.segments[done:at]]
        )
        parts.values += messages.values[done:at]
        done = at
        parts.add_sections(inserted.get(at, ()))
        # A section without an anchor moves in the next prompt, with all after it.
        is_static &= all(section.anchor is not None for section, _ in inserted.get(at, ()))
    segments = parts.segments
    if parts.has_namesakes() or _parts_entries(rows, history.format == provider):
        segments = list(_with_unique_ids(segments))
    lost = {
        what: frozenset(map(history.entry_index, places))
        for what, places in rows.rendered.lost.items()
    }
    return Layout(
        of,
        segments,
        parts.values,
        len(ir.tools),
        system,
        notes_on(lost),
        parts.named,
        first,
        [at for at in sorted(inserted) for _ in inserted[at]],
        rows,
        messages,
        tool_parts,
        {section.id: (section, own) for layer in layers.values() for section, own in layer},
    )


class _Layer(Enum):
    """Where a section is in a prompt."""

    SYSTEM = 0
    NATIVE = 1
    STATIC = 2
    DYNAMIC = 3

    @classmethod
    def of(cls, section: Section, provider: Provider) -> _Layer:
        if section.native_to == provider:
            return cls.NATIVE
        if section.is_system:
            return cls.SYSTEM
        return cls.STATIC if section.is_static else cls.DYNAMIC


class _Parts:
    """The parts of a prompt, in order, and the index of the last one of each name."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.values: list[Any] = []
        self.named: dict[str, int] = {}
        self._ids: list[str] = []

    def add(self, parts: Iterable[_Part], name: str = "") -> None:
        """Add parts that are no messages of the history."""
        for segment, value in parts:
            self.segments.append(segment)
            self.values.append(value)
            self._ids.append(segment.id)
        if name:
            self.named[name] = len(self.values) - 1

    def add_sections(self, sections: Iterable[tuple[Section, list[_Part]]]) -> None:
        """Add the parts of these sections."""
        for section, parts in sections:
            self.add(parts, section.id)

    def has_namesakes(self) -> bool:
        """Whether two of these parts have one id, or one has that of an entry."""
        is_entry = (EntryId.index_of(name) is not None for name in self.named)
        return len({*self._ids}) < len(self._ids) or any(is_entry)


def _parts_entries(rows: RenderedRows, is_own: bool) -> bool:
    """Whether several messages may be of one entry."""
    messages = rows.rendered.messages
    return not is_own and len({each.sources[0] for each in messages}) < len(messages)


def _with_unique_ids(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Number the ids of the segments that one entry became, from the second on."""
    seen: dict[str, int] = {}
    for segment in segments:
        name = segment.id
        seen[name] = number = seen.get(name, 0) + 1
        yield segment if number == 1 else segment._replace(id=f"{name}.{number}")


def _tool_parts(tools: Sequence[ToolDef], provider: Provider) -> list[_Part]:
    return [
        _part(f"tools[{index}]", "tool", tool.tokens or 0, tool.render(provider))
        for index, tool in enumerate(tools)
    ]


def _section_parts(
    ir: PromptIR, provider: Provider, known: Mapping[str, tuple[Section, list[_Part]]]
) -> dict[_Layer, list[tuple[Section, list[_Part]]]]:
    """Return the sections of each layer with their parts; the known ones have those they had."""
    layers: dict[_Layer, list[tuple[Section, list[_Part]]]] = {layer: [] for layer in _Layer}
    for section in ir.sections:
        layer, found = _Layer.of(section, provider), known.get(section.id)
        if found is None or found[0] is not section:
            found = section, _parts_of(section, layer, ir.history.format, provider)
        layers[layer].append(found)
    return layers


def _parts_of(
    section: Section,
    layer: _Layer,
    format: str,  # noqa: A002  the field's word
    provider: Provider,
) -> list[_Part]:
    """Return a section as a system block, with its title; as the provider's own messages, of which
    the last has the tokens of all; or as a user message, in its fence."""
    tokens, stability, renderer = section_tokens(section), section.stability, RENDERERS[provider]
    if layer is _Layer.NATIVE:
        last = len(section.content) - 1
        return [
            _part(section.id, "message", tokens if number == last else 0, message, stability)
            for number, message in enumerate(section.content)
        ]
    if layer is _Layer.SYSTEM:
        content = str(section.content)
        text = f"# {section.title}\n{content}" if section.title else content
        return [_part(section.id, "system", tokens, renderer.system(text), stability)]
    text = fenced(section, text_of(section, format))
    return [_part(section.id, "message", tokens, renderer.user(text), stability)]


def _messages(
    history: History, rows: RenderedRows, provider: Provider, last: Layout | None
) -> _Messages:
    """Return the parts of the history's messages: the last prompt's, and those of new ones."""
    kept, made = rows.kept, _Messages([], [], [])
    if last is not None:
        segments, values, highest = last.messages
        made = _Messages(segments[:kept], values[:kept], highest[:kept])
    new = rows.rendered.messages[kept:]
    for each, tokens in zip(new, _message_tokens(history, new, provider), strict=True):
        row = each.sources[0]
        segment, value = _part(history.entry_id(row), "message", tokens, each.message)
        made.segments.append(segment)
        made.values.append(value)
        index = history.entry_index(row)
        made.highest.append(max(index, made.highest[-1]) if made.highest else index)
    return made


def _message_tokens(
    history: History, messages: Sequence[RenderedMessage], provider: Provider
) -> list[int]:
    """Return the tokens of these messages.

    They are those of its entries; messages that were converted from another format are counted.
    """
    if provider in (history.format, PROVIDER_OF.get(history.format)):
        tokens = history.tokens
        return [sum([tokens[row] for row in each.sources]) for each in messages]
    conversation = formats.parse([each.message for each in messages], provider)
    return entry_tokens(conversation, len(messages))


def _lacks_user(opening: Any, ir: PromptIR, provider: Provider) -> bool:
    """Whether the provider requires a user message first, and the passes left none there."""
    if provider not in SYSTEM_APART or opening["role"] == "user":
        return False
    if any(section.native_to for section in ir.sections):
        return False
    history = ir.history
    first, _ = history.rows.first_said() or (0, "")
    is_callers_own = history.format == provider and history.entry_index(first) == first
    return not is_callers_own


def _part(
    name: str, kind: _Kind, tokens: int, value: Any, stability: str = Stability.STATIC
) -> _Part:
    content = value.get("content", value.get("parts"))
    is_listed = kind == "message" and isinstance(content, (list, tuple))
    digest, is_marked = _native.sent_part(value)
    blocks = len(content) if is_listed else 1
    return Segment(name, kind, tokens, digest, str(stability), blocks, is_marked), value


def _inserted(
    dynamic: Sequence[tuple[Section, list[_Part]]],
    history: History,
    messages: _Messages,
    provider: Provider,
) -> dict[int, list[tuple[Section, list[_Part]]]]:
    """Return the sections, with their parts, by the index of the message that they are before."""
    by_anchor: dict[int | None, list[tuple[Section, list[_Part]]]] = {}
    last_turn = history.rows.last_user_message() if dynamic else None
    default = None if last_turn is None else history.entry_index(last_turn.index)
    for each in dynamic:
        anchor = each[0].anchor
        by_anchor.setdefault(default if anchor is None else anchor, []).append(each)
    inserted: dict[int, list[tuple[Section, list[_Part]]]] = {}
    for anchor, group in by_anchor.items():
        at = len(messages.values) if anchor is None else bisect_left(messages.highest, anchor)
        at = _native.insertion_point(messages.values, at, provider)
        inserted.setdefault(at, []).extend(group)
    return inserted
