"""PreCompact, SessionStart, PostCompact and SessionEnd: what a compaction loses, and what is put
back.

Claude Code calls them in this order: PreCompact, then SessionStart with source `compact`, then
PostCompact, which alone knows the summary.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rehydrate._text import safe_error_text
from rehydrate.integrations.claude_code.events import (
    HookInput,
    Reply,
    additional_context,
    within,
)
from rehydrate.integrations.claude_code.home import Compacted, Records
from rehydrate.integrations.claude_code.put_back import (
    STORE_TOKENS,
    excerpts_of,
    is_still_there,
    put_back_text,
    room_for_excerpts,
    store_text,
)
from rehydrate.integrations.claude_code.transcript import last_turns
from rehydrate.messages import PieceKind

if TYPE_CHECKING:
    from rehydrate.memory.items import MemoryItem


MAX_NAMES = 2_000
_KINDS = {
    "user": PieceKind.TEXT,
    "assistant": PieceKind.TEXT,
    "call": PieceKind.TOOL_INPUT,
}
_LABEL = re.compile(r"\[redacted:\w+\]")
"""Where a secret was."""


def used_names(entries: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names in what was said and in what tools were called with, the best first.

    Names that only results hold are left out: nobody has used them.

    >>> said = {"role": "user", "content": "Fix parse_row in src/rows.py."}
    >>> used_names([{"type": "user", "message": said}])
    ('parse_row', 'src/rows.py')
    """
    from rehydrate import _engine
    from rehydrate.integrations.mcp_server.session_lines import said_in

    said = [(unit, one) for unit, entry in enumerate(entries) for one in said_in(entry)]
    found = _engine.names(
        [_LABEL.sub(" ", one.text) for _, one in said],
        bytes([_KINDS[one.speaker] for _, one in said]),
        [unit for unit, _ in said],
        [False] * len(said),
        MAX_NAMES,
    )
    return tuple([name for name, *_, is_proper_name in found if not is_proper_name])


RATIO = 0.4
_MEMORY_SHARE = 0.6
"""Of the time that is left: for the compaction with its memory, which may be locked."""
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
        # What is known by now is kept before anything that may wait.
        row = records.add(
            given.text("session_id"),
            given.project,
            Compacted(
                trigger=given.text("trigger"),
                store=store,
                excerpts=excerpts_of(entries, task, given.agent, room_for_excerpts(store)),
                names=used_names(entries),
            ),
        )
        problems: list[str] = []

        def step(name: str, seconds: float, work: Callable[[], dict[str, Any]]) -> None:
            nonlocal row
            try:
                left = min(seconds, given.seconds_left - _LEAST_SECONDS)
                row = records.update(row, **within(left, work))
            except Exception as error:
                problems.append(f"{name}: {safe_error_text(error, name)}")

        rules = Rules()
        step("memory", _MEMORY_SHARE * given.seconds_left, lambda: _compacted(given, entries, task))
        step("session", given.seconds_left, lambda: _stored(given, rules))
        if rules and not problems:  # a memory that was locked is not waited for again
            step("rules", given.seconds_left, lambda: _remembered(given, rules))
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
        text = put_back_text(row, given.session)
        records.update(row, returned_chars=len(text))
    return additional_context("SessionStart", text)


def post_compact(given: HookInput) -> Reply:
    """Measure what the summary lost, and what of that is put back."""
    if not given.home.records.exists():
        return None
    with Records(given.home) as records:
        row = records.last(given.text("session_id"))
        summary = _summary_of(given)
        if row is not None and summary:
            lost = [name for name in row.compacted.names if name not in summary]
            back = put_back_text(row, given.session)
            records.update(
                row,
                lost=tuple(lost),
                put_back=tuple([name for name in lost if name in back]),
                summary_chars=len(summary),
            )
    return None


def session_end(given: HookInput) -> Reply:
    """Store the rest of the session, and remember what was decided in it."""
    path = given.transcript
    if path is not None:
        with suppress(TimeoutError):
            rules = Rules()
            within(given.seconds_left - _LEAST_SECONDS, lambda: _stored(given, rules))
            within(given.seconds_left - _LEAST_SECONDS, lambda: _remembered(given, rules))
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


class Rules:
    """What was decided and laid down in a session, for the memory; and what was taken back."""

    def __init__(self) -> None:
        """Start with none."""
        self.items: list[MemoryItem] = []
        self.taken_back = ""
        """What the user took back, word for word."""

    def __bool__(self) -> bool:
        """Return whether the memory is to be changed."""
        return bool(self.items or self.taken_back)


def _stored(given: HookInput, rules: Rules) -> dict[str, Any]:
    """Store what is new in the session, and add what was decided and laid down to the rules."""
    from rehydrate.memory.items import MemoryItem

    path = given.transcript
    assert path is not None
    with Records(given.home) as records:
        until = given.deadline - 4 * _LEAST_SECONDS
        stored = given.session.store_new(path, records, until, STORE_TOKENS)
    rules.items += [
        MemoryItem(
            item.text,
            kind=kind,
            source=f"conversation/{given.session.id}",
            thread=given.session.id,
            tool="context_store",
            trust=item.trust,
        )
        for heading, kind in (("Decisions", "decision"), ("User Preferences", "preference"))
        for item in stored.store.items(heading)
    ]
    rules.taken_back = stored.taken_back
    return {"store": stored.text} if stored.text else {}


def _remembered(given: HookInput, rules: Rules) -> dict[str, Any]:
    """Add the rules to the memory, word for word; what it has already it does not add. What the
    user took back is forgotten."""
    if rules:
        source = f"conversation/{given.session.id}"
        with given.home.open_memory(given.project) as memory:
            memory.add(rules.items)
            held = memory.list(sources=[source], limit=None) if rules.taken_back else []
            kept = {item.text for item in rules.items}
            gone = [
                item.handle
                for item in held
                if item.text not in kept and item.text in rules.taken_back
            ]
            if gone:
                memory.forget(gone)
    return {}


def _task_of(entries: list[Any], instructions: str) -> str:
    """Return what the session is about now: the last words of the user that say something."""
    from rehydrate.integrations.mcp_server.session_lines import words_of_user

    asked = [words for words in map(words_of_user, entries) if words]
    task = next((words for words in reversed(asked) if len(words) >= _LEAST_TASK_CHARS), "")
    return "\n".join(filter(None, [instructions, task or " ".join(asked[-1:])]))


def _summary_of(given: HookInput) -> str:
    """Return the summary; Codex tells it in its transcript alone, if at all."""
    summary = given.text("compact_summary")
    path = given.transcript
    if summary or path is None or given.agent != "codex":
        return summary
    from rehydrate.integrations.claude_code.transcript import TAIL_BYTES
    from rehydrate.integrations.mcp_server.session_lines import TranscriptReader

    begin = max(0, path.stat().st_size - TAIL_BYTES[-1])
    for line in TranscriptReader(path, begin, skips=begin > 0).objects(TAIL_BYTES[-1]):
        payload = line.get("payload")
        if line.get("type") == "compacted" and isinstance(payload, dict):
            message = payload.get("message")
            summary = message if isinstance(message, str) else ""
    return summary
