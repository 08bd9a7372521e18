"""compact_batch: `compact_context` for each row of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine
from rehydrate._text import safe_error_text
from rehydrate.batch.json_lines import JsonConversation
from rehydrate.batch.spreading import check_threads, spread, usable_threads
from rehydrate.compact.api import compact_context
from rehydrate.compact.options import CompactOptions, check_names
from rehydrate.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import Unpack

    from rehydrate import _native


def compact_batch(
    batch: object,
    *,
    messages: bool = False,
    threads: int | None = None,
    **options: Unpack[CompactOptions],
) -> _native.ArrowTable:
    """Return what `compact_context` keeps of each conversation of a table.

    ``batch`` is anything with the Arrow PyCapsule interface: a table or record batch of pyarrow, a
    frame of polars, a relation of duckdb. Its columns are ``id`` (of any type), ``messages`` (the
    JSON of a list of messages) and, if rows have queries, ``query``; others are ignored. Where a
    query is null, the option ``query`` holds. The options are those of `compact_context`.

    The result has a row for each row, in the same order:

    | column | |
    |---|---|
    | id | as it came |
    | kept | the indices of the kept messages, list of int32 |
    | messages | with ``messages=True``: the kept messages as JSON, each letter for letter as it \
was in its row |
    | before_tokens, after_tokens, target_tokens, dropped, excerpted, stripped | int64, as in \
``Compaction.stats`` |
    | outline | the outline's position in ``kept``, int64; null without one |
    | changed, over_budget | bool |
    | format | the format that was read |
    | degraded | what failed and was left out; null if nothing |
    | error | why there is no result; null if there is one |

    A row that is no conversation has an ``error``, and null in all other columns but ``id``. Where
    `excerpted`, `stripped` or `outline` say so, kept messages are not all as they were: take them
    from the column ``messages``.

    Rows are spread over ``threads``: None means a thread for each core, at most 4, and one alone
    where conversations are short. One process cannot use many more cores (docs/batches.md); where
    many workers share a machine, pass 1. A ``counter`` or ``embedder`` of your own is called from
    these threads.

    Raises InvalidArgumentError for a table without these columns and for an option outside of its
    limits.

    >>> import pyarrow
    >>> table = pyarrow.table({"id": ["a"], "messages": ['[{"role": "user", "content": "hi"}]']})
    >>> pyarrow.table(compact_batch(table))["kept"].to_pylist()
    [[0]]
    """
    plan = BatchPlan.of(options, with_messages=messages, threads=threads)
    return _engine.ArrowTable([plan.compacted(rows) for rows in _engine.ArrowReader(batch)])


def compact_stream(
    batch: object,
    *,
    messages: bool = False,
    threads: int | None = None,
    **options: Unpack[CompactOptions],
) -> _native.ArrowStream:
    """Return what `compact_batch` returns as a stream, for a table that is larger than the memory.

    Each batch of the input is read and compacted when its results are read, the first one at once.
    A stream is read once. Arguments, columns and errors are those of `compact_batch`; what fails in
    the middle of the input is raised by what reads the stream, as an error of its own.

    >>> import pyarrow
    >>> table = pyarrow.table({"id": ["a"], "messages": ['[{"role": "user", "content": "hi"}]']})
    >>> reader = pyarrow.RecordBatchReader.from_stream(compact_stream(table))
    >>> [batch["kept"].to_pylist() for batch in reader]
    [[[0]]]
    """
    plan = BatchPlan.of(options, with_messages=messages, threads=threads)
    made = map(plan.compacted, _engine.ArrowReader(batch))
    return _engine.ArrowStream(next(made), made)


class BatchPlan(NamedTuple):
    """What is done with each row."""

    options: Mapping[str, Any]
    query: str | None
    with_messages: bool
    threads: int | None

    @classmethod
    def of(
        cls, options: Mapping[str, Any], *, with_messages: bool, threads: int | None
    ) -> BatchPlan:
        """Check the options once, so that a mistake in them is not one of every row."""
        check_options(options)
        check_threads(threads)
        query = options.get("query")
        others = {name: value for name, value in options.items() if name != "query"}
        return cls(others, query, with_messages, threads)

    def compacted(self, rows: _native.ArrowRows) -> _native.ArrowRows:
        """Return the results of a batch."""
        check_columns(rows)
        has_query = "query" in rows.names

        def work(start: int, end: int) -> list[_Row]:
            texts = rows.texts("messages", start, end)
            queries = rows.texts("query", start, end) if has_query else [None] * (end - start)
            return [self._row(text, query) for text, query in zip(texts, queries, strict=True)]

        threads = usable_threads(self.threads, rows, "messages")
        found = spread(len(rows), work, threads)
        return rows.with_columns(["id"], _engine.ArrowColumns(list(self._columns(found))))

    def _row(self, text: str | bytes | None, query: str | bytes | None) -> _Row:
        try:
            conversation = JsonConversation.read(checked_text(text, "messages"))
            asked = self.query if query is None else checked_text(query, "query")
            kept = compact_context(conversation.messages, asked, **self.options)
            stats = kept.stats
            return _Row(
                kept=list(kept.indices),
                messages=conversation.written(kept.messages, kept.indices)
                if self.with_messages
                else None,
                before_tokens=stats.before_tokens,
                after_tokens=stats.after_tokens,
                target_tokens=stats.target_tokens,
                dropped=stats.dropped,
                excerpted=stats.excerpted,
                stripped=stats.stripped,
                outline=kept.outline.position if kept.outline else None,
                changed=stats.changed,
                over_budget=stats.over_budget,
                format=stats.format,
                degraded="; ".join(stats.degraded) or None,
            )
        except Exception as error:  # a row's error is its own
            return _Row(error=row_error(error))

    def _columns(self, rows: list[_Row]) -> Iterator[tuple[str, str, list[Any]]]:
        for position, (name, kind) in enumerate(_COLUMNS.items()):
            if name != "messages" or self.with_messages:
                yield name, kind, [row[position] for row in rows]


class _Row(NamedTuple):
    """The result of one row; the columns of a batch's result are its fields."""

    kept: list[int] | None = None
    messages: str | None = None
    before_tokens: int | None = None
    after_tokens: int | None = None
    target_tokens: int | None = None
    dropped: int | None = None
    excerpted: int | None = None
    stripped: int | None = None
    outline: int | None = None
    changed: bool | None = None
    over_budget: bool | None = None
    format: str | None = None
    degraded: str | None = None
    error: str | None = None


