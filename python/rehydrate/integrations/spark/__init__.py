"""Rehydrate in Spark: ``pip install rehydrate[spark]``.

compact_batches         for ``mapInArrow``: what `compact_context` keeps of each conversation
count_tokens_batches    the tokens of each conversation, or of each text
retention_batches       how much of what is needed later a compaction of each keeps
embed_batches           the built-in model's vector of each text
ArrowBatches            what they return; its `schema` is mapInArrow's second argument
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.spark.batches import (
        ArrowBatches as ArrowBatches,
        compact_batches as compact_batches,
        count_tokens_batches as count_tokens_batches,
        embed_batches as embed_batches,
        retention_batches as retention_batches,
    )

__all__, __dir__, __getattr__ = front(__name__)
