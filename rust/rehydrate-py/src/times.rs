//! Times as people write them, for Python.
use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::times::{self, End, Meaning, RangeKind, Unreadable};

use crate::convert::Text;
use crate::exit::Running;

/// Of a text that a reason quotes, so many characters are shown.
const SHOWN: usize = 40;

/// What a time means, two numbers that say it, and its text.
type Read = (&'static str, i64, i64, String);

/// What a range of times means as of a time of the zone's clock: "one", "between" or "outside", and its ends. Of a text that is
/// none, the reason.
///
/// An end is "clock" or "moments" and both its ends, "since_clock" and a time of the clock, "since" and how long ago, or
/// "around" with how long ago and how long; all in microseconds, times since the year 1 began.
#[pyfunction]
pub fn read_times<'py>(text: &Bound<'py, PyString>, now: i64) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    let py = text.py();
    match times::read_range(text.extract::<Text>()?.as_str(), now) {
        Ok(range) => {
            let kind = match range.kind {
                RangeKind::One => "one",
                RangeKind::Between => "between",
                RangeKind::Outside => "outside",
            };
            let [first, last] = range.ends.map(|end| end.map(read));
            Ok((kind, first, last).into_pyobject(py)?.into_any())
        }
        Err(Unreadable { subject, why }) if subject.is_empty() => Ok(why.into_pyobject(py)?.into_any()),
        Err(Unreadable { subject, why }) => {
            let mut shown = subject.clone();
            if subject.chars().count() > SHOWN {
                shown = subject.chars().take(SHOWN - 3).chain("...".chars()).collect();
            }
            let quoted: String = PyString::new(py, &shown).repr()?.extract()?;
            Ok((quoted + &why).into_pyobject(py)?.into_any())
        }
    }
}

fn read(End { text, meaning }: End) -> Read {
    let (what, first, last) = match meaning {
        Meaning::Clock(range) => ("clock", range.start, range.end),
        Meaning::Moments(range) => ("moments", range.start, range.end),
        Meaning::SinceClock(time) => ("since_clock", time, 0),
        Meaning::Since(ago) => ("since", ago, 0),
        Meaning::Around(ago, length) => ("around", ago, length),
    };
    (what, first, last, text)
}
