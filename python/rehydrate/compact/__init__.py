"""Compaction: keeps the messages that matter most within a token budget, and rewrites none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate._native import Explanation as Explanation, Scoring as Scoring
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
        Stats as Stats,
        UnitReport as UnitReport,
    )

__all__, __dir__, __getattr__ = front(__name__)
