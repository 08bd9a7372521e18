"""TimeWords: reads one time, as people and models write it, into a time range."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone as fixed_zone, tzinfo
from zoneinfo import ZoneInfo

from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.request import TimeRange

TICK = timedelta(microseconds=1)
"""The resolution of `datetime`: a range that includes a moment ends one tick after it."""


class NoSuchTimeError(Exception):
    """A time that no clock of the zone ever showed."""


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
        return self.between(midnight(first), midnight(first + timedelta(count)))

    def week(self, day: date) -> TimeRange:
        """Return the week of a day, Monday to Sunday."""
        return self.days(day - timedelta(day.weekday()), 7)

    def month(self, number: int) -> TimeRange:
        """Return the month of a number; see `month_number`."""
        return self.between(midnight(first_of(number)), midnight(first_of(number + 1)))

    def year(self, year: int) -> TimeRange:
        """Return a year."""
        return self.between(datetime(year, 1, 1), datetime(year + 1, 1, 1))

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
            number = month_number(day) - count * (12 if unit == "year" else 1)
            first = first_of(number)
            day = first.replace(day=min(day.day, monthrange(first.year, first.month)[1]))
        wall = datetime.combine(day, self.now.time())
        return self._instant(wall, last=bool(self.now.fold))

    def around(self, moment: datetime, unit: str) -> TimeRange:
        """Return the calendar unit in which a moment is."""
        wall = moment.astimezone(self.zone)
        if unit == "week":
            return self.week(wall.date())
        if unit == "month":
            return self.month(month_number(wall.date()))
        if unit == "year":
            return self.year(wall.year)
        if unit == "day":
            return self.days(wall.date())
        seconds = wall.second if unit == "minute" else wall.minute * 60 + wall.second
        if unit == "second":
            seconds = 0
        after = moment.astimezone(UTC) - timedelta(seconds=seconds, microseconds=wall.microsecond)
        return TimeRange(after, after + timedelta(**{f"{unit}s": 1}))

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


def midnight(day: date) -> datetime:
    """Return the start of a day, as a clock time."""
    return datetime.combine(day, time())


def month_number(day: date) -> int:
    """Return the number of its month, counted from year 0.

    >>> first_of(month_number(date(2026, 1, 31)) - 1)
    datetime.date(2025, 12, 1)
    """
    return day.year * 12 + day.month - 1


def first_of(number: int) -> date:
    """Return the first day of the month with this number."""
    return date(number // 12, number % 12 + 1, 1)


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (20, 29)}
"""The first and last hour of each; hours from 24 on are those of the next day."""

_WEEKDAY = "|".join(f"{name[:3]}|{name}" for name in WEEKDAYS) + "|tues|wednes|thur|thurs"
_MONTH = "|".join(f"{name[:3]}|{name}" for name in _MONTHS) + "|sept"
_COUNT = rf"(?P<count>\d{{1,6}}|{'|'.join(_NUMBERS)})"
_UNIT = r"(?P<unit>second|minute|hour|day|week|month|year)s?"
_CLOCK = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r" ?(?P<half>am|pm)? ?(?P<offset>z|utc|gmt|[+-]\d\d(?::?\d\d)?)?"
)
_CLOCK_PARTS = ("hour", "minute", "second")


class UnreadableError(Exception):
    """A text that is not a time; its message says why."""


class TimeWords:
    """Reads times against one clock.

    Each form is a pattern and a function of its match. The first form that matches counts.
    """

    def __init__(self, clock: WallClock) -> None:
        """Read times as of this clock: it knows ``today``."""
        self.clock = clock
        self.days: list[tuple[str, Callable[[re.Match[str]], date | None]]] = [
            (r"today", lambda _: clock.today),
            (r"yesterday", lambda _: clock.today - timedelta(1)),
            (r"day before yesterday", lambda _: clock.today - timedelta(2)),
            (r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", self._date),
            (r"(?P<year>\d{4})-?w(?P<week>\d\d)-?(?P<weekday>\d)", self._week_date),
            (rf"(?:(?P<which>last|this) )?(?P<weekday>{_WEEKDAY})", self._weekday),
            (rf"(?P<day>\d{{1,2}}) (?P<month>{_MONTH})(?: (?P<year>\d{{4}}))?", self._date),
            (rf"(?P<month>{_MONTH}) (?P<day>\d{{1,2}})(?: (?P<year>\d{{4}}))?", self._date),
            (rf"{_COUNT} days? ago", lambda m: clock.today - timedelta(_count(m))),
            (rf"(?:{_WEEKDAY}) (?P<rest>.*\d.*)", self._named_weekday),
        ]
        self.spans: list[tuple[str, Callable[[re.Match[str]], TimeRange | None]]] = [
            (r"now", lambda _: self._until_now(clock.now)),
            (r"(?P<year>\d{4})", lambda m: clock.year(_year(m["year"]))),
            (r"(?P<year>\d{4})-(?P<month>\d{1,2})", self._month),
            (rf"(?:(?P<which>last|this) )?(?P<month>{_MONTH})(?: (?P<year>\d{{4}}))?", self._month),
            (r"(?P<year>\d{4})-?w(?P<week>\d\d)", lambda m: clock.week(self._week_date(m))),
            (r"(?P<which>last|this) (?P<unit>week|month|year|weekend)", self._unit),
            (rf"(?:past|last|previous) (?:{_COUNT} )?{_UNIT}", self._past),
            (rf"{_COUNT} {_UNIT} ago", self._ago),
            (r"week (?P<day>.+)", self._week_around),
            (r"(?P<day>last night|tonight)", self._part),
            (r"(?:(?P<day>.+) )?(?P<part>morning|afternoon|evening|night)", self._part),
            (rf"(?P<day>.+?)(?P<at>(?<=\d)t| at | ){_CLOCK}", self._time),
        ]

    def read(self, text: str) -> TimeRange:
        """Return the whole time that is named: a day from midnight to midnight, a minute's 60 s.

        Raises UnreadableError.
        """
        try:
            day = self._find_day(text)
            if day is not None:
                return self.clock.days(day)
            for pattern, span in self.spans:
                if (found := re.fullmatch(pattern, text, re.ASCII)) and (named := span(found)):
                    return named
        except NoSuchTimeError as error:
            raise UnreadableError(f"{_short(text)} never was: {error}") from None
        raise UnreadableError(f"{_short(text)} is no time that is known here")

    def _find_day(self, text: str) -> date | None:
        for pattern, day in self.days:
            if (found := re.fullmatch(pattern, text, re.ASCII)) and (named := day(found)):
                return named
        return None

    def _date(self, found: re.Match[str]) -> date:
        month, day = _month(found["month"]), int(found["day"])
        today = self.clock.today
        if found["year"] is not None:
            return _checked_date(_year(found["year"]), month, day)
        # The latest that has begun; a leap day may be eight years away.
        for year in range(today.year, max(0, today.year - 9), -1):
            length = monthrange(year, month)[1]
            if 1 <= day <= length and date(year, month, day) <= today:
                return date(year, month, day)
        return _checked_date(2024, month, day)  # no year has it: says so

    def _week_date(self, found: re.Match[str]) -> date:
        groups = found.groupdict()
        year, week, weekday = _year(found["year"]), int(found["week"]), groups.get("weekday")
        try:
            return date.fromisocalendar(year, week, int(weekday or 1))
        except ValueError:
            weeks = date(year, 12, 28).isocalendar().week
            raise UnreadableError(
                f"{_short(found[0].upper())} is no week of the calendar: {year} has {weeks} weeks, "
                "of 7 days"
            ) from None

    def _weekday(self, found: re.Match[str]) -> date:
        today = self.clock.today
        wanted = next(i for i, name in enumerate(WEEKDAYS) if name[:3] == found["weekday"][:3])
        if found["which"] == "this":
            return today + timedelta(wanted - today.weekday())
        back = (today.weekday() - wanted) % 7
        return today - timedelta(back or (7 if found["which"] == "last" else 0))

    def _named_weekday(self, found: re.Match[str]) -> date | None:
        """Read a date after its weekday: both have to be right."""
        day = self._find_day(found["rest"])
        if day and WEEKDAYS[day.weekday()][:3] != found[0][:3]:
            raise UnreadableError(f"{day} is a {WEEKDAYS[day.weekday()].title()}")
        return day

    def _month(self, found: re.Match[str]) -> TimeRange:
        month = _month(found["month"])
        if found["year"] is not None:
            if found.groupdict().get("which"):
                raise UnreadableError(f"{_short(found[0])} names a year and counts from today")
            return self.clock.month(_year(found["year"]) * 12 + month - 1)
        today = self.clock.today
        if found["which"] == "this":
            return self.clock.month(today.year * 12 + month - 1)
        back = (today.month - month) % 12
        if found["which"] == "last":
            back = back or 12
        return self.clock.month(month_number(today) - back)

    def _week_around(self, found: re.Match[str]) -> TimeRange | None:
        day = self._find_day(found["day"])
        return None if day is None else self.clock.week(day)

    def _unit(self, found: re.Match[str]) -> TimeRange:
        """Read a calendar unit: "last week" is Monday to Sunday, not the past seven days."""
        clock, today, back = self.clock, self.clock.today, found["which"] == "last"
        if found["unit"] == "month":
            return clock.month(month_number(today) - back)
        if found["unit"] == "year":
            return clock.year(today.year - back)
        day = today - timedelta(7 * back)
        if found["unit"] == "weekend":
            return clock.days(day + timedelta(5 - day.weekday()), 2)
        return clock.week(day)

    def _past(self, found: re.Match[str]) -> TimeRange:
        count = _count(found)
        if not count:
            raise UnreadableError(f"{_short(found[0])} is no time at all; count from 1")
        return self._until_now(self.clock.back(count, found["unit"]))

    def _until_now(self, after: datetime) -> TimeRange:
        return TimeRange(after.astimezone(UTC), self.clock.now.astimezone(UTC) + TICK)

    def _ago(self, found: re.Match[str]) -> TimeRange:
        unit = found["unit"]
        if unit in ("month", "year"):  # from the first, which each of them has
            number = month_number(self.clock.today) - _count(found) * (12 if unit == "year" else 1)
            return self.clock.month(number) if unit == "month" else self.clock.year(number // 12)
        return self.clock.around(self.clock.back(_count(found), unit), unit)

    def _part(self, found: re.Match[str]) -> TimeRange | None:
        day: date | None
        named, part = found["day"], found.groupdict().get("part") or "night"
        if named in (None, "this", "tonight"):
            day = self.clock.today
        elif named == "last night" or (named == "last" and part == "night"):
            day = self.clock.today - timedelta(1)
        else:
            day = self._find_day(named)
        if day is None:
            return None
        first, end = _PARTS[part]
        start = midnight(day)
        return self.clock.between(start + timedelta(hours=first), start + timedelta(hours=end))

    def _time(self, found: re.Match[str]) -> TimeRange | None:
        """Read a time of day: the whole hour, minute or second that it names."""
        day, (hour, minute, second) = self._find_day(found["day"]), found.group(*_CLOCK_PARTS)
        if day is None:
            return None
        if found["at"] != "t" and minute is None and not found["half"]:
            raise UnreadableError(f"{_short(found[0])} is no time; write the hour as 14:00")
        hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
        if found["half"]:
            hours = hours % 12 + 12 * (found["half"] == "pm") if 1 <= hours <= 12 else 24
        if hours > 23 or minutes > 59 or seconds > 59:
            raise UnreadableError(f"{_short(found[0])}: the hours of a day are 00:00 to 23:59")
        fraction = (found["fraction"] or "")[:6]
        start = midnight(day) + timedelta(
            hours=hours, minutes=minutes, seconds=seconds, microseconds=int(fraction.ljust(6, "0"))
        )
        if fraction:
            length = TICK * 10 ** (6 - len(fraction))
        else:
            length = timedelta(seconds=1 if second else 60 if minute else 3600)
        if found["offset"]:
            instant = start.replace(tzinfo=_offset(found["offset"])).astimezone(UTC)
            return TimeRange(instant, instant + length)
        return self.clock.between(start, start + length)


def _count(found: re.Match[str]) -> int:
    count: str = found["count"] or "one"
    return _NUMBERS.get(count) or int(count)


def _month(text: str) -> int:
    if not text.isdigit():
        return next(i for i, name in enumerate(_MONTHS, 1) if name[:3] == text[:3])
    if not 1 <= int(text) <= 12:
        raise UnreadableError(f"there is no month {text}; months are 01 to 12")
    return int(text)


def _year(text: str) -> int:
    if not 1 <= int(text) <= 9998:
        raise UnreadableError(f"the year {text} is none that can be searched")
    return int(text)


def _checked_date(year: int, month: int, day: int) -> date:
    length = monthrange(year, month)[1]
    if not 1 <= day <= length:
        raise UnreadableError(
            f"{_MONTHS[month - 1].title()} {year} has {length} days, no day {day}"
        )
    return date(year, month, day)


def _offset(text: str) -> tzinfo:
    digits = text[1:].replace(":", "").ljust(4, "0") if text[0] in "+-" else "0000"
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if minutes >= 24 * 60 or int(digits[2:]) > 59:
        raise UnreadableError(f"no zone is {text} from UTC")
    return fixed_zone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
