"""Vectors from a model beside the built-in one; no failure fails.

The cascade: with a query, the built-in model and BM25 rank every message, and only the top fifth is
worth an expensive model's opinion (measured: as good as asking about all; DESIGN.md, embedding).

What a memory already holds of a conversation: one batch recall; no failure fails.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

from rehydrate import _engine
from rehydrate._concurrency.workers import waiting
from rehydrate._text import words_of
from rehydrate.messages import Conversation, Message, PieceKind

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model


ONE_BATCH = 64
"""So many texts, the query included, are asked about in any case, as they stand and in order."""
_FEWEST = 16
"""What fewer rows share says little."""


class Vectors(NamedTuple):
    """What a model gave: rows of length 1, or 0 where there is no vector."""

    rows: Any
    """Shape (len(places), dimensions), float32."""
    places: list[int]
    """Whose rows these are: places of messages in the conversation."""
    query: Any
    """The query's row; None without a query."""
    messages: int
    """How many messages there are."""

    def of_all(self) -> Any:
        """A row for every message of the conversation."""
        import numpy as np

        rows = np.zeros((self.messages, self.rows.shape[1]), np.float32)
        rows[self.places] = self.rows
        return rows

    def nearness(self) -> float:
        """The cosine of the query and its nearest row, what all rows share subtracted from both;
        0.0 without a query."""
        import numpy as np

        rows = self.rows[self.rows.any(axis=1)].astype(np.float64)
        if self.query is None or not self.query.any() or len(rows) < _FEWEST:
            return 0.0
        mean = rows.mean(axis=0)
        rows, query = rows - mean, self.query - mean
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        return float((rows @ query / np.maximum(lengths, 1e-9)).max())


class Embedded(NamedTuple):
    """The vectors of a model, and what went wrong on the way to them."""

    vectors: Vectors | None = None
    problems: tuple[str, ...] = ()


class Columns(TypedDict):
    """Vectors as the engine takes them."""

    vectors: Any
    places: list[int] | None
    query_vector: Any


def columns(found: Vectors | None) -> Columns:
    """What a model gave, as the engine takes it; None: nothing."""
    if found is None:
        return {"vectors": None, "places": None, "query_vector": None}
    return {"vectors": found.rows, "places": found.places, "query_vector": found.query}


class Deadline(NamedTuple):
    """By when a compaction is to be done."""

    timeout: float
    """Seconds."""
    instant: float
    """Of ``time.monotonic``."""

    @classmethod
    def within(cls, timeout: float) -> Deadline:
        """So many seconds from now."""
        return cls(timeout, time.monotonic() + timeout)


def own_vectors(
    model: Model | NamedModel,
    conversation: Conversation,
    prepared: _native.Prepared,
    query: str | None,
    *,
    calibrated: bool,
    every: bool,
    deadline: Deadline | None,
) -> Embedded:
    """What `model` makes of the messages that its vectors are needed of, and of the query.

    Those are all where the signals are raw or a memory wants to know (`every`); with a calibrated
    query those that it may be about; without a query the newest, which shows that the model works.
    """
    from rehydrate.embedding.cached_rows import ask

    texts = [message.text for message in conversation.messages]
    ranked = prepared.rank(query) if calibrated and query else []
    places = _most_important(texts, ranked, every=every or not calibrated or query is None)
    if query is None and not every:
        places = places[:1]
    if not places:
        return Embedded()
    asked = _Asked(texts, places, query)
    attempt = ask(model, asked.texts, deadline=None if deadline is None else deadline.instant)

    reached = 0 if attempt.rows is None else int(attempt.rows.any(axis=1).sum())
    instead = _instead(prepared, calibrated=calibrated and query is not None)
    troubles = "; ".join(attempt.troubles)
    problems = []
    if deadline is not None and reached < len(asked.texts) and time.monotonic() >= deadline.instant:
        problems.append(
            f"deadline: {reached} of {len(asked.texts)} texts embedded in "
            f"{deadline.timeout:g} s; the rest went {instead}"
        )
    elif reached == 0:
        troubles = troubles or f"not one vector of {len(asked.texts)} texts"
    if troubles:
        outcome = f"{reached} of {len(asked.texts)} texts embedded; the rest " if reached else ""
        problems.append(f"embedder: {troubles}; {outcome}went on {instead}")
    vectors = None if attempt.rows is None else asked.vectors(attempt.rows)
    return Embedded(vectors, tuple(problems))


