"""`rehydrate compact`: writes fewer messages in their own shape, or the reason for each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rehydrate._native import Document
from rehydrate._text import as_json
from rehydrate.cli.memory_store import ARCHIVE, ARCHIVED, MEMORY, opened_memory
from rehydrate.cli.options import (
    COLOR,
    JUDGING,
    SHAPE,
    SIZE,
    Commands,
    check_not_input,
    compact_options,
    group,
    naming_lines,
    option,
    page_file,
    read,
    whole,
)
from rehydrate.cli.terminal import INTERNAL, Failure, Terminal, is_terminal, say, show, write
from rehydrate.compact.archive import Archive
from rehydrate.compact.result import Compaction

SHOWN_VIOLATIONS = 3


command = Commands()


@command(
    "make a conversation fit a token budget, byte for byte",
    option("FILE", "the conversation; - reads standard input"),
    group(
        "what to keep",
        *SIZE,
        option("--pin N", "always keep message N; -1 is the last", int, [], action="append"),
        *SHAPE,
    ),
    group("how to judge", *JUDGING),
    group("what is remembered", *MEMORY, ARCHIVE),
    group(
        "what to write",
        option("--explain", "a report instead: every unit, its score, kept or dropped and why"),
        option("--top N", "with --explain: only N units, kept and dropped ones", whole),
        option("--html PAGE", "a report instead, as one page: before and after", page_file),
        option("--json", "one object: messages, stats, dropped; with --explain, explanation"),
        option("-o --output FILE", "write the messages there, with --explain and --html too"),
        COLOR,
    ),
    epilog="""\
FILE is a JSON array of messages, JSON Lines, a Claude Code transcript (they are in
~/.claude/projects), a rollout of Codex (in ~/.codex/sessions), or a JSON object with a "messages",
"input", "output" or "history" list, such as the body of an API request or of a response, or a .traj
file of SWE-agent's. What is written has the same shape; kept messages are the same byte for byte.

Always kept: system messages, the user's last turn, a tool loop that still goes on, and what --pin
names. A tool call and its results are kept or dropped together, so the provider accepts the result.

examples:
  rehydrate compact chat.json --explain                  what would go, and why
  rehydrate compact session.jsonl --budget 20k --query "the failing login test" > small.jsonl
  rehydrate compact session.jsonl --granularity excerpt --ratio 0.1 -o small.jsonl
  rehydrate compact session.jsonl --memory memory.db --namespace alice --archive dropped,novel
""",
)
def _compact(options: argparse.Namespace) -> None:
    output = None if options.output in (None, "-") else Path(options.output)
    for flag, page in (("-o", output), ("--html", options.html)):
        check_not_input(flag, page, options.file)
    if output and options.html and output.absolute() == options.html.absolute():
        raise Failure(f"-o and --html both name {output}; name two files")
    if options.html:
        import_module("rehydrate.page")  # missed before anything is written
    document = read(options.file)
    compaction = _compaction(document, options)
    kept = compaction.indices
    _check(document, compaction, kept)

    if options.json:
        result = compaction.to_dict()
        result["dropped"] = [dropped._asdict() for dropped in compaction.dropped]
        if options.explain:
            result["explanation"] = compaction.explain().to_dict()
        write(as_json(result, indent=2) + "\n", output)
    elif output is not None or not (options.explain or options.html):
        # Entries kept in part, and the outline; all others are the same objects as read.
        pairs = zip(kept, compaction.messages, strict=True)
        changed = {at: entry for at, entry in pairs if entry is not document.entries[at]}
        write(document.keep(kept, changed), output)
    is_shown = options.explain and not (options.json and output is None)
    if is_shown:
        from rehydrate.cli.compact_report import Report

        terminal = Terminal.of(sys.stdout, options.color)
        has_query = bool(options.query and options.query.strip())
        report = Report(_title(document), compaction, has_query, terminal, options.top)
        show(report.lines(), terminal)
    elif is_terminal(sys.stderr):
        from rehydrate.cli.compact_report import figures_of

        say(f"{figures_of(compaction, Terminal.of(sys.stderr))}; --explain says why")
    if (is_shown or is_terminal(sys.stderr)) and (before := _tokens_before(document, compaction)):
        say(before)
    if options.html:
        _write_page(document, compaction, options)


def _compaction(document: Document, options: argparse.Namespace) -> Compaction[Any]:
    from rehydrate.compact.api import compact_context

    named = options.archive or ()
    fields: dict[str, Any] = {name: name in named for name in ARCHIVED}
    archive = Archive(**fields) if named else False
    with naming_lines(document), opened_memory(options) as memory:
        return compact_context(
            document.entries,
            memory=memory,
            pin=options.pin,
            archive=archive,
            **compact_options(options),
        )


def _check(document: Document, compaction: Compaction[Any], kept: Sequence[int]) -> None:
    """Refuse to write what a provider would refuse; if the input was no better, warn only."""
    from rehydrate.formats import validate

    form = compaction.stats.format
    before = validate(document.entries, form)
    if before:
        places = "one place" if len(before) == 1 else f"{len(before)} places"
        say(f"warning: {document.name} breaks the provider's rules in {places}; compacted as it is")
        for one in before[:SHOWN_VIOLATIONS]:
            line = document.line_of(one.index)
            say(f"  line {line}, message {one.index}: {one.message} ({one.rule})")
        if len(before) > SHOWN_VIOLATIONS:
            say(f"  and {len(before) - SHOWN_VIOLATIONS} more")
    if not compaction.stats.changed:
        return
    already_broken = {violation.rule for violation in before}
    fresh = [
        f"line {document.line_of(kept[violation.index])} of {document.name}: "
        f"{violation.message} ({violation.rule})"
        for violation in validate(compaction.messages, form)
        if violation.rule not in already_broken
    ]
    if fresh and before:
        # Only a valid conversation is guaranteed to stay valid.
        say(f"warning: the result breaks another rule: {fresh[0]}")
    elif fresh:
        raise Failure(
            f"internal error: the result would be refused, {fresh[0]}; "
            "nothing was written, please report this",
            INTERNAL,
        )


def _write_page(
    document: Document, compaction: Compaction[Any], options: argparse.Namespace
) -> None:
    side_by_side = import_module("rehydrate.page").side_by_side  # of another distribution
    page = side_by_side(document.entries, compaction, query=options.query, title=_title(document))
    stats = compaction.stats
    what = (
        f"{document.name} before and after, {stats.before_tokens:,} -> {stats.after_tokens:,} "
        f"tokens, {stats.dropped:,} of {len(document.entries) - stats.ignored:,} messages dropped"
    )
    write(page, options.html, "--html", what)


def _title(document: Document) -> str:
    if not document.around:
        return document.name
    return f"{document.name} (left as it is, not counted: {', '.join(document.around)})"


def _tokens_before(document: Document, compaction: Compaction[Any]) -> str:
    """Return a sentence on what is before a transcript's last compaction; "" without one."""
    from rehydrate import formats

    read = formats.parse(document.entries, compaction.stats.format)
    compacted = formats.last_compaction(read, document.entries)
    if compacted is None:
        return ""
    units = compaction.explain().units
    before = sum(unit.tokens for unit in units if unit.messages and unit.messages[-1] < compacted)
    line = document.line_of(compacted)
    return f"{before:,} of the tokens are before the last compaction (line {line:,})"
