"""Anthropic messages: content blocks, results in the user's next message, thinking blocks.

A `system` entry in the list is always kept, and the rules skip it: the caller moves it out when
sending, or a newer model accepts it in place. Blocks that a client cannot pair or read (server
tools, compaction, unknown ones) are counted as text, pass through unchanged and never fail. A
server tool's result is usually in the assistant's own message. Where it follows in a later one,
both are one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._reading import (
    HINT,
    MEDIA_TYPES,
    NONE,
    PROOF,
    Columns,
    Path,
    Places,
    as_entry,
    as_role,
    holds_bytes,
    read_entries,
    readable_texts,
    replace_texts,
    tool_input_text,
    type_of,
    wrong_content,
)
from rehydrate.formats.anthropic_rules import Spoken, broken_rules
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.thinking import (
    THINKING_BLOCKS,
    Nothing,
    content_without_thinking,
    is_thinking,
)
from rehydrate.messages import SHAPES, Conversation, Message, Piece, PieceKind

NAME = "anthropic"
replace = replace_texts

_TEXT, _TOOL_INPUT = PieceKind.TEXT, PieceKind.TOOL_INPUT
_TOOL_RESULT, _THINKING = PieceKind.TOOL_RESULT, PieceKind.THINKING

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_NATIVE_BLOCKS = _CALLS | {
    "tool_result",
    "thinking",
    "redacted_thinking",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "document",
    "search_result",
    "compaction",
    "container_upload",
}
_TEXT_SOURCES = {"text": "data", "content": "content"}


class Body(NamedTuple):
    """The contents of a message, by the field names of `Message`."""

    pieces: tuple[Piece, ...] = ()
    images: int = 0
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    only_results: bool = False


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: a block that only this format has. HINT: a cache mark; other gateways take it too."""
    content = entry.get("content")
    if "role" not in entry or not isinstance(content, (list, tuple)):
        return NONE
    evidence = NONE
    for block in content:
        if isinstance(block, Mapping):
            kind = type_of(block)
            if kind in _NATIVE_BLOCKS or (kind == "image" and "source" in block):
                return PROOF
            if "cache_control" in block:
                evidence = HINT
    return evidence


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Anthropic messages; raises InvalidMessageError for an entry that is no message."""
    columns = read_entries(NAME, entries, _read_entry)
    bound = _opening_thought(entries, columns)
    return Conversation(NAME, None, None, (), user_first=True, bound=bound, columns=columns)


def _read_entry(raw: object, index: int) -> tuple[Message, bool]:
    """Read a message of any shape; return also whether it ends in a thought.

    A thought at the end of a message belongs to the assistant's next message: the API joins the
    two, and refuses a message that ends in a thought.
    """
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    content = entry.get("content")
    body = read_content(content, index)
    if role == "user" and body.only_results:
        role = "tool"
    message = Message(index, role, *body[:4], role == "user")
    return message, role == "assistant" and _ends_in_thought(content)


def _opening_thought(entries: Sequence[Any], columns: Columns) -> tuple[int, ...]:
    """Return the index of the message that begins the open tool loop, if it begins with a thought
    without text (redacted, or not displayed); no piece shows such a thought.

    With thinking enabled the API refuses a loop that does not begin with a thought.
    """
    first = columns.loop_opening()
    if first is None or first == len(columns) - 1 or not _begins_with_thought(entries[first]):
        return ()
    pieces = columns.message(first, SHAPES).pieces
    return () if any(piece.kind is _THINKING for piece in pieces) else (first,)


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Messages API that these messages break."""
    spoken = []
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        role = as_role(entry, index)
        if role != "system":
            blocks = [(index, block) for block in iter_blocks(entry.get("content"), index)]
            spoken.append(Spoken(index, role, blocks, entry.get("content") is None))
    return broken_rules(spoken)


