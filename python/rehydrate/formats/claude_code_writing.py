"""The lines of a Claude Code transcript as the Anthropic messages that were sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.formats.anthropic import iter_blocks
from rehydrate.formats.claude_code import spoken_lines


class Merged(NamedTuple):
    """A message, and the indices of its lines."""

    message: dict[str, Any]
    sources: tuple[int, ...]


def merged_lines(entries: Sequence[Any]) -> list[Merged]:
    """Merge the lines into messages; their blocks are the same objects as in the transcript.

    The lines of one message id become one assistant message. Of neighbouring user lines all results
    come first, in one message; other user content follows line by line, so that a line added later
    changes no message before it.
    """
    lines, _ = spoken_lines(entries)
    turns: list[_Turn] = []
    by_id: dict[str, _Turn] = {}
    for line in lines:
        turn = by_id.get(line.message_id) if line.message_id is not None else None
        if turn is None and line.role == "user" and turns and turns[-1].role == "user":
            turn = turns[-1]
        if turn is None:
            turn = _Turn(line.role, [])
            turns.append(turn)
            if line.message_id is not None:
                by_id[line.message_id] = turn
        turn.lines.append((line.index, line.content))
    return [message for turn in turns for message in turn.messages()]


class _Turn(NamedTuple):
    """Consecutive lines of one role: indices and contents."""

    role: str
    lines: list[tuple[int, object]]

    def messages(self) -> list[Merged]:
        """Return one assistant message; for the user the results, then the rest line by line."""
        if self.role == "assistant":
            return _merged("assistant", [(n, list(_blocks(said, n))) for n, said in self.lines])
        answers: list[tuple[int, list[Any]]] = []
        spoken: list[Merged] = []
        for index, content in self.lines:
            if isinstance(content, str):
                spoken.append(Merged({"role": "user", "content": content}, (index,)))
                continue
            blocks = list(_blocks(content, index))
            results = [block for block in blocks if _is_result(block)]
            if results:
                answers.append((index, results))
            rest = [block for block in blocks if not _is_result(block)]
            spoken += _merged("user", [(index, rest)])
        return _merged("user", answers) + spoken


def _merged(role: str, parts: Sequence[tuple[int, list[Any]]]) -> list[Merged]:
    content = [block for _, blocks in parts for block in blocks]
    sources = tuple([index for index, _ in parts])
    return [Merged({"role": role, "content": content}, sources)] if content else []


def _blocks(content: object, index: int) -> Iterator[Mapping[str, Any]]:
    """Return the blocks of a content without blank ones, which are not sent."""
    return (block for block in iter_blocks(content, index) if not _is_blank(block))


def _is_result(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _is_blank(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and not text.strip()
