"""Callables for ``map_batches(..., batch_format="pyarrow")``: a table in, a table out.

An instance runs in Ray's tasks, and its mistakes are told where it is made: before the cluster has
any work. The class itself runs in actors, with its arguments in ``fn_constructor_kwargs``. Ray
runs a task again whose worker died; nothing here has a state that would be lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rehydrate.batch.compaction import compact_batch, count_tokens_batch, embed_batch
from rehydrate.batch.retention import retention_batch
from rehydrate.compact.options import CompactOptions, RetentionOptions
from rehydrate.integrations.table_work import CACHE_BYTES, TableWork
from rehydrate.retention.sampling import MIN_NEEDED

if TYPE_CHECKING:
    from typing import Unpack

    from rehydrate._engine import ArrowTable
    from rehydrate.formats import FormatName


class RayTableWork(TableWork):
    """A table work that is not pickled where Ray makes it in an actor."""

    def __init__(
        self,
        work: Callable[[Any], ArrowTable],
        column: str,
        *,
        keep: Iterable[str],
        cache_bytes: int,
    ) -> None:
        """Find out where it is made."""
        super().__init__(work, column, keep=keep, cache_bytes=cache_bytes)
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            self.is_in_worker = ray.get_runtime_context().get_actor_id() is not None


class RehydrateBatch(RayTableWork):
    """`compact_batch` for the blocks of a dataset.

    The columns are ``id``, ``messages`` and, if rows have queries, ``query``; the result is that of
    `compact_batch`, and ``messages`` and the options mean what they do there. ``keep`` names
    columns of the dataset that come along; the others stay behind. A worker has one thread
    (``threads``), and at most ``cache_bytes`` of analyses of texts.

    Raises InvalidArgumentError for an option outside of its limits.

    >>> import pyarrow
    >>> compact = RehydrateBatch(target_ratio=0.3, keep=["day"])
    >>> messages = '[{"role": "user", "content": "hi"}]'
    >>> found = compact(pyarrow.table({"id": ["a"], "messages": [messages], "day": [25]}))
    >>> found.select(["id", "kept", "day"]).to_pylist()
    [{'id': 'a', 'kept': [0], 'day': 25}]
    """

    def __init__(
        self,
        *,
        messages: bool = False,
        keep: Iterable[str] = (),
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
        **options: Unpack[CompactOptions],
    ) -> None:
        """Check the options."""
        work = partial(compact_batch, messages=messages, threads=threads, **options)
        super().__init__(work, "messages", keep=keep, cache_bytes=cache_bytes)


class CountTokensBatch(RayTableWork):
    """`count_tokens_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import pyarrow
    >>> count = CountTokensBatch(of="text")
    >>> count(pyarrow.table({"id": ["a"], "text": ["Berth 4 is free."]}))["tokens"].to_pylist()
    [7]
    """

    def __init__(
        self,
        encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
        *,
        of: Literal["messages", "text"] = "messages",
        column: str | None = None,
        format: FormatName | Literal["auto"] = "auto",  # noqa: A002  the field's word
        keep: Iterable[str] = (),
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Check the options."""
        work = partial(
            count_tokens_batch,
            encoding=encoding,
            of=of,
            column=column,
            format=format,
            threads=threads,
        )
        super().__init__(work, column or of, keep=keep, cache_bytes=cache_bytes)


class RetentionBatch(RayTableWork):
    """`retention_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> measure = RetentionBatch(target_ratio=0.5)
    >>> found = measure(pyarrow.table({"id": ["a"], "messages": [json.dumps(turns)]}))
    >>> found.select(["cuts", "needed", "used_later"]).to_pylist()
    [{'cuts': 1, 'needed': 5, 'used_later': 1.0}]
    """

    def __init__(
        self,
        *,
        target_ratio: float = 0.4,
        min_needed: int = MIN_NEEDED,
        keep: Iterable[str] = (),
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
        **options: Unpack[RetentionOptions],
    ) -> None:
        """Check the options."""
        work = partial(
            retention_batch,
            target_ratio=target_ratio,
            min_needed=min_needed,
            threads=threads,
            **options,
        )
        super().__init__(work, "messages", keep=keep, cache_bytes=cache_bytes)


class EmbedBatch(RayTableWork):
    """`embed_batch` for the blocks of a dataset; other arguments as in `RehydrateBatch`.

    >>> import pyarrow
    >>> found = EmbedBatch()(pyarrow.table({"id": ["a"], "text": ["Berth 4 is free."]}))
    >>> len(found["vector"][0])
    256
    """

    def __init__(
        self,
        *,
        column: str = "text",
        keep: Iterable[str] = (),
        threads: int = 1,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Check the options."""
        work = partial(embed_batch, column=column, threads=threads)
        super().__init__(work, column, keep=keep, cache_bytes=cache_bytes)
