"""Signals of a compaction: the query, a model's vectors, and the share that memory holds.

The cascade: with a query, the built-in model and BM25 rank every message, and only the best fifth
is sent to an expensive model (measured: as good as sending all; DESIGN.md, embedding). Memory is
asked once, about all messages. Neither raises: what fails is left out, and `problems` says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rehydrate import _engine, _native
from rehydrate._concurrency.workers import waiting
from rehydrate._text import is_utf8, safe_error_text
from rehydrate.messages import Conversation, Message, PieceKind

if TYPE_CHECKING:
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model


class WeightedQuery(NamedTuple):
    """A query, and how much it counts.

    >>> from rehydrate import formats
    >>> read, _ = formats.read([{"role": "user", "content": "Which port is it?"}], "plain")
    >>> _native.weighted_query(read, None)
    WeightedQuery(text='Which port is it?', weight=1.0, asks=True)
    """

    text: str
    weight: float = 1.0
    """1 for a given query, and for a question that nothing has followed."""
    asks: bool = True
    """False for a topic or an order, which count only as far as few messages match them."""


MIN_EMBEDDED_TEXTS = 64
"""Up to this many texts, the query included, are all embedded, in the conversation's order."""


class Vectors(NamedTuple):
    """A model's vectors: rows of length 1, or 0 if there is no vector."""

    rows: Any
    """Shape (len(positions), dimensions), float32."""
    positions: list[int]
    """The position of each row's message in the conversation."""
    query: Any
    """The query's row; None without a query."""
    message_count: int

    def by_message(self) -> Any:
        """Return a row for every message of the conversation."""
        import numpy as np

        rows = np.zeros((self.message_count, self.rows.shape[1]), np.float32)
        rows[self.positions] = self.rows
        return rows


class ExternalSignals(NamedTuple):
    """The signals of a caller's model and memory, and their problems."""

    vectors: Vectors | None = None
    problems: tuple[str, ...] = ()
    coverage: list[float] | None = None
    """For each message (for each part of a divided one), the share of it that memory holds."""


class Deadline(NamedTuple):
    """The time by which a compaction must be done."""

    timeout: float
    """Seconds."""
    instant: float
    """A time of ``time.monotonic``."""

    @classmethod
    def within(cls, timeout: float) -> Deadline:
        """Return the deadline this many seconds from now."""
        return cls(timeout, time.monotonic() + timeout)


def model_vectors(
    model: Model | NamedModel | None,
    conversation: Conversation,
    prepared: _native.Prepared,
    query: str | None,
    *,
    calibrated: bool = True,
    embed_all: bool = False,
    deadline: Deadline | None = None,
) -> ExternalSignals:
    """Return the vectors of a caller's model: of the query, and of the messages that need one.

    None without a model. Those messages are all of them if the signals are raw or with `embed_all`.
    With a calibrated query they are the best of the ranking. Without a query it is the newest
    alone, to test the model.
    """
    if model is None:
        return ExternalSignals()
    from rehydrate.embedding.choice import ask

    texts = [message.text for message in conversation.messages]
    ranked = prepared.rank(query) if calibrated and query else []
    positions = _positions_to_embed(
        texts, ranked, embed_all=embed_all or not calibrated or query is None
    )
    if query is None and not embed_all:
        positions = positions[:1]
    if not positions:
        return ExternalSignals()
    queries = [] if query is None else [query]
    if len(positions) + len(queries) <= MIN_EMBEDDED_TEXTS:
        positions = sorted(positions)
        sent = [texts[position] for position in positions] + queries
        rows_of: Sequence[int] = range(len(sent))
    else:  # most important first, the query before all, each text once
        wanted = [texts[position] for position in positions] + queries
        sent = list(dict.fromkeys(queries + wanted))
        row_of = {text: row for row, text in enumerate(sent)}
        rows_of = [row_of[text] for text in wanted]
    attempt = ask(model, sent, deadline=None if deadline is None else deadline.instant)

    total = len(sent)
    embedded = 0 if attempt.rows is None else int(attempt.rows.any(axis=1).sum())
    has_builtin = calibrated and query is not None and prepared.dim is not None
    fallback = "with the built-in model" if has_builtin else "without vectors"
    troubles = "; ".join(attempt.troubles)
    problems = []
    if deadline is not None and embedded < total and time.monotonic() >= deadline.instant:
        problems.append(
            f"deadline: {embedded} of {total} texts embedded in "
            f"{deadline.timeout:g} s; the rest went {fallback}"
        )
    elif embedded == 0:
        troubles = troubles or f"not one vector of {total} texts"
    if troubles:
        outcome = f"{embedded} of {total} texts embedded; the rest " if embedded else ""
        problems.append(f"embedder: {troubles}; {outcome}went on {fallback}")
    if attempt.rows is None:
        return ExternalSignals(None, tuple(problems))
    rows, count = attempt.rows[rows_of], len(positions)
    found = Vectors(rows[:count], positions, rows[count] if queries else None, len(texts))
    return ExternalSignals(found, tuple(problems))


