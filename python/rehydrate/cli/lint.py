"""`rehydrate lint`: reports wasted tokens in a session or a prompt."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._document import Document, document_of
from rehydrate._text import as_json, plural
from rehydrate.cli.options import (
    add_color_option,
    add_command,
    add_format_option,
    some_tokens,
    text_of,
)
from rehydrate.cli.terminal import Failure, Terminal, pad, show, write
from rehydrate.errors import InvalidMessageError

if TYPE_CHECKING:
    from rehydrate.linting.subject import Finding, Subject
    from rehydrate.prompt.request import Budget


FOUND = 1
SHOWN_PLACES = 5
PLACE_CELLS = 16
TOKEN_CELLS = 10
NARROWEST_MESSAGE = 24

_STYLES = {"error": "red", "warning": "yellow", "info": "blue"}
_HISTORY = re.compile(r"history\[(\d+)\]")

_EXAMPLES = """\
FILE is a conversation, as for `rehydrate compact`, the body of a request with its tools and system
prompt, the bodies of a session's requests, one a line, or a PromptIR or compiled prompt as JSON.

Exit code: 0 without findings of the --fail-on severity or a graver one, else 1.

rules:
{rules}

examples:
  rehydrate lint session.jsonl
  rehydrate lint request.json --model claude-sonnet-4-5 --fail-on error
  rehydrate lint session.jsonl --rule echo --rule raw_log --all
  rehydrate lint session.jsonl --json | jq '.findings[] | select(.tokens > 1000)'
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "lint",
        help="find what a session spends tokens on to no use",
        description="Raw logs, echoes, heavy tool schemas, whole files, what breaks the cache, "
        "growth: what each costs and what to do about it. Nothing is changed.",
        epilog=_EXAMPLES.format(rules=_rules_text()),
        run=run,
    )
    parser.add_argument("file", metavar="FILE", help="the session or prompt; - reads stdin")
    parser.add_argument(
        "--fail-on", choices=("info", "warning", "error", "never"), default="warning",
        help="findings this grave make the exit code 1 (default: warning)",
    )  # fmt: skip
    parser.add_argument(
        "--rule", action="append", default=[], metavar="NAME", choices=_RULES,
        help="only this rule; repeatable (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--soft", type=some_tokens, metavar="N", help="soft budget in tokens (default: 50k)"
    )
    parser.add_argument(
        "--hard", type=some_tokens, metavar="N", help="hard budget in tokens (default: 180k)"
    )
    parser.add_argument(
        "--model", default="", help="whose cache it is for: says which prefixes are too short"
    )
    add_format_option(parser)
    parser.add_argument("--all", action="store_true", help="every place, not the worst of a rule")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    add_color_option(parser)


# Listed here and not read from the linter: declaring a command must not load it. A test compares.
_RULES = {
    "base64": "binary data as text",
    "echo": "content that stands earlier already",
    "raw_log": "logs in full",
    "search_dump": "searches that return whole files",
    "unused_result": "tool results never used again",
    "whole_file": "long files in full",
    "heavy_tools": "heavy tool schemas",
    "thinking": "thinking of turns that are over",
    "growth": "tokens a turn, and when the budget is crossed",
    "growing_system": "a system prompt that grows",
    "unstable_prefix": "dates, times and ids that break the cache",
    "breakpoints": "cache marks too many, too early or missing",
}


class _Source(NamedTuple):
    """The linted input, and how to find its places in the file."""

    name: str
    target: Any
    document: Document | None = None

    def line(self, place: str) -> int | None:
        """Return the line number of a place, where the file has one entry a line."""
        found = _HISTORY.fullmatch(place)
        if not found or self.document is None or self.document.frame is not None:
            return None
        return self.document.line_of(int(found[1]))

    def words(self, text: str) -> str:
        """Return a message with line numbers in place of places, where they are known."""

        def words(found: re.Match[str]) -> str:
            line = self.line(found[0])
            return f"line {line:,}" if line else found[0]

        return _HISTORY.sub(words, text)


def run(options: argparse.Namespace) -> int:
    """Read, lint and print; return the exit code."""
    from rehydrate.linting.linter import lint_subject
    from rehydrate.linting.subject import Subject

    source = _source(*text_of(options.file))
    try:
        subject = Subject.of(
            source.target, format=options.format, model=options.model, budget=_budget(options)
        )
    except InvalidMessageError as error:
        if error.index is None or source.document is None:
            raise
        line = source.document.line_of(error.index)
        raise Failure(f"line {line} of {source.name}: {error}") from None
    if not (subject.texts or subject.static or subject.tools or subject.media_tokens):
        raise Failure(f"{source.name} holds no conversation: no message that says anything")
    findings = lint_subject(subject, options.rule or None)
    if options.json:
        write(_as_json(source, subject, findings))
    else:
        terminal = Terminal.of(sys.stdout, options.color)
        show(_lines(source, subject, findings, terminal, every=options.all), terminal)
    failed = options.fail_on != "never" and any(
        finding.is_at_least(options.fail_on) for finding in findings
    )
    return FOUND if failed else 0