def iter_blocks(content: object, index: int) -> Iterator[Mapping[str, Any]]:
    """Yield a content as blocks: a string is one text block, an empty one none."""
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
    elif isinstance(content, (list, tuple)):
        for part_index, block in enumerate(content):
            if isinstance(block, str):
                yield {"type": "text", "text": block}
            else:
                yield as_entry(block, index, f"content[{part_index}]")
    elif content is not None:
        raise wrong_content(content, index)


def read_content(content: object, index: int) -> Body:
    """Read a message's content: a string, a list of blocks or nothing.

    Reads every shape and reports what is wrong; the native reader reads the common shapes faster.
    """
    if isinstance(content, str):
        return Body((Piece(content, _TEXT),)) if content else Body()
    if content is None:
        return Body()
    if not isinstance(content, (list, tuple)):
        raise wrong_content(content, index)
    draft = _Draft(index)
    results = 0
    for part_index, item in enumerate(content):
        if isinstance(item, str):
            draft.add(item, _TEXT)
            continue
        block = as_entry(item, index, f"content[{part_index}]")
        kind = type_of(block)
        if kind == "text":
            draft.add(block.get("text"), _TEXT)
        elif kind == "tool_result":
            results += 1
            _read_result(draft, block, part_index)
        elif kind in _CALLS:
            _read_call(draft, block)
        elif kind == "thinking":
            draft.add(block.get("thinking"), _THINKING)
        elif kind.endswith("_tool_result"):
            _read_server_result(draft, block)
        elif kind != "redacted_thinking":
            _read_other(draft, block, _TEXT)
    only_results = 0 < results == len(content)
    return Body(
        tuple(draft.pieces), draft.images, tuple(draft.calls), tuple(draft.answers), only_results
    )


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: texts, text documents and results of client tools.

    Thinking, tool inputs, server tools, blocks with citations and unknown blocks do not change.
    """
    return places_in(entry.get("content"), index, ("content",))


def places_in(content: object, index: int, path: Path) -> Places:
    """Return the paths of the pieces that `read_content` reads of the content at `path`."""
    if isinstance(content, str):
        return [path] if content else []
    if not isinstance(content, (list, tuple)):
        return []
    found: Places = []
    for part_index, item in enumerate(content):
        here = (*path, part_index)
        if isinstance(item, Mapping) and item.get("type") == "tool_result":
            inner = item.get("content")
            if isinstance(inner, str):
                found += [(*here, "content")] if inner else []
            else:
                for inner_place, block in enumerate(inner or ()):
                    found += _block_places(block, index, (*here, "content", inner_place))
        else:
            found += _block_places(item, index, here)
    return found


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of an entry's calls; None for server tools and for calls made by code."""
    return inputs_in(entry.get("content"), ("content",))


def inputs_in(content: object, path: Path) -> Inputs:
    """Return the inputs of the calls in the content at `path`."""
    if not isinstance(content, (list, tuple)):
        return []
    return [
        _input(block, (*path, part_index, "input"))
        for part_index, block in enumerate(content)
        if isinstance(block, Mapping) and type_of(block) in _CALLS
    ]


