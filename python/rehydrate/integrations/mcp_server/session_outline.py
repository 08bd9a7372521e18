"""The outline of a session: what its user said, and the names in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rehydrate import _native, formats
from rehydrate.errors import InvalidMessageError
from rehydrate.integrations.mcp_server.session_lines import (
    SessionFile,
    TranscriptReader,
    clean,
    said_in,
)
from rehydrate.memory.folder import CHARS_A_TOKEN
from rehydrate.messages import Conversation

MAX_BYTES = 64_000_000
"""Of the end of a transcript; what is before is left out."""
MAX_NAMES = 400
TURN_CHARS = 300
FIRST_TURNS = 5
"""Of many user turns the first ones are shown, and the last ones."""


class SessionOutline(NamedTuple):
    """The subject of a session: its turns and names."""

    turns: tuple[tuple[str, str], ...]
    """The time and the words of user turns."""
    omitted_turns: int
    names: dict[str, list[str]]
    """By use: the tool that was called with them, or where they were."""
    messages: int
    broken_lines: int
    skipped_bytes: int


def outline_of(file: SessionFile, budget_tokens: int, max_turns: int) -> SessionOutline:
    """Return the outline of a transcript; names take about ``budget_tokens``. Raises OSError."""
    start = max(file.size - MAX_BYTES, 0)
    reader = TranscriptReader(file.path, start, skips=start > 0)
    lines, conversation = _parsed(list(reader.objects(MAX_BYTES)), file)
    turns: list[tuple[str, str]] = []
    for index in conversation.indices:
        for said in said_in(lines[index]):
            if said.speaker == "user":
                time = "" if said.time is None else said.time.isoformat()
                turns.append((time, clean(said.text, TURN_CHARS)))
    omitted = max(len(turns) - max_turns, 0)
    if omitted:
        first = min(FIRST_TURNS, max_turns)
        turns = [*turns[:first], *turns[first + omitted :]]
    return SessionOutline(
        turns=tuple(turns),
        omitted_turns=omitted,
        names=_names(conversation, budget_tokens),
        messages=len(conversation.messages),
        broken_lines=reader.broken,
        skipped_bytes=start,
    )


def _parsed(lines: list[Any], file: SessionFile) -> tuple[list[Any], Conversation]:
    """Return the lines and the conversation in them; lines of no shape that the format has are
    left out."""

    def has_shape(line: Any) -> bool:
        try:
            formats.parse([line], file.agent)
        except InvalidMessageError:
            return False
        return True

    try:
        return lines, formats.parse(lines, file.agent)
    except InvalidMessageError:
        lines = list(filter(has_shape, lines))
    try:
        return lines, formats.parse(lines, file.agent)
    except InvalidMessageError:
        return [], formats.parse([], file.agent)


def _names(conversation: Conversation, budget_tokens: int) -> dict[str, list[str]]:
    if not conversation.messages:
        return {}
    index = _native.NameIndex()
    index.add(conversation, (), lambda _unit: "")
    best = index.best(MAX_NAMES)
    max_chars = int(budget_tokens * CHARS_A_TOKEN)
    text = _native.write_outline(best, "", lambda lines: len(lines) <= max_chars)
    names: dict[str, list[str]] = {}
    for name, heading, _ in _native.read_outline(text) or ():
        names.setdefault(heading, []).append(name)
    return names


def outline_lines(name: str, outline: SessionOutline) -> Iterator[str]:
    """Yield the outline as a model reads it."""
    yield f"Session {name}: {outline.messages:,} messages"
    if outline.broken_lines or outline.skipped_bytes:
        yield (
            f"({outline.broken_lines:,} lines could not be read; "
            f"{outline.skipped_bytes:,} bytes at the beginning were left out)"
        )
    yield "What the user said:"
    yield from _turn_lines(outline.turns, outline.omitted_turns)
    if outline.names:
        yield "Names by their use:"
        yield from (f"{heading}: {', '.join(names)}" for heading, names in outline.names.items())


def _turn_lines(turns: Sequence[tuple[str, str]], omitted: int) -> Iterator[str]:
    for number, (time, text) in enumerate(turns):
        if omitted and number == min(FIRST_TURNS, len(turns)):
            yield f"- [{omitted:,} more]"
        yield f"- {time[:16]} {' '.join(text.split())}".replace("-  ", "- ")
