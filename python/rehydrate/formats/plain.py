"""Plain messages: a role and a text, as in a chat log; lenient, with no tool calls to pair.

A list of texts is valid for every provider, so its provider is unknown. If it starts with the user,
it still does after compaction: one more user turn costs little where the provider does not care,
and saves the request where it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rehydrate.errors import Violation
from rehydrate.formats._reading import (
    NONE,
    Places,
    as_entry,
    as_role,
    read_entries,
    replace_texts,
)
from rehydrate.formats.blocks import Draft, Notes, as_content, has_only_results
from rehydrate.formats.calls import Inputs, inputs_among_blocks
from rehydrate.messages import Conversation, Message, PieceKind

NAME = "plain"
replace = replace_texts

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_TEXT, _TOOL_RESULT = PieceKind.TEXT, PieceKind.TOOL_RESULT


def detect(_entry: Mapping[str, Any]) -> int:
    """Return NONE: plain is the format if no entry shows another one."""
    return NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read role/content messages; raises InvalidMessageError for an entry that is no message."""
    notes = Notes()
    read = read_entries(NAME, entries, partial(_read_entry, notes=notes))
    return notes.added_to(read, user_first=read.begins_with_user())


def _read_entry(raw: object, index: int, notes: Notes | None = None) -> tuple[Message, bool]:
    """Read a message of any shape; it belongs to no other."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    kind = _TOOL_RESULT if role == "tool" else _TEXT
    draft = _read(entry, index, kind)
    if notes is not None:
        notes.take(draft)
    if role == "user" and has_only_results(entry.get("content")):
        role = "tool"
    ids = tuple(draft.calls), tuple(draft.answers)
    return Message(index, role, tuple(draft.pieces), draft.images, *ids, role == "user"), False


def _read(entry: Mapping[str, Any], index: int, kind: PieceKind) -> Draft:
    """Read a message's texts, and the pictures that Ollama keeps beside them."""
    draft = Draft(index)
    draft.add_content(as_content(entry, index), kind, ("content",))
    draft.add_pictures(entry)
    return draft


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return what every provider refuses: a null content, an unknown role, blocks of calls."""
    found: list[Violation] = []
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        if as_role(entry, index) not in _ROLES:
            what = f"role '{entry['role']}' is unknown, it must be one of {sorted(_ROLES)}"
            found.append(Violation(index, "unknown_role", what))
        found += _read(entry, index, _TEXT).misplaced_pairs()
        if entry.get("content") is None:
            found.append(Violation(index, "null_content_without_calls", "content is null"))
    return found


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: any plain text may be excerpted."""
    return _read(entry, index, _TEXT).places


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return None for each call among the blocks, which are another format's."""
    return inputs_among_blocks(entry)


def signed(_entry: Mapping[str, Any]) -> bool:
    """Return False: a text holds no signature."""
    return False


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return the entries: a text cannot be told to be thinking."""
    return list(entries)
