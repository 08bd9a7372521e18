//! Items as the rows of a server's table, and its rows as items.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rehydrate_core::store::{self, Item, Link, Scan, Tier, handle_for, indexed_words};
use rustc_hash::FxHashMap;

use super::values::{Values, dim_of};
use crate::checks::{check_string, refused};
use crate::convert::{Text, bytes_of, floats};
use crate::errors::to_py;
use crate::exit::Running;
use crate::server_text::{read_server_text, server_text};

/// Refuse a name that is too long, or that no server takes.
#[pyfunction]
pub fn check_server_name(what: &str, name: &Bound<'_, PyAny>, max_bytes: usize) -> PyResult<()> {
    let _running = Running::begin();
    let py = name.py();
    check_string(what, name)?;
    let Ok(name) = name.extract::<String>() else {
        return Err(refused(py, format!("{what} has a lone surrogate; leave it out")));
    };
    store::verify_name(what, &name, max_bytes).map_err(|error| to_py(py, &error))
}

/// The rows of new items: handle, tier, kind, source, thread, tool, principal, trust, confidence, parents, time, when
/// it was created and expires, metadata, redactions, bytes, text, vector, and the text for full-text search.
#[pyfunction]
pub fn server_rows<'py>(
    py: Python<'py>,
    namespace: &str,
    items: Vec<Bound<'py, PyAny>>,
    now_ms: i64,
    vectors: Option<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let _running = Running::begin();
    let values = Values::of(py)?;
    let numbers = vectors.map(|vectors| floats(py, &vectors)).transpose()?.unwrap_or_default();
    let dim = dim_of(&numbers, items.len()).map_err(|error| to_py(py, &error))?;
    let row = |(at, item): (usize, &Bound<'py, PyAny>)| {
        let mut new = values.new_ascii_item(item, now_ms)?;
        let vector = &numbers[at * dim..][..dim];
        new.vector = vector.iter().any(|x| *x != 0.0).then(|| vector.to_vec());
        new.verify().map_err(|error| to_py(py, &error))?;
        let text: Bound<'py, PyString> = item.getattr("text")?.cast_into()?;
        let name = |name: &str| server_text(&PyString::new(py, name));
        let number = |number: i64| Ok::<_, PyErr>(number.into_pyobject(py)?.into_any());
        let vector = new
            .vector
            .as_ref()
            .map(|vector| PyBytes::new(py, &vector.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>()));
        let columns = [
            PyString::new(py, &handle_for(namespace, &new.source, &new.text)).into_any(),
            number(new.tier as i64)?,
            name(&new.kind)?,
            name(&new.source)?,
            name(&new.thread)?,
            name(&new.tool)?,
            name(&new.principal)?,
            new.trust.into_pyobject(py)?.into_any(),
            new.confidence.into_pyobject(py)?.into_any(),
            values.json(PyList::new(py, &new.parents)?.as_any())?,
            number(new.time_ms)?,
            number(now_ms)?,
            new.expires_ms.into_pyobject(py)?,
            new.meta_json.as_ref().into_pyobject(py)?,
            new.redactions_json.as_ref().into_pyobject(py)?,
            number(new.held_bytes() as i64)?,
            server_text(&text)?,
            vector.into_pyobject(py)?.into_any(),
            server_words(&text)?,
        ];
        PyTuple::new(py, columns)
    };
    items.iter().enumerate().map(row).collect()
}

/// The words of a text for full-text search: all of it, or each word of a long one once.
#[pyfunction]
pub fn server_words<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let _running = Running::begin();
    match indexed_words(text.extract::<Text>()?.as_str()) {
        Some(words) => Ok(PyString::new(text.py(), &words).into_any()),
        None => server_text(text),
    }
}

/// A link of an item: the item's id, the relation, the other's handle, whether it starts here, and its number.
type LinkRow<'py> = (i64, Bound<'py, PyString>, String, bool, i64);

/// The items of rows, each with its id. A row: id, handle, text, kind, source, thread, tool, principal, tier, trust, parents,
/// time, created, confidence, expires, metadata and redactions as JSON, uses.
#[pyfunction]
pub fn server_items<'py>(
    py: Python<'py>,
    namespace: &str,
    rows: Vec<Bound<'py, PyTuple>>,
    links: Vec<LinkRow<'py>>,
) -> PyResult<Vec<(i64, Bound<'py, PyAny>)>> {
    let _running = Running::begin();
    let values = Values::of(py)?;
    let mut links_of: FxHashMap<i64, Vec<Link>> = FxHashMap::default();
    for (id, relation, handle, is_outgoing, _) in links {
        let relation = written(&relation)?.extract::<Text>()?.as_str().to_owned();
        links_of.entry(id).or_default().push(Link { relation, handle, is_outgoing });
    }
    let item = |row: Bound<'py, PyTuple>| {
        let at = |index: usize| row.get_item(index);
        let text = |index: usize| written(at(index)?.cast()?);
        let name = |index: usize| Ok::<_, PyErr>(text(index)?.extract::<Text>()?.as_str().to_owned());
        let id = at(0)?.extract()?;
        let item = Item {
            handle: at(1)?.extract()?,
            namespace: namespace.to_owned(),
            text: bytes_of(&text(2)?)?.into_owned(),
            kind: name(3)?,
            source: name(4)?,
            thread: name(5)?,
            tool: name(6)?,
            principal: name(7)?,
            tier: Tier::try_from(at(8)?.extract::<u8>()?).map_err(|error| to_py(py, &error))?,
            trust: at(9)?.extract()?,
            parents: at(10)?.extract()?,
            time_ms: at(11)?.extract()?,
            created_ms: at(12)?.extract()?,
            confidence: at(13)?.extract()?,
            expires_ms: at(14)?.extract()?,
            meta_json: at(15)?.extract()?,
            redactions_json: at(16)?.extract()?,
            links: links_of.remove(&id).unwrap_or_default(),
            uses: at(17)?.extract()?,
        };
        Ok((id, values.read_item(&item)?))
    };
    rows.into_iter().map(item).collect()
}

/// The string that was written to the server.
fn written<'py>(text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    Ok(read_server_text(text)?.cast_into()?)
}

/// Whether its words say too little of a query: then texts are searched for the query itself.
#[pyfunction]
pub fn is_scan(query: Text) -> bool {
    store::is_scan(query.as_str())
}

/// The ids of the texts that hold a query, with their scores: those where it is a word by itself first, then in the
/// given order.
#[pyfunction]
pub fn scanned(query: Text, texts: Vec<(i64, Text)>, limit: usize) -> Vec<(i64, f32)> {
    let Some(mut scan) = Scan::of(query.as_str(), limit) else { return Vec::new() };
    for (id, text) in &texts {
        if scan.is_full() {
            break;
        }
        scan.read(*id, text.as_str());
    }
    scan.best()
}

/// Whether it is a PostgreSQL URL, read here in the same way as by PostgreSQL's own library.
#[pyfunction]
pub fn is_server_url(url: Text) -> bool {
    store::is_server_url(url.as_str())
}

/// A URL without its password and its options.
#[pyfunction]
pub fn shown_url(url: Text) -> String {
    store::shown_url(url.as_str())
}
