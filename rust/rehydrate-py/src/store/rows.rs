//! Rows of the store for Python: items and hits as tuples, filters and fusions as arguments.
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyString, PyTuple};
use rehydrate_core::error::Error;
use rehydrate_core::index::Fusion;
use rehydrate_core::store::{self, Filter, Item, NewItem, Tier};

use crate::errors::to_py;

/// The bytes of a string: UTF-8, in which lone surrogates are written like other characters and so come back.
pub struct RawText(pub Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for RawText {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = value.cast::<PyString>()?;
        match PyBackedStr::try_from(text.to_owned()) {
            Ok(text) => Ok(Self(text.as_bytes().to_vec())),
            Err(_) => Ok(Self(text.call_method1("encode", ("utf-8", "surrogatepass"))?.extract()?)),
        }
    }
}

/// The string of such bytes.
fn to_text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text).into_any()),
        Err(_) => {
            let bytes = PyBytes::new(py, bytes);
            let decoded = bytes.call_method1("decode", ("utf-8", "surrogatepass"));
            // Neither, so not what Python stored: damaged, as `verify` will say.
            decoded.or_else(|_| bytes.call_method1("decode", ("utf-8", "replace")))
        }
    }
}

/// An item as Python gives it; the order is that of `_NewItem` in `_native.pyi`.
pub struct NewItemRow(pub NewItem);

impl<'a, 'py> FromPyObject<'a, 'py> for NewItemRow {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let row = value.cast::<PyTuple>()?;
        let tier: u8 = row.get_item(2)?.extract()?;
        Ok(Self(NewItem {
            text: row.get_item(0)?.extract::<RawText>()?.0,
            kind: row.get_item(1)?.extract()?,
            tier: Tier::try_from(tier).map_err(|error| to_py(value.py(), &error))?,
            source: row.get_item(3)?.extract()?,
            session: row.get_item(4)?.extract()?,
            tool: row.get_item(5)?.extract()?,
            principal: row.get_item(6)?.extract()?,
            trust: row.get_item(7)?.extract()?,
            parents: row.get_item(8)?.extract()?,
            time_ms: row.get_item(9)?.extract()?,
            confidence: row.get_item(10)?.extract()?,
            expires_ms: row.get_item(11)?.extract()?,
            meta_json: row.get_item(12)?.extract()?,
            redactions_json: row.get_item(13)?.extract()?,
            vector: None,
            links: row.get_item(14)?.extract()?,
        }))
    }
}

/// An item as Python gets it; the order is that of `_Item` in `_native.pyi`.
pub fn item_row<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyTuple>> {
    let any = |value: &str| PyString::new(py, value).into_any();
    let links: Vec<_> = item.links.iter().map(|link| (&link.relation, &link.handle, link.is_outgoing)).collect();
    PyTuple::new(
        py,
        [
            any(&item.handle),
            any(&item.namespace),
            to_text(py, &item.text)?,
            any(&item.kind),
            (item.tier as u8).into_pyobject(py)?.into_any(),
            any(&item.source),
            any(&item.session),
            any(&item.tool),
            any(&item.principal),
            item.trust.into_pyobject(py)?.into_any(),
            PyTuple::new(py, &item.parents)?.into_any(),
            item.time_ms.into_pyobject(py)?.into_any(),
            item.created_ms.into_pyobject(py)?.into_any(),
            item.confidence.into_pyobject(py)?.into_any(),
            item.expires_ms.into_pyobject(py)?.into_any(),
            item.meta_json.as_deref().into_pyobject(py)?.into_any(),
            item.redactions_json.as_deref().into_pyobject(py)?.into_any(),
            PyTuple::new(py, links)?.into_any(),
            item.uses.into_pyobject(py)?.into_any(),
        ],
    )
}

/// Items that a call is about, as keywords say.
pub struct FilterArguments {
    pub tiers: Option<Vec<u8>>,
    pub kinds: Option<Vec<String>>,
    pub sources: Option<Vec<String>>,
    pub sessions: Option<Vec<String>>,
    pub after_ms: Option<i64>,
    pub before_ms: Option<i64>,
    pub min_trust: f64,
}

impl TryFrom<FilterArguments> for Filter {
    type Error = Error;

    fn try_from(arguments: FilterArguments) -> Result<Self, Error> {
        let FilterArguments { tiers, kinds, sources, sessions, after_ms, before_ms, min_trust } = arguments;
        let tiers = tiers.map(|tiers| tiers.into_iter().map(Tier::try_from).collect()).transpose()?;
        Ok(Self { tiers, kinds, sources, sessions, after_ms, before_ms, min_trust })
    }
}

/// How the legs of a search are to come together: a name, or the weights of text, trigram and vector.
#[derive(FromPyObject)]
pub enum FusionArgument {
    Named(String),
    Weights(f32, f32, f32),
}

impl TryFrom<FusionArgument> for Fusion {
    type Error = Error;

    fn try_from(argument: FusionArgument) -> Result<Self, Error> {
        match argument {
            FusionArgument::Named(name) if name == "calibrated" => Ok(Self::Calibrated),
            FusionArgument::Named(name) if name == "reciprocal_rank" => Ok(Self::ReciprocalRank),
            FusionArgument::Named(name) => Err(Error::Argument(format!(
                "fusion is {name:?}; choose \"calibrated\", \"reciprocal_rank\" or three weights"
            ))),
            FusionArgument::Weights(text, trigram, vector)
                if [text, trigram, vector].iter().all(|x| x.is_finite() && *x >= 0.0) =>
            {
                Ok(Self::Weighted { text, trigram, vector })
            }
            FusionArgument::Weights(..) => {
                Err(Error::Argument("fusion has a weight that is no positive number".into()))
            }
        }
    }
}

/// An item, where its snippet begins and ends in characters, score, text, trigram and cosine.
pub type HitRow<'py> = (Bound<'py, PyTuple>, usize, usize, f32, f32, f32, f32);

/// A hit as Python gets it.
pub fn hit_row<'py>(py: Python<'py>, hit: &store::Hit) -> PyResult<HitRow<'py>> {
    // Bytes that begin a character, in surrogates written as UTF-8 too.
    let characters = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
    let start = characters(&hit.item.text[..hit.snippet.start]);
    let end = start + characters(&hit.item.text[hit.snippet.clone()]);
    Ok((item_row(py, &hit.item)?, start, end, hit.score, hit.text, hit.trigram, hit.cosine))
}
