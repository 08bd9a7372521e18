"""Rules about tool results: search_dump and unused_result.

search_dump: searches that return whole files where a few lines of each would do. unused_result:
long tool results that nothing mentions afterwards.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from rehydrate.linting.subject import Finding, Subject, Text, token_count
from rehydrate.messages import PieceKind
from rehydrate.prompt.caps.results import Kind, kind_of

DUMP_TOKENS = 4_000
"""Minimum tokens of the whole files in one answer."""
WHOLE_TOKENS = 1_000
"""A hit of this size is not a snippet: Rehydrate's own snippets have 200."""
WHOLE_LINES = 300
"""Unbroken lines that count as a whole file, where nothing marks the ends of files."""

_SEARCH = re.compile(
    r"search|grep|(?:^|_)rg(?:$|_)|(?:^|_)find(?:$|_|[A-Z])|retriev|recall|(?:^|_)rag(?:$|_)"
    r"|look_?up|(?:^|_)query(?:$|_)",
    re.IGNORECASE,
)
# In a shell: files found by a search are printed, or all their lines match.
_PRINTS_FOUND = re.compile(
    r"\bxargs\b[^|]{0,500}\b(?:cat|bat)\b|-exec\s+(?:cat|bat)\b"
    r"|\b(?:cat|bat)\s+\$?[(`]\s*(?:grep|rg|ag|find|fd|git\s+grep)\b"
)
_GREPS = re.compile(r"(?:^|[\s\"|;&(])(?:grep|rg|ag|ack)\s")
_MATCH = re.compile(r"^(?:(?P<path>[^\s:][^:\n]{0,300}?)[:-])?(?P<line>\d{1,7})[:-]")
# The border of two hits: a rule, a heading, a file's name.
_BREAK = re.compile(
    r"^(?:-{2,}|={3,}|\*{3,}|~{3,})\s*$|^#{1,4} |^</?(?:file|document|doc|result|source|hit)\b"
    r"|^(?:=+>?|-{3,}|\*{3,}|#+) .{1,300} (?:<?=+|-{3,}|\*{3,}|#+)$"
    r"|^\W{0,4}(?:file|path|source|document|result|title|url)\b[^:\n]{0,12}:",
    re.IGNORECASE,
)


def search_dumps(subject: Subject) -> Iterator[Finding]:
    """Yield answers of searches with whole files: hits of a thousand tokens, or one unbroken
    text."""
    results = [text for text in subject.texts if text.kind is PieceKind.TOOL_RESULT]
    for (place, tool, asked), group in groupby(results, attrgetter("place", "tool", "asked")):
        texts = list(group)
        if sum(text.tokens for text in texts) < DUMP_TOKENS:
            continue
        whole = _whole_hits(tool, asked, texts)
        tokens = sum(whole)
        if tokens >= DUMP_TOKENS:
            files = "a whole file" if len(whole) == 1 else f"{len(whole)} whole files"
            yield Finding(
                "search_dump",
                "warning",
                place,
                tokens,
                f"the search {tool} answered with {files}, {tokens:,} tokens",
                "have it return the lines around each match and a way to load the whole",
            )


def _whole_hits(tool: str, tool_input: str, texts: Sequence[Text]) -> list[int]:
    """Return the tokens of each whole file in a search's answer."""
    if _SEARCH.search(tool):
        if len(texts) > 1:  # a text a hit
            return _of_size([text.tokens for text in texts])
        return _whole_in(texts[0])
    command = _command(tool_input)
    if _PRINTS_FOUND.search(command):
        return [tokens for text in texts for tokens in _whole_files_in(text)]
    if _GREPS.search(command):
        return [tokens for text in texts for tokens in _unbroken_matches(text.text.splitlines())]
    return []


def _whole_in(text: Text) -> list[int]:
    """Return the tokens of whole files in one text: JSON hits, matching lines, or files."""
    kind = kind_of(text.text, text.tool)
    if kind in (Kind.JSON, Kind.JSON_LINES):
        hits = [hit for value in _values(text.text, kind) for hit in _strings(value)]
        # A token has at least one character: a shorter text need not be counted.
        return _of_size([token_count(hit) for hit in hits if len(hit) >= WHOLE_TOKENS])
    unbroken = _unbroken_matches(text.text.splitlines())
    if unbroken or kind not in (Kind.CODE, Kind.TEXT) or _is_table(text.text.splitlines()):
        return unbroken  # matching lines, names, rows
    return _whole_files_in(text)


