"""ScriptedReply: the reply that a test wants, for any wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Wire = Literal["anthropic", "openai_chat", "openai_responses"]
Stop = Literal["max_tokens", "refusal"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. Arguments that are a text are sent unchanged, valid or not (OpenAI only)."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    """None: the provider makes one, as the real ones do."""


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply: thinking, text and calls, in that order."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    """The thinking to sign, may be empty; None: no thinking, unless the request demands it."""
    is_redacted: bool = False
    """Whether the thinking is redacted (Anthropic only)."""
    stop: Stop | None = None
    """Why the reply ended early; None: it is complete."""
    summary: str | None = "The user goes from berth to berth, and asks what is there."
    """The summary that Anthropic writes of a request over its own threshold; None: it fails."""


Responder = Callable[[Mapping[str, Any], Wire], "ScriptedReply | Call | str"]
"""Returns the reply to a request. A retry calls it again, so it should depend on the request only.
For a summary, Anthropic's request has `compaction`; OpenAI's to compact is given as one with the
`object` "response.compaction".

It runs on the provider's only thread and must not block; for a slow reply plan a stall."""


def as_reply(given: ScriptedReply | Call | str) -> ScriptedReply:
    if isinstance(given, ScriptedReply):
        return given
    return ScriptedReply(calls=(given,)) if isinstance(given, Call) else ScriptedReply(given)
