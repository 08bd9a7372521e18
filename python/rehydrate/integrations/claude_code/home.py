"""Home: the one data folder that the hooks, their MCP server and the command line share.

Records: what the hooks tell one another, and `rehydrate claude report`, in one SQLite file there.
It is a file of its own: the engine's files are opened by the engine alone.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rehydrate._jsonl import folder_named

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads
    from rehydrate.memory.memory import Memory

_MAX_PARENTS = 64


class Home(NamedTuple):
    """The folder, and what is in it. Nothing is made before it is written to.

    >>> Home.of({"REHYDRATE_HOME": "/data"}).memory.as_posix()
    '/data/memory.db'
    """

    folder: Path

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """Return `$REHYDRATE_HOME`, else the platform's folder for data of programs."""
        if home := environ.get("REHYDRATE_HOME"):
            return cls(folder_named("REHYDRATE_HOME", home))
        data = environ.get("XDG_DATA_HOME")
        if not data and sys.platform == "win32":
            data = environ.get("LOCALAPPDATA")
        return cls((Path(data) if data else Path.home() / ".local" / "share") / "rehydrate")

    @property
    def memory(self) -> Path:
        """The memories; a project is a namespace."""
        return self.folder / "memory.db"

    @property
    def threads(self) -> Path:
        """The sessions, each a stored thread in the namespace of its project."""
        return self.folder / "threads.db"

    @property
    def records(self) -> Path:
        """The file by which the hooks inform one another and `rehydrate claude report`."""
        return self.folder / "hooks.db"

    @property
    def failure(self) -> Path:
        """The text that says why a hook last failed, or refused its input."""
        return self.folder / "last_failure.txt"

    def open_memory(self, project: str) -> Memory:
        """Open a project's memory; raises StoreError."""
        from rehydrate.memory.memory import Memory

        self.make()
        return Memory.open(self.memory, namespace=project)

    def open_threads(self, project: str) -> Threads:
        """Open a project's sessions; raises StoreError."""
        from rehydrate.context.threads import Threads

        self.make()
        return Threads.open(self.threads, namespace=project)

    def make(self) -> None:
        """Make the folder, for this user alone."""
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def project_of(cwd: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the project's folder, the namespace of its memories and sessions.

    That is what Claude Code says, else the repository around the working folder, else the folder.

    >>> project_of("/work/shop/src", {"CLAUDE_PROJECT_DIR": "/work/shop"})
    '/work/shop'
    """
    named = environ.get("CLAUDE_PROJECT_DIR") or ""
    folder = Path(named or cwd or Path.cwd())
    if not named:
        for above in [folder, *folder.parents][:_MAX_PARENTS]:
            if (above / ".git").exists():
                folder = above
                break
    return folder.as_posix().rstrip("/") or "/"


MAX_COMPACTIONS = 2_000
"""The maximum over all sessions; the oldest go first."""
BUSY_SECONDS = 0.2
"""A locked file is given up after this time: a hook must not be late."""

_TABLES = """
CREATE TABLE IF NOT EXISTS compactions (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, project TEXT NOT NULL, at REAL NOT NULL,
    data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_session ON compactions (session, id);
CREATE TABLE IF NOT EXISTS transcripts (
    path TEXT PRIMARY KEY, offset INTEGER NOT NULL, skips INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS shown (
    session TEXT NOT NULL, handle TEXT NOT NULL, PRIMARY KEY (session, handle)) WITHOUT ROWID;
"""


class Compacted(NamedTuple):
    """One compaction, as the hooks saw it."""

    trigger: str = ""
    before_tokens: int = 0
    """Tokens of the last turns, as they were."""
    after_tokens: int = 0
    """Tokens of the turns that the engine would keep."""
    covered_pct: float = 0.0
    distilled: int = 0
    """New memories."""
    store: str = ""
    """The context store, as markdown."""
    excerpts: str = ""
    """The turns that matter most for the task, verbatim, long ones in part."""
    names: tuple[str, ...] = ()
    """Paths, identifiers and numbers that were used before."""
    lost: tuple[str, ...] = ()
    """Names that the summary lacks."""
    put_back: tuple[str, ...] = ()
    """Those of the lost names that were put back."""
    summary_chars: int = 0
    """0: the agent tells no summary."""
    returned_chars: int = 0
    """Length of what SessionStart gave back; 0: none, or not yet."""
    milliseconds: float = 0.0
    problems: tuple[str, ...] = ()


class CompactionRow(NamedTuple):
    """A compaction and whose it was."""

    id: int
    session: str
    project: str
    at: float
    """Seconds since 1970."""
    compacted: Compacted


class Records:
    """The file of the hooks; raises sqlite3.Error or OSError if it cannot be used in time.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder, Records(Home(Path(folder))) as records:
    ...     row = records.add("s-1", "/work/shop", Compacted(trigger="auto"))
    ...     print(records.update(row, returned_chars=9_000).compacted.returned_chars)
    ...     print(records.list("s-1")[-1].compacted.trigger)
    9000
    auto
    """

    def __init__(self, home: Home) -> None:
        """Open the file, or create it for this user alone."""
        import sqlite3  # 5 ms that most hooks do not need

        home.make()
        if not home.records.exists():
            home.records.touch(mode=0o600)
        self._db = sqlite3.connect(home.records, timeout=BUSY_SECONDS, isolation_level=None)
        self._db.executescript(_TABLES)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the file."""
        self._db.close()

    def add(self, session: str, project: str, compacted: Compacted) -> CompactionRow:
        """Keep a compaction. What was shown before it may be shown again."""
        now = time()
        added = self._db.execute(
            "INSERT INTO compactions (session, project, at, data) VALUES (?, ?, ?, ?)",
            (session, project, now, json.dumps(compacted._asdict())),
        )
        self._db.execute("DELETE FROM shown WHERE session = ?", (session,))
        self._db.execute(
            "DELETE FROM compactions WHERE id <= ?", ((added.lastrowid or 0) - MAX_COMPACTIONS,)
        )
        return CompactionRow(added.lastrowid or 0, session, project, now, compacted)

    def update(self, row: CompactionRow, **changes: Any) -> CompactionRow:
        """Change a compaction that is kept, and return it as it is then."""
        row = row._replace(compacted=row.compacted._replace(**changes))
        self._db.execute(
            "UPDATE compactions SET data = ? WHERE id = ?",
            (json.dumps(row.compacted._asdict()), row.id),
        )
        return row

    def last(self, session: str) -> CompactionRow | None:
        """Return a session's last compaction."""
        rows = self.list(session)
        return rows[-1] if rows else None

    def list(self, session: str | None = None) -> builtins.list[CompactionRow]:
        """Return the compactions of a session, or all of them, oldest first."""
        where, values = ("", ()) if session is None else ("WHERE session = ?", (session,))
        query = f"SELECT id, session, project, at, data FROM compactions {where} ORDER BY id"
        rows = self._db.execute(query, values)
        return [
            CompactionRow(number, whose, project, at, _compacted(data))
            for number, whose, project, at, data in rows
        ]

    def offset(self, path: str) -> tuple[int, bool] | None:
        """Return how far a transcript was read, and whether that is in the middle of a line."""
        query = "SELECT offset, skips FROM transcripts WHERE path = ?"
        row = self._db.execute(query, (path,)).fetchone()
        return None if row is None else (int(row[0]), bool(row[1]))

    def note_offset(self, path: str, offset: int, skips: bool) -> None:
        """Note how far a transcript was read."""
        self._db.execute(
            "INSERT OR REPLACE INTO transcripts VALUES (?, ?, ?)", (path, offset, int(skips))
        )

    def unshown(self, session: str, handles: Iterable[str]) -> builtins.list[str]:
        """Return those of the memories that the session was not shown since its last compaction,
        and note that it is now."""
        return [
            handle
            for handle in handles
            if self._db.execute(
                "INSERT OR IGNORE INTO shown VALUES (?, ?)", (session, handle)
            ).rowcount
        ]


def _compacted(data: str) -> Compacted:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(data).items()
        if name in Compacted._fields
    }
    return Compacted(**known)
