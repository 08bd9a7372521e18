"""The context store of a conversation as one HTML page: each line with where it is from.

    ContextStore, entries -> Items (store_items) -> head, headings, log -> store_page -> the page

`rehydrate thread store THREAD -o PAGE` writes it. Like the page of a prompt it has no script and
loads nothing. What users and tools said is escaped, and none of it can run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rehydrate import formats
from rehydrate._text import plural
from rehydrate.context.context_store.operations import Heading, Item, Operation, Status
from rehydrate.context.context_store.rendering import is_changed, told_uses
from rehydrate.context.context_store.store import text_at
from rehydrate.context.context_store.updater import ASSISTANT_TRUST
from rehydrate.messages import Message, PieceKind
from rehydrate.page.html import colours, document, escaped, fair_share, markdown, name, shown_ends
from rehydrate.prompt.counting import COUNTER, text_tokens

if TYPE_CHECKING:
    from rehydrate.context.context_store.store import ContextStore


LINES = 2_000
"""Maximum items under a heading, live or past, and lines of the log: the first and the last
half."""

QUOTE_CHARACTERS = 1_500
"""Maximum characters of a message before an item and after it, where the page has room."""
QUOTE_LINES = 12
"""Maximum lines of a message before an item and after it."""
ITEM_CHARACTERS = 400
"""Maximum characters of an item; the message that it is from has the rest."""
_LINK_CHARACTERS = 60
_REPLACED_SHOWN = 3
_CODE = frozenset({"file", "error"})


def ends(lines: Sequence[object]) -> tuple[int, int]:
    """Return how many lines are shown from the beginning, and from which on they are again."""
    return shown_ends([1] * len(lines), LINES)


class ShownItems:
    """The items of a store with the messages of its conversation."""

    def __init__(
        self,
        every: Sequence[Item],
        messages: Sequence[Message],
        times: Sequence[datetime],
    ) -> None:
        """Take them, and divide the room of the page."""
        self.every = every
        self._by_id = {item.id: item for item in every}
        self._messages = {message.index: message for message in messages}
        self._times = times
        self._replaced: dict[int, list[Item]] = {}
        """By the id of an item: those that it holds instead of."""
        for item in every:
            if item.other is not None:
                self._replaced.setdefault(item.other, []).append(item)
        self._by_heading = {heading: self._under(heading) for heading in Heading}
        self._linked = set[int]()
        for group in [group for groups in self._by_heading.values() for group in groups]:
            first, last = ends(group)
            self._linked |= {item.id for item in (*group[:first], *group[last:])}
        quoted = [len(self._text(item)) for item in every if item.id in self._linked]
        self._cap = fair_share(quoted)

    def under(self, heading: Heading) -> tuple[list[Item], list[Item]]:
        """Return the items of a heading that hold, and those that do so no longer."""
        return self._by_heading[heading]

    def _under(self, heading: Heading) -> tuple[list[Item], list[Item]]:
        """Return the live and the past items of a heading: changed files first, then the last that
        was spoken of."""
        every = [item for item in self.every if item.heading is heading]
        every.sort(key=lambda item: (is_changed(item), item.last_entry, item.id), reverse=True)
        live = [item for item in every if item.status is Status.LIVE]
        return live, [item for item in every if item.status is not Status.LIVE]

    def row(self, item: Item, colour: str) -> Iterator[str]:
        """Yield an item: what it is, and folded the message around its span."""
        text = name(item.text, ITEM_CHARACTERS) if item.text else "its text is gone"
        style = " code" if item.kind in _CODE else ""
        yield f'<details class="row item {item.status} {colour}" id="item{item.id}"><summary>'
        yield f'<span class="said{style}">{text}</span><b class="handle">{item.span.handle}</b>'
        yield f'<span class="badges">{"".join(self._badges(item))}</span>'
        yield "</summary>"
        yield '<div class="inside">'
        yield from self._quote(item)
        yield "</div>"
        yield "</details>"

    def link(self, id_: int) -> str:
        """Return the entry and the beginning of an item, as a link where the item is shown."""
        item = self._by_id.get(id_)
        if item is None:
            return "–"
        text = f"{item.span.handle} {name(item.text, _LINK_CHARACTERS)}"
        return f'<a href="#item{id_}">{text}</a>' if id_ in self._linked else text

    def _badges(self, item: Item) -> Iterator[str]:
        """Yield what is known of an item, in few words."""
        yield f'<b class="source">{escaped(item.kind)}</b>'
        status = str(item.status)
        if item.other is not None:
            status += f" by {self.link(item.other)}"
        yield f'<span class="status">{status}</span>'
        untrusted = " untrusted" if item.trust < ASSISTANT_TRUST else ""
        yield f'<span class="badge{untrusted}">{self._who(item)}, trust {item.trust:g}</span>'
        if item.strength:
            yield f'<span class="badge">strength {item.strength}</span>'
        if when := self._when(item):
            yield f"<span>{when}</span>"
        if item.uses:
            yield f"<span>{escaped(told_uses(item))}</span>"
        replaced = self._replaced.get(item.id, ())
        if replaced:
            links = [self.link(each.id) for each in replaced[:_REPLACED_SHOWN]]
            if len(replaced) > _REPLACED_SHOWN:
                links.append(f"{len(replaced) - _REPLACED_SHOWN:,} more")
            yield f"<span>instead of {', '.join(links)}</span>"

    def _who(self, item: Item) -> str:
        """Return who said it, or whose call or result it is from."""
        message = self._messages.get(item.span.entry)
        if message is None:
            return "unknown"
        pieces = message.pieces
        if item.span.piece < len(pieces) and pieces[item.span.piece].kind is PieceKind.TOOL_RESULT:
            return "tool"
        return name(message.role, 40)

    def _when(self, item: Item) -> str:
        if item.span.entry >= len(self._times):
            return ""
        return f"{self._times[item.span.entry]:%Y-%m-%d %H:%M %Z}".strip()

    def _text(self, item: Item) -> str:
        """Return the text that has the span of an item; "" where it has another text there."""
        message = self._messages.get(item.span.entry)
        if message is None or text_at(item.span, message) is None:
            return ""
        return message.pieces[item.span.piece].text

    def _quote(self, item: Item) -> Iterator[str]:
        """Yield the message around an item, the item marked."""
        text, span = self._text(item), item.span
        if not text:
            yield (
                f'<p class="cut">{span.handle} has another text there now: something was redacted'
                "</p>"
            )
            return
        kind = self._messages[span.entry].pieces[span.piece].kind
        code = "" if kind is PieceKind.TEXT else " code"
        end = min(span.end, span.start + self._cap)
        side = min(QUOTE_CHARACTERS, self._cap // 2)
        before = _last_lines(text[max(0, span.start - side) : span.start])
        after = _first_lines(text[end : end + side])
        if hidden := span.start - len(before):
            yield f'<p class="cut">{plural(hidden, "character")} before it not shown</p>'
        yield (
            f'<div class="text{code}" dir="auto">{escaped(before)}'
            f"<mark>{escaped(text[span.start : end])}</mark>{escaped(after)}</div>"
        )
        if hidden := len(text) - end - len(after):
            yield f'<p class="cut">{plural(hidden, "more character")} not shown</p>'


def _last_lines(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[-QUOTE_LINES:])


def _first_lines(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:QUOTE_LINES])


_COLOURS = colours(Heading)


def store_page(
    store: ContextStore,
    entries: Sequence[Any],
    *,
    format: str = "auto",  # noqa: A002  the field's word
    times: Sequence[datetime] = (),
    budget_tokens: int = 4_000,
    title: str = "a thread",
) -> str:
    """Return the context store as one HTML page: no script, nothing loaded, all escaped.

    ``entries`` are those that the store was made from, all of them, and ``times`` theirs, where
    they are known. At the top is the store as markdown in at most ``budget_tokens``.

    >>> import rehydrate
    >>> context = rehydrate.Context()
    >>> context.add({"role": "user", "content": "Never write </script> into a page."})
    >>> page = store_page(context.store, context.history)
    >>> page.startswith("<!doctype html>"), "<mark>Never write &lt;/script&gt; into" in page
    (True, True)
    """
    conversation = formats.parse(entries, format)
    items = ShownItems(store.items(), conversation.messages, times)
    text = store.render(budget_tokens, conversation=conversation)
    main = [
        *_markdown(text),
        *(line for heading in Heading for line in _heading(heading, items)),
        *_log(store.operations, items),
    ]
    return document(
        f"{title}: the context store",
        _head(store, items, sum(text_tokens([text])), budget_tokens, title),
        main,
        "inspector.css",
        "store.css",
        body='<body class="inspector store">',
    )


def _head(
    store: ContextStore, items: ShownItems, tokens: int, budget_tokens: int, title: str
) -> Iterator[str]:
    """Yield the head of the page, from the title to the links to the headings."""
    yield "<header>"
    yield f'<p class="name"><b>Rehydrate</b> context store of <bdi>{escaped(title)}</bdi></p>'
    yield f'<h1>{tokens:,} tokens <span class="change">of {budget_tokens:,}</span></h1>'
    yield '<ul class="shares">'
    for heading in Heading:
        live, past = items.under(heading)
        more = f' <span class="quiet">and {len(past):,} past</span>' if past else ""
        yield f'<li class="{_COLOURS[heading]}">{heading} <b>{len(live):,}</b>{more}</li>'
    yield "</ul>"
    found = Counter(item.status for item in items.every)
    parts = [f"{found[status]:,} {status}" for status in Status]
    parts += [
        plural(len(store.operations), "operation"),
        plural(store.seen, "entry read", "entries read"),
        COUNTER,
    ]
    yield '<ul class="counts">' + "".join(f"<li>{part}</li>" for part in parts) + "</ul>"
    links = {heading: str(heading) for heading in Heading if any(items.under(heading))}
    there = [f'<a href="#{_id(heading)}">{escaped(words)}</a>' for heading, words in links.items()]
    if store.operations:
        there.append('<a href="#log">the log</a>')
    yield f'<p class="links">{" ".join(there)}</p>'
    yield "</header>"


def _id(heading: Heading) -> str:
    return heading.name.lower()


def _markdown(text: str) -> Iterator[str]:
    if not text:
        yield '<p class="cut">nothing to keep yet</p>'
        return
    yield '<details class="fold"><summary>As markdown</summary>'
    yield f'<div class="text" dir="auto">{markdown(text)}</div>'
    yield "</details>"


def _heading(heading: Heading, items: ShownItems) -> Iterator[str]:
    """Yield the items of a heading that hold, and folded those that do so no longer."""
    live, past = items.under(heading)
    if not live and not past:
        return
    yield f'<h2 id="{_id(heading)}">{heading} <span>{len(live):,} live</span></h2>'
    yield from _rows(live, items, _COLOURS[heading])
    if past:
        found = Counter(item.status for item in past)
        told = ", ".join(f"{count:,} {status}" for status, count in found.items())
        yield f'<details class="fold past"><summary>{told}</summary>'
        yield from _rows(past, items, _COLOURS[heading])
        yield "</details>"


def _rows(shown: Sequence[Item], items: ShownItems, colour: str) -> Iterator[str]:
    first, last = ends(shown)
    for item in shown[:first]:
        yield from items.row(item, colour)
    if first < last:
        yield f'<p class="cut">{plural(last - first, "more line")} not shown on this page</p>'
    for item in shown[last:]:
        yield from items.row(item, colour)


def _log(operations: Sequence[Operation], items: ShownItems) -> Iterator[str]:
    """Yield the log as a folded table."""
    if not operations:
        return
    yield '<h2 id="log">The log <span>all else on this page follows from it</span></h2>'
    yield f'<details class="fold"><summary>{plural(len(operations), "operation")}</summary>'
    yield '<div class="scroll"><table><thead><tr>'
    yield "".join(f"<th>{head}</th>" for head in ("", "entry", "operation", "item", "what"))
    yield "</tr></thead><tbody>"
    first, last = ends(operations)
    yield from _log_lines(operations[:first], 1, items)
    if first < last:
        more = plural(last - first, "more operation")
        yield f'<tr><td class="cut" colspan="5">{more} not shown on this page</td></tr>'
    yield from _log_lines(operations[last:], last + 1, items)
    yield "</tbody></table></div>"
    yield "</details>"


def _log_lines(operations: Sequence[Operation], start: int, items: ShownItems) -> Iterator[str]:
    for number, operation in enumerate(operations, start):
        what = ""
        if operation.added is not None:
            what = f"{operation.added.heading}: {operation.added.kind}"
        elif operation.other is not None:
            what = f"by {items.link(operation.other)}"
        elif operation.use:
            what = escaped(operation.use)
        yield (
            f"<tr><td>{number:,}</td><td>#{operation.entry}</td>"
            f'<td class="op {operation.kind}">{operation.kind.upper()}</td>'
            f'<td class="of">{items.link(operation.item)}</td><td>{what}</td></tr>'
        )
