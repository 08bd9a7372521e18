"""Records of a thread on disk: each kind's content, which count, lines of an export, redaction.

A thread is an append-only log. Its first record says what its entries are. Each entry is a record;
so is each change of what the next prompt extends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_methods, shown
from rehydrate._text import as_json, json_value
from rehydrate.errors import (
    InvalidArgumentError,
    InvalidMessageError,
    RehydrateError,
    UnreadableIRError,
)
from rehydrate.formats.langchain import stored_to_langchain
from rehydrate.prompt.serialize import ENTRIES

if TYPE_CHECKING:
    from rehydrate.memory.store import ThreadStore


VERSION = 1
"""The version of the records. A reader takes this one and older ones."""


Row = tuple[int, float, str]
"""A record as a store has it: kind, time, body."""


class Kind(IntEnum):
    """The kinds of records."""

    HEADER = 0
    """The format of the entries, and where a fork is from."""
    ENTRY = 1
    STATE = 2
    """The prompt that the next one extends, and the counts of job and thread."""
    WAITING = 3
    """Sections in answers to tool calls whose results no prompt has shown yet: all of them."""
    ORIGINAL = 4
    """A text by its handle that is not a text of an entry."""
    REMAINDER = 5
    """Sections that an answer had no room for, by their handle."""
    OPERATIONS = 7
    """Operations of the context store, and how many entries it has read then."""
    SUMMARY = 8
    """A summary that is ready and not swapped in yet."""
    UNDO = 6
    """The number of a record: it and all after it do not count, since nobody received them."""


class Record(NamedTuple):
    """One step of a thread."""

    kind: Kind
    time: float
    """Seconds since 1970."""
    content: dict[str, Any]

    @property
    def body(self) -> str:
        """Its content as JSON, in which bytes are base64."""
        return as_json(self.content, default=json_value)

    @property
    def row(self) -> Row:
        """Its columns in a store."""
        return int(self.kind), self.time, self.body


_REMEDY = "restore the store from a copy or an export"


@contextmanager
def reading() -> Iterator[None]:
    """Raise UnreadableIRError if records do not fit each other, or are not of our kinds.

    Their hashes say that they are as written, not by whom.
    """
    try:
        yield
    except RehydrateError:
        raise
    except (
        *(LookupError, TypeError, ValueError, AttributeError),
        *(ArithmeticError, RecursionError),
    ) as error:
        problem = f"says what no thread does ({type(error).__name__}: {error})"
        raise UnreadableIRError("the thread", problem, _REMEDY) from error


_PAGE = 4_096


def rows_of(store: ThreadStore, namespace: str, name: str) -> list[Row]:
    """Return all records of a thread as the store has them; [] if there is no such thread."""
    rows: list[Row] = []
    while True:
        page = store.records(namespace, name, start=len(rows), limit=_PAGE)
        rows += page
        if len(page) < _PAGE:
            return rows


@reading()
def as_records(rows: Iterable[Row]) -> list[Record]:
    """Read records from their columns; raises UnreadableIRError for any other content."""
    rows = list(rows)
    _native.counting_records(rows)
    return [Record(Kind(kind), time, json.loads(body)) for kind, time, body in rows]


@reading()
def numbered_entries(rows: Sequence[Row]) -> list[tuple[int, Any]]:
    """Return the entries that count, as they are written, each with the number of its record."""
    numbers = [n for n in _native.counting_records(rows) if rows[n][0] == Kind.ENTRY]
    return [(number, json.loads(rows[number][2])["entry"]) for number in numbers]


def header(format: str, **more: Any) -> Record:  # noqa: A002  the field's word
    """Return the first record of a thread."""
    return Record(Kind.HEADER, 0.0, {"version": VERSION, "format": format, **more})


# Times and entries in records


def check_clock(clock: object) -> None:
    """Refuse what cannot be called."""
    remedy = "pass a function that gives seconds since 1970, as time.time"
    check_methods("clock", clock, "__call__", remedy)


def checked_seconds(name: str, time: Any) -> float:
    """Return a datetime, or a clock's result, in seconds since 1970.

    Raises InvalidArgumentError for anything but a time of the years 1 to 9999.

    >>> checked_seconds("clock", float("nan"))
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: clock is nan; it must give seconds since 1970, within \
the years 1 to 9999 of UTC
    """
    try:
        if isinstance(time, datetime):
            seconds = time.timestamp()
        else:
            seconds = math.nan if isinstance(time, (bool, str, bytes)) else float(time)
        datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        what = "pass" if isinstance(time, datetime) else "it must give seconds since 1970,"
        raise InvalidArgumentError(
            f"{name} is {shown(time)}; {what} within the years 1 to 9999 of UTC"
        ) from None
    return seconds


def kept_entries(entries: Iterable[Any], format: str, start: int = 0) -> list[Any]:  # noqa: A002
    """Return entries as the thread has them when it is opened again: the same objects, where JSON
    holds them as they are.

    ``start`` is the index of the first. Raises UnreadableIRError for what JSON cannot hold (nan,
    objects, keys that are not strings, bytes of others than Converse), InvalidMessageError for a
    LangChain message of a class that LangChain cannot make again.
    """
    added = list(entries)
    where = ENTRIES if format == "bedrock" else "history"
    values = _native.kept_values(added, where, start)
    if format not in ("langchain", "bedrock"):
        return values
    again = entries_of(values, format)
    return [one if one == other else other for one, other in zip(added, again, strict=True)]


def entries_of(values: Sequence[Any], format: str) -> list[Any]:  # noqa: A002  the field's word
    """Return the entries that records hold; raises MissingPackageError for LangChain's without
    it."""
    if format == "langchain":
        return stored_to_langchain(values)
    return _native.own_entries(values, format)


# Lines of an export

_FORMAT = "rehydrate thread"


def from_lines(lines: Iterable[str]) -> tuple[str, list[Record]]:
    """Return the name and the records of a thread that `exported_lines` wrote; raises
    InvalidArgumentError, with the line's number, for anything else."""
    name, records = "", []
    number = 0
    for number, line in enumerate(lines, 1):
        try:
            read = json.loads(line)
            if number == 1:
                name = _name_of(read)
                continue
            kind = Kind[read.pop("kind").upper()]
            if (kind is Kind.HEADER) is not (number == 2):
                raise ValueError("the second line, and no other, is the thread's header")
            record = Record(kind, checked_seconds("time", read.pop("time")), read)
            kept_entries([read], "plain")
            _native.counting_records([record.row])
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise InvalidArgumentError(
                f"line {number} isn't a line of an exported thread "
                f"({type(error).__name__}: {error}); pass a file that an export wrote"
            ) from None
        records.append(record)
    if number < 2:
        raise InvalidArgumentError(
            f"the file ends after {number} lines, and a thread has at least 2; pass a file that an "
            "export wrote"
        )
    return name, records


