"""The transcripts of Claude Code and Codex on this machine: their files, and what was said in them.

A transcript is read from where the last reading ended. Lines that are not JSON are counted and
passed over; so are lines too long to hold.

Chunks: what was said as memory items, a few exchanges each, without secrets.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rehydrate._native import (
    codex_kept,
    codex_line,
    codex_turns_taken_back,
    line_content,
    line_is_seen,
    line_is_users,
    transcript_branch,
)
from rehydrate._text import as_unicode, without_elements
from rehydrate.formats._reading import json_object

if TYPE_CHECKING:
    from rehydrate.memory.items import MemoryItem
    from rehydrate.memory.redaction import Redactor

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


MAX_LINE_BYTES = 8_000_000
"""A longer line holds a picture or a file, and nothing that was said."""

_HARNESS = re.compile(
    r"<(/?)(system-reminder|command-[a-z]+|local-command-[a-z]+|bash-[a-z]+"
    r"|environment_context|user_instructions|turn_aborted|skill)>"
)
"""Texts that either agent writes into the user's messages, next to the user's own words."""
_CODEX_NOTES = ("# AGENTS.md instructions", "<INSTRUCTIONS>")
_CODEX_ITEMS = frozenset({"message", "function_call", "custom_tool_call", "local_shell_call"})


class TranscriptReader:
    """Reads the objects of a JSON Lines file from an offset on."""

    def __init__(self, path: Path, offset: int = 0, *, skips: bool = False) -> None:
        """Take where to begin; with ``skips`` that is in the middle of a line to pass over."""
        self._path = path
        self.offset = offset
        """Where the next reading begins."""
        self.skips = skips
        self.broken = 0
        """Lines passed over since it was made: no JSON object, or too long."""
        self.is_at_end = False
        """Whether there was no more to read."""

    def objects(self, max_bytes: int) -> Iterator[dict[str, Any]]:
        """Yield the objects in about so many bytes; raises OSError."""
        with self._path.open("rb") as file:
            file.seek(self.offset)
            end = self.offset + max_bytes
            while self.offset < end:
                piece = file.readline(MAX_LINE_BYTES)
                is_whole = piece.endswith(b"\n")
                if not is_whole and len(piece) < MAX_LINE_BYTES:
                    # The end; the agent may be about to write the rest of the line.
                    self.is_at_end = True
                    value = None if self.skips else _object(piece)
                    if value is not None:
                        self.offset += len(piece)
                        yield value
                    return
                self.offset += len(piece)
                if self.skips or not is_whole:
                    self.broken += is_whole
                    self.skips = not is_whole
                    continue
                value = _object(piece)
                if value is not None:
                    yield value
                elif piece.strip():
                    self.broken += 1


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def line_in(data: Any, name: str, before: int) -> tuple[dict[str, Any], int]:
    """Return the line of this id that is the last one before an offset, and where it begins; an
    empty one, and 0, where there is none. ``data`` is the file, as bytes or mapped."""
    needle = json.dumps(name).encode()
    while (found := data.rfind(needle, 0, before)) >= 0:
        start = data.rfind(b"\n", 0, found) + 1
        end = data.find(b"\n", found)
        line = _object(data[start : end if end >= 0 else len(data)][:MAX_LINE_BYTES])
        if line is not None and line.get("uuid") == name:
            return line, start
        before = start
    return {}, 0


class Said(NamedTuple):
    """Something said or done in a session."""

    speaker: Literal["user", "assistant", "call"]
    text: str
    time: datetime | None


def message_of(line: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the message or the item in a line of either agent, in the shape that its API has; a
    line of Claude Code stays around it. None for any other line."""
    if line_is_seen(line):
        return line if line_content(line) is not None else None
    payload = line.get("payload")
    item = payload if line.get("type") == "response_item" else line
    if isinstance(item, Mapping) and item.get("type") in _CODEX_ITEMS:
        return item
    return None


