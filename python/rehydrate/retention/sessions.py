"""Sessions in files and folders, in any format that rehydrate reads, as conversations.

A file is a JSON array of messages, JSON Lines, a Claude Code transcript, the body of a request or
of a response, a trajectory (SWE-agent's ``.traj``, tau-bench), a LoCoMo file, or several of these:
an array of conversations, or one a line. Unreadable files are skipped and listed with the reason.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rehydrate import formats
from rehydrate.errors import InvalidMessageError, UnreadableSessionError
from rehydrate.retention.datasets import Conversation, Summary, locomo, tau_bench
from rehydrate.retention.reading import Message, is_summary, is_system

SUFFIXES = (".jsonl", ".json", ".traj", ".ndjson")
"""Suffixes of files in a folder that may hold a session."""
EXPECTED = "pass a JSON array of messages, JSON Lines, or a Claude Code transcript"
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})
# The keys under which an object keeps its messages, best first: a request, a trajectory, a
# Responses request, a response.
_LISTS = ("messages", "history", "traj", "trajectory", "conversation", "input", "output")


class Skipped(NamedTuple):
    """A file or a session that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Sessions:
    """The conversations read, those skipped, and the number of files."""

    conversations: tuple[Conversation, ...]
    skipped: tuple[Skipped, ...] = ()
    files: int = 0
    files_read: int = 0
    more: int = 0
    """Sessions that were read but not taken, since there were enough."""


def read_sessions(
    paths: Iterable[str | Path],
    *,
    limit: int | None = None,
    is_wanted: Callable[[Conversation], str] = lambda _: "",
    seed: int = 0,
    advance: Callable[[int], object] = lambda _: None,
) -> Sessions:
    """Read the sessions of these files and folders; an unreadable one is skipped, with the reason.

    ``is_wanted`` returns why a session is not suitable, or "". With a ``limit``, at most that many
    sessions are taken, spread over the files. If there are more files than that, they are read in a
    random order (the same for the same ``seed``) until enough hold a suitable one. ``advance`` is
    called after each file.

    Raises UnreadableSessionError for a path that does not exist.
    """
    files = session_files(paths)
    order = list(files)
    if limit is not None and len(files) > limit:
        random.Random(seed).shuffle(order)
    found: dict[Path, list[Conversation]] = {}
    skipped: list[Skipped] = []
    read = 0
    for path in order:
        if limit is not None and len(found) >= limit:
            break
        read += 1
        sessions, unread = _readable(path)
        skipped += unread
        for session in sessions:
            if reason := is_wanted(session):
                skipped.append(Skipped(session.name, reason))
            else:
                found.setdefault(path, []).append(session)
        advance(1)
    groups = [found[path] for path in files if path in found]
    count = sum(map(len, groups))
    chosen = evenly(groups, count if limit is None else limit, seed)
    conversations = _with_unique_names([groups[group][index] for group, index in chosen])
    return Sessions(
        tuple(conversations), tuple(skipped), len(files), read, count - len(conversations)
    )


def evenly(groups: Sequence[Sequence[Any]], limit: int, seed: int = 0) -> list[tuple[int, int]]:
    """Choose at most `limit` of all, as (group, index): one of each group, then a second of each.

    Groups and their members are chosen in a random order, the same for the same seed. The result is
    in the order of the groups.

    >>> evenly(["ab", "cdefgh"], 4)
    [(0, 0), (0, 1), (1, 0), (1, 2)]
    """
    if sum(map(len, groups)) <= limit:
        return [(group, index) for group, each in enumerate(groups) for index in range(len(each))]
    draw = random.Random(seed)
    order = draw.sample(range(len(groups)), len(groups))
    shuffled = [
        [(g, index) for index in draw.sample(range(len(groups[g])), len(groups[g]))] for g in order
    ]
    in_turn = [each for turn in zip_longest(*shuffled) for each in turn if each is not None]
    return sorted(in_turn[:limit])


