//! Times as people and models write them, for Python: a range by the clock of a zone, or an error that says how to
//! write it.
//!
//! The code is our own, since the libraries for this guess one moment: dateparser 1.5 reads `2026-13` as the 13th of
//! February and `3` as a March; dateutil 2.9 completes `2026-02` with today's day. Neither says where a range ends, and
//! neither knows `past 3 days`, `2026-W07` or `a..b`. A search needs exactly the named range, with both ends, in a
//! given time zone, or an error that says how to write it.
use pyo3::exceptions::{PyLookupError, PyOSError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyString};
use rehydrate_core::times::{self, End, Meaning, RangeKind, Unreadable};

use crate::checks::{refused, type_name, written};
use crate::convert::{NamedTuple, Text};
use crate::exit::Running;
use crate::interned::interned;

type Any<'py> = Bound<'py, PyAny>;

/// A moment: microseconds of UTC since the year 1 began.
type Moment = i64;
/// From a moment on, and before another.
type Span = (Option<Moment>, Option<Moment>);

const MINUTE: i64 = 60_000_000;
const DAY: i64 = 24 * 60 * MINUTE;
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// The most characters of a text in an error. Of a part of it that isn't a time, fewer are shown.
const SHOWN: usize = 60;
const PART_SHOWN: usize = 40;

/// Return the range from `after` (inclusive) to `before` (exclusive), in UTC.
///
/// ``now`` is an aware datetime. Days and longer units are those of ``timezone``. Raises InvalidArgumentError with the reason,
/// today's date and examples, so that a model can correct it.
///
/// >>> from datetime import UTC, datetime
/// >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)  # a Wednesday
/// >>> after, before = parse_time_range("last tuesday", now, "Europe/Berlin")
/// >>> after.isoformat(), before.isoformat()
/// ('2026-02-16T23:00:00+00:00', '2026-02-17T23:00:00+00:00')
#[pyfunction]
pub fn parse_time_range<'py>(text: &Any<'py>, now: &Any<'py>, timezone: &Any<'py>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let clock = Clock::new(now, timezone)?;
    let given = text.cast::<PyString>();
    let read = match &given {
        Ok(text) => clock.read(text),
        Err(_) => Err(Problem::Unreadable(format!("it is of type {}, not text", type_name(text)))),
    };
    let why = match read.and_then(|span| Ok(clock.datetimes.range(span)?)) {
        Ok(range) => return Ok(range),
        Err(Problem::Unreadable(why)) => why,
        // The arithmetic of datetime raised it.
        Err(Problem::Python(error)) if is_out_of_range(text.py(), &error) => "it's outside the years 1 to 9999".into(),
        Err(Problem::Python(error)) => return Err(error),
    };
    let given = given.map_or(Ok(String::new()), |text| Ok::<_, PyErr>(format!("{} ", quoted(text, SHOWN)?)))?;
    let (zone, today) = (&clock.zone, day_of(&clock.now)?);
    let ordinal: i64 = clock.now.call_method0("toordinal")?.extract()?;
    let week_ago = clock.now.call_method0("date")?.sub(clock.datetimes.time(DAY * (ordinal - 1).min(7))?)?;
    let weekday = weekday_of(&clock.now)?;
    Err(refused(
        text.py(),
        format!(
            "time_range {given}cannot be used: {why}. Today is {weekday}, {today} ({zone}). Send for example '{today}', \
             '{week_ago}..{today}', 'last tuesday' or 'past 3 days', or leave time_range out"
        ),
    ))
}

