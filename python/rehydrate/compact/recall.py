"""What a memory already holds of a conversation: one batch recall; no failure fails."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rehydrate._concurrency.pool import waiting
from rehydrate.failing import words_of
from rehydrate.messages import Conversation, Message, PieceKind

RECALLED_NEIGHBOURS = 3
"""How many of its nearest memories a message is compared with."""

COVERED = 0.5
"""From this coverage on, a memory counts as holding what a message says."""


class Memory(Protocol):
    """A memory, as far as compaction asks: how near are the nearest k memories to each message.

    It is asked once a compaction, about all messages. One that finds the meaning of texts by itself
    says so with an attribute ``recalls = "texts"``, as ``rehydrate.Memory`` does, and gets their
    texts. Any other gets vectors of the embedder in use: float32 rows of length 1, or 0 where a
    message has none.
    """

    def recall(self, messages: Any, k: int, /) -> Iterable[Any]:
        """Per message its cosine similarities, up to k: numbers, or what ``float`` makes some of.

        A row may be an array or a list; a number stands for a row of one.
        """


class WritableMemory(Memory, Protocol):
    """A memory that compaction can also write to, as `rehydrate.Memory` is."""

    def add(self, items: Any, /) -> Sequence[Any]:
        """Keep `MemoryItem`s, all or none; per item an object with its `handle` and whether it was
        `created`."""


def recalls_texts(memory: object) -> bool:
    """Whether the memory wants texts, not vectors."""
    return getattr(memory, "recalls", None) == "texts"


def texts_to_recall(conversation: Conversation) -> list[str]:
    """Of each message what it says and does; what the model thought meanwhile is nobody's news."""
    return [clean(text_to_remember(message)) for message in conversation.messages]


def text_to_remember(message: Message) -> str:
    """What a message says and does, without the model's thinking."""
    return "\n".join(piece.text for piece in message.pieces if piece.kind != PieceKind.THINKING)


def clean(text: str) -> str:
    """The text as Unicode can be written: half a surrogate pair becomes a question mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def memory_coverage(memory: Memory, asked: Any, degraded: list[str]) -> list[float] | None:
    """Per message the largest similarity to what memory holds; None where nothing is known.

    `asked` are texts or rows of vectors, one a message; None where there are no vectors.
    """
    if asked is None:
        degraded.append("memory: no vectors to recall with; nothing counts as covered")
        return None
    try:
        with waiting():  # a memory of the caller's own may be behind a network
            recalled = list(memory.recall(asked, RECALLED_NEIGHBOURS))
        if len(recalled) != len(asked):
            raise ValueError(f"{len(recalled)} rows for {len(asked)} messages")
        rows = [_numbers(row) for row in recalled]
    except Exception as error:
        degraded.append(f"memory: {words_of(error, 'memory')}; nothing counts as covered")
        return None
    troubles = getattr(memory, "degraded", ())
    if troubles and not any(rows):  # an embedder that failed leaves every row empty
        degraded.append(f"memory: {troubles[-1]}; nothing counts as covered")
    return [max(row, default=0.0) for row in rows]


def _numbers(similarities: Any) -> list[float]:
    """The finite numbers of a row, or the number itself."""
    try:
        numbers = [float(similarity) for similarity in similarities]
    except TypeError:
        numbers = [float(similarities)]
    return [number for number in numbers if math.isfinite(number)]
