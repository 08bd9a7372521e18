"""Sessions to measure on, as files hold them, and the cases sampled from them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rehydrate import formats
from rehydrate._native import count_messages, has_calls, is_summary, session_values
from rehydrate._text import plural
from rehydrate.errors import InvalidMessageError, UnreadableSessionError
from rehydrate.retention.measure import CODING_CUTS, SUPPORT_CUTS, Cut, cut_before, cut_sessions
from rehydrate.retention.reading import (
    Conversation,
    Message,
    Question,
    Summary,
    is_system,
    locomo,
    tau_bench,
)

SUFFIXES = (".jsonl", ".json", ".traj", ".ndjson")
"""Suffixes of files in a folder that may hold a session."""
EXPECTED = "pass a JSON array of messages, JSON Lines, or a Claude Code transcript"
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})


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
    return Sessions(conversations, tuple(skipped), len(files), read, count - len(conversations))


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
    """Return every session in a file; raises UnreadableSessionError if one cannot be read."""
    path = Path(path)
    return _last_of_each([_conversation(*each, path) for each in _values(path)])


def read_session(messages: Sequence[Message], name: str = "session") -> Conversation:
    """Return a session's messages as a model saw them: no progress lines, and no system prompt.

    A summary that an agent wrote when its window was full is kept next to the messages that it
    replaced. Raises InvalidMessageError for an entry that is not a message.

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
    if not sessions:  # the first reason is that of all
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
    values = session_values(path, text, EXPECTED)
    if len(values) == 1:
        return [(values[0], path.stem)]
    return [(value, f"{path.stem} #{number}") for number, value in enumerate(values, 1)]


def _conversation(value: Any, name: str, path: Path) -> Conversation:
    try:
        if isinstance(value, Mapping) and "qa" in value:
            return locomo(dict(value))
        if isinstance(value, Mapping) and "traj" in value:
            return tau_bench(dict(value))
        if not isinstance(value, list) or not value:
            names = value if isinstance(value, Mapping) else [repr(value)[:40]]
            holds = ", ".join(list(names)[:6]) or "nothing"
            raise UnreadableSessionError(path, f"no messages in it (it holds {holds})", EXPECTED)
        return read_session(value, name)
    except InvalidMessageError as error:
        raise UnreadableSessionError(path, f"no session: {error}", EXPECTED) from None
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a dataset with a field that is missing or wrong ({error!r})"
        raise UnreadableSessionError(path, problem, EXPECTED) from None


def _with_unique_names(conversations: Iterable[Conversation]) -> tuple[Conversation, ...]:
    """Add a number to each name that came before: several files may have one name, and sessions
    are told apart by theirs."""
    seen: Counter[str] = Counter()
    named: list[Conversation] = []
    for each in conversations:
        name = each.name
        while name in seen:
            seen[each.name] += 1
            name = f"{each.name} ({seen[each.name]})"
        seen[name] = 1
        named.append(each if name == each.name else replace(each, name=name))
    return tuple(named)


def _last_of_each(sessions: list[Conversation]) -> list[Conversation]:
    """Drop each session that the next one continues: the requests of one session, one a line."""
    return [
        session
        for session, following in zip_longest(sessions, sessions[1:])
        if following is None
        or len(following.messages) <= len(session.messages)
        or following.messages[: len(session.messages)] != session.messages
    ]


T = TypeVar("T")

MIN_MESSAGES = 20
"""A shorter session needs no compaction, and leaves too little to measure on."""
MIN_NEEDED = 3
"""Minimum number of names used after a cut: a share of fewer means nothing."""
MAX_CUTS = 60
MAX_QUESTIONS = 100
LONG_SESSION_STEPS = 100
"""Minimum steps of a session that is cut five times; a shorter one is cut once."""


class QuestionCase(NamedTuple):
    """One question of a conversation, and its number there."""

    conversation: Conversation
    number: int
    question: Question


class SummaryCase(NamedTuple):
    """An agent's summary, and its input as a cut."""

    cut: Cut
    summary: Message


