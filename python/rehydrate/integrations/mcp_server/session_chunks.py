"""Chunks: what was said in a session as memory items, a few exchanges each, without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rehydrate._text import as_unicode
from rehydrate.integrations.mcp_server.session_lines import Said, said_in
from rehydrate.memory.items import MemoryItem
from rehydrate.memory.redaction import Redactor

KIND = "session"
TRUST = 0.5
"""A tool may have put anything into a transcript."""
CHUNK_CHARS = 1_500
"""A chunk ends when it has so many, or where the user speaks again."""
PIECE_CHARS = 1_000
"""Of one text; what a user pastes is longer, and says less."""
CALL_CHARS = 200
READ_CHARS = 20_000
"""Of one text that secrets are looked for in. It is cut again far before that, so that no half of a
secret stays at the end."""

_redactor = Redactor()


class Chunks:
    """Collects what was said into items of one source.

    >>> chunks = Chunks("session/1", datetime(2026, 2, 17, tzinfo=UTC))
    >>> chunks.add({"type": "user", "message": {"role": "user", "content": "Fix the login."}})
    >>> [item.text for item in chunks.take()]
    ['user: Fix the login.']
    """

    def __init__(self, source: str, default: datetime) -> None:
        """Start empty; ``default`` is the time of what tells none."""
        self._source = source
        self._default = default
        self._items: list[MemoryItem] = []
        self._lines: list[str] = []
        self._chars = 0
        self._time: datetime | None = None

    def add(self, line: Mapping[str, Any]) -> None:
        """Add what was said in a line of the transcript."""
        self.add_said(said_in(line))

    def add_said(self, said: Iterable[Said]) -> None:
        """Add what was said."""
        for each in said:
            if each.speaker == "user":
                self._end_chunk()
            self._add(each)

    def take(self) -> list[MemoryItem]:
        """Return the items so far, and start again."""
        self._end_chunk()
        items, self._items = self._items, []
        return items

    def _add(self, said: Said) -> None:
        if self._time is None:
            self._time = said.time or self._default
        text = clean(said.text, CALL_CHARS if said.speaker == "call" else PIECE_CHARS)
        self._lines.append(f"{said.speaker}: {text}")
        self._chars += len(text)
        if self._chars >= CHUNK_CHARS:
            self._end_chunk()

    def _end_chunk(self) -> None:
        if self._lines:
            text = "\n".join(self._lines)
            self._items.append(
                MemoryItem(text, kind=KIND, source=self._source, trust=TRUST, time=self._time)
            )
        self._lines, self._chars, self._time = [], 0, None


def clean(text: str, max_chars: int) -> str:
    """Return the beginning of a text without secrets, as UTF-8 can hold it.

    >>> clean("password=hunter2-hunter2 is it", 40)
    'password=[redacted:password] is it'
    """
    whole = _redactor(as_unicode(text[:READ_CHARS])).text
    return whole if len(whole) <= max_chars else f"{whole[:max_chars].rstrip()}..."


def as_time(stamp: object) -> datetime | None:
    """Return a time from ISO 8601, None from anything else."""
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC) if isinstance(stamp, str) else None
    except ValueError:
        return None