def session_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files named, and those in folders that may hold sessions, each once."""
    files: dict[Path, None] = {}
    for named in paths:
        path = Path(named)
        try:
            is_folder = path.is_dir()
            is_there = is_folder or path.exists()
        except (OSError, ValueError) as error:  # a null byte in the path
            raise UnreadableSessionError(named, str(error), "check the path") from None
        if not is_there:
            raise UnreadableSessionError(named, "no such file or folder", "check the path")
        files.update(dict.fromkeys(_files_in(path) if is_folder else [path]))
    return list(files)


def read_session_file(path: str | Path) -> list[Conversation]:
    """Return every session in a file; raises UnreadableSessionError where one cannot be read."""
    path = Path(path)
    return _last_of_each([_conversation(*each, path) for each in _values(path)])


def read_session(messages: Sequence[Message], name: str = "session") -> Conversation:
    """Return a session's messages as a model saw them: no progress lines, and no system prompt.

    A summary that an agent wrote when its window was full is kept beside the messages that it
    replaced. Raises InvalidMessageError for an entry that is no message.

    >>> prompt, hi = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
    >>> read_session([prompt, hi]).messages
    [{'role': 'user', 'content': 'Hi'}]
    """
    format = formats.detect_format(messages)  # noqa: A001  the field's word
    spoken: list[Message] = []
    summaries: list[Summary] = []
    for message in formats.parse(messages, format).messages:
        entry = messages[message.index]
        if is_summary(entry) and len(spoken) > (summaries[-1].end if summaries else 0):
            summaries.append(Summary(entry, summaries[-1].end if summaries else 0, len(spoken)))
        elif not is_system(entry):
            spoken.append(entry)
    return Conversation(name, spoken, format, (), tuple(summaries))


def _files_in(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        yield from (Path(root, name) for name in sorted(names) if name.endswith(SUFFIXES))


def _readable(path: Path) -> tuple[list[Conversation], list[Skipped]]:
    """Return the readable sessions of a file, and why others are not readable."""
    sessions: list[Conversation] = []
    skipped: list[Skipped] = []
    try:
        values = _values(path)
    except UnreadableSessionError as error:
        return [], [Skipped(error.path, f"{error.problem}; {error.remedy}")]
    for value, name in values:
        try:
            sessions.append(_conversation(value, name, path))
        except UnreadableSessionError as error:
            skipped.append(Skipped(f"{path}, {name}", f"{error.problem}; {error.remedy}"))
    if not sessions:  # the first reason stands for all of them
        return [], [Skipped(str(path), skipped[0].reason)]
    return _last_of_each(sessions), skipped


def _values(path: Path) -> list[tuple[Any, str]]:
    """Return the raw conversations in a file, with a name for each."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableSessionError(path, reason, "make it readable") from None
    except ValueError:
        raise UnreadableSessionError(path, "it is not UTF-8", "convert it with iconv") from None
    if not text.strip():
        raise UnreadableSessionError(path, "it is empty", EXPECTED)
    values = [_unwrapped(value) for value in _parsed(text, path)]
    if all(map(_is_entry, values)):
        values = [values]
    if len(values) == 1:
        return [(values[0], path.stem)]
    return [(value, f"{path.stem} #{number}") for number, value in enumerate(values, 1)]


def _parsed(text: str, path: Path) -> list[Any]:
    """Return the values of a file: those of its array, of its lines, or its only one."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise UnreadableSessionError(path, "it is nested too deeply", EXPECTED) from None
    except ValueError as error:
        if text.lstrip()[:1] != "{":
            raise UnreadableSessionError(path, f"it is not JSON ({error})", EXPECTED) from None
        return _lines(text, path)
    return value if isinstance(value, list) and value else [value]


def _lines(text: str, path: Path) -> list[Any]:
    values: list[Any] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            if number >= len(lines) - 1 and len(values) > 1:
                break  # a session that is being written, or was cut off: all but its last line
            remedy = "delete the line, or put each value on a line of its own (jq -c .)"
            raise UnreadableSessionError(path, f"line {number} is not JSON", remedy) from None
    return values


def _unwrapped(value: Any) -> Any:
    """Return the conversation inside a wrapping object; known datasets stay as they are."""
    if not isinstance(value, Mapping) or _is_entry(value) or _is_dataset(value):
        return value
    return next((value[key] for key in _LISTS if isinstance(value.get(key), list)), value)


def _is_dataset(value: Mapping[str, Any]) -> bool:
    return {"qa", "conversation"} <= value.keys() or {"task_id", "trial", "traj"} <= value.keys()


def _is_entry(value: Any) -> bool:
    """Return whether it is one message, or one line of a transcript."""
    return isinstance(value, Mapping) and (
        "role" in value or (isinstance(value.get("type"), str) and "messages" not in value)
    )


def _conversation(value: Any, name: str, path: Path) -> Conversation:
    try:
        if isinstance(value, Mapping) and "qa" in value:
            return locomo(dict(value))
        if isinstance(value, Mapping) and "traj" in value:
            return tau_bench(dict(value))
        if not isinstance(value, list) or not value:
            holds = ", ".join(list(value)[:6]) if isinstance(value, Mapping) else repr(value)[:40]
            raise UnreadableSessionError(path, f"no messages in it (it holds {holds})", EXPECTED)
        return read_session(value, name)
    except InvalidMessageError as error:
        raise UnreadableSessionError(path, f"no session: {error}", EXPECTED) from None
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a dataset with a field that is missing or wrong ({error!r})"
        raise UnreadableSessionError(path, problem, EXPECTED) from None


def _with_unique_names(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Add a number to each name that came before: several files may have one name."""
    seen: dict[str, int] = {}
    named: list[Conversation] = []
    for each in conversations:
        seen[each.name] = count = seen.get(each.name, 0) + 1
        named.append(each if count == 1 else replace(each, name=f"{each.name} ({count})"))
    return named


def _last_of_each(sessions: list[Conversation]) -> list[Conversation]:
    """Drop each session that the next one continues: the requests of one session, one a line."""
    return [
        session
        for session, following in zip_longest(sessions, sessions[1:])
        if following is None
        or len(following.messages) <= len(session.messages)
        or following.messages[: len(session.messages)] != session.messages
    ]
