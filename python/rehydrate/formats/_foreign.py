"""Checks for entries of another format or with an unknown role.

Reading is lenient, so that a compaction never fails on a detail it can skip. These checks are for
entry points where a wrong list would go on silently and be refused, or lost, later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import Repr
from typing import Any

from rehydrate._native import as_content, broken_rules, other_format
from rehydrate.errors import InvalidMessageError
from rehydrate.formats._reading import type_of
from rehydrate.messages import Conversation, normal_role

__all__ = ["check_own", "check_roles", "check_speakers"]


_SPEAKERS = frozenset({"system", "user", "assistant", "tool"})
_ROLES = frozenset({"user", "assistant", "system"})
_ROLES_ELSEWHERE = {
    **{role: role for role in _SPEAKERS},  # with a capital
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
}
_shown = Repr()
_shown.maxstring = 14
"""Enough for a word that names a speaker: whatever else is there is not repeated in a log."""
_KNOWN = "'system', 'user', 'assistant' or 'tool'"


def check_own(entries: Sequence[Any], name: str) -> None:
    """Raise InvalidMessageError for the first entry that only another format than `name` can
    hold."""
    for index, entry in enumerate(entries):
        other = other_format(entry, name)
        if other is not None:
            remedy = (
                f"it is one of {other}: make the Context with format={other!r}, which is converted "
                "for its provider, or add it in the provider's own shape"
            )
            raise InvalidMessageError(index, "", entry, f"an entry of the format {name}", remedy)
        if not isinstance(entry, Mapping):
            continue  # the reader reports it
        if name not in (
            "bedrock",
            "gemini",
            "ai_sdk_ui",
        ):  # whose blocks have no type, or are parts
            _check_parts(entry, index)
        role = entry.get("role")
        if role is None or (isinstance(role, str) and role in _ROLES):
            continue
        if any(violation.rule == "unknown_role" for violation in broken_rules(name, [entry])):
            raise _unknown_role(index, role)


def check_speakers(conversation: Conversation, weighted: Mapping[str, float] | None = None) -> None:
    """Raise InvalidMessageError for the first message with an unknown role: it would belong to no
    turn and be dropped first. `weighted` holds the roles that a scoring adds to the usual ones."""
    unknown = set(conversation.roles) - _SPEAKERS - set(weighted or ())
    if not unknown:
        return
    remedy = "name who speaks by one of these"
    if weighted is not None:
        remedy += ", or give the role a weight in Scoring(structural={...})"
    first = next(message for message in conversation.messages if message.role in unknown)
    raise _unknown_role(first.index, first.role, remedy)


def check_roles(entries: Sequence[Any]) -> None:
    """Raise the same error as `check_speakers`, for entries that are not read yet."""
    for index, entry in enumerate(entries):
        role = entry.get("role") if isinstance(entry, Mapping) else None
        if isinstance(role, str) and normal_role(role) not in _SPEAKERS:
            raise _unknown_role(index, role)


def _unknown_role(
    index: int, role: object, remedy: str = "name who speaks by one of these"
) -> InvalidMessageError:
    meant = _ROLES_ELSEWHERE.get(role.lower()) if isinstance(role, str) else None
    remedy = f"did you mean {meant!r}?" if meant else remedy
    return InvalidMessageError(index, f"role {_shown.repr(role)}", role, _KNOWN, remedy)


def _check_parts(entry: Mapping[str, Any], index: int) -> None:
    as_content(entry, index)
    for part_index, part in enumerate(_parts(entry)):
        if not type_of(part):
            remedy = "name its type, as in {'type': 'text', 'text': ...}"
            raise InvalidMessageError(
                index, f"content[{part_index}]", part, "a part of a type", remedy
            )


def _parts(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = entry.get("content")
    if not isinstance(content, (list, tuple)):
        return []
    return [part for part in content if isinstance(part, Mapping)]
