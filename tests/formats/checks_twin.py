"""Checks of entries in plain Python: the twin of `reading/checks.rs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate._native import is_langchain_message
from rehydrate.errors import InvalidMessageError
from rehydrate.messages import normal_role


def as_entry(value: object, index: int, part: str = "") -> Mapping[str, Any]:
    """Return the mapping; else raise an error that says how to convert the value."""
    # Nearly always a dict: the check against an abstract class costs ten times as much.
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if is_langchain_message(value):
        remedy = "convert all with rehydrate.formats.langchain_to_openai, or none"
    elif hasattr(value, "__dataclass_fields__"):
        remedy = "convert it with dataclasses.asdict()"
    elif isinstance(value, str) and not part:
        remedy = "wrap it as {'role': 'user', 'content': ...}"
    else:
        remedy = "convert it to a dict or leave it out"
    raise InvalidMessageError(index, part, value, "a mapping", remedy)


def as_role(entry: Mapping[str, Any], index: int) -> str:
    """Return the entry's role, normalised; raises InvalidMessageError if it has none."""
    role: object = entry.get("role")
    # Nearly always a str; an Enum of strings gives its value, not its repr.
    if type(role) is str and role:
        return normal_role(role)
    if isinstance(role, str) and role:
        return normal_role(str.__str__(role))
    expected = "a role: 'system', 'user', 'assistant' or 'tool'"
    if "lc" in entry or ("role" not in entry and isinstance(entry.get("data"), Mapping)):
        remedy = (
            "LangChain's stored form? load it with langchain_core's load() or "
            "messages_from_dict(), and pass the messages or their langchain_to_openai()"
        )
    elif "type" in entry and "role" not in entry:
        remedy = (
            "a transcript line or a Responses item among messages? "
            "pass nothing but such entries, or only messages"
        )
    else:
        remedy = "add the role of whoever speaks"
    raise InvalidMessageError(index, "role", role, expected, remedy)


def type_of(block: Mapping[str, Any]) -> str:
    """Return the block's type; "" where it has none, or one that is no string."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def as_list(value: object, index: int, part: str) -> Sequence[Any]:
    """Return a list inside an entry; raises InvalidMessageError for anything else."""
    if isinstance(value, (list, tuple)):
        return value
    raise InvalidMessageError(index, part, value, "a list", "wrap it in a list or leave it out")
