"""Transcripts of agents: which lines of Claude Code's and of Codex' files are of the conversation.

Claude Code writes JSONL lines around Anthropic messages, one content block a line. The model saw
only the `user` and `assistant` lines, and what was queued while it worked (`queued_command`
attachments). All others (progress, file history, queue operations, system notes such as
compact_boundary) are ignored, and so are

- subagents' lines (isSidechain), unless the whole transcript is a subagent's;
- lines whose uuid came before, which a resumed session repeats;
- API errors, which Claude Code shows but never sends;
- branches that the user took back by a rewind.

A transcript is a tree: each line names its parent, and the conversation is the way from the newest
leaf to the root, with the other lines of its messages and the results of its calls
(`transcript_branch`). A line may be written before its parent: `Conversation` has the order of the
file, and what is sent and validated the order of the tree.

Codex writes JSONL lines around the items of OpenAI's Responses API. The model saw the
`response_item` lines. All others (session_meta, turn_context, event_msg) are ignored, and so are
snapshots of files, and the turns that the user took back (an event `thread_rolled_back`). A
`compacted` line is a message that Codex writes in the user's name: its summary, with the state that
the provider keeps of what was before. The oldest rollouts have bare items as lines, behind a line
with the session's instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate._native import (
    codex_kept,
    codex_line,
    codex_lines,
    codex_turns_taken_back,
    line_content,
    line_is_seen,
    line_is_users,
    transcript_branch,
)
from rehydrate.formats._reading import type_of
from rehydrate.messages import PROVIDER_OF, Conversation

is_seen, is_of_the_user = line_is_seen, line_is_users
kept, turns_taken_back, branch_of = codex_kept, codex_turns_taken_back, transcript_branch


class Line(NamedTuple):
    """A line of a rollout's conversation, and its item."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    item: Mapping[str, Any]
    path: tuple[str, ...]
    """Where the item is in its line."""
    is_turn: bool
    """Whether the user wrote it, and not Codex in the user's name."""


def spoken_lines(entries: Sequence[Any]) -> list[Line]:
    """Return the lines of a rollout that the model saw, less what was taken back.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    return list(map(Line._make, codex_lines(entries)))


def line_of(entry: Mapping[str, Any], index: int) -> Line | None:
    """Return a line that the model saw, on whatever branch it is; None for any other.

    Raises InvalidMessageError for an entry that is no line of a rollout.
    """
    line = codex_line(entry, index)
    return line and Line(*line)


def content_of(entry: Any, format: str = "claude_code") -> Any:  # noqa: A002  the field's word
    """Return the content of a message in a format; None for an item without one."""
    if format == "claude_code":
        return line_content(entry)
    return entry.get("content") if isinstance(entry, Mapping) else getattr(entry, "content", None)


def taken_back(entries: Sequence[Any], format: str) -> frozenset[int]:  # noqa: A002
    """Return the indices of lines that the model may have seen before the user took them back, and
    of Codex' events by which the user did: both go together. None in other formats.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> lines = [{"type": "user", "uuid": "1", "parentUuid": "0", "message": said}]
    >>> lines += [{"type": "user", "uuid": "2", "parentUuid": "0", "message": said}]
    >>> taken_back(lines, "claude_code")
    frozenset({0})
    >>> lines = [{"type": "response_item", "payload": {"type": "message", **said}}] * 2
    >>> event = {"type": "thread_rolled_back", "num_turns": 1}
    >>> taken_back([*lines, {"type": "event_msg", "payload": event}], "codex")
    frozenset({1, 2})
    """
    if format == "codex":
        there = {line.index for line in spoken_lines(entries)}
        lines = enumerate(entries)
        gone = [n for n, entry in lines if line_of(entry, n) is not None and n not in there]
        return frozenset([*gone, *(n for n, each in enumerate(entries) if turns_taken_back(each))])
    if format != "claude_code":
        return frozenset()
    numbered = [(n, entry) for n, entry in enumerate(entries) if isinstance(entry, Mapping)]
    branch = branch_of([entry for _, entry in numbered])
    if branch is None:
        return frozenset()
    on_branch = {numbered[place][0] for place in branch}
    return frozenset([n for n, entry in numbered if is_seen(entry) and n not in on_branch])


def repeated(entries: Sequence[Any], format: str) -> frozenset[int]:  # noqa: A002
    """Return the indices of Claude Code's lines that have the uuid of a line before them.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> repeated([{"type": "user", "uuid": "1", "message": said}] * 2, "claude_code")
    frozenset({1})
    """
    seen: set[str] = set()
    found: list[int] = []
    for index, entry in enumerate(entries if format == "claude_code" else ()):
        uuid = entry.get("uuid") if isinstance(entry, Mapping) and is_seen(entry) else None
        if isinstance(uuid, str):
            if uuid in seen:
                found.append(index)
            seen.add(uuid)
    return frozenset(found)


def last_compaction(conversation: Conversation, entries: Sequence[Any]) -> int | None:
    """Return the index of the last summary in a transcript that its agent wrote when the window was
    full; None without one. Its next prompt began there, and what is before it is only kept.
    """
    if conversation.format not in PROVIDER_OF:
        return None
    seen = reversed(conversation.indices)
    found = next((index for index in seen if _is_compaction(entries[index])), None)
    if found is None:  # the summary may be missing
        ignored = reversed(conversation.ignored)
        found = next((index for index in ignored if _is_boundary(entries[index])), None)
    return found


def _is_compaction(line: Mapping[str, Any]) -> bool:
    return bool(line.get("isCompactSummary")) or type_of(line) == "compacted"


def _is_boundary(line: Mapping[str, Any]) -> bool:
    return line.get("subtype") == "compact_boundary"
