"""compact_batch and its siblings: an answer for each row of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from rehydrate import _native
from rehydrate._check import check_choice, check_known, check_whole
from rehydrate._concurrency.workers import usable_cores
from rehydrate._native import JsonMessages, cell_text
from rehydrate._text import safe_error_text
from rehydrate.compact.api import compact_context
from rehydrate.compact.options import CompactOptions, RetentionOptions
from rehydrate.errors import InvalidArgumentError
from rehydrate.retention.measure import score_cut
from rehydrate.retention.sampling import MIN_NEEDED, read_session, sample_cases
from rehydrate.retention.strategies import compacted, exact_cost
from rehydrate.tokens import count_tokens

if TYPE_CHECKING:
    from typing import Unpack

    from rehydrate.formats import FormatName


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
    JSON of a list of messages) and, if rows have queries, ``query``; others are ignored. If a
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

    A row that isn't a conversation has an ``error``, and null in all other columns but ``id``. If
    `excerpted`, `stripped` or `outline` say so, kept messages are not all as they were: take them
    from the column ``messages``.

    Rows are spread over ``threads``: None means a thread for each core, at most 4, and only one if
    conversations are short. One process cannot use many more cores (docs/batches.md); if many
    workers share a machine, pass 1. A ``counter`` or ``embedder`` of your own is called from these
    threads.

    Raises InvalidArgumentError for a table without these columns and for an option outside of its
    limits.

    >>> import pyarrow
    >>> table = pyarrow.table({"id": ["a"], "messages": ['[{"role": "user", "content": "hi"}]']})
    >>> pyarrow.table(compact_batch(table))["kept"].to_pylist()
    [[0]]
    """
    compacted = _compactor(options, messages, threads)
    return _native.ArrowTable(list(map(compacted, _native.ArrowReader(batch))))


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
    made = map(_compactor(options, messages, threads), _native.ArrowReader(batch))
    return _native.ArrowStream(next(made), made)


def _compactor(
    options: Mapping[str, Any], with_messages: bool, threads: int | None
) -> Callable[[_native.ArrowRows], _native.ArrowRows]:
    """Return what compacts rows. The options are checked once, so that a mistake in them is not one
    of every row."""
    names = sorted(CompactOptions.__annotations__)
    check_known("compact_batch has no option", options, names, "choose from")
    compact_context([], **options)
    check_threads(threads)
    others = {name: value for name, value in options.items() if name != "query"}
    columns = {k: kind for k, kind in _KEPT_COLUMNS.items() if k != "messages" or with_messages}

    def answer(text: str | bytes | None, query: str | bytes | None = None) -> dict[str, Any]:
        conversation = JsonMessages(cell_text(text, "messages"))
        asked = options.get("query") if query is None else cell_text(query, "query")
        kept = compact_context(conversation.messages, asked, **others)
        stats = kept.stats
        found: dict[str, Any] = {
            name: getattr(stats, name) for name in _KEPT_COLUMNS if hasattr(stats, name)
        }
        if with_messages:
            found["messages"] = conversation.written(kept.messages, kept.indices)
        return found | {
            "kept": list(kept.indices),
            "outline": kept.outline.position if kept.outline else None,
            "degraded": "; ".join(stats.degraded) or None,
        }

    def compacted(rows: _native.ArrowRows) -> _native.ArrowRows:
        check_columns(rows)
        read = ["messages", "query"] if "query" in rows.names else ["messages"]
        return answered(rows, read, answer, columns, threads)

    return compacted


_KEPT_COLUMNS = {
    "kept": "indices",
    "messages": "long_text",
    **dict.fromkeys(("before_tokens", "after_tokens", "target_tokens"), "whole"),
    **dict.fromkeys(("dropped", "excerpted", "stripped", "outline"), "whole"),
    **dict.fromkeys(("changed", "over_budget"), "truth"),
    **dict.fromkeys(("format", "degraded", "error"), "text"),
}
"""The columns of a result and their kinds."""


def answered(
    rows: _native.ArrowRows,
    read: Sequence[str],
    answer: Callable[..., dict[str, Any]],
    columns: Mapping[str, str],
    threads: int | None,
) -> _native.ArrowRows:
    """Return the ids, and of each row the columns (name and kind) that `answer` has for its texts.

    `read` names the columns of the texts. What `answer` raises is the row's own error.
    """

    def of_row(*texts: str | bytes | None) -> dict[str, Any]:
        try:
            return answer(*texts)
        except Exception as error:
            return {"error": row_error(error)}

    def work(start: int, end: int) -> list[dict[str, Any]]:
        texts = [rows.texts(name, start, end) for name in read]
        return [of_row(*row) for row in zip(*texts, strict=True)]

    found = _spread(len(rows), work, _usable_threads(threads, rows, read[0]))
    made = [(name, kind, [row.get(name) for row in found]) for name, kind in columns.items()]
    return rows.with_columns(["id"], _native.ArrowColumns(made))


