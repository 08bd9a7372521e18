"""Plain messages: a role and a text, as in a chat log; lenient, with no tool calls to pair.

A list of texts is valid for every provider, so its provider is unknown. If it starts with the user,
it still does after compaction: one more user turn costs little where the provider does not care,
and saves the request where it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.errors import Violation
from rehydrate.formats._reading import (
    NONE,
    Places,
    as_content,
    as_entry,
    as_role,
    content_places,
    read_entries,
    readable_texts,
    replace_texts,
    wrong_content,
)
from rehydrate.formats.calls import Inputs
from rehydrate.messages import Conversation, Message, Piece, PieceKind

NAME = "plain"
replace = replace_texts

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_TEXT, _TOOL_RESULT = PieceKind.TEXT, PieceKind.TOOL_RESULT


def detect(_entry: Mapping[str, Any]) -> int:
    """Return NONE: plain is the format if no entry shows another one."""
    return NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read role/content messages; raises InvalidMessageError for an entry that is no message."""
    columns = read_entries(NAME, entries, _read_entry)
    return Conversation(NAME, None, None, user_first=columns.begins_with_user(), columns=columns)


def _read_entry(raw: object, index: int) -> tuple[Message, bool]:
    """Read a message of any shape; it belongs to no other."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    kind = _TOOL_RESULT if role == "tool" else _TEXT
    texts = _texts(as_content(entry, index), index)
    pieces = tuple([Piece(text, kind) for text in texts])
    return Message(index, role, pieces, 0, (), (), role == "user"), False


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return what every provider refuses: a null content, an unknown role."""
    found = []
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        if as_role(entry, index) not in _ROLES:
            what = f"role '{entry['role']}' is unknown, it must be one of {sorted(_ROLES)}"
            found.append(Violation(index, "unknown_role", what))
        content = as_content(entry, index)
        _texts(content, index)
        if content is None:
            found.append(Violation(index, "null_content_without_calls", "content is null"))
    return found


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: any plain text may be excerpted."""
    del index
    return content_places(entry.get("content"), ("content",))


def inputs(_entry: Mapping[str, Any]) -> Inputs:
    """Return an empty list: a plain message calls nothing."""
    return []


def signed(_entry: Mapping[str, Any]) -> bool:
    """Return False: a text holds no signature."""
    return False


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return the entries: a text cannot be told to be thinking."""
    return list(entries)


def _texts(content: object, index: int) -> Sequence[str]:
    if isinstance(content, str):
        return (content,) if content else ()
    if content is None:
        return ()
    if not isinstance(content, (list, tuple)):
        raise wrong_content(content, index)
    texts: list[str] = []
    for part_index, part in enumerate(content):
        is_text = isinstance(part, str)
        texts += readable_texts(
            part if is_text else as_entry(part, index, f"content[{part_index}]")
        )
    return texts
