"""parse_time_range: what each form names, in zones whose days are not all alike, and bad input."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from rehydrate._native import zone_of
from rehydrate.context import parse_time_range
from rehydrate.context.time_words import describe
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import TimeRange

# A Tuesday; in Berlin it is 16:40 on the clock.
NOW = datetime(2026, 11, 24, 15, 40, 7, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"]


def read(text: str, zone: str | tzinfo = "Europe/Berlin", now: datetime = NOW) -> TimeRange:
    return parse_time_range(text, now, zone)


def said(text: str) -> str:
    return describe(read(text), BERLIN).removesuffix(" (Europe/Berlin)")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("2026-02-17", "Tue 2026-02-17"),
        ("2026-2-7", "Sat 2026-02-07"),
        ("2026-02", "Sun 2026-02-01 to Sat 2026-02-28"),
        ("2024-02", "Thu 2024-02-01 to Thu 2024-02-29"),
        ("2026", "Thu 2026-01-01 to Thu 2026-12-31"),
        ("2026-W07", "Mon 2026-02-09 to Sun 2026-02-15"),
        ("2026-W53", "Mon 2026-12-28 to Sun 2027-01-03"),
        ("2026-W07-2", "Tue 2026-02-10"),
        ("2026-02-17..2026-02-19", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("2026-02-17/2026-02-19", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("2026-02-17 to 2026-02-19", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("2026-02-17 – 2026-02-19", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("2026‑02‑17…2026‑02‑19", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("between 17 feb 2026 and 19 feb 2026", "Tue 2026-02-17 to Thu 2026-02-19"),
        ("from 2025 until 2026-02", "Wed 2025-01-01 to Sat 2026-02-28"),
        ("2026-02-17..", "since Tue 2026-02-17"),
        ("since 2026-02-17", "since Tue 2026-02-17"),
        ("from 2026-02-17", "since Tue 2026-02-17"),
        ("after 2026-02-17", "since Wed 2026-02-18"),
        ("after the day before yesterday", "since Mon 2026-11-23"),
        ("..2026-02-17", "until Tue 2026-02-17"),
        ("until 2026-02-17", "until Tue 2026-02-17"),
        ("before 2026-02-17", "until Mon 2026-02-16"),
        ("after 2026-02-01 and before 2026-02-10", "Mon 2026-02-02 to Mon 2026-02-09"),
        ("after Thursday before Sunday", "Fri 2026-11-20 to Sat 2026-11-21"),
        ("today", "Tue 2026-11-24"),
        ("yesterday", "Mon 2026-11-23"),
        ("the day before yesterday", "Sun 2026-11-22"),
        ("tuesday", "Tue 2026-11-24"),
        ("last tuesday", "Tue 2026-11-17"),
        ("on Tuesday", "Tue 2026-11-24"),
        ("wednesday", "Wed 2026-11-18"),
        ("last wednesday", "Wed 2026-11-18"),
        ("this wednesday", "Wed 2026-11-25"),
        ("this week", "Mon 2026-11-23 to Sun 2026-11-29"),
        ("last week", "Mon 2026-11-16 to Sun 2026-11-22"),
        ("week of 17 february 2026", "Mon 2026-02-16 to Sun 2026-02-22"),
        ("last weekend", "Sat 2026-11-21 to Sun 2026-11-22"),
        ("this month", "Sun 2026-11-01 to Mon 2026-11-30"),
        ("last month", "Thu 2026-10-01 to Sat 2026-10-31"),
        ("last year", "Wed 2025-01-01 to Wed 2025-12-31"),
        ("this year", "Thu 2026-01-01 to Thu 2026-12-31"),
        ("3 days ago", "Sat 2026-11-21"),
        ("3d ago", "Sat 2026-11-21"),
        ("eleven days ago", "Fri 2026-11-13"),
        ("a week ago", "Mon 2026-11-16 to Sun 2026-11-22"),
        ("2 months ago", "Tue 2026-09-01 to Wed 2026-09-30"),
        ("a year ago", "Wed 2025-01-01 to Wed 2025-12-31"),
        ("february", "Sun 2026-02-01 to Sat 2026-02-28"),
        ("december", "Mon 2025-12-01 to Wed 2025-12-31"),
        ("november", "Sun 2026-11-01 to Mon 2026-11-30"),
        ("last november", "Sat 2025-11-01 to Sun 2025-11-30"),
        ("this december", "Tue 2026-12-01 to Thu 2026-12-31"),
        ("february 2026", "Sun 2026-02-01 to Sat 2026-02-28"),
        ("17 february 2026", "Tue 2026-02-17"),
        ("Tuesday, the 17th of February 2026", "Tue 2026-02-17"),
        ("Feb. 17", "Tue 2026-02-17"),
        ("24 november", "Tue 2026-11-24"),
        ("25 november", "Tue 2025-11-25"),
        ("29 february", "Thu 2024-02-29"),
        ("monday..today", "Mon 2026-11-23 to Tue 2026-11-24"),
        ("last tuesday..last friday", "Tue 2026-11-17 to Fri 2026-11-20"),
        ("2026-02-17T14:30", "Tue 2026-02-17 14:30:00+0100 to Tue 2026-02-17 14:31:00+0100"),
        ("2026-02-17T14", "Tue 2026-02-17 14:00:00+0100 to Tue 2026-02-17 15:00:00+0100"),
        ("2026-02-17T14:30Z", "Tue 2026-02-17 15:30:00+0100 to Tue 2026-02-17 15:31:00+0100"),
        (
            "2026-02-17 14:30:05-05:00",
            "Tue 2026-02-17 20:30:05+0100 to Tue 2026-02-17 20:30:06+0100",
        ),
        ("yesterday at 3pm", "Mon 2026-11-23 15:00:00+0100 to Mon 2026-11-23 16:00:00+0100"),
        ("yesterday 12:15 am", "Mon 2026-11-23 00:15:00+0100 to Mon 2026-11-23 00:16:00+0100"),
        ("yesterday morning", "Mon 2026-11-23 05:00:00+0100 to Mon 2026-11-23 12:00:00+0100"),
        (
            "last tuesday afternoon",
            "Tue 2026-11-17 12:00:00+0100 to Tue 2026-11-17 18:00:00+0100",
        ),
        ("17 feb 2026 evening", "Tue 2026-02-17 18:00:00+0100 to Wed 2026-02-18 00:00:00+0100"),
        ("this morning", "Tue 2026-11-24 05:00:00+0100 to Tue 2026-11-24 12:00:00+0100"),
        ("last night", "Mon 2026-11-23 20:00:00+0100 to Tue 2026-11-24 05:00:00+0100"),
        ("tonight", "Tue 2026-11-24 20:00:00+0100 to Wed 2026-11-25 05:00:00+0100"),
        ("2 hours ago", "Tue 2026-11-24 14:00:00+0100 to Tue 2026-11-24 15:00:00+0100"),
        ("5 minutes ago", "Tue 2026-11-24 16:35:00+0100 to Tue 2026-11-24 16:36:00+0100"),
        (
            "yesterday morning..yesterday 14:30",
            "Mon 2026-11-23 05:00:00+0100 to Mon 2026-11-23 14:31:00+0100",
        ),
    ],
)
def test_a_text_names_a_range(text: str, meaning: str) -> None:
    assert said(text) == meaning
    assert said(f"  {text.upper()}\t") == meaning


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("past 3 days", timedelta(3)),
        ("last 2 weeks", timedelta(14)),
        ("in the past week", timedelta(7)),
        ("last 24 hours", timedelta(hours=24)),
        ("last 24h", timedelta(hours=24)),
        ("within the past 7d", timedelta(7)),
        ("past hour", timedelta(hours=1)),
        ("last ninety minutes", None),
        ("last 90 minutes", timedelta(minutes=90)),
        ("previous day", timedelta(1)),
        ("past month", timedelta(31)),
        ("past two years", timedelta(730)),
    ],
)
def test_past_counts_back_from_now_and_includes_it(text: str, back: timedelta | None) -> None:
    if back is None:
        with pytest.raises(InvalidArgumentError, match="isn't a time that is known"):
            read(text)
        return
    now = datetime(2026, 8, 30, 12, 30, tzinfo=UTC)
    after, before = read(text, now=now)
    assert after == now - back
    assert before == now + timedelta(microseconds=1)


def test_a_month_back_from_its_last_day_is_the_last_day_of_a_shorter_one() -> None:
    after, _ = read("past month", "UTC", datetime(2026, 3, 31, 9, 0, tzinfo=UTC))
    assert after == datetime(2026, 2, 28, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "text", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("America/New_York", "2026-W10", 7 * 24 - 1),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Pacific/Apia", "2011-12", 30 * 24),
        ("Pacific/Apia", "2011-12-29..2011-12-31", 48),
        ("Pacific/Apia", "2011-12-31", 24),
        ("America/Sao_Paulo", "2018-11-04", 23),  # the clock skips midnight
        ("America/St_Johns", "2010-11-07", 25),  # it shows midnight twice
    ],
)
def test_days_are_those_of_the_zones_clock(zone: str, text: str, hours: float) -> None:
    after, before = read(text, zone)
    assert before - after == timedelta(hours=hours)


def test_a_day_back_is_a_day_by_the_clock_though_it_has_25_hours() -> None:
    now = datetime(2026, 10, 25, 12, 0, tzinfo=UTC)
    assert read("past day", now=now).after == now - timedelta(hours=25)
    assert read("past 24 hours", now=now).after == now - timedelta(hours=24)


def test_the_hour_that_comes_twice_is_two_hours_long_and_its_offset_tells_them_apart() -> None:
    after, before = read("2026-10-25T02")
    assert before - after == timedelta(hours=2)
    assert read("2026-10-25T02+01:00") == (before - timedelta(hours=1), before)


@pytest.mark.parametrize(
    ("zone", "text"), [("Pacific/Apia", "2011-12-30"), ("Europe/Berlin", "2026-03-29T02:30")]
)
def test_what_the_clocks_skipped_is_refused(zone: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"never was: the clocks of {zone} skipped it"):
        read(text, zone)


def test_a_day_may_begin_after_midnight_where_the_clock_skips_it() -> None:
    after, _ = read("2018-11-04", "America/Sao_Paulo")
    assert after == datetime(2018, 11, 4, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("..", "it names no time"),
        ("2026-02-30", "February 2026 has 28 days, no day 30"),
        ("feb 30", "February 2024 has 29 days, no day 30"),
        ("2026-02-00", "no day 0"),
        ("2026-13", "there is no month 13"),
        ("2026-00-01", "there is no month 00"),
        ("2026-W54", "2026 has 53 weeks"),
        ("2025-W53", "2025 has 52 weeks"),
        ("2026-W07-8", "of 7 days"),
        ("0000-01-01", "the year 0000"),
        ("9999", "the year 9999"),
        ("0001", "outside the years"),  # in Berlin it begins in the year 0
        ("past 999999 years", "outside the years 1 to 9999"),
        ("999999 days ago", "outside the years 1 to 9999"),
        ("999999 months ago", "outside the years 1 to 9999"),
        ("past 0 days", "count from 1"),
        ("2026-02-17T24:00", "the hours of a day are 00:00 to 23:59"),
        ("2026-02-17T12:60", "the hours of a day"),
        ("yesterday 13pm", "the hours of a day"),
        ("2026-02-17T12:00+25:00", "no zone is +25:00 from UTC"),
        ("2026-02-19..2026-02-17", "it begins at Thu 2026-02-19 00:00:00+0100"),
        ("last monday..last friday", "name the earlier time first, or write dates"),
        ("17/02/2026", "write the date as 2026-02-17"),
        ("2026/02/17", "write the date as 2026-02-17"),
        ("17.02.2026", "write the date as 2026-02-17"),
        ("2026-02-01/P3D", "'p3d' isn't a time that is known here"),
        ("tomorrow", "'tomorrow' isn't a time that is known here"),
        ("next week", "'next week' isn't a time"),
        ("Monday, 17 february 2026", "2026-02-17 is a Tuesday"),
        ("last february 2026", "names a year and counts from today"),
        ("tuesday 14", "write the hour as 14:00"),
        ("today 14", "write the hour as 14:00"),
        ("this", "'this' isn't a time"),
        ("feb 16-20", "'feb 16-20' isn't a time"),
        ("some day morning", "'some day morning' isn't a time"),
        ("week of billing", "'week billing' isn't a time"),
        ("3", "'3' isn't a time"),
        ("1771286400", "isn't a time"),
        ("billing", "'billing' isn't a time that is known here"),
        ("2026-02-17; drop table", "isn't a time that is known here"),
        ("\ud800", "isn't a time that is known here"),
        ("a" * 1_000_000, f"1,000,000 characters long, {200} at most"),
    ],
)
def test_bad_input_is_refused_in_words_that_a_model_can_act_on(text: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read(text)
    message = str(caught.value)
    assert why in message
    assert text[:20].strip() in message or "\\u" in message
    assert "Today is Tuesday, 2026-11-24 (Europe/Berlin)" in message
    assert "'2026-11-17..2026-11-24'" in message
    assert len(message) < 450
    for example in ("2026-11-24", "2026-11-17..2026-11-24", "last tuesday", "past 3 days"):
        assert f"'{example}'" in message
        assert read(example)


@pytest.mark.parametrize("value", [None, 2026, 1.5, ["2026"], date(2026, 2, 17)])
def test_what_is_no_text_is_refused_with_its_type(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=f"it is of type {type(value).__name__}"):
        read(value)  # type: ignore[arg-type]


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="which names no zone"):
        parse_time_range("today", datetime(2026, 11, 24), "UTC")


@pytest.mark.parametrize(
    ("now", "zone"),
    [
        (datetime.min.replace(tzinfo=UTC), "America/New_York"),
        (datetime.max.replace(tzinfo=UTC), "Asia/Tokyo"),
    ],
)
def test_a_moment_that_no_clock_of_the_zone_shows_is_refused(now: datetime, zone: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"now is .*in {zone} outside the years 1 to"):
        parse_time_range("today", now, zone)
    with pytest.raises(InvalidArgumentError, match="a time of the range is "):
        describe(TimeRange(now, None), zone)
    first = describe(TimeRange(None, datetime.min.replace(tzinfo=UTC)), "UTC")
    assert first == "until Mon 0001-01-01 00:00:00+0000 (UTC)"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "a" * 5000, "\0", 7])
def test_an_unknown_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidArgumentError, match="timezone is"):
        parse_time_range("today", NOW, zone)  # type: ignore[arg-type]


def test_a_zone_of_pytz_means_the_zone_of_its_name() -> None:
    class Pytz(tzinfo):
        zone = "Europe/Berlin"

        def utcoffset(self, _: datetime | None) -> timedelta:
            return timedelta(minutes=53)  # of the nineteenth century, as pytz's are

    assert read("today", Pytz()) == read("today", "Europe/Berlin")


def test_a_fixed_offset_is_a_zone() -> None:
    after, _ = read("2026-02-17", timezone(timedelta(hours=5, minutes=30)))
    assert after == datetime(2026, 2, 16, 18, 30, tzinfo=UTC)


zones = st.sampled_from(ZONES)
moments = st.datetimes(
    datetime(1971, 1, 1), datetime(2037, 12, 31), timezones=st.just(UTC)
)  # each zone's own rules
days = st.dates(date(1971, 1, 1), date(2037, 12, 31)).filter(
    lambda day: day != date(2011, 12, 30)  # Apia's
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any one time that the grammar knows."""
    day = draw(days)
    count = draw(st.integers(1, 30))
    unit = draw(st.sampled_from(["minute", "hour", "day", "week", "month", "year"]))
    weekday = draw(st.sampled_from(["monday", "tuesday", "saturday", "sunday"]))
    month = draw(st.sampled_from(["january", "february", "may", "december"]))
    return draw(
        st.sampled_from(
            [
                *(f"{day}", f"{day:%Y-%m}", f"{day:%Y}", f"{day:%G-W%V}", f"{day}T12:30"),
                *("today", "yesterday", "now", weekday, f"last {weekday}", f"this {weekday}"),
                *("this week", "last week", "this month", "last month", "last weekend"),
                *(f"past {count} {unit}s", f"{count} {unit}s ago", f"last {count} {unit}s"),
                *(month, f"last {month}", f"{month} {day:%Y}", f"{day.day} {month} 2024"),
                *("yesterday morning", f"{weekday} evening", "last night", f"{day} night"),
            ]
        ).filter(lambda text: not text.startswith(("30 feb", "31 feb")))
    )