def said_in(line: Mapping[str, Any]) -> Iterator[Said]:
    """Yield what the user and the assistant said in a line, and what tools were called with.

    >>> line = {"type": "user", "message": {"role": "user", "content": "Fix the login."}}
    >>> [said.text for said in said_in(line)]
    ['Fix the login.']
    """
    message = message_of(line)
    if message is None or line.get("isSidechain") or line.get("isApiErrorMessage"):
        return
    time = time_of(line)
    try:
        text = words_of_user(message)
        if text:
            yield Said("user", text, time)
        body = _body(message)
        if body.get("role") == "assistant":
            text = "\n".join(_texts(body.get("content"))).strip()
            if text:
                yield Said("assistant", text, time)
        for name, values in _calls(body):
            yield Said("call", f"{name} {' '.join(values.split())}".strip(), time)
    except (AttributeError, TypeError, RecursionError):
        return  # a message of no shape that we know


class Link(NamedTuple):
    """The fields that decide whether a line is still part of the conversation, without its text."""

    line: dict[str, Any]
    """Of Claude Code's, what its tree asks of a line."""
    is_turn: bool = False
    """Of Codex', whether it is a turn of the user's."""
    taken_back: int = 0
    """Of Codex', how many turns it takes back."""

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Link:
        """Take what is asked of a line."""
        made = {key: line[key] for key in _LINK_KEYS if key in line}
        if isinstance(line.get("payload"), Mapping):
            found = codex_line(line, 0)
            is_turn = found is not None and found[3]
            return cls(made, is_turn, codex_turns_taken_back(line))
        message = line.get("message")
        if isinstance(message, Mapping):
            content = message.get("content")
            blocks = content if isinstance(content, list) else []
            ids = [
                {key: block[key] for key in _BLOCK_KEYS if isinstance(block.get(key), str)}
                for block in blocks
                if isinstance(block, Mapping)
            ]
            said = ids if ids else "said" if line_content(line) else ""
            made["message"] = {"id": message.get("id"), "content": said}
        elif line_is_seen(line):
            made["attachment"] = {"type": "queued_command", "prompt": "said"}
        return cls(made)

    @property
    def is_said(self) -> bool:
        """Whether the model may have seen it."""
        return line_is_seen(self.line)


