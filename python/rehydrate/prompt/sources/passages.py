"""Passage search in long texts: the windows that match a query, and excerpts around them.

A text is cut into windows of whole lines, and a long line into parts. The engine scores the windows
as it scores the messages of a conversation. A window of lines that the prompt shows already is no
candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rehydrate import _engine, _native
from rehydrate.compact.scoring import Scoring
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.splicing import SHORTEST_QUOTE

_PROFILE = Scoring.named("balanced")


class TextIndex:
    """Texts, each scored as a message of one conversation; they are analysed once.

    >>> index = TextIndex(["Staging listens on 8443.", "The crew is back at noon."])
    >>> (staging, crew), _ = index.relevances("Which port does staging use?")
    >>> staging > crew
    True
    """

    def __init__(self, texts: Iterable[str], *, embed: bool = True) -> None:
        """Analyse the texts; without `embed` they are compared by words alone."""
        messages = [
            Message(index, "user", (Piece(text, PieceKind.TEXT),))
            for index, text in enumerate(texts)
        ]
        units = [Unit((message.index,), (message,)) for message in messages]
        self._prepared = prepare(Conversation("", tuple(messages), tuple(units)), embed=embed)

    def relevances(self, query: str) -> tuple[list[float], float]:
        """Return the relevance of each text, in their order, and the confidence."""
        return relevances(self._prepared, query)


def prepare(conversation: Conversation, *, embed: bool) -> _native.Prepared:
    """Analyse a conversation whose messages will be compared with queries."""
    return _engine.prepare(
        conversation,
        weight_of=_PROFILE.weight_of,
        pinned=[False] * len(conversation.units),
        counter=COUNTER,
        embed=embed,
        calibrated=True,
        coverage=False,
        asked=True,
    )


def relevances(
    prepared: _native.Prepared,
    query: str,
    *,
    vectors: Any = None,
    places: Any = None,
    query_vector: Any = None,
) -> tuple[list[float], float]:
    """Return the relevance of each message, and the confidence; all are from 0 to 1.

    The best message has 1.0. The confidence is the share of the query that it matches; 1.0 where
    all messages are alike. The vectors are those of the caller's own model.
    """
    found, confidence = prepared.relevances(
        query, vectors=vectors, places=places, query_vector=query_vector
    )
    if confidence > 0 and not any(found):
        # One message alone, or copies of one: no word is rare there, so that any will do.
        return [1.0] * len(found), max(confidence, MIN_CONFIDENCE)
    return found, 1.0 if min(found, default=0.0) >= 1.0 else confidence


MIN_CONFIDENCE = 0.15
"""With a lower confidence nothing is found. Of questions about their own conversation 1% have less
than 0.18; of questions about other conversations half have less than 0.21."""


WINDOW_CHARS = 400
"""Approximate size of a window: a few lines."""
MAX_LINE_CHARS = 1_000
"""A longer line becomes several windows."""
MAX_WINDOWS = 5_000
"""Longer texts get larger windows."""
MAX_EMBEDDED = 2_000
"""With more windows they are compared by words alone: the vectors would take most of the time."""
MIN_LITERAL_CHARS = 4
"""Length from which a query is also searched for as it is written."""
MAX_LITERAL_MATCHES = 20
"""Maximum number of such matches in one text."""
MIN_RELEVANCE = 0.7
"""Windows with less are left out; the best has 1.0. They only share a word with it, or lie next to
it."""

Span = tuple[int, int]
"""The begin and the end of a part of a text, in characters."""


class Match(NamedTuple):
    """A window that matches a query."""

    text: int
    """Index of its text."""
    span: Span
    relevance: float


class Passages:
    """The windows of some texts, searched by one query after another.

    >>> log = "\\n".join(f"record {n}: all is well" for n in range(900))
    >>> text = f"{log}\\nthe pilot's phone is 7788"
    >>> text[slice(*Passages([(text, "")]).best("pilot's phone")[0].span)].splitlines()[-1]
    "the pilot's phone is 7788"
    """

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        """Take each text with what the prompt shows of it; they are analysed at the first query."""
        self._texts = texts

    @property
    def characters(self) -> int:
        """Number of characters of all texts."""
        return sum(len(text) for text, _ in self._texts)

    def best(self, query: str, *, min_confidence: float = MIN_CONFIDENCE) -> list[Match]:
        """Return the windows that match, the best first.

        Literal matches come first. With a confidence below ``min_confidence`` there are no others.
        """
        windows, index = self._windows
        query = query.strip()
        if not windows or not query:
            return []
        literal = [
            match
            for number in range(len(self._texts))
            for match in self._literal_matches(number, query)
        ]
        relevances, confidence = index.relevances(query)
        if confidence < min_confidence:
            return literal
        matches = [
            Match(*window, relevance * min(1.0, 2 * confidence))
            for window, relevance in zip(windows, relevances, strict=True)
            if relevance >= MIN_RELEVANCE
        ]
        return [*literal, *sorted(matches, key=lambda match: -match.relevance)]

    def _literal_matches(self, number: int, query: str) -> Iterator[Match]:
        """Yield the first lines that hold the query as it is written: a name, a number, a path."""
        text, shown = self._texts[number]
        at = text.find(query) if len(query) >= MIN_LITERAL_CHARS else -1
        for _ in range(MAX_LITERAL_MATCHES):
            if at < 0:
                return
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) + 1 or len(text)
            if end - start > MAX_LINE_CHARS:
                start, end = max(start, at - WINDOW_CHARS), min(end, at + WINDOW_CHARS)
            if not shown or text[start:end].strip() not in shown:
                yield Match(number, (start, end), 1.0)
            at = text.find(query, end)

    @cached_property
    def _windows(self) -> tuple[list[tuple[int, Span]], TextIndex]:
        """The windows, each with the index of its text, and the engine's index of them."""
        size = max(WINDOW_CHARS, self.characters // MAX_WINDOWS)
        windows = [
            (number, span)
            for number, (text, shown) in enumerate(self._texts)
            for span in _native.hidden_windows(text, shown, size, MAX_LINE_CHARS)
        ]
        texts = [self._texts[number][0][slice(*span)] for number, span in windows]
        return windows, TextIndex(texts, embed=len(windows) <= MAX_EMBEDDED)


def excerpt(
    text: str, matches: Iterable[Match], max_tokens: int, visible_lines: Collection[str] = ()
) -> tuple[str, list[Span]]:
    """Return the best matches with the lines around them, each gap marked, and their spans.

    The excerpt has as many matches as fit in ``max_tokens``, and at least the best one. Visible
    lines at the begin and the end of a match are left out, so that they are not repeated. Returns
    ("", []) if no line is left.
    """
    spans = [match.span for match in matches]
    return _native.passage_excerpt(text, spans, max_tokens, COUNTER, visible_lines, SHORTEST_QUOTE)


def line_count(text: str) -> int:
    """Return the number of lines; a line break at the end starts no further line.

    >>> line_count("a\\nb\\n"), line_count("a\\nb")
    (2, 2)
    """
    return text.count("\n") + (not text.endswith("\n") and text != "")
