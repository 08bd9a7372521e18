"""ProviderPolicy: a request's options of caching, and of shortening by the provider itself.

Sources (November 2026): https://developers.openai.com/api/docs/guides/prompt-caching,
https://platform.claude.com/docs/en/build-with-claude/context-editing and
https://platform.claude.com/docs/en/build-with-claude/compaction-threshold, and the SDKs' types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rehydrate._check import check_choice, check_type, check_whole
from rehydrate.messages import CACHE_MARKED

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
