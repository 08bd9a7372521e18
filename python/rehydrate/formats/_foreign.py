"""Checks for entries of another format or with an unknown role; conversion of SDK objects to dicts.

Reading is lenient, so that a compaction never fails on a detail it can skip. These checks are for
entry points where a wrong list would go on silently and be refused, or lost, later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from reprlib import Repr
from typing import Any

from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats._reading import PROOF, as_content, is_langchain_message, type_of
from rehydrate.formats.thinking import THINKING_BLOCKS
from rehydrate.messages import Conversation, normal_role

__all__ = ["as_dicts", "check_own", "check_roles", "check_speakers"]


_SPEAKERS = frozenset({"system", "user", "assistant", "tool"})
_ROLES = frozenset({"user", "assistant", "system"})
_CHAT_ROLES = frozenset({"tool", "function"})
_TOLD_APART = {("anthropic", "openai_chat"), ("openai_chat", "openai_responses")}
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

Detect = Callable[[Mapping[str, Any]], int]
Validate = Callable[[Sequence[Any], str], list[Violation]]


def check_own(
    entries: Sequence[Any], name: str, detectors: Mapping[str, Detect], validate: Validate
) -> None:
    """Raise InvalidMessageError for the first entry that only another format than `name` can
    hold."""
    for index, entry in enumerate(entries):
        other = _other_format(entry, name, detectors)
        if other is not None:
            remedy = (
                f"it is one of {other}: make the Context with format={other!r}, which is converted "
                "for its provider, or add it in the provider's own shape"
            )
            raise InvalidMessageError(index, "", entry, f"an entry of the format {name}", remedy)
        if not isinstance(entry, Mapping):
            continue  # the reader reports it
        if name != "bedrock":  # whose blocks have no type
            _check_parts(entry, index)
        role = entry.get("role")
        if role is None or (isinstance(role, str) and role in _ROLES):
            continue
        if any(violation.rule == "unknown_role" for violation in validate([entry], name)):
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


def _other_format(entry: Any, name: str, detectors: Mapping[str, Detect]) -> str | None:
    if not isinstance(entry, Mapping):
        return "langchain" if name != "langchain" and is_langchain_message(entry) else None
    own = detectors[name](entry) == PROOF
    for other, detect in detectors.items():
        if other == name or detect(entry) != PROOF:
            continue
        if name == "openai_chat" and other == "anthropic" and _has_only_thinking(entry):
            continue  # as some gateways write it
        # Anthropic would be sent `tool_calls` beside its own blocks, chat a Responses message.
        if not own or (name, other) in _TOLD_APART:
            return other
    return _other_by_its_details(entry, name)


def _other_by_its_details(entry: Mapping[str, Any], name: str) -> str | None:
    """Return the format of an entry whose fields are no proof for a list, but break a request."""
    if name == "openai_chat":
        return "openai_responses" if type_of(entry) == "message" else None
    role = entry.get("role")
    if name in ("anthropic", "openai_responses") and isinstance(role, str) and role in _CHAT_ROLES:
        return "openai_chat"
    if name == "openai_responses" and any(type_of(part) == "text" for part in _parts(entry)):
        return "openai_chat"
    return None


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


def _has_only_thinking(entry: Mapping[str, Any]) -> bool:
    """Return whether thinking is its only block of another provider."""
    return all(type_of(block) in THINKING_BLOCKS | {"text"} for block in _parts(entry))


_MAX_DEPTH = 6
"""The depth of nested values that are searched; a block in a tool result is three levels down."""
_MESSAGE_KEYS = ("role", "content")
_WHOLE_RESPONSES = {
    "choices": "pass its choices[0].message",
    "output": "pass its output, item by item",
}


def as_dicts(entries: Sequence[Any]) -> Sequence[Any]:
    """Return the entries with dicts for an SDK's objects; the same sequence where there are none.

    Raises InvalidMessageError for a whole response and for an object that cannot be read.

    >>> entries = [{"role": "user", "content": "hi"}]
    >>> as_dicts(entries) is entries
    True
    """
    read: list[Any] = []
    is_changed = False
    for index, entry in enumerate(entries):
        found = entry if is_langchain_message(entry) else _entry(entry, index)
        is_changed = is_changed or found is not entry
        read.append(found)
    return read if is_changed else entries


def _entry(entry: Any, index: int) -> Any:
    if not _is_model(entry):
        return _value(entry, index, 0)
    for key, remedy in _WHOLE_RESPONSES.items():
        if isinstance(getattr(entry, key, None), list) and not hasattr(entry, "role"):
            raise InvalidMessageError(index, "", entry, "a message", remedy)
    if hasattr(entry, "stop_reason") and hasattr(entry, "usage"):
        # Anthropic's response: a request with its other fields is refused.
        return {key: _value(getattr(entry, key, None), index, 1) for key in _MESSAGE_KEYS}
    found = _dump(entry, index)
    if "role" in found:  # chat answers null for every field it did not set
        return {key: found[key] for key in found if found[key] is not None or key == "content"}
    return found


def _value(value: Any, index: int, depth: int) -> Any:
    """Return the value with dicts for objects; itself where it holds none."""
    kind = type(value)
    if kind is str or value is None or depth > _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        changed = {}
        for key, inner in list(value.items()):  # another thread may change it meanwhile
            if type(inner) is not str and (found := _value(inner, index, depth + 1)) is not inner:
                changed[key] = found
        return {**value, **changed} if changed else value
    if kind is list or kind is tuple:
        found = [_value(inner, index, depth + 1) for inner in value]
        return value if all(map(_is_same, found, value)) else kind(found)
    return _dump(value, index) if _is_model(value) else value


def _is_same(one: object, other: object) -> bool:
    return one is other


def _is_model(value: object) -> bool:
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, (type, Mapping))


def _dump(value: Any, index: int) -> dict[str, Any]:
    """Dump an object as the SDKs send it: fields never set are left out."""
    try:
        try:
            found = value.model_dump(mode="json", exclude_unset=True, by_alias=True)
        except TypeError:  # it only looks like pydantic's
            found = value.model_dump()
    except Exception as error:
        remedy = f"its model_dump failed ({type(error).__name__}); convert it to a dict"
        raise InvalidMessageError(index, "", value, "a message or a part of one", remedy) from error
    if not isinstance(found, dict):
        raise InvalidMessageError(index, "", value, "a model of a mapping", "convert it to a dict")
    return found
