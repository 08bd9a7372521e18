"""RehydrateSessionStore: a SessionStore of the Claude Agent SDK in a file of stored threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.workers import STORING
from rehydrate.context.threads import Threads
from rehydrate.integrations.claude_agent_sdk.hooks import MISSING
from rehydrate.integrations.stored_entries import StoredEntries

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

PREFIX = "claude"
FORMAT = "claude_code"
_MAX_OPEN = 256
"""Threads whose ids are kept in memory; any other is read again when it is written to."""


class RehydrateSessionStore:
    """Sessions of Claude Code, each a thread on disk, with those of its subagents.

    Pass it as ``ClaudeAgentOptions(session_store=...)``: the SDK mirrors each session into it, and
    resumes a session from it on any machine. Lines come back equal and in order. A line with a
    ``uuid`` is stored once, so a batch that the SDK sends again changes nothing. Any number of
    processes may use one file, and what `append` has returned from survives a crash.

    A session is a thread of `Threads` in the namespace that `namespace_of` names, so ``rehydrate
    thread`` lists, exports and redacts it. `close` it after the last session.
    """

    def __init__(self, path: str | PathLike[str], *, prefix: str = PREFIX) -> None:
        """Open the file (or create it), or a postgresql:// URL; raises StoreError, and
        MissingPackageError without the SDK. ``prefix`` begins the names of its namespaces."""
        try:
            from claude_agent_sdk import fold_session_summary
        except ImportError:
            raise MISSING from None
        self._fold = fold_session_summary
        self._threads = Threads.open(path)
        self._prefix = prefix
        self._lock = ForkSafeLock()
        self._open: OrderedDict[tuple[str, str], StoredEntries] = OrderedDict()
        self._summaries: dict[str, dict[str, _Summary]] = {}

    def namespace_of(self, project_key: str) -> str:
        """Return the namespace that has the sessions of a project."""
        return f"{self._prefix}:{project_key}"

    @staticmethod
    def thread_of(key: SessionKey | SessionListSubkeysKey) -> str:
        """Return the name of a session's thread.

        >>> RehydrateSessionStore.thread_of({"project_key": "p", "session_id": "s-1"})
        's-1'
        """
        subpath = key.get("subpath")
        session = _quoted(key["session_id"])
        return f"{session}/{subpath}" if subpath else session

    async def append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        """Add lines at the end; they are on disk when it returns."""
        if entries:
            await hand_over(lambda: self._entries(key).extend(entries), STORING)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a session in order; None where there is none."""

        def load() -> list[SessionStoreEntry] | None:
            entries: list[SessionStoreEntry] = self._entries(key).all()
            return entries or None

        return await hand_over(load, STORING)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, the last changed first."""
        found = await hand_over(lambda: self._rows(project_key), STORING)
        return [
            {"session_id": _unquoted(name), "mtime": version.changed}
            for name, version in found
            if "/" not in name
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return what the SDK shows of each session of a project.

        A summary is made from the lines, and again only where the session has changed.
        """

        def summaries() -> list[SessionSummaryEntry]:
            before = self._summaries.get(project_key, {})
            now = {
                name: self._summary(project_key, name, version, before.get(name))
                for name, version in self._rows(project_key)
                if "/" not in name
            }
            self._summaries[project_key] = now
            return [summary.entry for summary in now.values()]

        return await hand_over(summaries, STORING)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with its subagents, or one subagent, as `Threads.purge` does."""

        def delete() -> None:
            # The session itself goes last: a delete that was cut short can be repeated.
            if not key.get("subpath"):
                for subkey in self._subkeys(key):
                    self._entries({**key, "subpath": subkey}).clear()
            self._entries(key).clear()

        await hand_over(delete, STORING)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the names of a session's subagents."""
        return await hand_over(lambda: self._subkeys(key), STORING)

    def close(self) -> None:
        """Wait for running writes, then close the file."""
        self._threads.close()

    def _entries(self, key: SessionKey) -> StoredEntries:
        where = self.namespace_of(key["project_key"]), self.thread_of(key)
        with self._lock:
            entries = self._open.pop(where, None)
            if entries is None:
                entries = StoredEntries(
                    self._threads, where[1], format=FORMAT, namespace=where[0], id_of=_uuid
                )
                while len(self._open) >= _MAX_OPEN:
                    self._open.popitem(last=False)
            self._open[where] = entries
            return entries

    def _rows(self, project_key: str) -> list[tuple[str, _Version]]:
        rows = self._threads.native.threads(self.namespace_of(project_key))
        return [
            (name, _Version(created, changed, records))
            for name, created, changed, records, _ in rows
        ]

    def _subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        begin = f"{_quoted(key['session_id'])}/"
        names = [name for name, _ in self._rows(key["project_key"])]
        return [name.removeprefix(begin) for name in names if name.startswith(begin)]

    def _summary(
        self, project_key: str, name: str, version: _Version, before: _Summary | None
    ) -> _Summary:
        if before is not None and before.version == version:
            return before
        key: SessionKey = {"project_key": project_key, "session_id": _unquoted(name)}
        entry = self._fold(None, key, self._entries(key).all())
        entry["mtime"] = version.changed
        return _Summary(version, entry)


class _Version(NamedTuple):
    """What changes where a thread changes."""

    created: int
    changed: int
    """In milliseconds since 1970."""
    records: int


class _Summary(NamedTuple):
    """The summary of a session, and of which version of it."""

    version: _Version
    entry: SessionSummaryEntry


def _uuid(entry: Mapping[str, Any]) -> str | None:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else None


def _quoted(session_id: str) -> str:
    """Return a session's id without a slash, which begins the subagent's part of a name."""
    return session_id.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")
