"""UserPromptSubmit: memories of the project that matter for the prompt."""

from __future__ import annotations

import re

from rehydrate.integrations.claude_code.events import HookInput, Reply, additional_context

MAX_QUERY_CHARS = 2_000
MAX_MEMORIES = 5
MAX_CHARS = 4_000
MIN_RELEVANCE = 0.45
"""Of the best memory for a prompt. At 0.45 it brings memories for 24% of what is said in the
sessions that they are from, for 3% of LoCoMo's questions and for one of 15 general ones; at 0.35
for 50%, 4% and four of 15, at 0.55 for 8%, 1% and one (`benches/python/claude_hooks.py`)."""
_EPISODE = re.compile(r"\d+->\d+ tokens, ")
"""The record of a compaction, which says nothing about the project."""


def _trust(trust: float) -> str:
    """Return what is written before a memory that the user did not say.

    >>> _trust(0.5), _trust(1.0)
    ('(trust 0.5) ', '')
    """
    return "" if trust >= 1.0 else f"(trust {trust:g}) "


def user_prompt(given: HookInput) -> Reply:
    """Return the memories, each once between two compactions."""
    prompt = given.text("prompt").strip()[:MAX_QUERY_CHARS]
    if not prompt or prompt.startswith(("/", "!", "#")) or not given.home.memory.exists():
        return None
    from rehydrate.fences import tags
    from rehydrate.integrations.claude_code.records import Records
    from rehydrate.prompt.sources.memory import relevant_hits

    with given.home.open_memory(given.project) as memory:
        found = memory.search(prompt, MAX_MEMORIES)
    hits = [
        hit
        for hit in relevant_hits(found, prompt, MIN_RELEVANCE)
        if not _EPISODE.match(hit.item.text)
    ]
    if not hits:
        return None
    with Records(given.home) as records:
        fresh = set(records.unshown(given.text("session_id"), [hit.handle for hit in hits]))
    lines = [
        f"- {_trust(hit.item.trust)}{' '.join(hit.snippet.split())}"
        for hit in hits
        if hit.handle in fresh
    ]
    text = "\n".join(lines)[:MAX_CHARS]
    if not text:
        return None
    opening, closing = tags("memories", "memories", "", "of this project", None, True, text)
    return additional_context("UserPromptSubmit", f"{opening}\n{text}\n{closing}")
