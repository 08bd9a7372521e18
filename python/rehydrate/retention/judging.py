"""judge: how many questions a model answers from a conversation before and after compaction.

The only measure that calls a model. It asks a dataset's own questions if there are any. For other
sessions the model first writes questions that the agent must be able to answer after a cut.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from rehydrate._native import plain, role_of, text_of
from rehydrate._text import error_text
from rehydrate.context.writers import areply_text
from rehydrate.retention.measure import Compact
from rehydrate.retention.reading import Message
from rehydrate.retention.sampling import Sample

if TYPE_CHECKING:
    from rehydrate.agent.model import Model


T = TypeVar("T")

MAX_QUESTIONS = 12
QUESTIONS_PER_CUT = 4
"""Questions that the model writes at one cut."""
MAX_CONCURRENT_REQUESTS = 4
"""Requests under way at once."""
_MARK = "|||"

_WRITE = (
    "Below is the conversation of an agent up to now. Write {count} questions that whoever goes on "
    "with the work has to be able to answer from it: facts, names, decisions, what the user laid "
    "down; spread over the whole conversation, early parts too. Each must have one short answer. "
    f"Write one line for each and nothing else: question {_MARK} answer\n\n{{conversation}}"
)
_ANSWER = (
    "Below is a conversation; parts of it may have been left out. Answer the question from it in a "
    "few words. If it does not say, answer: unknown.\n\n{conversation}\n\nQuestion: {question}"
)
_GRADE = (
    "Question: {question}\nRight answer: {expected}\nGiven answer: {given}\n\n"
    "Does the given answer say the same in substance? Answer yes or no."
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One question, and whether it was answered before and after."""

    session: str
    question: str
    expected: str
    before: str
    after: str
    right_before: bool
    right_after: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """All judged questions."""

    model: str
    ratio: float
    questions: tuple[Judged, ...]
    degraded: tuple[str, ...] = ()
    """Questions that could not be asked, and why."""

    @property
    def right_before(self) -> int:
        """Number answered from the whole conversation."""
        return sum(each.right_before for each in self.questions)

    @property
    def right_after(self) -> int:
        """Number answered from the compacted conversation."""
        return sum(each.right_after for each in self.questions)

    def sentence(self) -> str:
        """Return the figures in words."""
        if not self.questions:
            return (
                f"{self.model} was asked nothing: {(*self.degraded, 'no question was written')[0]}"
            )
        return (
            f"{self.model} answers {self.right_before} of {len(self.questions)} questions from the "
            f"whole conversation and {self.right_after} at {self.ratio:.0%} of it."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {**plain(self), "right_before": self.right_before, "right_after": self.right_after}


@dataclass(frozen=True, slots=True)
class _Case:
    """A question on a conversation; without a question, `count` of them are to be written."""

    session: str
    messages: list[Message]
    question: str = ""
    expected: str = ""
    count: int = 0


def judge(
    model: Model,
    sample: Sample,
    compact: Compact,
    ratio: float,
    *,
    max_questions: int = MAX_QUESTIONS,
    advance: Callable[[int], object] = lambda _: None,
) -> Judgement:
    """Ask a model questions about these conversations, whole and compacted to this ratio.

    ``model`` is any `rehydrate.agent.Model`. It writes the questions where a dataset has none,
    answers them twice and says whether the answers are right. If a request fails, or its reply is
    refused or cut off, its question is left out, and ``degraded`` says so. ``advance`` is called
    after each request; there are at most
    ``planned_requests(sample, max_questions)``.

    >>> from rehydrate.retention import Conversation, Question, keep_last, sample_cases
    >>> from rehydrate.testing import ScriptedModel
    >>> turns = [{"role": "user", "content": text} for text in ("My dog is Rex.", "Hello.", "Bye.")]
    >>> asked = (Question("Who is Rex?", (0,), "a dog"),)
    >>> sample = sample_cases([Conversation("chat", turns, questions=asked)])
    >>> model = ScriptedModel(["A dog.", "unknown", "yes", "no"])
    >>> judge(model, sample, keep_last(), 0.4).sentence()
    'scripted answers 1 of 1 questions from the whole conversation and 0 at 40% of it.'
    """
    run = partial(
        ajudge, model, sample, compact, ratio, max_questions=max_questions, advance=advance
    )
    return anyio.run(run)


async def ajudge(
    model: Model,
    sample: Sample,
    compact: Compact,
    ratio: float,
    *,
    max_questions: int = MAX_QUESTIONS,
    advance: Callable[[int], object] = lambda _: None,
) -> Judgement:
    """Ask a model questions about these conversations: the async version of `judge`."""
    degraded: list[str] = []

    async def ask(text: str) -> str:
        try:
            return (await areply_text(model, text)).strip()
        finally:
            advance(1)

    async def judge_case(case: _Case) -> Judged:
        query = case.question if sample.questions else None
        kept = compact(list(case.messages), query, ratio)
        answer_prompt = partial(_ANSWER.format, question=case.question)
        before = await ask(answer_prompt(conversation=_as_text(case.messages)))
        after = await ask(answer_prompt(conversation=_as_text(kept)))
        grade_prompt = partial(_GRADE.format, question=case.question, expected=case.expected)
        verdicts = [await ask(grade_prompt(given=given)) for given in (before, after)]
        right = [verdict.lower().startswith("yes") for verdict in verdicts]
        return Judged(case.session, case.question, case.expected, before, after, *right)

    async def write_questions(case: _Case) -> list[_Case]:
        prompt = _WRITE.format(count=case.count, conversation=_as_text(case.messages))
        lines = (await ask(prompt)).splitlines()
        pairs = [line.split(_MARK, 1) for line in lines if _MARK in line]
        return [
            _Case(case.session, case.messages, question.strip(" -*"), answer.strip())
            for question, answer in pairs[: case.count]
            if question.strip(" -*") and answer.strip()
        ]

    cases = _cases(sample, max_questions)
    if not sample.questions:
        groups = await _gather(write_questions, cases, degraded)
        cases = [case for group in groups for case in group][:max_questions]
    judged = await _gather(judge_case, cases, degraded)
    return Judgement(model.name, ratio, tuple(judged), tuple(dict.fromkeys(degraded)))


def planned_requests(sample: Sample, max_questions: int = MAX_QUESTIONS) -> int:
    """Return the maximum number of requests: two answers and two verdicts a question."""
    cases = _cases(sample, max_questions)
    if sample.questions:
        return 4 * len(cases)
    return len(cases) + 4 * sum(case.count for case in cases)


def _cases(sample: Sample, limit: int) -> list[_Case]:
    """Return the given questions, spread over the sessions. If questions must be written, return
    the last cut of each session."""
    if sample.questions:
        return [
            _Case(c.name, c.messages, question.text, question.answer)
            for c, _, question in _spread(sample.questions, limit)
        ]
    last = {cut.session: cut for cut in sample.cuts}
    cuts = _spread(list(last.values()), -(-limit // QUESTIONS_PER_CUT))
    return [
        _Case(
            cut.session,
            cut.messages,
            count=min(QUESTIONS_PER_CUT, limit - QUESTIONS_PER_CUT * index),
        )
        for index, cut in enumerate(cuts)
    ]


def _spread(values: Sequence[T], limit: int) -> list[T]:
    """Return at most `limit` values, at even steps over all of them."""
    count = min(limit, len(values))
    return [values[index * len(values) // count] for index in range(count)]


async def _gather(
    work: Callable[[_Case], Awaitable[T]], cases: Sequence[_Case], degraded: list[str]
) -> list[T]:
    """Run the work on all cases at once; return the results in order. A failure is left out and
    added to `degraded`."""
    results: dict[int, T] = {}
    limit = anyio.CapacityLimiter(MAX_CONCURRENT_REQUESTS)

    async def run(index: int, case: _Case) -> None:
        async with limit:
            try:
                results[index] = await work(case)
            except Exception as error:  # of the provider, its SDK, or the caller's own model
                reason = error_line(error)
                degraded.append(f"a question about {case.session} was not asked: {reason}")

    async with anyio.create_task_group() as tasks:
        for index, case in enumerate(cases):
            tasks.start_soon(run, index, case)
    return [results[index] for index in sorted(results)]


def _as_text(messages: Sequence[Message]) -> str:
    """Return a conversation in any format as plain text, which any provider accepts."""
    return "\n\n".join(f"[{role_of(message)}] {text_of(message)}" for message in messages)


def error_line(error: BaseException) -> str:
    """Return an error's type and message in one line of at most 300 characters.

    >>> error_line(ValueError("no such berth:\\n  41"))
    'ValueError: no such berth: 41'
    """
    return " ".join(error_text(error).split())[:300]
