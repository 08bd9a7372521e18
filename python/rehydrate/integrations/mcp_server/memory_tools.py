"""search_memory, add_memory and load_memory: a memory that outlives the conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from rehydrate.formats.calls import ToolCall
from rehydrate.integrations.mcp_server.arguments import Answer, Arguments, check_names
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.memory.items import TIERS, Hit, Tier
from rehydrate.memory.tools import ARGUMENTS as LOAD, NAME as LOAD_NAME, LoadMemory

MAX_HITS = 50
MAX_TEXT_CHARS = 100_000
"""Of one memory. A longer text is a document: rehydrate memory sync."""
MAX_NAME_CHARS = 1_000
TRUST = 0.5
"""Of what a model adds: a tool's result may have told it to."""
TIERS_TO_ADD: tuple[Tier, ...] = ("warm", "cold")
"""What is hot is in every prompt, so only the user makes it so: rehydrate memory add."""

SEARCH: dict[str, dict[str, Any]] = {
    "query": {"type": "string", "description": "What to look for, in words or in meaning."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS, "default": 5},
    "time_range": {
        "type": "string",
        "description": "When it was said: 2026-02-17, 2026-02-01..2026-02-17, yesterday (UTC).",
    },
    "kinds": {"type": "array", "items": {"type": "string"}},
    "sources": {"type": "array", "items": {"type": "string"}},
    "threads": {"type": "array", "items": {"type": "string"}},
    "tier": {"type": "string", "enum": [*TIERS]},
}
SEARCH_RESULT: dict[str, dict[str, Any]] = {
    "hits": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "load_memory reads it whole."},
                "snippet": {"type": "string"},
                "score": {"type": "number"},
                "kind": {"type": "string"},
                "tier": {"type": "string"},
                "source": {"type": "string"},
                "thread": {"type": "string"},
                "time": {"type": "string"},
                "trust": {"type": "number"},
            },
            "required": ["handle", "snippet", "score"],
        },
    }
}
ADD: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "description": "What to remember, to be read by itself later."},
    "kind": {"type": "string", "description": "As decision, preference or fact; default: note."},
    "source": {"type": "string", "description": "Where it comes from: a file, an address."},
    "thread": {"type": "string", "description": "The conversation that it is from."},
    "tier": {
        "type": "string",
        "enum": [*TIERS_TO_ADD],
        "description": "warm: also loaded by its source's name; cold: found by search only.",
    },
}
ADD_RESULT: dict[str, dict[str, Any]] = {
    "handle": {"type": "string"},
    "created": {"type": "boolean", "description": "False: memory had this text already."},
    "redacted": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Kinds of secrets that were removed before anything was written.",
    },
}
LOAD_RESULT: dict[str, dict[str, Any]] = {"text": {"type": "string"}}


def search_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with the best matches."""
    arguments = Arguments(given, SEARCH)
    query = arguments.text("query")
    limit = arguments.whole("limit", 5, 1, MAX_HITS)
    span = arguments.time_range()
    tier = cast("Tier | None", arguments.choice("tier", TIERS))
    hits = stores.memory().search(
        query,
        limit,
        after=span.after,
        before=span.before,
        kinds=arguments.texts("kinds"),
        sources=arguments.texts("sources"),
        threads=arguments.texts("threads"),
        tiers=None if tier is None else [tier],
    )
    return Answer.of({"hits": [_shown(hit) for hit in hits]})


def _shown(hit: Hit) -> dict[str, Any]:
    item = hit.item
    return {
        "handle": hit.handle,
        "snippet": hit.snippet,
        "score": round(hit.score, 4),
        "kind": item.kind,
        "tier": item.tier,
        "source": item.source,
        "thread": item.thread,
        "time": "" if item.time is None else item.time.isoformat(),
        "trust": item.trust,
    }


def add_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Add one text, and answer with its handle."""
    arguments = Arguments(given, ADD)
    text = arguments.text("text", max_chars=MAX_TEXT_CHARS)
    names = {
        name: arguments.text(name, max_chars=MAX_NAME_CHARS, needed=False)
        for name in ("kind", "source", "thread")
    }
    tier = cast("Tier | None", arguments.choice("tier", TIERS_TO_ADD))
    (added,) = stores.memory().add(
        text,
        kind=names["kind"] or "note",
        source=names["source"],
        thread=names["thread"],
        tier=tier or "warm",
        trust=TRUST,
    )
    redacted = sorted({redaction.name for redaction in added.redactions})
    return Answer.of({"handle": added.handle, "created": added.created, "redacted": redacted})


def load_memory(stores: Stores, given: Mapping[str, Any], _job: Job) -> Answer:
    """Answer with passages of a query, or a note whole."""
    check_names(given, LOAD)
    loader = LoadMemory(stores.memory())
    text, is_error = loader.answer(ToolCall("anthropic", "call_1", LOAD_NAME, given))
    return Answer.of_error(text) if is_error else Answer.of_text(text)
