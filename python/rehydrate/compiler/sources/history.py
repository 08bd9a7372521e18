"""history: the conversation so far, the caller's own entries, untouched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rehydrate import formats
from rehydrate.compiler.counts import entry_tokens
from rehydrate.compiler.sources.source import Found, HydrationSource, SourceRequest
from rehydrate.formats._reading import as_sequence
from rehydrate.ir import History, Priority
from rehydrate.messages import Conversation


def history(messages: Sequence[Any], format: str = "auto") -> HydrationSource:  # noqa: A002
    """The messages as they are now, in any of the formats, each entry counted.

    It comes whole, whatever the budget: what of it goes is for the compiler's passes to say. A
    request without an observation is about its last user turn. Raises InvalidMessageError for an
    entry that is no message.

    >>> history([{"role": "user", "content": "Which port?"}]).observation
    'Which port?'
    """
    entries = tuple(as_sequence(messages))  # as it is now: another thread may change the list
    conversation = formats.parse(entries, format)

    def run(request: SourceRequest) -> Found:  # noqa: ARG001  it is the same for all
        tokens = tuple(entry_tokens(conversation, len(entries)))
        return Found(history=History(entries, conversation.format, tokens))

    return HydrationSource(
        "history",
        run,
        priority=Priority.CRITICAL,
        deadline_ms=None,
        blocking=False,
        kind="history",
        observation=_last_user_turn(conversation),
    )


def _last_user_turn(conversation: Conversation) -> str:
    turns = (message.text for message in reversed(conversation.messages) if message.is_user_turn)
    return next((text for text in turns if text.strip()), "")
