"""PreCompact, SessionStart, PostCompact and SessionEnd: what a compaction loses, and what is put
back.

Claude Code calls them in this order: PreCompact, then SessionStart with source `compact`, then
PostCompact, which alone knows the summary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._native import (
    fenced,
    last_summary,
    last_turns,
    put_back,
    transcript_lines,
    used_names,
    words_of_user,
)
from rehydrate._text import safe_error_text
from rehydrate.integrations.claude_code.events import (
    HookInput,
    Reply,
    additional_context,
    within,
)
from rehydrate.integrations.claude_code.home import Compacted, CompactionRow, Records
from rehydrate.integrations.claude_code.transcript import StoredSession, source_of

if TYPE_CHECKING:
    from rehydrate.integrations.mcp_server.session_index import Agent
    from rehydrate.messages import Message

MAX_CHARS = 9_500
"""Maximum characters of a hook's output. If there are more than 10,000, Claude Code shows the first
2,000 and the name of a file."""
STORE_TOKENS = 1_800
"""The context store's. With 1,200, fewer of the names that are needed later come back
(`benches/python/claude_hooks.py`); with more, the excerpts have no room."""
_HEADING_CHARS = 800
_FENCE_CHARS = 200
_MARK_CHARS = 16
"""Characters of the mark before a line of the store."""
_LEAST_CHARS_A_TOKEN = 2
_ATTEMPTS = 6
"""To find the budget in tokens that fills the room in characters."""
_TAIL_BYTES = 8_000_000


def put_back_text(row: CompactionRow, given: HookInput) -> str:
    """Return the text that goes back, at most MAX_CHARS."""
    kept = row.compacted
    return put_back(mark(row), _whole_hint(given), kept.store, kept.excerpts, MAX_CHARS)


def mark(row: CompactionRow) -> str:
    """Return the mark in a transcript where a compaction was put back.

    It cannot be written by others before: it is made from the moment of the compaction.
    """
    from hashlib import blake2b  # it loads OpenSSL, 3 ms, which PreCompact does not need

    named = f"{row.id} {row.at!r} {row.session}"
    digits = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"[rehydrate: compaction {row.id}, {digits}]"


def is_still_there(row: CompactionRow, path: Path | None) -> bool:
    """Return whether the model of a resumed session sees what was put back.

    The transcript has it after the compaction then; a later compaction has another mark.
    """
    if path is None:
        return False
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return mark(row).encode() in file.read(_TAIL_BYTES)
    except OSError:
        return False


def store_text(entries: Sequence[Any], agent: Agent) -> str:
    """Return the context store of these entries, for a session that cannot be stored."""
    from rehydrate import formats
    from rehydrate.context import ContextStore

    conversation = formats.parse(entries, agent)
    store = ContextStore()
    store.update(conversation.messages, len(entries))
    return store.render(STORE_TOKENS, conversation=conversation)


def excerpts_of(entries: Sequence[Any], task: str, agent: Agent, max_chars: int) -> str:
    """Return the most important texts for the task, verbatim, in a fence."""
    from rehydrate import formats
    from rehydrate.compact import compact_context

    if max_chars <= _FENCE_CHARS:
        return ""
    best, tokens = "", max_chars // _LEAST_CHARS_A_TOKEN
    for _ in range(_ATTEMPTS):
        kept = compact_context(
            entries,
            task or None,
            budget_tokens=max(tokens, 1),
            format=agent,
            granularity="excerpt",
        )
        messages: Sequence[Message] = formats.parse(kept.messages, agent).messages
        lines = transcript_lines(messages, numbered=False)
        text = fenced("before the compaction", lines)
        fits = len(text) <= max_chars
        if fits and len(text) >= len(best):
            best = text
        if fits or not kept.messages:
            break
        tokens = int(0.95 * tokens * max_chars / len(text))
    return best or fenced("before the compaction", ["\n".join(lines)[: max_chars - _FENCE_CHARS]])


def room_for_excerpts(store: str) -> int:
    """Return the characters that are left besides a context store."""
    marked = len(store) + _MARK_CHARS * (store.count("\n") + 1)
    return max(MAX_CHARS - _HEADING_CHARS - marked, 0)


def _whole_hint(given: HookInput) -> str:
    if not given.has_tools:
        return ""
    return (
        "All of it can be asked for: request_context of the MCP server rehydrate, with thread "
        f"{given.session.id!r}."
    )


RATIO = 0.4
_MEMORY_SHARE = 0.6
"""The share of the time left for the compaction with its memory, which may be locked."""
_LEAST_SECONDS = 0.05
_LEAST_TASK_CHARS = 20
"""A shorter prompt, as "go on", says nothing about the task."""


def pre_compact(given: HookInput) -> Reply:
    """Keep what the compaction may lose. It prints nothing."""
    from rehydrate.memory.redaction import Redactor

    started = time.monotonic()
    path = given.transcript
    if path is None:
        return None
    redactor = Redactor()
    entries = [redactor.inside(entry) for entry in last_turns(path, given.agent)]
    if not entries:
        return None
    task = _task_of(entries, redactor(given.text("custom_instructions")).text)
    store = store_text(entries, given.agent)
    with Records(given.home) as records:
        # The facts known by now are kept before anything that may wait.
        row = records.add(
            given.text("session_id"),
            given.project,
            Compacted(
                trigger=given.text("trigger"),
                store=store,
                excerpts=excerpts_of(entries, task, given.agent, room_for_excerpts(store)),
                names=(*used_names(entries),),
            ),
        )
        problems: list[str] = []

        def step(name: str, seconds: float, work: Callable[[], dict[str, Any] | None]) -> None:
            nonlocal row
            try:
                changes = within(min(seconds, given.seconds_left - _LEAST_SECONDS), work)
                row = records.update(row, **changes or {})
            except Exception as error:
                problems.append(f"{name}: {safe_error_text(error, name)}")

        stored: list[StoredSession] = []

        def store_session() -> dict[str, Any]:
            stored.append(_stored(given))
            return {"store": stored[0].text or store}

        step("memory", _MEMORY_SHARE * given.seconds_left, lambda: _compacted(given, entries, task))
        step("session", given.seconds_left, store_session)
        if stored and not problems:  # a memory that was locked is not waited for again
            step("rules", given.seconds_left, lambda: _remembered(given, stored[0]))
        if row.compacted.store != store:
            room = room_for_excerpts(row.compacted.store)
            row = records.update(row, excerpts=excerpts_of(entries, task, given.agent, room))
        records.update(
            row,
            problems=(*row.compacted.problems, *problems),
            milliseconds=round(1_000 * (time.monotonic() - started), 1),
        )
    return None


def session_start(given: HookInput) -> Reply:
    """Put back what the session's last compaction may have lost."""
    source = given.text("source")
    if source not in ("compact", "resume") or not given.home.records.exists():
        return None
    with Records(given.home) as records:
        row = records.last(given.text("session_id"))
        if row is None:
            return None
        if source == "resume" and is_still_there(row, given.transcript):
            return None
        text = put_back_text(row, given)
        records.update(row, returned_chars=len(text))
    return additional_context("SessionStart", text)


