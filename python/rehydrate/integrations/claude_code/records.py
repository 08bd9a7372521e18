"""What the hooks keep between two processes: compactions and whole results, in one SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, NamedTuple, Self

BUSY_SECONDS = 0.2
"""A locked file is given up after this time: a hook must not be late."""
MAX_WHOLES = 2_000
"""Whole results that are kept; the oldest go first."""

_TABLES = """
CREATE TABLE IF NOT EXISTS compactions (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, project TEXT NOT NULL, at REAL NOT NULL,
    data TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_session ON compactions (session, id);
CREATE TABLE IF NOT EXISTS wholes (handle TEXT PRIMARY KEY, text TEXT NOT NULL, at REAL NOT NULL);
"""


class Compacted(NamedTuple):
    """One compaction, as the hooks saw it."""

    trigger: str = ""
    before_tokens: int = 0
    after_tokens: int = 0
    covered_pct: float = 0.0
    distilled: int = 0
    store: str = ""
    """The context store, as markdown."""
    excerpts: str = ""
    """Messages that were kept, verbatim."""
    names: tuple[str, ...] = ()
    """Paths, identifiers and numbers that were used before."""
    lost: tuple[str, ...] = ()
    """Names that the summary lacks."""
    put_back: tuple[str, ...] = ()
    """Those of the lost names that the store and the excerpts hold."""
    summary_chars: int = 0
    returned_chars: int = 0
    """What SessionStart gave back; 0 until it did."""
    milliseconds: float = 0.0
    degraded: tuple[str, ...] = ()


class Row(NamedTuple):
    """A compaction with its place in the file."""

    id: int
    session: str
    project: str
    at: float
    compacted: Compacted


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of Rehydrate's data: `$REHYDRATE_HOME`, else the platform's."""
    if home := environ.get("REHYDRATE_HOME"):
        return Path(home).expanduser()
    data = environ.get("XDG_DATA_HOME")
    if not data and sys.platform == "win32":
        data = environ.get("LOCALAPPDATA")
    return (Path(data) if data else Path.home() / ".local" / "share") / "rehydrate"


class Records:
    """The file of the hooks; raises sqlite3.Error where it cannot be used in time."""

    def __init__(self, folder: Path | None = None) -> None:
        """Open the file in the folder, or create it for this user alone."""
        folder = data_folder() if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "claude_code.db"
        if not path.exists():
            path.touch(mode=0o600)
        self._db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        self._db.executescript(_TABLES)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._db.close()

    def add(self, session: str, project: str, compacted: Compacted) -> None:
        """Keep a compaction."""
        self._db.execute(
            "INSERT INTO compactions (session, project, at, data) VALUES (?, ?, ?, ?)",
            (session, project, time(), json.dumps(compacted._asdict())),
        )

    def update(self, row: Row, **changes: Any) -> None:
        """Change a compaction that is kept."""
        self._db.execute(
            "UPDATE compactions SET data = ? WHERE id = ?",
            (json.dumps(row.compacted._replace(**changes)._asdict()), row.id),
        )

    def last(self, session: str) -> Row | None:
        """Return a session's last compaction."""
        rows = self.list(session)
        return rows[-1] if rows else None

    def list(self, session: str | None = None) -> list[Row]:
        """Return the compactions of a session, or all of them, oldest first."""
        where, values = ("", ()) if session is None else ("WHERE session = ?", (session,))
        query = f"SELECT id, session, project, at, data FROM compactions {where} ORDER BY id"  # noqa: S608
        return [Row(*row[:4], _compacted(row[4])) for row in self._db.execute(query, values)]

    def keep(self, text: str) -> str:
        """Keep a whole result, and return its handle."""
        handle = "whole_" + sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        self._db.execute("INSERT OR REPLACE INTO wholes VALUES (?, ?, ?)", (handle, text, time()))
        self._db.execute(
            "DELETE FROM wholes WHERE handle IN "
            "(SELECT handle FROM wholes ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MAX_WHOLES,),
        )
        return handle

    def whole(self, handle: str) -> str | None:
        """Return a whole result; None where there is none of this handle."""
        row = self._db.execute("SELECT text FROM wholes WHERE handle = ?", (handle,)).fetchone()
        return None if row is None else str(row[0])


def _compacted(data: str) -> Compacted:
    fields = json.loads(data)
    return Compacted(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
            if name in Compacted._fields
        }
    )