@given(texts(), moments, zones)
def test_every_range_is_aware_and_not_empty(text: str, now: datetime, zone: str) -> None:
    try:
        after, before = read(text, zone, now)
    except InvalidArgumentError as error:
        assert "skipped it" in str(error)
        return
    assert after is not None
    assert before is not None
    assert after.tzinfo is UTC
    assert before.tzinfo is UTC
    assert after < before
    assert describe(TimeRange(after, before), zone).endswith(f"({zone})")


@given(moments, zones)
def test_a_range_contains_the_moment_that_its_name_says(now: datetime, zone: str) -> None:
    wall = now.astimezone(ZoneInfo(zone))
    names = [
        *("today", "now", "this week", "this month", "this year", "past 1 minute", "past 5 years"),
        *(
            f"{wall.date()}",
            f"{wall:%Y-%m}",
            f"{wall:%G-W%V-%u}",
            f"{wall.isoformat('T', 'minutes')}",
        ),
        *(f"{wall:%A}", f"{wall:%d %B}", f"{wall:%B}", f"{wall:%B %d, %Y}", "0 days ago"),
        *(f"{wall:%Y-%m-%d %H:%M:%S}", f"{now:%Y-%m-%dT%H:%M:%SZ}", "0 hours ago"),
    ]
    for name in names:
        after, before = read(name, zone, now)
        assert after is not None
        assert before is not None
        assert after <= now < before, name


