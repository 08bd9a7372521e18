//! The words and numbers in a time: units, weekdays, months, days and years.
use super::calendar::{first_week, month_length, month_number, month_start, weeks};

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;
/// The last year whose end is a time too.
const LAST_YEAR: i64 = 9998;

pub(super) const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const MORE_WEEKDAYS: [&str; 4] = ["tues", "wednes", "thur", "thurs"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const NUMBERS: [&str; 12] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// The parts of a day, and the first and last hour of each; those from 24 on are of the next day.
pub(super) const PARTS: [(&str, i64, i64); 4] =
    [("morning", 5, 12), ("afternoon", 12, 18), ("evening", 18, 24), ("night", 20, 29)];

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    const ALL: [Self; 7] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Its length, if all are of the same length.
    pub const fn length(self) -> i64 {
        match self {
            Self::Second => SECOND,
            Self::Minute => MINUTE,
            Self::Hour => HOUR,
            _ => DAY,
        }
    }

    /// Its name in English.
    const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of a word, in singular or plural.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| word == unit.name() || word.strip_suffix('s') == Some(unit.name()))
    }
}

/// A text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The text that the reason begins with. Empty if it names none.
    pub subject: String,
    pub why: String,
}

pub(super) type Result<T> = std::result::Result<T, Unreadable>;

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    refused_text("", why)
}

pub(super) fn refused_text<T>(subject: &str, why: impl Into<String>) -> Result<T> {
    Err(Unreadable { subject: subject.to_owned(), why: why.into() })
}

pub(super) fn number(digits: &str) -> i64 {
    digits.parse().unwrap_or_default()
}

pub(super) fn has_digits(word: &str, count: std::ops::RangeInclusive<usize>) -> bool {
    count.contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether it is a date such as 2026-02-17.
pub(super) fn is_date(word: &str) -> bool {
    let [year, month, day] = parts(word);
    word.split('-').count() == 3 && has_digits(year, 4..=4) && has_digits(month, 1..=2) && has_digits(day, 1..=2)
}

pub(super) fn parts(word: &str) -> [&str; 3] {
    let mut parts = word.split('-');
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

/// Whether these are a day of a month and perhaps its year.
pub(super) fn is_day(day: &str, month: &str, year: &[&str]) -> bool {
    let is_year = match year {
        [] => true,
        [year] => has_digits(year, 4..=4),
        _ => false,
    };
    has_digits(day, 1..=2) && is_month(month) && is_year
}

/// The year, the number of a week, and of its day, in a text such as 2026-w07-2.
pub(super) fn week_date(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let (year, week) = text.split_once('w')?;
    let year = year.strip_suffix('-').unwrap_or(year);
    let (week, day) = week.split_at_checked(2)?;
    let day = if day.is_empty() { None } else { Some(day.strip_prefix('-').unwrap_or(day)) };
    let is_day = day.is_none_or(|day| has_digits(day, 1..=1));
    (has_digits(year, 4..=4) && has_digits(week, 2..=2) && is_day).then_some((year, week, day))
}

/// The day of such a text. Without a day, that week's Monday.
pub(super) fn iso_day(text: &str) -> Result<i64> {
    let (year, week, day) = week_date(text).unwrap_or_default();
    let (year, week, day) = (year_of(year)?, number(week), day.map_or(1, number));
    if !(1..=weeks(year)).contains(&week) || !(1..=7).contains(&day) {
        let why = format!(" isn't a week of the calendar: {year} has {} weeks, of 7 days", weeks(year));
        return refused_text(&text.to_ascii_uppercase(), why);
    }
    Ok(first_week(year) + 7 * (week - 1) + day - 1)
}

/// The number of a weekday; it may be cut to three letters.
pub(super) fn weekday_of(word: &str) -> Option<i64> {
    let is_name = |name: &&str| word == *name || word == &name[..3];
    let is_short = MORE_WEEKDAYS.contains(&word);
    let found = WEEKDAYS.iter().position(|name| is_name(name) || (is_short && name.starts_with(&word[..3])));
    found.map(|number| number as i64)
}

pub(super) fn is_month(word: &str) -> bool {
    word == "sept" || MONTHS.iter().any(|name| word == *name || word == &name[..3])
}

/// The number of a month, from its name or its digits.
pub(super) fn month_of(word: &str) -> Result<i64> {
    if let Some(place) = MONTHS.iter().position(|name| word.starts_with(&name[..3])) {
        return Ok(place as i64 + 1);
    }
    match number(word) {
        month @ 1..=12 => Ok(month),
        _ => refused(format!("there is no month {word}; months are 01 to 12")),
    }
}

pub(super) fn year_of(digits: &str) -> Result<i64> {
    match number(digits) {
        year @ 1..=LAST_YEAR => Ok(year),
        _ => refused(format!("the year {digits} is none that can be searched")),
    }
}

pub(super) fn count_of(word: &str) -> Option<i64> {
    match NUMBERS.iter().position(|name| *name == word) {
        Some(place) => Some(place as i64 + 1),
        None if matches!(word, "a" | "an") => Some(1),
        None => has_digits(word, 1..=6).then(|| number(word)),
    }
}

pub(super) fn checked_date(year: i64, month: i64, day: i64) -> Result<i64> {
    let length = month_length(year, month);
    if !(1..=length).contains(&day) {
        let name = title(MONTHS[(month - 1) as usize]);
        return refused(format!("{name} {year} has {length} days, no day {day}"));
    }
    Ok(month_start(month_number(year, month)) + day - 1)
}

/// The offset of a zone from UTC.
pub(super) fn offset_of(text: &str) -> Result<i64> {
    let Some(digits) = text.strip_prefix(['+', '-']) else { return Ok(0) };
    let (hours, minutes) = digits.split_at(2);
    let (hours, minutes) = (number(hours), number(minutes.trim_start_matches(':')));
    if hours > 23 || minutes > 59 {
        return refused(format!("no zone is {text} from UTC"));
    }
    let offset = hours * HOUR + minutes * MINUTE;
    Ok(if text.starts_with('-') { -offset } else { offset })
}

pub(super) fn title(word: &str) -> String {
    word[..1].to_ascii_uppercase() + &word[1..]
}
