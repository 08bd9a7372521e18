"""The sessions on this machine: transcripts of Claude Code and Codex, and the outline of one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rehydrate import _native, formats
from rehydrate.errors import InvalidMessageError
from rehydrate.memory.folder import CHARS_A_TOKEN
from rehydrate.messages import Conversation

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


def as_time(stamp: object) -> datetime | None:
    """Return a time from ISO 8601, UTC where it names no zone; None from anything else.

    >>> as_time("2026-02-17T09:30:00.123Z").isoformat()
    '2026-02-17T09:30:00.123000+00:00'
    """
    if not isinstance(stamp, str):
        return None
    try:
        time = datetime.fromisoformat(stamp)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


MAX_BYTES = 64_000_000
"""Of the end of a transcript; what is before is left out."""
MAX_NAMES = 400
TURN_CHARS = 300
FIRST_TURNS = 5
"""Of many user turns the first ones are shown, and the last ones."""


class SessionOutline(NamedTuple):
    """The subject of a session: its turns and names."""

    turns: tuple[tuple[str, str], ...]
    """The time and the words of user turns."""
    omitted_turns: int
    names: dict[str, list[str]]
    """By use: the tool that was called with them, or where they were."""
    messages: int
    broken_lines: int
    skipped_bytes: int


def outline_of(file: SessionFile, budget_tokens: int, max_turns: int) -> SessionOutline:
    """Return the outline of a transcript; names take about ``budget_tokens``. Raises OSError."""
    start = max(file.size - MAX_BYTES, 0)
    reader = _native.TranscriptReader(file.path, start, skips=start > 0)
    lines, conversation = _parsed(reader.objects(MAX_BYTES), file)
    turns: list[tuple[str, str]] = []
    for index in conversation.indices:
        for speaker, text in _native.said_in(lines[index]):
            if speaker == "user":
                time = as_time(lines[index].get("timestamp"))
                stamp = "" if time is None else time.isoformat()
                turns.append((stamp, _native.clean_text(text, TURN_CHARS)))
    omitted = max(len(turns) - max_turns, 0)
    if omitted:
        first = min(FIRST_TURNS, max_turns)
        turns = [*turns[:first], *turns[first + omitted :]]
    return SessionOutline(
        turns=tuple(turns),
        omitted_turns=omitted,
        names=_names(conversation, budget_tokens),
        messages=len(conversation.messages),
        broken_lines=reader.broken,
        skipped_bytes=start,
    )


def _parsed(lines: list[Any], file: SessionFile) -> tuple[list[Any], Conversation]:
    """Return the lines and the conversation in them; lines of no shape that the format has are
    left out."""

    def has_shape(line: Any) -> bool:
        try:
            formats.parse([line], file.agent)
        except InvalidMessageError:
            return False
        return True

    try:
        return lines, formats.parse(lines, file.agent)
    except InvalidMessageError:
        lines = list(filter(has_shape, lines))
    try:
        return lines, formats.parse(lines, file.agent)
    except InvalidMessageError:
        return [], formats.parse([], file.agent)


def _names(conversation: Conversation, budget_tokens: int) -> dict[str, list[str]]:
    if not conversation.messages:
        return {}
    index = _native.NameIndex()
    index.add(conversation, (), lambda _unit: "")
    best = index.best(MAX_NAMES)
    max_chars = int(budget_tokens * CHARS_A_TOKEN)
    text = _native.write_outline(best, "", lambda lines: len(lines) <= max_chars)
    names: dict[str, list[str]] = {}
    for name, heading, _ in _native.read_outline(text) or ():
        names.setdefault(heading, []).append(name)
    return names


def outline_lines(name: str, outline: SessionOutline) -> Iterator[str]:
    """Yield the outline as a model reads it."""
    yield f"Session {name}: {outline.messages:,} messages"
    if outline.broken_lines or outline.skipped_bytes:
        yield (
            f"({outline.broken_lines:,} lines could not be read; "
            f"{outline.skipped_bytes:,} bytes at the beginning were left out)"
        )
    yield "What the user said:"
    yield from _turn_lines(outline.turns, outline.omitted_turns)
    if outline.names:
        yield "Names by their use:"
        yield from (f"{heading}: {', '.join(names)}" for heading, names in outline.names.items())


def _turn_lines(turns: Sequence[tuple[str, str]], omitted: int) -> Iterator[str]:
    for number, (time, text) in enumerate(turns):
        if omitted and number == min(FIRST_TURNS, len(turns)):
            yield f"- [{omitted:,} more]"
        yield f"- {time[:16]} {' '.join(text.split())}".replace("-  ", "- ")