def _source(name: str, text: str) -> _Source:
    """Read a PromptIR, a compiled prompt, the body of a request, or messages."""
    if text.lstrip()[:1] == "{" and '"rehydrate"' in text:
        try:
            value = json.loads(text)
        except ValueError:  # lines, or no JSON: its reader reports it
            value = None
        if isinstance(value, dict) and value.get("rehydrate") in ("prompt_ir", "compiled_prompt"):
            return _Source(name, _prompt(value))
    requests = _requests(text)
    if requests:
        return _Source(name, requests)
    document = document_of(name, text)
    if {"system", "instructions", "tools", "model"} & {*document.around}:
        return _Source(name, json.loads(text), document)
    return _Source(name, document.entries, document)


def _requests(text: str) -> list[Any]:
    """Return the bodies of a session's requests, one a line; none if any line is something else."""
    from rehydrate.linting.subject import is_request

    lines = [line for line in text.splitlines() if line.strip()]
    bodies: list[Any] = []
    for line in lines if len(lines) > 1 else ():
        try:
            bodies.append(json.loads(line))
        except (ValueError, RecursionError):  # the reader of documents reports it
            return []
        if not is_request(bodies[-1]):
            return []
    return bodies


def _prompt(value: dict[str, Any]) -> Any:
    from rehydrate.prompt.ir import CompiledPrompt, PromptIR, Segment

    ir = PromptIR.from_dict(value)
    if value["rehydrate"] == "prompt_ir":
        return ir
    try:
        segments = tuple([Segment(**segment) for segment in value["segments"]])
        return CompiledPrompt(
            value["provider"], value["request"], ir, segments, value.get("model", "")
        )
    except (KeyError, TypeError) as error:
        raise Failure(
            f"the compiled prompt is not whole ({error}); pass CompiledPrompt.to_json()"
        ) from None


def _budget(options: argparse.Namespace) -> Budget | None:
    from rehydrate.prompt.request import Budget

    if options.soft is None and options.hard is None:
        return None
    standard = Budget()
    soft = options.soft or min(standard.soft_tokens, options.hard)
    return Budget(soft, options.hard or max(standard.hard_tokens, soft))


def _as_json(source: _Source, subject: Subject, findings: Sequence[Finding]) -> str:
    shown = [
        {**finding._asdict(), **({"line": line} if (line := source.line(finding.place)) else {})}
        for finding in findings
    ]
    tokens = {"tokens": subject.whole_tokens, "current_tokens": subject.tokens}
    return as_json({**tokens, "findings": shown}, indent=2) + "\n"


# The table


def _lines(
    source: _Source,
    subject: Subject,
    findings: Sequence[Finding],
    terminal: Terminal,
    *,
    every: bool,
) -> Iterator[str]:
    figures = f": {subject.whole_tokens:,} tokens, {plural(subject.steps, 'request')}; "
    figures += plural(len(findings), "finding") if findings else "nothing found"
    name = terminal.fit_end(source.name, max(terminal.width - len(figures), PLACE_CELLS))
    yield f"{name}{figures}"
    if subject.tokens_before:
        yield (
            f"{subject.tokens_before:,} of them are before the last compaction, {subject.tokens:,} "
            "in the current prompt"
        )
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:  # gravest first, and so are the rules
        by_rule.setdefault(finding.rule, []).append(finding)
    for rule, found in by_rule.items():
        yield ""
        yield from _rule_lines(rule, found, source, terminal, every=every)


def _rule_lines(
    rule: str, found: Sequence[Finding], source: _Source, terminal: Terminal, *, every: bool
) -> Iterator[str]:
    severity = found[0].severity
    tokens = sum(finding.tokens for finding in found)
    places = [plural(len(found), "place")] if len(found) > 1 else []
    figures = ", ".join([*places, f"{tokens:,} tokens"] if tokens else places)
    rest = f": {_RULES[rule]}" + (f"  {figures}" if figures else "")
    yield (
        terminal.paint(pad(severity, 8), _STYLES[severity])
        + terminal.paint(rule, "bold")
        + terminal.fit(rest, terminal.width - 8 - len(rule))
    )
    shown = found if every else found[:SHOWN_PLACES]
    room = max(terminal.width - 2 - PLACE_CELLS - TOKEN_CELLS - 4, NARROWEST_MESSAGE)
    for finding in shown:
        line = source.line(finding.place)
        place = f"line {line:,}" if line else finding.place or "all of it"
        cost = f"{finding.tokens:,}" if finding.tokens else ""
        yield (
            f"  {pad(terminal.fit(place, PLACE_CELLS), PLACE_CELLS)}{pad(cost, TOKEN_CELLS, '>')}  "
            f"{terminal.fit(source.words(finding.message), room)}"
        )
    if len(found) > len(shown):
        left = sum(finding.tokens for finding in found[len(shown) :])
        yield f"  {len(found) - len(shown):,} more, {left:,} tokens (--all)"
    arrow = terminal.glyph("→", "->")
    for remedy in dict.fromkeys(_general_remedy(finding.remedy) for finding in shown):
        yield f"  {arrow} {terminal.fit(remedy, max(terminal.width - 4, NARROWEST_MESSAGE))}"


def _general_remedy(remedy: str) -> str:
    """Return the remedy of a rule without the place of a single finding."""
    return re.sub(r"a reference to \S+", "a reference", remedy)


def _rules_text() -> str:
    return "\n".join(f"  {pad(name, 17)}{about}" for name, about in _RULES.items())
