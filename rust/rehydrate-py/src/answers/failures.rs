//! Errors that a provider reports, or that its SDK raises, as `ProviderError`s. Exceptions are known by the names of their
//! classes, so no SDK is imported. Anthropic and OpenAI have the same names, and so do both generations of the HTTP library
//! that they use.
use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString};
use rehydrate_core::failures::{Failure, failure_of, status_of, status_of_aws};

use super::{Any, get, is_object, set};
use crate::convert::Text;
use crate::errors::raise;
use crate::exit::Running;
use crate::reading::{is_list, is_space, json_value, text_of};
use crate::writing::dict;

const MAX_MESSAGE_CHARS: usize = 2_000;

const TIMEOUTS: [&str; 4] = ["APITimeoutError", "TimeoutException", "ReadTimeoutError", "ConnectTimeoutError"];
/// The names of errors for an answer that broke off: of httpx; botocore, and urllib3 under it; aiohttp, under
/// google-genai; Python itself; and anyio.
const TRANSPORT: [&str; 12] = [
    "RequestError",
    "HTTPClientError",
    "ConnectionError",
    "ResponseStreamingError",
    "HTTPError",
    "ClientError",
    "JSONDecodeError",
    "UnicodeDecodeError",
    "OSError",
    "EndOfStream",
    "BrokenResourceError",
    "ClosedResourceError",
];
/// The answer cannot be read.
const PARSERS: [&str; 2] = ["ResponseParserError", "ParserError"];
/// Nothing was sent.
const OWN: [&str; 3] = ["AnthropicError", "OpenAIError", "BotoCoreError"];

/// The `ProviderError` for an SDK's exception. None if the provider did not fail.
#[pyfunction]
pub fn provider_error<'py>(provider: Text, error: &Any<'py>) -> PyResult<Option<Any<'py>>> {
    let _running = Running::begin();
    let (py, provider) = (error.py(), provider.as_str());
    let mut names = HashSet::new();
    for class in error.get_type().mro() {
        names.insert(text_of(class.getattr("__name__")?.cast()?).into_owned());
    }
    let is = |name: &str| names.contains(name);
    let is_one_of = |known: &[&str]| known.iter().any(|name| names.contains(*name));
    let said = error.str()?;
    let said = text_of(&said);
    let of = |name: &str| error.getattr_opt(name);
    let response = of("response")?;
    let reported = |body: Option<Any<'py>>, status: Option<Any<'py>>| {
        let headers = response.as_ref().map_or(Ok(None), |response| response.getattr_opt("headers"))?;
        let body = body.unwrap_or_else(|| py.None().into_bound(py));
        let status = status.as_ref().map_or(Ok(None), status_in)?;
        error_of(provider, &body, status, headers.as_ref(), &said).map(Some)
    };
    if is("APIStatusError") {
        return reported(of("body")?, of("status_code")?);
    }
    if is("APIError")
        && let Some(details) = of("details")?
    {
        return reported(Some(details), of("code")?); // google-genai
    }
    if is("ClientError")
        && let Some(response) = response.as_ref().filter(|response| is_object(response))
    {
        return error_of_aws(provider, response, &said).map(Some);
    }
    if is("APIError") && !is_one_of(&["APIConnectionError", "APIResponseValidationError"]) {
        return reported(of("body")?, None); // an event of a stream
    }
    let text =
        |error: &Any<'py>| py.import("rehydrate._text")?.getattr("error_text")?.call1((error,))?.extract::<String>();
    let unread = || ("ProviderUnavailableError", format!("what it sent cannot be read: {said}"));
    let is_keyless = is("TypeError") && said.contains("authentication method"); // Anthropic's
    let (class, message) = if is_one_of(&TIMEOUTS) {
        ("ProviderUnavailableError", "it did not answer in time".to_owned())
    } else if is("APIConnectionError") {
        let cause = error.getattr("__cause__")?;
        let cause = if cause.is_none() { String::new() } else { format!(" ({})", text(&cause)?) };
        ("ProviderUnavailableError", format!("{said}{cause}"))
    } else if is("APIResponseValidationError") {
        unread()
    } else if is_one_of(&TRANSPORT) {
        ("ProviderUnavailableError", format!("the answer broke off: {}", text(error)?))
    } else if is_one_of(&PARSERS) {
        unread()
    } else if is_one_of(&OWN) || is_keyless {
        ("RequestRefusedError", format!("nothing was sent: {said}"))
    } else {
        return Ok(None);
    };
    Ok(Some(raise(py, class, (provider, py.None(), message)).into_value(py).into_bound(py).into_any()))
}

/// The `ProviderError` that a body reports; `status` and `headers` are those of the answer. `fallback` is the message if the
/// body has none.
#[pyfunction]
#[pyo3(signature = (provider, body, *, status=None, headers=None, fallback=None))]
pub fn error_from_body<'py>(
    provider: Text,
    body: &Any<'py>,
    status: Option<&Any<'py>>,
    headers: Option<&Any<'py>>,
    fallback: Option<Text>,
) -> PyResult<Any<'py>> {
    let _running = Running::begin();
    let status = status.map_or(Ok(None), status_in)?;
    error_of(provider.as_str(), body, status, headers, fallback.as_ref().map_or("", Text::as_str))
}

