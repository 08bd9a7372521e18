"""`rehydrate memory search`: finds items by a query, best first."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rehydrate._text import as_json
from rehydrate.cli.memory_store import (
    add_filters,
    add_store_options,
    as_dict,
    checked_text,
    day,
    described,
    filters_of,
    namespace_of,
    opened,
    read_text,
)
from rehydrate.cli.options import add_command, add_output_options, whole
from rehydrate.cli.terminal import Failure, Terminal, say, show
from rehydrate.memory.items import FUSIONS

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit


SHOWN_LINES = 6
"""Lines shown of a snippet; --full shows all of it."""
WIDEST = 100
"""Maximum line width: longer lines are hard to read, however wide the terminal."""

# Words of a question that say nothing about its subject.
_PLAIN = {
    *("a", "an", "and", "are", "at", "by", "can", "did", "do", "does", "for", "from", "had", "has"),
    *("have", "how", "i", "in", "is", "it", "its", "many", "me", "much", "my", "of", "on", "or"),
    *("our", "should", "that", "the", "their", "there", "they", "this", "to", "was", "we", "were"),
    *("what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your"),
}
_WORD = re.compile(r"\w+")
# What begins a line of its own in Markdown: headings, lists, quotes, tables, code.
_OWN_LINE = re.compile(r"[ \t]*([-*+>|#`~]|\d+[.)]\s)|\t|    ")

_EXAMPLES = """\
A hit shows its score (comparable within one search), where it is from, the day it was said, its
tier and kind, the passage that matches, and the handle under which show prints the whole.

examples:
  rehydrate memory search "which port is staging on?"
  rehydrate memory search refund --tier warm --kind decision
  rehydrate memory search "slow website" --after 2w --limit 3
  rehydrate memory search "card reader" --json | jq -r '.hits[].item.source'
  rehydrate memory search -- --budget          a query that begins with a dash
"""


def add_parser(parts: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        parts,
        "search",
        help="find what is known about something",
        description="Find items by their words, by parts of words and by meaning, best first.",
        epilog=_EXAMPLES,
        run=run,
    )
    parser.add_argument(
        "query", metavar="QUERY", nargs="+", help="words or a question; - reads standard input"
    )
    parser.add_argument(
        "--limit", type=whole, default=5, metavar="N", help="so many hits (default: 5)"
    )
    parser.add_argument("--full", action="store_true", help="whole passages, however long")
    parser.add_argument(
        "--fusion", choices=FUSIONS,
        help="how words, parts of words and meaning become one score; default: the one measured "
        "best",
    )  # fmt: skip
    add_filters(parser)
    add_store_options(parser)
    parser.add_argument(
        "--embedder", metavar="MODEL", help="the ONNX model that the memory was made with"
    )
    add_output_options(parser, "the hits as JSON, items and all")


def run(options: argparse.Namespace) -> int:
    """Search and print; finding nothing is not an error."""
    namespace = namespace_of(options)
    words = [read_text().strip() if word == "-" else word for word in options.query]
    query = checked_text("the query", " ".join(words)).strip()
    if not query:
        raise Failure("the query is empty; pass a word or a question")
    with opened(options, namespace=namespace) as memory:
        hits = memory.search(query, options.limit, fusion=options.fusion, **filters_of(options))
        held = 1 if hits else memory.stats().items
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        shown = {"query": query, "hits": [_as_dict(hit) for hit in hits]}
        show([as_json(shown, indent=2)], terminal._replace(encoding="utf-8"))
    elif hits:
        show(_lines(hits, query, terminal, whole=options.full), terminal)
    elif not held:
        say(f"namespace {namespace!r} holds nothing yet; next: rehydrate memory add --help")
    else:
        remedy = "; with fewer filters there may be more" if described(options) else ""
        say(f"nothing in namespace {namespace!r} matches{remedy}")
    return 0


def _as_dict(hit: Hit) -> dict[str, Any]:
    return {
        "handle": hit.handle,
        "score": hit.score,
        "text": hit.text,
        "trigram": hit.trigram,
        "cosine": hit.cosine,
        "snippet": hit.snippet,
        "item": as_dict(hit.item),
    }


def _lines(hits: list[Hit], query: str, terminal: Terminal, *, whole: bool) -> Iterator[str]:
    mark = _pattern(query)
    indent = " " * 3
    width = max(20, min(terminal.width, WIDEST) - len(indent))
    for place, hit in enumerate(hits, 1):
        if place > 1:
            yield ""
        item = hit.item
        about = f"{day(item)}  {item.tier}  {terminal.fit(item.kind, 16)}"
        score = f"{hit.score:.2f}"
        source_cells = max(12, terminal.width - len(about) - len(score) - 9)
        source = terminal.fit_end(item.source or "(no source)", source_cells)
        yield (
            f"{place:<3}{terminal.paint(score, 'green')}  {terminal.paint(source, 'bold')}  "
            f"{terminal.paint(about, 'dim')}"
        )
        for line in _passage(hit.snippet, mark, width, terminal, whole=whole):
            yield f"{indent}{_marked(line, mark, terminal)}"
        yield f"{indent}{terminal.paint(hit.handle, 'cyan')}"


def _passage(
    snippet: str, mark: re.Pattern[str] | None, width: int, terminal: Terminal, *, whole: bool
) -> list[str]:
    """Return the lines of a snippet, or a few lines around the match."""
    lines = [
        wrapped
        for paragraph in _paragraphs(snippet, width)
        for wrapped in textwrap.wrap(terminal.safe(paragraph), width, break_on_hyphens=False)
    ]
    if whole or len(lines) <= SHOWN_LINES:
        return lines
    counts = [len({*map(str.lower, mark.findall(line))}) if mark else 0 for line in lines]
    starts = range(len(lines) - SHOWN_LINES + 1)
    start = max(starts, key=lambda at: (sum(counts[at : at + SHOWN_LINES]), -at))
    shown = lines[start : start + SHOWN_LINES]
    if start + SHOWN_LINES < len(lines):
        shown.append(terminal.glyph("…", "..."))
    return [terminal.glyph("…", "..."), *shown] if start else shown


def _paragraphs(snippet: str, width: int) -> Iterator[str]:
    """Yield its lines; if some are too long for the terminal, each paragraph as one line."""
    for block in re.split(r"\n[ \t]*\n", snippet.replace("\r\n", "\n")):
        lines = [line for line in block.split("\n") if line.strip()]
        if all(len(line) <= width for line in lines):
            yield from lines
            continue
        joined = ""
        for line in lines:
            if joined and _OWN_LINE.match(line):
                yield joined
                joined = ""
            joined = f"{joined} {line}" if joined else line
            if line.startswith("#"):
                yield joined
                joined = ""
        if joined:
            yield joined


def _pattern(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the query's words, at the start of any word, in any case."""
    words = {word.lower() for word in _WORD.findall(query)}
    content_words = {word for word in words if word not in _PLAIN} or words
    if not content_words:  # only signs, as in "->"
        return re.compile(re.escape(query))
    longest = sorted(content_words, key=len, reverse=True)
    choices = [
        # Hebrew puts its prepositions before a word and Chinese has no gaps: anywhere there.
        rf"\b{re.escape(word)}\w*" if word.isascii() and len(word) > 2 else
        rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word)
        for word in longest
    ]  # fmt: skip
    return re.compile("|".join(choices), re.IGNORECASE)


def _marked(line: str, mark: re.Pattern[str] | None, terminal: Terminal) -> str:
    if mark is None or not terminal.colour:
        return line
    return mark.sub(lambda found: terminal.paint(found[0], "yellow", "bold"), line)
