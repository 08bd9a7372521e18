//! Strings as PostgreSQL takes them: without NUL and without lone surrogates.
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::caps::{CodePoints, string};
use crate::exit::Running;

/// Before an escaped character, and before itself.
const ESCAPE: u32 = 0x1A;
const DIGITS: usize = 4;

/// The text as it is written to the server. `read_server_text` reverses it.
#[pyfunction]
pub fn server_text<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    if text.to_str().is_ok_and(|text| !text.bytes().any(|byte| byte == 0 || u32::from(byte) == ESCAPE)) {
        return Ok(text.clone().into_any());
    }
    let mut written = Vec::new();
    for point in text.extract::<CodePoints>()?.0 {
        match point {
            ESCAPE => written.extend([ESCAPE, ESCAPE]),
            0 | 0xD800..=0xDFFF => {
                written.push(ESCAPE);
                written.extend(format!("{point:04x}").bytes().map(u32::from));
            }
            _ => written.push(point),
        }
    }
    string(text.py(), &written)
}

/// The text that was written.
#[pyfunction]
pub fn read_server_text<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    if text.to_str().is_ok_and(|text| !text.bytes().any(|byte| u32::from(byte) == ESCAPE)) {
        return Ok(text.clone().into_any());
    }
    let points = text.extract::<CodePoints>()?.0;
    let (mut read, mut at) = (Vec::with_capacity(points.len()), 0);
    while let Some(&point) = points.get(at) {
        at += 1;
        let after = &points[at..];
        if point == ESCAPE && after.first() == Some(&ESCAPE) {
            read.push(ESCAPE);
            at += 1;
        } else if let Some(escaped) = after.get(..DIGITS).filter(|_| point == ESCAPE).and_then(number_of) {
            read.push(escaped);
            at += DIGITS;
        } else {
            read.push(point);
        }
    }
    string(text.py(), &read)
}

/// The number that hexadecimal digits in lower case write.
fn number_of(digits: &[u32]) -> Option<u32> {
    let digit = |point: &u32| char::from_u32(*point).filter(|c| !c.is_ascii_uppercase())?.to_digit(16);
    digits.iter().try_fold(0, |number, point| Some(number * 16 + digit(point)?))
}