/// Return a range in one line, in the times of a zone.
///
/// >>> from datetime import UTC, datetime
/// >>> now = datetime(2026, 2, 18, 15, 0, tzinfo=UTC)
/// >>> describe(parse_time_range("last week", now, "Europe/Berlin"), "Europe/Berlin")
/// 'Mon 2026-02-09 to Sun 2026-02-15 (Europe/Berlin)'
#[pyfunction]
pub fn describe<'py>(span: (Option<Any<'py>>, Option<Any<'py>>), timezone: &Any<'py>) -> PyResult<String> {
    let _running = Running::begin();
    let (py, zone) = (timezone.py(), zone_of(timezone)?);
    let local = |end: Option<Any<'py>>| {
        let Some(end) = end else { return Ok(None) };
        let end = at_zone(&end, &zone, "a time of the range")?;
        Ok::<_, PyErr>(Some((is_midnight(&end)?, end)))
    };
    let day_before = |end: &Any<'py>| end.call_method0("date")?.sub(Datetimes::new(py)?.time(DAY)?);
    let text = match (local(span.0)?, local(span.1)?) {
        (Some((true, after)), Some((true, before))) => {
            let end = day_before(&before)?;
            if end.eq(after.call_method0("date")?)? {
                short_day(&after)?
            } else {
                format!("{} to {}", short_day(&after)?, short_day(&end)?)
            }
        }
        (Some((_, after)), Some((_, before))) => format!("{} to {}", second_of(&after)?, second_of(&before)?),
        (Some((true, after)), None) => format!("since {}", short_day(&after)?),
        (Some((false, after)), None) => format!("since {}", second_of(&after)?),
        (None, Some((is_midnight, before))) => {
            let day = if is_midnight { day_before(&before).and_then(|day| short_day(&day)).ok() } else { None };
            format!("until {}", day.map_or_else(|| second_of(&before), Ok)?) // no day is before the first
        }
        (None, None) => "all times".into(),
    };
    Ok(format!("{text} ({zone})"))
}

/// Return the zone, given itself or its IANA name; raises InvalidArgumentError.
///
/// >>> zone_of("Europe/Berlin")
/// zoneinfo.ZoneInfo(key='Europe/Berlin')
#[pyfunction]
pub fn zone_of<'py>(timezone: &Any<'py>) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let py = timezone.py();
    // pytz gives its zones with the offset of the nineteenth century unless they are localized.
    let name = timezone.getattr_opt("zone")?.unwrap_or_else(|| timezone.clone());
    let Ok(name) = name.cast::<PyString>() else {
        if timezone.is_instance(&py.import("datetime")?.getattr("tzinfo")?)? {
            return Ok(timezone.clone());
        }
        let kind = type_name(timezone);
        return Err(refused(py, format!("timezone is of type {kind}; pass a tzinfo or a name")));
    };
    if name == "UTC" {
        return py.import("datetime")?.getattr("UTC"); // a machine without the list of zones has it too
    }
    py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,)).map_err(|error| {
        let is_unknown = error.is_instance_of::<PyOSError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyLookupError>(py);
        if !is_unknown {
            return error;
        }
        let name = beginning(name, SHOWN).map_or_else(|_| String::new(), |name| written(&name));
        refused(
            py,
            format!(
                "timezone is {name}, which isn't a known zone; pass a name such as 'Europe/Berlin' (on Windows: pip \
                 install tzdata), or a tzinfo"
            ),
        )
    })
}

/// Why there is no range.
enum Problem {
    /// A text is not a time, for this reason.
    Unreadable(String),
    Python(PyErr),
}

impl From<PyErr> for Problem {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// A time as the clocks of a zone show it; refused, by what it is called, where they never do.
fn at_zone<'py>(time: &Any<'py>, zone: &Any<'py>, name: &str) -> PyResult<Any<'py>> {
    let py = time.py();
    time.call_method1("astimezone", (zone,)).map_err(|error| {
        if !error.is_instance_of::<PyOverflowError>(py) {
            return error;
        }
        let problem = format!("{name} is {}, in {zone} outside the years 1 to 9999", written(time));
        refused(py, format!("{problem}; pass a time within them"))
    })
}

fn is_out_of_range(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyOverflowError>(py) || error.is_instance_of::<PyValueError>(py)
}

/// The clock of one zone, at one moment.
struct Clock<'py> {
    now: Any<'py>,
    zone: Any<'py>,
    datetimes: Datetimes<'py>,
}

