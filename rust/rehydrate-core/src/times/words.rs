//! The forms in which a time is written. The first form that a text has counts.
use std::ops::Range;

use once_cell::race::OnceBox;
use regex::{Captures, Regex};

use super::calendar::{date, month_length, month_number, month_start, weekday, year_start};
use super::names::{
    DAY, HOUR, MINUTE, PARTS, Result, SECOND, Unit, WEEKDAYS, checked_date, count_of, has_digits, is_date, is_day,
    is_month, iso_day, month_of, number, offset_of, parts, refused, refused_text, title, week_date, weekday_of,
    year_of,
};

/// Longer than any time: a date may have a weekday before it, and that another one.
const MAX_BYTES: usize = 16 << 10;
/// The first day of the year 10000.
const DAYS: i64 = 3_652_059;

/// The meaning of a text. Times are in microseconds since the beginning of the year 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// From one time of the zone's clock to another.
    Clock(Range<i64>),
    /// From one moment to another, in UTC.
    Moments(Range<i64>),
    /// From a time of the zone's clock until now.
    SinceClock(i64),
    /// From this long ago until now.
    Since(i64),
    /// The second, minute or hour of a moment in the past, and its length.
    Around(i64, i64),
}

/// Read the whole time that is named: a day from midnight to midnight, a minute's 60 seconds.
///
/// `now` is the time of the zone's clock.
///
/// # Errors
/// `Unreadable`, with the reason.
pub(super) fn read_time(text: &str, now: i64) -> Result<Meaning> {
    if text.len() > MAX_BYTES {
        return refused_text(text, " isn't a time that is known here");
    }
    let clock = Clock { now, today: now.div_euclid(DAY) };
    if let Some(day) = clock.day(text)? {
        return days(day, 1);
    }
    let words: Vec<&str> = text.split(' ').collect();
    for form in [Clock::now, Clock::year_or_month, Clock::week, Clock::unit, Clock::past, Clock::ago] {
        if let Some(meaning) = form(&clock, text, &words)? {
            return Ok(meaning);
        }
    }
    if let Some(day) = text.strip_prefix("week ").filter(|day| !day.is_empty())
        && let Some(day) = clock.day(day)?
    {
        return days(day - weekday(day), 7);
    }
    if let Some(meaning) = clock.part(text)? {
        return Ok(meaning);
    }
    match clock.time(text)? {
        Some(meaning) => Ok(meaning),
        None => refused_text(text, " isn't a time that is known here"),
    }
}

/// Whole days, from midnight to midnight.
fn days(first: i64, count: i64) -> Result<Meaning> {
    if (0..DAYS).contains(&first) { between(first * DAY, (first + count) * DAY) } else { outside() }
}

/// The days from one to another.
fn days_until(first: i64, end: i64) -> Result<Meaning> {
    days(first, end - first)
}

fn between(first: i64, end: i64) -> Result<Meaning> {
    Ok(Meaning::Clock(within_years(first)?..within_years(end)?))
}

fn within_years(time: i64) -> Result<i64> {
    if (0..DAYS * DAY).contains(&time) { Ok(time) } else { outside() }
}

fn outside<T>() -> Result<T> {
    refused("it's outside the years 1 to 9999")
}

/// Reads times as of one time of the zone's clock.
struct Clock {
    now: i64,
    today: i64,
}

