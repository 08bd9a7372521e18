"""thinking_after_changed_prefix: the rule for thinking whose prefix is not what was sent before.

The API compares `system`, `tools` (except deferred ones) and every block before the thinking,
without cache marks. Thinking is no part of the prefix, but each block depends on the one before:
thinking may go from the front and from the end, and a gap among it is refused.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._reading import type_of
from rehydrate.formats.claude_code import content_of, is_seen
from rehydrate.formats.thinking import is_thinking

__all__ = ["entries_of", "stale_thinking"]


RULE = "thinking_after_changed_prefix"
_SPOKEN = ("tool_calls", "tool_call_id", "function_call", "refusal", "name")
"""Text fields of an OpenAI or LangChain message beside its content."""
_ASSISTANTS = ("assistant ", "ai ")
"""Prefixes of a block of the assistant's."""


class _Thought(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Index of its message."""
    text: str
    offset: int
    """Number of blocks before it that are no thinking."""


class _Read(NamedTuple):
    """The compared parts of a request."""

    blocks: list[str]
    thoughts: list[_Thought]
    indices: list[int]
    """For each block, the index of its message."""
    summary: int
    """Index of the last summary block that the API itself wrote; -1 without one."""


def entries_of(messages: Any) -> Any:
    """Return the messages or items of a whole request; any other value unchanged."""
    if isinstance(messages, Mapping):
        for key in ("messages", "input"):
            if isinstance(messages.get(key), (list, tuple)):
                return messages[key]
    return messages


def stale_thinking(after: Any, sent: Any) -> Iterator[Violation]:
    """Yield the thinking of ``after`` that is refused: its prefix differs from that of ``sent``.

    Both are messages, or whole requests: `system` and `tools` are compared where both have them.
    """
    now, before = _read(entries_of(after)), _read(entries_of(sent))
    why = _changed_head(after, sent)
    first, reason = (0, why) if why else _first_refused(now, before)
    for thought in now.thoughts[first:]:
        if thought.offset > now.summary:
            what = f"thinking behind a change: {reason}"
            yield Violation(thought.index, RULE, what)


def _first_refused(now: _Read, before: _Read) -> tuple[int, str]:
    """Return the number of the first refused thought, and why; all later ones are refused too."""
    blocks, thoughts, start = now.blocks, now.thoughts, 0
    was, earlier, gone = before.blocks, before.thoughts, 0
    if now.summary >= 0:
        # The prefix starts at the summary: the API puts it in place of everything before.
        start = now.summary + 1
        replaced = _replaced(blocks[start:], was, blocks[now.summary])
        if replaced is None:
            return _first_resent(now, before)
        blocks, was, gone = blocks[start:], was[replaced:], replaced
        earlier = [each for each in earlier if each.offset >= gone]
    pairs = enumerate(zip(blocks, was, strict=False))
    change = next((n for n, (one, other) in pairs if one != other), None)
    seen = 0
    previous: str | None = None
    is_previous_new = False
    for number, thought in enumerate(thoughts):
        if thought.offset < start:
            continue
        if change is not None and thought.offset - start > change:
            index = now.indices[start + change]
            return number, f"message {index} is not what was sent"
        match = next(
            (n for n in range(seen, len(earlier)) if earlier[n].text == thought.text), None
        )
        if match is None:
            if why := _answers_another(blocks, was, thought.offset - start):
                return number, why
            expected = previous if is_previous_new else earlier[-1].text if earlier else None
        elif earlier[match].offset - gone != thought.offset - start:
            return number, "what stood right before it is missing, or something came between"
        else:
            expected = earlier[match - 1].text if match else None
            seen = match + 1
        if previous is not None and previous != expected:
            return number, "the thinking block that it followed is missing, or others came between"
        previous, is_previous_new = thought.text, match is None
    return len(thoughts), ""


def _answers_another(blocks: Sequence[str], was: Sequence[str], offset: int) -> str:
    """Return why a new thought here does not follow from what was sent; "" where it may."""
    if offset < len(was):
        came_back = blocks[offset : offset + 1] == was[offset : offset + 1]
        return "" if came_back else "the end of what was sent is missing before it"
    between = blocks[len(was) : offset]
    is_later = any(block.startswith(_ASSISTANTS) for block in between)
    return "what stands right before it was not sent" if between and not is_later else ""


def _replaced(kept: Sequence[str], was: Sequence[str], summary: str) -> int | None:
    """Return where the blocks behind the summary begin in what was sent; None: nowhere."""
    if summary in was:
        return len(was) - list(reversed(was)).index(summary)
    for offset in range(len(was)):
        rest = was[offset:]
        if kept[: len(rest)] == rest[: len(kept)]:
            return offset
    return None


def _first_resent(now: _Read, before: _Read) -> tuple[int, str]:
    known = {thought.text for thought in before.thoughts}
    for number, thought in enumerate(now.thoughts):
        if thought.offset > now.summary and thought.text in known:
            return number, "what follows the summary is not what followed it when it was written"
    return len(now.thoughts), ""


def _changed_head(after: Any, sent: Any) -> str:
    if not (isinstance(after, Mapping) and isinstance(sent, Mapping)):
        return ""
    for key in ("system", "instructions"):
        if _texts(after.get(key)) != _texts(sent.get(key)):
            return f"`{key}` is not what was sent"
    return "" if _tools(after) == _tools(sent) else "`tools` are not what was sent"


def _texts(value: object) -> list[str]:
    return [_bare(block) for block in _blocks(value)]


def _tools(request: Mapping[str, Any]) -> list[str]:
    tools = request.get("tools")
    tools = tools if isinstance(tools, (list, tuple)) else ()
    return sorted(
        _bare(tool)
        for tool in tools
        if not (isinstance(tool, Mapping) and tool.get("defer_loading") is True)
    )


def _read(entries: Sequence[Any]) -> _Read:
    read = _Read([], [], [], -1)
    summary = -1
    for index, entry in enumerate(entries):
        for role, block in _authored_blocks(entry):
            if is_thinking(block):
                read.thoughts.append(_Thought(index, _bare(block), len(read.blocks)))
                continue
            if isinstance(block, Mapping) and type_of(block) == "compaction":
                summary = len(read.blocks)
            read.blocks.append(f"{role} {_bare(block)}")
            read.indices.append(index)
    return read._replace(summary=summary)


def _authored_blocks(entry: Any) -> Iterator[tuple[str, Any]]:
    """Yield each block of an entry with its author; thinking beside a content comes first."""
    if isinstance(entry, Mapping) and "role" not in entry:  # a line of a transcript
        if "message" in entry:
            entry = entry["message"]
        elif is_seen(entry):
            entry = {"role": "user", "content": content_of(entry)}
    role = _get(entry, "role") or _get(entry, "type")
    if not isinstance(role, str) or (isinstance(entry, Mapping) and "role" not in entry):
        return  # an entry that no model sees, or an item of Responses
    beside = _get(entry, "thinking_blocks")
    for block in beside if isinstance(beside, (list, tuple)) else ():
        yield role, block
    for block in _blocks(_get(entry, "content")):
        yield role, block
    rest = {key: value for key in _SPOKEN if (value := _get(entry, key))}
    if rest:
        yield role, rest


def _get(entry: Any, key: str) -> Any:
    return entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)


def _blocks(content: object) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = content if isinstance(content, (list, tuple)) else ()
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in blocks]


def _bare(block: object) -> str:
    """Return a block as JSON without cache marks; a result of one text as its block."""
    return json.dumps(_unmarked(block), sort_keys=True, default=str)


def _unmarked(value: object) -> object:
    if isinstance(value, Mapping):
        bare = {str(key): _unmarked(each) for key, each in value.items() if key != "cache_control"}
        if bare.get("type") == "tool_result" and isinstance(bare.get("content"), str):
            bare["content"] = _blocks(bare["content"])
        return bare
    return [_unmarked(each) for each in value] if isinstance(value, (list, tuple)) else value