class _Asked:
    """The texts to ask a model for, and how its rows fall to the messages and the query.

    Few are asked for as they stand, in the conversation's order, the query last. Many are asked
    for in the order of their importance, the query first, each text once.
    """

    def __init__(self, texts: list[str], places: list[int], query: str | None) -> None:
        self._messages = len(texts)
        queries = [] if query is None else [query]
        if len(places) + len(queries) <= ONE_BATCH:
            self._places = sorted(places)
            self.texts = [texts[place] for place in self._places] + queries
            self._rows = list(range(len(self.texts)))
        else:
            self._places = places
            each = [texts[place] for place in places] + queries
            row_of = {text: row for row, text in enumerate(dict.fromkeys(queries + each))}
            self.texts = list(row_of)
            self._rows = [row_of[text] for text in each]

    def vectors(self, rows: Any) -> Vectors:
        ours = rows[self._rows]
        count = len(self._places)
        query = ours[count] if len(ours) > count else None
        return Vectors(ours[:count], self._places, query, self._messages)


def _most_important(texts: list[str], ranked: list[int], *, every: bool) -> list[int]:
    """Places of the messages to embed: the best of `ranked`, or `every` one, those first and then
    the newest. A message without a word has no vector."""
    newest_first = range(len(texts) - 1, -1, -1)
    if every or len(texts) < ONE_BATCH:
        places = list(dict.fromkeys([*ranked, *newest_first]))
    else:
        places = ranked
    return [place for place in places if not texts[place].isspace() and texts[place]]


def _instead(prepared: _native.Prepared, *, calibrated: bool) -> str:
    """What does the work of vectors that are not there."""
    if calibrated and prepared.dim is not None:
        return "with the built-in model"
    return "without vectors"


def message_vectors(found: Vectors | None, prepared: _native.Prepared, *, is_builtin: bool) -> Any:
    """A row for every message, of the model in use: vectors of two spaces are never mixed."""
    if found is not None:
        return found.of_all()
    return _engine.message_vectors(prepared) if is_builtin and prepared.dim is not None else None


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


class Coverage(NamedTuple):
    """How much of each message memory holds, and what went wrong when it was asked."""

    shares: list[float] | None = None
    """Per message the largest similarity; None where nothing is known."""
    problems: tuple[str, ...] = ()


def memory_coverage(memory: Memory, asked: Any) -> Coverage:
    """Ask a memory once what it holds of all messages; a memory that fails covers nothing.

    `asked` are texts or rows of vectors, one a message; None where there are no vectors.
    """
    if asked is None:
        return Coverage(None, ("memory: no vectors to recall with; nothing counts as covered",))
    try:
        with waiting():  # a memory of the caller's own may be behind a network
            recalled = list(memory.recall(asked, RECALLED_NEIGHBOURS))
        if len(recalled) != len(asked):
            raise ValueError(f"{len(recalled)} rows for {len(asked)} messages")
        rows = [_numbers(row) for row in recalled]
    except Exception as error:
        problem = f"memory: {words_of(error, 'memory')}; nothing counts as covered"
        return Coverage(None, (problem,))
    shares = [max(row, default=0.0) for row in rows]
    troubles = getattr(memory, "degraded", ())
    if troubles and not any(rows):  # an embedder that failed leaves every row empty
        return Coverage(shares, (f"memory: {troubles[-1]}; nothing counts as covered",))
    return Coverage(shares)


def _numbers(similarities: Any) -> list[float]:
    """The finite numbers of a row, or the number itself."""
    try:
        numbers = [float(similarity) for similarity in similarities]
    except TypeError:
        numbers = [float(similarities)]
    return [number for number in numbers if math.isfinite(number)]
