"""Rules about single texts: binary data, logs, whole files, echoes, old thinking, heavy tools.

echo: content that the prompt has already, line for line. thinking: the model's thinking in turns
that are over. heavy_tools: the tokens of tool schemas, and what tiering them would save.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rehydrate.linting.subject import Finding, Subject, Text, token_count
from rehydrate.messages import PieceKind
from rehydrate.prompt.caps import LOG_LINES
from rehydrate.prompt.caps.results import Kind, kind_of
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
        runs = [run for run in _BASE64.findall(text.text) if _is_binary(run)]
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


def _is_binary(run: str) -> bool:
    """Return whether it is neither a long name, nor hexadecimal, nor one repeated letter."""
    kinds = ("[A-Z]", "[a-z]", "[0-9]")
    return all(re.search(kind, run) for kind in kinds) and len(set(run)) > 24


def raw_logs(subject: Subject) -> Iterator[Finding]:
    """Yield logs with more lines than a cap would leave."""
    for text in subject.texts:
        if text.kind not in (PieceKind.TOOL_RESULT, PieceKind.TEXT) or text.tokens < WORTH_TOKENS:
            continue
        lines = text.text.splitlines()
        # Without the tool's name: a shell's output is a log only where it looks like one.
        if len(lines) <= LOG_LINES or kind_of(text.text) is not Kind.LOG:
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
    if _A_PART.search(text.asked):
        return False
    if _READERS.search(text.tool):
        return text.text.count("\n") >= FILE_LINES
    return bool(_CAT.search(text.asked)) and text.text.count("\n") >= FILE_LINES


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
                others = len(places) - 1
                also = f" and {others} more" if others and characters < 0.9 * size else ""
                yield Finding(
                    "echo",
                    "warning",
                    text.place,
                    int(text.tokens * share),
                    f"{share:.0%} of {_name(text)} stands in {where}{also} already",
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


def _name(text: Text) -> str:
    if text.kind is PieceKind.TOOL_RESULT:
        return f"the result of {text.tool}" if text.tool else "a tool's result"
    return f"what the {text.role} says"


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
