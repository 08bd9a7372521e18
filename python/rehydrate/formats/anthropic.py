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
from typing import Any

from rehydrate.errors import Violation
from rehydrate.formats._reading import (
    CALLS,
    HINT,
    NONE,
    PROOF,
    Draft,
    Path,
    Places,
    as_content,
    as_entry,
    as_role,
    check_no_chat_calls,
    check_pair,
    is_call,
    read_entries,
    replace_texts,
    type_of,
    wrong_content,
)
from rehydrate.formats.anthropic_rules import Spoken, broken_rules, system_rules
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.thinking import THINKING_BLOCKS, Nothing, content_without_thinking
from rehydrate.messages import Conversation, PieceKind

NAME = "anthropic"
replace = replace_texts

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
    return read_entries(NAME, entries)


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Messages API that these messages break."""
    messages: list[Spoken] = []
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        role = as_role(entry, index)
        as_content(entry, index)
        check_no_chat_calls(entry, index)
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
            check_pair(found, index, part)
            yield found
    elif content is not None:
        raise wrong_content(content, index)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts: texts, text documents and results of client tools.

    Thinking, tool inputs, server tools, blocks with citations, unknown blocks and what the system
    says do not change.
    """
    if as_role(entry, index) == "system":
        return [None] * len(places_in(entry.get("content"), index, ("content",)))
    return places_in(entry.get("content"), index, ("content",))


def places_in(content: object, index: int, path: Path) -> Places:
    """Return the paths of the pieces that are read of the content at `path`."""
    draft = Draft(index)
    draft.add_content(content, PieceKind.TEXT, path)
    return draft.places


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
    followers: list[Mapping[str, Any] | None] = []  # the next one that is left, from the last on
    after: Mapping[str, Any] | None = None
    for entry in reversed(rest):
        followers.append(after)
        after = after if entry is None else entry
    before: Mapping[str, Any] | None = None
    for index, after in enumerate(reversed(followers)):
        if (
            rest[index] is None
            and _is_by(before, index, "system")
            and not (after and _is_by(after, index, "assistant"))
        ):
            block = {"type": "text", "text": THOUGHT_ONLY}
            rest[index] = {**entries[index], "content": [block]}
        before = before if rest[index] is None else rest[index]
    return rest


def _is_by(entry: Mapping[str, Any] | None, index: int, role: str) -> bool:
    return entry is not None and as_role(entry, index) == role


def _without_thinking(entry: Mapping[str, Any], index: int) -> Mapping[str, Any] | None:
    content = entry.get("content")
    rest = content_without_thinking(content)
    if rest is content or as_role(entry, index) != "assistant":
        return entry
    return None if rest is Nothing else {**entry, "content": rest}
