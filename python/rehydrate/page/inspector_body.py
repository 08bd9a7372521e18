"""The body of the inspector: tools, sections and history in order, each with its text to unfold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rehydrate._text import plural
from rehydrate.context.background.history import SUMMARY_ID
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import parse
from rehydrate.messages import Message, PieceKind
from rehydrate.page.html import (
    colours,
    escaped,
    fair_share,
    handles,
    kind_labels,
    markdown,
    name,
    percent,
    shown_ends,
    tokens,
)
from rehydrate.prompt.explain import PromptExplanation, PromptRow
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.section import Position, Section

_PREVIEW_CHARACTERS = 240
_ITEMS_SHOWN = 6
_HANDLES_SHOWN = 24
ROWS = 4_000
"""Maximum rows of the prompt: the first and the last half; those between are summed up."""
_SECTIONS = ("section", "late_bound")


@dataclass
class Body:
    """An IR with the data of its page: the parsed history, and how much of each text fits."""

    ir: PromptIR
    table: PromptExplanation
    messages: dict[int, Message] = field(init=False)
    """The entries that a model sees, by index."""
    shown: set[int] = field(init=False)
    """Indices of the entries that fit on the page."""
    cap: int = field(init=False)
    """Maximum characters of each text."""

    def __post_init__(self) -> None:
        """Read the history and divide the room."""
        history = self.ir.history
        size = len(history.entries)
        try:
            messages = parse(history.entries, history.format).messages
        except InvalidMessageError:  # then each entry is shown as JSON
            messages = ()
        self.messages = {message.index: message for message in messages}
        first, last = shown_ends([1] * size)
        self.shown = {*range(first), *range(last, size)}
        pieces = [
            len(piece.text)
            for index in self.shown & self.messages.keys()
            for piece in self.messages[index].pieces
        ]
        sections = [len(each.content) for each in self.ir.sections if isinstance(each.content, str)]
        self.cap = fair_share(pieces + sections)

    def lines(self) -> Iterator[str]:
        """Yield the whole body."""
        yield '<h2 id="prompt">The prompt <span>in the order a provider reads it</span></h2>'
        colour = colours(self.table.by_source)
        kept = [row for row in self.table.rows if row.is_kept]
        max_tokens = max((row.tokens for row in kept), default=0)
        first, last = shown_ends([1] * len(kept), ROWS)
        before = 0
        for number, row in enumerate(kept):
            before += 0 if row.kind == "late_bound" else row.tokens
            if number == first < last:
                count = sum(each.tokens for each in kept[first:last])
                rows = plural(last - first, "more piece")
                yield f'<p class="cut">{rows} of {count:,} tokens: too many to show here</p>'
            if first <= number < last:
                continue
            yield f'<details class="row {row.kind} {colour[row.source]}">'
            yield from self._summary(number, row, max_tokens)
            yield '<div class="inside">'
            yield from self._inside(row)
            yield "</div>"
            yield "</details>"
            if row.breakpoint:
                yield (
                    '<p class="breakpoint"><span>cache breakpoint: '
                    f"a prefix of {before:,} tokens</span></p>"
                )

    def _summary(self, number: int, row: PromptRow, max_tokens: int) -> Iterator[str]:
        width = percent(row.tokens, max_tokens)
        yield "<summary>"
        yield (
            f'<span class="number">{number}</span><span class="what">{name(row.id)}</span>'
            f'{tokens(row.tokens)}<span class="gauge"><i style="width:{width}"></i></span>'
        )
        yield f'<span class="badges">{"".join(_badges(row))}</span>'
        if row.kind in _SECTIONS:
            yield f'<span class="preview" dir="auto">{self._preview(row)}</span>'
        yield "</summary>"

    def _preview(self, row: PromptRow) -> str:
        content = self._section(row).content
        text = content if isinstance(content, str) else plural(len(content), "message")
        return escaped(_first_words(text))

    def _section(self, row: PromptRow) -> Section:
        among = self.ir.late_bound if row.kind == "late_bound" else self.ir.sections
        return among[row.first]

    def _inside(self, row: PromptRow) -> Iterator[str]:
        if row.kind == "tool":
            tool = self.ir.tools[row.first]
            yield from self._text(tool.description)
            shown = tool.raw if tool.is_hosted else tool.schema
            yield from self._text(_as_json(shown), code=True)
        elif row.kind in _SECTIONS:
            section = self._section(row)
            yield from _origin(section)
            if isinstance(section.content, str):
                to_html = markdown if section.id == SUMMARY_ID else escaped
                yield from self._text(section.content, to_html=to_html)
            else:
                yield from self._messages(section.content)
        else:
            yield from self._entries(row)

    def _entries(self, row: PromptRow) -> Iterator[str]:
        counts = self.ir.history.tokens
        hidden: list[int] = []
        for index in range(row.first, row.last + 1):
            if index not in self.shown:
                hidden.append(index)
                continue
            if hidden:
                yield self._hidden(hidden)
                hidden = []
            yield from self._entry(index, counts[index] if index < len(counts) else 0)
        if hidden:
            yield self._hidden(hidden)

    def _entry(self, index: int, count: int) -> Iterator[str]:
        entry_id = self.ir.history.entry_id(index)
        message = self.messages.get(index)
        if message is None:
            role, preview = "not sent", "no model sees this entry"
            if not self.messages:
                role, preview = "unreadable", "shown as it is"
        else:
            kinds = kind_labels(piece.kind for piece in message.pieces)
            role = " · ".join(filter(None, [message.role, kinds]))
            preview = _first_words(message.text)
        yield '<details class="entry"><summary>'
        yield (
            f'<span class="place">{entry_id}</span><span class="role">{name(role, 60)}</span>'
            f"{tokens(count)}"
            f'<span class="preview" dir="auto">{escaped(preview) or "no text"}</span>'
        )
        yield "</summary>"
        if message is None:
            yield from self._text(_as_json(self.ir.history.entries[index]), code=True)
        else:
            yield from self._pieces(message)
        yield "</details>"

    def _messages(self, entries: Sequence[Any]) -> Iterator[str]:
        """Yield the messages that a section is made of."""
        try:
            messages = parse(entries, self.ir.history.format).messages
        except InvalidMessageError:
            yield from self._text(_as_json(entries), code=True)
            return
        for message in messages:
            yield f'<p class="who">{name(message.role, 60)}</p>'
            yield from self._pieces(message)

    def _pieces(self, message: Message) -> Iterator[str]:
        for piece in message.pieces:
            yield from self._text(piece.text, code=piece.kind != PieceKind.TEXT)
        if message.images:
            yield f'<p class="cut">{plural(message.images, "medium", "media")}, not shown</p>'

    def _text(
        self, text: str, *, code: bool = False, to_html: Callable[[str], str] = escaped
    ) -> Iterator[str]:
        if not text:
            return
        names = "text code" if code else "text"
        yield f'<div class="{names}" dir="auto">{to_html(text[: self.cap])}</div>'
        if len(text) > self.cap:
            hidden = len(text) - self.cap
            yield f'<p class="cut">{hidden:,} more characters are not shown on this page</p>'

    def _hidden(self, indices: Sequence[int]) -> str:
        counts = self.ir.history.tokens
        count = sum(counts[index] for index in indices if index < len(counts))
        return (
            f'<p class="cut">{plural(len(indices), "entry", "entries")} of {count:,} tokens: '
            "too many to show on this page</p>"
        )


def _first_words(text: str) -> str:
    """Return the begin of a text on one line, for a preview."""
    return " ".join(text[: 2 * _PREVIEW_CHARACTERS].split())[:_PREVIEW_CHARACTERS]


def _badges(row: PromptRow) -> Iterator[str]:
    """Return a row's properties in few words."""
    words = [row.priority, row.mode]
    if row.kind != "history":
        words += [row.stability, row.position if row.position != Position.MIDDLE else ""]
    if row.relevance is not None:
        words.append(f"relevance {row.relevance:.2g}")
    if row.min_tokens:
        words.append(f"at least {row.min_tokens:,} tokens")
    yield f'<b class="source">{name(row.source)}</b>'
    for word in filter(None, words):
        strong = " critical" if word == "critical" else ""
        yield f'<span class="badge{strong}">{escaped(word)}</span>'
    if row.trust < 1:
        yield f'<span class="badge untrusted">trust {row.trust:g}</span>'
    if row.handle:
        yield f'<span class="badge">whole under {name(row.handle, 60)}</span>'
    if row.reason:
        yield f'<span class="why">{name(row.reason)}</span>'


def _origin(section: Section) -> Iterator[str]:
    """Yield a section's origin, line by line."""
    origin = section.provenance
    named: list[str] = []
    if section.id == SUMMARY_ID and isinstance(section.content, str):
        named = handles(section.content)
    fields = {
        "title": section.title,
        "items": _first_items(origin.items, ", "),
        "names the entries": _first_items(named, " ", _HANDLES_SHOWN),
        "from": origin.origin,
        "thread": origin.thread,
        "tool": origin.tool,
        "by": origin.principal,
        "said": origin.time.isoformat(" ", "minutes") if origin.time else "",
        "made of": ", ".join(origin.parents),
        "stands in the result of": section.tool_call_id,
        "stands before": "" if section.anchor is None else EntryId.of(section.anchor),
    }
    shown = [f"<span>{word}</span> {name(value)}" for word, value in fields.items() if value]
    if shown:
        yield '<p class="origin">' + " · ".join(shown) + "</p>"


def _first_items(items: Sequence[str], between: str, shown: int = _ITEMS_SHOWN) -> str:
    """Return some of the items, and how many more there are."""
    more = [f"{len(items) - shown:,} more"] if len(items) > shown else []
    return between.join([*items[:shown], *more])


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=repr)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
