"""Rules about single texts: binary data, logs, whole files, echoes, old thinking, heavy tools.

echo: content that the prompt has already, line for line. thinking: the model's thinking in turns
that are over. heavy_tools: the tokens of tool schemas, and what tiering them would save.
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

from rehydrate import _native
from rehydrate.linting.subject import Finding, Subject, Text, token_count
from rehydrate.messages import PieceKind
from rehydrate.prompt.caps import LOG_LINES, Kind
from rehydrate.prompt.section import ToolDef

WORTH_TOKENS = 500
"""Less than this is not worth a reader's time."""
FILE_TOKENS = 4_000
FILE_LINES = 300

_BASE64 = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}|(?:[A-Za-z0-9+/]{60,80}\r?\n){6,}")
_READERS = re.compile(r"read|view|cat\b|open|fetch|get_file|file_contents", re.IGNORECASE)
_A_PART = re.compile(r'"(?:offset|limit|view_range|start_line|end_line|range|lines)":')
_CAT = re.compile(r"\b(?:cat|bat|type)\b(?![^\"]{0,500}[|>])")
_NUMBERED = re.compile(r"^\s{0,8}\d{1,7}(?:→|\t|: | \| )")
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def base64_in_text(subject: Subject) -> Iterator[Finding]:
    """Yield runs of base64 in a text: the model reads each letter and sees nothing."""
    for text in subject.texts:
        # No long name, no hexadecimal, and not one repeated letter.
        runs = [
            run
            for run in _BASE64.findall(text.text)
            if all(re.search(kind, run) for kind in ("[A-Z]", "[a-z]", "[0-9]"))
            and len(set(run)) > 24
        ]
        tokens = sum(map(token_count, runs))
        if tokens >= WORTH_TOKENS:
            yield Finding(
                "base64",
                "warning",
                text.place,
                tokens,
                f"{sum(map(len, runs)):,} characters of base64 in {_what(text)}",
                "send it as an image or a document block, or leave a reference in its place",
            )


def raw_logs(subject: Subject) -> Iterator[Finding]:
    """Yield logs with more lines than a cap would leave."""
    for text in subject.texts:
        if text.kind not in (PieceKind.TOOL_RESULT, PieceKind.TEXT) or text.tokens < WORTH_TOKENS:
            continue
        lines = text.text.splitlines()
        # Without the tool's name: a shell's output is a log only where it looks like one.
        if len(lines) <= LOG_LINES or _native.kind_of(text.text, "") != Kind.LOG:
            continue
        saved = text.tokens - token_count("\n".join(lines[-LOG_LINES:]))
        if saved >= WORTH_TOKENS:
            yield Finding(
                "raw_log",
                "warning",
                text.place,
                saved,
                f"{len(lines):,} lines of a log in {_what(text)}, {text.tokens:,} tokens",
                f"cap it to its last {LOG_LINES} lines (the pass cap_tool_results), or filter it "
                "where it is made",
            )


def whole_files(subject: Subject) -> Iterator[Finding]:
    """Yield long whole files, read by a tool or pasted by the user."""
    for text in subject.texts:
        if text.tokens < FILE_TOKENS:
            continue
        if text.kind is PieceKind.TOOL_RESULT and _is_whole_file(text):
            how = f"read whole by {text.tool}"
            remedy = "read the lines that are needed (grep, then offset and limit)"
        elif text.kind is PieceKind.TEXT and text.role == "user" and _is_pasted(text.text):
            how, remedy = "pasted whole", "name its path and let a tool read the lines needed"
        else:
            continue
        yield Finding(
            "whole_file",
            "info",
            text.place,
            text.tokens,
            f"a file of {text.text.count(chr(10)) + 1:,} lines, {text.tokens:,} tokens, {how}",
            remedy,
        )


def _is_whole_file(text: Text) -> bool:
    reads = _READERS.search(text.tool) or _CAT.search(text.asked)
    is_whole = reads and not _A_PART.search(text.asked)
    return bool(is_whole) and text.text.count("\n") >= FILE_LINES


def _is_pasted(text: str) -> bool:
    fenced: int = sum(block.count("\n") for block in _FENCED.findall(text))
    numbered = sum(_NUMBERED.match(line) is not None for line in text.splitlines())
    return max(fenced, numbered) >= FILE_LINES


def _what(text: Text) -> str:
    if text.kind is PieceKind.TOOL_RESULT:
        return f"the result of {text.tool}" if text.tool else "a tool's result"
    return "a tool call" if text.kind is PieceKind.TOOL_INPUT else f"the {text.role}'s words"


SHARE = 0.8
"""Minimum share of the characters in long lines that earlier texts have."""
ECHO_TOKENS = 300
LONG_LINE = 16
"""Shorter lines (brackets, blanks) are in every file."""

_ESCAPED_BREAK = re.compile(r"\\n")


