//! Errors that a provider reports, for Python.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString};
use rehydrate_core::failures::{Failure, failure_of, status_of, status_of_aws};

use super::{Any, get, is_object, read_json, set};
use crate::convert::Text;
use crate::exit::Running;
use crate::reading::{is_list, is_space, text_of};
use crate::writing::dict;

const MAX_MESSAGE_CHARS: usize = 2_000;

/// The error's class in `rehydrate.errors`, its status, its message, and the seconds to wait that its body names.
type Read = (&'static str, Option<u16>, String, Option<f64>);

/// What a body reports; `status` is that of the answer. `fallback` is the message if the body has none.
#[pyfunction]
pub fn read_error(body: &Any<'_>, status: Option<i64>, fallback: Text) -> PyResult<Read> {
    let _running = Running::begin();
    let py = body.py();
    let fields = fields_of(body)?;
    let message = match set(&fields, "message")? {
        Some(message) => Some(message),
        None => set(&fields, "detail")?,
    };
    let message = match message {
        Some(text) if text.is_instance_of::<PyString>() => text_of(text.cast()?).into_owned(),
        Some(value) => {
            let options = dict!(py, "ensure_ascii": false, "default": py.get_type::<PyString>());
            text_of(py.import("json")?.call_method("dumps", (value,), Some(&options))?.cast()?).into_owned()
        }
        None => fallback.as_str().to_owned(),
    };
    let code = get(&fields, "code")?;
    let kind = get(&fields, "type")?;
    let texts = [code.as_ref(), kind.as_ref()].into_iter().flatten().filter_map(|each| each.cast::<PyString>().ok());
    let codes: Vec<String> = texts.map(|text| text_of(text).into_owned()).collect();
    let number = match code {
        Some(code) if code.is_instance_of::<PyString>() || code.is_instance_of::<PyInt>() => number_of(&code)?,
        _ => None,
    };
    let named = || codes.iter().find_map(|code| status_of(code));
    let own = number.filter(|number| (400.0..600.0).contains(number)).map(|number| number as u16).or_else(named);
    let status = status.filter(|status| *status >= 300).and_then(|status| u16::try_from(status).ok()).or(own);
    let message: String = message.trim_matches(is_space).chars().take(MAX_MESSAGE_CHARS).collect();
    let message = if message.is_empty() { "no reason given".to_owned() } else { message };
    let class = match failure_of(status, &message, &codes) {
        Failure::Overflow => "ContextOverflowError",
        Failure::RateLimit => "RateLimitError",
        Failure::Unavailable => "ProviderUnavailableError",
        Failure::Refused => "RequestRefusedError",
    };
    Ok((class, status, message, delay_in(body)?))
}

/// The object that holds the message, the type and the code.
fn fields_of<'py>(body: &Any<'py>) -> PyResult<Bound<'py, PyAny>> {
    let py = body.py();
    let text = match body.cast::<PyBytes>() {
        Ok(bytes) => Some(PyString::new(py, &String::from_utf8_lossy(bytes.as_bytes())).into_any()),
        Err(_) if body.is_instance_of::<PyString>() => Some(body.clone()),
        Err(_) => None,
    };
    let body = match text {
        Some(text) => read_json(&text)?.map_or_else(|| Ok(dict!(py, "message": text).into_any()), PyResult::Ok)?,
        None => body.clone(),
    };
    if !is_object(&body) {
        return Ok(PyDict::new(py).into_any());
    }
    Ok(match get(&body, "error")? {
        Some(inner) if is_object(&inner) => inner,
        Some(inner) if inner.is_instance_of::<PyString>() => dict!(py, "message": inner).into_any(), // Ollama's own
        _ => body,
    })
}

/// The wait of Gemini's `RetryInfo`, such as "34s".
fn delay_in(body: &Any<'_>) -> PyResult<Option<f64>> {
    let error = if is_object(body) { get(body, "error")?.filter(is_object) } else { None };
    let Some(details) = error.map_or(Ok(None), |error| get(&error, "details"))?.filter(is_list) else {
        return Ok(None);
    };
    for each in details.try_iter()? {
        let each = each?;
        if is_object(&each) && each.contains("retryDelay")? {
            let delay = each.get_item("retryDelay")?.str()?;
            let delay = text_of(&delay).into_owned();
            return number_of(&PyString::new(body.py(), delay.strip_suffix('s').unwrap_or(&delay)));
        }
    }
    Ok(None)
}

/// A finite number from 0 up, also from its text; None for anything else.
fn number_of(value: &Any<'_>) -> PyResult<Option<f64>> {
    let number = value.py().get_type::<PyFloat>().call1((value,)).and_then(|number| number.extract::<f64>());
    Ok(number.ok().filter(|number| number.is_finite() && *number >= 0.0))
}

/// The status that a code of Bedrock's means.
#[pyfunction]
pub fn aws_status(code: &str) -> Option<u16> {
    status_of_aws(code)
}
