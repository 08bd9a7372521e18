"""`rehydrate memory list`, `show` and `stats`: prints items and figures."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rehydrate._text import as_json, plural
from rehydrate.cli.memory_store import (
    add_filters,
    add_store_options,
    as_dict,
    day,
    described,
    filters_of,
    namespace_of,
    opened,
)
from rehydrate.cli.options import add_command, add_output_options, whole
from rehydrate.cli.terminal import (
    GAP,
    Failure,
    Terminal,
    aligned,
    display_width,
    say,
    show,
    table,
    write,
)

if TYPE_CHECKING:
    from rehydrate.memory.items import MemoryItem, MemoryStats


MIN_PREVIEW_CELLS = 20
SOURCE_CELLS = 28
KIND_CELLS = 12

_LIST_EXAMPLES = """\
examples:
  rehydrate memory list                           the newest 20
  rehydrate memory list --page 2
  rehydrate memory list --tier hot --oldest-first
  rehydrate memory list --source notes/decisions.md --json | jq -r '.items[].handle'
"""
_SHOW_EXAMPLES = """\
What is written is the text, byte for byte; --json has all that is known of it besides. In a
terminal, control characters are replaced, since a text may hold what a terminal would obey.

examples:
  rehydrate memory show mem_...
  rehydrate memory show mem_... --json | jq .source
"""


def add_parser(parts: Any) -> None:
    """Declare the three commands."""
    lister = add_command(
        parts,
        "list",
        help="what there is, newest first",
        description="The items of a namespace, a line each, in the order they were added.",
        epilog=_LIST_EXAMPLES,
        run=run_list,
    )
    lister.add_argument(
        "--limit", type=whole, default=20, metavar="N", help="lines a page (default: 20)"
    )
    lister.add_argument("--page", type=whole, default=1, metavar="P", help="from 1 up")
    lister.add_argument("--oldest-first", action="store_true", help="default: newest first")
    add_filters(lister)
    _add_common(lister, "the items as JSON")

    shower = add_command(
        parts,
        "show",
        help="the whole text of an item",
        description="The whole text of an item, by its handle.",
        epilog=_SHOW_EXAMPLES,
        run=run_show,
    )
    shower.add_argument("handle", metavar="HANDLE", help="as search, list and add print it")
    _add_common(shower, "text, provenance, links and all as JSON")

    figures = add_command(
        parts,
        "stats",
        help="how much there is",
        description="Figures of a namespace, and how full it is.",
        run=run_stats,
    )
    _add_common(figures, "the figures as JSON")


def run_list(options: argparse.Namespace) -> int:
    """Print one page."""
    namespace = namespace_of(options)
    start = (options.page - 1) * options.limit
    with opened(options, namespace=namespace) as memory:
        # One more than is shown tells whether there is another page.
        found = memory.list(
            limit=start + options.limit + 1,
            newest_first=not options.oldest_first,
            **filters_of(options),
        )
    items, more = found[start : start + options.limit], len(found) > start + options.limit
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        shown = {"items": [as_dict(item) for item in items], "page": options.page, "more": more}
        show([as_json(shown, indent=2)], terminal._replace(encoding="utf-8"))
        return 0
    if items:
        show(_table(items, terminal), terminal)
    elif found:
        say(f"page {options.page} is beyond the last; there {_are_items(len(found))}")
    elif described(options):
        say(f"nothing in namespace {namespace!r} passes the filters")
    else:
        say(_empty_message(namespace))
    if more and sys.stderr.isatty():
        say(f"there is more: --page {options.page + 1}")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print one item."""
    with opened(options, namespace=namespace_of(options)) as memory:
        item = memory.get(options.handle)
    if options.json:
        write(as_json(as_dict(item), indent=2) + "\n")
    elif sys.stdout is not None and sys.stdout.isatty():
        terminal = Terminal.of(sys.stdout, options.color)
        # Line by line: text before a line, as the indents of code, must stay.
        show([_safe_line(line, terminal) for line in item.text.splitlines()], terminal)
    else:
        write(_encodable(item.text))
    return 0


