"""Functions for Spark's ``mapInArrow``: record batches in, record batches out.

They are made, and their options checked, on the driver. Spark pickles them and calls them in a
Python process for each task, of which a machine runs one for each core. Spark runs a task again
whose process died; nothing here has a state that would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rehydrate.batch.compaction import compact_batch, count_tokens_batch, embed_batch
from rehydrate.batch.retention import retention_batch
from rehydrate.compact.options import CompactOptions, RetentionOptions
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.table_work import CACHE_BYTES, TableWork, pyarrow
from rehydrate.retention.sampling import MIN_NEEDED

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

    from rehydrate.formats import FormatName

ROWS = 256
"""Spark's batches have up to 10,000 rows: so many results would be held at once."""


def compact_batches(
    *,
    messages: bool = False,
    keep: Iterable[str] = (),
    threads: int = 1,
    cache_bytes: int = CACHE_BYTES,
    **options: Unpack[CompactOptions],
) -> ArrowBatches:
    """Return `compact_batch` for ``mapInArrow``.

    The columns are ``id``, ``messages`` and, if rows have queries, ``query``; the result is that of
    `compact_batch`, and ``messages`` and the options mean what they do there. ``keep`` names
    columns of the frame that come along; the others stay behind. A worker has one thread
    (``threads``), and at most ``cache_bytes`` of analyses of texts.

    Raises InvalidArgumentError for an option outside of its limits.

    >>> import pyarrow
    >>> compact = compact_batches(target_ratio=0.3, keep=["day"])
    >>> rows = {"id": ["a"], "messages": ['[{"role": "user", "content": "hi"}]'], "day": [25]}
    >>> [found] = compact([pyarrow.record_batch(rows)])  # as Spark calls it
    >>> found.select(["id", "kept", "day"]).to_pylist()
    [{'id': 'a', 'kept': [0], 'day': 25}]
    """
    work = partial(compact_batch, messages=messages, threads=threads, **options)
    return ArrowBatches(TableWork(work, "messages", keep=keep, cache_bytes=cache_bytes))


def count_tokens_batches(
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
    *,
    of: Literal["messages", "text"] = "messages",
    column: str | None = None,
    format: FormatName | Literal["auto"] = "auto",  # noqa: A002  the field's word
    keep: Iterable[str] = (),
    threads: int = 1,
    cache_bytes: int = CACHE_BYTES,
) -> ArrowBatches:
    """Return `count_tokens_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import pyarrow
    >>> count = count_tokens_batches(of="text")
    >>> [found] = count([pyarrow.record_batch({"id": ["a"], "text": ["Berth 4 is free."]})])
    >>> found["tokens"].to_pylist()
    [7]
    """
    work = partial(
        count_tokens_batch,
        encoding=encoding,
        of=of,
        column=column,
        format=format,
        threads=threads,
    )
    return ArrowBatches(TableWork(work, column or of, keep=keep, cache_bytes=cache_bytes))


def retention_batches(
    *,
    target_ratio: float = 0.4,
    min_needed: int = MIN_NEEDED,
    keep: Iterable[str] = (),
    threads: int = 1,
    cache_bytes: int = CACHE_BYTES,
    **options: Unpack[RetentionOptions],
) -> ArrowBatches:
    """Return `retention_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> rows = pyarrow.record_batch({"id": ["a"], "messages": [json.dumps(turns)]})
    >>> [found] = retention_batches(target_ratio=0.5)([rows])
    >>> found.select(["cuts", "needed", "used_later"]).to_pylist()
    [{'cuts': 1, 'needed': 5, 'used_later': 1.0}]
    """
    work = partial(
        retention_batch,
        target_ratio=target_ratio,
        min_needed=min_needed,
        threads=threads,
        **options,
    )
    return ArrowBatches(TableWork(work, "messages", keep=keep, cache_bytes=cache_bytes))


def embed_batches(
    *,
    column: str = "text",
    keep: Iterable[str] = (),
    threads: int = 1,
    cache_bytes: int = CACHE_BYTES,
) -> ArrowBatches:
    """Return `embed_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import pyarrow
    >>> [found] = embed_batches()([pyarrow.record_batch({"id": ["a"], "text": ["Berth 4"]})])
    >>> len(found["vector"][0])
    256
    """
    work = partial(embed_batch, column=column, threads=threads)
    return ArrowBatches(TableWork(work, column, keep=keep, cache_bytes=cache_bytes))


class ArrowBatches:
    """What ``mapInArrow`` takes: a function of record batches, and the schema of its results."""

    def __init__(self, work: TableWork) -> None:
        """Take what is done with each batch."""
        self._work = work

    def schema(self, frame: DataFrame) -> StructType:
        """Return the result's schema for a frame: ``id`` and ``keep`` have the frame's types.

        Raises InvalidArgumentError where the frame has not the columns, or not the types, that the
        work needs.
        """
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        pa = pyarrow()
        columns = {field.name: pa.nulls(0) for field in frame.schema.fields}
        for name in columns.keys() & {self._work.column, "query"}:
            columns[name] = pa.array([], _text_type(frame.schema[name]))
        found = self._work(pa.table(columns))
        own = {name: frame.schema[name] for name in ("id", *self._work.keep)}
        made = from_arrow_schema(_spark_types(found).schema)
        return StructType([own.get(field.name, field) for field in made.fields])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of record batches, a few hundred rows at a time."""
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                found = _spark_types(self._work(batch.slice(start, ROWS)))
                yield from found.combine_chunks().to_batches()


def _text_type(field: StructField) -> Any:
    kind = field.dataType.typeName()
    if kind not in ("string", "varchar", "char", "binary"):
        raise InvalidArgumentError(
            f"column {field.name!r} is of type {kind}; cast it to string, or to binary with UTF-8"
        )
    return pyarrow().binary() if kind == "binary" else pyarrow().string()


def _spark_types(table: Any) -> Any:
    """Return the table without lists of a fixed size, which Spark does not read."""
    pa = pyarrow()
    fields = [
        pa.field(field.name, pa.list_(field.type.value_type))
        if pa.types.is_fixed_size_list(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
