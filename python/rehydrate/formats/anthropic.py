"""Anthropic messages: content blocks, results in the user's next message, thinking blocks.

A `system` entry is always kept. At the beginning of the list the rules skip it: the caller moves it
out when sending. In the middle, where newer models accept it, it belongs to the message before it
and to the assistant's that follows. Blocks that a client cannot pair or read (server
tools, compaction, unknown ones) are counted as text, pass through unchanged and never fail. A
server tool's result is usually in the assistant's own message. Where it follows in a later one,
both are one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats._reading import (
    HINT,
    NONE,
    PROOF,
    Path,
    Places,
    as_entry,
    as_role,
    read_entries,
    replace_texts,
    type_of,
    wrong_content,
)
from rehydrate.formats.anthropic_rules import Spoken, broken_rules, system_rules
from rehydrate.formats.blocks import (
    CALLS,
    Draft,
    Notes,
    as_content,
    check_pair,
    has_only_results,
    is_anthropic,
    is_call,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.thinking import (
    THINKING_BLOCKS,
    Nothing,
    content_without_thinking,
    is_thinking,
)
from rehydrate.messages import Conversation, Message, Piece, PieceKind

NAME = "anthropic"
replace = replace_texts

_TEXT, _THINKING = PieceKind.TEXT, PieceKind.THINKING

THOUGHT_ONLY = "(Nothing but thinking.)"
"""What is left of such a message where there must be one."""

_NATIVE_BLOCKS = CALLS | {
    "tool_result",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "document",
    "search_result",
    "compaction",
    "container_upload",
}


class Body(NamedTuple):
    """The contents of a message, by the field names of `Message`."""

    pieces: tuple[Piece, ...] = ()
    images: int = 0
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    only_results: bool = False


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: a block that only this format has. HINT: a thought or a cache mark, which gateways
    write into messages of chat too."""
    content = entry.get("content")
    if "role" not in entry or not isinstance(content, (list, tuple)):
        return NONE
    evidence = NONE
    for block in content:
        if isinstance(block, Mapping):
            kind = type_of(block)
            if kind in _NATIVE_BLOCKS or (kind == "image" and "source" in block):
                return PROOF
            if "cache_control" in block or kind in THINKING_BLOCKS:
                evidence = HINT
    return evidence


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Anthropic messages; raises InvalidMessageError for an entry that is no message."""
    notes = Notes()
    read = read_entries(NAME, entries, partial(_read_entry, notes=notes))
    opening = _opening_thought(entries, read)
    return notes.added_to(read, user_first=True, bound=opening, opening=opening)


def _read_entry(raw: object, index: int, notes: Notes | None = None) -> tuple[Message, bool]:
    """Read a message of any shape; return also whether it ends in a thought.

    A thought at the end of a message belongs to the assistant's next message: the API joins the
    two, and refuses a message that ends in a thought.
    """
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    content = as_content(entry, index)
    _check_no_chat_calls(entry, index)
    body = read_content(content, index, notes)
    if role == "user" and body.only_results:
        role = "tool"
    message = Message(index, role, *body[:4], role == "user")
    return message, role == "assistant" and _ends_in_thought(content)


def _check_no_chat_calls(entry: Mapping[str, Any], index: int) -> None:
    """Raise InvalidMessageError for OpenAI chat's calls and results, which pair with no block."""
    for key in ("tool_calls", "tool_call_id", "function_call"):
        if value := entry.get(key):
            remedy = "pass format='openai_chat', or convert it to Anthropic's blocks"
            raise InvalidMessageError(index, key, value, "no call of OpenAI chat's", remedy)


