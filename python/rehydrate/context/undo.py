"""PromptCall: one call of `Context.prompt`, which can be undone while nobody got its prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rehydrate.context.entries import EntriesMark


class Before(NamedTuple):
    """What a context was before a prompt."""

    entries: EntriesMark
    fields: Mapping[str, Any]


class PromptCall:
    """Whether somebody still waits for the prompt, and what was before it.

    A coroutine that is cancelled leaves a thread behind which makes the prompt to its end. It only
    says so here, and waits for nothing; the next call on the context, which has its lock, puts back
    what was before, unless something came after the prompt.
    """

    __slots__ = ("before", "is_given_up")

    def __init__(self) -> None:
        """Waited for, and not begun."""
        self.before: Before | None = None
        self.is_given_up = False
