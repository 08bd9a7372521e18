"""`rehydrate compact`: writes fewer messages in their own shape, or the reason for each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rehydrate._document import Document
from rehydrate._text import as_json
from rehydrate.cli.memory_store import add_memory_options, add_writing_options, opened_memory
from rehydrate.cli.options import (
    add_color_option,
    add_command,
    add_judging_options,
    add_shape_options,
    add_size_options,
    compact_options,
    is_same_file,
    page_file,
    read,
    whole,
)
from rehydrate.cli.terminal import INTERNAL, Failure, Terminal, say, say_written, show, write
from rehydrate.compact.archive import Archive
from rehydrate.compact.result import Compaction, Stats
from rehydrate.errors import InvalidMessageError, Violation

SHOWN_VIOLATIONS = 3

_EXAMPLES = """\
FILE is a JSON array of messages, JSON Lines, a Claude Code transcript (they are in
~/.claude/projects), a rollout of Codex (in ~/.codex/sessions), or a JSON object with a "messages",
"input", "output" or "history" list, such as the body of an API request or of a response, or a .traj
file of SWE-agent's.
What is written has the same shape; every kept message is written byte for byte as it was read.
With --granularity excerpt long texts are kept in part: what is left out of one is marked there.
With --outline one message more lists the names in what is left out.

Always kept: system messages, the user's last turn, a tool loop that still goes on, and what --pin
names. A tool call and its results are kept or dropped together, so the provider accepts the result.

examples:
  rehydrate compact chat.json --explain                  what would go, and why
  rehydrate compact chat.json --ratio 0.3 -o small.json  keep about 30% of the tokens
  rehydrate compact session.jsonl --budget 20k --query "the failing login test" > small.jsonl
  rehydrate compact session.jsonl --granularity excerpt --ratio 0.1 -o small.jsonl
  rehydrate compact session.jsonl --granularity excerpt --html page.html
  rehydrate compact session.jsonl --memory memory.db --namespace alice --archive dropped,novel
  curl -s $URL | rehydrate compact - --json | jq .stats
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "compact",
        help="make a conversation fit a token budget",
        description="Keep the messages that matter within a token budget, byte for byte.",
        epilog=_EXAMPLES,
        run=run,
    )
    parser.add_argument("file", metavar="FILE", help="the conversation; - reads standard input")

    what = parser.add_argument_group("what to keep")
    add_size_options(what)
    what.add_argument(
        "--pin", type=int, action="append", default=[], metavar="N",
        help="always keep message N, counted from 0, from the end if negative; repeatable",
    )  # fmt: skip
    add_shape_options(what)

    how = parser.add_argument_group("how to judge")
    add_judging_options(how)

    memory = parser.add_argument_group("what is remembered")
    add_memory_options(memory)
    add_writing_options(memory)

    out = parser.add_argument_group("what to write")
    out.add_argument(
        "--explain", action="store_true",
        help="a report instead: every unit, its score and signals, kept or dropped and why",
    )  # fmt: skip
    out.add_argument(
        "--top", metavar="N", type=whole,
        help="with --explain: only N units, the most valuable kept and the largest dropped ones",
    )  # fmt: skip
    out.add_argument(
        "--html", metavar="PAGE", type=page_file,
        help="a report instead, as one page: the session before and after, side by side",
    )  # fmt: skip
    out.add_argument(
        "--json", action="store_true",
        help="one object: messages, stats, dropped; with --explain also explanation",
    )  # fmt: skip
    out.add_argument(
        "-o", "--output", metavar="FILE",
        help="write the messages there; without it, --explain and --html write none",
    )  # fmt: skip
    add_color_option(
        out, "colours of the report (default: in a terminal; NO_COLOR and FORCE_COLOR count)"
    )


def run(options: argparse.Namespace) -> int:
    """Read, compact, check and write; return the exit code."""
    output = None if options.output in (None, "-") else Path(options.output)
    _check_files(options, output)
    document = read(options.file)
    compaction = _compact(document, options)
    kept = compaction.indices
    _check(document, compaction, kept)

    if options.json:
        write(_as_json(compaction, explain=options.explain), output)
    elif output is not None or not (options.explain or options.html):
        write(document.keep(kept, _changed_entries(document, compaction)), output)
    if options.explain and not (options.json and output is None):
        _print_report(document, compaction, options)
    elif sys.stderr.isatty():
        _print_summary(compaction)
        if before := _tokens_before(document, compaction):
            say(before)
    if options.html:
        _write_page(document, compaction, options)
    return 0


