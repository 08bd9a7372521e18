"""SessionIndex: the transcripts on this machine, found by meaning, by names and by time.

What was said is kept as items of a `Memory` in the user's cache folder, without secrets. A list of
the files next to it says how far each was read, so that a call reads only what is new, and no more
than a limit. The cache may be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from rehydrate._jsonl import lines_of, write_lines
from rehydrate._native import (
    SessionFile,
    SessionRecord,
    clean_text,
    read_session,
    transcripts,
)
from rehydrate.embedding.model_files import models_home
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.mcp_server.jobs import Job, shown
from rehydrate.memory.items import MemoryItem, MemoryLimits
from rehydrate.memory.memory import Memory
from rehydrate.prompt.request import TimeRange

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit

Agent = Literal["claude_code", "codex"]
AGENTS: tuple[Agent, ...] = get_args(Agent)

MAX_BYTES = 128_000_000
"""Maximum bytes of transcripts that one call reads: about a second."""
HITS = 200
EXCERPTS = 3
EXCERPT_CHARS = 600
_NAMESPACE = "sessions"
_KIND = "session"
_TRUST = 0.5
"""A tool may have put anything into a transcript."""
_VERSION = 2
_MIN_PREFIX = 6


class Unread(NamedTuple):
    """The work that the limit of one call left for the next."""

    files: int = 0
    bytes: int = 0


class FoundSession(NamedTuple):
    """A session that matches, and where."""

    record: SessionRecord
    score: float
    excerpts: tuple[tuple[str, str], ...]
    """The time and the text of each."""


class SessionIndex:
    """The transcripts below some folders; any number of threads and processes may use one cache."""

    def __init__(
        self, cache: Path, roots: Mapping[Agent, Path], *, max_bytes: int = MAX_BYTES
    ) -> None:
        """Take the folders; nothing is read yet, and the cache is made when it is needed."""
        self._folder = cache
        self._roots = [*roots.items()]
        self._max_bytes = max_bytes
        self._memory: Memory | None = None
        self._records: dict[str, SessionRecord] = {}
        self._lock = RLock()

    def update(self, job: Job) -> Unread:
        """Read what is new, the last changed files first; raises StoreError."""
        with self._lock:
            memory = self._opened()
            files = transcripts(self._roots)
            changed = self._forget_missing(memory, {str(file.path) for file in files})
            new = self._unread(files)
            total = min(sum(new.values()), self._max_bytes)
            left = self._max_bytes
            for file in new:
                if left <= 0 or job.is_cancelled:
                    break
                left -= self._read(memory, file, left)
                changed = True
                job.report(self._max_bytes - left, max(total, self._max_bytes - left), file.id)
            if changed:
                self._save()
            rest = self._unread(new)
            return Unread(len(rest), sum(rest.values()))

    def search(
        self,
        query: str,
        limit: int,
        span: TimeRange = TimeRange(),  # noqa: B008  it is frozen
        *,
        agent: str | None = None,
        project: str = "",
    ) -> list[FoundSession]:
        """Return the best sessions, best first; without a query the last ones of that time."""
        with self._lock:
            memory = self._opened()
            wanted = {
                record.source: record
                for record in self._records.values()
                if record.within(span.after, span.before)
                and agent in (None, record.agent)
                and project.casefold() in f"{record.project}\n{record.path}".casefold()
            }
        if not query.strip():
            last = sorted(wanted.values(), key=lambda record: record.last, reverse=True)
            return [FoundSession(record, 0.0, ()) for record in last[:limit]]
        hits: dict[str, list[Hit]] = defaultdict(list)
        # Without them other projects may have all hits.
        only = [*wanted] if agent or project else None
        for hit in memory.search(query, HITS, after=span.after, before=span.before, sources=only):
            if hit.item.source in wanted:
                hits[hit.item.source].append(hit)
        found = [
            FoundSession(wanted[source], _score(each), tuple(map(_excerpt, each[:EXCERPTS])))
            for source, each in hits.items()
        ]
        return sorted(found, key=lambda each: each.score, reverse=True)[:limit]

    def find(self, session: str) -> SessionFile:
        """Return the transcript of a session, by its id, the beginning of it, or its path.

        Only what is in the folders of the agents is found; raises InvalidArgumentError.
        """
        files = transcripts(self._roots)
        exact = [file for file in files if session in (file.id, str(file.path))]
        found = exact or [
            file for file in files if len(session) >= _MIN_PREFIX and file.id.startswith(session)
        ]
        if not found:
            raise InvalidArgumentError(
                f"there is no session {shown(session)}; search_sessions finds their ids"
            )
        if len({file.id for file in found}) > 1:
            ids = ", ".join(file.id for file in found[:3])
            raise InvalidArgumentError(f"session {shown(session)} may be {ids}; send a whole id")
        return found[0]

    def close(self) -> None:
        """Close the cache."""
        with self._lock:
            if self._memory is not None:
                self._memory.close()
                self._memory = None

    def _opened(self) -> Memory:
        if self._memory is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._folder / "sessions.db"
            has_items = file.exists()
            self._memory = Memory.open(
                file, namespace=_NAMESPACE, limits=MemoryLimits(max_age_days=None)
            )
            self._records = self._loaded() if has_items else {}
        return self._memory

    def _unread(self, files: Iterable[SessionFile]) -> dict[SessionFile, int]:
        """Return the files that have changed, each with the bytes of it that were not read."""
        unread = {file: file.unread(self._records.get(str(file.path))) for file in files}
        return {file: count for file, count in unread.items() if count is not None}

    def _forget_missing(self, memory: Memory, paths: set[str]) -> bool:
        missing = [record for path, record in self._records.items() if path not in paths]
        for record in missing:
            _forget(memory, record)
            del self._records[record.path]
        return bool(missing)

    def _read(self, memory: Memory, file: SessionFile, max_bytes: int) -> int:
        """Read up to this many bytes of a file into the index; return how many were read."""
        part = read_session(file, self._records.get(str(file.path)), max_bytes)
        record = part.record
        if part.begins_anew:
            _forget(memory, record)
        for batch in part.batches:
            memory.add(
                [
                    MemoryItem(text, kind=_KIND, source=record.source, trust=_TRUST, time=time)
                    for text, time in batch
                ]
            )
        self._records[record.path] = record
        return part.bytes

    @property
    def _list(self) -> Path:
        return self._folder / "sessions.jsonl"

    def _save(self) -> None:
        header = json.dumps({"format": "rehydrate sessions", "version": _VERSION})
        rows = (json.dumps(record.row) for record in self._records.values())
        write_lines(self._list, [header, *rows])

    def _loaded(self) -> dict[str, SessionRecord]:
        """Return the records of the last call; none if they cannot be read."""
        try:
            header, *rows = [json.loads(line) for line in lines_of(self._list)]
            if header["version"] != _VERSION:
                return {}
            records = list(map(SessionRecord.of, rows))
        except (InvalidArgumentError, ValueError, KeyError, TypeError, OverflowError):
            return {}
        return {record.path: record for record in records}


def transcript_roots(environ: Mapping[str, str] = os.environ) -> dict[Agent, Path]:
    """Return the folders with transcripts, by agent; they need not exist.

    >>> roots = transcript_roots({"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"})
    >>> [root.as_posix() for root in roots.values()]
    ['/c/projects', '/x/sessions']
    """
    claude = environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")  # noqa: PTH111
    codex = environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111
    return {"claude_code": Path(claude) / "projects", "codex": Path(codex) / "sessions"}


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the index; it need not exist.

    >>> cache_folder({"XDG_CACHE_HOME": "/cache/me"}).as_posix()
    '/cache/me/rehydrate'
    """
    models = models_home(environ)
    return models.with_name("cache") if environ.get("REHYDRATE_HOME") else models.parent


def _forget(memory: Memory, record: SessionRecord) -> None:
    items = memory.list(sources=[record.source], limit=None)
    if items:
        memory.forget([item.handle for item in items])


def _score(hits: Sequence[Hit]) -> float:
    """Return the best score, and less and less of the others: one good match is worth more than
    many poor ones, which a long session always has.
    """
    return sum(hit.score * 0.5**rank for rank, hit in enumerate(hits))


def _excerpt(hit: Hit) -> tuple[str, str]:
    time = hit.item.time
    return "" if time is None else time.isoformat(), clean_text(hit.snippet, EXCERPT_CHARS)
