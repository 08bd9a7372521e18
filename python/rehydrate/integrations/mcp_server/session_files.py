"""transcripts: those of Claude Code and Codex on this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

Agent = Literal["claude_code", "codex"]
AGENTS: tuple[Agent, ...] = get_args(Agent)

MAX_FILES = 20_000
"""The newest ones; who has more finds the older ones by hand."""
_ID_CHARS = 36
"""Of the UUID at the end of a name that Codex gives."""


class SessionFile(NamedTuple):
    """One transcript, as its folder lists it."""

    path: Path
    agent: Agent
    size: int
    mtime_ns: int

    @property
    def id(self) -> str:
        """The agent's own name for the session.

        >>> name = "rollout-2026-02-17T09-30-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
        >>> SessionFile(Path(name), "codex", 1, 1).id
        '0199a213-81c0-7800-8aa1-bbab2a035a53'
        """
        name = self.path.stem
        return name[-_ID_CHARS:] if self.agent == "codex" and len(name) > _ID_CHARS else name


def transcript_roots(environ: Mapping[str, str] = os.environ) -> dict[Agent, Path]:
    """Return the folders with transcripts, by agent; they need not exist.

    >>> roots = transcript_roots({"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"})
    >>> [root.as_posix() for root in roots.values()]
    ['/c/projects', '/x/sessions']
    """
    claude = environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")  # noqa: PTH111
    codex = environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111
    return {"claude_code": Path(claude) / "projects", "codex": Path(codex) / "sessions"}


def transcripts(roots: Mapping[Agent, Path]) -> list[SessionFile]:
    """Return the transcripts in these folders, the last changed first.

    Links are not followed. A folder that cannot be read is left out. So are subagents' files: their
    results are in the session that started them.
    """
    found = [file for agent, root in roots.items() for file in _files(agent, root)]
    found.sort(key=lambda file: (-file.mtime_ns, file.path))
    return found[:MAX_FILES]


def _files(agent: Agent, root: Path) -> Iterator[SessionFile]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in names:
            if not name.endswith(".jsonl") or name.startswith("agent-"):
                continue
            path = Path(folder, name)
            try:
                status = path.lstat()
            except OSError:
                continue  # it was removed just now
            if stat.S_ISREG(status.st_mode) and status.st_size:
                yield SessionFile(path, agent, status.st_size, status.st_mtime_ns)