fn error_of<'py>(
    provider: &str,
    body: &Any<'py>,
    status: Option<u16>,
    headers: Option<&Any<'py>>,
    fallback: &str,
) -> PyResult<Any<'py>> {
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
        None => fallback.to_owned(),
    };
    let code = get(&fields, "code")?;
    let kind = get(&fields, "type")?;
    let texts = [code.as_ref(), kind.as_ref()].into_iter().flatten().filter_map(|each| each.cast::<PyString>().ok());
    let codes: Vec<String> = texts.map(|text| text_of(text).into_owned()).collect();
    let number = code.as_ref().map_or(Ok(None), status_in)?.filter(|number| (400..600).contains(number));
    let status = status.or(number).or_else(|| codes.iter().find_map(|code| status_of(code)));
    let message: String = message.trim_matches(is_space).chars().take(MAX_MESSAGE_CHARS).collect();
    let message = if message.is_empty() { "no reason given".to_owned() } else { message };
    let class = match failure_of(status, &message, &codes) {
        Failure::Overflow => "ContextOverflowError",
        Failure::RateLimit => "RateLimitError",
        Failure::Unavailable => "ProviderUnavailableError",
        Failure::Refused => "RequestRefusedError",
    };
    let wait = match headers.map_or(Ok(None), wait_of)? {
        Some(wait) => Some(wait),
        None => delay_in(body)?,
    };
    Ok(raise(py, class, (provider, status, message, wait)).into_value(py).into_bound(py).into_any())
}

/// The error that botocore read from an answer or from an event.
fn error_of_aws<'py>(provider: &str, reported: &Any<'py>, fallback: &str) -> PyResult<Any<'py>> {
    let py = reported.py();
    let inside =
        |key: &str| PyResult::Ok(get(reported, key)?.filter(is_object).unwrap_or_else(|| PyDict::new(py).into_any()));
    let (fields, about) = (inside("Error")?, inside("ResponseMetadata")?);
    let code = super::shown(&fields, "Code")?;
    let status = match status_of_aws(&text_of(code.cast()?)) {
        Some(status) => Some(status),
        None => get(&about, "HTTPStatusCode")?.as_ref().map_or(Ok(None), status_in)?,
    };
    let body = dict!(py, "message": get(&fields, "Message")?, "code": code);
    error_of(provider, body.as_any(), status, get(&about, "HTTPHeaders")?.as_ref(), fallback)
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
        Some(text) => json_value(&text)?.map_or_else(|| Ok(dict!(py, "message": text).into_any()), PyResult::Ok)?,
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
            return Ok(number_of(&PyString::new(body.py(), delay.strip_suffix('s').unwrap_or(&delay))));
        }
    }
    Ok(None)
}

/// The seconds to wait by the headers: `retry-after-ms`, else `retry-after`, in seconds or as a date.
fn wait_of(headers: &Any<'_>) -> PyResult<Option<f64>> {
    let py = headers.py();
    let header = |name: &str| -> PyResult<Option<Any<'_>>> {
        let found = if is_object(headers) { headers.call_method1("get", (name,))? } else { py.None().into_bound(py) };
        Ok(Some(found).filter(|value| !value.is_none()))
    };
    if let Some(milliseconds) = header("retry-after-ms")?.and_then(|value| number_of(&value)) {
        return Ok(Some(milliseconds / 1_000.0));
    }
    let Some(value) = header("retry-after")? else { return Ok(None) };
    let seconds = number_of(&value);
    if seconds.is_some() || !value.is_instance_of::<PyString>() {
        return Ok(seconds);
    }
    let date = py.import("email.utils")?.call_method1("parsedate_to_datetime", (value,));
    match date.and_then(|date| date.call_method0("timestamp")?.extract::<f64>()) {
        Ok(then) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
            Ok(Some((then - now).max(0.0)))
        }
        Err(error) => {
            let is_no_date = error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyTypeError>(py);
            if is_no_date || error.is_instance_of::<PyOverflowError>(py) { Ok(None) } else { Err(error) }
        }
    }
}

/// An HTTP status from 300 up, also from its text. None for anything else.
fn status_in(value: &Any<'_>) -> PyResult<Option<u16>> {
    let is_number = value.is_instance_of::<PyString>() || value.is_instance_of::<PyInt>();
    let number = if is_number || value.is_instance_of::<PyFloat>() { number_of(value) } else { None };
    Ok(number.filter(|number| (300.0..=f64::from(u16::MAX)).contains(number)).map(|number| number as u16))
}

/// A finite number from 0 up, also from its text; None for anything else.
fn number_of(value: &Any<'_>) -> Option<f64> {
    let number = value.py().get_type::<PyFloat>().call1((value,)).and_then(|number| number.extract::<f64>());
    number.ok().filter(|number| number.is_finite() && *number >= 0.0)
}
