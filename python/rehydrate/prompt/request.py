"""ContextRequest: the query of a turn, its budget and its sources (`Budget`, `ContextStrategy`);
ProviderPolicy: the options of caching, and of shortening by the provider itself.

Sources of the policy (November 2026):
https://developers.openai.com/api/docs/guides/prompt-caching,
https://platform.claude.com/docs/en/build-with-claude/context-editing and
https://platform.claude.com/docs/en/build-with-claude/compaction-threshold, and the SDKs' types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rehydrate._check import check_choice, check_share, check_type, check_whole
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import CACHE_MARKED

SOFT_TOKENS = 50_000
HARD_TOKENS = 180_000
KEEP_LAST = 12
MAX_TOKENS = 2**53
"""Of any budget or count: up to here a number is exact wherever it is multiplied by a share."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The token limits of a prompt and of a job.

    Counts that are estimates (of every provider but OpenAI) are compared by their upper bound. Tool
    schemas and images count too. Raises InvalidArgumentError for a value outside its limits.

    >>> Budget(soft_tokens=8_000).target_tokens
    4800
    """

    soft_tokens: int = SOFT_TOKENS
    """A prompt with more is compacted."""
    hard_tokens: int = HARD_TOKENS
    """A prompt with more is not sent: BudgetExceededError. The model's window, less a margin."""
    compact_to: float = 0.6
    """A compaction leaves this share of `soft_tokens`. The rest is room for the next turns, since
    each compaction breaks the cached prefix."""
    keep_last: int = KEEP_LAST
    """The last messages are kept before anything competes: at most this number, newest first, and
    in at most a 32nd of the room."""
    max_job_tokens: int | None = None
    """The tokens that all requests of a job may send together. A prefix that the last request had
    too is not counted again. A request over it raises BudgetExceededError. None: no limit."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_whole("budget: soft_tokens", self.soft_tokens, 1, MAX_TOKENS)
        check_whole("budget: hard_tokens", self.hard_tokens, 1, MAX_TOKENS)
        check_whole("budget: max_job_tokens", self.max_job_tokens, 1, MAX_TOKENS, or_none=True)
        check_whole("budget: keep_last", self.keep_last)
        if self.soft_tokens > self.hard_tokens:
            raise InvalidArgumentError(
                f"budget: soft_tokens is {self.soft_tokens:,}, hard_tokens {self.hard_tokens:,}; "
                "the soft one comes first: lower it or raise the other"
            )
        is_number = isinstance(self.compact_to, (int, float)) and self.compact_to is not True
        if not (is_number and 0.05 <= self.compact_to <= 1):
            raise InvalidArgumentError(
                f"budget: compact_to is {self.compact_to!r}; pass a number from 0.05 to 1"
            )

    @property
    def target_tokens(self) -> int:
        """The tokens that a compaction leaves."""
        return int(self.soft_tokens * self.compact_to)


class TimeRange(NamedTuple):
    """From `after` (inclusive) to `before` (exclusive), as aware datetimes; None: no limit."""

    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class ContextStrategy:
    """The sources that run, and the largest share of the soft budget that each may take.

    A source that is not named runs with its own budget. A share of 0 turns a source off.

    >>> ContextStrategy.only("semantic").wants("temporal")
    False
    """

    shares: Mapping[str, float] = field(
        default_factory=lambda: {"temporal": 0.1, "semantic": 0.15, "knowledge": 0.15},
        hash=False,
    )
    exclusive: bool = False
    """Whether sources that are not named do not run."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("strategy: shares", self.shares, Mapping, "pass names of sources with shares")
        for name, share in self.shares.items():
            check_type("strategy: a source", name, str, "pass its name")
            check_share(f"strategy: the share of {name!r}", share)

    @classmethod
    def only(cls, *sources: str) -> ContextStrategy:
        """Return a strategy with these sources and no others, each with its own budget."""
        return cls(dict.fromkeys(sources, 1.0), exclusive=True)

    def wants(self, source: str) -> bool:
        """Whether the source runs."""
        return self.shares.get(source, 0.0 if self.exclusive else 1.0) > 0

    def tokens_for(self, source: str, budget: Budget) -> int | None:
        """Return the limit of the source's share; None for a source without one."""
        share = self.shares.get(source)
        return None if share is None else math.floor(share * budget.soft_tokens)


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The query of the next prompt, and how to find what it needs.

    >>> ContextRequest("Which port does staging use?").budget.soft_tokens
    50000
    """

    query: str = ""
    """The user's new words, or the tool result that the turn goes on from. Sources search for it.
    "": the last user turn of the history."""
    strategy: ContextStrategy = field(default_factory=ContextStrategy)
    budget: Budget = field(default_factory=Budget)
    thread: str = ""
    """The conversation's name."""
    time_range: TimeRange | None = None
    namespace: str = ""
    """The namespace of every memory that has none of its own."""

    def __post_init__(self) -> None:
        """Check the fields."""
        check_type("query", self.query, str, "pass a string")
        check_type("strategy", self.strategy, ContextStrategy, 'pass ContextStrategy({"hot": 0.1})')
        check_type("budget", self.budget, Budget, "pass Budget(soft_tokens=...)")
        check_type("thread", self.thread, str, "pass the conversation's name")
        check_type("namespace", self.namespace, str, "pass a namespace's name")
        if self.time_range is not None:
            check_type("time_range", self.time_range, TimeRange, "pass TimeRange(after, before)")