def run_stats(options: argparse.Namespace) -> int:
    """Print the figures."""
    namespace = namespace_of(options)
    with opened(options, namespace=namespace) as memory:
        stats = memory.stats()
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        show([as_json(dataclasses.asdict(stats), indent=2)], terminal)
    else:
        show(_figures(stats, terminal), terminal)
        if not stats.items:
            say(_empty_message(namespace))
    return 0


def _table(items: Sequence[MemoryItem], terminal: Terminal) -> Iterator[str]:
    rows = [
        (
            item.handle,
            day(item),
            item.tier,
            terminal.fit(item.kind, KIND_CELLS),
            terminal.fit_end(item.source, SOURCE_CELLS),
        )
        for item in items
    ]
    header, *filled = aligned([("handle", "said on", "tier", "kind", "source"), *rows])
    widths = list(map(display_width, header))
    # In a narrow terminal, columns that --json has too are dropped first: kind, day, source.
    columns = [0, 1, 2, 3, 4]
    for least in (3, 1, 4):
        if sum(widths[at] + 2 for at in columns) + MIN_PREVIEW_CELLS <= terminal.width:
            break
        columns.remove(least)
    left = terminal.width - sum(widths[at] + 2 for at in columns)

    def line(row: Sequence[str], preview: str) -> str:
        return GAP.join([*[row[at] for at in columns], preview]).rstrip()

    yield terminal.paint(line(header, "text"), "dim")
    for item, row in zip(items, filled, strict=True):
        preview = terminal.fit(item.text[: 8 * terminal.width], max(left, MIN_PREVIEW_CELLS))
        plain = line(row, preview)
        yield terminal.paint(item.handle, "cyan") + plain[len(item.handle) :]


def _figures(stats: MemoryStats, terminal: Terminal) -> Iterator[str]:
    limits = stats.limits
    pending = f"{plural(stats.pending, 'item')} not in it yet, found anyway"
    rows = [
        ("items", f"{stats.items:,}", _share_of_limit(stats.items, limits.max_items)),
        ("  hot", f"{stats.hot:,}", "in every turn"),
        ("  warm", f"{stats.warm:,}", "loaded by name"),
        ("  cold", f"{stats.cold:,}", "only searched for"),
        ("links", f"{stats.links:,}", ""),
        ("held", _bytes(stats.held_bytes), _share_of_limit(stats.held_bytes, limits.max_bytes)),
        ("index", _bytes(stats.index_bytes), pending if stats.pending else ""),
        ("file", _bytes(stats.store_bytes), "of all namespaces"),
        ("made cold", f"{stats.demoted:,}", "by the limits"),
        ("dropped", f"{stats.dropped:,}", "by the limits"),
    ]  # fmt: skip
    if stats.vector_space:
        rows.insert(5, ("vectors", f"{stats.vectors:,}", f"of {terminal.safe(stats.vector_space)}"))
    yield terminal.paint(f"namespace {terminal.safe(stats.namespace)}", "bold")
    figures = table([row[:2] for row in rows], "<>")
    for figure, (_, _, remark) in zip(figures, rows, strict=True):
        yield f"{figure}  {terminal.paint(remark, 'dim')}".rstrip()


def _share_of_limit(value: int, limit: int | None) -> str:
    if limit is None:
        return ""
    share = value / limit
    few = 0 < share < 0.001
    return "under 0.1% of the limit" if few else f"{share:.1%} of the limit"


def _empty_message(namespace: str) -> str:
    return f"namespace {namespace!r} holds nothing yet; next: rehydrate memory add --help"


def _are_items(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {plural(count, 'item')}"


def _bytes(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    for unit in ("kB", "MB", "GB"):
        count_ = count / {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
        if count_ < 1_000 or unit == "GB":
            break
    return f"{count_:.1f} {unit}"


def _safe_line(line: str, terminal: Terminal) -> str:
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    parts = line[len(indent) :].split(" ")
    return indent + " ".join([terminal.safe(part) for part in parts])


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Failure(
            f"the text holds half a surrogate pair at character {error.start}, which UTF-8 cannot "
            "say; --json escapes it"
        ) from None
    return text


def _add_common(parser: argparse.ArgumentParser, json_help: str) -> None:
    add_store_options(parser)
    add_output_options(parser, json_help)
