"""Lookups: calls that look up what stands elsewhere, and a conversation without them.

conversation: what was said in this conversation and the prompt does not show any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from rehydrate import _engine
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import Deadline, Embedded, model_vectors, vector_arguments
from rehydrate.embedding.choice import Choice, choice_of
from rehydrate.entry_id import EntryId
from rehydrate.messages import Conversation, Message, PieceKind, Unit
from rehydrate.prompt.counting import COUNTER, counted_sections
from rehydrate.prompt.entries import History
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.section import FULL_TRUST, Priority, Provenance, Section
from rehydrate.prompt.sources.memory import UNRELATED
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest, SourceSettings

if TYPE_CHECKING:
    from rehydrate.prompt.request import TimeRange


_Told: TypeAlias = tuple[History, Sequence[datetime]]


class Lookups:
    """The calls of some tools, by their names."""

    def __init__(self, names: frozenset[str]) -> None:
        """Take the names."""
        self._names = names
        self._last: tuple[History, _Told] | None = None

    def of(self, history: History, times: Sequence[datetime]) -> _Told:
        """The entries, and when each was said, without those that only look up."""
        if not self._names:
            return history, times
        last = self._last
        if last is None or last[0] is not history:  # reading it again takes longer than the rest
            last = self._last = (history, self._without(history, times))
        return last[1]

    def unit(self, unit: Unit) -> Unit:
        """The unit without its lookups and their results, as far as they stand in pieces of
        their own."""
        ids = {call for message in unit.messages for call in self._calls(message)}
        if not ids:
            return unit
        return unit._replace(messages=tuple([_without(each, ids) for each in unit.messages]))

    def _without(self, history: History, times: Sequence[datetime]) -> _Told:
        gone: set[int] = set()
        for unit in history.conversation.units:
            rest = self.unit(unit)
            if rest is not unit and not any(map(_says_something, rest.messages)):
                gone.update(unit.members)
        if not gone:
            return history, times
        kept = [place for place in range(len(history.entries)) if place not in gone]
        return History(
            tuple([history.entries[place] for place in kept]),
            history.format,
            tuple([history.tokens[place] for place in kept]),
            tuple([history.entry_index(place) for place in kept]),
        ), [times[place] for place in kept]

    def _calls(self, message: Message) -> list[str]:
        inputs = [piece.text for piece in message.pieces if piece.kind is PieceKind.TOOL_INPUT]
        if len(inputs) != len(message.calls):
            return []
        named = zip(message.calls, inputs, strict=True)
        return [call for call, text in named if text.partition(" ")[0] in self._names]


def _without(message: Message, ids: set[str]) -> Message:
    """The message without the pieces of these calls, or of their results."""
    pieces = list(message.pieces)
    for kind, of in (
        (PieceKind.TOOL_INPUT, message.calls),
        (PieceKind.TOOL_RESULT, message.answers),
    ):
        places = [place for place, piece in enumerate(message.pieces) if piece.kind is kind]
        if len(places) == len(of):
            gone = [place for place, call in zip(places, of, strict=True) if call in ids]
            pieces = [
                piece for piece in pieces if not any(piece is message.pieces[n] for n in gone)
            ]
    return message._replace(pieces=tuple(pieces))


def _says_something(message: Message) -> bool:
    said = [piece for piece in message.pieces if piece.kind is not PieceKind.THINKING]
    return message.images > 0 or any(piece.text.strip() for piece in said)


LeftOut = Callable[[], tuple[History, Sequence[datetime]]]
"""Gives the entries that the prompt does not show, and when each was said."""

LIMIT = 200
"""So many units are brought at most."""
MOST_TOKENS = 8_000
LEAST_RELEVANCE = 0.15
"""What matches less, the best match being 1.0, is not brought: on LoCoMo 0.962 of the evidence for
3,150 tokens, and no more for 3,400 with 0.1 (`benches/python/needles.py`)."""
LEAST_CONFIDENCE = 0.15
"""Of the query's content so much must be known here, or nothing was found: of questions that their
own conversation answers 1% have less than 0.18, of other conversations' questions half have less
than 0.21."""
LEAST_NEARNESS = 0.35
"""A vector of the caller's model so near to the query's makes up for words that are not known here:
of such questions of other conversations 2% come so near, of a conversation's own questions three
quarters (MiniLM)."""
_PROFILE = Scoring.named("balanced")


def conversation(
    left_out: LeftOut,
    *,
    name: str = "conversation",
    limit: int = LIMIT,
    lookups: Collection[str] = (),
    most_tokens: int = MOST_TOKENS,
    embedder: Any = "auto",
    embedder_timeout: float | None = None,
    **settings: Unpack[SourceSettings],
) -> HydrationSource:
    """The messages that match the query, word for word, in the order in which they were said.

    A call and its results are one piece. With a `time_range` only what was said then: what matches,
    or all of it where nothing does. It stops where ``most_tokens`` are reached, of each piece at
    most a quarter of them counted: who asks may take a part of one that is longer. ``lookups`` are
    tools that look up what stands elsewhere: their calls are left out, since what they brought is
    found where it is from, and would come twice. ``embedder`` is as in `compact_context`; one of
    the caller's is asked about the best fifth, and waited for ``embedder_timeout`` at most.
    """
    choice = choice_of(embedder)
    priority = settings.setdefault("priority", Priority.NORMAL)
    without_lookups = Lookups(frozenset(lookups))

    def run(request: SourceRequest) -> Found:
        history, times = without_lookups.of(*left_out())
        if not history.entries:
            return Found(off="the prompt shows the whole conversation")
        units = history.conversation.units
        deadline = None
        if embedder_timeout is not None:
            deadline = Deadline.within(embedder_timeout)
        asked = history.conversation, request.query
        worth, problems = _relevance(*asked, choice, deadline)
        if request.time_range is not None:
            worth = _within(request.time_range, units, times, worth)
        best = sorted(
            (place for place, unit in enumerate(units) if worth[place] > 0 and not unit.is_system),
            key=lambda place: -worth[place],
        )
        chosen = _as_many_as_fit(best[:limit], units, history, most_tokens)
        sections = [
            _section(
                without_lookups.unit(units[place]), history, times, name, priority, worth[place]
            )
            for place in sorted(chosen)
        ]
        full = [section for section in sections if section.content]
        return Found(tuple(counted_sections(full)), degraded=problems)

    return HydrationSource(name, run, kind="conversation", blocking=False, **settings)


def _within(
    time_range: TimeRange, units: Sequence[Unit], times: Sequence[datetime], worth: list[float]
) -> list[float]:
    """Worth nothing outside of the range; all of it is worth a look where nothing in it matches."""
    after, before = time_range
    meant = [
        any(
            (after is None or times[member] >= after) and (before is None or times[member] < before)
            for member in unit.members
        )
        for unit in units
    ]
    within = [each if is_meant else 0.0 for each, is_meant in zip(worth, meant, strict=True)]
    return within if any(within) else [UNRELATED * is_meant for is_meant in meant]


def _relevance(
    conversation: Conversation,
    query: str,
    embedder: Choice,
    deadline: Deadline | None,
) -> tuple[list[float], tuple[str, ...]]:
    """Of each unit that of its best message, less where the query is hardly known here; 1.0 for all
    where there is nothing to look for. And what went wrong with the caller's model."""
    if not query.strip() or not conversation.units:
        return [1.0] * len(conversation.units), ()
    prepared = _engine.prepare(
        conversation,
        weight_of=_PROFILE.weight_of,
        pinned=[False] * len(conversation.units),
        counter=COUNTER,
        embed=embedder.has_builtin,
        calibrated=True,
        coverage=False,
        asked=True,
    )
    embedded = Embedded()
    if embedder.model is not None:
        embedded = model_vectors(
            embedder.model,
            conversation,
            prepared,
            query,
            calibrated=True,
            embed_all=False,
            deadline=deadline,
        )
    selection = prepared.select(
        query=query,
        query_weight=1.0,
        **vector_arguments(embedded.vectors),
        memory_coverage=None,
        weights=(_PROFILE.recency, _PROFILE.semantic, _PROFILE.novelty),
        calibrated=True,
        coverage=False,
        target_tokens=0,
    )
    found, problems = embedded
    signals = _engine.signals(selection)
    sure = confidence_of(signals)
    if found is not None and (nearness := found.query_similarity()) >= LEAST_NEARNESS:
        sure = max(sure, nearness)  # meant, in other words
    if sure < LEAST_CONFIDENCE:
        return [0.0] * len(conversation.units), problems
    of_message = {
        message.index: signal.semantic
        for message, signal in zip(conversation.messages, signals, strict=True)
    }
    worth = [max(of_message[member] for member in unit.members) for unit in conversation.units]
    likely = [each * min(1.0, 2 * sure) if each >= LEAST_RELEVANCE else 0.0 for each in worth]
    return likely, problems