_MAX_THREADS = 4
"""More threads than these only wait for the interpreter's lock."""
_TAKEN_ROWS = 8
_SAMPLED_ROWS = 64
_SHORT_CHARS = 8_000
"""Rows whose mean is shorter are done sooner by one thread (benches/python/batch/threads.py)."""


def _usable_threads(threads: int | None, rows: _native.ArrowRows, column: str) -> int:
    """Return the number of threads; None means as many as help: one per core, at most 4, and only
    one for short texts."""
    if threads is not None:
        return threads
    sample = [len(text) for text in rows.texts(column, 0, _SAMPLED_ROWS) if text is not None]
    if sum(sample) < len(sample) * _SHORT_CHARS:
        return 1
    return min(usable_cores(), _MAX_THREADS)


def _spread(
    rows: int, work: Callable[[int, int], list[dict[str, Any]]], threads: int
) -> list[dict[str, Any]]:
    """Return what `work(start, end)` returns for all rows, in order.

    The first exception ends it, and is raised.
    """

    def part(start: int) -> list[dict[str, Any]]:
        was_alone = _native.set_alone(True)
        try:
            return work(start, min(start + _TAKEN_ROWS, rows))
        finally:
            _native.set_alone(was_alone)

    starts = range(0, rows, _TAKEN_ROWS)
    if min(threads, len(starts)) <= 1:
        return list(chain.from_iterable(map(part, starts)))
    with ThreadPoolExecutor(min(threads, len(starts)), "rehydrate-batch") as pool:
        return list(chain.from_iterable(pool.map(part, starts)))


def check_threads(threads: int | None) -> None:
    """Raise InvalidArgumentError for anything but a number of threads, or None."""
    check_whole("threads", threads, 1, 256, or_none=True)


def check_columns(rows: _native.ArrowRows, column: str = "messages") -> None:
    """Raise InvalidArgumentError for a table without ids and texts, or conversations."""
    names = rows.names
    for name in ("id", column):
        if name not in names:
            wanted = "id, messages and, if there are any, query"
            raise InvalidArgumentError(
                f"the batch has no column {name!r} (it has {', '.join(names) or 'none'}); pass "
                f"columns {wanted if column == 'messages' else f'id and {column}'}"
            )
    for name in (column, "query") if "query" in names and column == "messages" else (column,):
        rows.check(name)


def row_error(error: Exception) -> str:
    """Return what the column ``error`` says: of a foreign exception only its type."""
    return safe_error_text(error, "a row of a batch")


def count_tokens_batch(
    batch: object,
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
    *,
    of: Literal["messages", "text"] = "messages",
    column: str | None = None,
    format: FormatName | Literal["auto"] = "auto",  # noqa: A002  the field's word
    threads: int | None = None,
) -> _native.ArrowTable:
    """Return the tokens of each row: columns ``id``, ``tokens`` and ``error``.

    ``of`` says what ``column`` holds: ``"messages"`` the JSON of lists of messages, ``"text"``
    texts, which are counted without the interpreter's lock. The default ``column`` has the name of
    ``of``. Each count is `count_tokens`'s. The table and ``threads`` are as in `compact_batch`; for
    texts, more than two threads are as two.
    """
    check_choice("of", of, ("messages", "text"))
    column = of if column is None else column
    check_threads(threads)
    count_tokens([], encoding, format=format)  # a mistake in these is not one of every row

    def answer(text: str | bytes | None) -> dict[str, Any]:
        read = JsonMessages(cell_text(text, column))
        return {"tokens": count_tokens(read.messages, encoding, format=format)}

    def counted(rows: _native.ArrowRows) -> _native.ArrowRows:
        if of == "text":
            return rows.with_columns(["id"], rows.counts(column, encoding))
        return answered(rows, [column], answer, {"tokens": "whole", "error": "text"}, threads)

    return _without_lock(batch, column, threads, counted)


