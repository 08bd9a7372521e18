"""Grading of an answer: by LoCoMo's F1, which calls no model, or by a model as the judge.

F1 is that of LoCoMo's grader without its stemming, so a little lower: of words, without articles
and punctuation; part by part where the answer is a list (multi-hop); 1 or 0 if the conversation
has no answer. LongMemEval has no measure but a judge; its preferences aren't an answer to compare
with. The judge is told by type what counts, like LongMemEval's own, in our words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from statistics import fmean

from benches.python.answering.data import Case, digest
from benches.python.answering.strategies import asked
from rehydrate import Budget, Context
from rehydrate.agent import Model, Retry

_UNKNOWN = ("no information available", "not mentioned")
_ASK = "Is the response right? Answer yes or no only."
_RIGHT = (
    "Judge a response by the right answer. It is right if it says the same in substance, or leads "
    "to it by all of its steps; other words, another form of a date, and more than was asked do "
    "not matter. With a part of the answer only, it is wrong. A count of days, weeks or months may "
    "be off by one; what was so earlier may be told too, if what holds now is the answer."
)
_PREFERENCE = (
    "Judge a personal response by what it should do. It is right if it recalls what the user told "
    "of themselves and uses it well; it need not do all that the description names."
)
_ABSENT = (
    "The question cannot be answered, for the reason that is given. The response is right if it "
    "says so, or that it does not know; it may tell what is known instead."
)
_BUDGET = Budget(soft_tokens=10**6, hard_tokens=10**6)
_MARKS = str.maketrans("", "", string.punctuation)


def f1(case: Case, given: str) -> float | None:
    """Return LoCoMo's score of an answer, 0 to 1; None if it has none."""
    if case.is_unanswerable:
        return float(any(words in given.lower() for words in _UNKNOWN))
    if case.type == "single-session-preference":
        return None
    expected = case.answer.split(";")[0] if case.type == "open-domain" else case.answer
    if case.type != "multi-hop":
        return _f1(given, expected)
    parts = given.split(",")
    return fmean(max(_f1(part, right) for part in parts) for right in expected.split(","))


def judge_prompt(case: Case, given: str) -> str:
    """Return the prompt of the judge."""
    rule, label = _RIGHT, "Right answer"
    if case.is_unanswerable:
        rule, label = _ABSENT, "Reason"
    elif case.type == "single-session-preference":
        rule, label = _PREFERENCE, "Description"
    return (
        f"{rule}\n\nQuestion: {case.question}\n{label}: {case.answer}\nResponse: {given}\n\n{_ASK}"
    )


def judge_key(judge: Model, case: Case, given: str) -> str:
    """Return a hash of everything that a verdict depends on."""
    return digest(judge.provider, judge.name, case.digest, judge_prompt(case, given))


async def judged(judge: Model, case: Case, given: str, retry: Retry) -> tuple[bool | None, str]:
    """Return whether the answer is right; None and the problem where the judge gives no verdict."""
    context = Context(provider=judge.provider, model=judge.name, budget=_BUDGET, passes=())
    context.add({"role": "user", "content": judge_prompt(case, given)})
    said = await asked(judge, context, 1, retry)
    verdict = re.match(r"\W*(yes|no)\b", said.text, re.IGNORECASE)
    if verdict is None:
        return None, said.problem or "the verdict is neither yes nor no"
    return verdict[1].lower() == "yes", ""


def _f1(given: str, expected: str) -> float:
    said, right = _words(given), _words(expected)
    shared = (said & right).total()
    return 2 * shared / (said.total() + right.total()) if shared else 0.0


def _words(text: str) -> Counter[str]:
    plain = text.lower().translate(_MARKS)
    return Counter(re.sub(r"\b(a|an|the|and)\b", " ", plain).split())
