//! The arguments of a call of a tool, checked one by one within their schemas.
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyList, PyString};
use rehydrate_core::excerpts::grouped;

use crate::checks::{self, listed_words, refused};
use crate::exit::Running;
use crate::reading::{Fields, is_blank, text_of};

/// A query is a question, not a document.
const MAX_QUERY_CHARS: usize = 2_000;
/// Characters of a value in an error.
const SHOWN: usize = 60;

type Any<'py> = Bound<'py, PyAny>;

/// The arguments by name; null is the same as left out.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ToolArguments {
    /// As they were sent.
    #[pyo3(get)]
    sent: Py<PyAny>,
    known: Py<PyAny>,
}

#[pymethods]
impl ToolArguments {
    /// Take the mapping that was sent, and the schemas by name. Raises InvalidArgumentError for a name that has no schema.
    #[new]
    fn new(sent: Any<'_>, known: Any<'_>) -> PyResult<Self> {
        let _running = Running::begin();
        let py = sent.py();
        let names = Fields::needed(&known, 0, String::new)?.keys()?;
        for name in Fields::needed(&sent, 0, String::new)?.keys()? {
            if !known.contains(&name)? {
                let nearest = py.import("rehydrate.rpc.tool")?.getattr("nearest")?;
                let meant: String = nearest.call1((&name, &known))?.extract()?;
                let names = names.iter().map(|name| Ok(name.str()?.to_string())).collect::<PyResult<Vec<_>>>()?;
                let what = format!("there is no argument {}{meant}; send {}", shown_argument(&name), names.join(", "));
                return Err(refused(py, what));
            }
        }
        Ok(Self { sent: sent.unbind(), known: known.unbind() })
    }

    /// A text; "" if it is not needed and was not sent.
    #[pyo3(signature = (name, *, max_chars = MAX_QUERY_CHARS, needed = true))]
    fn text<'py>(&self, name: &Bound<'py, PyString>, max_chars: usize, needed: bool) -> PyResult<Bound<'py, PyString>> {
        let _running = Running::begin();
        let py = name.py();
        let text = match self.given(name)?.map(|value| value.cast_into::<PyString>()) {
            Some(Err(other)) => return Err(unfit(name, &other.into_inner(), "send a string")),
            Some(Ok(text)) => text,
            None => PyString::new(py, ""),
        };
        let chars = text.len()?;
        if chars > max_chars {
            let (chars, most) = (grouped(chars as u64), grouped(max_chars as u64));
            return Err(refused(py, format!("{name} has {chars} characters, the limit is {most}; send fewer")));
        }
        if needed && is_blank(&text_of(&text)) {
            return Err(refused(py, format!("{name} is empty; send a string that is not")));
        }
        Ok(text)
    }

    /// A list of texts; None if none was sent.
    fn texts<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Any<'py>>> {
        let _running = Running::begin();
        let Some(values) = self.given(name)? else { return Ok(None) };
        let is_fit = |list: &Bound<'py, PyList>| list.iter().all(|value| value.is_instance_of::<PyString>());
        if values.cast::<PyList>().is_ok_and(is_fit) {
            return Ok(Some(values));
        }
        Err(unfit(name, &values, "send an array of strings"))
    }

    /// A whole number in the schema's range, which has a default.
    fn whole(&self, name: &Bound<'_, PyString>) -> PyResult<i64> {
        let _running = Running::begin();
        let py = name.py();
        let schema = self.schema(name)?;
        let (least, most): (i64, i64) =
            (schema.get_item("minimum")?.extract()?, schema.get_item("maximum")?.extract()?);
        let mut value = match self.given(name)? {
            Some(value) => value,
            None => schema.get_item("default")?,
        };
        if value.cast::<PyFloat>().is_ok_and(|number| number.value().is_finite() && number.value().fract() == 0.0) {
            value = py.get_type::<PyInt>().call1((value,))?; // JSON has one kind of number
        }
        let whole = value.cast_exact::<PyInt>().ok().and_then(|number| number.extract().ok());
        whole.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let (least, most) = (grouped(least as u64), grouped(most as u64));
            unfit(name, &value, &format!("send a whole number from {least} to {most}"))
        })
    }

    /// One of the schema's words; None if none was sent.
    fn choice<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Any<'py>>> {
        let _running = Running::begin();
        let Some(value) = self.given(name)? else { return Ok(None) };
        let words = self.schema(name)?.get_item("enum")?;
        if words.contains(&value)? {
            return Ok(Some(value));
        }
        let words = listed_words(&words.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        Err(unfit(name, &value, &format!("send one of {words}, or leave it out")))
    }
}

impl ToolArguments {
    fn given<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Any<'py>>> {
        Fields::needed(self.sent.bind(name.py()), 0, String::new)?.get(name)
    }

    fn schema<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Any<'py>> {
        self.known.bind(name.py()).get_item(name)
    }
}

fn unfit(name: &Bound<'_, PyString>, value: &Any<'_>, remedy: &str) -> PyErr {
    refused(name.py(), format!("{name} is {}; {remedy}", shown_argument(value)))
}

/// A value as an error names it, cut if it is long.
fn shown_argument(value: &Any<'_>) -> String {
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return checks::shown(value, SHOWN);
    }
    if value.is_instance_of::<PyList>() { "an array" } else { "an object" }.to_owned()
}
