"""Converse messages read slowly and plainly: the twin of `reading/bedrock.rs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate.formats._reading import Path, compact_json
from rehydrate.messages import PieceKind
from tests.formats.blocks_twin import (
    Draft,
    as_content,
    check_no_chat_calls,
    tool_input_text,
    wrong_content,
)
from tests.formats.checks_twin import as_entry, as_role

_RESULT = PieceKind.TOOL_RESULT


def read_message(raw: object, index: int) -> tuple[Draft, str]:
    """Return what was read of a message, and its role."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    content = as_content(entry, index)
    check_no_chat_calls(entry, index)
    draft = Draft(index)
    kinds = _read_content(draft, content, PieceKind.TEXT, ("content",), "content")
    is_only_results = bool(kinds) and set(kinds) == {"toolResult"}
    return draft, "tool" if role == "user" and is_only_results else role


def _read_content(
    draft: Draft, content: object, kind: PieceKind, path: Path, part: str
) -> list[str]:
    """Return the key of each block that is no cache point."""
    if not isinstance(content, (list, tuple)):
        if isinstance(content, Mapping):
            raise wrong_content(content, draft.index, part)
        draft.add_content(content, kind, path, part)
        return [""]
    kinds = []
    for number, block in enumerate(content):
        here, place = (*path, number), f"{part}[{number}]"
        if isinstance(block, str):
            draft.add(block, kind, here)
            kinds.append("")
            continue
        block = as_entry(block, draft.index, place)
        if "cachePoint" not in block or isinstance(block.get("type"), str):
            kinds.append(_read_block(draft, block, kind, here, place))
    return kinds


def _read_block(
    draft: Draft, block: Mapping[str, Any], kind: PieceKind, path: Path, part: str
) -> str:
    is_typed = isinstance(block.get("type"), str)
    key = "" if is_typed else next((key for key in _READ if block.get(key) is not None), "")
    if not key:
        draft.add_block(block, kind, path, part)
    else:
        _READ[key](draft, block[key], kind, (*path, key), f"{part}.{key}")
    return key


def _text(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    draft.add(value, kind, path)


def _json(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    draft.add(compact_json(value), kind)


def _medium(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    draft.images += 1


def _readable(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    draft.add_readable(value, kind)


def _use(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    if kind is _RESULT or not isinstance(value, Mapping):
        draft.add_readable(value, kind)
        return
    if isinstance(value.get("toolUseId"), str):
        draft.calls.append(value["toolUseId"])
    draft.add(tool_input_text(value.get("name"), value.get("input")), PieceKind.TOOL_INPUT)


def _result(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    if kind is _RESULT or not isinstance(value, Mapping):
        draft.add_readable(value, kind)
        return
    if isinstance(value.get("toolUseId"), str):
        draft.answers.append(value["toolUseId"])
    draft._depth += 1
    _read_content(draft, value.get("content"), _RESULT, (*path, "content"), f"{part}.content")
    draft._depth -= 1


def _thought(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    if not isinstance(value, Mapping):
        draft.add_readable(value, kind)
    elif isinstance(value.get("reasoningText"), Mapping):
        draft.add(value["reasoningText"].get("text"), PieceKind.THINKING)


def _document(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    if not isinstance(value, Mapping):
        draft.add_readable(value, kind)
        return
    for key in ("name", "context"):
        draft.add(value.get(key), kind)
    source = value.get("source")
    source = source if isinstance(source, Mapping) else {}
    if isinstance(source.get("text"), str):
        where = None if value.get("citations") else (*path, "source", "text")
        draft.add(source["text"], kind, where)
    elif source.get("content") is not None:
        _texts(draft, source["content"], kind)
    else:
        draft.images += 1


def _cited(draft: Draft, value: Any, kind: PieceKind, path: Path, part: str) -> None:
    if isinstance(value, Mapping):
        _texts(draft, value.get("content"), kind)
    else:
        draft.add_readable(value, kind)


def _texts(draft: Draft, blocks: Any, kind: PieceKind) -> None:
    for block in blocks if isinstance(blocks, (list, tuple)) else ():
        if isinstance(block, Mapping):
            draft.add(block.get("text"), kind)


_READ = {
    "text": _text,
    "toolUse": _use,
    "toolResult": _result,
    "reasoningContent": _thought,
    "image": _medium,
    "video": _medium,
    "audio": _medium,
    "json": _json,
    "document": _document,
    "guardContent": _readable,
    "citationsContent": _cited,
    "searchResult": _readable,
    "toolAddition": _readable,
    "toolRemoval": _readable,
}
