//! Contents and usages of several replies as one.
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString};

use crate::answers::{Any, is_object, set};
use crate::checks::is_number;
use crate::writing::dict;

/// The contents of chat completions: texts, or lists of parts.
pub fn contents<'py>(bodies: &[Bound<'py, PyDict>]) -> PyResult<Vec<Any<'py>>> {
    let mut contents = Vec::new();
    for body in bodies {
        let message = body.as_any().get_item("choices")?.get_item(0)?.get_item("message")?;
        contents.extend(set(&message, "content")?);
    }
    Ok(contents)
}

/// Contents as one: a text if all are texts.
pub fn joined_contents<'py>(py: Python<'py>, contents: Vec<Any<'py>>, between: &str) -> PyResult<Any<'py>> {
    if contents.iter().all(|content| content.is_instance_of::<PyString>()) {
        return PyString::new(py, between).call_method1("join", (PyList::new(py, contents)?,));
    }
    let mut parts = Vec::new();
    for content in contents {
        if content.is_instance_of::<PyString>() {
            parts.push(dict!(py, "type": "text", "text": content).into_any());
        } else {
            parts.extend(content.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        }
    }
    Ok(PyList::new(py, parts)?.into_any())
}

/// The sum of the numbers in objects of one shape. For anything else, the last.
pub fn added<'py>(values: Vec<Option<Any<'py>>>) -> PyResult<Option<Any<'py>>> {
    let Some(Some(last)) = values.last().cloned() else {
        let numbers = values.into_iter().flatten().filter(is_number).collect();
        return sum(numbers);
    };
    if is_object(&last) {
        let same: Vec<_> = values.into_iter().flatten().filter(is_object).collect();
        let total = PyDict::new(last.py());
        for of in &same {
            for key in of.try_iter()? {
                let key = key?;
                if total.contains(&key)? {
                    continue;
                }
                let of_key =
                    same.iter().map(|each| if each.contains(&key)? { each.get_item(&key).map(Some) } else { Ok(None) });
                let of_key = of_key.collect::<PyResult<Vec<_>>>()?;
                let of_key = of_key.into_iter().map(|value| value.filter(|value| !value.is_none())).collect();
                total.set_item(&key, added(of_key)?)?;
            }
        }
        return Ok(Some(total.into_any()));
    }
    if last.is_instance_of::<PyBool>() || last.is_instance_of::<PyString>() {
        return Ok(Some(last));
    }
    Ok(sum(values.into_iter().flatten().filter(is_number).collect())?.or(Some(last)))
}

fn sum(numbers: Vec<Any<'_>>) -> PyResult<Option<Any<'_>>> {
    let mut numbers = numbers.into_iter();
    let Some(first) = numbers.next() else { return Ok(None) };
    numbers.try_fold(first, |total, number| total.add(number)).map(Some)
}
