"""Times as people and models write them: `parse_time_range` reads a range, or says how to write it.

docs/request-context-times.md has a table of the forms. The code is our own, since the libraries for
this guess one moment: dateparser 1.5 reads ``2026-13`` as the 13th of February and ``3`` as a
March; dateutil 2.9 completes ``2026-02`` with today's day. Neither says where a range ends, and
neither knows ``past 3 days``, ``2026-W07`` or ``a..b``. A search needs exactly the range that was
named, with both ends, in a given time zone, or an error that says how to write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from rehydrate import _native
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TICK = timedelta(microseconds=1)
"""The resolution of `datetime`: a range that includes a moment ends one tick after it."""


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
        if not isinstance(text, str):
            raise UnreadableError(f"it is of type {type(text).__name__}, not text")
        return _checked(clock.read(text), clock.zone)
    except UnreadableError as error:
        why = str(error)
    except (OverflowError, ValueError):  # of datetime's arithmetic
        why = "it lies outside the years 1 to 9999"
    given = repr(text if len(text) <= 60 else f"{text[:57]}...") if isinstance(text, str) else ""
    today = clock.now.date()
    week = f"{today - timedelta(min(7, today.toordinal() - 1))}..{today}"
    raise InvalidArgumentError(
        f"time_range {given}{' ' if given else ''}cannot be used: {why}. Today is "
        f"{WEEKDAYS[today.weekday()].title()}, {today} ({clock.zone}). Send for example "
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


class UnreadableError(Exception):
    """A text that is not a time; its message says why."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The clock of one zone, at one moment.

    >>> noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    >>> after, before = WallClock.of(noon, "Europe/Berlin").read("2026-03-29")
    >>> before - after  # the clocks are put forward that night
    datetime.timedelta(seconds=82800)
    """

    now: datetime
    zone: tzinfo

    @classmethod
    def of(cls, now: datetime, timezone: tzinfo | str) -> WallClock:
        """Make it from an aware datetime, and a zone or its name; raises InvalidArgumentError."""
        zone = zone_of(timezone)
        if not isinstance(now, datetime) or now.tzinfo is None:
            raise InvalidArgumentError(
                f"now is {now!r}, which names no zone; pass datetime.now(datetime.UTC)"
            )
        return cls(now.astimezone(zone), zone)

    def read(self, text: str) -> TimeRange:
        """Return the time or the range that is named: a day is from midnight to midnight, a minute
        60 s. Days and longer units count by the calendar, shorter ones by elapsed time.

        Raises UnreadableError.
        """
        found = _native.read_times(text, (self.now.replace(tzinfo=None) - datetime.min) // TICK)
        if isinstance(found, str):
            raise UnreadableError(found)
        kind, *ends = found
        first, last = (TimeRange() if end is None else self._meant(*end) for end in ends)
        if kind == "one":
            return first
        if kind == "outside":
            return TimeRange(first.before, last.after)
        return TimeRange(first.after, last.before)

    def _meant(self, what: str, first: int, last: int, text: str) -> TimeRange:
        """Return the range of one time, by what the engine says of it."""
        now = self.now.astimezone(UTC)
        if what == "clock":
            # A clock time that occurs twice gives the longer range, one that is skipped the moment
            # of the skip.
            start, end = (datetime.min + each * TICK for each in (first, last))
            after, before = self._instant(start), self._instant(end, last=True)
            if before <= after:
                shown = repr(text if len(text) <= 40 else f"{text[:37]}...")
                raise UnreadableError(f"{shown} never was: the clocks of {self.zone} skipped it")
            return TimeRange(after, before)
        if what == "moments":
            start, end = (datetime.min.replace(tzinfo=UTC) + each * TICK for each in (first, last))
            return TimeRange(start, end)
        if what == "since_clock":
            wall = datetime.min + first * TICK
            return TimeRange(self._instant(wall, last=bool(self.now.fold)), now + TICK)
        moment = now - first * TICK
        if what == "since":
            return TimeRange(moment, now + TICK)
        wall = moment.astimezone(self.zone)
        into = timedelta(minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond)
        after = moment - into % (last * TICK)
        return TimeRange(after, after + last * TICK)

    def _instant(self, wall: datetime, *, last: bool = False) -> datetime:
        """Return when the clock shows this time; ``last``: the second time it does."""
        first, second = (
            wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)
        )
        if first <= second:
            return second if last else first
        # Never shown: the two candidates are on either side of the jump. Bisect to find it.
        low, high = second, first
        offset = low.astimezone(self.zone).utcoffset()
        while high - low > TICK:
            middle = low + (high - low) // 2
            if middle.astimezone(self.zone).utcoffset() == offset:
                low = middle
            else:
                high = middle
        return high


def zone_of(timezone: tzinfo | str) -> tzinfo:
    """Return the zone, given itself or its IANA name; raises InvalidArgumentError.

    >>> zone_of("Europe/Berlin")
    zoneinfo.ZoneInfo(key='Europe/Berlin')
    """
    # pytz gives its zones with the offset of the nineteenth century unless they are localized.
    name = getattr(timezone, "zone", timezone)
    if isinstance(name, str):
        if name == "UTC":  # a machine without the list of zones has it too
            return UTC
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            raise InvalidArgumentError(
                f"timezone is {name[:60]!r}, which is no zone that is known here; pass a name such "
                "as 'Europe/Berlin' (on Windows: pip install tzdata), or a tzinfo"
            ) from None
    if not isinstance(timezone, tzinfo):
        raise InvalidArgumentError(
            f"timezone is of type {type(timezone).__name__}; pass a tzinfo or a name"
        )
    return timezone
