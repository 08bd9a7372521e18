"""Thinking: how models treat it in a history (THINKING_MODELS).

THINKING_MODELS holds the rules of each model, with the source of each row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from rehydrate._native import answering_model, has_claudes_thinking, known_name

AS_OF = "2026-11"
"""The month when the table was last compared with the provider's documentation."""

OnMismatch = Literal["error", "drop"]
OpenLoop = Literal["any", "leading"]


class ThinkingModel(NamedTuple):
    """The rules of one model for the thinking in a conversation."""

    binds_prefix: bool
    """Whether a thinking block is accepted only while system, tools and every message before it are
    the same as when it was made."""
    on_mismatch: OnMismatch = "error"
    """How the API treats a block whose prefix changed, unless a request says otherwise: it
    refuses the request (400), or drops the block. Meaningless without ``binds_prefix``."""
    open_loop: OpenLoop = "any"
    """The thinking an open tool loop needs: "any" accepts it with and without thinking. "leading"
    refuses it (where thinking has a manual budget) unless its first assistant message begins with
    thinking."""
    reads: tuple[str, ...] = ()
    """Other models whose blocks it is documented to read, on the Claude API. Blocks of any other
    model are dropped without an error; send them all the same, since the next model may read
    them."""
    source: str = ""
    """The address of the provider's statement."""

    @property
    def refuses_changed_prefix(self) -> bool:
        """Return whether a request with thinking after a change is refused."""
        return self.binds_prefix and self.on_mismatch == "error"


_DOCS = "https://platform.claude.com/docs/en/"
_PRESERVED = _DOCS + "build-with-claude/preserved-thinking"
_CHECKS = _PRESERVED + "/prefix-checks"
_CONFIGURATIONS = _DOCS + "build-with-claude/thinking-troubleshooting#rejected-configurations"

_BEFORE_5 = (
    *("claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6", "claude-opus-4-5"),
    *("claude-opus-4-1", "claude-opus-4", "claude-sonnet-4-6", "claude-sonnet-4-5"),
    *("claude-sonnet-4", "claude-haiku-4-5", "claude-3-7-sonnet"),
)
_BEFORE_FABLE = ("claude-opus-5", "claude-sonnet-5", *_BEFORE_5)
_BEFORE_FABLE_5_1 = (
    *("claude-opus-5-5", "claude-fable-5", "claude-mythos-5", "claude-mythos-preview"),
    *_BEFORE_FABLE,
)


def _bound_model(source: str, *reads: str) -> ThinkingModel:
    return ThinkingModel(True, "error", "any", reads, source)


def _unbound_model(*reads: str) -> ThinkingModel:
    return ThinkingModel(False, "error", "any", reads, _CONFIGURATIONS)


def _manual_model() -> ThinkingModel:
    return ThinkingModel(False, "error", "leading", (), _CONFIGURATIONS)


THINKING_MODELS: dict[str, ThinkingModel] = {
    "claude-fable-5-2": _bound_model(
        _DOCS + "models/fable-5-2/whats-new-fable-5-2", "claude-mythos-5-2"
    ),
    "claude-mythos-5-2": _bound_model(
        _DOCS + "models/fable-5-2/whats-new-fable-5-2", "claude-fable-5-2"
    ),
    "claude-fable-5-1": _bound_model(_PRESERVED, "claude-mythos-5-1", *_BEFORE_FABLE_5_1),
    "claude-mythos-5-1": _bound_model(_CHECKS, "claude-fable-5-1", *_BEFORE_FABLE_5_1),
    "claude-opus-5-5": _bound_model(
        _DOCS + "models/opus-5-5/whats-new-opus-5-5", "claude-sonnet-5-5", *_BEFORE_FABLE
    ),
    "claude-sonnet-5-5": _bound_model(
        _DOCS + "models/sonnet-5-5/whats-new-sonnet-5-5", "claude-sonnet-5", *_BEFORE_5
    ),
    "claude-haiku-5-5": _bound_model(_DOCS + "models/haiku-5-5/migration-guide"),
    "claude-fable-5": _unbound_model("claude-mythos-5", *_BEFORE_FABLE),
    "claude-mythos-5": _unbound_model("claude-fable-5", *_BEFORE_FABLE),
    "claude-mythos-preview": _manual_model(),
    "claude-opus-5": _unbound_model(*_BEFORE_5),
    "claude-sonnet-5": _unbound_model(*_BEFORE_5),
    "claude-opus-4-8": _unbound_model(),
    "claude-opus-4-7": _unbound_model(),
    "claude-opus-4-6": _manual_model(),
    "claude-opus-4-5": _manual_model(),
    "claude-opus-4-1": _manual_model(),
    "claude-opus-4": _manual_model(),
    "claude-sonnet-4-6": _manual_model(),
    "claude-sonnet-4-5": _manual_model(),
    "claude-sonnet-4": _manual_model(),
    "claude-haiku-4-5": _manual_model(),
    "claude-3-7-sonnet": _manual_model(),
}
"""Rules by model, `AS_OF`. You may edit it: an edit holds from the next call on, for every
compaction, `Context`, `compile` and `validate` of the process.

>>> THINKING_MODELS["claude-next"] = ThinkingModel(True, source="https://example.com/next")
>>> thinking_model("claude-next-20270101").refuses_changed_prefix
True
>>> del THINKING_MODELS["claude-next"]
"""

UNKNOWN_CLAUDE = ThinkingModel(True, "error", "leading", (), _CHECKS)
"""For a Claude model without a name, or one that the table lacks: the strictest rules."""

UNBOUND = ThinkingModel(False)
"""For other providers: none refuses thinking because of its prefix. OpenAI's newer models drop
reasoning after a change, without an error
(https://developers.openai.com/api/docs/guides/keep-prefix-unchanged)."""

_CLAUDE = re.compile(r"claude|fable|mythos|opus|sonnet|haiku", re.IGNORECASE)
_OWN_FORMATS = ("anthropic", "claude_code")
"""Formats of messages to Claude, or to a server with the same API."""


def thinking_model(model: str, format: str = "", entries: Sequence[Any] = ()) -> ThinkingModel:  # noqa: A002
    """Return the row of a model; if ``model`` is "", of the model that the entries name.

    A transcript of Claude Code and LangChain's messages name the model that answered. Without a
    name, Anthropic's own formats, and blocks with Claude's signatures in others, mean a Claude.

    >>> thinking_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0").binds_prefix
    False
    >>> thinking_model("claude-opus-9") is UNKNOWN_CLAUDE, thinking_model("gpt-5") is UNBOUND
    (True, True)
    """
    name = model or answering_model(entries, format)
    known = known_name(name, THINKING_MODELS) if name else None
    if known is not None:
        return THINKING_MODELS[known]
    if format in _OWN_FORMATS or _CLAUDE.search(name):
        return UNKNOWN_CLAUDE
    if format in ("plain", "openai_responses", "codex"):  # no block of Claude's can be in them
        return UNBOUND
    return UNKNOWN_CLAUDE if has_claudes_thinking(entries) else UNBOUND


WAITS = "waits for the end of the turn"
"""The reason why a unit is kept that could go, if no change is safe."""


def why_waiting(model: str) -> str:
    """Return the line of `degraded` for a compaction that waits."""
    named = f"model {model!r}" if model else "the model, which nobody named,"
    return (
        f"the compaction waits for the end of the turn, since {named} may refuse the "
        "open tool loop with its thinking after a change as well as without it; pass the model's "
        'name, register it in THINKING_MODELS, or choose thinking="keep" or "strip"'
    )
