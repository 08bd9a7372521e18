"""Rules about the cache: what makes a prefix another one each turn, and where marks are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from rehydrate.cache import minimum_prefix
from rehydrate.cache.simulate import MAX_BREAKPOINTS
from rehydrate.ir import Stability
from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject, definition

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day,? (?:the )?"
_DATE = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{_MONTH},? \d{{4}})"
)
# A time of day is another one in each request whatever is said of it.
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\b\d{1,2}:\d\d:\d\d\b"
    r"|\b\d{4}/\d\d/\d\d \d\d:\d\d|\b1[6-9]\d{8}(?:\d{3})?\b"
)
# A date is, where it is said to be today's: a policy's or a model's own stays what it is.
_TODAY = re.compile(
    r"(?:\btoday\b(?:'s| is)?(?: date)?|\b(?:current|present) (?:date|day|time)\b|\bnow\b"
    r"|\bas of\b|^\W{0,4}date\b|\bdate and time\b|\bit is\b|<(?:current_?)?date>"
    r"|\btimestamp\b|\b(?:generated|started) (?:on|at)\b)"
    rf"[^\n\w]{{0,8}}(?:is|it is|it's|the)?[^\n\w]{{0,4}}(?P<found>(?:{_WEEKDAY})?{_DATE})",
    re.IGNORECASE | re.MULTILINE,
)
# So is one that stands alone, or with its day of the week.
_ALONE = re.compile(
    rf"^[^\n\w]{{0,4}}(?P<found>{_DATE})[^\n\w]{{0,4}}$|\b{_WEEKDAY}{_DATE}",
    re.IGNORECASE | re.MULTILINE,
)
_UUID = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b0[0-7][0-9A-HJKMNP-TV-Z]{24}\b"  # a ULID of this age
    r"|\b(?=[0-9a-f]*[a-f])(?=(?:[a-f]*\d){6})[0-9a-f]{32}\b"  # a UUID without its hyphens
)
# An id of whom or what this request is about, told by its name: `user_id: 8f3k2`.
_NAMED_ID = re.compile(
    r"\b(?i:session|request|conversation|thread|chat|trace|span|run|job|correlation|user|customer"
    r"|account|client|tenant|order|ticket|transaction|message|device|visitor)"
    r"[ _-]?(?i:id|uuid|guid)\b[\"'`*]{0,3}\s{0,3}(?:[:=#]|is\b)?[\s\"'`*#]{0,4}"
    r"(?P<found>(?=[\w.:-]*\d)[A-Za-z0-9][\w.:-]{2,63}\w)",
)
_EXAMPLE = re.compile(r"e\.g\.|for example|such as|example|format|like|ISO", re.IGNORECASE)
_NEAR = 60


def unstable_prefix(subject: Subject) -> Iterator[Finding]:
    """A time, today's date or an id in what is sent first: with another one nothing is cached."""
    behind = subject.tokens
    for place, tool in enumerate(subject.tools):
        found = _varying(definition(tool))
        if found:
            yield _unstable(f"tools[{place}]", found, behind)
        behind -= tool.tokens or 0
    for text in subject.static:
        found = _varying(text.text)
        if found:
            yield _unstable(text.place, found, behind)
        behind -= text.tokens


def _varying(text: str) -> str:
    """A time, a date of today or an id in it, unless it stands as an example; "" for none."""
    for pattern in (_TIME, _TODAY, _ALONE, _UUID, _NAMED_ID):
        for match in pattern.finditer(text):
            before = text[max(match.start() - _NEAR, 0) : match.start()]
            if not _EXAMPLE.search(before):
                return match.groupdict().get("found") or match[0]
    return ""


def _unstable(place: str, found: str, behind: int) -> Finding:
    return Finding(
        "unstable_prefix",
        "warning",
        place,
        behind,
        f"{found!r} stands in front of everything: if it is another one in the next request, "
        f"{behind:,} tokens are written anew",
        "move it behind the history (a dynamic section), or leave it out",
    )


def breakpoints(subject: Subject) -> Iterator[Finding]:
    """Marks that are refused, that keep nothing, or that are missing."""
    segments = subject.segments
    ends = list(accumulate([segment.tokens for segment in segments]))
    marked = [place for place, segment in enumerate(segments) if segment.breakpoint]
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
    for place in marked:
        if subject.marks_cache and ends[place] < minimum:
            yield Finding(
                "breakpoints",
                "info",
                segments[place].id,
                0,
                f"the breakpoint ends a prefix of {ends[place]:,} tokens; "
                f"{subject.model or 'the model'} keeps none under {minimum:,}",
                "take it away, or put it where the prefix is longer",
            )
        if segments[place].stability == Stability.DYNAMIC:
            yield Finding(
                "breakpoints",
                "warning",
                segments[place].id,
                ends[place],
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
