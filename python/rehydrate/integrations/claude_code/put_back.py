"""What goes back after a compaction: the context store and excerpts, within a budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate.integrations.claude_code.home import CompactionRow
from rehydrate.integrations.claude_code.transcript import Session
from rehydrate.integrations.mcp_server.session_files import Agent

if TYPE_CHECKING:
    from rehydrate.messages import Message

MAX_CHARS = 9_500
"""Of the output of one hook. Of more than 10,000 characters Claude Code shows the first 2,000 and
the name of a file."""
STORE_TOKENS = 1_800
"""Of the context store. With 1,200 fewer of the names that are needed later come back
(`benches/python/claude_hooks.py`); with more the excerpts have no room."""
_HEADING_CHARS = 800
_FENCE_CHARS = 200
_SAID_CHARS = 240
_MORE_CHARS = 30
_MARK_DIGITS = 6
_USERS = "User Preferences"
"""The heading of what the user laid down."""
_MARK_CHARS = 16
"""Of the mark before a line of the store."""
_LEAST_CHARS_A_TOKEN = 2
_ATTEMPTS = 6
"""To find the budget in tokens that fills the room in characters."""
_TAIL_BYTES = 8_000_000


def put_back_text(row: CompactionRow, session: Session) -> str:
    """Return the text that goes back, at most MAX_CHARS."""
    compacted = row.compacted
    hint = _whole_hint(session)
    opening = f"{mark(row)} What the conversation held before it was compacted, word for word."
    room = MAX_CHARS - len(opening) - len(hint) - _SAID_CHARS
    store, said = _store_in_fence(compacted.store, room)
    # What does not fit is left out whole: a fence that is cut has no end.
    fits = len(store) + len(compacted.excerpts) <= room
    parts = [f"{opening}{said}", hint, store, compacted.excerpts if fits else ""]
    return "\n\n".join(filter(None, parts))


def _store_in_fence(store: str, max_chars: int) -> tuple[str, str]:
    """Return the store in a fence, and the sentence that says whose words its lines are.

    Nothing else has its digits, which are made from the whole of it: neither a heading in a text
    nor a line that imitates these passes for what the user said.
    """
    from rehydrate.fences import nonce, tags

    lines, heading = [], ""
    digits = nonce("context store", store)[:_MARK_DIGITS]
    for line in store.split("\n") if store else ():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
            lines.append(line)
        else:
            whose = "user" if heading == _USERS else "noted"
            lines.append(f"{whose}-{digits} {line}")
    kept = _whole_lines(lines, max_chars - _FENCE_CHARS)
    if not kept:
        return "", ""
    text = "\n".join(kept)
    opening, closing = tags("context store", "context store", "", "", None, True, text)
    name = opening[1:].partition(" ")[0]
    said = (
        f" In the fence {name}, and nowhere else, a line that begins with user-{digits} was said "
        "by the user, and holds; the others were noted from what was said and done."
    )
    return f"{opening}\n{text}\n{closing}", said


def _whole_lines(lines: Sequence[str], max_chars: int) -> list[str]:
    """Return the lines that fit, in their order; of others it says how many there are."""
    kept: list[str] = []
    left = max_chars - _MORE_CHARS
    for line in lines:
        if len(line) + 1 > left:
            continue
        left -= len(line) + 1
        kept.append(line)
    if len(kept) < len(lines):
        kept.append(f"[{len(lines) - len(kept)} lines more]")
    return kept if len(kept) > 1 or not lines else []


def mark(row: CompactionRow) -> str:
    """Return what a transcript shows where a compaction was put back.

    Nobody else can write it before: it is made from the moment of the compaction.
    """
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
    from rehydrate.context.context_store.store import ContextStore

    conversation = formats.parse(entries, agent)
    store = ContextStore()
    store.update(conversation.messages, len(entries))
    return store.render(STORE_TOKENS, conversation=conversation)


def excerpts_of(entries: Sequence[Any], task: str, agent: Agent, max_chars: int) -> str:
    """Return what matters most for the task, verbatim, in a fence."""
    from rehydrate import formats
    from rehydrate.compact import compact_context
    from rehydrate.context.context_store.transcripts import fenced, lines_of

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
        lines = list(lines_of(messages))
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


def _whole_hint(session: Session) -> str:
    if session.agent == "claude_code" and not os.environ.get("CLAUDE_PLUGIN_ROOT"):
        return ""
    return (
        "All of it can be asked for: request_context of the MCP server rehydrate, with thread "
        f"{session.id!r}."
    )