def _name_of(read: dict[str, Any]) -> str:
    """Return the thread's name in an export's first line."""
    if read["format"] != _FORMAT:
        raise ValueError(f"it is of {shown(read['format'])}, and not of {_FORMAT!r}")
    version, name = read["version"], read["thread"]
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(f"its version is {shown(version)}, and this package reads up to {VERSION}")
    if not isinstance(name, str):
        raise ValueError(f"the thread's name is {shown(name)}, and not a text")
    return name


@reading()
def redacted_records(
    rows: Sequence[Row], texts: Sequence[str]
) -> tuple[list[tuple[int, str]], list[Row]]:
    """Return the bodies that change without these texts, each by its record's number; and records
    for the handles of entries' texts, which are made from the texts."""
    (first,) = as_records(rows[:1])
    texts_of = partial(_texts_of, format=first.content["format"])
    bodies, said = _native.redacted_records(rows, texts, texts_of)
    kept = [
        Record(Kind.ORIGINAL, time, {"handle": _native.handle_of_text(was), "text": now})
        for time, was, now in said
    ]
    return bodies, [record.row for record in kept]


def _texts_of(entry: str, format: str) -> list[str]:  # noqa: A002  the field's word
    try:
        messages = formats.parse(entries_of([json.loads(entry)], format), format).messages
    except InvalidMessageError:  # a host's own, kept as it came
        return []
    return [piece.text for message in messages for piece in message.pieces]