def post_compact(given: HookInput) -> Reply:
    """Measure what the summary lost, and how much of that is put back."""
    if not given.home.records.exists():
        return None
    with Records(given.home) as records:
        row = records.last(given.text("session_id"))
        summary = _summary_of(given)
        if row is not None and summary:
            lost = [name for name in row.compacted.names if name not in summary]
            back = put_back_text(row, given)
            records.update(
                row,
                lost=tuple(lost),
                put_back=tuple([name for name in lost if name in back]),
                summary_chars=len(summary),
            )
    return None


def session_end(given: HookInput) -> Reply:
    """Store the rest of the session, and remember its decisions."""
    path = given.transcript
    if path is not None:
        with suppress(TimeoutError):
            stored = within(given.seconds_left - _LEAST_SECONDS, lambda: _stored(given))
            within(given.seconds_left - _LEAST_SECONDS, lambda: _remembered(given, stored))
    return None


def _compacted(given: HookInput, entries: list[Any], task: str) -> dict[str, Any]:
    from rehydrate.compact import Archive, compact_context

    with given.home.open_memory(given.project) as memory:
        kept = compact_context(
            entries,
            task or None,
            RATIO,
            memory=memory,
            format=given.agent,
            archive=Archive(
                dropped=False, novel=True, episode=True, thread=given.text("session_id") or None
            ),
        )
    stats = kept.stats
    return {
        "before_tokens": stats.before_tokens,
        "after_tokens": stats.after_tokens,
        "covered_pct": stats.covered_pct,
        "distilled": stats.distilled,
        "problems": stats.degraded,
    }


def _stored(given: HookInput) -> StoredSession:
    """Store the new part of the session."""
    path = given.transcript
    assert path is not None
    with Records(given.home) as records:
        until = given.deadline - 4 * _LEAST_SECONDS
        return given.session.store_new(path, records, until, STORE_TOKENS)


def _remembered(given: HookInput, stored: StoredSession) -> None:
    """Add the rules of a session to the memory, word for word; what it has already it does not add.
    What the user took back is forgotten."""
    if not stored.rules and not stored.taken_back:
        return
    with given.home.open_memory(given.project) as memory:
        memory.add(stored.rules)
        source = source_of(given.session.id)
        held = memory.list(sources=[source], limit=None) if stored.taken_back else []
        kept = {item.text for item in stored.rules}
        gone = [
            item.handle for item in held if item.text not in kept and item.text in stored.taken_back
        ]
        if gone:
            memory.forget(gone)


def _task_of(entries: list[Any], instructions: str) -> str:
    """Return the present subject of the session: the last words of the user that say something."""
    asked = [words for words in map(words_of_user, entries) if words]
    task = next((words for words in reversed(asked) if len(words) >= _LEAST_TASK_CHARS), "")
    return "\n".join(filter(None, [instructions, task or " ".join(asked[-1:])]))


def _summary_of(given: HookInput) -> str:
    """Return the summary; Codex tells it in its transcript alone, if at all."""
    summary = given.text("compact_summary")
    path = given.transcript
    if summary or path is None or given.agent != "codex":
        return summary
    return last_summary(path)