def _opening_thought(entries: Sequence[Any], read: Conversation) -> tuple[int, ...]:
    """Return the index of the message that begins the open tool loop, if it begins with a thought
    without text (redacted, or not displayed); no piece shows such a thought. And that of the
    message before it: without the user's turn an earlier reply would begin the loop.

    With thinking enabled the API refuses a loop that does not begin with a thought.
    """
    first = read.loop_opening()
    if first is None or first == read.message_count - 1 or not _begins_with_thought(entries[first]):
        return ()
    if any(piece.kind is _THINKING for piece in read.message(first).pieces):
        return ()
    return tuple(range(max(first - 1, 0), first + 1))


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Messages API that these messages break."""
    messages: list[Spoken] = []
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        role = as_role(entry, index)
        as_content(entry, index)
        _check_no_chat_calls(entry, index)
        blocks = [(index, block) for block in iter_blocks(entry.get("content"), index)]
        messages.append(Spoken(index, role, blocks, entry.get("content") is None))
    rules = broken_rules([each for each in messages if each.role != "system"])
    return sorted([*system_rules(messages), *rules], key=lambda violation: violation.index)


def iter_blocks(content: object, index: int) -> Iterator[Mapping[str, Any]]:
    """Yield a content as blocks: a string is one text block, an empty one none."""
    if isinstance(content, str):
        if content:
            yield {"type": "text", "text": content}
    elif isinstance(content, (list, tuple)):
        for part_index, block in enumerate(content):
            if isinstance(block, str):
                yield {"type": "text", "text": block}
                continue
            part = f"content[{part_index}]"
            found = as_entry(block, index, part)
            if not is_anthropic(found):
                check_pair(found, index, part)
            yield found
    elif content is not None:
        raise wrong_content(content, index)


def read_content(content: object, index: int, notes: Notes | None = None) -> Body:
    """Read a message's content: a string, a list of blocks or nothing.

    Reads every shape and reports what is wrong; the native reader reads the common shapes faster.
    """
    draft = _read(content, index, ())
    if notes is not None:
        notes.take(draft)
    return Body(
        tuple(draft.pieces),
        draft.images,
        tuple(draft.calls),
        tuple(draft.answers),
        has_only_results(content),
    )


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: texts, text documents and results of client tools.

    Thinking, tool inputs, server tools, blocks with citations, unknown blocks and what the system
    says do not change.
    """
    if as_role(entry, index) == "system":
        return [None] * len(places_in(entry.get("content"), index, ("content",)))
    return places_in(entry.get("content"), index, ("content",))


def places_in(content: object, index: int, path: Path) -> Places:
    """Return the paths of the pieces that `read_content` reads of the content at `path`."""
    return _read(content, index, path).places


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
        if isinstance(block, Mapping) and is_call(type_of(block))
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


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each entry without thinking blocks: itself, a copy, or None where nothing is left.

    A system message must precede the assistant's. So a message of nothing but thinking stays there,
    with a text that says so.
    """
    rest = [_without_thinking(entry, index) for index, entry in enumerate(entries)]
    for index in [index for index, entry in enumerate(rest) if entry is None]:
        before = next((each for each in reversed(rest[:index]) if each is not None), None)
        after = next((each for each in rest[index + 1 :] if each is not None), None)
        if _is_by(before, index, "system") and not (after and _is_by(after, index, "assistant")):
            block = {"type": "text", "text": THOUGHT_ONLY}
            rest[index] = {**entries[index], "content": [block]}
    return rest


def _is_by(entry: Mapping[str, Any] | None, index: int, role: str) -> bool:
    return entry is not None and as_role(entry, index) == role


def _without_thinking(entry: Mapping[str, Any], index: int) -> Mapping[str, Any] | None:
    content = entry.get("content")
    rest = content_without_thinking(content)
    if rest is content or as_role(entry, index) != "assistant":
        return entry
    return None if rest is Nothing else {**entry, "content": rest}


def _read(content: object, index: int, path: Path) -> Draft:
    """Read the content at `path` of an entry; raises InvalidMessageError."""
    draft = Draft(index)
    draft.add_content(content, _TEXT, path)
    return draft


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
