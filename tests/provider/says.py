"""What the assistant says in one reply: what a test's brain returns, the same on every wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Wire = Literal["anthropic", "openai_chat", "openai_responses"]
Stop = Literal["max_tokens", "refusal"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; a text as arguments is sent as it is, also where it is no JSON (OpenAI only)."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    """None: the provider makes one, as the real ones do."""


@dataclass(frozen=True, slots=True)
class Says:
    """One reply: what is thought, said and called, in that order."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    """A thought to sign and give; also an empty one is given. None: none, unless it must be."""
    is_redacted: bool = False
    """Whether the thought is given without a word of it (Anthropic only)."""
    stop: Stop | None = None
    """Why it ended early; None: it is done, or waits for its calls."""


Brain = Callable[[Mapping[str, Any], Wire], "Says | Call | str"]
"""Answers a request. Asked again when a client tries again, so it should depend on nothing else.

Called on the provider's one thread: all others wait for it. What should take time is a stall."""


def as_says(said: Says | Call | str) -> Says:
    if isinstance(said, Says):
        return said
    return Says(calls=(said,)) if isinstance(said, Call) else Says(said)
