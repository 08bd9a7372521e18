"""SessionIndex: the transcripts on this machine, found by meaning, by names and by time.

What was said is kept as items of a `Memory` in the user's cache folder, without secrets. A list of
the files next to it says how far each was read, so that a call reads only what is new, and no more
than a limit. The cache may be deleted at any time.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from rehydrate._jsonl import lines_of, write_lines
from rehydrate._native import SessionPart, TranscriptReader, clean_text
from rehydrate.embedding.model_files import models_home
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.mcp_server.jobs import Job, shown
from rehydrate.integrations.mcp_server.session_files import Agent, SessionFile, as_time, transcripts
from rehydrate.memory.items import MemoryItem, MemoryLimits
from rehydrate.memory.memory import Memory
from rehydrate.prompt.request import TimeRange

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit

MAX_BYTES = 128_000_000
"""Of transcripts that one call reads: about a second."""
HITS = 200
EXCERPTS = 3
EXCERPT_CHARS = 600
_NAMESPACE = "sessions"
_KIND = "session"
_TRUST = 0.5
"""A tool may have put anything into a transcript."""
_VERSION = 2
_HEAD_BYTES = 256
_MIN_PREFIX = 6


@dataclass(slots=True)
class SessionRecord:
    """One transcript as the index knows it."""

    path: str
    agent: Agent
    id: str
    size: int = 0
    mtime_ns: int = 0
    offset: int = 0
    """How far it was read."""
    skips: bool = False
    """Whether that is in the middle of a line to pass over."""
    is_at_end: bool = False
    head: str = ""
    """A digest of the first bytes: another one, and it is another file."""
    title: str = ""
    project: str = ""
    first: str = ""
    last: str = ""
    broken: int = 0
    tips: tuple[str, ...] = ()
    """The ids of the last line that was said, and of those after it: who names another one went
    back."""

    @property
    def source(self) -> str:
        """The source of its items: a digest, in which no secret can be."""
        return f"session/{blake2b(os.fsencode(self.path), digest_size=8).hexdigest()}"

    def is_current(self, file: SessionFile) -> bool:
        """Return whether there is nothing new to read."""
        return self.is_at_end and (self.size, self.mtime_ns) == (file.size, file.mtime_ns)

    def within(self, span: TimeRange) -> bool:
        """Return whether any of it may have been said in this time."""
        first, last = as_time(self.first), as_time(self.last)
        starts_in_time = span.before is None or first is None or first < span.before
        return starts_in_time and (span.after is None or last is None or last >= span.after)


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
        self._roots = roots
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
            new = [file for file in files if not self._is_current(file)]
            total = min(sum(map(self._unread_bytes, new)), self._max_bytes)
            left = self._max_bytes
            for file in new:
                if left <= 0 or job.is_cancelled:
                    break
                left -= self._read(memory, file, left)
                changed = True
                job.report(self._max_bytes - left, max(total, self._max_bytes - left), file.id)
            if changed:
                self._save()
            rest = [file for file in new if not self._is_current(file)]
            return Unread(len(rest), sum(map(self._unread_bytes, rest)))

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
                if record.within(span)
                and agent in (None, record.agent)
                and project.casefold() in f"{record.project}\n{record.path}".casefold()
            }
        if not query.strip():
            last = sorted(wanted.values(), key=lambda record: record.last, reverse=True)
            return [FoundSession(record, 0.0, ()) for record in last[:limit]]
        hits: dict[str, list[Hit]] = defaultdict(list)
        for hit in memory.search(query, HITS, after=span.after, before=span.before):
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

    def _is_current(self, file: SessionFile) -> bool:
        record = self._records.get(str(file.path))
        return record is not None and record.is_current(file)

    def _unread_bytes(self, file: SessionFile) -> int:
        record = self._records.get(str(file.path))
        return max(file.size - (record.offset if record else 0), 0)

    def _forget_missing(self, memory: Memory, paths: set[str]) -> bool:
        missing = [record for path, record in self._records.items() if path not in paths]
        for record in missing:
            _forget(memory, record)
            del self._records[record.path]
        return bool(missing)

    def _read(self, memory: Memory, file: SessionFile, max_bytes: int) -> int:
        """Read up to so many bytes of a file into the index; return how many were read."""
        path = str(file.path)
        record = self._records.get(path)
        try:
            head = _head(file.path)
            if record is None or record.offset > file.size or record.head not in ("", head):
                record = _anew(memory, SessionRecord(path, file.agent, file.id))
            start = record.offset
            reader = TranscriptReader(file.path, start, skips=record.skips)
            part = SessionPart(reader, max_bytes, record.tips, as_time)
            if start and reader.offset <= max_bytes and part.went_back:
                # What was said is to be read again as a whole, without what was taken back.
                record = _anew(memory, record)
                reader = TranscriptReader(file.path)
                part = SessionPart(reader, max_bytes, (), as_time)
            if file.size >= _HEAD_BYTES:
                record.head = head
            changed = datetime.fromtimestamp(file.mtime_ns / 1e9, UTC)
            _note(record, part)
            for batch in part.batches:
                memory.add([_item(record, text, time or changed) for text, time in batch])
        except OSError:
            record = record or SessionRecord(path, file.agent, file.id)
            record.is_at_end = True  # it cannot be read; it is tried again when it changes
            record.size, record.mtime_ns = file.size, file.mtime_ns
            self._records[path] = record
            return 0
        record.offset, record.skips = reader.offset, reader.skips
        record.is_at_end = reader.is_at_end or reader.offset >= file.size
        record.broken += reader.broken
        record.size, record.mtime_ns = file.size, file.mtime_ns
        record.last = record.last or changed.isoformat()
        self._records[path] = record
        return max(reader.offset - start, 1)

    @property
    def _list(self) -> Path:
        return self._folder / "sessions.jsonl"

    def _save(self) -> None:
        header = json.dumps({"format": "rehydrate sessions", "version": _VERSION})
        rows = (json.dumps(asdict(record)) for record in self._records.values())
        write_lines(self._list, [header, *rows])

    def _loaded(self) -> dict[str, SessionRecord]:
        """Return the records of the last call; none where they cannot be read."""
        try:
            header, *rows = [json.loads(line) for line in lines_of(self._list)]
            if header["version"] != _VERSION:
                return {}
            records = [
                SessionRecord(**{name: row[name] for name in _FIELDS} | {"tips": (*row["tips"],)})
                for row in rows
            ]
        except (InvalidArgumentError, ValueError, KeyError, TypeError):
            return {}
        return {record.path: record for record in records}


_FIELDS = tuple(field.name for field in fields(SessionRecord))


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the index; it need not exist.

    >>> cache_folder({"XDG_CACHE_HOME": "/cache/me"}).as_posix()
    '/cache/me/rehydrate'
    """
    models = models_home(environ)
    return models.with_name("cache") if environ.get("REHYDRATE_HOME") else models.parent


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return blake2b(file.read(_HEAD_BYTES), digest_size=8).hexdigest()


def _note(record: SessionRecord, part: SessionPart) -> None:
    """Note what lines tell of their session as a whole."""
    record.tips = part.tips
    record.project = record.project or part.project
    record.title = part.title or record.title or part.words
    if part.times is not None:
        first, last = part.times
        record.first = min(record.first or first, first)
        record.last = max(record.last, last)


def _item(record: SessionRecord, text: str, time: datetime) -> MemoryItem:
    return MemoryItem(text, kind=_KIND, source=record.source, trust=_TRUST, time=time)


def _anew(memory: Memory, record: SessionRecord) -> SessionRecord:
    """Forget what is known of a file, and return its record as before the first reading."""
    _forget(memory, record)
    return SessionRecord(record.path, record.agent, record.id)


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
