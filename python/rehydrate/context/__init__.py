"""One conversation: its prompts extend one another, and its model can ask for what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate._native import ContextStore as ContextStore
    from rehydrate.context.compaction import (
        BackgroundCompaction as BackgroundCompaction,
        CompactionEvent as CompactionEvent,
    )
    from rehydrate.context.context import Context as Context
    from rehydrate.context.context_store import TOOLS as TOOLS, ToolUse as ToolUse
    from rehydrate.context.facts import ContextUsage as ContextUsage
    from rehydrate.context.jit import ContextJIT as ContextJIT, ThreadReader as ThreadReader
    from rehydrate.context.summaries import (
        CompactedHistory as CompactedHistory,
        compact_history as compact_history,
    )
    from rehydrate.context.thread import ToolHandler as ToolHandler
    from rehydrate.context.threads import (
        StoredConversation as StoredConversation,
        StoredThreadInfo as StoredThreadInfo,
        Threads as Threads,
    )
    from rehydrate.context.time_words import parse_time_range as parse_time_range
    from rehydrate.context.tool_calls import Answered as Answered
    from rehydrate.context.writers import (
        ProviderWriter as ProviderWriter,
        SummaryRequest as SummaryRequest,
    )

__all__, __dir__, __getattr__ = front(__name__)