@dataclass(frozen=True, slots=True)
class Sample:
    """The cases to measure on, and what was left out."""

    conversations: tuple[Conversation, ...]
    cuts: tuple[Cut, ...]
    questions: tuple[QuestionCase, ...]
    summaries: tuple[SummaryCase, ...]
    notes: tuple[str, ...]
    """Notes: how much was sampled of how much, and the cases not measured."""
    skipped: tuple[Skipped, ...] = ()
    """Files and sessions that were left out before."""

    def cases(self, ratios: int) -> int:
        """Return how many times each strategy is called for this number of ratios."""
        return (len(self.cuts) + len(self.questions)) * ratios + len(self.summaries)


def too_short(min_messages: int = MIN_MESSAGES) -> Callable[[Conversation], str]:
    """Return a function that says why a session is too short to measure on, or ""."""

    def why(conversation: Conversation) -> str:
        is_short = count_messages(conversation.messages) < min_messages
        return f"fewer than {min_messages} messages" if is_short else ""

    return why


def sample_cases(
    conversations: Sessions | Iterable[Conversation],
    *,
    max_cuts: int = MAX_CUTS,
    max_questions: int = MAX_QUESTIONS,
    min_needed: int = MIN_NEEDED,
    seed: int = 0,
) -> Sample:
    """Return cuts and questions of these sessions, spread over the sessions; always the same ones.

    A session with tool calls is cut where its later calls use earlier names. Without calls, later
    messages must use them; a session with questions uses the questions instead. Of sessions of one
    name the later ones get a number.
    """
    read = conversations if isinstance(conversations, Sessions) else Sessions(tuple(conversations))
    sessions = _with_unique_names(read.conversations)
    cuts: list[list[Cut]] = []
    without_calls = unmeasured = 0
    for session in sessions:
        calls = has_calls(session.messages)
        if not calls and session.questions:
            continue
        is_long = len(session.messages) >= 2 * LONG_SESSION_STEPS
        fractions = CODING_CUTS if is_long else SUPPORT_CUTS
        found = cut_sessions([session], fractions, min_needed=min_needed)
        without_calls += bool(found) and not calls
        unmeasured += not found
        if found:
            cuts.append(found)
    questions = [
        [QuestionCase(session, number, each) for number, each in enumerate(session.questions)]
        for session in sessions
        if session.questions
    ]
    summaries = [case for session in sessions for case in _summary_cases(session, min_needed)]
    notes = []
    if read.files_read < read.files:
        notes.append(f"{read.files_read:,} of {read.files:,} files read, drawn at random")
    if read.more:
        total = len(sessions) + read.more
        notes.append(f"{len(sessions):,} of {total:,} sessions, drawn at random")
    if unmeasured:
        notes.append(
            f"{plural(unmeasured, 'session')} not measured: fewer than {min_needed} names of what "
            "came before are used later"
        )
    if without_calls:
        notes.append(
            f"{plural(without_calls, 'session')} without tool calls: measured by the names that "
            "later messages mention"
        )
    chosen_cuts = _evenly(cuts, max_cuts, seed, "cut", notes)
    chosen = _evenly(questions, max_questions, seed, "question", notes)
    return Sample(
        sessions, tuple(chosen_cuts), tuple(chosen), tuple(summaries), tuple(notes), read.skipped
    )


def _summary_cases(session: Conversation, min_needed: int) -> Iterable[SummaryCase]:
    """Yield each summary with its input: the previous summary, and the messages since."""
    earlier: Summary | None = None
    for summary in session.summaries:
        before = session.messages[summary.start : summary.end]
        if earlier is not None:
            before = [earlier.message, *before]
        ahead = session.messages[summary.end :]
        cut = cut_before(session, f"{session.name} at its summary", before, ahead)
        if len(cut.needed) >= min_needed:
            yield SummaryCase(cut, summary.message)
        earlier = summary


def _evenly(
    groups: Sequence[Sequence[T]], limit: int, seed: int, noun: str, notes: list[str]
) -> list[T]:
    """Return at most `limit`: one of each group, in a random order, then a second of each."""
    total = sum(map(len, groups))
    if total <= limit:
        return [case for group in groups for case in group]
    chosen = evenly(groups, limit, seed)
    over = plural(len({group for group, _ in chosen}), "session")
    notes.append(f"{limit:,} of {total:,} {noun}s, evenly over {over}")
    return [groups[group][case] for group, case in chosen]
