"""growing_system: a system prompt that is longer in each request than in the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject, Text, token_count

GROWN_TOKENS = 100
"""Less than this is a word that changed."""
GROWN_TIMES = 2
"""Once is an edit."""
STAYED = 0.8
"""Of the lines of a version that stand in the next, or else it is another prompt."""
JOURNAL_DATES = 5
JOURNAL_TOKENS = 150

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
# A line of a journal: a date behind nothing but a bullet, a heading's marks or a bracket.
_DATED = re.compile(
    r"^[\s>#*+\-\[(]{0,8}(?P<date>\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
    rf"|(?:{_MONTHS})[a-z]*\.? \d{{1,2}},? \d{{4}}|\d{{1,2}}\.? (?:{_MONTHS})[a-z]*\.? \d{{4}})\b",
    re.IGNORECASE,
)
_REMEDY = (
    "keep it as it is, put what is new behind the history (Context.add, or a dynamic section), and "
    "what must be found later into memory"
)


def growing_system(subject: Subject) -> Iterator[Finding]:
    """What the system says grows: from request to request, from one system message to the next, or
    by its own account, as a journal does."""
    if len(subject.systems) > 1:
        yield from _grown(subject.systems, "requests")
    else:
        said = [text for text in subject.texts if text.role == "system"]
        yield from _grown([*_joined(subject.static), *said], "system messages")
    for text in subject.static:
        yield from _journal(text)


def _grown(versions: Sequence[Text], of_what: str) -> Iterator[Finding]:
    """Versions of one text, the last of which is longer than the first by several additions."""
    if len(versions) < 2:
        return
    pairs = pairwise(versions)
    times = sum(new.tokens > old.tokens and _holds(new, old) for old, new in pairs)
    grown = versions[-1].tokens - versions[0].tokens
    if times >= GROWN_TIMES and grown >= GROWN_TOKENS:
        yield Finding(
            "growing_system",
            "warning",
            versions[-1].place,
            grown,
            f"the system prompt grew {times} times in {len(versions)} {of_what}, from "
            f"{versions[0].tokens:,} to {versions[-1].tokens:,} tokens: each time all behind it is "
            "written anew",
            _REMEDY,
        )


def _holds(new: Text, old: Text) -> bool:
    """Whether most of what was said is said again."""
    before = old.text.splitlines()
    lines = set(new.text.splitlines())
    if sum(line in lines for line in before) >= STAYED * len(before):
        return True
    return old.text in new.text


def _joined(texts: Sequence[Text]) -> list[Text]:
    """One text of what the system says in front; none where it says nothing."""
    if not texts:
        return []
    joined = "\n".join([text.text for text in texts])
    return [texts[0]._replace(text=joined, tokens=sum(text.tokens for text in texts))]


def _journal(text: Text) -> Iterator[Finding]:
    """Entries with a date of their own, in order: more will come."""
    lines = text.text.splitlines()
    matches = [_DATED.match(line) for line in lines]
    dates = [found["date"] for found in matches if found]
    if len(set(dates)) < JOURNAL_DATES or not _is_in_order(dates):
        return
    first = next(number for number, found in enumerate(matches) if found)
    tokens = token_count("\n".join(lines[first:]))
    if tokens >= JOURNAL_TOKENS:
        yield Finding(
            "growing_system",
            "info",
            text.place,
            tokens,
            f"{len(dates)} dated entries, {dates[0]} to {dates[-1]}, {tokens:,} tokens: a journal "
            "in the system prompt grows",
            _REMEDY,
        )


def _is_in_order(dates: Sequence[str]) -> bool:
    """Whether they go one way; nobody can tell of dates that do not begin with the year."""
    years = [date for date in dates if date[:4].isdigit()]
    return len(years) < len(dates) or years in (sorted(years), sorted(years, reverse=True))
