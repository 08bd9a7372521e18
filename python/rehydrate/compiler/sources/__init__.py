"""Sources: where the content of a prompt comes from. A file each."""

from rehydrate.compiler.sources.conversation import conversation
from rehydrate.compiler.sources.function import function
from rehydrate.compiler.sources.history import history
from rehydrate.compiler.sources.hot import hot
from rehydrate.compiler.sources.knowledge import knowledge
from rehydrate.compiler.sources.semantic import semantic
from rehydrate.compiler.sources.source import Found, HydrationSource, SourceRequest
from rehydrate.compiler.sources.system import system
from rehydrate.compiler.sources.temporal import temporal
from rehydrate.compiler.sources.tools import tools

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