_RETENTIONS = ("", "in_memory", "24h")
_TTLS = ("30m", "12h")
THRESHOLD_BETA = "compact-2026-01-12"
"""The beta that threshold compaction needs, and the blocks that it made."""
_EDITS = {
    "clear_tool_uses_20250919": "context-management-2025-06-27",
    "compact_20260112": THRESHOLD_BETA,
}
"""The beta of Anthropic's API that each edit needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPolicy:
    """How a provider caches and shortens the prompts of a `Context`.

    Each field is for the providers that it names; prompts for others are as they are without it.

    >>> policy = ProviderPolicy(cache_key="harbour", clear_tool_uses_at=50_000)
    >>> policy.fields("openai_responses")
    {'prompt_cache_key': 'harbour'}
    >>> [edit["type"] for edit in policy.fields("anthropic")["context_management"]["edits"]]
    ['clear_tool_uses_20250919']
    """

    cache_key: str = ""
    """OpenAI: requests with the same key and the same beginning go where that is cached."""
    cache_retention: Literal["", "in_memory", "24h"] = ""
    """OpenAI before GPT-5.6: how long a prefix is kept at most; "" is the organization's own."""
    cache_breakpoints: bool = False
    """OpenAI from GPT-5.6: cache only what ends at a breakpoint, and set them where Anthropic's
    would be. A write costs 1.25 there."""
    cache_ttl: Literal["30m", "12h"] = "30m"
    """OpenAI Responses from GPT-5.6: how long what was written is kept at least. Chat Completions
    has 30 minutes only."""
    cached_content: str = ""
    """Gemini: the name of cached content that you made of the system text and the tools, such as
    "cachedContents/ab12": a request names it in place of them."""
    clear_tool_uses_at: int | None = None
    """Anthropic: input tokens above which the API leaves out the results of old tool calls."""
    keep_tool_uses: int = 3
    """The newest results that stay then."""
    clear_at_least: int | None = None
    """Tokens: where less could be left out, nothing is, for each time breaks the cache."""
    compact_at: int | None = None
    """Anthropic: input tokens, 50,000 or more, above which the API replaces the conversation by a
    summary: a block of the answer. The block stays in each prompt as it is, and the API ignores all
    before it."""

    def __post_init__(self) -> None:
        """Check the fields; raises InvalidArgumentError."""
        check_type("policy: cache_key", self.cache_key, str, "pass a text, such as a user's hash")
        hint = "pass the name, such as cachedContents/ab12"
        check_type("policy: cached_content", self.cached_content, str, hint)
        check_choice("policy: cache_retention", self.cache_retention, _RETENTIONS)
        check_choice("policy: cache_ttl", self.cache_ttl, _TTLS)
        check_type("policy: cache_breakpoints", self.cache_breakpoints, bool, "pass True or False")
        check_whole("policy: keep_tool_uses", self.keep_tool_uses, 0)
        for name in ("clear_tool_uses_at", "clear_at_least", "compact_at"):
            check_whole(f"policy: {name}", getattr(self, name), 1, or_none=True)

    def marks(self, provider: str) -> bool:
        """Return whether a request to this provider marks what is cached."""
        return provider in CACHE_MARKED or (self.cache_breakpoints and _is_openai(provider))

    def fields(self, provider: str) -> dict[str, Any]:
        """Return what a request has besides its tools, system text and messages."""
        if _is_openai(provider):
            ttl = self.cache_ttl if provider == "openai_responses" else "30m"
            options = {"mode": "explicit"} if self.cache_breakpoints else {}
            if options or ttl != "30m":
                options["ttl"] = ttl
            named = {
                "prompt_cache_key": self.cache_key,
                "prompt_cache_retention": self.cache_retention,
                "prompt_cache_options": options,
            }
            return {name: value for name, value in named.items() if value}
        if provider == "gemini":
            return {"cachedContent": self.cached_content} if self.cached_content else {}
        edits = self._edits() if provider == "anthropic" else []
        return {"context_management": {"edits": edits}} if edits else {}

    def applied_to(self, provider: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request with these fields, and without what the provider holds itself."""
        fields = self.fields(provider)
        held = _HELD if "cachedContent" in fields else ()
        return {name: value for name, value in request.items() if name not in held} | fields

    def _edits(self) -> list[dict[str, Any]]:
        edits: list[dict[str, Any]] = []
        if self.clear_tool_uses_at is not None:
            clear = {
                "type": "clear_tool_uses_20250919",
                "trigger": _tokens(self.clear_tool_uses_at),
                "keep": {"type": "tool_uses", "value": self.keep_tool_uses},
            }
            least = self.clear_at_least
            edits.append(clear if least is None else {**clear, "clear_at_least": _tokens(least)})
        if self.compact_at is not None:
            edits.append({"type": "compact_20260112", "trigger": _tokens(self.compact_at)})
        return edits


_HELD = ("systemInstruction", "tools", "toolConfig")
"""The fields that a request with cached content must not have: they are in there
(https://ai.google.dev/gemini-api/docs/caching)."""
NO_POLICY = ProviderPolicy()


def edit_betas(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the betas that the edits of a request of Anthropic's need."""
    edits = request.get("context_management", {}).get("edits", ())
    return tuple([_EDITS[edit["type"]] for edit in edits])


def _tokens(count: int) -> dict[str, Any]:
    return {"type": "input_tokens", "value": count}


def _is_openai(provider: str) -> bool:
    return provider in ("openai_chat", "openai_responses")
