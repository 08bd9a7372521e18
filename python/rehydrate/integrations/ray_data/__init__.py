"""Rehydrate in Ray Data: ``pip install rehydrate[ray]``.

RehydrateBatch      for ``map_batches``: what `compact_context` keeps of each conversation
CountTokensBatch    the tokens of each conversation, or of each text
RetentionBatch      how much of what is needed later a compaction of each keeps
EmbedBatch          the built-in model's vector of each text
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.ray_data.batches import (
        CountTokensBatch as CountTokensBatch,
        EmbedBatch as EmbedBatch,
        RehydrateBatch as RehydrateBatch,
        RetentionBatch as RetentionBatch,
    )

__all__, __dir__, __getattr__ = front(__name__)
