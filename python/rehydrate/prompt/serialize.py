"""Serialization: a PromptIR or CompiledPrompt to JSON values, and back to an equal one.

The classes are the schema: fields are read by their type hints, so a new field needs no code here.
Enums are written by name, times in ISO 8601. A field with a default may be left out.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from typing import Any, Literal, TypeVar

from rehydrate import _text
from rehydrate._native import own_entry, plain_at
from rehydrate.errors import InvalidArgumentError, InvalidMessageError, UnreadableIRError
from rehydrate.prompt.entries import History

T = TypeVar("T")

VERSION = 1
"""The version of the documents. A reader takes this one and older ones."""
IR_KIND, COMPILED_KIND = "prompt_ir", "compiled_prompt"
KIND_KEY = "rehydrate"
"""The key whose value is the kind of the document. It tells an IR from a conversation."""

_LANGCHAIN, _OPENAI_CHAT = "langchain", "openai_chat"


def ir_to_dict(ir: Any) -> dict[str, Any]:
    """Return a PromptIR as JSON values. The values are copies, and message objects become dicts.

    LangChain messages become OpenAI chat messages, one by one. Those that no model sees (a command
    to a graph's state) are left out. Raises UnreadableIRError for a value that JSON cannot hold.
    """
    ir = _without_langchain_objects(ir)
    try:
        return document(IR_KIND, **plain_at(ir, ""))
    except RecursionError:
        raise UnreadableIRError("", "is nested too deeply", "flatten its entries") from None


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a document with its kind and version."""
    return {KIND_KEY: kind, "version": VERSION, **fields}


def ir_from_dict(kind: type[T], document: Any) -> T:
    """Read a PromptIR from what `ir_to_dict` returned; from a compiled prompt, the IR in it.

    Raises UnreadableIRError, with the path, for a field that is unknown, missing or of another
    type, and for a document of a newer version.
    """
    document_kind, fields = _opened(document)
    if document_kind == COMPILED_KIND:
        return ir_from_dict(kind, fields.get("ir"))
    ir = _record(kind, fields, "")
    history = ir.history
    _check_lengths(history)
    entries = own_entries(history.entries, history.format)
    if entries is not history.entries:
        ir = ir.replace(history=dataclasses.replace(history, entries=tuple(entries)))
    return typing.cast(T, ir)


def compiled_from_dict(kind: Callable[..., T], ir_kind: type[Any], document: Any) -> T:
    """Read a CompiledPrompt from what its `to_dict` returned; raises as `ir_from_dict` does."""
    document_kind, fields = _opened(document)
    if document_kind != COMPILED_KIND:
        raise UnreadableIRError(KIND_KEY, f"is {document_kind!r}", f"pass a {COMPILED_KIND!r}")
    ir = ir_from_dict(ir_kind, fields.pop("ir", None))
    hints = typing.get_type_hints(kind)
    _refuse("", "has the unknown field", sorted(fields.keys() - hints), "leave it out")
    required = {"provider", "request", "segments"}
    _refuse("", "has no", sorted(required - fields.keys()), "add it")
    read = {name: _read(hints[name], value, name) for name, value in fields.items()}
    request = read["request"]
    if isinstance(messages := request.get("messages"), list):
        read["request"] = {**request, "messages": own_entries(messages, read["provider"])}
    return kind(**read, ir=ir)


def _opened(document: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a document and its fields; raises for a version that cannot be read."""
    if not isinstance(document, Mapping) or KIND_KEY not in document:
        raise UnreadableIRError(
            "", f"has no {KIND_KEY!r} key", "pass what PromptIR.to_dict() returned"
        )
    kind = document[KIND_KEY]
    if kind not in (IR_KIND, COMPILED_KIND):
        raise UnreadableIRError(KIND_KEY, f"is {kind!r}", f"pass {IR_KIND!r} or {COMPILED_KIND!r}")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise UnreadableIRError("version", f"is {version!r}", f"pass 1 to {VERSION}", ["version"])
    if version > VERSION:
        raise UnreadableIRError(
            "version",
            f"is {version}, and this package reads up to {VERSION}",
            "upgrade rehydrate to read it",
            ["version"],
        )
    return kind, {key: value for key, value in document.items() if key not in (KIND_KEY, "version")}


def _check_lengths(history: History) -> None:
    size = len(history.entries)
    columns = {"tokens": history.tokens, "entry_indices": history.entry_indices}
    for name, numbers in columns.items():
        if numbers and len(numbers) != size:
            problem = f"has {len(numbers):,} numbers for {size:,} entries"
            raise UnreadableIRError(f"history.{name}", problem, "give each entry one, or leave out")


def as_json(value: dict[str, Any], indent: int | None = None) -> str:
    """Return JSON text. It is escaped where it has half a surrogate pair: UTF-8 cannot hold it."""
    separators = (",", ":") if indent is None else None
    return _text.as_json(value, indent=indent, separators=separators)


def from_json(text: str | bytes) -> Any:
    """Read a JSON text; raises UnreadableIRError for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableIRError("", f"is not JSON ({error})", "pass PromptIR.to_json()") from None


ENTRIES = "history.entries"
"""The path of entries. In them and in a request, bytes are base64: pictures of Converse's."""


def own_entries(values: Sequence[Any], format: str) -> Sequence[Any]:  # noqa: A002  the field's word
    """Return entries of a format, from their JSON: Converse's media are bytes again."""
    if format != "bedrock":
        return values
    return [
        {**value, "content": own_entry(format, value)["content"]}
        if isinstance(value, dict) and isinstance(value.get("content"), list)
        else value
        for value in values
    ]


# Writing


def plain(value: Any, path: str = "") -> Any:
    """Return the value as JSON values; `path` is its path in the document, for errors.

    Raises UnreadableIRError for what JSON cannot hold, and for what is nested too deep.
    """
    try:
        return plain_at(value, path)
    except RecursionError:
        raise UnreadableIRError(path, "is nested too deep for JSON", "flatten it") from None


def _name(member: Enum) -> str:
    """Return the name of an enum member in JSON."""
    return str(member.value) if isinstance(member, StrEnum) else member.name.lower()


def _without_langchain_objects(ir: Any) -> Any:
    """Convert an IR of LangChain messages to OpenAI chat."""
    if ir.history.format != _LANGCHAIN:
        return ir
    return ir.replace(
        history=_chat_history(ir.history),
        sections=tuple(map(_chat_section, ir.sections)),
        late_bound=tuple(map(_chat_section, ir.late_bound)),
    )


def _chat_section(section: Any) -> Any:
    """Convert the messages of a `Section`."""
    if isinstance(section.content, str):
        return section
    content = tuple(entry for _, entry in _chat_entries(section.content))
    return dataclasses.replace(section, content=content)


def _chat_history(history: History) -> History:
    pairs = list(_chat_entries(history.entries))
    kept = [number for number, _ in pairs]
    is_whole = len(kept) == len(history.entries)
    return dataclasses.replace(
        history,
        entries=tuple(entry for _, entry in pairs),
        format=_OPENAI_CHAT,
        tokens=tuple(history.tokens[number] for number in kept) if history.tokens else (),
        entry_indices=history.entry_indices if is_whole else tuple(map(history.entry_index, kept)),
    )


def _chat_entries(entries: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the position and the OpenAI chat message of each entry that a model sees."""
    from rehydrate.formats.langchain import langchain_to_openai

    for number, entry in enumerate(entries):
        try:
            (converted,) = langchain_to_openai([entry])
        except InvalidMessageError:
            if isinstance(entry, Mapping):
                yield number, entry
            continue
        yield number, converted


# Reading


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return the hint of each field of a dataclass or named tuple that JSON has, and whether it is
    required."""
    hints = typing.get_type_hints(kind)
    if issubclass(kind, tuple):
        defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
        return {name: (hint, name not in defaults) for name, hint in hints.items()}
    return {
        field.name: (
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
        if field.init
    }


def _record(kind: Any, value: Any, path: str) -> Any:
    """Read a dataclass or named tuple from its fields."""
    if not isinstance(value, Mapping):
        raise _other_type(path, value, "an object")
    fields = _fields_of(kind)
    unknown = [str(name) for name in value if name not in fields]
    remedy = f"upgrade rehydrate, or leave it out: a {kind.__name__} has {', '.join(fields)}"
    _refuse(path, "has the unknown field", unknown, remedy)
    missing = [name for name, (_, must) in fields.items() if must and name not in value]
    _refuse(path, "has no", missing, "add it")
    read = {
        name: _read(fields[name][0], one, f"{path}.{name}" if path else name)
        for name, one in value.items()
    }
    try:
        return kind(**read)
    except UnreadableIRError:
        raise
    except InvalidArgumentError as error:
        raise UnreadableIRError(path, "does not hold together", str(error)) from None


def _refuse(path: str, problem: str, names: Sequence[str], remedy: str) -> None:
    """Raise for fields that are unknown or missing, if there are any."""
    if names:
        raise UnreadableIRError(path, f"{problem} {', '.join(map(repr, names))}", remedy, names)


def _read(hint: Any, value: Any, path: str) -> Any:
    """Return the value converted to the type of its hint."""
    if hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin is not None:
        return _read_generic(origin, typing.get_args(hint), value, path)
    if issubclass(hint, Enum):
        return _choice(value, {_name(member): member for member in hint}, path)
    if hint is datetime:
        return _time(value, path)
    if dataclasses.is_dataclass(hint) or issubclass(hint, tuple):
        return _record(hint, value, path)
    if type(value) is not hint and not (hint is float and type(value) is int):
        raise _other_type(path, value, _TYPE_NAMES.get(hint, hint.__name__))
    return value


def _read_generic(origin: Any, arguments: Sequence[Any], value: Any, path: str) -> Any:
    if origin in (types.UnionType, typing.Union):
        return _read(_member_of_union(arguments, value), value, path)
    if origin is Literal:
        return _choice(value, {str(one): one for one in arguments}, path)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _other_type(path, value, "a list")
        return tuple([_read(arguments[0], one, f"{path}[{n}]") for n, one in enumerate(value)])
    if not isinstance(value, Mapping):
        raise _other_type(path, value, "an object")
    return {key: _read(arguments[1], one, f"{path}.{key}") for key, one in value.items()}


_TYPE_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _member_of_union(hints: Sequence[Any], value: Any) -> Any:
    """Return the member of a union that fits the value: null, a text, or the other one."""
    if value is None and types.NoneType in hints:
        return Any
    others = [hint for hint in hints if hint is not types.NoneType]
    if len(others) > 1 and isinstance(value, str) and str in others:
        return str
    return others[-1]


def _choice(value: Any, choices: Mapping[str, Any], path: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        names = ", ".join(map(repr, choices))
        raise UnreadableIRError(path, f"is {value!r}", f"choose one of {names}")
    return choices[value]


def _time(value: Any, path: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        remedy = "pass a time such as 2026-02-17T09:30:00+00:00"
        raise UnreadableIRError(path, f"is {value!r}", remedy) from None


def _other_type(path: str, value: Any, expected: str) -> UnreadableIRError:
    found = "null" if value is None else f"of type {type(value).__name__}"
    return UnreadableIRError(path, f"is {found}", f"pass {expected}")
