"""compact_history: the head of a list of messages becomes a summary, at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rehydrate import formats
from rehydrate.context.background.summaries import summarised
from rehydrate.context.background.swapping import begins_user_turn, tail_start
from rehydrate.context.background.writers import SummaryRequest, user_text, writer_of
from rehydrate.context.context_store.rendering import SUMMARY
from rehydrate.context.context_store.store import ContextStore
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.counting import entry_tokens

KEEP_LAST = 12
SIZE = 0.04
MIN_TOKENS = 400
_ACKNOWLEDGED = "Acknowledged."


class CompactedHistory(NamedTuple):
    """What `compact_history` returns."""

    messages: list[Any]
    """A user message with the summary, "Acknowledged." of the assistant unless the tail begins with
    the assistant, and the tail: the very objects that came in."""
    summary: str
    """"" where nothing was summarised."""
    kept_from: int
    """The index of the first message of the tail; 0 where nothing was summarised."""
    degraded: tuple[str, ...] = ()
    """What was wrong with the summary that was written."""


def compact_history(
    messages: Sequence[Any],
    writer: Any = None,
    *,
    keep_last: int = KEEP_LAST,
    format: str = "auto",  # noqa: A002  the field's word
    max_tokens: int | None = None,
) -> CompactedHistory:
    """Replace the head of a conversation by a summary; the last ``keep_last`` messages stay.

    The tail grows back until it begins with a plain user turn and splits no tool pair; where it
    then is the whole conversation, nothing changes. ``writer`` is as in `BackgroundCompaction`. A
    failed, empty or malformed summary never deletes history: the context store takes its place.
    System messages stay in front. ``max_tokens`` is the size of the summary, by default 4% of what
    it replaces.

    >>> said = [{"role": "user", "content": "Always use tabs."},
    ...         {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
    >>> compacted = compact_history(said, keep_last=1, format="anthropic")
    >>> [message["role"] for message in compacted.messages], compacted.kept_from
    (['user', 'assistant', 'user'], 2)
    >>> print(compacted.messages[0]["content"])
    [compacted history summary]
    ## Task State
    - Always use tabs. (#0)
    ## User Preferences
    - Always use tabs. (#0)
    """
    if type(keep_last) is not int or keep_last < 0:
        raise InvalidArgumentError(f"keep_last is {keep_last!r}; pass a whole number from 0 up")
    entries = list(messages)
    conversation, read = formats.read(tuple(entries), format)
    name = conversation.format
    unit = tail_start(conversation.units, keep_last, begins_user_turn)
    head = [each for each in conversation.units[: unit or 0] if not each.is_system]
    said = [message for each in head for message in each.messages if message.role != "system"]
    members = {message.index for message in said}
    if unit is None or not members or members.intersection(conversation.bound):
        return CompactedHistory(entries, "", 0)
    start = conversation.units[unit].members[0]
    store = ContextStore()
    store.update(said)
    counts = entry_tokens(conversation, len(entries))
    tokens = sum(counts[index] for index in members)
    size = max(int(SIZE * tokens), MIN_TOKENS) if max_tokens is None else max_tokens
    markdown = store.render(size, conversation=conversation, visible=range(start, len(entries)))
    told = [read[index] for index in sorted(members)]
    plain = formats.FORMATS[name].without_thinking(told)
    request = SummaryRequest(tuple(plain), name, markdown, "", size)
    texts = [message.text for message in said]
    summary, degraded, _ = summarised(writer_of(writer), request, store.items(), texts)
    why = (degraded,) if degraded else ()
    if not summary:
        return CompactedHistory(entries, "", 0, why)
    made = [user_text(f"{SUMMARY}\n{summary}", name)]
    if conversation.units[unit].role != "assistant":
        made.append(_acknowledged(name))
    system = [entry for index, entry in enumerate(entries[:start]) if index not in members]
    return CompactedHistory([*system, *made, *entries[start:]], summary, start, why)


def _acknowledged(format: str) -> Any:  # noqa: A002
    if format == "langchain":
        from langchain_core.messages import AIMessage

        return AIMessage(_ACKNOWLEDGED)
    if format == "openai_responses":
        content = [{"type": "output_text", "text": _ACKNOWLEDGED, "annotations": []}]
        return {"type": "message", "role": "assistant", "content": content}
    message = {"role": "assistant", "content": _ACKNOWLEDGED}
    if format == "codex":
        return {"type": "response_item", "payload": {"type": "message", **message}}
    return {"type": "assistant", "message": message} if format == "claude_code" else message