def _is_table(lines: Sequence[str]) -> bool:
    """Return whether nearly every line has as many tabs, two or more; numbered lines have one."""
    tabs, rows = Counter(line.count("\t") for line in lines).most_common(1)[0]
    return tabs >= 2 and rows > 0.9 * len(lines)


def _whole_files_in(text: Text) -> list[int]:
    """Return the whole files of a text that is one file after another."""
    lines = text.text.splitlines()
    breaks = [number for number, line in enumerate(lines) if _BREAK.match(line)]
    if not breaks:
        is_whole = len(lines) >= WHOLE_LINES or len(lines) <= text.tokens / 100  # code; prose
        return [text.tokens] if is_whole else []
    ends = [*breaks[1:], len(lines)]
    parts = zip([0, *breaks], [breaks[0], *ends], strict=True)
    return _of_size([token_count("\n".join(lines[start:end])) for start, end in parts])


def _unbroken_matches(lines: Sequence[str]) -> list[int]:
    """Return runs of consecutive numbered lines of one file, as a broad pattern gives them."""
    whole: list[int] = []
    run: list[str] = []
    before: tuple[Any, int] = (None, -1)
    for line in [*lines, ""]:
        found = _MATCH.match(line)
        here = (found["path"], int(found["line"])) if found else (None, -1)
        if found is None or here != (before[0], before[1] + 1):
            if len(run) >= WHOLE_LINES:
                whole.append(token_count("\n".join(run)))
            run = []
        if found:
            run.append(line)
        before = here
    return whole


def _of_size(counts: Sequence[int]) -> list[int]:
    return [count for count in counts if count >= WHOLE_TOKENS]


def _values(text: str, kind: Kind) -> Iterator[Any]:
    for part in text.splitlines() if kind is Kind.JSON_LINES else [text]:
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            yield part


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        # Consecutive lines are one text.
        if value and all(isinstance(inner, str) for inner in value):
            yield "\n".join(value)
        else:
            for inner in value:
                yield from _strings(inner)


def _command(tool_input: str) -> str:
    """Return the command that a shell was given; "" where the tool is none."""
    try:
        value = json.loads(tool_input)
    except ValueError:
        return ""
    if not isinstance(value, dict):
        return ""
    command = next((value[key] for key in ("command", "cmd", "commands") if key in value), "")
    return command if isinstance(command, str) else json.dumps(command)


RESULT_TOKENS = 1_000
LATER_STEPS = 8
"""Minimum number of later requests that do not mention it."""
NEW_TERMS = 12
"""Minimum number of new names in a result; with fewer nobody can tell whether it was used."""

_TERM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}|\d{3,}")


def unused_results(subject: Subject) -> Iterator[Finding]:
    """Yield results none of whose new names (identifiers, words, numbers) occurs later.

    In doubt it reports nothing: any word that is new in a result and occurs later, in whatever
    sense, counts as a use.
    """
    terms = [frozenset(_TERM.findall(text.text)) for text in subject.texts]
    last_seen: dict[str, int] = {}
    for index, text in enumerate(subject.texts):
        if text.kind is not PieceKind.TOOL_RESULT:
            last_seen.update(dict.fromkeys(terms[index], index))
    seen: set[str] = set()
    steps = subject.steps
    for index, text in enumerate(subject.texts):
        if (
            text.kind is PieceKind.TOOL_RESULT
            and text.tokens >= RESULT_TOKENS
            and steps - text.step >= LATER_STEPS
        ):
            new = terms[index] - seen
            if len(new) >= NEW_TERMS and all(last_seen.get(term, -1) < index for term in new):
                yield Finding(
                    "unused_result",
                    "info",
                    text.place,
                    text.tokens,
                    f"nothing that {text.tool or 'this tool'} found ({text.tokens:,} tokens) is "
                    f"mentioned in the {steps - text.step} requests since",
                    "leave a handle in its place (compact_context, or the pass cap_tool_results)",
                )
        seen |= terms[index]
