"""count_tokens and estimate_tokens: the tokens of a text or a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rehydrate import _native, formats
from rehydrate._check import check_list
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats._reading import compact_json


def count_tokens(
    content: str | Sequence[Any],
    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base",
    *,
    tools: Iterable[Mapping[str, Any]] = (),
    format: str = "auto",  # noqa: A002  the field's word
) -> int:
    """Return the tokens of a text or of messages, exact for the encoding; offline.

    In messages, everything that a model reads is counted: texts, tool inputs and results, pictures
    and documents. The size of these is read from the header of their bytes and counted as the
    provider's current models bill it (docs/formats.md); where it is unknown, each counts 1,600.
    ``tools`` are tool definitions, counted as compact JSON. A
    provider's framing of messages (a few tokens each) is not part of any encoding and not counted.

    >>> count_tokens("Hello, world!")
    4
    >>> count_tokens([{"role": "user", "content": "Hello, world!"}])
    4
    """
    if encoding not in ("o200k_base", "cl100k_base"):
        raise InvalidArgumentError(
            f"encoding is {encoding!r}; choose 'o200k_base' or 'cl100k_base', "
            "or estimate_tokens for 'words' and 'chars'"
        )
    return _tokens(content, encoding, tools, format)


def estimate_tokens(
    content: str | Sequence[Any],
    by: Literal["chars", "words"] = "chars",
    *,
    tools: Iterable[Mapping[str, Any]] = (),
    format: str = "auto",  # noqa: A002  the field's word
) -> int:
    """Estimate the tokens of a text or of messages by a rule of thumb.

    ``chars``: one in 3.5 characters, rounded up. ``words``: 1.3 a word, rounded up, a message at a
    time. ``count_tokens`` is exact and takes microseconds more.

    >>> estimate_tokens("Hello, world!"), estimate_tokens("Hello, world!", "words")
    (4, 3)
    """
    if by not in ("chars", "words"):
        raise InvalidArgumentError(
            f"by is {by!r}; choose 'chars' or 'words', or count_tokens for an exact encoding"
        )
    return _tokens(content, by, tools, format)


def _tokens(content: Any, counter: str, tools: Iterable[Mapping[str, Any]], format: str) -> int:  # noqa: A002
    check_list("tools", tools, "pass a list of tool definitions")
    schemas = sum(_native.count(compact_json(tool), counter) for tool in tools)
    if isinstance(content, str):
        return schemas + _native.count(content, counter)
    return schemas + sum(_native.message_tokens(formats.parse(content, format), counter))