_LINK_KEYS = (
    *("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "timestamp", "isSidechain"),
    *("isMeta", "isCompactSummary", "isApiErrorMessage", "sourceToolUseID", "parent_tool_use_id"),
)
_BLOCK_KEYS = ("type", "id", "tool_use_id")


def kept(links: Sequence[Link]) -> list[bool]:
    """Return for each line whether the conversation went on from it."""
    branch = transcript_branch([link.line for link in links])
    if branch is None:
        return codex_kept([link.is_turn for link in links], [link.taken_back for link in links])
    found = set(branch)
    return [number in found for number in range(len(links))]


def words_of_user(message: Mapping[str, Any]) -> str:
    """Return what the user said in a message: nothing that either agent adds to it.

    >>> said = "<environment_context>x</environment_context>Go."
    >>> words_of_user({"role": "user", "content": said})
    'Go.'
    """
    body = _body(message)
    if body.get("role") != "user" or not line_is_users(message):
        return ""
    content = body.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    said = "\n".join([text for text in texts if isinstance(text, str)])
    text = without_elements(said, _HARNESS).strip()
    return "" if text.startswith(_CODEX_NOTES) else text


def _body(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message of the API in a line of either agent, or the message itself."""
    if "role" not in message:
        for key in ("message", "payload"):
            inner = message.get(key)
            if isinstance(inner, Mapping):
                return inner
        queued = message.get("attachment")
        if isinstance(queued, Mapping):
            return {"role": "user", "content": queued.get("prompt")}
    return message


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, Mapping) and block.get("type") in ("text", "output_text"):
                text = block.get("text")
                if isinstance(text, str):
                    yield text


def _calls(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each tool that is called, and the values that it is called with."""
    kind = body.get("type")
    if kind == "function_call":
        arguments = body.get("arguments")
        read = json_object(arguments)
        yield str(body.get("name", "")), _values(arguments if read is None else read)
    elif kind == "custom_tool_call":
        yield str(body.get("name", "")), str(body.get("input", ""))
    elif kind == "local_shell_call":
        action = body.get("action")
        command = action.get("command") if isinstance(action, Mapping) else None
        yield "shell", " ".join(map(str, command)) if isinstance(command, list) else ""
    content = body.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            yield str(block.get("name", "")), _values(block.get("input"))


def _values(value: object) -> str:
    """Return the texts and numbers in a JSON value, without the keys.

    >>> _values({"path": "src/rows.py", "lines": [3, 9], "quiet": True})
    'src/rows.py 3 9'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    inner = value.values() if isinstance(value, Mapping) else value
    return " ".join(filter(None, map(_values, inner))) if isinstance(inner, Iterable) else ""


def time_of(line: Mapping[str, Any]) -> datetime | None:
    """Return the time of a line, to the millisecond; None where it tells none.

    >>> time_of({"timestamp": "2026-02-17T09:30:00.123Z"}).isoformat()
    '2026-02-17T09:30:00.123000+00:00'
    """
    return as_time(line.get("timestamp"))


def as_time(stamp: object) -> datetime | None:
    """Return a time from ISO 8601, UTC where it names no zone; None from anything else."""
    if not isinstance(stamp, str):
        return None
    try:
        time = datetime.fromisoformat(stamp)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def project_of(line: Mapping[str, Any]) -> str:
    """Return the folder that the agent works in, where the line tells it."""
    payload = line.get("payload")
    for place in (line, payload):
        if isinstance(place, Mapping) and isinstance(place.get("cwd"), str):
            return str(place["cwd"])
    return ""


KIND = "session"
TRUST = 0.5
"""A tool may have put anything into a transcript."""
CHUNK_CHARS = 1_500
"""A chunk ends when it has so many, or where the user speaks again."""
PIECE_CHARS = 1_000
"""Of one text; what a user pastes is longer, and says less."""
CALL_CHARS = 200
READ_CHARS = 20_000
"""Of one text that secrets are looked for in. It is cut again far before that, so that no half of a
secret stays at the end."""


class Chunks:
    """Collects what was said into items of one source.

    >>> chunks = Chunks("session/1", datetime(2026, 2, 17, tzinfo=UTC))
    >>> line = {"type": "user", "message": {"role": "user", "content": "Fix the login."}}
    >>> chunks.add(said_in(line))
    >>> [item.text for item in chunks.take()]
    ['user: Fix the login.']
    """

    def __init__(self, source: str, default: datetime) -> None:
        """Start empty; ``default`` is the time of what tells none."""
        self._source = source
        self._default = default
        self._items: list[MemoryItem] = []
        self._lines: list[str] = []
        self._chars = 0
        self._time: datetime | None = None

    def add(self, said: Iterable[Said]) -> None:
        """Add what was said."""
        for each in said:
            if each.speaker == "user":
                self._end_chunk()
            self._add(each)

    def take(self) -> list[MemoryItem]:
        """Return the items so far, and start again."""
        self._end_chunk()
        items, self._items = self._items, []
        return items

    def _add(self, said: Said) -> None:
        if self._time is None:
            self._time = said.time or self._default
        text = clean(said.text, CALL_CHARS if said.speaker == "call" else PIECE_CHARS)
        self._lines.append(f"{said.speaker}: {text}")
        self._chars += len(text)
        if self._chars >= CHUNK_CHARS:
            self._end_chunk()

    def _end_chunk(self) -> None:
        if self._lines:
            from rehydrate.memory.items import MemoryItem

            text = "\n".join(self._lines)
            self._items.append(
                MemoryItem(text, kind=KIND, source=self._source, trust=TRUST, time=self._time)
            )
        self._lines, self._chars, self._time = [], 0, None


@cache
def _redactor() -> Redactor:
    from rehydrate.memory.redaction import Redactor

    return Redactor()


def clean(text: str, max_chars: int) -> str:
    """Return the beginning of a text without secrets, as UTF-8 can hold it.

    >>> clean("password=hunter2-hunter2 is it", 40)
    'password=[redacted:password] is it'
    """
    whole = _redactor()(as_unicode(text[:READ_CHARS])).text
    return whole if len(whole) <= max_chars else f"{whole[:max_chars].rstrip()}..."
