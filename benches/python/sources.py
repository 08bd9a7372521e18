"""Where the conversations that are measured come from, and where each is cut.

They are not part of this repository. Their folder is an argument, or `REHYDRATE_DATA`, or
`../shared/data`; its README says what each file is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benches.python.inputs import ROOT
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
WITH_QUESTIONS = ("locomo", "beam")


class Source(NamedTuple):
    """The cuts of the sessions of one source, or its conversations with questions."""

    name: str
    cuts: Sequence[Cut] = ()
    chats: Sequence[Conversation] = ()

    @property
    def title(self) -> str:
        """Return its name, and whether it is worn."""
        return f"{self.name} ({'worn' if self.name in WORN else 'fresh'})"


def data_folder(named: str | None = None) -> Path | None:
    """Return the folder of the conversations, if it is there."""
    folder = Path(named or os.environ.get("REHYDRATE_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def read_sources(folder: Path, only: Sequence[str] = ()) -> Iterator[Source]:
    """Yield every source that is there, or only those that are named: fresh ones first."""
    groups: dict[str, list[Conversation]] = {}
    for kind, session in _fresh(folder):
        name = "coding" if kind in CODING_KINDS else kind
        if not only or name in only:
            groups.setdefault(name, []).append(session)
    for name, sessions in groups.items():
        cuts = _support_cuts(sessions) if name == "support" else cut_sessions(sessions, CODING_CUTS)
        yield Source(name, cuts)
    if not only or "beam" in only:
        yield Source("beam", chats=read_beam(folder / "fresh" / "beam.json"))
    if not only or "long coding" in only:
        yield Source("long coding", cut_sessions(long_sessions(folder), CODING_CUTS))
    if not only or "airline" in only:
        yield Source("airline", _support_cuts(read_tau_bench(folder / "airline_dev.json")))
    if not only or "locomo" in only:
        yield Source("locomo", chats=read_locomo(folder / "locomo_dev.json"))


def long_sessions(folder: Path) -> list[Conversation]:
    """Return the worn coding sessions that are long."""
    sessions = [read_claude_code(path) for path in sorted((folder / "claude_code").glob("*.jsonl"))]
    return [each for each in sessions if len(each.messages) > LONG_SESSION_MESSAGES]


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


def _support_cuts(sessions: Sequence[Conversation]) -> list[Cut]:
    return cut_sessions(sessions, SUPPORT_CUTS, min_messages=24, min_needed=3)


@cache
def _loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
