"""Stores: what the tools work with, opened when a tool needs it first."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from rehydrate.errors import InvalidArgumentError, UnknownThreadError
from rehydrate.integrations.mcp_server.jobs import shown
from rehydrate.integrations.mcp_server.session_index import (
    SessionIndex,
    cache_folder,
    transcript_roots,
)
from rehydrate.memory.store import is_server, verify_place

if TYPE_CHECKING:
    from rehydrate.agent.telemetry import Telemetry
    from rehydrate.context.jit import ThreadReader
    from rehydrate.context.threads import StoredThreadInfo, Threads
    from rehydrate.memory.memory import Memory


MAX_READERS = 8
"""Threads that are kept read, the longest unused goes first."""
_NAMED = 10


class Stores:
    """A memory, stored threads and the transcripts on this machine; each may be missing.

    A tool whose store is missing is answered with how to configure it: InvalidArgumentError.
    """

    def __init__(
        self,
        *,
        memory: str | os.PathLike[str] | None = None,
        threads: str | os.PathLike[str] | None = None,
        namespace: str = "",
        has_sessions: bool = True,
        environ: Mapping[str, str] = os.environ,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Take files, or URLs of servers; nothing is opened yet.

        ``environ`` says where transcripts are. ``telemetry`` makes spans of what the memory is
        asked.
        """
        self._memory_place = None if memory is None else verify_place(memory)
        self._threads_place = None if threads is None else verify_place(threads)
        self._namespace = namespace
        self._has_sessions = has_sessions
        self._environ = environ
        self._telemetry = telemetry
        self._memory: Memory | None = None
        self._threads: Threads | None = None
        self._sessions: SessionIndex | None = None
        self._readers: OrderedDict[str, tuple[StoredThreadInfo, ThreadReader]] = OrderedDict()
        self._lock = RLock()

    @property
    def has_memory(self) -> bool:
        """Whether a memory is configured."""
        return self._memory_place is not None

    @property
    def has_threads(self) -> bool:
        """Whether there are stored threads to read by now."""
        place = self._threads_place
        return place is not None and (is_server(place) or Path(place).exists())

    def memory(self) -> Memory:
        """Return the memory, within its namespace; the file is made if it is missing."""
        from rehydrate.memory.memory import Memory

        with self._lock:
            if self._memory is None:
                if self._memory_place is None:
                    raise _not_configured("memory", "--memory FILE --namespace NAME")
                memory = Memory.open(self._memory_place, namespace=self._namespace)
                traced = self._telemetry
                self._memory = memory if traced is None else traced.trace_memory(memory)
            return self._memory

    def threads(self) -> Threads:
        """Return the stored threads; they are only read."""
        from rehydrate.context.threads import Threads

        with self._lock:
            if self._threads is None:
                place = self._threads_place
                if place is None:
                    raise _not_configured("threads", "--threads FILE --namespace NAME")
                if not self.has_threads:
                    raise InvalidArgumentError(
                        f"{place} is not there yet; it is made by the first Context with "
                        "threads=, and its conversations can be read from then on"
                    )
                self._threads = Threads.open(place, namespace=self._namespace, read_only=True)
            return self._threads

    def reader(self, thread: str) -> ThreadReader:
        """Return a reader of this thread as it is now."""
        from rehydrate.context.jit import ThreadReader

        with self._lock:
            threads = self.threads()
            found = {info.name: info for info in threads.list()}
            if thread not in found:
                names = [shown(name) for name in found]
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                there = (
                    f"send one of {', '.join(names[:_NAMED])}{more}" if names else "there is none"
                )
                what = f"there is no thread {shown(thread)}" if thread else "thread is missing"
                raise InvalidArgumentError(f"{what}; {there}")
            info, reader = self._readers.pop(thread, (None, None))
            if reader is None or info != found[thread]:
                sources = [self.memory()] if self.has_memory else []
                try:
                    reader = ThreadReader(threads, thread, sources=sources, before=reader)
                except UnknownThreadError as error:  # it was purged just now
                    raise InvalidArgumentError(str(error)) from None
            self._readers[thread] = found[thread], reader
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)
            return reader

    def sessions(self) -> SessionIndex:
        """Return the index of the transcripts of Claude Code and Codex on this machine."""
        with self._lock:
            if not self._has_sessions:
                raise InvalidArgumentError(
                    "this server was started with --no-sessions, so that transcripts are not "
                    "read; start it without that option"
                )
            if self._sessions is None:
                self._sessions = SessionIndex(
                    cache_folder(self._environ), transcript_roots(self._environ)
                )
            return self._sessions

    def close(self) -> None:
        """Close what was opened."""
        with self._lock:
            for store in (self._memory, self._threads, self._sessions):
                if store is not None:
                    with suppress(Exception):  # the others must be closed too
                        store.close()
            self._readers.clear()


def _not_configured(what: str, options: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"this server has no {what}; whoever configures it starts it as rehydrate mcp {options}"
    )
