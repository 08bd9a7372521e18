"""Serialization: a PromptIR or CompiledPrompt to JSON values, and back to an equal one.

The classes are the schema: fields are read by their type hints, so a new field needs no code here.
Enums are written by name, times in ISO 8601. A field with a default may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast

from rehydrate import _text
from rehydrate._native import Schema, check_columns, own_entries, plain_at, seen_as_chat
from rehydrate.errors import UnreadableIRError
from rehydrate.prompt.entries import History

T = TypeVar("T")

VERSION = 1
"""The version of the documents. A reader takes this one and older ones."""
IR_KIND, COMPILED_KIND = "prompt_ir", "compiled_prompt"
KIND_KEY = "rehydrate"
"""The key whose value is the kind of the document. It tells an IR from a conversation."""


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
    ir: Any = _schema(kind).read(fields)
    history = ir.history
    check_columns(history)
    if history.format == "bedrock":
        entries = own_entries(history.entries, history.format)
        ir = ir.replace(history=replace(history, entries=tuple(entries)))
    return cast(T, ir)


def compiled_from_dict(kind: type[T], ir_kind: type[Any], document: Any) -> T:
    """Read a CompiledPrompt from what its `to_dict` returned; raises as `ir_from_dict` does."""
    document_kind, fields = _opened(document)
    if document_kind != COMPILED_KIND:
        raise UnreadableIRError(KIND_KEY, f"is {document_kind!r}", f"pass a {COMPILED_KIND!r}")
    ir = ir_from_dict(ir_kind, fields.pop("ir", None))
    compiled = _schema(kind).read(fields, ir=ir)
    request = compiled.request
    if isinstance(messages := request.get("messages"), list):
        request = {**request, "messages": own_entries(messages, compiled.provider)}
    return cast(T, replace(compiled, request=request))


_schema: Callable[[Any], Schema] = cache(Schema)


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


def as_json(value: dict[str, Any], indent: int | None = None) -> str:
    """Return JSON text. It is escaped if it has half a surrogate pair: UTF-8 cannot hold it."""
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


def plain(value: Any, path: str = "") -> Any:
    """Return the value as JSON values; `path` is its path in the document, for errors.

    Raises UnreadableIRError for what JSON cannot hold, and for what is nested too deep.
    """
    try:
        return plain_at(value, path)
    except RecursionError:
        raise UnreadableIRError(path, "is nested too deep for JSON", "flatten it") from None


def _without_langchain_objects(ir: Any) -> Any:
    """Convert an IR of LangChain messages to OpenAI chat."""
    history = ir.history
    if history.format != "langchain":
        return ir
    seen = seen_as_chat(history.entries)
    rows = [row for row, _ in seen]
    is_whole = len(rows) == len(history.entries)
    tokens = [history.tokens[row] for row in rows] if history.tokens else []
    indices = history.entry_indices if is_whole else tuple(map(history.entry_index, rows))
    entries = tuple([entry for _, entry in seen])
    return ir.replace(
        history=History(entries, "openai_chat", tuple(tokens), indices),
        sections=tuple(map(_chat_section, ir.sections)),
        late_bound=tuple(map(_chat_section, ir.late_bound)),
    )


def _chat_section(section: Any) -> Any:
    """Convert the messages of a `Section`."""
    if isinstance(section.content, str):
        return section
    content = tuple([entry for _, entry in seen_as_chat(section.content)])
    return replace(section, content=content)