impl<'py> Clock<'py> {
    fn new(now: &Any<'py>, timezone: &Any<'py>) -> PyResult<Self> {
        let (datetimes, zone) = (Datetimes::new(now.py())?, zone_of(timezone)?);
        if !now.is_instance(&datetimes.datetime)? || now.getattr("tzinfo")?.is_none() {
            let message = format!("now is {}, which names no zone; pass datetime.now(datetime.UTC)", written(now));
            return Err(refused(now.py(), message));
        }
        Ok(Self { now: at_zone(now, &zone, "now")?, zone, datetimes })
    }

    /// The time or the range that is named: a day is from midnight to midnight, a minute 60 s. Days and longer units count by
    /// the calendar, shorter ones by elapsed time.
    fn read(&self, text: &Bound<'py, PyString>) -> Result<Span, Problem> {
        let given: Text = text.extract()?;
        let range = match times::read_range(given.as_str(), self.datetimes.since_year_1(&self.now)?) {
            Ok(range) => range,
            Err(Unreadable { subject, why }) if subject.is_empty() => return Err(Problem::Unreadable(why)),
            Err(Unreadable { subject, why }) => {
                let subject = quoted(&PyString::new(text.py(), &subject), PART_SHOWN)?;
                return Err(Problem::Unreadable(subject + &why));
            }
        };
        let [first, last] = range.ends.map(|end| end.map_or(Ok((None, None)), |end| self.meant(&end)));
        let (first, last) = (first?, last?);
        let (after, before) = match range.kind {
            RangeKind::One => first,
            RangeKind::Between => (first.0, last.1),
            RangeKind::Outside => (first.1, last.0),
        };
        if let (Some(start), Some(end)) = (after, before)
            && end <= start
        {
            let [start, end] = [start, end].map(|moment| second_of(&self.at(moment)?));
            return Err(Problem::Unreadable(format!(
                "it begins at {} and has ended by then, at {}; name the earlier time first, or write dates",
                start?, end?
            )));
        }
        Ok((after, before))
    }

    /// The range of one time, by what the core says of it.
    fn meant(&self, End { text, meaning }: &End) -> Result<Span, Problem> {
        let now = || self.datetimes.since_year_1(&self.now.call_method1("astimezone", (&self.datetimes.utc,))?);
        let (after, before) = match meaning {
            Meaning::Clock(range) => {
                // A clock time that occurs twice gives the longer range, one that is skipped the moment of the skip.
                let (after, before) = (self.instant(range.start, false)?, self.instant(range.end, true)?);
                if before <= after {
                    let text = quoted(&PyString::new(self.zone.py(), text), PART_SHOWN)?;
                    let why = format!("{text} never was: the clocks of {} skipped it", self.zone);
                    return Err(Problem::Unreadable(why));
                }
                (after, before)
            }
            Meaning::Moments(range) => (range.start, range.end),
            Meaning::SinceClock(time) => {
                let is_second = self.now.getattr("fold")?.is_truthy()?;
                (self.instant(*time, is_second)?, now()? + 1)
            }
            Meaning::Since(ago) => (now()? - ago, now()? + 1),
            Meaning::Around(ago, length) => {
                let moment = now()? - ago;
                let wall = self.at(moment)?;
                let part = |name: &str| wall.getattr(name)?.extract::<i64>();
                let into = part("minute")? * MINUTE + part("second")? * 1_000_000 + part("microsecond")?;
                let after = moment - into % length;
                (after, after + length)
            }
        };
        self.datetimes.moment(after)?;
        self.datetimes.moment(before)?;
        Ok((Some(after), Some(before)))
    }

    /// A moment as the clock shows it.
    fn at(&self, moment: Moment) -> PyResult<Any<'py>> {
        self.datetimes.moment(moment)?.call_method1("astimezone", (&self.zone,))
    }

    /// The instant at which the clock shows this time. `is_second`: the second time it does.
    fn instant(&self, wall: i64, is_second: bool) -> PyResult<Moment> {
        let moment = |fold: i64| {
            let time = self.datetimes.moment(wall)?;
            let fields = PyDict::new(time.py());
            fields.set_item("tzinfo", &self.zone)?;
            fields.set_item("fold", fold)?;
            let time = time.call_method("replace", (), Some(&fields))?;
            self.datetimes.since_year_1(&time.call_method1("astimezone", (&self.datetimes.utc,))?)
        };
        let (first, second) = (moment(0)?, moment(1)?);
        if first <= second {
            return Ok(if is_second { second } else { first });
        }
        // Never shown: the two are on either side of the jump. Bisect to find it.
        let offset_at = |moment| self.at(moment)?.call_method0("utcoffset");
        let (mut low, mut high) = (second, first);
        let offset = offset_at(low)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if offset_at(middle)?.eq(&offset)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(high)
    }
}

