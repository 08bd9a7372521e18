"""`rehydrate memory search`, `list`, `show` and `stats`: finds items, prints items and figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rehydrate import _native
from rehydrate._native import plain
from rehydrate._text import plural
from rehydrate.cli import memory_store as store
from rehydrate.cli.options import COLOR, Commands, json_option, option, whole
from rehydrate.cli.terminal import (
    Column,
    Failure,
    Terminal,
    answer,
    is_terminal,
    say,
    size,
    table,
    write,
)
from rehydrate.memory.items import FUSIONS

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit, MemoryItem, MemoryStats


SHOWN_LINES = 6
"""Lines shown of a snippet; --full shows all of it."""
WIDEST = 100
"""Maximum line width: longer lines are hard to read, however wide the terminal."""

SOURCE_CELLS = 28
KIND_CELLS = 12


part = Commands()


@part(
    "find items by words, parts of words and meaning, best first",
    option("QUERY", "words or a question; - reads standard input", nargs="+"),
    option("--limit N", "hits at most", whole, 5),
    option("--full", "whole passages, however long"),
    option("--fusion", "how words and meaning become one score", FUSIONS),
    *(store.FILTERS, store.STORE),
    option("--embedder MODEL", "the ONNX model that the memory was made with"),
    *(json_option("the hits"), COLOR),
    epilog="""\
A hit shows its score (comparable within one search), where it is from, the day it was said, its
tier and kind, the passage that matches, and the handle under which show prints the whole.

examples:
  rehydrate memory search "slow website" --after 2w --limit 3
  rehydrate memory search -- --budget          a query that begins with a dash
""",
)
def _search(options: argparse.Namespace) -> None:
    namespace = store.namespace_of(options)
    words = [store.read_text().strip() if word == "-" else word for word in options.query]
    query = store.checked_text("the query", " ".join(words)).strip()
    if not query:
        raise Failure("the query is empty; pass a word or a question")
    filters = store.filters_of(options)
    with store.opened(options) as memory:
        hits = memory.search(query, options.limit, fusion=options.fusion, **filters)
        held = 1 if hits else memory.stats().items
    if hits or options.json:
        names = ("handle", "score", "text", "trigram", "cosine", "snippet")
        shown = [
            {**{name: getattr(hit, name) for name in names}, "item": _shown(hit.item)}
            for hit in hits
        ]
        found = {"query": query, "hits": shown}
        answer(options, found, lambda terminal: _lines(hits, query, terminal, options.full))
    elif not held:
        _say_empty(namespace)
    else:
        remedy = "; with fewer filters there may be more" if filters else ""
        say(f"nothing in namespace {namespace!r} matches{remedy}")


@part(
    "the items of a namespace, a line each, newest first",
    option("--limit N", "lines a page", whole, 20),
    option("--page P", "from 1 up", whole, 1),
    option("--oldest-first", "default: newest first"),
    *(store.FILTERS, store.STORE, json_option("the items"), COLOR),
    epilog="""\
example:
  rehydrate memory list --source notes/decisions.md --json | jq -r '.items[].handle'
""",
)
def _list(options: argparse.Namespace) -> None:
    start = (options.page - 1) * options.limit
    end = start + options.limit
    filters = store.filters_of(options)
    with store.opened(options) as memory:
        # One more than is shown says whether there is another page.
        found = memory.list(limit=end + 1, newest_first=not options.oldest_first, **filters)
    items, more = found[start:end], len(found) > end
    if items or options.json:
        shown = {"items": [*map(_shown, items)], "page": options.page, "more": more}
        answer(options, shown, lambda terminal: _table(items, terminal))
    elif found:
        are = "is" if len(found) == 1 else "are"
        say(f"page {options.page} is beyond the last; there {are} {plural(len(found), 'item')}")
    elif filters:
        say(f"nothing in namespace {memory.namespace!r} passes the filters")
    else:
        _say_empty(memory.namespace)
    if more and not options.json and is_terminal(sys.stderr):
        say(f"there is more: --page {options.page + 1}")


@part(
    "the whole text of an item, by its handle",
    option("HANDLE", "as search, list and add print it"),
    *(store.STORE, json_option("text, provenance, links and all"), COLOR),
    epilog="""\
