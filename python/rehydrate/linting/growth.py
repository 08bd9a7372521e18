"""Rules about requests over time: growth, growing_system, unstable_prefix and breakpoints.

growth: how fast requests grow, and when they cross the budget. growing_system: a system prompt that
gets longer from request to request. The other two are about the cache: a prefix that changes each
turn, and wrong marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from rehydrate.cost.prefix import MAX_BREAKPOINTS
from rehydrate.cost.prices import minimum_prefix
from rehydrate.linting.subject import Finding, Subject, Text, definition, token_count
from rehydrate.prompt.section import Stability

SOON_STEPS = 20
"""A budget that is crossed within this many further requests gets a finding."""
MIN_STEPS = 3
"""With fewer requests a rate says nothing."""


def growth(subject: Subject) -> Iterator[Finding]:
    """Yield one finding: over the hard budget, over the soft one, or soon over it."""
    budget, total = subject.budget, subject.tokens
    steps = subject.steps - (subject.now[0].step if subject.now else 0)
    tokens = sum(text.tokens for text in subject.now)
    tokens += subject.media_tokens - subject.media_before
    rate = tokens / steps if steps >= MIN_STEPS else 0.0
    grows = f", {rate:,.0f} more with each request" if rate else ""
    if total > budget.soft_tokens:
        is_over_hard = total > budget.hard_tokens
        name, limit = ("hard", budget.hard_tokens) if is_over_hard else ("soft", budget.soft_tokens)
        yield Finding(
            "growth",
            "error" if is_over_hard else "warning",
            _crossed(subject, limit),
            total - limit,
            f"{total:,} tokens{grows}: over the {name} budget of {limit:,} from here on",
            f"compact it to {budget.target_tokens:,} tokens",
        )
    elif rate and (left := math.ceil((budget.soft_tokens - total) / rate)) <= SOON_STEPS:
        yield Finding(
            "growth",
            "info",
            "",
            0,
            f"{total:,} tokens{grows}: over the soft budget of {budget.soft_tokens:,} in about "
            f"{left} more",
            f"compact it then, to {budget.target_tokens:,} tokens",
        )


def _crossed(subject: Subject, limit: int) -> str:
    """Return where the prompt crosses the limit."""
    total = subject.tool_tokens + sum(text.tokens for text in subject.static)
    for text in subject.now:
        total += text.tokens
        if total > limit:
            return text.place
    return ""


GROWN_TOKENS = 100
"""Less growth than this is a changed word."""
GROWN_TIMES = 2
"""One growth is an edit."""
STAYED = 0.8
"""Minimum share of a version's lines that the next must have; else it is another prompt."""
JOURNAL_DATES = 5
JOURNAL_TOKENS = 150

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
# A line of a journal: a date, with only a bullet, a heading's marks or a bracket before it.
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
    """Yield growth of the system's text: from request to request, from one system message to the
    next, or within one text that is a journal."""
    if len(subject.systems) > 1:
        yield from _grown(subject.systems, "requests")
    else:
        texts = [text for text in subject.texts if text.role == "system"]
        if static := subject.static:  # as one text
            joined = "\n".join([text.text for text in static])
            tokens = sum(text.tokens for text in static)
            texts = [static[0]._replace(text=joined, tokens=tokens), *texts]
        yield from _grown(texts, "system messages")
    for text in subject.static:
        yield from _journal(text)


def _grown(versions: Sequence[Text], of_what: str) -> Iterator[Finding]:
    """Yield a finding for versions of one text if the last is longer by several additions."""
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
    """Return whether the new text holds most of the old one."""
    before, lines = old.text.splitlines(), set(new.text.splitlines())
    return sum(line in lines for line in before) >= STAYED * len(before) or old.text in new.text


def _journal(text: Text) -> Iterator[Finding]:
    """Yield a finding for dated entries in order: more will come."""
    lines = text.text.splitlines()
    matches = [_DATED.match(line) for line in lines]
    dates = [found["date"] for found in matches if found]
    years = [date for date in dates if date[:4].isdigit()]
    # One way, as far as that can be seen: not where a date does not begin with the year.
    is_in_order = len(years) < len(dates) or years in (sorted(years), sorted(years, reverse=True))
    if len(set(dates)) < JOURNAL_DATES or not is_in_order:
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


