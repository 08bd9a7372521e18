"""Rehydrate in Ray Data: ``pip install rehydrate[ray]``.

RehydrateBatch      for ``map_batches``: what `compact_context` keeps of each conversation
CountTokensBatch    the tokens of each conversation, or of each text
RetentionBatch      how much of what is needed later a compaction of each keeps
EmbedBatch          the built-in model's vector of each text

They are for ``map_batches(..., batch_format="pyarrow")``: a table in, a table out. An instance runs
in Ray's tasks, and its mistakes are raised where it is made: before the cluster has any work. The
class itself runs in actors, with its arguments in ``fn_constructor_kwargs``. Ray runs a task again
whose worker died; nothing here has a state that would be lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from rehydrate.batch.compaction import (
    compact_batch,
    count_tokens_batch,
    embed_batch,
    retention_batch,
)
from rehydrate.compact.api import compact_context
from rehydrate.integrations.signatures import shows_options
from rehydrate.integrations.table_work import (
    DEFAULTS,
    CompactWork,
    CountTokensWork,
    EmbedWork,
    RetentionWork,
    TableWork,
)

if TYPE_CHECKING:
    from rehydrate._native import ArrowTable

__all__ = ["CountTokensBatch", "EmbedBatch", "RehydrateBatch", "RetentionBatch"]


class RayTableWork(TableWork):
    """A table work that is not pickled where Ray makes it in an actor."""

    def __init__(
        self, work: Callable[..., ArrowTable], column: str, options: Mapping[str, Any]
    ) -> None:
        """Find out where it is made."""
        super().__init__(work, column, options)
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            self.is_in_worker = ray.get_runtime_context().get_actor_id() is not None


class RehydrateBatch(RayTableWork):
    """`compact_batch` for the blocks of a dataset.

    The columns are ``id``, ``messages`` and, if rows have queries, ``query``; the result is that of
    `compact_batch`, and ``messages`` and the options mean what they do there. ``keep`` names
    columns of the dataset that come along; the others do not. A worker has one thread
    (``threads``), and at most ``cache_bytes`` of analyses of texts.

    Raises InvalidArgumentError for an option outside of its limits.

    >>> import pyarrow
    >>> compact = RehydrateBatch(target_ratio=0.3, keep=["day"])
    >>> messages = '[{"role": "user", "content": "hi"}]'
    >>> found = compact(pyarrow.table({"id": ["a"], "messages": [messages], "day": [25]}))
    >>> found.select(["id", "kept", "day"]).to_pylist()
    [{'id': 'a', 'kept': [0], 'day': 25}]
    """

    @shows_options(CompactWork, givers=[compact_batch, compact_context], **DEFAULTS)
    def __init__(self, **options: Unpack[CompactWork]) -> None:
        """Check the options."""
        super().__init__(compact_batch, "messages", options)


class CountTokensBatch(RayTableWork):
    """`count_tokens_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import pyarrow
    >>> count = CountTokensBatch(of="text")
    >>> count(pyarrow.table({"id": ["a"], "text": ["Berth 4 is free."]}))["tokens"].to_pylist()
    [7]
    """

    @shows_options(CountTokensWork, givers=[count_tokens_batch], **DEFAULTS)
    def __init__(
        self,
        encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
        **options: Unpack[CountTokensWork],
    ) -> None:
        """Check the options."""
        column = options.get("column") or options.get("of", "messages")
        super().__init__(count_tokens_batch, column, {"encoding": encoding, **options})


class RetentionBatch(RayTableWork):
    """`retention_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> measure = RetentionBatch(target_ratio=0.5)
    >>> found = measure(pyarrow.table({"id": ["a"], "messages": [json.dumps(turns)]}))
    >>> found.select(["cuts", "needed", "used_later"]).to_pylist()
    [{'cuts': 1, 'needed': 5, 'used_later': 1.0}]
    """

    @shows_options(RetentionWork, givers=[retention_batch, compact_context], **DEFAULTS)
    def __init__(self, **options: Unpack[RetentionWork]) -> None:
        """Check the options."""
        super().__init__(retention_batch, "messages", options)


class EmbedBatch(RayTableWork):
    """`embed_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import pyarrow
    >>> found = EmbedBatch()(pyarrow.table({"id": ["a"], "text": ["Berth 4 is free."]}))
    >>> len(found["vector"][0])
    256
    """

    @shows_options(EmbedWork, givers=[embed_batch], **DEFAULTS)
    def __init__(self, **options: Unpack[EmbedWork]) -> None:
        """Check the options."""
        super().__init__(embed_batch, options.get("column", "text"), options)
