"""Reading of entries: checks, texts and paths that every format shares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json import JSONEncoder
from operator import is_
from reprlib import Repr
from typing import Any
from zlib import crc32

from rehydrate._native import as_dict, is_langchain_message
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.messages import normal_role


def json_object(value: object) -> dict[str, Any] | None:
    """Return an object, or a text that is the JSON of one, as a dict; None for anything else.

    >>> json_object('{"path": "src"}'), json_object("src")
    ({'path': 'src'}, None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def arguments(value: Any) -> str:
    """Return a tool call's input as OpenAI has it: a JSON string; a string stays as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the input of a tool call can't be written as JSON ({error}); pass what JSON holds"
        ) from error


_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def is_same_list(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two lists have the very same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def compact_json(value: object) -> str:
    """Return a value as JSON without blanks, or its `str` if it is no JSON; used to count and to
    compare.

    Never fails: what JSON cannot hold (nested thousands deep, cyclic, a tuple as a key) becomes a
    bounded text.

    >>> compact_json({"path": "a.py", "limit": 20})
    '{"path":"a.py","limit":20}'
    """
    try:
        return _encode(value)
    # Any error: `default=str` runs the code of whatever object is in the value.
    except Exception:
        return _bounded.repr(value)


class _Bounded(Repr):
    """A bounded `repr` of inputs that are no JSON: nested too deeply, cyclic, or with odd keys."""

    def repr1(self, x: object, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:  # a number with more digits than Python prints, a container that raises
            return f"<{type(x).__name__}>"


_bounded = _Bounded()
_bounded.maxlevel = 12
_bounded.maxdict = _bounded.maxlist = _bounded.maxtuple = 200
_bounded.maxstring = _bounded.maxother = 4000


def as_sequence(messages: object) -> Sequence[Any]:
    """Return the list of entries; raises InvalidMessageError for anything else."""
    if isinstance(messages, (list, tuple)):
        return messages
    if isinstance(messages, Sequence) and not isinstance(messages, (str, bytes, bytearray)):
        return list(messages)
    if isinstance(messages, Mapping):
        remedy = "pass its 'messages'" if "messages" in messages else "wrap it in a list"
    elif isinstance(messages, (str, bytes, bytearray)):
        remedy = "parse it first, with json.loads for JSON, line by line for JSONL"
    else:
        remedy = "pass list(messages)"
    raise InvalidMessageError(None, "", messages, "a list of messages", remedy)


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


Path = tuple[str | int, ...]
"""Keys and indices from the entry to the string."""

Places = list[Path | None]
"""The path of each piece's text in an entry; None where it must not change."""


def state_blocks(entry: Mapping[str, Any]) -> Any:
    """Return the summaries that the provider itself wrote, where LiteLLM puts them; None without.

    >>> state_blocks({"provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}})
    [{'type': 'compaction'}]
    """
    fields = entry.get("provider_specific_fields")
    return (fields.get("compaction_blocks") or None) if isinstance(fields, Mapping) else None


def user_message(text: str, format: str, *, is_turn: bool = True) -> Any:  # noqa: A002
    """Return a user's message in a format. `is_turn=False`: text that Rehydrate adds in the user's
    role, marked as no turn of the user where the format has such a mark.

    >>> user_message("hello", "anthropic")
    {'role': 'user', 'content': 'hello'}
    """
    if format == "langchain":
        from langchain_core.messages import HumanMessage

        return HumanMessage(text)
    if format in ("bedrock", "gemini"):
        key = "parts" if format == "gemini" else "content"
        return {"role": "user", key: [{"text": text}]}
    if format == "ai_sdk_ui":
        number = crc32(text.encode("utf-8", "surrogatepass"))
        parts = [{"type": "text", "text": text}]
        return {"id": f"rehydrate-{number:08x}", "role": "user", "parts": parts}
    message = {"role": "user", "content": text}
    if format == "codex":
        return {"type": "response_item", "payload": {"type": "message", **message}}
    if format != "claude_code":
        return message
    line = {"type": "user", "message": message}
    return line if is_turn else {**line, "isMeta": True}


_MESSAGE_KEYS = ("role", "content")
_WHOLE_RESPONSES = {
    "choices": "pass its choices[0].message",
    "output": "pass its output, item by item",
    "candidates": "pass its candidates[0].content",
}


def model_as_entry(entry: Any, index: int) -> dict[str, Any]:
    """Return an SDK's object of a message as a dict; raises InvalidMessageError for a whole
    response and for an object that cannot be read."""
    for key, remedy in _WHOLE_RESPONSES.items():
        if isinstance(getattr(entry, key, None), list) and not hasattr(entry, "role"):
            raise InvalidMessageError(index, "", entry, "a message", remedy)
    if hasattr(entry, "stop_reason") and hasattr(entry, "usage"):
        # Anthropic's response: a request with its other fields is refused.
        return {key: as_dict(getattr(entry, key, None), index) for key in _MESSAGE_KEYS}
    found = dumped(entry, index)
    if isinstance(role := getattr(entry, "role", None), str):
        found.setdefault("role", role)  # the default of its class, as google-genai's ModelContent
    if "role" in found:  # chat answers null for every field it did not set
        return {key: found[key] for key in found if found[key] is not None or key == "content"}
    return found


def dumped(value: Any, index: int) -> dict[str, Any]:
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
