"""Entries that are read as something they are not: another format's, or said by nobody known.

Reading is lenient, so that a compaction never fails on what it need not understand; these checks
are for the doors at which such a list would go on silently and be refused, or lost, later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats._reading import PROOF, type_of
from rehydrate.formats._thinking import THINKING_BLOCKS
from rehydrate.messages import Conversation

__all__ = ["check_own", "check_speakers"]

_SPEAKERS = frozenset({"user", "assistant", "tool"})
_ROLES = frozenset({"user", "assistant", "system"})
_ROLES_ELSEWHERE = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"}

Detect = Callable[[Mapping[str, Any]], int]
Validate = Callable[[Sequence[Any]], list[Violation]]


def check_own(
    entries: Sequence[Any], name: str, detectors: Mapping[str, Detect], validate: Validate
) -> None:
    """Raise InvalidMessageError for the first entry that only another format than `name` holds."""
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            continue  # its reader says what it is
        other = _other_format(entry, name, detectors)
        if other is not None:
            remedy = (
                f"it is one of {other}: make the Context with format={other!r}, which is converted "
                "for its provider, or add it in the provider's own shape"
            )
            raise InvalidMessageError(index, "", entry, f"an entry of the format {name}", remedy)
        role = entry.get("role")
        if role is None or (isinstance(role, str) and role in _ROLES):
            continue
        if any(violation.rule == "unknown_role" for violation in validate([entry])):
            raise _unknown_role(index, role)


def check_speakers(conversation: Conversation) -> None:
    """Raise InvalidMessageError for a list in which neither a user nor an assistant nor a tool
    speaks: nothing of it would be sure to stay."""
    spoken = [message for message in conversation.messages if message.role != "system"]
    if spoken and not any(message.role in _SPEAKERS for message in spoken):
        raise _unknown_role(spoken[0].index, spoken[0].role)


def _unknown_role(index: int, role: object) -> InvalidMessageError:
    known = "a role: 'system', 'user', 'assistant' or 'tool'"
    meant = _ROLES_ELSEWHERE.get(role.lower()) if isinstance(role, str) else None
    remedy = f"did you mean {meant!r}?" if meant else "name who speaks by one of these"
    return InvalidMessageError(index, f"role {role!r}", role, known, remedy)


def _other_format(
    entry: Mapping[str, Any], name: str, detectors: Mapping[str, Detect]
) -> str | None:
    own = detectors[name](entry) == PROOF
    for other, detect in detectors.items():
        if other == name or detect(entry) != PROOF:
            continue
        if name == "openai_chat" and other == "anthropic" and _only_thinks(entry):
            continue  # as some gateways write it
        # Anthropic would be sent `tool_calls` beside its own blocks.
        if not own or (name, other) == ("anthropic", "openai_chat"):
            return other
    return None


def _only_thinks(entry: Mapping[str, Any]) -> bool:
    """Whether no block of it but thinking is another provider's."""
    blocks = [block for block in entry.get("content") or () if isinstance(block, Mapping)]
    return all(type_of(block) in THINKING_BLOCKS | {"text"} for block in blocks)
