"""search_dump: searches that answer with whole files where a few lines of each would do.

unused_result: long tool results of which nothing is mentioned afterwards.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from rehydrate.linting.subject import Finding, Subject, Text, token_count
from rehydrate.messages import PieceKind
from rehydrate.prompt.caps.kinds import Kind, kind_of

DUMP_TOKENS = 4_000
"""What the whole files of one answer must come to."""
WHOLE_TOKENS = 1_000
"""A hit of that many is no snippet: those that Rehydrate gives have 200."""
WHOLE_LINES = 300
"""Lines without a break, where nothing says where one file ends and the next begins."""

_SEARCH = re.compile(
    r"search|grep|(?:^|_)rg(?:$|_)|(?:^|_)find(?:$|_|[A-Z])|retriev|recall|(?:^|_)rag(?:$|_)"
    r"|look_?up|(?:^|_)query(?:$|_)",
    re.IGNORECASE,
)
# In a shell: files that were searched for are printed, or all lines of them match.
_PRINTS_FOUND = re.compile(
    r"\bxargs\b[^|]*\b(?:cat|bat)\b|-exec\s+(?:cat|bat)\b"
    r"|\b(?:cat|bat)\s+\$?[(`]\s*(?:grep|rg|ag|find|fd|git\s+grep)\b"
)
_GREPS = re.compile(r"(?:^|[\s\"|;&(])(?:grep|rg|ag|ack)\s")
_MATCH = re.compile(r"^(?:(?P<path>[^\s:][^:\n]{0,300}?)[:-])?(?P<line>\d{1,7})[:-]")
# Where one hit ends and the next begins: a rule, a heading, a file's name.
_BREAK = re.compile(
    r"^(?:-{2,}|={3,}|\*{3,}|~{3,})\s*$|^#{1,4} |^</?(?:file|document|doc|result|source|hit)\b"
    r"|^(?:=+>?|-{3,}|\*{3,}|#+) .{1,300} (?:<?=+|-{3,}|\*{3,}|#+)$"
    r"|^\W{0,4}(?:file|path|source|document|result|title|url)\b[^:\n]{0,12}:",
    re.IGNORECASE,
)


def search_dumps(subject: Subject) -> Iterator[Finding]:
    """Answers of searches with files in full: hits of a thousand tokens and more, or one text
    without an end."""
    results = [text for text in subject.texts if text.kind is PieceKind.TOOL_RESULT]
    for (place, tool, asked), group in groupby(results, lambda at: (at.place, at.tool, at.asked)):
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


def _whole_hits(tool: str, asked: str, texts: Sequence[Text]) -> list[int]:
    """The tokens of each file that stands in full in a search's answer."""
    if _SEARCH.search(tool):
        if len(texts) > 1:  # a text a hit
            return _of_size([text.tokens for text in texts])
        return _whole_in(texts[0])
    command = _command(asked)
    if _PRINTS_FOUND.search(command):
        return [tokens for text in texts for tokens in _whole_files_in(text)]
    if _GREPS.search(command):
        return [tokens for text in texts for tokens in _unbroken_matches(text.text.splitlines())]
    return []


def _whole_in(text: Text) -> list[int]:
    """Of an answer of a search: hits as JSON, as lines that match, or as the files themselves."""
    kind = kind_of(text.text, text.tool)
    if kind in (Kind.JSON, Kind.JSON_LINES):
        hits = [hit for value in _values(text.text, kind) for hit in _strings(value)]
        # A token is a character at least: what is shorter need not be counted.
        return _of_size([token_count(hit) for hit in hits if len(hit) >= WHOLE_TOKENS])
    unbroken = _unbroken_matches(text.text.splitlines())
    if unbroken or kind not in (Kind.CODE, Kind.TEXT) or _is_table(text.text.splitlines()):
        return unbroken  # lines that match, names, rows
    return _whole_files_in(text)


def _is_table(lines: Sequence[str]) -> bool:
    """Whether nearly every line has as many tabs, two or more: a file's numbered lines have one."""
    tabs, rows = Counter(line.count("\t") for line in lines).most_common(1)[0]
    return tabs >= 2 and rows > 0.9 * len(lines)


def _whole_files_in(text: Text) -> list[int]:
    """Of a text that is files one after the other, with or without something between them."""
    lines = text.text.splitlines()
    breaks = [number for number, line in enumerate(lines) if _BREAK.match(line)]
    if not breaks:
        is_whole = len(lines) >= WHOLE_LINES or len(lines) <= text.tokens / 100  # code; prose
        return [text.tokens] if is_whole else []
    ends = [*breaks[1:], len(lines)]
    parts = zip([0, *breaks], [breaks[0], *ends], strict=True)
    return _of_size([token_count("\n".join(lines[start:end])) for start, end in parts])


def _unbroken_matches(lines: Sequence[str]) -> list[int]:
    """Runs of numbered lines of one file that leave none out, as a pattern that fits all gives."""
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
        # Lines one by one are one text.
        if value and all(isinstance(inner, str) for inner in value):
            yield "\n".join(value)
        else:
            for inner in value:
                yield from _strings(inner)


def _command(asked: str) -> str:
    """What a shell was told to do; "" where the tool is none."""
    try:
        value = json.loads(asked)
    except ValueError:
        return ""
    if not isinstance(value, dict):
        return ""
    command = next((value[key] for key in ("command", "cmd", "commands") if key in value), "")
    return command if isinstance(command, str) else json.dumps(command)


RESULT_TOKENS = 1_000
LATER_STEPS = 8
"""So many further requests must have been answered without a word of it."""
NEW_TERMS = 12
"""So many names must be new in a result, or else nobody can tell whether it was used."""

_TERM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}|\d{3,}")


def unused_results(subject: Subject) -> Iterator[Finding]:
    """Results none of whose new names (identifiers, words, numbers) is said again by anyone.

    It errs on the side of silence: any word that is new in a result and said later, in whatever
    sense, counts as a use.
    """
    terms = [frozenset(_TERM.findall(text.text)) for text in subject.texts]
    last_said: dict[str, int] = {}
    for place, text in enumerate(subject.texts):
        if text.kind is not PieceKind.TOOL_RESULT:
            last_said.update(dict.fromkeys(terms[place], place))
    seen: set[str] = set()
    steps = subject.steps
    for place, text in enumerate(subject.texts):
        if (
            text.kind is PieceKind.TOOL_RESULT
            and text.tokens >= RESULT_TOKENS
            and steps - text.step >= LATER_STEPS
        ):
            new = terms[place] - seen
            if len(new) >= NEW_TERMS and all(last_said.get(term, -1) < place for term in new):
                yield Finding(
                    "unused_result",
                    "info",
                    text.place,
                    text.tokens,
                    f"nothing that {text.tool or 'this tool'} found ({text.tokens:,} tokens) is "
                    f"mentioned in the {steps - text.step} requests since",
                    "leave a handle in its place (compact_context, or the pass cap_tool_results)",
                )
        seen |= terms[place]