/// Python's datetimes.
struct Datetimes<'py> {
    datetime: Any<'py>,
    timedelta: Any<'py>,
    utc: Any<'py>,
    first: Any<'py>,
}

impl<'py> Datetimes<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        let module = py.import("datetime")?;
        let [datetime, timedelta, utc] = ["datetime", "timedelta", "UTC"].map(|name| module.getattr(name));
        let datetime = datetime?;
        let first = datetime.getattr("min")?;
        Ok(Self { datetime, timedelta: timedelta?, utc: utc?, first })
    }

    fn time(&self, microseconds: i64) -> PyResult<Any<'py>> {
        self.timedelta.call1((0, 0, microseconds))
    }

    /// An aware datetime. Raises OverflowError outside the years 1 to 9999.
    fn moment(&self, moment: Moment) -> PyResult<Any<'py>> {
        let fields = PyDict::new(self.utc.py());
        fields.set_item("tzinfo", &self.utc)?;
        self.first.add(self.time(moment)?)?.call_method("replace", (), Some(&fields))
    }

    /// The microseconds that its clock shows.
    fn since_year_1(&self, datetime: &Any<'py>) -> PyResult<i64> {
        let fields = PyDict::new(self.utc.py());
        fields.set_item("tzinfo", self.utc.py().None())?;
        let since = datetime.call_method("replace", (), Some(&fields))?.sub(&self.first)?;
        let part = |name: &str| since.getattr(name)?.extract::<i64>();
        Ok(part("days")? * DAY + part("seconds")? * 1_000_000 + part("microseconds")?)
    }

    fn range(&self, (after, before): Span) -> PyResult<Any<'py>> {
        let py = self.utc.py();
        let end = |end: Option<Moment>| end.map_or_else(|| Ok(py.None().into_bound(py)), |end| self.moment(end));
        NamedTuple::of(py, "rehydrate.prompt.request", "TimeRange")?.make([end(after)?, end(before)?])
    }
}

/// The beginning of a text, as Python writes it.
fn quoted(text: &Bound<'_, PyString>, most: usize) -> PyResult<String> {
    if text.len()? <= most {
        return Ok(written(text));
    }
    Ok(written(&beginning(text, most - 3)?.add("...")?))
}

fn beginning<'py>(text: &Bound<'py, PyString>, most: usize) -> PyResult<Any<'py>> {
    text.get_item(PySlice::new(text.py(), 0, most as isize, 1))
}

fn is_midnight(time: &Any<'_>) -> PyResult<bool> {
    for part in ["hour", "minute", "second", "microsecond"] {
        if time.getattr(part)?.is_truthy()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn weekday_of(day: &Any<'_>) -> PyResult<&'static str> {
    Ok(WEEKDAYS[day.call_method0(interned!(day.py(), "weekday"))?.extract::<usize>()? % 7])
}

/// "2026-02-17"
fn day_of(day: &Any<'_>) -> PyResult<String> {
    let text: String = day.call_method0("isoformat")?.extract()?;
    Ok(text.chars().take("2026-02-17".len()).collect())
}

/// "Tue 2026-02-17"
fn short_day(day: &Any<'_>) -> PyResult<String> {
    Ok(format!("{} {}", &weekday_of(day)?[..3], day_of(day)?))
}

/// To the second. The offset tells apart the two equal hours when clocks are set back.
fn second_of(time: &Any<'_>) -> PyResult<String> {
    let clock = time.call_method0("time")?.call_method1("isoformat", ("seconds",))?;
    let offset = time.call_method1("strftime", ("%z",))?;
    Ok(format!("{} {clock}{offset}", short_day(time)?))
}
