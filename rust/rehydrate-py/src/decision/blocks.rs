//! The blocks of texts that may be kept in part, for the report of their unit.
use std::collections::HashMap;

use pyo3::prelude::*;
use rehydrate_core::selection;

use crate::convert::NamedTuple;
use crate::prepared::Prepared;
use crate::reading::Conversation;

/// The divided texts of a conversation.
#[derive(FromPyObject)]
pub struct Divided<'py>(
    Bound<'py, Prepared>,
    /// Its pieces are the divided ones. Its messages and units are the decision's.
    Bound<'py, Conversation>,
    /// For each divided text, 1 for each block that is kept.
    Vec<Vec<u8>>,
    /// The handle of each whole text in memory.
    HashMap<usize, String>,
);

impl<'py> Divided<'py> {
    /// Per unit, a `BlockReport` of each block.
    pub fn reports(
        &self,
        py: Python<'py>,
        core: &selection::Selection,
        origin: impl Fn(usize) -> usize,
    ) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let Self(prepared, conversation, kept_blocks, handles) = self;
        let of = &conversation.get().columns;
        let report = NamedTuple::of(py, "rehydrate.compact.result", "BlockReport")?;
        let mut found: Vec<Vec<Bound<'py, PyAny>>> = Vec::new();
        found.resize_with(of.unit_len(), Vec::new);
        let mut figures: Vec<Vec<(u32, f64)>> = Vec::new();
        for block in &core.blocks {
            figures.resize_with(figures.len().max(block.text + 1), Vec::new);
            figures[block.text].push((block.tokens, block.gain));
        }
        for (text, divided) in prepared.get().core.divided_texts().iter().enumerate() {
            let position = of.of.rows.partition_point(|row| row.pieces_end <= divided.piece);
            let Some((row, &unit)) = of.of.rows.get(position).zip(of.units.unit_of().get(position)) else { continue };
            let own = divided.piece - (row.pieces_end - of.pieces(position).len());
            let handle = handles.get(&text).filter(|handle| !handle.is_empty());
            let kept = kept_blocks.get(text).map_or(&[][..], Vec::as_slice);
            let figures = figures.get(text).map_or(&[][..], Vec::as_slice);
            for ((block, &kept), &(tokens, gain)) in divided.division.blocks.iter().zip(kept).zip(figures) {
                found[unit].push(report.make([
                    origin(row.index).into_pyobject(py)?.into_any(),
                    own.into_pyobject(py)?.into_any(),
                    divided.division.measure.name().into_pyobject(py)?.into_any(),
                    block.first.into_pyobject(py)?.into_any(),
                    block.last.into_pyobject(py)?.into_any(),
                    tokens.into_pyobject(py)?.into_any(),
                    gain.into_pyobject(py)?.into_any(),
                    (kept != 0 && core.packing.kept[unit]).into_pyobject(py)?.to_owned().into_any(),
                    handle.into_pyobject(py)?.into_any(),
                ])?);
            }
        }
        Ok(found)
    }
}