_MONTH = rf"(?:{_MONTHS})[a-z]{{0,6}}\.?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day,? (?:the )?"
_DATE = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH},? \d{{4}})"
)
# A time of day differs in each request, in any context.
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\b\d{1,2}:\d\d:\d\d\b"
    r"|\b\d{4}/\d\d/\d\d \d\d:\d\d|\b1[6-9]\d{8}(?:\d{3})?\b"
)
# A date does, where the text calls it today's; that of a policy or of a model stays.
_TODAY = re.compile(
    r"(?:\btoday\b(?:'s| is)?(?: date)?|\b(?:current|present) (?:date|day|time)\b|\bnow\b"
    r"|\bas of\b|^\W{0,4}date\b|\bdate and time\b|\bit is\b|<(?:current_?)?date>"
    r"|\btimestamp\b|\b(?:generated|started) (?:on|at)\b)"
    rf"[^\n\w]{{0,8}}(?:is|it is|it's|the)?[^\n\w]{{0,4}}(?P<found>(?:{_WEEKDAY})?{_DATE})",
    re.IGNORECASE | re.MULTILINE,
)
# So does one alone, or with its day of the week.
_ALONE = re.compile(
    rf"^[^\n\w]{{0,4}}(?P<found>{_DATE})[^\n\w]{{0,4}}$|\b{_WEEKDAY}{_DATE}",
    re.IGNORECASE | re.MULTILINE,
)
_UUID = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b0[0-7][0-9A-HJKMNP-TV-Z]{24}\b"  # a ULID of this age
    r"|\b(?=[0-9a-f]*[a-f])(?=(?:[a-f]*\d){6})[0-9a-f]{32}\b"  # a UUID without its hyphens
)
# An id of the person or subject of this request, by its name: `user_id: 8f3k2`.
_NAMED_ID = re.compile(
    r"\b(?i:session|request|conversation|thread|chat|trace|span|run|job|correlation|user|customer"
    r"|account|client|tenant|order|ticket|transaction|message|device|visitor)"
    r"[ _-]?(?i:id|uuid|guid)\b[\"'`*]{0,3}\s{0,3}(?:[:=#]|is\b)?[\s\"'`*#]{0,4}"
    r"(?P<found>(?=[\w.:-]{0,64}\d)[A-Za-z0-9][\w.:-]{2,63}\w)",
)
_EXAMPLE = re.compile(r"e\.g\.|for example|such as|example|format|like|ISO", re.IGNORECASE)
_NEAR = 60


def unstable_prefix(subject: Subject) -> Iterator[Finding]:
    """Yield a time, today's date or an id at the front: when it changes, nothing is cached."""
    after = subject.tokens
    for index, tool in enumerate(subject.tools):
        found = _varying(definition(tool))
        if found:
            yield _unstable(f"tools[{index}]", found, after)
        after -= tool.tokens or 0
    for text in subject.static:
        found = _varying(text.text)
        if found:
            yield _unstable(text.place, found, after)
        after -= text.tokens


def _varying(text: str) -> str:
    """Return a time, a date of today or an id in it, unless it is an example; "" for none."""
    for pattern in (_TIME, _TODAY, _ALONE, _UUID, _NAMED_ID):
        for match in pattern.finditer(text):
            before = text[max(match.start() - _NEAR, 0) : match.start()]
            if not _EXAMPLE.search(before):
                return match.groupdict().get("found") or match[0]
    return ""


def _unstable(place: str, found: str, after: int) -> Finding:
    return Finding(
        "unstable_prefix",
        "warning",
        place,
        after,
        f"{found!r} stands in front of everything: if it is another one in the next request, "
        f"{after:,} tokens are written anew",
        "move it behind the history (a dynamic section), or leave it out",
    )


def breakpoints(subject: Subject) -> Iterator[Finding]:
    """Yield marks that are refused, that cache nothing, or that are missing."""
    segments = subject.segments
    ends = list(accumulate([segment.tokens for segment in segments]))
    marked = [index for index, segment in enumerate(segments) if segment.breakpoint]
    minimum = minimum_prefix(subject.model)
    if subject.marks > MAX_BREAKPOINTS:
        yield Finding(
            "breakpoints",
            "error",
            segments[marked[-1]].id,
            0,
            f"{subject.marks} cache breakpoints, and the provider refuses more than "
            f"{MAX_BREAKPOINTS}",
            "keep the one after the tools or the system, and those nearest to the end",
        )
    for index in marked:
        if subject.marks_cache and ends[index] < minimum:
            yield Finding(
                "breakpoints",
                "info",
                segments[index].id,
                0,
                f"the breakpoint ends a prefix of {ends[index]:,} tokens; "
                f"{subject.model or 'the model'} keeps none under {minimum:,}",
                "take it away, or put it where the prefix is longer",
            )
        if segments[index].stability == Stability.DYNAMIC:
            yield Finding(
                "breakpoints",
                "warning",
                segments[index].id,
                ends[index],
                "the breakpoint stands on what is another one each turn: it is written and "
                "never read",
                "put it at the end of what stays",
            )
    if subject.marks_cache and not marked and ends and ends[-1] >= minimum:
        yield Finding(
            "breakpoints",
            "warning",
            "",
            ends[-1],
            f"no cache breakpoint: {ends[-1]:,} tokens are paid in full in every request",
            "compile it with rehydrate, or mark the end of the system and of the history",
        )