impl Clock {
    /// The day that a text names.
    fn day(&self, text: &str) -> Result<Option<i64>> {
        let today = self.today;
        let words: Vec<&str> = text.split(' ').collect();
        let named = match *words {
            ["today"] => today,
            ["yesterday"] => today - 1,
            ["day", "before", "yesterday"] => today - 2,
            [word] if is_date(word) => {
                let [year, month, day] = parts(word);
                self.date(Some(year), month, day)?
            }
            [word] if week_date(word).is_some_and(|(_, _, weekday)| weekday.is_some()) => iso_day(word)?,
            [word] if weekday_of(word).is_some() => self.weekday("", word),
            [which @ ("last" | "this"), word] if weekday_of(word).is_some() => self.weekday(which, word),
            [day, month, ref year @ ..] if is_day(day, month, year) => self.date(year.first().copied(), month, day)?,
            [month, day, ref year @ ..] if is_day(day, month, year) => self.date(year.first().copied(), month, day)?,
            [count, "day" | "days", "ago"] if count_of(count).is_some() => today - count_of(count).unwrap_or_default(),
            [word, ..]
                if weekday_of(word).is_some() && text[word.len()..].contains(|char: char| char.is_ascii_digit()) =>
            {
                // A date after its weekday: both have to be right.
                let Some(day) = self.day(&text[word.len() + 1..])? else { return Ok(None) };
                if weekday_of(word) != Some(weekday(day)) {
                    let (year, month, of_month) = date(day);
                    return refused(format!(
                        "{year:04}-{month:02}-{of_month:02} is a {}",
                        title(WEEKDAYS[weekday(day) as usize])
                    ));
                }
                day
            }
            _ => return Ok(None),
        };
        within_years(named * DAY)?;
        Ok(Some(named))
    }

    /// The day of a date; without a year, the last one that has begun.
    fn date(&self, year: Option<&str>, month: &str, day: &str) -> Result<i64> {
        let (month, day) = (month_of(month)?, number(day));
        if let Some(year) = year {
            return checked_date(year_of(year)?, month, day);
        }
        let (this_year, _, _) = date(self.today);
        // A leap day may be eight years away.
        for year in (0.max(this_year - 9) + 1..=this_year).rev() {
            let found = month_start(month_number(year, month)) + day - 1;
            if (1..=month_length(year, month)).contains(&day) && found <= self.today {
                return Ok(found);
            }
        }
        checked_date(2024, month, day) // no year has it: says so
    }

    fn weekday(&self, which: &str, word: &str) -> i64 {
        let wanted = weekday_of(word).unwrap_or_default();
        if which == "this" {
            return self.today + wanted - weekday(self.today);
        }
        match (weekday(self.today) - wanted).rem_euclid(7) {
            0 if which == "last" => self.today - 7,
            back => self.today - back,
        }
    }

    fn now(&self, text: &str, _: &[&str]) -> Result<Option<Meaning>> {
        Ok((text == "now").then_some(Meaning::Since(0)))
    }

    /// A year, or a month with a year or without.
    fn year_or_month(&self, text: &str, words: &[&str]) -> Result<Option<Meaning>> {
        let (this_year, this_month, _) = date(self.today);
        let (which, month, year) = match *words {
            [year] if has_digits(year, 4..=4) => {
                let year = year_of(year)?;
                return between_years(year).map(Some);
            }
            [word]
                if word
                    .split_once('-')
                    .is_some_and(|(year, month)| has_digits(year, 4..=4) && has_digits(month, 1..=2)) =>
            {
                let (year, month) = word.split_once('-').unwrap_or_default();
                ("", month, Some(year))
            }
            [month] if is_month(month) => ("", month, None),
            [which @ ("last" | "this"), month] if is_month(month) => (which, month, None),
            [month, year] if is_month(month) && has_digits(year, 4..=4) => ("", month, Some(year)),
            [which @ ("last" | "this"), month, year] if is_month(month) && has_digits(year, 4..=4) => {
                (which, month, Some(year))
            }
            _ => return Ok(None),
        };
        let month = month_of(month)?;
        if let Some(year) = year {
            if !which.is_empty() {
                return refused_text(text, " names a year and counts from today");
            }
            return months(month_number(year_of(year)?, month)).map(Some);
        }
        if which == "this" {
            return months(month_number(this_year, month)).map(Some);
        }
        let back = match (this_month - month).rem_euclid(12) {
            0 if which == "last" => 12,
            back => back,
        };
        months(month_number(this_year, this_month) - back).map(Some)
    }

