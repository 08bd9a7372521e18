"""The lines of a Claude Code transcript as the Anthropic messages that were sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.formats.anthropic import iter_blocks
from rehydrate.formats.claude_code import spoken_lines


class Merged(NamedTuple):
    """A message and the lines that it is made of, by their position."""

    message: dict[str, Any]
    sources: tuple[int, ...]


def merged_lines(entries: Sequence[Any]) -> list[Merged]:
    """The messages of the lines: their blocks are the very objects of the transcript.

    The lines of one message id become one message of the assistant's. Of neighbouring lines of
    the user's all results come first, in one message; what else the user said follows line by
    line, so that a line that is added later changes no message before it.
    """
    lines, _ = spoken_lines(entries)
    turns: list[_Turn] = []
    by_id: dict[str, _Turn] = {}
    for line in lines:
        is_blocks = not isinstance(line.content, str)
        blocks = [
            block
            for block in (iter_blocks(line.content, line.index) if is_blocks else ())
            if not _is_blank(block)
        ]
        content = line.content if isinstance(line.content, str) else blocks
        turn = by_id.get(line.message_id) if line.message_id is not None else None
        if turn is None:
            is_answer = line.role == "user" and turns and turns[-1].role == "user"
            turn = turns[-1] if is_answer else _Turn(line.role)
            if not is_answer:
                turns.append(turn)
            if line.message_id is not None:
                by_id[line.message_id] = turn
        turn.lines.append((line.index, content))
    return [message for turn in turns for message in turn.messages()]


class _Turn:
    """Lines that are sent as one message, or, of the user, one after the other."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.lines: list[tuple[int, str | list[Mapping[str, Any]]]] = []

    def messages(self) -> list[Merged]:
        if self.role == "assistant":
            blocks = [block for _, content in self.lines for block in _blocks(content)]
            sources = tuple([index for index, _ in self.lines])
            return [Merged({"role": "assistant", "content": blocks}, sources)] if blocks else []
        results: list[Mapping[str, Any]] = []
        sources = []
        spoken: list[Merged] = []
        for index, content in self.lines:
            found = [] if isinstance(content, str) else [b for b in content if _is_result(b)]
            if found:
                results += found
                sources.append(index)
                content = [block for block in content if not _is_result(block)]
            if content:
                spoken.append(Merged({"role": "user", "content": content}, (index,)))
        answers = [Merged({"role": "user", "content": results}, tuple(sources))] if results else []
        return answers + spoken


def _blocks(content: str | list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_result(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _is_blank(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and not text.strip()
