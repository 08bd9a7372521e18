"""Passages: where in long texts a query finds something, and the lines around it, word for word.

A text is cut into windows of whole lines (a long line into parts of it), and the engine scores the
windows as it does the messages of a conversation. What a window says that the prompt shows already
is no candidate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rehydrate import _engine
from rehydrate.compact.excerpts import mark
from rehydrate.compact.scoring import Scoring
from rehydrate.messages import Conversation, Message, Piece, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.sources.conversation import LEAST_CONFIDENCE, confidence_of
from rehydrate.prompt.splicing import SHORTEST_QUOTE

if TYPE_CHECKING:
    from rehydrate import _native


WINDOW = 400
"""Characters of a window, about: a few lines."""
LONGEST_LINE = 1_000
"""A longer line is several windows."""
MOST_WINDOWS = 5_000
"""Of longer texts the windows are larger."""
MOST_EMBEDDED = 2_000
"""Windows beyond this are looked through by words alone: vectors would take the most time."""
LEAST_LITERAL, MOST_LITERAL = 4, 20
"""Characters of a query that is looked for as it stands too, and places in a text where."""
LEAST_WORTH = 0.7
"""Of the best window's: what matches less is beside it, or has one of its words."""
AROUND_LINES = 3
AROUND_CHARACTERS = 300
"""Before and after what was found."""
_PROFILE = Scoring.named("balanced")


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


class Match(NamedTuple):
    """A window that a query finds."""

    text: int
    """Which of the texts."""
    span: Span
    worth: float


