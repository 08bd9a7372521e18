"""Sources: where the content of a prompt comes from. A file each."""

from __future__ import annotations

from rehydrate.prompt.sources.conversation import conversation
from rehydrate.prompt.sources.given import function, history, system, tools
from rehydrate.prompt.sources.knowledge import knowledge
from rehydrate.prompt.sources.memory import hot, semantic, temporal
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest

__all__ = [
    "Found",
    "HydrationSource",
    "SourceRequest",
    "conversation",
    "function",
    "history",
    "hot",
    "knowledge",
    "semantic",
    "system",
    "temporal",
    "tools",
]
