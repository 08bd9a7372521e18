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
from typing import Any

from rehydrate._native import line_content
from rehydrate.formats._reading import type_of
from rehydrate.messages import PROVIDER_OF, Conversation


def content_of(entry: Any, format: str = "claude_code") -> Any:  # noqa: A002  the field's word
    """Return the content of a message in a format; None for an item without one."""
    if format == "claude_code":
        return line_content(entry)
    return entry.get("content") if isinstance(entry, Mapping) else getattr(entry, "content", None)


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
