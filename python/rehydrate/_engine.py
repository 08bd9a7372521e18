"""Conversations in, selections out: what the native engine needs of Python, and its defaults.

The rest is the engine's own: `_native.pyi` says what it does.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rehydrate import _native
from rehydrate._text import error_text
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation, Message

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]


CounterName = Literal["words", "chars", "o200k_base", "cl100k_base"]

COUNTERS: tuple[CounterName, ...] = ("words", "chars", "o200k_base", "cl100k_base")
"""Token counters inside the build."""

MEDIA_TOKENS = 1_600
"""Tokens counted for an image or a document: what Anthropic bills for its largest unscaled image,
an upper bound for OpenAI's too. Their base64 payload is never counted as text."""

CACHE_BYTES = 320 << 20
"""Default bytes of a process's cache; `limit_cache` changes it. A fifth is for vectors."""

CustomCounter = Callable[[str], int]

atexit.register(_native.before_exit)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork,
        after_in_child=_native.after_fork,
    )


# It has as many tokens as nearly every handle, or more. If handles cost more than this one,
# `Excerpts.fit` gives back blocks after the choice, and better choices are lost.
_SAMPLE_HANDLE = "mem_r2c6z4477yjh6q3n8hv7x5m7j8"


def prepare(
    conversation: Conversation,
    *,
    counter: str | CustomCounter,
    weight_of: Callable[[str], float] = lambda _role: 1.0,
    pinned: Sequence[bool] = (),
    embed: bool = False,
    calibrated: bool = False,
    coverage: bool = False,
    asked: bool = False,
    recalled: bool = False,
    divisible: _native.DivisibleTexts | None = None,
    with_handles: bool = False,
) -> _native.Prepared:
    """Count and analyse a conversation; texts seen before come from the cache.

    `weight_of` is the weight of a role, `pinned` are the units that are always kept; () for none.
    `asked` says that messages will be compared with a query, `recalled` with memories. Without
    either, only the newest text is embedded, and only the names of a query are searched. With
    `divisible` its texts are divided into blocks, which may be kept one by one; a mark in a gap
    costs more with handles.
    """
    excerpting: dict[str, Any] = {}
    if divisible is not None:
        excerpting["divisible"] = divisible.flags()
        marks = divisible.marks(_SAMPLE_HANDLE if with_handles else "")
        excerpting["mark_counts"] = tuple([count_raw(mark, counter) for mark in marks])
        if not isinstance(counter, str):
            blocks = divisible.blocks()
            excerpting["block_counts"] = [_custom_count(counter, block) for block in blocks]
    return _native.Prepared(
        conversation=conversation,
        structural=[weight_of(role) for role in conversation.roles],
        media_tokens=MEDIA_TOKENS,
        pinned=pinned or [False] * conversation.unit_count,
        counter=counter if isinstance(counter, str) else "chars",
        counts=None
        if isinstance(counter, str)
        else [_custom_count(counter, text) for text in conversation.texts()],
        embed=embed,
        bags=asked,
        vectors=recalled or (asked and not calibrated),
        terms=asked and calibrated,
        mentions=coverage,
        **excerpting,
    )


def message_tokens(
    messages: Conversation | Sequence[Message], counter: str | CustomCounter
) -> list[int]:
    """Return the tokens of each message, media included."""
    if not isinstance(messages, Conversation):
        messages = Conversation("", tuple(messages))
    return prepare(messages, counter=counter).message_tokens


def message_vectors(prepared: _native.Prepared) -> Vectors:
    """Return the built-in model's vectors, shape (messages, 256), float32.

    Rows have length 1, or 0 for a text without known words.
    """
    import numpy as np

    dim = prepared.dim or 0
    return np.frombuffer(prepared.vectors(), dtype=np.float32).reshape(-1, dim)


def embed(texts: Sequence[str]) -> Vectors:
    """Return the built-in model's vectors of texts, shape (texts, 256), float32."""
    import numpy as np

    rows, dim = _native.embed(list(texts))
    return np.frombuffer(rows, dtype=np.float32).reshape(-1, dim)


def count(text: str, counter: str | CustomCounter) -> int:
    """Return the tokens of one text."""
    return (
        _native.count(text, counter) if isinstance(counter, str) else _custom_count(counter, text)
    )


def count_raw(text: str, counter: str | CustomCounter) -> int:
    """Return the raw count of a text: words, characters, or tokens, before it becomes tokens."""
    if counter == "words":
        return len(text.split())
    return len(text) if counter == "chars" else count(text, counter)


def check_counter(counter: object) -> str | CustomCounter:
    """Return a counter's name or a callable of the caller's.

    Raises InvalidArgumentError for anything else.
    """
    if callable(counter) or (isinstance(counter, str) and counter in COUNTERS):
        return counter
    names = ", ".join(map(repr, COUNTERS))
    raise InvalidArgumentError(
        f"counter is {counter!r}; choose one of {names}, or pass a callable of str -> int"
    )


def counter_name(counter: str | CustomCounter) -> str:
    """Return the name of a counter for reports."""
    return (
        counter
        if isinstance(counter, str)
        else getattr(counter, "__name__", type(counter).__name__)
    )


def _custom_count(counter: CustomCounter, text: str) -> int:
    try:
        tokens: Any = counter(text)
    except Exception as error:
        raise InvalidArgumentError(
            f"counter {counter_name(counter)} raised {error_text(error)} "
            f"for {len(text)} characters; it must return a whole number for any text"
        ) from error
    try:
        exact = int(tokens)
        is_whole = bool(exact == tokens)
    except (TypeError, ValueError, OverflowError):  # not one number, NaN, infinite
        exact, is_whole = -1, False
    if not (is_whole and 0 <= exact < 2**32):
        raise InvalidArgumentError(
            f"counter {counter_name(counter)} returned {tokens!r} for {len(text)} characters; "
            "it must return a whole number from 0 up"
        )
    return exact