def _compact(document: Document, options: argparse.Namespace) -> Compaction:
    from rehydrate.compact.api import compact_context

    try:
        with opened_memory(options) as memory:
            return compact_context(
                document.entries,
                memory=memory,
                pin=options.pin,
                archive=_archive(options),
                **compact_options(options),
            )
    except InvalidMessageError as error:
        if error.index is None:
            raise
        raise Failure(f"line {document.line_of(error.index)} of {document.name}: {error}") from None


def _archive(options: argparse.Namespace) -> bool | Archive:
    """Return what --archive asks to write to the memory."""
    names = options.archive
    if not names:
        return False
    return Archive(dropped="dropped" in names, novel="novel" in names, episode="episode" in names)


def _changed_entries(document: Document, compaction: Compaction) -> dict[int, Any]:
    """Return the entries kept in part, and the outline; all others are the same objects as read."""
    pairs = zip(compaction.indices, compaction.messages, strict=True)
    return {index: entry for index, entry in pairs if entry is not document.entries[index]}


def _check(document: Document, compaction: Compaction, kept: Sequence[int]) -> None:
    """Refuse to write what a provider would refuse; if the input was no better, warn only."""
    from rehydrate.formats import validate

    form = compaction.stats.format
    before = validate(document.entries, form)
    if before:
        _warn(document, before)
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


def _warn(document: Document, violations: Sequence[Violation]) -> None:
    count = len(violations)
    places = "one place" if count == 1 else f"{count} places"
    say(f"warning: {document.name} breaks the provider's rules in {places}; compacted as it is")
    for violation in violations[:SHOWN_VIOLATIONS]:
        line = document.line_of(violation.index)
        say(f"  line {line}, message {violation.index}: {violation.message} ({violation.rule})")
    if count > SHOWN_VIOLATIONS:
        say(f"  and {count - SHOWN_VIOLATIONS} more")


def _as_json(compaction: Compaction, *, explain: bool) -> str:
    result = compaction.to_dict()
    result["dropped"] = [dropped._asdict() for dropped in compaction.dropped]
    if explain:
        result["explanation"] = compaction.explain().to_dict()
    return as_json(result, indent=2) + "\n"


def _print_report(document: Document, compaction: Compaction, options: argparse.Namespace) -> None:
    from rehydrate.cli.compact_report import Report

    terminal = Terminal.of(sys.stdout, options.color)
    has_query = bool(options.query and options.query.strip())
    report = Report(_title(document), compaction, has_query, terminal, options.top)
    show(report.lines(), terminal)
    if before := _tokens_before(document, compaction):
        say(before)


def _write_page(document: Document, compaction: Compaction, options: argparse.Namespace) -> None:
    side_by_side = import_module("rehydrate.page").side_by_side  # of another distribution
    page = side_by_side(document.entries, compaction, query=options.query, title=_title(document))
    write(page, options.html, option="--html")
    stats = compaction.stats
    say_written(
        options.html,
        f"{document.name} before and after, {stats.before_tokens:,} -> {stats.after_tokens:,} "
        f"tokens, {stats.dropped:,} of {len(document.entries) - stats.ignored:,} messages dropped",
    )


def _title(document: Document) -> str:
    if not document.around:
        return document.name
    return f"{document.name} (left as it is, not counted: {', '.join(document.around)})"


def _tokens_before(document: Document, compaction: Compaction) -> str:
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


def _print_summary(compaction: Compaction) -> None:
    stats = compaction.stats
    say(
        f"{stats.before_tokens:,} -> {stats.after_tokens:,} tokens (-{stats.dropped_pct:.1f}%), "
        f"{stats.dropped:,} messages dropped, {stats.excerpted:,} excerpted, "
        f"{_thinking_summary(stats)}{_memory_summary(stats)}"
        f"{stats.elapsed_ms:.0f} ms; --explain says why"
    )


def _check_files(options: argparse.Namespace, output: Path | None) -> None:
    """Check that each file written differs from the input and from the others."""
    written = [("-o", output), ("--html", options.html)]
    for option, path in written:
        if path and options.file != "-" and is_same_file(path, Path(options.file)):
            raise Failure(f"{option} {path} would overwrite the input; name another file")
    if output and options.html and output.absolute() == options.html.absolute():
        raise Failure(f"-o and --html both name {output}; name two files")
    if options.html:
        import_module("rehydrate.page")  # missed before anything is written


def _thinking_summary(stats: Stats) -> str:
    return f"{stats.stripped_tokens:,} tokens of thinking left out, " if stats.stripped else ""


def _memory_summary(stats: Stats) -> str:
    covered = f"{stats.covered_pct:.0f}% of it in memory, " if stats.covered_pct else ""
    return covered + (f"{stats.distilled:,} distilled, " if stats.distilled else "")
