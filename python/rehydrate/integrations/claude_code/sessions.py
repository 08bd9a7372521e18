"""A session as a stored thread: what was said in it, and whole results, for the MCP server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rehydrate.integrations.claude_code.home import Home
from rehydrate.integrations.claude_code.transcript import ancestor_in, said
from rehydrate.integrations.mcp_server.session_files import Agent
from rehydrate.messages import PROVIDER_OF

if TYPE_CHECKING:
    from rehydrate.context.context_store.store import ContextStore
    from rehydrate.integrations.claude_code.records import Records

FIRST_BYTES = 64_000_000
"""Of a longer transcript the first reading begins so far before its end."""
STEP_BYTES = 2_000_000
"""Of a transcript that are read and stored in one step, which takes 0.1 s."""
FORMATS: dict[Agent, Agent] = {"claude_code": "claude_code", "codex": "codex"}


class StoredSession(NamedTuple):
    """What a session is after it was stored."""

    store: ContextStore
    text: str
    """The store as markdown."""
    taken_back: str
    """What the user took back, word for word."""


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
        from rehydrate import formats
        from rehydrate.context.context import Context
        from rehydrate.integrations.mcp_server.session_lines import TranscriptReader, said_in
        from rehydrate.memory.redaction import Redactor

        redactor = Redactor()
        size = path.stat().st_size
        begin = max(0, size - FIRST_BYTES)
        offset, skips = records.offset(str(path)) or (begin, begin > 0)
        if offset > size:  # it was written anew
            offset, skips = begin, begin > 0
        reader = TranscriptReader(path, offset, skips=skips)
        with self.home.open_threads(self.project) as threads:
            context = Context(
                provider=PROVIDER_OF[self.agent],
                format=FORMATS[self.agent],
                namespace=self.project,
                thread=self.id,
                threads=threads,
                embedder=None,
            )
            known_lines = {entry.get("uuid") for entry in context.history}
            while reader.offset < size and time.monotonic() < deadline:
                before = reader.offset
                lines = list(reader.objects(STEP_BYTES))
                entries = list(said(lines, self.agent, ancestor_in(path, before, known_lines)))
                known_lines.update(entry.get("uuid") for entry in entries)
                if entries:
                    context.add(*map(redactor.inside, entries))
                records.note_offset(str(path), reader.offset, reader.skips)
                if reader.is_at_end or reader.offset == before:
                    break
            store = context.store
            known = threads.native.thread(self.project, self.id) is not None
            text = threads.render_store(self.id, store_tokens) if known else ""
            gone = formats.taken_back(context.history, FORMATS[self.agent])
            taken = [said.text for index in gone for said in said_in(context.history[index])]
            return StoredSession(store, text, "\n".join(taken))

    def keep(self, text: str) -> str:
        """Keep a whole text in the session's thread, secrets removed, and return its handle."""
        from rehydrate.memory.redaction import Redactor

        with self.home.open_threads(self.project) as threads:
            return threads.keep(self.id, Redactor()(text).text, format=FORMATS[self.agent])

    def whole(self, handle: str) -> str:
        """Return the text under a handle; raises UnknownThreadError, UnknownHandleError."""
        from rehydrate.context.jit import ThreadReader

        with self.home.open_threads(self.project) as threads:
            return ThreadReader(threads, self.id).whole(handle)
