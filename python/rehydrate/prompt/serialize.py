"""JSON both ways: a PromptIR as plain values, and back again equal.

The classes themselves are the schema: fields are read by their type hints, so that what a class
gains the wire has. Enums stand there by their names, times in ISO 8601; defaults may be left out.
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
from typing import Any, Literal, NamedTuple, TypeVar

from rehydrate.errors import InvalidArgumentError, InvalidMessageError, UnreadableIRError
from rehydrate.prompt.content import PromptContent
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import Section

T = TypeVar("T")

VERSION = 1
"""Of the shape; a reader takes this one and those before it."""
IR_KIND, COMPILED_KIND = "prompt_ir", "compiled_prompt"
KIND_KEY = "rehydrate"
"""Under it stands what a document holds, so that an IR is told from a conversation."""

_LANGCHAIN, _OPENAI_CHAT = "langchain", "openai_chat"


def ir_to_dict(ir: PromptContent) -> dict[str, Any]:
    """The IR as values that JSON has: what it holds is copied, message objects become dicts.

    LangChain's messages become those of OpenAI chat, entry by entry; what no model sees of them
    (an order to a graph's state) is left out. Raises UnreadableIRError for a value that JSON has no
    word for.
    """
    ir = _without_objects(ir)
    try:
        return document(IR_KIND, **_plain_fields(ir, ""))
    except RecursionError:
        raise UnreadableIRError("", "is nested too deeply", "flatten its entries") from None


def document(kind: str, **fields: Any) -> dict[str, Any]:
    """A document that says what it holds and in which version of the shape."""
    return {KIND_KEY: kind, "version": VERSION, **fields}


def ir_from_dict(kind: type[T], document: Any) -> T:
    """A PromptIR of what `ir_to_dict` made; of a compiled prompt's, the IR in it.

    Raises UnreadableIRError, which names the place, for a field that is unknown, missing or of
    another type, and for what a newer version wrote.
    """
    what, fields = _opened(document)
    if what == COMPILED_KIND:
        return ir_from_dict(kind, fields.get("ir"))
    ir = _record(kind, fields, "")
    _check_shape(ir.history)
    return typing.cast(T, ir)


def compiled_from_dict(kind: Callable[..., T], ir_kind: type[Any], document: Any) -> T:
    """A CompiledPrompt of what `compiled_to_dict` made; raises as `ir_from_dict` does."""
    what, fields = _opened(document)
    if what != COMPILED_KIND:
        raise UnreadableIRError(KIND_KEY, f"is {what!r}", f"pass a {COMPILED_KIND!r}")
    ir = ir_from_dict(ir_kind, fields.pop("ir", None))
    hints = typing.get_type_hints(kind)
    if unknown := fields.keys() - hints.keys():
        names = ", ".join(map(repr, sorted(unknown)))
        raise UnreadableIRError("", f"has the unknown field {names}", "leave it out", unknown)
    if missing := {"provider", "request", "segments"} - fields.keys():
        names = ", ".join(map(repr, sorted(missing)))
        raise UnreadableIRError("", f"has no {names}", "add it", sorted(missing))
    read = {name: _read(hints[name], value, name) for name, value in fields.items()}
    return kind(**read, ir=ir)


def _opened(document: Any) -> tuple[str, dict[str, Any]]:
    """What a document holds, and its fields, once its version is one that can be read."""
    if not isinstance(document, Mapping) or KIND_KEY not in document:
        raise UnreadableIRError(
            "", f"has no {KIND_KEY!r} key", "pass what PromptIR.to_dict() returned"
        )
    what = document[KIND_KEY]
    if what not in (IR_KIND, COMPILED_KIND):
        raise UnreadableIRError(KIND_KEY, f"is {what!r}", f"pass {IR_KIND!r} or {COMPILED_KIND!r}")
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
    return what, {key: value for key, value in document.items() if key not in (KIND_KEY, "version")}


def _check_shape(history: History) -> None:
    size = len(history.entries)
    for name, numbers in (("tokens", history.tokens), ("places", history.places)):
        if numbers and len(numbers) != size:
            problem = f"has {len(numbers):,} numbers for {size:,} entries"
            raise UnreadableIRError(f"history.{name}", problem, "give each entry one, or leave out")


def as_json(value: dict[str, Any], indent: int | None = None) -> str:
    """JSON text; where half a surrogate pair stands in it, escaped, since UTF-8 cannot hold it."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    return text if _is_utf8(text) else json.dumps(value, indent=indent, separators=separators)


def from_json(text: str | bytes) -> Any:
    """The document in a JSON text; raises UnreadableIRError for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableIRError("", f"is not JSON ({error})", "pass PromptIR.to_json()") from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Writing


def _plain_fields(value: Any, place: str) -> dict[str, Any]:
    names = getattr(value, "_fields", None)
    if names is None:
        names = [one.name for one in dataclasses.fields(value) if one.init]
    return {
        name: plain(getattr(value, name), f"{place}.{name}" if place else name) for name in names
    }


def plain(value: Any, place: str = "") -> Any:
    """The value in the words that JSON has; `place` is where it stands, for the error."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return _plain_mapping(value, place)
    if hasattr(value, "_fields") or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        return _plain_fields(value, place)
    if isinstance(value, (list, tuple)):
        return [plain(one, f"{place}[{number}]") for number, one in enumerate(value)]
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json", exclude_none=True), place)
    return _plain_scalar(value, place)


def _plain_mapping(value: Mapping[Any, Any], place: str) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise UnreadableIRError(place, f"has the key {key!r}", "pass strings as keys")
    return {key: plain(one, f"{place}.{key}") for key, one in value.items()}


def _plain_scalar(value: Any, place: str) -> str | int | float:
    if isinstance(value, Enum):
        return _name(value)
    if isinstance(value, datetime):
        return value.isoformat()
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass of it, as some of numpy's numbers are
            return kind(value)
    remedy = "pass texts, numbers, lists and dicts of these"
    raise UnreadableIRError(place, f"is of type {type(value).__name__}", remedy)


def _name(member: Enum) -> str:
    """What stands for it on the wire, and is readable there."""
    return str(member.value) if isinstance(member, StrEnum) else member.name.lower()


def _without_objects(ir: PromptContent) -> PromptContent:
    """The same with OpenAI chat dicts in the place of LangChain's objects."""
    if ir.history.format != _LANGCHAIN:
        return ir
    return ir.replace(
        history=_as_chat(ir.history),
        sections=tuple(map(_with_chat, ir.sections)),
        late_bound=tuple(map(_with_chat, ir.late_bound)),
    )


def _with_chat(section: Section) -> Section:
    if isinstance(section.content, str):
        return section
    return dataclasses.replace(section, content=tuple(one for _, one in _chat(section.content)))


def _as_chat(history: History) -> History:
    pairs = list(_chat(history.entries))
    kept = [number for number, _ in pairs]
    is_whole = len(kept) == len(history.entries)
    return dataclasses.replace(
        history,
        entries=tuple(entry for _, entry in pairs),
        format=_OPENAI_CHAT,
        tokens=tuple(history.tokens[number] for number in kept) if history.tokens else (),
        places=history.places if is_whole else tuple(map(history.place, kept)),
    )


def _chat(entries: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    from rehydrate.formats.langchain_chat import langchain_to_openai

    for number, entry in enumerate(entries):
        try:
            (converted,) = langchain_to_openai([entry])
        except InvalidMessageError:
            if isinstance(entry, Mapping):
                yield number, entry
            continue
        yield number, converted


# Reading


class _Field(NamedTuple):
    hint: Any
    is_required: bool


@cache
def _fields_of(kind: Any) -> dict[str, _Field]:
    hints = typing.get_type_hints(kind)
    if issubclass(kind, tuple):
        defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
        return {name: _Field(hint, name not in defaults) for name, hint in hints.items()}
    return {
        field.name: _Field(
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
        if field.init
    }


def _record(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, Mapping):
        raise _other_type(place, value, "an object")
    fields = _fields_of(kind)
    unknown = [str(name) for name in value if name not in fields]
    if unknown:
        names = ", ".join(map(repr, unknown))
        remedy = f"upgrade rehydrate, or leave it out: a {kind.__name__} has {', '.join(fields)}"
        raise UnreadableIRError(place, f"has the unknown field {names}", remedy, unknown)
    missing = [name for name, field in fields.items() if field.is_required and name not in value]
    if missing:
        names = ", ".join(map(repr, missing))
        raise UnreadableIRError(place, f"has no {names}", "add it", missing)
    read = {
        name: _read(fields[name].hint, one, f"{place}.{name}" if place else name)
        for name, one in value.items()
    }
    try:
        return kind(**read)
    except UnreadableIRError:
        raise
    except InvalidArgumentError as error:
        raise UnreadableIRError(place, "does not hold together", str(error)) from None


def _read(hint: Any, value: Any, place: str) -> Any:
    """The value as its hint wants it."""
    if hint is Any:
        return value
    origin = typing.get_origin(hint)
    if origin is not None:
        return _read_generic(origin, typing.get_args(hint), value, place)
    if issubclass(hint, Enum):
        return _chosen(value, {_name(member): member for member in hint}, place)
    if hint is datetime:
        return _time(value, place)
    if dataclasses.is_dataclass(hint) or issubclass(hint, tuple):
        return _record(hint, value, place)
    if type(value) is not hint and not (hint is float and type(value) is int):
        raise _other_type(place, value, _WORDS.get(hint, hint.__name__))
    return value


def _read_generic(origin: Any, arguments: Sequence[Any], value: Any, place: str) -> Any:
    if origin in (types.UnionType, typing.Union):
        return _read(_fitting(arguments, value), value, place)
    if origin is Literal:
        return _chosen(value, {str(one): one for one in arguments}, place)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _other_type(place, value, "a list")
        return tuple([_read(arguments[0], one, f"{place}[{n}]") for n, one in enumerate(value)])
    if not isinstance(value, Mapping):
        raise _other_type(place, value, "an object")
    return {key: _read(arguments[1], one, f"{place}.{key}") for key, one in value.items()}


_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _fitting(hints: Sequence[Any], value: Any) -> Any:
    """Of a union the member that the value can be: null, a text, or the other one."""
    if value is None and types.NoneType in hints:
        return Any
    rest = [hint for hint in hints if hint is not types.NoneType]
    if len(rest) > 1 and isinstance(value, str) and str in rest:
        return str
    return rest[-1]


def _chosen(value: Any, known: Mapping[str, Any], place: str) -> Any:
    if not isinstance(value, str) or value not in known:
        names = ", ".join(map(repr, known))
        raise UnreadableIRError(place, f"is {value!r}", f"choose one of {names}")
    return known[value]


def _time(value: Any, place: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        remedy = "pass a time such as 2026-02-17T09:30:00+00:00"
        raise UnreadableIRError(place, f"is {value!r}", remedy) from None


def _other_type(place: str, value: Any, expected: str) -> UnreadableIRError:
    shown = "null" if value is None else f"of type {type(value).__name__}"
    return UnreadableIRError(place, f"is {shown}", f"pass {expected}")
