"""The lines of a transcript that the model saw, of Claude Code or of Codex, without ballast.

Session: a session as a stored thread: what was said in it, and whole results, for the MCP server.
"""

from __future__ import annotations

import json
import mmap
import stat
import time
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._native import (
    TranscriptReader,
    json_object,
    paired_entries,
    said_entries,
    said_in,
    taken_back,
)
from rehydrate.integrations.claude_code.home import Home
from rehydrate.messages import PROVIDER_OF

if TYPE_CHECKING:
    from rehydrate.context import ContextStore
    from rehydrate.integrations.claude_code.home import Records
    from rehydrate.integrations.mcp_server.session_files import Agent

LAST_TURNS = 60
"""User and assistant lines that a compaction looks at."""
TAIL_BYTES = (1_000_000, 4_000_000, 24_000_000)
"""Last bytes of a transcript that are read, more where they hold too few lines; reading the most of
them takes 0.2 s. A file may have 500 MB."""

_MAX_STEPS = 10_000
"""From a line to the last one before it that was said."""


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


def last_turns(path: Path, agent: Agent) -> list[dict[str, Any]]:
    """Return the last lines that were said, oldest first; raises OSError.

    Broken lines are left out, and so are results whose calls are not there.
    """
    size = path.stat().st_size
    found: list[dict[str, Any]] = []
    for most in TAIL_BYTES:
        begin = max(0, size - most)
        reader = TranscriptReader(path, begin, skips=begin > 0)
        found = said_entries(reader.objects(size - begin), agent, str)
        if agent == "codex":
            gone = taken_back(found, agent)
            found = [entry for index, entry in enumerate(found) if index not in gone]
        if len(found) >= LAST_TURNS or not begin:
            break
    return paired_entries(found[-LAST_TURNS:], agent)


def ancestor_in(path: Path, before: int, known: Container[object]) -> Callable[[str], str]:
    """Return a function from the id of a line to that of the last one, at it or before it, that is
    known: it reads the file before an offset. The id itself where there is none."""

    def ancestor(name: str) -> str:
        if name in known:
            return name
        with (
            suppress(OSError, ValueError),  # an empty file cannot be mapped
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            end, found = min(before, len(data)), name
            for _ in range(_MAX_STEPS):
                line, end = _line_in(data, found, end)
                parent = line.get("parentUuid") or line.get("logicalParentUuid")
                if not isinstance(parent, str):
                    break
                if parent in known:
                    return parent
                found = parent
        return name

    return ancestor


def _line_in(data: mmap.mmap, name: str, before: int) -> tuple[dict[str, Any], int]:
    """Return the line of this id that is the last one before an offset, and where it begins; an
    empty one, and 0, where there is none."""
    needle = json.dumps(name).encode()
    while (found := data.rfind(needle, 0, before)) >= 0:
        start = data.rfind(b"\n", 0, found) + 1
        end = data.find(b"\n", found)
        line = data[start : end if end >= 0 else len(data)][: TranscriptReader.MAX_LINE_BYTES]
        read = json_object(line.decode(errors="replace"))
        if read is not None and read.get("uuid") == name:
            return read, start
        before = start
    return {}, 0


FIRST_BYTES = 64_000_000
"""Of a longer transcript the first reading begins so far before its end."""
STEP_BYTES = 2_000_000
"""Of a transcript that are read and stored in one step, which takes 0.1 s."""


class StoredSession(NamedTuple):
    """A session after it was stored."""

    store: ContextStore
    text: str
    """The store as markdown."""
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
        from rehydrate.context.context import Context
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
                format=self.agent,
                namespace=self.project,
                thread=self.id,
                threads=threads,
                embedder=None,
            )
            known_lines = {entry.get("uuid") for entry in context.history}
            while reader.offset < size and time.monotonic() < deadline:
                before = reader.offset
                ancestor = ancestor_in(path, before, known_lines)
                entries = said_entries(reader.objects(STEP_BYTES), self.agent, ancestor)
                known_lines.update(entry.get("uuid") for entry in entries)
                if entries:
                    context.add(*map(redactor.inside, entries))
                records.note_offset(str(path), reader.offset, reader.skips)
                if reader.is_at_end or reader.offset == before:
                    break
            store = context.store
            known = threads.native.thread(self.project, self.id) is not None
            text = threads.render_store(self.id, store_tokens) if known else ""
            gone = taken_back(context.history, self.agent)
            taken = [text for index in gone for _, text in said_in(context.history[index])]
            return StoredSession(store, text, "\n".join(taken))

    def keep(self, text: str) -> str:
        """Keep a whole text in the session's thread, secrets removed, and return its handle."""
        from rehydrate.memory.redaction import Redactor

        with self.home.open_threads(self.project) as threads:
            return threads.keep(self.id, Redactor()(text).text, format=self.agent)

    def whole(self, handle: str) -> str:
        """Return the text under a handle; raises UnknownThreadError, UnknownHandleError."""
        from rehydrate.context.jit import ThreadReader

        with self.home.open_threads(self.project) as threads:
            return ThreadReader(threads, self.id).whole(handle)
