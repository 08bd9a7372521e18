"""history: the conversation so far, the caller's own entries, untouched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rehydrate import formats
from rehydrate.compiler.counts import entry_tokens
from rehydrate.compiler.sources.source import Found, HydrationSource, Run, SourceRequest
from rehydrate.formats._foreign import check_speakers
from rehydrate.formats._reading import as_sequence
from rehydrate.formats._sdk_objects import as_dicts
from rehydrate.ir import History, Priority
from rehydrate.messages import Conversation


def history(
    messages: Sequence[Any] | History,
    format: str = "auto",  # noqa: A002  the field's word
) -> HydrationSource:
    """The messages as they are now, in any of the formats, each entry counted.

    A `History` whose entries are counted is taken as it is, and only its last user turn is read.

    It comes whole, whatever the budget: what of it goes is for the compiler's passes to say. A
    request without an observation is about its last user turn. Raises InvalidMessageError for an
    entry that is no message.

    >>> history([{"role": "user", "content": "Which port?"}]).kind
    'history'
    """
    if not isinstance(messages, History):
        given = History(tuple(as_dicts(as_sequence(messages))), format)
    elif len(messages.tokens) == len(messages.entries):
        counted = messages
        return _source(lambda _: Found(history=counted), lambda: _last_said(counted))
    else:
        given = messages
    entries = given.entries  # as they are now: another thread may change the list
    conversation = formats.parse(entries, given.format)
    check_speakers(conversation)

    def run(request: SourceRequest) -> Found:  # noqa: ARG001  it is the same for all
        tokens = entry_tokens(conversation, len(entries))
        return Found(history=given.with_tokens(tokens, conversation))

    return _source(run, lambda: _last_user_turn(conversation))


def _source(run: Run, observation: Callable[[], str]) -> HydrationSource:
    return HydrationSource(
        "history",
        run,
        priority=Priority.CRITICAL,
        deadline_ms=None,
        blocking=False,
        kind="history",
        observation=observation,
    )


def _last_said(counted: History) -> str:
    """The last user turn, without reading what stands far before it."""
    reach = 16
    while True:
        found = _last_user_turn(formats.parse(counted.entries[-reach:], counted.format))
        if found or reach >= len(counted.entries):
            return found
        reach *= 4


def _last_user_turn(conversation: Conversation) -> str:
    turns = (message.text for message in reversed(conversation.messages) if message.is_user_turn)
    return next((text for text in turns if text.strip()), "")
