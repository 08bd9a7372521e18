"""Home: the one data folder that the hooks, their MCP server and the command line share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rehydrate.memory.store import folder_named

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
        """What the hooks tell one another, and `rehydrate claude report`."""
        return self.folder / "hooks.db"

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
