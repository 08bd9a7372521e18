"""parse_time_range: reads a time range that a model wrote, or says how to write it.

docs/request-context-times.md has a table of the forms. The code is our own, since the libraries for
this guess one moment: dateparser 1.5 reads ``2026-13`` as the 13th of February and ``3`` as a
March; dateutil 2.9 completes ``2026-02`` with today's day. Neither says where a range ends, and
neither knows ``past 3 days``, ``2026-W07`` or ``a..b``. A search needs exactly the range that was
named, with both ends, in a given time zone, or an error that says how to write it.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta, tzinfo  # noqa: F401  UTC: the examples

from rehydrate.context.time_words import WEEKDAYS, TimeWords, UnreadableError, WallClock, zone_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

MAX_CHARACTERS = 200
"""Longer than any text that means a time."""

_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_SLASHED = r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{4}[/.]\d{1,2}[/.]\d{1,2}"
_OUTSIDE = (r"after (.+?) (?:and )?(?<!day )before (.+)", r"after (.+)()", r"()before (.+)")
_FROM_TO = (
    r"between (.+?) and (.+)",
    r"(?:from |since )?(.*?) ?(?:\.{2,3}|/| - |(?:^| )(?:to|until|till|through) ) ?(.*)",
    r"(?:from|since) (.+)()",
)


def parse_time_range(text: str, now: datetime, timezone: tzinfo | str) -> TimeRange:
    """Return the range from `after` (inclusive) to `before` (exclusive), in UTC.

    ``now`` is an aware datetime. Days and longer units are those of ``timezone``. Raises
    InvalidArgumentError with the reason, today's date and examples, so that a model can correct it.

    >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)  # a Wednesday
    >>> after, before = parse_time_range("last tuesday", now, "Europe/Berlin")
    >>> after.isoformat(), before.isoformat()
    ('2026-02-16T23:00:00+00:00', '2026-02-17T23:00:00+00:00')
    """
    clock = WallClock.of(now, timezone)
    try:
        return _range(TimeWords(clock), _normal(text))
    except UnreadableError as error:
        why = str(error)
    except (OverflowError, ValueError):  # of datetime's arithmetic
        why = "it lies outside the years 1 to 9999"
    given = repr(text if len(text) <= 60 else f"{text[:57]}...") if isinstance(text, str) else ""
    today = clock.today
    week = f"{today - timedelta(min(7, today.toordinal() - 1))}..{today}"
    raise InvalidArgumentError(
        f"time_range {given}{' ' if given else ''}cannot be used: {why}. Today is "
        f"{WEEKDAYS[today.weekday()].title()}, {today} ({clock.name}). Send for example "
        f"'{today}', '{week}', 'last tuesday' or 'past 3 days', or leave time_range out"
    )


def describe(span: TimeRange, timezone: tzinfo | str) -> str:
    """Return a range in one line, in the times of a zone.

    >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)
    >>> describe(parse_time_range("last week", now, "Europe/Berlin"), "Europe/Berlin")
    'Mon 2026-02-09 to Sun 2026-02-15 (Europe/Berlin)'
    """
    zone = zone_of(timezone)
    after, before = (each and each.astimezone(zone) for each in span)
    first = after and _is_midnight(after)
    last = before and _is_midnight(before)
    if after and before:
        if first and last:
            end = before.date() - timedelta(1)
            text = _day(after) if end == after.date() else f"{_day(after)} to {_day(end)}"
        else:
            text = f"{_moment(after)} to {_moment(before)}"
    elif after:
        text = f"since {_day(after) if first else _moment(after)}"
    elif before:
        text = f"until {_day(before.date() - timedelta(1)) if last else _moment(before)}"
    else:
        text = "all times"
    return f"{text} ({zone})"


def _normal(text: str) -> str:
    """Return one spelling: small letters, plain dashes and blanks, without filler words."""
    if not isinstance(text, str):
        raise UnreadableError(f"it is of type {type(text).__name__}, not text")
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(
            f"it is {len(text):,} characters long, {MAX_CHARACTERS} at most can be a time"
        )
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_DASHES)
    plain = re.sub(r",(?!\d)|['\"`]|\b(?:the|on|of|in|within|during)\b", " ", plain)
    plain = re.sub(r"(?<=[a-z])\.(?!\.)", " ", plain)
    plain = re.sub(r"(?<![\w-])(\d+) ?([hdw])\b", lambda m: f"{m[1]} {_UNITS[m[2]]}", plain)
    plain = re.sub(r"(\d)(?:st|nd|rd|th)\b", r"\1", plain)
    return " ".join(plain.split())


def _range(words: TimeWords, text: str) -> TimeRange:
    """Read a range, or else one time."""
    if not text:
        raise UnreadableError("it is empty")
    if re.search(_SLASHED, text):
        raise UnreadableError(
            "dates with slashes or dots are not read here; write the date as 2026-02-17"
        )
    for pattern in (*_OUTSIDE, *_FROM_TO):
        if found := re.fullmatch(pattern, text):
            first, last = (words.read(end) if end else TimeRange() for end in found.groups())
            if first == last == TimeRange():
                raise UnreadableError("it names no time")
            if pattern in _OUTSIDE:
                return _checked(TimeRange(first.before, last.after), words.clock.zone)
            return _checked(TimeRange(first.after, last.before), words.clock.zone)
    return words.read(text)


def _checked(span: TimeRange, zone: tzinfo) -> TimeRange:
    after, before = span
    if after and before and before <= after:
        raise UnreadableError(
            f"it begins at {_moment(after.astimezone(zone))} and has ended by then, at "
            f"{_moment(before.astimezone(zone))}; name the earlier time first, or write dates"
        )
    return span


def _is_midnight(moment: datetime) -> bool:
    return moment.timetz().replace(tzinfo=None) == datetime.min.time()


def _day(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()][:3].title()} {day.isoformat()[:10]}"


def _moment(moment: datetime) -> str:
    """Format to the second. The offset tells apart the two equal hours when clocks are set back."""
    return f"{_day(moment)} {moment.time().isoformat('seconds')}{moment:%z}"
