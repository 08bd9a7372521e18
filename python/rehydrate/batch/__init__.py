"""Batches: tables of conversations or texts, in Arrow, a result for each row.

compact_batch        what `compact_context` keeps of each conversation
compact_stream       the same for a table that is larger than the memory
count_tokens_batch   the tokens of each conversation, or of each text
retention_batch      how much of what is needed later a compaction of each keeps
embed_batch          the built-in model's vector of each text
ArrowTable           what they return: pyarrow, polars, duckdb and nanoarrow read it without a copy
ArrowStream          what compact_stream returns: the same, read once

A table is anything with the Arrow PyCapsule interface, and neither it nor the result needs pyarrow.
A bad row has an ``error`` and never fails its batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate._native import ArrowStream as ArrowStream, ArrowTable as ArrowTable
    from rehydrate.batch.compaction import (
        compact_batch as compact_batch,
        compact_stream as compact_stream,
        count_tokens_batch as count_tokens_batch,
        embed_batch as embed_batch,
        retention_batch as retention_batch,
    )
    from rehydrate.compact.options import (
        CompactOptions as CompactOptions,
        RetentionOptions as RetentionOptions,
    )

__all__, __dir__, __getattr__ = front(__name__)
