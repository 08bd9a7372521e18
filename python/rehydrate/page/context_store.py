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
from rehydrate.page.html import colours, document, escaped, markdown
from rehydrate.page.store_items import ShownItems, ends
from rehydrate.prompt.counting import COUNTER, text_tokens

if TYPE_CHECKING:
    from rehydrate.context.context_store.store import ContextStore

__all__ = ["store_page"]

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
    they are known. At the top the store stands as markdown in at most ``budget_tokens``.

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