@given(days, zones)
def test_a_day_is_what_the_clock_shows_as_that_day(day: date, zone: str) -> None:
    """The slow twin: look at the clock each quarter of an hour."""
    after, before = read(str(day), zone)
    clock = ZoneInfo(zone)
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=1)
    for _ in range(3 * 96):
        moment += timedelta(minutes=15)
        assert (moment.astimezone(clock).date() == day) == (after <= moment < before)


@given(texts(), texts(), moments, zones)
def test_a_range_of_two_times_is_from_the_first_ones_start_to_the_seconds_end(
    first: str, last: str, now: datetime, zone: str
) -> None:
    try:
        begins, ends = read(first, zone, now).after, read(last, zone, now).before
    except InvalidArgumentError:
        return
    assert begins is not None
    assert ends is not None
    for text in (f"{first}..{last}", f"{first} / {last}", f"from {first} to {last}"):
        if begins < ends:
            assert read(text, zone, now) == (begins, ends)
        else:
            with pytest.raises(InvalidArgumentError, match="has ended by then"):
                read(text, zone, now)
    assert read(f"{first}..", zone, now) == read(f"since {first}", zone, now) == (begins, None)
    assert read(f"..{last}", zone, now) == read(f"until {last}", zone, now) == (None, ends)
    assert read(f"before {first}", zone, now) == (None, begins)
    assert read(f"after {last}", zone, now) == (ends, None)


