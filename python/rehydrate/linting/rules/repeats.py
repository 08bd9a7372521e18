"""echo: content that the prompt has already, word for word or line for line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject, Text
from rehydrate.messages import PieceKind

SHARE = 0.8
"""Of the characters in long lines that must stand earlier."""
ECHO_TOKENS = 300
LONG_LINE = 16
"""Shorter lines (brackets, blanks) are in every file."""

_NUMBER = re.compile(r"^\s{0,8}\d{1,7}(?:→|\t|: | \| )")
_ESCAPED_BREAK = re.compile(r"\\n")


def echoes(subject: Subject) -> Iterator[Finding]:
    """Texts most of whose lines one or more earlier texts have."""
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
                where, most = places.most_common(1)[0]
                others = len(places) - 1
                also = f" and {others} more" if others and most < 0.9 * size else ""
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
    """The long lines of a text, without the numbers that tools put before them."""
    content = text.text
    if text.kind is PieceKind.TOOL_INPUT:  # a file in JSON: its line breaks are escaped
        content = _ESCAPED_BREAK.sub("\n", content.replace('\\"', '"').replace("\\t", "\t"))
    bare = [_NUMBER.sub("", line).strip() for line in content.splitlines()]
    return [line for line in bare if len(line) >= LONG_LINE]


def _name(text: Text) -> str:
    if text.kind is PieceKind.TOOL_RESULT:
        return f"the result of {text.tool}" if text.tool else "a tool's result"
    return f"what the {text.role} says"
