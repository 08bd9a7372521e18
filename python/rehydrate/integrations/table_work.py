"""The work of engines on tables: a function of `rehydrate.batch` with its options, checked once.

Engines pickle it, send it to their workers and call it there with one table after the other. A
worker is one of many on its machine: it has one thread, and a small cache of analyses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from rehydrate.compact.options import CompactOptions, RetentionOptions
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.process import MIN_LIMIT_BYTES, cache_limit

if TYPE_CHECKING:
    from rehydrate._native import ArrowTable
    from rehydrate.formats import FormatName

CACHE_BYTES = 64 << 20
"""Transcripts repeat few texts of one another, so a larger cache would hardly be used."""


class WorkOptions(TypedDict, total=False):
    """The options of any work."""

    keep: Iterable[str]
    """Columns that come along unchanged after the result's own; the others do not."""
    threads: int
    """Threads of a worker."""
    cache_bytes: int
    """Maximum bytes of the analyses of texts that a worker keeps."""


class CompactWork(CompactOptions, WorkOptions, total=False):
    """The options of compactions."""

    messages: bool


class RetentionWork(RetentionOptions, WorkOptions, total=False):
    """The options of measures."""

    target_ratio: float
    min_needed: int


class EmbedWork(WorkOptions, total=False):
    """The options of vectors."""

    column: str


class CountTokensWork(WorkOptions, total=False):
    """The options of counts, besides the encoding."""

    of: Literal["messages", "text"]
    column: str | None
    format: FormatName | Literal["auto"]


DEFAULTS: dict[str, Any] = {"keep": (), "threads": 1, "cache_bytes": CACHE_BYTES}
"""The defaults of `WorkOptions`."""


class TableWork:
    """A function of `rehydrate.batch` that takes pyarrow tables and returns pyarrow tables.

    ``column`` is the column it reads besides ``id``. In a worker, which is where it comes out of a
    pickle, the process keeps at most ``cache_bytes`` of analyses of texts. Elsewhere the cache is
    the caller's.
    """

    is_in_worker = False

    def __init__(
        self, work: Callable[..., ArrowTable], column: str, options: Mapping[str, Any]
    ) -> None:
        """Check all options on a table without rows."""
        given = {**DEFAULTS, **options}
        self.column = column
        self.keep = _names(given.pop("keep"))
        cache_bytes = given.pop("cache_bytes")
        self._work = partial(work, **given)
        if type(cache_bytes) is not int or cache_bytes < MIN_LIMIT_BYTES:
            raise InvalidArgumentError(
                f"cache_bytes is {cache_bytes!r}; pass a whole number from {MIN_LIMIT_BYTES} "
                "(1 MiB) up"
            )
        self._cache_bytes = cache_bytes
        pa = pyarrow()
        empty = pa.table({"id": pa.array([], pa.string()), column: pa.array([], pa.string())})
        results = pa.table(self._work(empty)).column_names
        for name in self.keep:
            if name in results:
                raise InvalidArgumentError(
                    f"keep names {name!r}, which is a column of the result; rename the table's"
                )

    def __call__(self, table: Any) -> Any:
        """Return a pyarrow.Table with a row for each row of a table or record batch."""
        if self.is_in_worker and cache_limit() > self._cache_bytes:
            cache_limit(self._cache_bytes)
        found = pyarrow().table(self._work(table))
        for name in self.keep:
            if name not in table.schema.names:
                raise InvalidArgumentError(
                    f"keep names {name!r}, but the table has {', '.join(table.schema.names)}"
                )
            found = found.append_column(table.schema.field(name), table.column(name))
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come out of a pickle."""
        self.__dict__.update(state, is_in_worker=True)


def pyarrow() -> Any:
    """Return the package; raises MissingPackageError if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackageError("pyarrow", "holds the tables of Ray Data and Spark") from None
    return pyarrow


def _names(keep: Iterable[str]) -> tuple[str, ...]:
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"keep has {name!r}; pass names of columns")
    if len(set(names)) < len(names):
        raise InvalidArgumentError(f"keep names a column twice: {', '.join(names)}")
    return names
