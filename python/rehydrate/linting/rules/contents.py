"""Rules about what a text is: binary data, logs, whole files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rehydrate.compiler.caps import LOG_LINES
from rehydrate.compiler.caps.kinds import Kind, kind_of
from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject, Text, token_count
from rehydrate.messages import PieceKind

WORTH_TOKENS = 500
"""Less than this is not worth a reader's time."""
FILE_TOKENS = 4_000
FILE_LINES = 300

_BASE64 = re.compile(r"[A-Za-z0-9+/]{256,}={0,2}|(?:[A-Za-z0-9+/]{60,80}\r?\n){6,}")
_READERS = re.compile(r"read|view|cat\b|open|fetch|get_file|file_contents", re.IGNORECASE)
_A_PART = re.compile(r'"(?:offset|limit|view_range|start_line|end_line|range|lines)":')
_CAT = re.compile(r"\b(?:cat|bat|type)\b(?![^\"]*[|>])")
_NUMBERED = re.compile(r"^\s{0,8}\d{1,7}(?:→|\t|: | \| )")
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def base64_in_text(subject: Subject) -> Iterator[Finding]:
    """Runs of base64 in a text: the model reads each letter and sees nothing."""
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
    """Neither a long name nor hexadecimal nor one letter over and over."""
    kinds = ("[A-Z]", "[a-z]", "[0-9]")
    return all(re.search(kind, run) for kind in kinds) and len(set(run)) > 24


def raw_logs(subject: Subject) -> Iterator[Finding]:
    """Logs of more lines than a cap would leave."""
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
    """Long files in full, read by a tool or pasted by the user."""
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
    return {PieceKind.TOOL_INPUT: "a tool call"}.get(text.kind, f"the {text.role}'s words")