@given(
    st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
    zones,
)
def test_an_iso_time_with_an_offset_comes_back_exactly(
    wall: datetime, minutes: int, zone: str
) -> None:
    moment = wall.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    after, before = read(moment.isoformat(), zone)
    assert after == moment
    assert before is not None
    assert before - moment == timedelta(microseconds=1 if wall.microsecond else 1e6)


def test_a_fraction_of_a_second_is_as_long_as_it_is_written() -> None:
    after, before = read("2026-02-17T00:00:00.000Z")
    assert after == datetime(2026, 2, 17, tzinfo=UTC)
    assert before - after == timedelta(milliseconds=1)
    after, before = read("2026-02-17T00:00:00.25Z")
    assert before - after == timedelta(milliseconds=10)
    after, before = read("2026-02-17T00:00:00.123456789Z")
    assert before - after == timedelta(microseconds=1)


@given(st.text() | st.text(alphabet="0123456789-/.tTzZ:w+ adeyslo", max_size=40), zones)
def test_any_text_is_a_range_or_an_invalid_argument(text: str, zone: str) -> None:
    try:
        after, before = read(text, zone)
    except InvalidArgumentError as error:
        assert "Today is" in str(error)
    else:
        assert after or before
        assert not (after and before) or after < before


@given(st.datetimes(datetime(1975, 1, 1), datetime(2035, 1, 1)), st.sampled_from(ZONES))
def test_the_clock_reads_between_what_it_was_asked_for(wall: datetime, zone: str) -> None:
    span = read(f"{wall:%Y-%m-%d}..{wall + timedelta(1):%Y-%m-%d}", zone)
    assert span.after is not None
    date_there = span.after.astimezone(ZoneInfo(zone)).date()
    assert date_there in (wall.date(), wall.date() + timedelta(1))


@pytest.mark.parametrize("function", [parse_time_range, describe, zone_of])
def test_the_examples_run(function: Callable[..., Any]) -> None:
    names = {"parse_time_range": parse_time_range, "describe": describe, "zone_of": zone_of}
    parser = doctest.DocTestParser()
    example = parser.get_doctest(function.__doc__ or "", names, "times", None, 0)
    assert example.examples and doctest.DocTestRunner().run(example).failed == 0


def test_a_range_is_described_in_one_line_with_its_zone() -> None:
    assert describe(TimeRange(), "UTC") == "all times (UTC)"
    span = TimeRange(NOW, None)
    assert describe(span, "Europe/Berlin") == "since Tue 2026-11-24 16:40:07+0100 (Europe/Berlin)"
    span = TimeRange(None, NOW)
    assert describe(span, "UTC") == "until Tue 2026-11-24 15:40:07+0000 (UTC)"
