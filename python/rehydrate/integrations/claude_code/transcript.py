"""A session of Claude Code or Codex as a stored thread: its transcript and whole results, for the
MCP server."""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._native import (
    TranscriptReader,
    known_ancestor,
    said_entries,
    said_in,
    taken_back,
)
from rehydrate.errors import StoreConflictError, UnreadableIRError
from rehydrate.integrations.claude_code.home import Home

if TYPE_CHECKING:
    from rehydrate.context import ContextStore
    from rehydrate.context.stored import GrowingThread
    from rehydrate.integrations.claude_code.home import Records
    from rehydrate.integrations.mcp_server.session_index import Agent
    from rehydrate.memory.items import MemoryItem


def transcript_path(text: object) -> Path | None:
    """Return the path of a transcript; None for what is not a regular file of JSON Lines.

    A link is not followed, and nothing is read that could wait for a writer.
    """
    if not isinstance(text, str) or not text.endswith(".jsonl") or "\0" in text:
        return None
    path = Path(text)
    try:
        status = path.lstat()
    except OSError:
        return None
    return path if stat.S_ISREG(status.st_mode) else None


FIRST_BYTES = 64_000_000
"""The first reading of a longer transcript begins this far before its end."""
STEP_BYTES = 2_000_000
"""Bytes of a transcript read and stored in one step, which takes 0.1 s."""


class StoredSession(NamedTuple):
    """A session after it was stored."""

    text: str
    """The context store as markdown."""
    rules: list[MemoryItem]
    """Decisions and rules, for the memory."""
    taken_back: str
    """The texts that the user took back, word for word."""


class Session(NamedTuple):
    """One session of an agent."""

    home: Home
    project: str
    id: str
    agent: Agent

    def store_new(
        self, path: Path, records: Records, deadline: float, store_tokens: int
    ) -> StoredSession:
        """Store what the transcript has since the last call, secrets removed; return the session's
        context store, as far as the deadline let the transcript be read.

        Raises OSError and StoreError. What is stored stays stored.
        """
        while True:
            try:
                return self._store_next(path, records, deadline, store_tokens)
            except StoreConflictError:  # another hook of the session stored something meanwhile
                if time.monotonic() >= deadline:
                    raise

    def _store_next(
        self, path: Path, records: Records, deadline: float, store_tokens: int
    ) -> StoredSession:
        from rehydrate.context.stored import GrowingThread
        from rehydrate.memory.redaction import Redactor

        redactor = Redactor()
        size = path.stat().st_size
        begin = max(0, size - FIRST_BYTES)
        offset, skips = records.offset(str(path)) or (begin, begin > 0)
        if offset > size:  # it was written again
            offset, skips = begin, begin > 0
        reader = TranscriptReader(path, offset, skips=skips)
        with self.home.open_threads(self.project) as threads:
            thread = GrowingThread(threads.native, self.project, self.id, self.agent, time.time)
            known = {*map(_line_id, thread.entries.all())} - {None}
            while reader.offset < size and time.monotonic() < deadline:
                before = reader.offset
                ancestor = partial(known_ancestor, path=path, before=before, known=known)
                said = said_entries(reader.objects(STEP_BYTES), self.agent, ancestor)
                # A hook that was ended, or another file, makes it read lines a second time.
                read = [redactor.inside(entry) for entry in said]
                entries = [each for each in read if _line_id(each) not in known]
                known |= {*map(_line_id, entries)} - {None}
                _add(thread, entries)
                records.note_offset(str(path), reader.offset, reader.skips)
                if reader.is_at_end or reader.offset == before:
                    break
            all_entries, store = thread.entries.all(), thread.store
            whole = thread.entries.at_indices(range(len(all_entries)))
            text = store.render(store_tokens, conversation=whole.conversation)
            gone = taken_back(all_entries, self.agent)
            taken = [text for index in gone for _, text in said_in(all_entries[index])]
            return StoredSession(text, _rules_in(store, self.id), "\n".join(taken))

    def keep(self, text: str) -> str:
        """Keep a whole text in the session's thread, secrets removed, and return its handle."""
        from rehydrate.memory.redaction import Redactor

        with self.home.open_threads(self.project) as threads:
            return threads.keep(self.id, Redactor()(text).text, format=self.agent)


def _line_id(entry: Mapping[str, Any]) -> str | None:
    """Return what a line is known by when it is read again. A line of Codex has no id: its time and
    all that it says are one."""
    from rehydrate.formats._reading import compact_json

    if "uuid" in entry or "timestamp" not in entry:
        return entry.get("uuid")
    return compact_json(entry)


def _add(thread: GrowingThread, entries: Sequence[Any]) -> None:
    """Add entries, without those that cannot be stored."""
    try:
        if entries:
            thread.add(entries)
    except UnreadableIRError:
        for entry in entries if len(entries) > 1 else ():
            _add(thread, [entry])


def source_of(session: str) -> str:
    """Return the source of a session's rules in the memory."""
    return f"conversation/{session}"


def _rules_in(store: ContextStore, session: str) -> list[MemoryItem]:
    from rehydrate.memory.items import MemoryItem

    return [
        MemoryItem(
            item.text,
            kind=kind,
            source=source_of(session),
            thread=session,
            tool="context_store",
            trust=item.trust,
        )
        for heading, kind in (("Decisions", "decision"), ("User Preferences", "preference"))
        for item in store.items(heading)
    ]
