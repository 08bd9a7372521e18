"""Rehydrate in Spark: ``pip install rehydrate[spark]``.

compact_batches         for ``mapInArrow``: what `compact_context` keeps of each conversation
count_tokens_batches    the tokens of each conversation, or of each text
retention_batches       how much of what is needed later a compaction of each keeps
embed_batches           the built-in model's vector of each text
ArrowBatches            what they return; its `schema` is mapInArrow's second argument

They are made, and their options checked, on the driver. Spark pickles them and calls them in a
Python process for each task, of which a machine runs one for each core. Spark runs a task again
whose process died; nothing here has a state that would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Unpack

from rehydrate.batch.compaction import (
    compact_batch,
    count_tokens_batch,
    embed_batch,
    retention_batch,
)
from rehydrate.compact.api import compact_context
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.signatures import shows_options
from rehydrate.integrations.table_work import (
    DEFAULTS,
    CompactWork,
    CountTokensWork,
    EmbedWork,
    RetentionWork,
    TableWork,
    pyarrow,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

__all__ = [
    "ArrowBatches",
    "compact_batches",
    "count_tokens_batches",
    "embed_batches",
    "retention_batches",
]

ROWS = 256
"""Spark's batches have up to 10,000 rows: so many results would be held at once."""


@shows_options(CompactWork, givers=[compact_batch, compact_context], **DEFAULTS)
def compact_batches(**options: Unpack[CompactWork]) -> ArrowBatches:
    """Return `compact_batch` for ``mapInArrow``.

    The columns are ``id``, ``messages`` and, if rows have queries, ``query``; the result is that of
    `compact_batch`, and ``messages`` and the options mean what they do there. ``keep`` names
    columns of the frame that come along; the others do not. A worker has one thread
    (``threads``), and at most ``cache_bytes`` of analyses of texts.

    Raises InvalidArgumentError for an option outside of its limits.

    >>> import pyarrow
    >>> compact = compact_batches(target_ratio=0.3, keep=["day"])
    >>> rows = {"id": ["a"], "messages": ['[{"role": "user", "content": "hi"}]'], "day": [25]}
    >>> [found] = compact([pyarrow.record_batch(rows)])  # as Spark calls it
    >>> found.select(["id", "kept", "day"]).to_pylist()
    [{'id': 'a', 'kept': [0], 'day': 25}]
    """
    return ArrowBatches(TableWork(compact_batch, "messages", options))


@shows_options(CountTokensWork, givers=[count_tokens_batch], **DEFAULTS)
def count_tokens_batches(
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
    **options: Unpack[CountTokensWork],
) -> ArrowBatches:
    """Return `count_tokens_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import pyarrow
    >>> count = count_tokens_batches(of="text")
    >>> [found] = count([pyarrow.record_batch({"id": ["a"], "text": ["Berth 4 is free."]})])
    >>> found["tokens"].to_pylist()
    [7]
    """
    column = options.get("column") or options.get("of", "messages")
    return ArrowBatches(TableWork(count_tokens_batch, column, {"encoding": encoding, **options}))


@shows_options(RetentionWork, givers=[retention_batch, compact_context], **DEFAULTS)
def retention_batches(**options: Unpack[RetentionWork]) -> ArrowBatches:
    """Return `retention_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> rows = pyarrow.record_batch({"id": ["a"], "messages": [json.dumps(turns)]})
    >>> [found] = retention_batches(target_ratio=0.5)([rows])
    >>> found.select(["cuts", "needed", "used_later"]).to_pylist()
    [{'cuts': 1, 'needed': 5, 'used_later': 1.0}]
    """
    return ArrowBatches(TableWork(retention_batch, "messages", options))


@shows_options(EmbedWork, givers=[embed_batch], **DEFAULTS)
def embed_batches(**options: Unpack[EmbedWork]) -> ArrowBatches:
    """Return `embed_batch` for ``mapInArrow``; other arguments as in `compact_batches`.

    >>> import pyarrow
    >>> [found] = embed_batches()([pyarrow.record_batch({"id": ["a"], "text": ["Berth 4"]})])
    >>> len(found["vector"][0])
    256
    """
    return ArrowBatches(TableWork(embed_batch, options.get("column", "text"), options))


class ArrowBatches:
    """Arguments of ``mapInArrow``: a function of record batches, and the schema of its results."""

    def __init__(self, work: TableWork) -> None:
        """Take the work on each batch."""
        self._work = work

    def schema(self, frame: DataFrame) -> StructType:
        """Return the result's schema for a frame: ``id`` and ``keep`` have the frame's types.

        Raises InvalidArgumentError if the frame lacks the columns, or the types, that the
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
