"""WallClock: the clock of one zone, which reads a time, as people and models write it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from rehydrate import _native
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

TICK = timedelta(microseconds=1)
"""The resolution of `datetime`: a range that includes a moment ends one tick after it."""


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


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
