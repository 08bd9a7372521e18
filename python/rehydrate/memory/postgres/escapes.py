"""Strings as PostgreSQL takes them: it refuses NUL and lone surrogates, and a memory keeps both.

Both are written as an escape that begins with U+001A, and a U+001A of the text is written twice.
Any other text stays as it is, so that people can read the table.
"""

from __future__ import annotations

import re

_ESCAPE = "\x1a"
_WRITTEN = re.compile("[\0\x1a\ud800-\udfff]")
_READ = re.compile("\x1a(\x1a|[0-9a-f]{4})")


def encoded(text: str) -> str:
    r"""Return the text as it is written to the server.

    >>> encoded("a\0b")
    'a\x1a0000b'
    """
    if _WRITTEN.search(text) is None:
        return text
    return _WRITTEN.sub(
        lambda found: _ESCAPE * 2 if found[0] == _ESCAPE else f"{_ESCAPE}{ord(found[0]):04x}", text
    )


def decoded(text: str) -> str:
    r"""Return the text that was written.

    >>> decoded(encoded("a\0\x1a \ud800")) == "a\0\x1a \ud800"
    True
    """
    if _ESCAPE not in text:
        return text
    return _READ.sub(lambda found: _ESCAPE if found[1] == _ESCAPE else chr(int(found[1], 16)), text)
