"""Cases to measure on: cuts, questions and summaries of many sessions, limited in number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rehydrate._text import plural
from rehydrate.retention.datasets import Conversation, Question, Summary
from rehydrate.retention.measure import CODING_CUTS, SUPPORT_CUTS, Cut, cut_before, cut_sessions
from rehydrate.retention.reading import Message, count_messages, tool_inputs
from rehydrate.retention.sessions import Sessions, Skipped, evenly

T = TypeVar("T")

MIN_MESSAGES = 20
"""A shorter session needs no compaction, and leaves too little to measure on."""
MIN_NEEDED = 3
"""Minimum number of names used after a cut: a share of fewer means nothing."""
MAX_CUTS = 60
MAX_QUESTIONS = 100
LONG_SESSION_STEPS = 100
"""Minimum steps of a session that is cut five times; a shorter one is cut once."""


class QuestionCase(NamedTuple):
    """One question of a conversation, and its number there."""

    conversation: Conversation
    number: int
    question: Question


class SummaryCase(NamedTuple):
    """An agent's summary, and its input as a cut."""

    cut: Cut
    summary: Message


@dataclass(frozen=True, slots=True)
class Sample:
    """The cases to measure on, and what was left out."""

    conversations: tuple[Conversation, ...]
    cuts: tuple[Cut, ...]
    questions: tuple[QuestionCase, ...]
    summaries: tuple[SummaryCase, ...]
    notes: tuple[str, ...]
    """Notes: how much was sampled of how much, and the cases not measured."""
    skipped: tuple[Skipped, ...] = ()
    """Files and sessions that were left out before."""

    def cases(self, ratios: int) -> int:
        """Return how many times each strategy is called for this number of ratios."""
        return (len(self.cuts) + len(self.questions)) * ratios + len(self.summaries)


def too_short(min_messages: int = MIN_MESSAGES) -> Callable[[Conversation], str]:
    """Return a function that says why a session is too short to measure on, or ""."""

    def why(conversation: Conversation) -> str:
        is_short = count_messages(conversation.messages) < min_messages
        return f"fewer than {min_messages} messages" if is_short else ""

    return why


def sample_cases(
    conversations: Sessions | Iterable[Conversation],
    *,
    max_cuts: int = MAX_CUTS,
    max_questions: int = MAX_QUESTIONS,
    min_needed: int = MIN_NEEDED,
    seed: int = 0,
) -> Sample:
    """Return cuts and questions of these sessions, spread over the sessions; always the same ones.

    A session with tool calls is cut where its later calls use earlier names. Without calls, later
    messages must use them; a session with questions uses the questions instead.
    """
    read = conversations if isinstance(conversations, Sessions) else Sessions(tuple(conversations))
    sessions = read.conversations
    cuts: list[list[Cut]] = []
    without_calls = unmeasured = 0
    for session in sessions:
        calls = any(map(tool_inputs, session.messages))
        if not calls and session.questions:
            continue
        found = cut_sessions([session], _fractions(session), min_needed=min_needed)
        without_calls += bool(found) and not calls
        unmeasured += not found
        if found:
            cuts.append(found)
    questions = [
        [QuestionCase(session, number, each) for number, each in enumerate(session.questions)]
        for session in sessions
        if session.questions
    ]
    summaries = [case for session in sessions for case in _summary_cases(session, min_needed)]
    notes = []
    if read.files_read < read.files:
        notes.append(f"{read.files_read:,} of {read.files:,} files read, drawn at random")
    if read.more:
        total = len(sessions) + read.more
        notes.append(f"{len(sessions):,} of {total:,} sessions, drawn at random")
    if unmeasured:
        notes.append(
            f"{plural(unmeasured, 'session')} not measured: fewer than {min_needed} names of what "
            "came before are used later"
        )
    if without_calls:
        notes.append(
            f"{plural(without_calls, 'session')} without tool calls: measured by the names that "
            "later messages mention"
        )
    chosen_cuts = _evenly(cuts, max_cuts, seed, "cut", notes)
    chosen = _evenly(questions, max_questions, seed, "question", notes)
    return Sample(
        sessions, tuple(chosen_cuts), tuple(chosen), tuple(summaries), tuple(notes), read.skipped
    )


def _fractions(session: Conversation) -> Sequence[float]:
    is_long = len(session.messages) >= 2 * LONG_SESSION_STEPS
    return CODING_CUTS if is_long else SUPPORT_CUTS


def _summary_cases(session: Conversation, min_needed: int) -> Iterable[SummaryCase]:
    """Yield each summary with its input: the previous summary, and the messages since."""
    earlier: Summary | None = None
    for summary in session.summaries:
        before = session.messages[summary.start : summary.end]
        if earlier is not None:
            before = [earlier.message, *before]
        ahead = session.messages[summary.end :]
        cut = cut_before(session, f"{session.name} at its summary", before, ahead)
        if len(cut.needed) >= min_needed:
            yield SummaryCase(cut, summary.message)
        earlier = summary


def _evenly(
    groups: Sequence[Sequence[T]], limit: int, seed: int, noun: str, notes: list[str]
) -> list[T]:
    """Return at most `limit`: one of each group, in a random order, then a second of each."""
    total = sum(map(len, groups))
    if total <= limit:
        return [case for group in groups for case in group]
    chosen = evenly(groups, limit, seed)
    over = plural(len({group for group, _ in chosen}), "session")
    notes.append(f"{limit:,} of {total:,} {noun}s, evenly over {over}")
    return [groups[group][case] for group, case in chosen]
