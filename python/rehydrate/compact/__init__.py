"""Compaction: keeps the messages that matter most within a token budget, and rewrites none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.compact.api import (
        acompact_context as acompact_context,
        compact_context as compact_context,
    )
    from rehydrate.compact.archive import Archive as Archive
    from rehydrate.compact.outline import Outline as Outline
    from rehydrate.compact.result import (
        BlockReport as BlockReport,
        Compaction as Compaction,
        Dropped as Dropped,
        Explanation as Explanation,
        Stats as Stats,
        UnitReport as UnitReport,
    )
    from rehydrate.compact.scoring import Scoring as Scoring

__all__, __dir__, __getattr__ = front(
    __name__,
    {
        "archive": "Archive",
        "api": "acompact_context compact_context",
        "outline": "Outline",
        "result": "BlockReport Compaction Dropped Explanation Stats UnitReport",
        "scoring": "Scoring",
    },
    internal={
        "archive": "message_json",
        "arguments": "GRANULARITIES Granularity THINKING ThinkingPolicy",
        "excerpts": "Division mark",
        "novel": "kind_of",
        "parallel": "Parted parted_of",
        "outline": "OutlineName fenced outline_tokens read_fenced read_lines write_outline",
        "query": "MAX_QUERY_CHARS last_user_text weighted_query",
        "scoring": "PROFILES ProfileName UNKNOWN_ROLE_WEIGHT",
        "signals": "MIN_EMBEDDED_TEXTS",
        "tool_inputs": "split_inputs",
    },
)
