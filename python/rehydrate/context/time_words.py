"""WallClock: the clock of one zone, which reads a time, as people and models write it."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from rehydrate import _native
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

TICK = timedelta(microseconds=1)
"""The resolution of `datetime`: a range that includes a moment ends one tick after it."""


class NoSuchTimeError(Exception):
    """A time that no clock of the zone ever showed."""


class UnreadableError(Exception):
    """A text that is not a time; its message says why."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The clock of one zone, at one moment.

    >>> noon = datetime(2026, 3, 29, 12, tzinfo=UTC)
    >>> after, before = WallClock.of(noon, "Europe/Berlin").days(date(2026, 3, 29))
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

    @property
    def name(self) -> str:
        """The zone's name."""
        return str(self.zone)

    @property
    def today(self) -> date:
        """The current date in the zone."""
        return self.now.date()

    def between(self, first: datetime, end: datetime) -> TimeRange:
        """Return the range from one clock time to another, which it excludes.

        A clock time that occurs twice gives the longer range. One that the clock skips means the
        moment of the skip. Raises NoSuchTimeError where the whole range is skipped.
        """
        after, before = self._instant(first), self._instant(end, last=True)
        if before <= after:
            raise NoSuchTimeError(f"the clocks of {self.name} skipped it")
        return TimeRange(after, before)

    def days(self, first: date, count: int = 1) -> TimeRange:
        """Return whole days, from midnight to midnight."""
        first, end = (datetime.combine(day, time()) for day in (first, first + timedelta(count)))
        return self.between(first, end)

    def back(self, count: int, unit: str) -> datetime:
        """Return the moment ``count`` units ago.

        Days and longer units count by the calendar, shorter ones by elapsed time. A month before
        the 31st is the last day of a shorter month.
        """
        if unit in ("second", "minute", "hour"):
            return self.now.astimezone(UTC) - timedelta(**{f"{unit}s": count})
        day = self.today
        if unit in ("day", "week"):
            day -= timedelta(count * (7 if unit == "week" else 1))
        else:
            months = day.year * 12 + day.month - 1 - count * (12 if unit == "year" else 1)
            year, month = months // 12, months % 12 + 1
            day = date(year, month, min(day.day, monthrange(year, month)[1]))
        wall = datetime.combine(day, self.now.time())
        return self._instant(wall, last=bool(self.now.fold))

    def around(self, moment: datetime, unit: str) -> TimeRange:
        """Return the second, minute, hour or week of the calendar in which a moment is."""
        wall = moment.astimezone(self.zone)
        if unit == "week":
            return self.days(wall.date() - timedelta(wall.weekday()), 7)
        seconds = wall.second if unit == "minute" else wall.minute * 60 + wall.second
        if unit == "second":
            seconds = 0
        after = moment.astimezone(UTC) - timedelta(seconds=seconds, microseconds=wall.microsecond)
        return TimeRange(after, after + timedelta(**{f"{unit}s": 1}))

    def read(self, text: str) -> TimeRange:
        """Return the whole time that is named: a day from midnight to midnight, a minute's 60 s.

        Raises UnreadableError.
        """
        found = _native.read_time(text, (self.now.replace(tzinfo=None) - datetime.min) // TICK)
        if len(found) == 2:
            subject, why = found
            raise UnreadableError(f"{_short(subject)}{why}" if subject else why)
        what, first, last = found
        try:
            if isinstance(last, str):
                moment = self.back(first, last)
                if what == "around":
                    return self.around(moment, last)
                return TimeRange(moment.astimezone(UTC), self.now.astimezone(UTC) + TICK)
            start, end = (datetime.min + each * TICK for each in (first, last))
            if what == "clock":
                return self.between(start, end)
            return TimeRange(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
        except NoSuchTimeError as error:
            raise UnreadableError(f"{_short(text)} never was: {error}") from None

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


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
