"""count_tokens_batch and embed_batch: a count, or a vector, for each row of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from rehydrate import _engine
from rehydrate._check import check_choice
from rehydrate.batch.compaction import checked_text, row_error
from rehydrate.batch.json_lines import JsonConversation
from rehydrate.batch.spreading import check_threads, spread, usable_threads
from rehydrate.errors import InvalidArgumentError
from rehydrate.tokens import count_tokens

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.formats import FormatName


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
    texts, which are counted without the interpreter's lock. Without a ``column`` it is the one of
    that name. Each count is `count_tokens`'s. The table and ``threads`` are as in `compact_batch`;
    for texts, more than two threads are as two.
    """
    check_choice("of", of, ("messages", "text"))
    column = of if column is None else column
    check_threads(threads)
    count_tokens([], encoding, format=format)  # a mistake in these is not one of every row

    def counted(rows: _native.ArrowRows) -> _native.ArrowColumns:
        if of == "text":
            return rows.counts(column, encoding)

        def work(start: int, end: int) -> list[tuple[int | None, str | None]]:
            return [row(text) for text in rows.texts(column, start, end)]

        def row(text: str | bytes | None) -> tuple[int | None, str | None]:
            try:
                read = JsonConversation.read(checked_text(text, column))
                return count_tokens(read.messages, encoding, format=format), None
            except Exception as error:  # a row's error is its own
                return None, row_error(error)

        found = spread(len(rows), work, usable_threads(threads, rows, column))
        return _engine.ArrowColumns(
            [
                ("tokens", "whole", [tokens for tokens, _ in found]),
                ("error", "text", [error for _, error in found]),
            ]
        )

    with _threads(threads):
        return _engine.ArrowTable(
            [
                rows.with_columns(["id"], counted(rows))
                for rows in _with_columns(batch, "id", column)
            ]
        )


def embed_batch(
    batch: object, *, column: str = "text", threads: int | None = None
) -> _native.ArrowTable:
    """Return the built-in model's vector of each text: columns ``id``, ``vector`` and ``error``.

    A vector is a list of 256 float32 of length 1, or of zeros for a text without known words. All
    is computed without the interpreter's lock, by two threads at most. The table and ``threads``
    are as in `compact_batch`.
    """
    check_threads(threads)
    with _threads(threads):
        return _engine.ArrowTable(
            [
                rows.with_columns(["id"], rows.vectors(column))
                for rows in _with_columns(batch, "id", column)
            ]
        )


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    """Have the engine help itself to a second thread, or not."""
    was_alone = _engine.set_alone(threads == 1)
    try:
        yield
    finally:
        _engine.set_alone(was_alone)


def _with_columns(batch: object, *names: str) -> Iterator[_native.ArrowRows]:
    for rows in _engine.ArrowReader(batch):
        missing = [name for name in names if name not in rows.names]
        if missing:
            raise InvalidArgumentError(
                f"the batch has no column {missing[0]!r} (it has "
                f"{', '.join(rows.names) or 'none'}); pass columns {' and '.join(names)}"
            )
        for name in names[1:]:
            rows.check(name)
        yield rows
