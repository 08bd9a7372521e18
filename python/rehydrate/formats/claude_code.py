"""Claude Code transcripts: JSONL lines around Anthropic messages, one content block a line.

The model saw only the `user` and `assistant` lines, and what was queued while it worked
(`queued_command` attachments). All others (progress, file history, queue operations, system notes
such as compact_boundary) are ignored, and so are

- subagents' lines (isSidechain), unless the whole transcript is a subagent's;
- lines whose uuid came before, which a resumed session repeats;
- API errors, which Claude Code shows but never sends;
- branches that the user took back by a rewind.

A transcript is a tree: each line names its parent, and the conversation is the way from the newest
leaf to the root, with the other lines of its messages and the results of its calls
(`transcript_branch`). A line may be written before its parent: `Conversation` has the order of the
file, and what is sent and validated the order of the tree.

One assistant message is several lines with one `message.id`, and results of its first calls may
come before the lines of its last calls. So all lines of one id, and all results of their calls, are
one unit. Lines that Claude Code writes as the user (isMeta, isCompactSummary, a task's
notification) are user messages that the model sees, but no turns of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate.formats._reading import (
    Places,
    entries_without_thinking,
    line_content,
    line_is_seen,
    line_is_users,
    read_entries,
    read_places,
    replace_texts,
    transcript_branch,
)
from rehydrate.formats.anthropic import inputs_in
from rehydrate.formats.calls import Inputs, is_signed
from rehydrate.messages import Conversation

NAME = "claude_code"
replace = replace_texts


def parse(entries: Sequence[Any]) -> Conversation:
    """Read transcript lines; raises InvalidMessageError for an entry that is no line."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of the texts in a line's message. `toolUseResult` beside it is Claude Code's
    own record, which no model sees."""
    return read_places(NAME, entry, index)


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of the calls in a line's message."""
    return inputs_in(content_of(entry), _path_of(entry))


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the line's message holds a thought or its signature."""
    return is_signed(content_of(entry))


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each line without thinking blocks: itself, a copy, or None where nothing is left."""
    return entries_without_thinking(NAME, entries)


def taken_back(entries: Sequence[Any]) -> frozenset[int]:
    """Return the indices of lines that the model may have seen, and that the conversation did not
    go on from: the user took them back.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> lines = [{"type": "user", "uuid": "1", "parentUuid": "0", "message": said}]
    >>> lines += [{"type": "user", "uuid": "2", "parentUuid": "0", "message": said}]
    >>> taken_back(lines)
    frozenset({0})
    """
    lines = {n: entry for n, entry in enumerate(entries) if isinstance(entry, Mapping)}
    branch = transcript_branch(list(lines.values()))
    if branch is None:
        return frozenset()
    numbers = list(lines)
    kept = {numbers[place] for place in branch}
    return frozenset([n for n, entry in lines.items() if is_seen(entry) and n not in kept])


def repeated(entries: Sequence[Any]) -> frozenset[int]:
    """Return the indices of lines that have the uuid of a line before them.

    >>> said = {"role": "user", "content": "Use tabs."}
    >>> repeated([{"type": "user", "uuid": "1", "message": said}] * 2)
    frozenset({1})
    """
    seen: set[str] = set()
    found: list[int] = []
    for index, entry in enumerate(entries):
        uuid = entry.get("uuid") if isinstance(entry, Mapping) and is_seen(entry) else None
        if isinstance(uuid, str):
            if uuid in seen:
                found.append(index)
            seen.add(uuid)
    return frozenset(found)


is_seen = line_is_seen
content_of = line_content
is_of_the_user = line_is_users


def _path_of(entry: Mapping[str, Any]) -> tuple[str, str]:
    is_queued = entry.get("type") == "attachment"
    return ("attachment", "prompt") if is_queued else ("message", "content")
