"""Compaction: fewer messages within a token budget, none of them rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.compact.api import (
        acompact_context as acompact_context,
        compact_context as compact_context,
    )
    from rehydrate.compact.archive import Archive as Archive
    from rehydrate.compact.outline import (
        Outline as Outline,
    )
    from rehydrate.compact.result import (
        BlockReport as BlockReport,
        Compaction as Compaction,
        Dropped as Dropped,
        Explanation as Explanation,
        Stats as Stats,
        UnitReport as UnitReport,
    )
    from rehydrate.compact.scoring import (
        Scoring as Scoring,
    )

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
        "archive": "kind_of",
        "excerpts": "Division mark",
        "outline": "Listed framed outline_tokens read_framed read_lines write_outline",
        "query": "MAX_QUERY_CHARS last_user_text weighted_query",
        "scoring": "UNKNOWN_ROLE_WEIGHT",
        "signals": "ONE_BATCH",
        "tool_inputs": "open_turn take_apart",
    },
)