def _positions_to_embed(texts: list[str], ranked: list[int], *, embed_all: bool) -> list[int]:
    """Return the positions of the messages to embed: those of `ranked`, then with `embed_all` the
    rest, newest first. A text of only white space has no vector."""
    if embed_all or len(texts) < MIN_EMBEDDED_TEXTS:
        newest_first = range(len(texts) - 1, -1, -1)
        ranked = list(dict.fromkeys([*ranked, *newest_first]))
    return [position for position in ranked if texts[position] and not texts[position].isspace()]


RECALLED_NEIGHBOURS = 3
"""The number of nearest memories that a message is compared with."""

COVERED = 0.5
"""From this coverage on, memory counts as holding the text of a message."""


class Memory(Protocol):
    """The part of a memory that compaction uses: the similarities of the nearest memories.

    `recall` is called once a compaction, with all messages. A memory that embeds texts itself has
    an attribute ``recalls = "texts"``, as ``rehydrate.Memory`` does, and is given texts. Any other
    is given vectors of the embedder in use: float32 rows of length 1, or 0 for a message without a
    vector.
    """

    def recall(self, messages: Any, k: int, /) -> Iterable[Any]:
        """Return up to k cosine similarities for each message.

        A row is an array, a list, or a single number; its values are anything that ``float`` takes.
        """


class WritableMemory(Memory, Protocol):
    """A memory that compaction can also write to, such as `rehydrate.Memory`."""

    def add(self, items: Any, /) -> Sequence[Any]:
        """Store `MemoryItem`s, all or none; return for each its `handle` and whether it was
        `created`."""


def external_signals(
    model: Model | NamedModel | None,
    memory: Memory | None,
    conversation: Conversation,
    prepared: _native.Prepared,
    query: str | None,
    *,
    calibrated: bool,
    deadline: Deadline | None,
) -> ExternalSignals:
    """Return the vectors of the caller's model and the coverage of the memory."""
    embedded = model_vectors(
        model,
        conversation,
        prepared,
        query,
        calibrated=calibrated,
        embed_all=recalls_vectors(memory),
        deadline=deadline,
    )
    if memory is None or not conversation.messages:
        return embedded
    queries: Any = None
    # All rows are of one model: two vector spaces are never mixed.
    if _recalls_texts(memory):
        queries = [valid_unicode(text_without_thinking(each)) for each in conversation.messages]
    elif embedded.vectors is not None:
        queries = embedded.vectors.by_message()
    elif model is None and prepared.dim is not None:
        queries = _engine.message_vectors(prepared)
    coverage, problems = _memory_coverage(memory, queries)
    return ExternalSignals(embedded.vectors, (*embedded.problems, *problems), coverage)


def recalls_vectors(memory: Memory | None) -> bool:
    """Return whether there is a memory that is asked with vectors."""
    return memory is not None and not _recalls_texts(memory)


def _recalls_texts(memory: object) -> bool:
    return getattr(memory, "recalls", None) == "texts"


def text_without_thinking(message: Message) -> str:
    """Return the text, calls and results of a message, without the model's thinking."""
    return "\n".join(piece.text for piece in message.pieces if piece.kind != PieceKind.THINKING)


def valid_unicode(text: str) -> str:
    """Return the text in valid Unicode: a lone surrogate becomes a question mark."""
    return text if is_utf8(text) else text.encode("utf-8", "replace").decode()


def _memory_coverage(memory: Memory, queries: Any) -> tuple[list[float] | None, tuple[str, ...]]:
    """Ask a memory once about all messages: return the largest similarity of each, and the
    problems. A memory that fails covers nothing.

    `queries` are texts or rows of vectors, one a message; None if there are no vectors.
    """
    if queries is None:
        return None, ("memory: no vectors to recall with; nothing counts as covered",)
    try:
        with waiting():  # a memory of the caller may be behind a network
            recalled = list(memory.recall(queries, RECALLED_NEIGHBOURS))
        if len(recalled) != len(queries):
            raise ValueError(f"{len(recalled)} rows for {len(queries)} messages")
        rows = [_finite_numbers(row) for row in recalled]
    except Exception as error:
        return None, (f"memory: {safe_error_text(error, 'memory')}; nothing counts as covered",)
    shares = [max(row, default=0.0) for row in rows]
    troubles = getattr(memory, "degraded", ())
    if troubles and not any(rows):  # an embedder that failed leaves every row empty
        return shares, (f"memory: {troubles[-1]}; nothing counts as covered",)
    return shares, ()


def _finite_numbers(similarities: Any) -> list[float]:
    """Return the finite numbers of a row, or of a single number."""
    try:
        numbers = [float(similarity) for similarity in similarities]
    except TypeError:
        numbers = [float(similarities)]
    return [number for number in numbers if math.isfinite(number)]