def confidence_of(signals: Sequence[_engine.Signals]) -> float:
    """The share of the query that the best message matches, from ``odds = exp(-SHARPNESS *
    confidence * (1 - relevance))`` of the least relevant one (DESIGN.md, relevance)."""
    least = min(signals, key=attrgetter("semantic", "odds"))
    if least.semantic >= 1.0:
        return 1.0 if least.odds > 0 else 0.0
    return -math.log(max(least.odds, 1e-300)) / (_engine.SHARPNESS * (1.0 - least.semantic))


def _as_many_as_fit(
    best: Sequence[int], units: Sequence[Unit], history: History, most_tokens: int
) -> list[int]:
    """The first of them, until there are so many: what goes beyond is not even read."""
    chosen, left = [], most_tokens
    for place in best:
        chosen.append(place)
        tokens = sum(history.tokens[member] for member in units[place].members)
        left -= min(tokens, most_tokens // 4)
        if left <= 0:
            break
    return chosen


def _section(
    unit: Unit,
    history: History,
    times: Sequence[datetime],
    name: str,
    priority: Priority,
    relevance: float,
) -> Section:
    places = [history.entry_index(member) for member in unit.members]
    time = times[unit.members[0]]
    has_tool = any(message.answers for message in unit.messages)
    return Section(
        f"{name}:{places[0]}",
        "\n\n".join(filter(None, map(said, unit.messages))),
        Provenance(
            name,
            items=tuple([EntryId.of(place) for place in places]),
            time=time,
            trust=TOOL_TRUST if has_tool else FULL_TRUST,
        ),
        priority=priority,
        relevance=min(max(relevance, 0.0), 1.0),
        title=f"message {places[0]}, {time:%Y-%m-%d %H:%M} UTC",
    )


def said(message: Message) -> str:
    """Who said what, and what they called; what the model only thought is its own."""
    pieces = [piece for piece in message.pieces if piece.kind != PieceKind.THINKING]
    texts = [
        f"[calls {piece.text}]" if piece.kind == PieceKind.TOOL_INPUT else piece.text
        for piece in pieces
        if piece.text.strip()
    ]
    if message.images:  # a result holds no media, but whoever reads it knows what was there
        many = "s" if message.images > 1 else ""
        texts.append(f"[{message.images} image{many} or document{many} stood here]")
    return f"{message.role}: " + "\n".join(texts) if texts else ""
