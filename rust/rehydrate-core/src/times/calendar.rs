//! The calendar, by days since 0001-01-01, which was a Monday.

/// Months of a year.
const MONTHS: i64 = 12;

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The first day of a year.
pub(super) fn year_start(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400)
}

/// The first day of a month, by its number from year 0 on: twelve times the year, and 0 to 11.
pub(super) fn month_start(number: i64) -> i64 {
    let (year, month) = (number.div_euclid(MONTHS), number.rem_euclid(MONTHS));
    (1..=month).map(|month| month_length(year, month)).sum::<i64>() + year_start(year)
}

pub(super) fn month_number(year: i64, month: i64) -> i64 {
    year * MONTHS + month - 1
}

/// The year, the month and the day of the month.
pub(super) fn date(day: i64) -> (i64, i64, i64) {
    let mut year = (day * 400).div_euclid(146_097) + 1;
    while year_start(year) > day {
        year -= 1;
    }
    while year_start(year + 1) <= day {
        year += 1;
    }
    let (mut month, mut left) = (1, day - year_start(year));
    while left >= month_length(year, month) {
        left -= month_length(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

/// 0 for a Monday.
pub(super) fn weekday(day: i64) -> i64 {
    day.rem_euclid(7)
}

/// The Monday of the first week of a year: the week with the first Thursday.
pub(super) fn first_week(year: i64) -> i64 {
    let fourth = year_start(year) + 3;
    fourth - weekday(fourth)
}

/// The number of weeks in a year.
pub(super) fn weeks(year: i64) -> i64 {
    (first_week(year + 1) - first_week(year)) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_its_date() {
        let (mut year, mut month, mut of_month) = (1, 1, 1);
        for day in 0..800_000 {
            assert_eq!(date(day), (year, month, of_month));
            assert_eq!(month_start(month_number(year, month)) + of_month - 1, day);
            of_month += 1;
            if of_month > month_length(year, month) {
                (month, of_month) = (month + 1, 1);
            }
            if month > MONTHS {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        assert_eq!((date(first_week(2026)), weeks(2026)), ((2025, 12, 29), 53));
        assert_eq!((date(first_week(2024)), weeks(2024)), ((2024, 1, 1), 52));
        assert_eq!(weekday(year_start(2026)), 3);
    }
}
