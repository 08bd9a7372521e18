"""Splitting a stream of bytes into JSON values, in any layout and with reads that end anywhere.

Values may be pretty-printed, concatenated, a line each or several a line, with or without
`Content-Length` headers. Input that is not JSON is reported once and skipped, and whole requests
inside it are found again. The engine finds where values begin and end; values and what is wrong
with them are those of `json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from rehydrate import _native

MAX_VALUE_BYTES = 256 * 2**20
"""The largest single value that is read; a session of a hundred million characters fits."""


class Parsed(NamedTuple):
    """One JSON value."""

    value: Any


class Malformed(NamedTuple):
    """Input between values that is not JSON; `reason` says what is wrong."""

    reason: str


Piece = Parsed | Malformed


class Splitter:
    """Takes bytes in pieces of any size; returns values as soon as they are complete.

    >>> splitter = Splitter()
    >>> splitter.feed(b'{"a": '), splitter.feed(b'[1]} {"b"')
    ([], [Parsed(value={'a': [1]})])
    >>> splitter.close()
    [Malformed(reason='it ends before its brackets do')]
    """

    def __init__(self, max_bytes: int = MAX_VALUE_BYTES) -> None:
        """Take the size from which on a value is refused."""
        self._stream = _native.JsonStream(max_bytes)

    @property
    def has_headers(self) -> bool:
        """Whether the sender puts `Content-Length` headers before its values."""
        return self._stream.has_headers

    def feed(self, data: bytes) -> list[Piece]:
        """Return the values that these bytes complete."""
        self._stream.feed(data)
        return list(self._pieces(ended=False))

    def close(self) -> list[Piece]:
        """Return what is left at the end of the stream."""
        return list(self._pieces(ended=True))

    def _pieces(self, *, ended: bool) -> Iterator[Piece]:
        while (found := self._stream.next(ended)) is not None:
            kind, data = found
            piece = Malformed(data) if isinstance(data, str) else _parse(data)
            is_json = isinstance(piece, Parsed)
            if kind == "word" and not is_json:
                self._stream.skip_line()
            if is_json or kind != "line":  # of a broken value, only whole requests are told
                yield piece


def _parse(data: bytes) -> Piece:
    try:
        return Parsed(_decode(data.decode()))
    except UnicodeDecodeError as error:
        return Malformed(f"it is not UTF-8: 0x{data[error.start]:02x} at byte {error.start} of it")
    except json.JSONDecodeError as error:
        return Malformed(f"{error.msg.removesuffix(' at')} at character {error.pos} of it")
    except RecursionError:
        return Malformed("it is nested too deeply; send it in fewer than a thousand levels")
    except ValueError as error:
        return Malformed(str(error))


def _number(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is too large; JSON readers take up to 1.8e308")
    return number


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise ValueError(
            f"a number has {len(digits)} digits, more than Python reads; send it as a string"
        ) from None


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON; send null, or a number")


_decode = json.JSONDecoder(parse_float=_number, parse_int=_integer, parse_constant=_constant).decode
