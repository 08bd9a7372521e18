"""Small damages of a conversation, and the units of one that a compaction may keep."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import Any

from hypothesis import strategies as st

from rehydrate.messages import Conversation, Unit
from tests.strategies.parts import Draw, Entry


@st.composite
def damaged(draw: Draw, entries: list[Entry]) -> list[Entry]:
    """Generate a copy with one to three small damages; each may or may not break a rule."""
    broken = copy.deepcopy(entries)
    for _ in range(draw(st.integers(1, 3))):
        if not broken:
            break
        place = draw(st.integers(0, len(broken) - 1))
        kinds = ["drop", "double", "move", "empty", "null", "drop_block", "null_block", "lose_id"]
        kind = draw(st.sampled_from(kinds))
        if kind == "drop":
            del broken[place]
        elif kind == "double":
            entry = copy.deepcopy(broken[place])
            if isinstance(entry, dict):
                entry.pop("uuid", None)
            broken.insert(draw(st.integers(0, len(broken))), entry)
        elif kind == "move":
            broken.insert(draw(st.integers(0, len(broken) - 1)), broken.pop(place))
        elif kind == "lose_id":
            if isinstance(broken[place], dict):
                for key in ("call_id", "tool_call_id", "approval_request_id", "summary"):
                    broken[place].pop(key, None)
        else:
            broken[place] = draw(_with_damaged_content(broken[place], kind))
    return broken


@st.composite
def _with_damaged_content(draw: Draw, entry: Any, kind: str) -> Any:
    message = entry.get("message", entry) if isinstance(entry, dict) else dict(entry)
    key = "parts" if "parts" in message else "content"
    if key not in message:
        return entry
    content = message[key]
    if kind == "drop_block" and isinstance(content, list) and content:
        place = draw(st.integers(0, len(content) - 1))
        content = [*content[:place], *content[place + 1 :]]
    elif kind == "null_block" and isinstance(content, list) and content:
        place = draw(st.integers(0, len(content) - 1))
        if isinstance(content[place], dict) and "content" in content[place]:
            content = [*content]
            content[place] = {**content[place], "content": None}
    elif kind == "empty":
        content = ""
    elif kind == "null":
        content = None
    if not isinstance(entry, dict):
        return entry.model_copy(update={"content": content})
    message[key] = content
    return entry


def missing_opener(conversation: Conversation, kept: Collection[int]) -> int | None:
    """Return the user unit to add, if these units would not start with the user without it.

    None: nothing is missing, or the list holds no user unit before the first kept one.
    """
    if not conversation.user_first:
        return None
    units = conversation.units
    first = min((place for place in kept if not units[place].is_system), default=None)
    if first is None or opens_with_user(units[first]):
        return None
    openers = (place for place in range(first - 1, -1, -1) if opens_with_user(units[place]))
    return next(openers, None)


def opens_with_user(unit: Unit) -> bool:
    """Return whether a conversation may begin here for a provider that wants a user message first.

    Not with a message of only white space: Claude Code leaves it out when it sends.
    """
    first = unit.messages[0]
    if first.role != "user" or first.answers:
        return False
    return first.images > 0 or any(not piece.text.isspace() for piece in first.pieces)


@st.composite
def kept_units(draw: Draw, conversation: Conversation) -> list[int]:
    """Generate units that a compaction may keep: any, plus one that makes the user first."""
    kept = {place for place in range(len(conversation.units)) if draw(st.booleans())}
    opener = missing_opener(conversation, kept)
    return sorted(kept if opener is None else kept | {opener})


def survivors(conversation: Conversation, kept: list[int]) -> Iterator[int]:
    """Yield the indices of the entries that remain when these units are kept."""
    yield from sorted(member for place in kept for member in conversation.units[place].members)
