//! Names of models for Python, and the name of the model that answered in a history.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use rehydrate_core::model_names;

use crate::convert::Text;
use crate::exit::Running;
use crate::interned::{Interned, interned};
use crate::reading::{Fields, text_of};

/// The name in a table that a model's name means, with or without vendor, date and revision. None for an unknown model.
#[pyfunction]
pub fn known_name(model: Text, names: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let _running = Running::begin();
    let names = names.try_iter()?.map(|name| name?.extract()).collect::<PyResult<Vec<PyBackedStr>>>()?;
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    Ok(model_names::known_name(model.as_str(), &names).map(str::to_owned))
}

/// The provider that a model's name suggests. None if it suggests none.
#[pyfunction]
pub fn provider_of(model: Text) -> Option<&'static str> {
    model_names::provider_of(model.as_str())
}

/// Whether a model's name means one of Bedrock's in a region, or in a group of regions.
#[pyfunction]
pub fn is_regional(model: Text) -> bool {
    model_names::is_regional(model.as_str())
}

static NAMES: [Interned; 3] = [Interned::new("model_name"), Interned::new("model"), Interned::new("model_id")];

/// The model that answered last, as a transcript of Claude Code or LangChain's messages name it. "" if they do not.
#[pyfunction]
pub fn answering_model(entries: &Bound<'_, PyAny>, format: &str) -> PyResult<String> {
    let _running = Running::begin();
    let py = entries.py();
    if !matches!(format, "claude_code" | "langchain") {
        return Ok(String::new());
    }
    for at in (0..entries.len()?).rev() {
        let entry = entries.get_item(at)?;
        let about = match Fields::of(&entry).filter(|_| format == "claude_code") {
            Some(line) if line.kind()?.name() == "assistant" => line.get(interned!(py, "message"))?,
            Some(_) => None,
            None => entry.getattr_opt(interned!(py, "response_metadata"))?,
        };
        let Some(about) = about.as_ref().and_then(Fields::of) else { continue };
        for key in &NAMES {
            let Some(name) = about.text(key.get(py))? else { continue };
            let name = text_of(&name);
            if name.is_empty() {
                continue;
            }
            if name.starts_with('<') {
                break; // the harness's own words, "<synthetic>"
            }
            return Ok(name.into_owned());
        }
    }
    Ok(String::new())
}
