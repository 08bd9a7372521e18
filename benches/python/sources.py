"""Where the conversations that are measured come from, and where each is cut.

They are not part of this repository. Their folder is an argument, or `REHYDRATE_DATA`, or
`../shared/data`; its README says what each file is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benches.python.inputs import ROOT
from benches.python.turns import WorkQuestion, about_lines, about_names
from rehydrate.retention import (
    CODING_CUTS,
    SUPPORT_CUTS,
    Conversation,
    Cut,
    Question,
    cut_sessions,
    read_claude_code,
    read_locomo,
    read_tau_bench,
)

LONG_SESSION_MESSAGES = 200
"""Worn sessions shorter than this are too short to be cut five times."""
CODING_KINDS = ("claude-code", "pi", "codex")
WORN = ("long coding", "airline", "locomo")
"""Sources that constants were fitted to: what they show is better than the world."""


class Source(NamedTuple):
    """The cuts of the sessions of one source, its chats with questions, or questions on work."""

    name: str
    cuts: Sequence[Cut] = ()
    chats: Sequence[Conversation] = ()
    work: Sequence[WorkQuestion] = ()

    @property
    def title(self) -> str:
        """Return its name, and whether it is worn."""
        return f"{self.name} ({'worn' if self.is_worn else 'fresh'})"

    @property
    def is_worn(self) -> bool:
        """Whether constants were fitted to it."""
        return self.name in WORN

    @property
    def kind(self) -> str:
        """Return what its cases are: cuts, questions or work."""
        return "cuts" if self.cuts else "work" if self.work else "questions"


def data_folder(named: str | None = None) -> Path | None:
    """Return the folder of the conversations, if it is there."""
    folder = Path(named or os.environ.get("REHYDRATE_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def read_sources(folder: Path, only: Sequence[str] = ()) -> Iterator[Source]:
    """Yield every source that is there, or only those that are named: fresh ones first."""
    fresh: dict[str, list[Conversation]] = {}
    for kind, session in _fresh(folder):
        name = "coding" if kind in CODING_KINDS else kind
        fresh.setdefault(name, []).append(session)
    coding, airline = fresh.get("coding", []), folder / "airline_dev.json"
    found: dict[str, Callable[[str], Source]] = {
        **{
            name: lambda name: Source(name, _cuts(name, fresh[name]))
            for name in ("coding", *fresh)
            if name in fresh
        },
        "beam": lambda name: Source(name, chats=read_beam(folder / "fresh" / "beam.json")),
        "work names": lambda name: Source(name, work=about_names(coding)),
        "work lines": lambda name: Source(name, work=about_lines(coding)),
        "long coding": lambda name: Source(name, _cuts(name, long_sessions(folder))),
        "airline": lambda name: Source(name, _cuts(name, read_tau_bench(airline))),
        "locomo": lambda name: Source(name, chats=read_locomo(folder / "locomo_dev.json")),
    }
    if unknown := [name for name in only if name not in found]:
        raise SystemExit(f"no source {unknown[0]!r}; choose from {', '.join(found)}")
    yield from (read(name) for name, read in found.items() if not only or name in only)


def long_sessions(folder: Path) -> list[Conversation]:
    """Return the worn coding sessions that are long."""
    sessions = [read_claude_code(path) for path in sorted((folder / "claude_code").glob("*.jsonl"))]
    return [each for each in sessions if len(each.messages) > LONG_SESSION_MESSAGES]


def all_conversations(folder: Path) -> list[Conversation]:
    """Return every conversation of every source."""
    paths = sorted((folder / "claude_code").glob("*.jsonl"))
    return [
        *(session for _, session in _fresh(folder)),
        *read_beam(folder / "fresh" / "beam.json"),
        *map(read_claude_code, paths),
        *read_tau_bench(folder / "airline_dev.json"),
        *read_locomo(folder / "locomo_dev.json"),
    ]


def read_beam(path: Path) -> list[Conversation]:
    """Read BEAM's long chats; `evidence` of a question is the indices of messages."""
    if not path.exists():
        return []
    return [
        Conversation(
            chat["name"],
            chat["messages"],
            "plain",
            tuple(
                Question(asked["question"], tuple(asked["evidence"])) for asked in chat["questions"]
            ),
        )
        for chat in _loaded(path)
    ]


def _fresh(folder: Path) -> Iterator[tuple[str, Conversation]]:
    """Yield the kind of each session that nobody tuned on, and the session."""
    for path in sorted((folder / "fresh").glob("*.json")):
        if path.name != "beam.json":
            session = _loaded(path)
            yield (
                session["kind"],
                Conversation(session["name"], session["messages"], session["format"]),
            )


def _cuts(name: str, sessions: Sequence[Conversation]) -> list[Cut]:
    if name in ("support", "airline"):
        return cut_sessions(sessions, SUPPORT_CUTS, min_messages=24, min_needed=3)
    return cut_sessions(sessions, CODING_CUTS)


@cache
def _loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