def embed_batch(
    batch: object, *, column: str = "text", threads: int | None = None
) -> _native.ArrowTable:
    """Return the built-in model's vector of each text: columns ``id``, ``vector`` and ``error``.

    A vector is a list of 256 float32 of length 1, or of zeros for a text without known words. All
    are computed without the interpreter's lock, by two threads at most. The table and ``threads``
    are as in `compact_batch`.
    """
    check_threads(threads)
    return _without_lock(
        batch, column, threads, lambda rows: rows.with_columns(["id"], rows.vectors(column))
    )


def _without_lock(
    batch: object,
    column: str,
    threads: int | None,
    work: Callable[[_native.ArrowRows], _native.ArrowRows],
) -> _native.ArrowTable:
    """Return the result of `work` for each batch; the engine may use a helper thread, or not."""
    was_alone = _native.set_alone(threads == 1)
    made = []
    try:
        for rows in _native.ArrowReader(batch):
            check_columns(rows, column)
            made.append(work(rows))
        return _native.ArrowTable(made)
    finally:
        _native.set_alone(was_alone)


def retention_batch(
    batch: object,
    *,
    target_ratio: float = 0.4,
    min_needed: int = MIN_NEEDED,
    threads: int | None = None,
    **options: Unpack[RetentionOptions],
) -> _native.ArrowTable:
    """Return for each conversation of a table what `rehydrate.retention` measures on it.

    A session is cut as `evaluate` cuts it: a long one at five points, a short one at one. What came
    before a cut is compacted to ``target_ratio``. Left out are cuts after which fewer than
    ``min_needed`` earlier names are used. The table and ``threads`` are as in `compact_batch`;
    queries are not used. The options are those of `compact_context`, but ``thinking`` is ``"keep"``
    unless another is passed: no request is made of what is left.

    | column | |
    |---|---|
    | id | as it came |
    | cuts | the number of cuts that were measured, int64; 0 for a conversation without any |
    | needed | the names used later, over all cuts, int64 |
    | used_later | the mean share of them that was kept |
    | lines | the mean share of the lines typed again later that was kept verbatim |
    | laid_down | the mean share of the user's binding instructions that was kept |
    | last_turn | the share of cuts at which the last user turn was kept |
    | cost_ratio | the mean share of the tokens that was kept |
    | violations | provider's rules that outputs break and inputs did not, int64 |
    | format | the format that was read |
    | error | why there is no result; null if there is one |

    Shares are double, and null if there was nothing to measure.

    Raises InvalidArgumentError for a table without the columns ``id`` and ``messages``, and for an
    option outside of its limits.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> table = pyarrow.table({"id": ["a"], "messages": [json.dumps(turns)]})
    >>> found = pyarrow.table(retention_batch(table, target_ratio=0.5)).to_pylist()[0]
    >>> found["cuts"], found["needed"], found["used_later"]
    (1, 5, 1.0)
    """
    names = sorted(RetentionOptions.__annotations__)
    check_known("retention_batch has no option", options, names, "choose from")
    check_threads(threads)
    check_whole("min_needed", min_needed, 1, 1_000_000)
    compact_context([], target_ratio=target_ratio, **options)
    compact = compacted(**{"thinking": "keep", **options})

    def answer(text: str | bytes | None) -> dict[str, Any]:
        read = JsonMessages(cell_text(text, "messages"))
        session = read_session(read.messages)
        cuts = sample_cases([session], min_needed=min_needed).cuts
        cost = exact_cost()
        scores = [score_cut(cut, compact, target_ratio, cost) for cut in cuts]
        return {
            "cuts": len(cuts),
            "needed": sum(len(cut.needed) for cut in cuts),
            "used_later": _mean([score.retained for score in scores]),
            **{name: _mean([getattr(score, name) for score in scores]) for name in _SHARES[1:]},
            "violations": sum(score.violations for score in scores),
            "format": session.format,
        }

    def measured(rows: _native.ArrowRows) -> _native.ArrowRows:
        check_columns(rows)
        return answered(rows, ["messages"], answer, _MEASURED_COLUMNS, threads)

    return _native.ArrowTable(list(map(measured, _native.ArrowReader(batch))))


def _mean(values: list[float | None] | list[float]) -> float | None:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None


_SHARES = ("used_later", "lines", "laid_down", "last_turn", "cost_ratio")
_MEASURED_COLUMNS = {
    **dict.fromkeys(("cuts", "needed"), "whole"),
    **dict.fromkeys(_SHARES, "share"),
    "violations": "whole",
    **dict.fromkeys(("format", "error"), "text"),
}
