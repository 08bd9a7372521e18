"""Splitting a stream of bytes into JSON values, in any layout and with reads that end anywhere.

Values may be pretty-printed, concatenated, a line each or several a line, with or without
`Content-Length` headers. A value ends where its own brackets do, so nothing else is needed to find
the next one. Only the value being read is held in memory.

Input that is not JSON is reported once and skipped. A truncated request is detected early, by a
bracket that cannot be there or a line end inside a string. Reading goes on at the next line that
begins a value and is indented no deeper than the broken one. Whole requests inside the broken one
are found again, line by line. Every byte is read at most a fixed number of times.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, NoReturn

MAX_VALUE_BYTES = 256 * 2**20
"""The largest single value that is read; a session of a hundred million characters fits."""

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_HEADERS = (b"content-length:", b"content-type:")

# Possessive (++, *+): a match is never tried again.
_blanks = re.compile(rb"[ \t\r\n]*+")
_word = re.compile(rb'[^ \t\r\n{\["]++')
_run = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+")*+')
"""Everything up to the next bracket, or to a string that does not end within the buffer."""
_string = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\[^\x00-\x1f])*+')
_line_of_a_value = re.compile(rb"\n([ \t\r]*+)[{\[]")

_CUT_OFF = "a string is cut off or holds a control character"
_QUOTE = ord('"')
_CLOSES = {ord("}"): ord("{"), ord("]"): ord("[")}
_BEFORE_AN_OPENING = {ord("{"): b":", ord("["): b"[,"}


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
        self.has_headers = False
        """Whether the sender puts `Content-Length` headers before its values."""
        self._max = max_bytes
        self._buffer = bytearray()
        self._at = 0
        self._open = bytearray()
        """The brackets that are open; empty between values."""
        self._in_string = False
        self._last = 0
        """The last byte that was not blank: tells whether a value can begin here."""
        self._indent = 0
        """Indentation of the line on which the present value began."""
        self._line_start = True
        """Whether the buffer begins where a line does."""
        self._skipping = False

    def feed(self, data: bytes) -> list[Piece]:
        """Return the values that these bytes complete."""
        self._buffer += data
        return list(self._advance(ended=False))

    def close(self) -> list[Piece]:
        """Return what is left at the end of the stream."""
        rest = list(self._advance(ended=True))
        if self._open or self._in_string:
            rest.append(Malformed("it ends before its brackets do"))
            rest += self._swallowed(len(self._buffer))
        self._buffer.clear()
        return rest

    def _advance(self, *, ended: bool) -> Iterator[Piece]:
        while True:
            if self._skipping:
                progress = self._skip()
            elif self._open or self._in_string:
                progress = yield from self._inside()
            else:
                progress = yield from self._between(ended=ended)
            if not progress:
                return

    def _skip(self) -> bool:
        """Skip the rest of a broken value; the buffer begins somewhere inside it."""
        buffer = self._buffer
        position = 0
        while found := _line_of_a_value.search(buffer, position):
            if len(found[1]) <= self._indent:
                del buffer[: found.start() + 1]
                self._skipping, self._line_start, self._at = False, True, 0
                return True
            position = found.end()
        line = buffer.rfind(b"\n")
        # A line that is blank so far may still turn out to begin a value.
        if line < 0 or _end(_blanks, buffer, line) < len(buffer) or len(buffer) - line > self._max:
            line = len(buffer)
        del buffer[:line]
        return False

    def _between(self, *, ended: bool) -> Generator[Piece, None, bool]:
        """Read blanks, headers and single words, up to the bracket or quote that begins a value."""
        buffer = self._buffer
        start = _end(_blanks, buffer)
        line = buffer.rfind(b"\n", 0, start)
        if line >= 0 or self._line_start:
            self._indent = start - line - 1
        if start == len(buffer):
            if line >= 0:  # only the indentation of the next line is kept
                del buffer[: line + 1]
                self._line_start = True
            elif start > self._max:
                del buffer[:]
            return False
        if buffer.startswith(_BOM, start):
            del buffer[start : start + len(_BOM)]
            return True
        self._line_start = False
        first = buffer[start]
        if first in b'{["':
            del buffer[:start]
            self._at, self._last = 1, first
            if first == _QUOTE:
                self._in_string = True
            else:
                self._open.append(first)
            return True
        return (yield from self._read_word(start, ended=ended))

    def _read_word(self, start: int, *, ended: bool) -> Generator[Piece, None, bool]:
        """Read a number, a literal, the name of a header, or rubbish."""
        buffer = self._buffer
        end = _end(_word, buffer, start, start + self._max + 1)
        is_too_large = end - start > self._max
        if end == len(buffer) and not (ended or is_too_large):
            return False
        word = bytes(buffer[start:end])
        if word.lower().startswith(_HEADERS):
            line = buffer.find(b"\n", end)
            if line < 0:
                del buffer[end:]  # the header's value is not needed
                return False
            self.has_headers = self._line_start = True
            del buffer[: line + 1]
            return True
        parsed = Malformed(self._too_large()) if is_too_large else _parse(word)
        yield parsed
        self._skipping = isinstance(parsed, Malformed)
        if self._skipping:
            # No value has begun, so that its indentation says nothing: any next line will do.
            self._indent = self._max
        del buffer[:end]
        return True

    def _inside(self) -> Generator[Piece, None, bool]:
        """Read from bracket to bracket, until the value is complete or broken."""
        buffer, brackets = self._buffer, self._open
        limit = min(len(buffer), self._max)
        at, last = self._at, self._last
        while at < limit:
            if self._in_string:
                at = _end(_string, buffer, at, limit)
                if at == limit or (at == limit - 1 and buffer[at] == ord("\\")):
                    break
                problem = None if buffer[at] == _QUOTE else _CUT_OFF
                self._in_string = False
            else:
                start, at = at, _end(_run, buffer, at, limit)
                if significant := buffer[start:at].rstrip(_BLANK):
                    last = significant[-1]
                if at == limit:
                    break
                problem = self._meet(buffer[at], last)
            if problem:
                yield from self._fail(problem, at)
                return True
            last = buffer[at]
            at += 1
            if not (brackets or self._in_string):
                data = bytes(buffer[:at])
                del buffer[:at]
                yield _parse(data)
                return True
        self._at, self._last = at, last
        if len(buffer) > self._max:
            yield from self._fail(self._too_large(), self._max)
            return True
        return False

    def _meet(self, byte: int, last: int) -> str | None:
        """Apply this bracket or quote; return why it cannot be here, if so."""
        if byte == _QUOTE:
            self._in_string = True
        elif byte in _CLOSES:
            if self._open.pop() != _CLOSES[byte]:
                return f"a {chr(byte)} closes another bracket"
        elif last in _BEFORE_AN_OPENING[self._open[-1]]:
            self._open.append(byte)
        else:
            return f"a {chr(byte)} stands where no value can begin"
        return None

    def _too_large(self) -> str:
        return f"it has more than {self._max} bytes; send a smaller one"

    def _fail(self, reason: str, position: int) -> Iterator[Piece]:
        """Report a broken value, and find the requests in it up to the byte of the error."""
        yield Malformed(f"{reason}, at byte {position} of it")
        line = self._buffer.rfind(b"\n", 0, position + 1)
        resume = line if line >= 0 else position
        yield from self._swallowed(resume)
        del self._buffer[:resume]
        self._open.clear()
        self._in_string, self._skipping = False, True

    def _swallowed(self, end: int) -> Iterator[Parsed]:
        """Yield requests that are whole lines inside a broken value."""
        for line in bytes(self._buffer[:end]).splitlines()[1:]:
            if b'"jsonrpc"' in line:
                found = _parse(line.strip(_BLANK))
                if isinstance(found, Parsed):
                    yield found


def _end(
    pattern: re.Pattern[bytes], buffer: bytearray, start: int = 0, end: int = sys.maxsize
) -> int:
    """Return the end of a pattern's match from `start`; the patterns match anywhere."""
    found = pattern.match(buffer, start, end)
    return found.end() if found else start


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