def echoes(subject: Subject) -> Iterator[Finding]:
    """Yield texts most of whose lines are in earlier texts."""
    first_seen: dict[str, str] = {}
    for text in subject.texts:
        if text.kind is PieceKind.THINKING:
            continue
        lines = _lines(text)
        size = sum(map(len, lines))
        if text.tokens >= ECHO_TOKENS and text.kind is not PieceKind.TOOL_INPUT and size:
            places: Counter[str] = Counter()
            for line in lines:
                if line in first_seen and first_seen[line] != text.place:
                    places[first_seen[line]] += len(line)
            share = sum(places.values()) / size
            if share >= SHARE:
                where, characters = places.most_common(1)[0]
                is_result = text.kind is PieceKind.TOOL_RESULT
                name = _what(text) if is_result else f"what the {text.role} says"
                others = len(places) - 1
                also = f" and {others} more" if others and characters < 0.9 * size else ""
                yield Finding(
                    "echo",
                    "warning",
                    text.place,
                    int(text.tokens * share),
                    f"{share:.0%} of {name} stands in {where}{also} already",
                    f"leave a reference to {where} in its place (the pass remove_echoes)",
                )
        for line in lines:
            first_seen.setdefault(line, text.place)


def _lines(text: Text) -> list[str]:
    """Return the long lines of a text, without the numbers that tools put before them."""
    content = text.text
    if text.kind is PieceKind.TOOL_INPUT:  # a file in JSON: its line breaks are escaped
        content = _ESCAPED_BREAK.sub("\n", content.replace('\\"', '"').replace("\\t", "\t"))
    bare = [_NUMBERED.sub("", line).strip() for line in content.splitlines()]
    return [line for line in bare if len(line) >= LONG_LINE]


THINKING_TOKENS = 1_000


def old_thinking(subject: Subject) -> Iterator[Finding]:
    """Yield thinking before the last user turn, if leaving it out saves enough."""
    user_turns = [
        index
        for index, text in enumerate(subject.texts)
        if text.role == "user" and text.kind is PieceKind.TEXT
    ]
    earlier = subject.texts[: user_turns[-1]] if user_turns else ()
    thoughts = [text for text in earlier if text.kind is PieceKind.THINKING]
    tokens = sum(text.tokens for text in thoughts)
    if tokens >= THINKING_TOKENS:
        yield Finding(
            "thinking",
            "info",
            thoughts[0].place,
            tokens,
            f"{len(thoughts)} thinking blocks of earlier turns, {tokens:,} tokens",
            'leave them out when you compact, all of them: compact_context(thinking="strip")',
        )


HEAVY_TOKENS = 2_000
SHOWN = 3


def heavy_tools(subject: Subject) -> Iterator[Finding]:
    """Yield definitions that have more than `HEAVY_TOKENS` together."""
    total = subject.tool_tokens
    if total < HEAVY_TOKENS:
        return
    by_weight = sorted(enumerate(subject.tools), key=lambda entry: -(entry[1].tokens or 0))
    heaviest = by_weight[:SHOWN]
    saved = total - sum(min(tier_tokens(tool), tool.tokens or 0) for tool in subject.tools)
    named = ", ".join(f"{tool.name} {tool.tokens:,}" for _, tool in heaviest)
    yield Finding(
        "heavy_tools",
        "warning",
        f"tools[{heaviest[0][0]}]",
        saved,
        f"{len(subject.tools)} tool schemas weigh {total:,} tokens in every request (heaviest: "
        f"{named})",
        f"name and one line each, the schema on demand, would take {total - saved:,}",
    )


def tier_tokens(tool: ToolDef) -> int:
    """Return the tokens of a tool's name and the first line of its description.

    >>> tier_tokens(ToolDef("grep", "Search.\\nA long explanation follows here."))
    4
    """
    first = tool.description.strip().partition("\n")[0]
    return token_count(f"{tool.name}: {first}")


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
    kind = Kind(_native.kind_of(text.text, text.tool))
    if kind in (Kind.JSON, Kind.JSON_LINES):
        parts = text.text.splitlines() if kind is Kind.JSON_LINES else [text.text]
        hits = [hit for part in parts for hit in _strings(_json_or_text(part))]
        # A token has at least one character: a shorter text need not be counted.
        return _of_size([token_count(hit) for hit in hits if len(hit) >= WHOLE_TOKENS])
    lines = text.text.splitlines()
    unbroken = _unbroken_matches(lines)
    # In a table nearly every line has as many tabs, two or more; a numbered line has one.
    tabs, rows = Counter(line.count("\t") for line in lines).most_common(1)[0]
    is_table = tabs >= 2 and rows > 0.9 * len(lines)
    if unbroken or kind not in (Kind.CODE, Kind.TEXT) or is_table:
        return unbroken  # matching lines, names, rows
    return _whole_files_in(text)


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


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


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
    value = _json_or_text(tool_input)
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