    /// A week of the calendar, by its number.
    fn week(&self, text: &str, _: &[&str]) -> Result<Option<Meaning>> {
        match week_date(text) {
            Some((_, _, None)) => {
                let day = iso_day(text)?;
                days(day - weekday(day), 7).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A unit of the calendar: "last week" is Monday to Sunday, not the past seven days.
    fn unit(&self, _: &str, words: &[&str]) -> Result<Option<Meaning>> {
        let [which @ ("last" | "this"), unit] = *words else { return Ok(None) };
        let back = i64::from(which == "last");
        let (year, month, _) = date(self.today);
        let monday = self.today - weekday(self.today) - 7 * back;
        match unit {
            "month" => months(month_number(year, month) - back).map(Some),
            "year" => between_years(year - back).map(Some),
            "weekend" => days(monday + 5, 2).map(Some),
            "week" => days(monday, 7).map(Some),
            _ => Ok(None),
        }
    }

    fn past(&self, text: &str, words: &[&str]) -> Result<Option<Meaning>> {
        let (count, unit) = match *words {
            ["past" | "last" | "previous", unit] => (Some(1), unit),
            ["past" | "last" | "previous", count, unit] => (count_of(count), unit),
            _ => return Ok(None),
        };
        match (count, Unit::of(unit)) {
            (Some(0), Some(_)) => refused_text(text, " isn't a time; count from 1"),
            (Some(count), Some(unit)) => self.since(count, unit).map(Some),
            _ => Ok(None),
        }
    }

    /// From `count` units ago. Days and longer units count by the calendar, shorter ones by elapsed time. A month
    /// before the 31st is the last day of a shorter month.
    fn since(&self, count: i64, unit: Unit) -> Result<Meaning> {
        let (year, month, of_month) = date(self.today);
        let months = match unit {
            Unit::Second | Unit::Minute | Unit::Hour => return Ok(Meaning::Since(elapsed(count, unit)?)),
            Unit::Day => return within_years(self.now - count * DAY).map(Meaning::SinceClock),
            Unit::Week => return within_years(self.now - count * 7 * DAY).map(Meaning::SinceClock),
            Unit::Month => month_number(year, month) - count,
            Unit::Year => month_number(year - count, month),
        };
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        if year < 1 {
            return outside();
        }
        let day = month_start(months) + of_month.min(month_length(year, month)) - 1;
        Ok(Meaning::SinceClock(day * DAY + self.now.rem_euclid(DAY)))
    }

    fn ago(&self, _: &str, words: &[&str]) -> Result<Option<Meaning>> {
        let [count, unit, "ago"] = *words else { return Ok(None) };
        let (Some(count), Some(unit)) = (count_of(count), Unit::of(unit)) else { return Ok(None) };
        let (year, month, _) = date(self.today);
        match unit {
            // From the first, which each of them has.
            Unit::Month => months(month_number(year, month) - count).map(Some),
            Unit::Year => between_years(year - count).map(Some),
            Unit::Week => {
                let day = self.today - 7 * count;
                within_years(day * DAY)?;
                days(day - weekday(day), 7).map(Some)
            }
            _ => Ok(Some(Meaning::Around(elapsed(count, unit)?, unit.length()))),
        }
    }

    /// A part of a day.
    fn part(&self, text: &str) -> Result<Option<Meaning>> {
        let (named, part) = match text.rsplit_once(' ') {
            _ if text == "tonight" => ("", "night"),
            Some((named, part)) => (named, part),
            None => ("", text),
        };
        let Some((_, first, end)) = PARTS.into_iter().find(|(name, ..)| *name == part) else { return Ok(None) };
        if named.is_empty() && text.starts_with(' ') {
            return Ok(None);
        }
        let day = match named {
            "" | "this" | "tonight" => Some(self.today),
            "last" if part == "night" => Some(self.today - 1),
            "last night" => Some(self.today - 1),
            _ => self.day(named)?,
        };
        day.map(|day| between(day * DAY + first * HOUR, day * DAY + end * HOUR)).transpose()
    }

    /// A time of day: the whole hour, minute or second that it names.
    fn time(&self, text: &str) -> Result<Option<Meaning>> {
        let Some((day, has_t, time)) = time_of_day(text) else { return Ok(None) };
        let Some(day) = self.day(day)? else { return Ok(None) };
        let part = |name: &str| time.name(name).map(|part| part.as_str());
        let half = part("half");
        if !has_t && part("minute").is_none() && half.is_none() {
            return refused_text(text, " isn't a time; write the hour as 14:00");
        }
        let [mut hour, minute, second] = ["hour", "minute", "second"].map(|name| part(name).map_or(0, number));
        if let Some(half) = half {
            hour = if (1..=12).contains(&hour) { hour % 12 + if half == "pm" { 12 } else { 0 } } else { 24 };
        }
        if hour > 23 || minute > 59 || second > 59 {
            return refused_text(text, ": the hours of a day are 00:00 to 23:59");
        }
        let fraction = part("fraction").map_or("", |digits| &digits[..digits.len().min(6)]);
        let tick = 10_i64.pow(6 - fraction.len() as u32);
        let start = day * DAY + hour * HOUR + minute * MINUTE + second * SECOND + number(fraction) * tick;
        let length = match () {
            () if !fraction.is_empty() => tick,
            () if part("second").is_some() => SECOND,
            () if part("minute").is_some() => MINUTE,
            () => HOUR,
        };
        match part("offset") {
            Some(offset) => {
                let start = start - offset_of(offset)?;
                Ok(Some(Meaning::Moments(within_years(start)?..within_years(start + length)?)))
            }
            None => between(start, start + length).map(Some),
        }
    }
}

/// So many units, each as long as the other.
fn elapsed(count: i64, unit: Unit) -> Result<i64> {
    count.checked_mul(unit.length()).map_or_else(outside, Ok)
}

/// A month, by its number from year 0 on.
fn months(number: i64) -> Result<Meaning> {
    days_until(month_start(number), month_start(number + 1))
}

fn between_years(year: i64) -> Result<Meaning> {
    days_until(year_start(year), year_start(year + 1))
}

/// A text that ends with a time of day: the text before it, whether that ends with a date's `t`, and the time.
fn time_of_day(text: &str) -> Option<(&str, bool, Captures<'_>)> {
    static TIME: OnceBox<Regex> = OnceBox::new();
    let time = TIME.get_or_init(|| {
        let source = concat!(
            r"\A(?<hour>[0-9]{1,2})",
            r"(?::(?<minute>[0-9]{2})(?::(?<second>[0-9]{2})(?:[.,](?<fraction>[0-9]{1,9}))?)?)?",
            r" ?(?<half>am|pm)? ?(?<offset>z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?)?\z",
        );
        Box::new(Regex::new(source).expect("it is written correctly"))
    });
    let places = text.char_indices().skip(1).map(|(at, _)| at);
    places.filter(|&at| matches!(text.as_bytes()[at], b't' | b' ')).find_map(|at| {
        let (day, rest) = text.split_at(at);
        let has_t = rest.starts_with('t');
        if has_t && !day.ends_with(|char: char| char.is_ascii_digit()) {
            return None;
        }
        let at_time = rest.strip_prefix(" at ").and_then(|rest| time.captures(rest));
        at_time.or_else(|| time.captures(&rest[1..])).map(|time| (day, has_t, time))
    })
}

#[cfg(test)]
mod tests {
    use super::super::names::Unreadable;
    use super::*;

    /// Wednesday, 2026-02-18, 15:00.
    const NOW: i64 = 739_664 * DAY + 15 * HOUR;

    fn shown(time: i64) -> String {
        let (year, month, day) = date(time.div_euclid(DAY));
        let seconds = time.rem_euclid(DAY) / SECOND;
        format!("{year}-{month:02}-{day:02} {:02}:{:02}", seconds / 3600, seconds / 60 % 60)
    }

    fn read(text: &str) -> String {
        match read_time(text, NOW) {
            Ok(Meaning::Clock(range)) => format!("{} to {}", shown(range.start), shown(range.end)),
            Ok(Meaning::Moments(range)) => format!("{} to {} UTC", shown(range.start), shown(range.end)),
            Ok(Meaning::SinceClock(time)) => format!("since {}", shown(time)),
            Ok(Meaning::Since(length)) => format!("{} s", length / SECOND),
            Ok(Meaning::Around(length, unit)) => format!("around {} s, {} s", length / SECOND, unit / SECOND),
            Err(Unreadable { subject, why }) => format!("! {subject}{why}"),
        }
    }

    #[test]
    fn days_and_longer_units_are_those_of_the_calendar() {
        for (text, expected) in [
            ("today", "2026-02-18 00:00 to 2026-02-19 00:00"),
            ("last wed", "2026-02-11 00:00 to 2026-02-12 00:00"),
            ("this sunday", "2026-02-22 00:00 to 2026-02-23 00:00"),
            ("29 feb", "2024-02-29 00:00 to 2024-03-01 00:00"),
            ("tues 17 feb 2026", "2026-02-17 00:00 to 2026-02-18 00:00"),
            ("2026-w07-2", "2026-02-10 00:00 to 2026-02-11 00:00"),
            ("week yesterday", "2026-02-16 00:00 to 2026-02-23 00:00"),
            ("last weekend", "2026-02-14 00:00 to 2026-02-16 00:00"),
            ("sept", "2025-09-01 00:00 to 2025-10-01 00:00"),
            ("two months ago", "2025-12-01 00:00 to 2026-01-01 00:00"),
            ("last night", "2026-02-17 20:00 to 2026-02-18 05:00"),
            ("friday morning", "2026-02-13 05:00 to 2026-02-13 12:00"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn times_of_day_are_as_long_as_they_are_exact() {
        for (text, expected) in [
            ("2026-02-17t08", "2026-02-17 08:00 to 2026-02-17 09:00"),
            ("yesterday at 3 pm", "2026-02-17 15:00 to 2026-02-17 16:00"),
            ("2026-02-17 08:30+01:30", "2026-02-17 07:00 to 2026-02-17 07:01 UTC"),
            ("now", "0 s"),
            ("past 3 days", "since 2026-02-15 15:00"),
            ("past 2 weeks", "since 2026-02-04 15:00"),
            ("past 12 months", "since 2025-02-18 15:00"),
            ("past 30 minutes", "1800 s"),
            ("an hour ago", "around 3600 s, 3600 s"),
            ("2 weeks ago", "2026-02-02 00:00 to 2026-02-09 00:00"),
            ("3000 years ago", "! it's outside the years 1 to 9999"),
            ("past 3000 years", "! it's outside the years 1 to 9999"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused_with_the_reason() {
        for (text, expected) in [
            ("soon", "! soon isn't a time that is known here"),
            ("2026-13", "! there is no month 13; months are 01 to 12"),
            ("30 feb", "! February 2024 has 29 days, no day 30"),
            ("monday 17 feb 2026", "! 2026-02-17 is a Tuesday"),
            ("2026-w54", "! 2026-W54 isn't a week of the calendar: 2026 has 53 weeks, of 7 days"),
            ("today 25:00", "! today 25:00: the hours of a day are 00:00 to 23:59"),
            ("last 0 days", "! last 0 days isn't a time; count from 1"),
            ("999999 years ago", "! it's outside the years 1 to 9999"),
            ("today 08:00+99", "! no zone is +99 from UTC"),
            ("2026-02-17é08", "! 2026-02-17é08 isn't a time that is known here"),
            ("", "!  isn't a time that is known here"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