_KINDS = {
    "kept": "indices",
    "messages": "long_text",
    "changed": "truth",
    "over_budget": "truth",
    "format": "text",
    "degraded": "text",
    "error": "text",
}
_COLUMNS = {name: _KINDS.get(name, "whole") for name in _Row._fields}


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError for an option that no row could take."""
    check_names("compact_batch", options, CompactOptions)
    compact_context([], **options)


def check_columns(rows: _native.ArrowRows) -> None:
    """Raise InvalidArgumentError for a table without ids and conversations."""
    names = rows.names
    for name in ("id", "messages"):
        if name not in names:
            raise InvalidArgumentError(
                f"the batch has no column {name!r} (it has {', '.join(names) or 'none'}); pass "
                "columns id, messages and, if there are any, query"
            )
    for name in ("messages", "query") if "query" in names else ("messages",):
        rows.check(name)


def checked_text(text: str | bytes | None, column: str) -> str:
    """Return a row's text; raises InvalidArgumentError where there is none, or no UTF-8."""
    if isinstance(text, str):
        return text
    if text is None:
        raise InvalidArgumentError(f"{column} is null; pass a text")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{column} is no UTF-8 from byte {error.start} on; pass UTF-8"
        ) from None


def row_error(error: Exception) -> str:
    """Return what the column ``error`` says: of a foreign exception only its type."""
    return safe_error_text(error, "a row of a batch")