def _input(block: Mapping[str, Any], path: Path) -> Input | None:
    call, caller = block.get("id"), block.get("caller")
    by_code = isinstance(caller, Mapping) and type_of(caller) != "direct"
    if type_of(block) != "tool_use" or not isinstance(call, str) or by_code:
        return None
    return Input(call, block.get("name"), block.get("input"), (path,))


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the message holds a thought or its signature."""
    return is_signed(entry.get("content"))


def _block_places(block: object, index: int, path: Path) -> Places:
    """Return the path of a block's one text if it may be excerpted, else None for each piece."""
    if isinstance(block, str):
        return [path] if block else []
    pieces = read_content([block], index).pieces
    if len(pieces) == 1 and isinstance(block, Mapping) and not block.get("citations"):
        source = block.get("source")
        if type_of(block) == "text":
            return [(*path, "text")]
        if isinstance(source, Mapping) and source.get("data") == pieces[0].text:
            return [(*path, "source", "data")]  # a document that is plain text
    return [None] * len(pieces)


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each entry without thinking blocks: itself, a copy, or None where nothing is left."""
    return [_without_thinking(entry, index) for index, entry in enumerate(entries)]


def _without_thinking(entry: Mapping[str, Any], index: int) -> Mapping[str, Any] | None:
    content = entry.get("content")
    rest = content_without_thinking(content)
    if rest is content or as_role(entry, index) != "assistant":
        return entry
    return None if rest is Nothing else {**entry, "content": rest}


class _Draft:
    """A `Body` while its blocks are read."""

    __slots__ = ("answers", "calls", "images", "index", "pieces")

    def __init__(self, index: int) -> None:
        self.index = index
        self.pieces: list[Piece] = []
        self.images = 0
        self.calls: list[str] = []
        self.answers: list[str] = []

    def add(self, text: object, kind: PieceKind) -> None:
        if text and isinstance(text, str):
            self.pieces.append(Piece(text, kind))

    def add_readable(self, value: object, kind: PieceKind) -> None:
        self.pieces += [Piece(text, kind) for text in readable_texts(value)]


def _read_call(draft: _Draft, block: Mapping[str, Any]) -> None:
    call = block.get("id")
    if isinstance(call, str):
        draft.calls.append(call)
    draft.add(tool_input_text(block.get("name"), block.get("input")), _TOOL_INPUT)


def _read_result(draft: _Draft, block: Mapping[str, Any], part_index: int) -> None:
    answer = block.get("tool_use_id")
    if isinstance(answer, str):
        draft.answers.append(answer)
    content = block.get("content")
    if isinstance(content, str):
        draft.add(content, _TOOL_RESULT)
        return
    if content is None:
        return
    part = f"content[{part_index}].content"
    if isinstance(content, Mapping) or not isinstance(content, (list, tuple)):
        raise wrong_content(content, draft.index, part)
    for inner_place, inner in enumerate(content):
        if isinstance(inner, str):
            draft.add(inner, _TOOL_RESULT)
        else:
            inner_block = as_entry(inner, draft.index, f"{part}[{inner_place}]")
            _read_other(draft, inner_block, _TOOL_RESULT)


def _read_server_result(draft: _Draft, block: Mapping[str, Any]) -> None:
    answer = block.get("tool_use_id")
    if isinstance(answer, str):
        draft.answers.append(answer)
    draft.add_readable(block.get("content"), _TOOL_RESULT)


def _read_other(draft: _Draft, block: Mapping[str, Any], kind: PieceKind) -> None:
    """Read a text, media or a block of unknown type as pieces of `kind`."""
    block_type = type_of(block)
    if block_type == "text":
        draft.add(block.get("text"), kind)
    elif block_type in MEDIA_TYPES:
        draft.images += 1
    elif holds_bytes(block):
        draft.images += 1
        draft.add_readable(block, kind)
    elif block_type == "document":
        draft.add_readable([block.get("title"), block.get("context")], kind)
        source = block.get("source")
        # A text source keeps its text under `data`, where the others keep base64.
        if isinstance(source, Mapping) and type_of(source) in _TEXT_SOURCES:
            draft.add_readable(source.get(_TEXT_SOURCES[source["type"]]), kind)
        else:
            draft.images += 1
    else:
        draft.add_readable(block, kind)


def _begins_with_thought(entry: Mapping[str, Any]) -> bool:
    content = entry.get("content")
    return isinstance(content, (list, tuple)) and bool(content) and is_thinking(content[0])


def _ends_in_thought(content: object) -> bool:
    if not content or not isinstance(content, (list, tuple)):
        return False
    last = content[-1]
    if type(last) is not dict and not isinstance(last, Mapping):
        return False
    kind = last.get("type")
    return isinstance(kind, str) and kind in THINKING_BLOCKS
