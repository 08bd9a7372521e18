//! The usage of a provider's response, by the way its tokens are billed.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyMapping, PyString};
use rehydrate_core::caps::grouped;

use crate::checks::{check_whole, refused, wrong_type};
use crate::exit::Running;
use crate::prompt_cache::MAX_COUNT;

const AS_IT_IS: &str = "pass the response's usage as it is";
/// The tokens of a prompt of Gemini's, as REST has it and as `model_dump` has it.
const GEMINIS: [&str; 2] = ["promptTokenCount", "prompt_token_count"];

/// Tokens read from the cache, written to it, written for an hour, neither read nor written, and of the output.
type Bill = (i64, i64, i64, i64, i64);

/// The billed tokens in the usage of Anthropic, OpenAI (chat and Responses), Converse or Gemini. A missing count is 0.
#[pyfunction]
pub fn billed_usage(usage: &Bound<'_, PyMapping>) -> PyResult<Bill> {
    let _running = Running::begin();
    let own = billed(usage)?;
    let names = ["prompt_tokens", "input_tokens_details", GEMINIS[0], GEMINIS[1], "inputTokens"];
    for name in names {
        if usage.contains(name)? {
            return Ok(own);
        }
    }
    // Anthropic counts the writing of its summaries apart.
    let mut total = own;
    for step in parts(usage, "iterations")? {
        if step.call_method1("get", ("type",))?.eq("compaction")? {
            let (read, written, for_an_hour, uncached, output) = billed(&step)?;
            total.0 += read;
            total.1 += written;
            total.2 += for_an_hour;
            total.3 += uncached;
            total.4 += output;
        }
    }
    Ok(total)
}

fn billed(usage: &Bound<'_, PyMapping>) -> PyResult<Bill> {
    let py = usage.py();
    if usage.contains("prompt_tokens")? || usage.contains("input_tokens_details")? {
        let total = first_count(usage, ["prompt_tokens", "input_tokens"])?;
        let details = match part(usage, "prompt_tokens_details")? {
            Some(details) => Some(details),
            None => part(usage, "input_tokens_details")?,
        };
        let of = |key: &str| details.as_ref().map_or(Ok(0), |details| count(details, key));
        let (read, written) = (of("cached_tokens")?, of("cache_write_tokens")?);
        let output = first_count(usage, ["completion_tokens", "output_tokens"])?;
        check_part(py, "tokens read from and written to the cache", read + written, total)?;
        return Ok((read, written, 0, total - read - written, output));
    }
    if usage.contains(GEMINIS[0])? || usage.contains(GEMINIS[1])? {
        let of = |keys| first_count(usage, keys);
        let (read, total) = (of(["cachedContentTokenCount", "cached_content_token_count"])?, of(GEMINIS)?);
        check_part(py, "tokens read from the cache", read, total)?;
        // What its own tools returned.
        let from_tools = of(["toolUsePromptTokenCount", "tool_use_prompt_token_count"])?;
        let said = of(["candidatesTokenCount", "candidates_token_count"])?;
        let output = said + of(["thoughtsTokenCount", "thoughts_token_count"])?;
        return Ok((read, 0, 0, total + from_tools - read, output));
    }
    let is_converses = usage.contains("inputTokens")?;
    let names = if is_converses {
        ["cacheWriteInputTokens", "cacheReadInputTokens", "inputTokens", "outputTokens"]
    } else {
        ["cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens"]
    };
    let written = count(usage, names[0])?;
    let mut for_an_hour = 0;
    if is_converses {
        for each in parts(usage, "cacheDetails")? {
            if each.call_method1("get", ("ttl",))?.eq("1h")? {
                for_an_hour += count(&each, "inputTokens")?;
            }
        }
    } else if let Some(details) = part(usage, "cache_creation")? {
        for_an_hour = count(&details, "ephemeral_1h_input_tokens")?;
    }
    check_part(py, "tokens written for an hour", for_an_hour, written)?;
    let [read, uncached, output] = [count(usage, names[1])?, count(usage, names[2])?, count(usage, names[3])?];
    Ok((read, written - for_an_hour, for_an_hour, uncached, output))
}

/// A part of the usage, if it has one.
fn part<'py>(usage: &Bound<'py, PyMapping>, key: &str) -> PyResult<Option<Bound<'py, PyMapping>>> {
    let value = usage.call_method1("get", (key,))?;
    if value.is_truthy()? { as_mapping(value, key, AS_IT_IS).map(Some) } else { Ok(None) }
}

fn parts<'py>(usage: &Bound<'py, PyMapping>, key: &str) -> PyResult<Vec<Bound<'py, PyMapping>>> {
    let value = usage.call_method1("get", (key,))?;
    if !value.is_truthy()? {
        return Ok(Vec::new());
    }
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    match value.try_iter() {
        Ok(every) if !is_text && value.cast::<PyMapping>().is_err() => {
            every.map(|each| as_mapping(each?, &format!("{key}: one"), "pass the usage as it is")).collect()
        }
        _ => Err(wrong_type(&format!("usage: {key}"), &value, AS_IT_IS)),
    }
}

fn as_mapping<'py>(value: Bound<'py, PyAny>, key: &str, remedy: &str) -> PyResult<Bound<'py, PyMapping>> {
    value.cast_into().map_err(|error| wrong_type(&format!("usage: {key}"), &error.into_inner(), remedy))
}

fn first_count(usage: &Bound<'_, PyMapping>, keys: [&str; 2]) -> PyResult<i64> {
    match count(usage, keys[0])? {
        0 => count(usage, keys[1]),
        count => Ok(count),
    }
}

fn count(values: &Bound<'_, PyMapping>, key: &str) -> PyResult<i64> {
    let mut value = values.call_method1("get", (key,))?;
    if !value.is_truthy()? {
        return Ok(0);
    }
    if value.cast::<PyFloat>().is_ok_and(|float| float.value().fract() == 0.0) {
        value = value.call_method0("__int__")?;
    }
    let is_whole = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    match value.extract::<i64>() {
        Ok(count @ 0..=MAX_COUNT) if is_whole => Ok(count),
        _ => {
            let most = MAX_COUNT.into_pyobject(value.py())?;
            check_whole(&format!("usage: {key}"), &value, 0, Some(most.as_any()), false)?;
            Ok(0) // it was refused
        }
    }
}

fn check_part(py: Python<'_>, what: &str, part: i64, whole: i64) -> PyResult<()> {
    if part <= whole {
        return Ok(());
    }
    let (part, whole) = (grouped(part), grouped(whole));
    let message = format!("usage: {part} {what} are more than the {whole} that they are a part of; {AS_IT_IS}");
    Err(refused(py, message))
}