class Passages:
    """Texts of which a prompt shows a part or nothing, to be looked through again and again.

    >>> log = "\\n".join(f"record {n}: all is well" for n in range(900))
    >>> text = f"{log}\\nthe pilot's phone is 7788"
    >>> text[slice(*Passages([(text, "")]).best("pilot's phone")[0].span)].splitlines()[-1]
    "the pilot's phone is 7788"
    """

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        """Take each text with what is shown of it; nothing is looked at yet."""
        self._texts = texts

    @property
    def characters(self) -> int:
        """Of all texts."""
        return sum(len(text) for text, _ in self._texts)

    def best(self, query: str, *, least_confidence: float = LEAST_CONFIDENCE) -> list[Match]:
        """The windows that match, best first; none where hardly anything of the query is known."""
        windows, prepared = self._prepared
        query = query.strip()
        if not windows or not query:
            return []
        literal = [
            match for number in range(len(self._texts)) for match in self._having(number, query)
        ]
        selection = prepared.select(
            query=query,
            query_weight=1.0,
            vectors=None,
            places=None,
            query_vector=None,
            memory_coverage=None,
            weights=(_PROFILE.recency, _PROFILE.semantic, _PROFILE.novelty),
            calibrated=True,
            coverage=False,
            target_tokens=0,
        )
        signals = _engine.signals(selection)
        sure = confidence_of(signals)
        if sure < least_confidence:
            return literal
        found = [
            Match(*windows[place], signal.semantic * min(1.0, 2 * sure))
            for place, signal in enumerate(signals)
            if signal.semantic >= LEAST_WORTH
        ]
        return [*literal, *sorted(found, key=lambda match: -match.worth)]

    def _having(self, number: int, query: str) -> Iterator[Match]:
        """The first places where the query stands as it is: a name, a number, a path."""
        text, shown = self._texts[number]
        at = text.find(query) if len(query) >= LEAST_LITERAL else -1
        for _ in range(MOST_LITERAL):
            if at < 0:
                return
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at) + 1 or len(text)
            if end - start > LONGEST_LINE:
                start, end = max(start, at - WINDOW), min(end, at + WINDOW)
            if not shown or text[start:end].strip() not in shown:
                yield Match(number, Span(start, end), 1.0)
            at = text.find(query, end)

    @cached_property
    def _prepared(self) -> tuple[list[tuple[int, Span]], _native.Prepared]:
        size = max(WINDOW, self.characters // MOST_WINDOWS)
        windows = [
            (number, span)
            for number, (text, shown) in enumerate(self._texts)
            for span in _unseen(text, shown, size)
        ]
        messages = [
            Message(place, "tool", (Piece(self._texts[number][0][slice(*span)], PieceKind.TEXT),))
            for place, (number, span) in enumerate(windows)
        ]
        prepared = _engine.prepare(
            Conversation(
                "", tuple(messages), tuple([Unit((each.index,), (each,)) for each in messages])
            ),
            weight_of=_PROFILE.weight_of,
            pinned=[False] * len(messages),
            counter=COUNTER,
            embed=len(messages) <= MOST_EMBEDDED,
            calibrated=True,
            coverage=False,
            asked=True,
        )
        return windows, prepared


def windows_of(text: str, size: int = WINDOW) -> Iterator[Span]:
    """The whole text in windows of whole lines, a long line in parts that overlap a little.

    >>> [text[slice(*span)] for text in ["a\\nb\\nc\\n"] for span in windows_of(text, 4)]
    ['a\\nb\\n', 'c\\n']
    """
    start, total = 0, len(text)
    while start < total:
        end = text.find("\n", start + size - 1) + 1 or total
        if end - start > size + LONGEST_LINE:
            line = text.rfind("\n", start, start + size) + 1
            if line > start:  # the long line begins a window of its own
                end = line
            else:
                while end - start > size + size // 4:
                    yield Span(start, start + size + size // 4)  # no word is halved in both
                    start += size
        yield Span(start, end)
        start = end


def _unseen(text: str, shown: str, size: int) -> Iterator[Span]:
    """The windows that say something which is not shown."""
    lines = {*shown.split("\n"), ""}
    for span in windows_of(text, size):
        window = text[slice(*span)]
        if window.isspace():
            continue
        if shown and (span.start == 0 or text[span.start - 1] == "\n"):
            if window.partition("\n")[0] in lines and lines.issuperset(window.split("\n")):
                continue
        elif shown and window.strip() in shown:
            continue
        yield span


def excerpt(
    text: str, matches: Sequence[Match], most_tokens: int, seen: Collection[str] = ()
) -> tuple[str, list[Span]]:
    """The best matches with the lines around them, each gap marked, and where they stand.

    As many as ``most_tokens`` have room for, the best one in any case. Lines in ``seen`` are left
    out where an excerpt begins or ends: what is shown already is not repeated. ("", []) where
    nothing is left.
    """
    chosen: list[Span] = []
    made = ""
    for match in matches:
        for span in (_around(text, match.span), match.span):
            trimmed = _trimmed(text, span, seen)
            if trimmed.start == trimmed.end:
                break
            merged = _merged([*chosen, trimmed])
            content = render(text, merged)
            is_least = not chosen and span == match.span
            if is_least or _engine.count(content, COUNTER) <= most_tokens:
                chosen, made = merged, content
                break
        else:
            if chosen:
                break
    return made, chosen


def render(text: str, spans: Sequence[Span]) -> str:
    """The stretches as they are, and a mark on a line of its own in the place of each gap.

    >>> render("a\\nb\\nc\\n", [Span(2, 4)])
    '[... 1 line omitted, 1 ...]\\nb\\n[... 1 line omitted, 3 ...]'
    """
    ends = [Span(0, 0), *spans, Span(len(text), len(text))]
    out = ""
    for before, after in pairwise(ends):
        out += text[slice(*before)]
        if before.end < after.start:
            lead = "\n" if out and not out.endswith("\n") else ""
            follow = "\n" if after.start < len(text) else ""
            out += lead + _gap(text, before.end, after.start) + follow
    return out


def line_count(text: str) -> int:
    """How many lines it has; a line break at the end begins none.

    >>> line_count("a\\nb\\n"), line_count("a\\nb")
    (2, 2)
    """
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _gap(text: str, start: int, end: int) -> str:
    begins_line = start == 0 or text[start - 1] == "\n"
    ends_line = end == len(text) or text[end - 1] == "\n"
    if not (begins_line and ends_line):
        return mark("characters", end - start, start + 1, end)
    first = text.count("\n", 0, start) + 1
    count = text.count("\n", start, end) + (text[end - 1] != "\n")
    return mark("lines", count, first, first + count - 1)


def _around(text: str, span: Span) -> Span:
    """With the lines before and after it."""
    start, end = span
    for _ in range(AROUND_LINES):
        line = text.rfind("\n", 0, start - 1) + 1 if start else 0
        if span.start - line > AROUND_CHARACTERS:
            break
        start = line
    for _ in range(AROUND_LINES):
        line = text.find("\n", end) + 1 or len(text)
        if line - span.end > AROUND_CHARACTERS:
            break
        end = line
    return Span(start, end)


def _trimmed(text: str, span: Span, seen: Collection[str]) -> Span:
    """Without the lines at its beginning and its end that are seen already: a long one, or some
    in a row."""
    if not seen:
        return span
    start, end = span
    lines = text[start:end].splitlines(keepends=True)
    front = _seen_first(lines, seen)
    back = _seen_first(lines[front:][::-1], seen)
    start += sum(map(len, lines[:front]))
    end -= sum(map(len, lines[len(lines) - back :]))
    return Span(start, end)


def _seen_first(lines: Sequence[str], seen: Collection[str]) -> int:
    """How many of the first lines are seen, where they are worth leaving out."""
    count = length = 0
    for line in lines:
        bare = line.rstrip("\r\n")
        if bare.strip() and bare not in seen:
            break
        count, length = count + 1, length + len(bare.strip())
    return count if length >= SHORTEST_QUOTE or count == len(lines) else 0


def _merged(spans: Sequence[Span]) -> list[Span]:
    """In order, those that touch as one."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
