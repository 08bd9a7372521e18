"""What a prompt costs: counts where nobody counted yet, fences included, and their upper bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from rehydrate import _engine
from rehydrate.compiler.counts import COUNTER, counted_sections, counted_tools, entry_tokens
from rehydrate.fences import tags
from rehydrate.ir import FULL_TRUST, PromptIR, Section

PROVIDER_TOKENS: Mapping[str, float] = {
    "anthropic": 1.35,
    "openai_chat": 1.0,
    "openai_responses": 1.0,
}
"""At most so many of a provider's tokens for one that we count (o200k_base).

OpenAI's models since gpt-4o use that very encoding. Anthropic's is not public: over 440 requests
of five coding sessions it billed 1.10 tokens for one of ours, with what frames calls 1.34 in all
(docs/compile.md).
"""


def upper_bound(tokens: int, provider: str) -> int:
    """So many tokens of the provider's at most: exact where the encoding is public.

    >>> upper_bound(1_000, "anthropic"), upper_bound(1_000, "openai_chat")
    (1350, 1000)
    """
    return math.ceil(round(tokens * PROVIDER_TOKENS.get(provider, 1.0), 6))


def room(budget_tokens: int, provider: str) -> int:
    """The most tokens of ours whose upper bound is within a budget.

    >>> room(1_350, "anthropic")
    1000
    """
    tokens = math.floor(budget_tokens / PROVIDER_TOKENS.get(provider, 1.0)) + 1
    while upper_bound(tokens, provider) > budget_tokens:
        tokens -= 1
    return tokens


def counted(ir: PromptIR) -> PromptIR:
    """The IR with the tokens of everything that nobody counted yet."""
    history = ir.history
    if len(history.tokens) != len(history.entries):
        tokens = entry_tokens(history.conversation, len(history.entries))
        ir = ir.replace(history=history.with_tokens(tokens))
    if any(section.tokens is None for section in ir.sections):
        ir = ir.with_sections(counted_sections(ir.sections))
    if any(tool.tokens is None for tool in ir.tools):
        ir = ir.replace(tools=tuple(counted_tools(ir.tools)))
    return ir


def section_tokens(section: Section) -> int:
    """What a section costs as it is sent: with its fence, where it has one."""
    tokens = section.tokens or 0
    if section.is_system:
        return tokens
    provenance = section.provenance
    marks = section.id, provenance.source, provenance.origin, section.title, section.handle
    # The nonce alone depends on the content, and it is always as long.
    return tokens + _fence_tokens(*marks, section.trust < FULL_TRUST)


@lru_cache(maxsize=65_536)
def _fence_tokens(
    id: str,  # noqa: A002  the field's word
    source: str,
    origin: str,
    title: str,
    handle: str | None,
    is_data: bool,
) -> int:
    return sum(
        _engine.count(tag, COUNTER) for tag in tags(id, source, origin, title, handle, is_data, "")
    )


def prompt_tokens(ir: PromptIR) -> int:
    """Of the whole prompt as it is sent: tools, sections with their fences, history."""
    return (
        sum(map(section_tokens, ir.sections))
        + sum(tool.tokens or 0 for tool in ir.tools)
        + ir.history.total_tokens
    )
