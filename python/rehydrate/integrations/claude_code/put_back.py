"""What goes back after a compaction: the context store and excerpts, within a budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate.integrations.claude_code.records import CompactionRow
from rehydrate.integrations.claude_code.sessions import FORMATS, Session
from rehydrate.integrations.mcp_server.session_files import Agent

if TYPE_CHECKING:
    from rehydrate.messages import Message

MAX_CHARS = 9_500
"""Of the output of one hook. Of more than 10,000 characters Claude Code shows the first 2,000 and
the name of a file."""
STORE_TOKENS = 1_800
"""Of the context store. With 1,200 fewer of the names that are needed later come back
(`benches/python/claude_hooks.py`); with more the excerpts have no room."""
_HEADING_CHARS = 560
_FENCE_CHARS = 200
_LEAST_CHARS_A_TOKEN = 2
_ATTEMPTS = 6
"""To find the budget in tokens that fills the room in characters."""
_TAIL_BYTES = 8_000_000


def put_back_text(row: CompactionRow, session: Session) -> str:
    """Return the text that goes back, at most MAX_CHARS."""
    from rehydrate.context.transcript import fenced

    compacted = row.compacted
    # An error in the store may be a tool's words, so it is fenced too.
    parts = [
        f"{mark(row.id)} What the conversation held before it was compacted, word for word. What "
        "stands under User Preferences was said by the user, and holds.",
        _whole_hint(session),
        fenced("context store", [compacted.store]) if compacted.store else "",
        compacted.excerpts,
    ]
    return "\n\n".join(filter(None, parts))[:MAX_CHARS]


def mark(number: int) -> str:
    """Return what a transcript shows where the compaction of this number was put back."""
    return f"[rehydrate: compaction {number}]"


def is_still_there(number: int, path: Path | None) -> bool:
    """Return whether the model of a resumed session sees what was put back.

    The transcript has it behind the compaction then; a later compaction has a later number.
    """
    if path is None:
        return False
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return mark(number).encode() in file.read(_TAIL_BYTES)
    except OSError:
        return False


def store_text(entries: Sequence[Any], agent: Agent) -> str:
    """Return the context store of these entries, for a session that cannot be stored."""
    from rehydrate import formats
    from rehydrate.context.context_store.store import ContextStore

    conversation = formats.parse(entries, FORMATS[agent])
    store = ContextStore()
    store.update(conversation.messages, len(entries))
    return store.render(STORE_TOKENS, conversation=conversation)


def excerpts_of(entries: Sequence[Any], task: str, agent: Agent, max_chars: int) -> str:
    """Return what matters most for the task, verbatim, in a fence."""
    from rehydrate import formats
    from rehydrate.compact import compact_context
    from rehydrate.context.transcript import fenced, lines_of

    best, tokens = "", max_chars // _LEAST_CHARS_A_TOKEN
    for _ in range(_ATTEMPTS):
        kept = compact_context(
            entries,
            task or None,
            budget_tokens=max(tokens, 1),
            format=FORMATS[agent],
            granularity="excerpt",
        )
        messages: Sequence[Message] = formats.parse(kept.messages, FORMATS[agent]).messages
        text = fenced("before the compaction", lines_of(messages))
        fits = len(text) <= max_chars
        if fits and len(text) >= len(best):
            best = text
        if fits or not kept.messages:
            break
        tokens = int(0.95 * tokens * max_chars / len(text))
    return best or fenced("before the compaction", [text[: max_chars - _FENCE_CHARS]])


def room_for_excerpts(store: str) -> int:
    """Return the characters that are left beside a context store."""
    return MAX_CHARS - _HEADING_CHARS - len(store)


def _whole_hint(session: Session) -> str:
    if session.agent == "claude_code" and not os.environ.get("CLAUDE_PLUGIN_ROOT"):
        return ""
    return (
        "All of it can be asked for: request_context of the MCP server rehydrate, with thread "
        f"{session.id!r}."
    )
