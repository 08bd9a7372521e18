"""One conversation asked in several ways: a query, the last turn, a `Context`.

Questions about the work are made from coding sessions: of a name that few steps mention, or of the
rare words of one line. Their answers are known, so the output can be searched for them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import rehydrate
from rehydrate._native import text_of, user_message
from rehydrate.retention import Compact, Conversation, Cut, Kept, steps
from rehydrate.retention.reading import Message

VAGUE = ("fix the failing test and go on", "continue", "now write the tests")
QUESTIONS = 40
"""Number of each kind, for each session."""
LAST_STEPS = 12
"""No question is about these steps: they are kept anyway."""
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_NAME = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|[\w-]+(?:/[\w.-]+)+|\b\d{4,}\b"
)
_ABOUT_NAME = (
    "What did we find about {}?",
    "Where did we see {}?",
    "What did it say about {}?",
    "Where was {} mentioned?",
    "look at {} again",
)
_ABOUT_LINE = (
    "What did we find about {}?",
    "Which file had {}?",
    "What did it say about {}?",
    "Where was {} mentioned?",
)


class WorkQuestion(NamedTuple):
    """A question, and its answer as the one thing that is needed of the session."""

    text: str
    cut: Cut


def with_query(compact: Compact, text: str) -> Compact:
    """Return the compactor with this query for every question."""
    return lambda messages, _, ratio: compact(messages, text, ratio)


def as_last_turn(compact: Compact, format_: str, text: str | None = None) -> Compact:
    """Return the compactor with the query (or this text) as the last user turn, and no query."""

    def with_turn(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        said = [*messages, user_message(text or query or "", format_)]
        kept = compact(said, None, ratio)
        assert isinstance(kept, Kept)
        pairs = zip(kept.indices, kept, strict=True)
        there = [(index, message) for index, message in pairs if index < len(messages)]
        return Kept([message for _, message in there], [index for index, _ in there])

    return with_turn


def in_context(format_: str, **options: Any) -> Compact:
    """Return what `Context.compact` keeps of the history at the same size."""
    provider = "anthropic" if format_ in ("anthropic", "claude_code") else "openai_chat"
    wide = rehydrate.Budget(10**8, 10**9)

    def compact(messages: list[Message], _: str | None, ratio: float) -> list[Message]:
        context = rehydrate.Context(provider=provider, format=format_, budget=wide, **options)
        context.add(*messages)
        tokens = rehydrate.count_tokens(messages, format=format_)
        history = context.compact(int(ratio * tokens)).history
        positions = range(len(history.entries))
        return Kept(history.entries, [history.entry_index(position) for position in positions])

    return compact


def about_names(sessions: Sequence[Conversation]) -> list[WorkQuestion]:
    """Return questions about one name that at most two steps of the work mention."""
    return [each for session in sessions for each in _about_names(session, random.Random(8))]


def about_lines(sessions: Sequence[Conversation]) -> list[WorkQuestion]:
    """Return questions made of rare words of one line that at most three steps hold."""
    return [each for session in sessions for each in _about_lines(session, random.Random(7))]


def _about_names(session: Conversation, rng: random.Random) -> Iterator[WorkQuestion]:
    names = [sorted(set(_NAME.findall(text))) for text in _texts(session)]
    steps_with = Counter(name for step in names for name in step)
    last = {name: step for step, found in enumerate(names) for name in found}
    candidates = [
        (step, name)
        for step, found in enumerate(names)
        for name in found
        if steps_with[name] <= 2 and last[name] < len(names) - LAST_STEPS
    ]
    for name in _one_a_step(candidates, rng):
        yield _question(session, rng.choice(_ABOUT_NAME).format(name), name)


def _about_lines(session: Conversation, rng: random.Random) -> Iterator[WorkQuestion]:
    texts = _texts(session)
    words = [set(_WORD.findall(text)) for text in texts]
    steps_with = Counter(word for step in words for word in step)
    rare = max(3, len(texts) // 60)
    candidates = []
    for step, text in enumerate(texts[:-LAST_STEPS]):
        for line in text.split("\n"):
            asked = [w for w in dict.fromkeys(_WORD.findall(line)) if steps_with[w] <= rare][:4]
            if 30 < len(line) < 300 and len(asked) >= 2:
                holding = sum(all(word in of_step for word in asked) for of_step in words)
                candidates += [(step, (line, asked))] if holding <= 3 else []
    for line, asked in _one_a_step(candidates, rng):
        # Nobody writes every identifier as it is.
        said = [word.replace("_", " ") if rng.random() < 0.3 else word for word in asked]
        subject = f"{' '.join(said[:-1])} and {said[-1]}"
        yield _question(session, rng.choice(_ABOUT_LINE).format(subject), line)


def _texts(session: Conversation) -> list[str]:
    messages = session.messages
    return ["\n".join(text_of(messages[i]) for i in step) for step in steps(messages)]


T = TypeVar("T")


def _one_a_step(candidates: list[tuple[int, T]], rng: random.Random) -> list[T]:
    rng.shuffle(candidates)
    return list(dict(candidates).values())[:QUESTIONS]


def _question(session: Conversation, text: str, needed: str) -> WorkQuestion:
    name, format_ = f"{session.name}: {text}", session.format
    cut = Cut(name, session.messages, frozenset([needed]), format_, session.name)
    return WorkQuestion(text, cut)


Ask = Callable[[WorkQuestion], Compact]
"""A way of asking a question about the work."""


def given_as_query(compact: Compact) -> Ask:
    """Ask it as the query."""
    return lambda question: with_query(compact, question.text)


def said_last(compact: Compact) -> Ask:
    """Ask it as the last turn, without a query."""
    return lambda question: as_last_turn(compact, question.cut.format, question.text)


def not_asked(compact: Compact) -> Ask:
    """Do not ask it."""
    return lambda _: compact