What is written is the text, byte for byte; --json also has all else that is known of it. In a
terminal, control characters are replaced, since a text may hold what a terminal would obey.
""",
)
def _show(options: argparse.Namespace) -> None:
    with store.opened(options) as memory:
        item = memory.get(options.handle)
    if not (options.json or is_terminal(sys.stdout)):
        try:
            write(item.text)
        except UnicodeEncodeError as error:
            raise Failure(
                f"the text holds half a surrogate pair at character {error.start}, which UTF-8 "
                "cannot say; --json escapes it"
            ) from None
        return
    # Line by line: text before a line, as the indents of code, must stay.
    lines = item.text.splitlines()
    answer(options, _shown(item), lambda terminal: [_safe_line(line, terminal) for line in lines])


@part(
    "figures of a namespace, and how full it is", *(store.STORE, json_option("the figures"), COLOR)
)
def _stats(options: argparse.Namespace) -> None:
    with store.opened(options) as memory:
        stats = memory.stats()
    answer(options, stats, lambda terminal: _figures(stats, terminal))
    if not (options.json or stats.items):
        _say_empty(stats.namespace)


def _say_empty(namespace: str | None) -> None:
    say(f"namespace {namespace!r} holds nothing yet; next: rehydrate memory add --help")


def _shown(item: MemoryItem) -> dict[str, Any]:
    """Return all fields of an item as JSON values, the handle first."""
    return {"handle": item.handle, **plain(item)}


def _day(item: MemoryItem) -> str:
    return f"{item.time:%Y-%m-%d}" if item.time else "-"


def _lines(hits: list[Hit], query: str, terminal: Terminal, whole: bool) -> Iterator[str]:
    indent = " " * 3
    width = max(20, min(terminal.width, WIDEST) - len(indent))
    for place, hit in enumerate(hits, 1):
        if place > 1:
            yield ""
        item = hit.item
        about = f"{_day(item)}  {item.tier}  {terminal.fit(item.kind, 16)}"
        score = f"{hit.score:.2f}"
        source_cells = max(12, terminal.width - len(about) - len(score) - 9)
        source = terminal.fit_end(item.source or "(no source)", source_cells)
        yield (
            f"{place:<3}{terminal.paint(score, 'green')}  {terminal.paint(source, 'bold')}  "
            f"{terminal.paint(about, 'dim')}"
        )
        for line in _passage(hit.snippet, query, width, terminal, whole):
            yield indent + line
        yield f"{indent}{terminal.paint(hit.handle, 'cyan')}"


def _passage(
    snippet: str, query: str, width: int, terminal: Terminal, whole: bool
) -> Iterator[str]:
    """Yield the lines of a snippet, or a few lines around the match, with the query's words."""
    paragraphs = [terminal.safe(each) for each in _native.paragraphs(snippet, width)]
    most = sys.maxsize if whole else SHOWN_LINES
    lines, cut_before, cut_after = _native.hit_lines(paragraphs, query, width, most)
    if cut_before:
        yield terminal.glyph("…", "...")
    for parts in lines:
        words = [terminal.paint(word, "yellow", "bold") for word in parts[1::2]]
        yield "".join([text + word for text, word in zip_longest(parts[::2], words, fillvalue="")])
    if cut_after:
        yield terminal.glyph("…", "...")


def _table(items: Sequence[MemoryItem], terminal: Terminal) -> Iterator[str]:
    sources = [terminal.fit_end(item.source, SOURCE_CELLS) for item in items]
    columns = [
        Column("handle", [item.handle for item in items], styles=["cyan"] * len(items)),
        Column("said on", list(map(_day, items)), rank=2),
        Column("tier", [item.tier for item in items]),
        Column("kind", [terminal.fit(item.kind, KIND_CELLS) for item in items], rank=3),
        Column("source", sources, rank=1),
    ]
    texts = [item.text[: 8 * terminal.width] for item in items]
    yield from table(columns, terminal, Column("text", texts))


def _figures(stats: MemoryStats, terminal: Terminal) -> Iterator[str]:
    limits = stats.limits
    pending = f"{plural(stats.pending, 'item')} not in it yet, found anyway"
    rows = [
        ("items", f"{stats.items:,}", _share_of_limit(stats.items, limits.max_items)),
        ("  hot", f"{stats.hot:,}", "in every turn"),
        ("  warm", f"{stats.warm:,}", "found by what a turn is about"),
        ("  cold", f"{stats.cold:,}", "found when asked for"),
        ("links", f"{stats.links:,}", ""),
        ("held", size(stats.held_bytes), _share_of_limit(stats.held_bytes, limits.max_bytes)),
        ("index", size(stats.index_bytes), pending if stats.pending else ""),
        ("file", size(stats.store_bytes), "of all namespaces"),
        ("made cold", f"{stats.demoted:,}", "by the limits"),
        ("dropped", f"{stats.dropped:,}", "by the limits"),
    ]  # fmt: skip
    if stats.vector_space:
        rows.insert(5, ("vectors", f"{stats.vectors:,}", f"of {terminal.safe(stats.vector_space)}"))
    yield terminal.paint(f"namespace {terminal.safe(stats.namespace)}", "bold")
    names, figures, remarks = zip(*rows, strict=True)
    styles = ["dim"] * len(rows)
    columns = [Column("", names), Column("", figures, ">"), Column("", remarks, styles=styles)]
    yield from table(columns, terminal)


def _share_of_limit(value: int, limit: int | None) -> str:
    if limit is None:
        return ""
    share = value / limit
    few = 0 < share < 0.001
    return "under 0.1% of the limit" if few else f"{share:.1%} of the limit"


def _safe_line(line: str, terminal: Terminal) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    parts = line[len(indent) :].split(" ")
    return indent + " ".join([terminal.safe(part) for part in parts])
