"""The only importer of the native module: conversations as columns in, selections out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _native
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation, Message, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

COUNTERS = ("words", "chars", "o200k_base", "cl100k_base")
"""Token counters inside the build."""

MEDIA_TOKENS = 1_600
"""Tokens an image or a document counts for: what Anthropic bills for its largest unscaled image, an
upper bound for OpenAI's too. Their base64 payload is never counted as text."""

_ROLE_CODES = {"system": 0, "user": 1, "assistant": 2, "tool": 3}
_OTHER_ROLE = 4

CustomCounter = Callable[[str], int]


class Excerpting(NamedTuple):
    """Which texts may be divided, and what the mark in the place of a gap costs."""

    divisible: list[bool]
    """Per piece of the conversation."""
    mark_counts: tuple[int, int]
    """What is counted in a mark with small numbers, and with large ones."""
    block_counts: list[int] | None
    """For a counter of the caller's: the tokens of each block of each text that is divided."""


def prepare(
    conversation: Conversation,
    *,
    weight_of: Callable[[str], float],
    pinned: Sequence[bool],
    counter: str | CustomCounter,
    embed: bool,
    calibrated: bool,
    coverage: bool,
    excerpting: Excerpting | None = None,
) -> _native.Prepared:
    """Count and analyse a conversation; what was seen before comes from the cache.

    With `excerpting`, long texts are divided into blocks, which may be kept one by one.
    """
    messages = conversation.messages
    pieces = [piece for message in messages for piece in message.pieces]
    texts = [piece.text for piece in pieces]
    unit_of = {
        index: unit for unit, whole in enumerate(conversation.units) for index in whole.members
    }
    if conversation.user_first:
        may_lead = [unit.opens_with_user for unit in conversation.units]
    else:
        may_lead = [True] * len(conversation.units)
    return _native.Prepared(
        texts=texts,
        kinds=bytes(piece.kind for piece in pieces),
        piece_ends=list(accumulate(len(message.pieces) for message in messages)),
        roles=bytes(_ROLE_CODES.get(message.role, _OTHER_ROLE) for message in messages),
        structural=[weight_of(message.role) for message in messages],
        media_tokens=[message.images * MEDIA_TOKENS for message in messages],
        message_units=[unit_of[message.index] for message in messages],
        pinned=pinned,
        may_lead=may_lead,
        counter=counter if isinstance(counter, str) else "chars",
        counts=None
        if isinstance(counter, str)
        else [_custom_count(counter, text) for text in texts],
        embed=embed,
        calibrated=calibrated,
        coverage=coverage,
        **(excerpting._asdict() if excerpting else {}),
    )


def message_tokens(messages: Sequence[Message], counter: str | CustomCounter) -> list[int]:
    """Tokens of messages by themselves, media included."""
    return prepare(
        Conversation(
            "",
            tuple([message._replace(index=place) for place, message in enumerate(messages)]),
            tuple([Unit((place,), (message,)) for place, message in enumerate(messages)]),
        ),
        weight_of=lambda _role: 1.0,
        pinned=[False] * len(messages),
        counter=counter,
        embed=False,
        calibrated=False,
        coverage=False,
    ).message_tokens


def divide(text: str) -> tuple[str, list[tuple[int, int, int, int, int]]] | None:
    """The measure and the blocks of a text that is long enough to be divided.

    Of each block where it begins and ends in characters, how many of the measure it holds, and the
    numbers of its first and last.
    """
    return _native.divide(text)


def message_vectors(prepared: _native.Prepared) -> Vectors:
    """The built-in model's vectors, shape (messages, 256), float32.

    Rows have length 1, or 0 where nothing is known of the text.
    """
    import numpy as np

    dim = prepared.dim or 0
    return np.frombuffer(prepared.vectors(), dtype=np.float32).reshape(-1, dim)


def embed(texts: Sequence[str]) -> Vectors:
    """The built-in model's vectors of texts, shape (texts, 256), float32."""
    import numpy as np

    rows, dim = _native.embed(list(texts))
    return np.frombuffer(rows, dtype=np.float32).reshape(-1, dim)


def count(text: str, counter: str | CustomCounter) -> int:
    """Tokens of one text."""
    return (
        _native.count(text, counter) if isinstance(counter, str) else _custom_count(counter, text)
    )


def count_raw(text: str, counter: str | CustomCounter) -> int:
    """What is counted in a text before it becomes tokens: words, characters, or tokens already."""
    if counter == "words":
        return len(text.split())
    return len(text) if counter == "chars" else count(text, counter)


def check_counter(counter: object) -> str | CustomCounter:
    """A counter's name or a callable of the caller's.

    Raises InvalidArgumentError for anything else.
    """
    if callable(counter) or (isinstance(counter, str) and counter in COUNTERS):
        return counter
    known = ", ".join(map(repr, COUNTERS))
    raise InvalidArgumentError(
        f"counter is {counter!r}; choose one of {known}, or pass a callable of str -> int"
    )


def counter_name(counter: str | CustomCounter) -> str:
    """How a counter is called in figures."""
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
            f"counter {counter_name(counter)} raised {type(error).__name__}: {error} "
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
