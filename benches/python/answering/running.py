"""Running the questions: the plan, the journal that a run resumes from, and concurrency."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from benches.python.answering.data import Case
from benches.python.answering.grading import f1, judge_key, judge_prompt, judged
from benches.python.answering.strategies import UNFIT, Answer, Answering
from rehydrate import count_tokens
from rehydrate.agent import Model
from rehydrate.context.jit import BUDGET_TOKENS as CALL_TOKENS
from rehydrate.errors import UnreadableSessionError
from rehydrate.prompt.counting import upper_bound

AT_ONCE = 4
MOST_FAILURES = 10
"""After this many failures in a row it stops: the key, the model or the network is wrong."""
REPLY_TOKENS = 60
"""Tokens of an answer, for the plan."""


class Journal(dict[str, Any]):
    """Answers and verdicts, and the file that has one in each line, written at once."""

    def __init__(self, path: str | Path | None = None) -> None:
        """Read the file; a line that was cut off is skipped. Without a path nothing is kept.

        Raises UnreadableSessionError for a file that isn't a journal.
        """
        self._path = None if path is None else Path(path)
        data = self._path.read_bytes() if self._path and self._path.exists() else b""
        super().__init__(entry for line in data.splitlines() if (entry := _entry(line)))
        if data and not self:
            problem, remedy = "it has no answer of an earlier run", "name its journal or a new file"
            raise UnreadableSessionError(path, problem, remedy)
        self._ahead = "\n" if data and not data.endswith(b"\n") else ""

    def keep(self, key: str, value: Any, case: Case, strategy: str) -> None:
        """Write a value at once; case and strategy are for readers of the file."""
        self[key] = value
        if self._path is not None:
            entry = {"key": key, "value": value, "case": case.id, "strategy": strategy}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{self._ahead}{json.dumps(entry)}\n")
            self._ahead = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One question with one strategy."""

    case: Case
    strategy: str
    answer: Answer
    f1: float | None = None
    right: bool | None = None
    """The judge's verdict."""
    judge_problem: str = ""


class Planned(NamedTuple):
    """The requests of one strategy or of the judge: fewest and most, and prompt tokens."""

    name: str
    known: int
    unfit: int
    requests: tuple[int, int]
    tokens: tuple[int, int]


@dataclass
class Run:
    """Questions for each strategy, with an optional judge, and a journal to resume from."""

    cases: Sequence[Case]
    strategies: Sequence[str]
    answering: Answering
    judge: Model | None = None
    journal: Journal = field(default_factory=Journal)
    failures: int = 0
    """Failures in a row."""

    @property
    def is_given_up(self) -> bool:
        """Whether too many requests failed in a row."""
        return self.failures >= MOST_FAILURES

    async def rows(
        self, at_once: int = AT_ONCE, advance: Callable[[int], object] = lambda _: None
    ) -> list[Row]:
        """Return each question with each strategy, until it gives up; failures are asked again."""
        rows: dict[int, Row] = {}
        jobs = enumerate((case, name) for case in self.cases for name in self.strategies)

        async def work() -> None:
            for place, (case, strategy) in jobs:
                if self.is_given_up:
                    return
                row = rows[place] = await self._judged(await self._answered(case, strategy))
                self._note(row.answer.problem or row.judge_problem)
                advance(1)

        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(work)
        return [rows[place] for place in sorted(rows)]

    async def _answered(self, case: Case, strategy: str) -> Row:
        key = self.answering.key(case, strategy)
        if (known := self.journal.get(key)) is not None:
            answer = Answer(**known)
        else:
            answer = await self.answering.answer(case, strategy)
            if not answer.problem:
                self.journal.keep(key, asdict(answer), case, strategy)
        return Row(case, strategy, answer, None if answer.problem else f1(case, answer.text))

    async def _judged(self, row: Row) -> Row:
        judge, case, given = self.judge, row.case, row.answer.text
        if judge is None or row.answer.problem:
            return row
        key = judge_key(judge, case, given)
        if (known := self.journal.get(key)) is None:
            known, problem = await judged(judge, case, given, self.answering.retry)
            if known is None:
                return replace(row, judge_problem=problem)
            self.journal.keep(key, known, case, row.strategy)
        return replace(row, right=known)

    def _note(self, problem: str) -> None:
        if not problem.startswith(UNFIT) and not self.is_given_up:
            self.failures = self.failures + 1 if problem else 0

    def plan(self) -> list[Planned]:
        """Return the requests it would make, without making them."""
        plans = [self._planned(strategy) for strategy in self.strategies]
        if self.judge is not None:
            # Known verdicts can only be counted with the answers.
            count = sum(len(self.cases) - plan.unfit for plan in plans)
            prompts = [count_tokens(judge_prompt(case, "")) + REPLY_TOKENS for case in self.cases]
            tokens = sum(prompts) * count // len(prompts)
            most = upper_bound(tokens, self.judge.provider)
            plans.append(Planned("the judge", 0, 0, (count, count), (tokens, most)))
        return plans

    def _planned(self, strategy: str) -> Planned:
        asks = self.answering
        left = [each for each in self.cases if not self.journal.get(asks.key(each, strategy))]
        first = [asks.first_tokens(each, strategy) for each in left if asks.fits(each, strategy)]
        known, unfit = len(self.cases) - len(left), len(left) - len(first)
        rounds, count = asks.most_requests(strategy), len(first)
        most = sum(first) * rounds + count * CALL_TOKENS * rounds * (rounds - 1) // 2
        tokens = sum(first), upper_bound(most, asks.model.provider)
        return Planned(strategy, known, unfit, (count, count * rounds), tokens)


def _entry(line: bytes) -> tuple[str, Any] | None:
    try:
        entry = json.loads(line)
        return entry["key"], entry["value"]
    except (ValueError, TypeError, KeyError):
        return None
