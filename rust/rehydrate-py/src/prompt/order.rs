//! The order in which the model reads the sections of a prompt.
use std::cmp::{Ordering, Reverse};

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::convert::bytes_of;
use crate::exit::Running;
use crate::interned::{interned, record};

record! {
    struct Section<'py> {
        id: Bound<'py, PyString>,
        priority: i64,
        relevance: f64,
        mode: Bound<'py, PyAny>,
        position: Bound<'py, PyAny>,
        anchor: Option<i128>,
        is_static: bool,
        is_system: bool,
    }
}

/// Sections in the order of a group.
type Group<'py> = Vec<(Bound<'py, PyAny>, Section<'py>)>;
/// The layer; the mode and the position in the system; the anchor of a dynamic section.
type Key = (u8, usize, usize, i128);

/// The sections in the order in which the model reads them, as `order` in `rehydrate.prompt.compiler` describes.
#[pyfunction]
pub fn ordered_sections(sections: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let _running = Running::begin();
    let mut keyed: Vec<(Key, Bound<'_, PyAny>, Section<'_>)> = Vec::new();
    for section in sections {
        let read: Section<'_> = section.extract()?;
        keyed.push((read.key()?, section, read));
    }
    keyed.sort_by_key(|(key, ..)| *key);
    let mut ordered = Vec::new();
    let mut groups: Vec<(Key, Group<'_>)> = Vec::new();
    for (key, section, read) in keyed {
        match groups.last_mut().filter(|(known, _)| *known == key) {
            Some((_, group)) => group.push((section, read)),
            None => groups.push((key, vec![(section, read)])),
        }
    }
    for ((layer, ..), group) in groups {
        if layer < 2 {
            ordered.extend(group.into_iter().map(|(section, _)| section));
        } else {
            ordered.extend(by_edges(group)?);
        }
    }
    Ok(ordered)
}

/// The best section last, the next best first, and so on, with the worst in the middle: models read best what is
/// nearest to the user's words. Sections that prefer the start or the end are there, the best of them outermost.
fn by_edges(mut group: Group<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    // By id last: sections that are ordered again, as in the next prompt, must not move.
    let best_first = |one: &Section<'_>, other: &Section<'_>| {
        let relevance = other.relevance.partial_cmp(&one.relevance).unwrap_or(Ordering::Equal);
        let ids = || bytes_of(&one.id).ok().cmp(&bytes_of(&other.id).ok());
        Reverse(one.priority).cmp(&Reverse(other.priority)).then(relevance).then_with(ids)
    };
    group.sort_by(|(_, one), (_, other)| best_first(one, other));
    let (mut start, mut middle, mut end) = (Vec::new(), Vec::new(), Vec::new());
    for (section, read) in group {
        match read.place()? {
            0 => start.push(section),
            1 => middle.push(section),
            _ => end.push(section),
        }
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for (rank, section) in middle.into_iter().enumerate() {
        if rank % 2 == 1 { first.push(section) } else { last.push(section) }
    }
    Ok(start.into_iter().chain(first).chain(last.into_iter().rev()).chain(end.into_iter().rev()).collect())
}

impl Section<'_> {
    fn key(&self) -> PyResult<Key> {
        Ok(if self.is_system {
            let modes = ["hierarchical", "constraint", "additive", "contextual"];
            (0, place_of(&self.mode, &modes)?, self.place()?, 0)
        } else if self.is_static {
            (1, 0, self.place()?, 0)
        } else {
            (2, 0, 0, self.anchor.unwrap_or(i128::MAX))
        })
    }

    fn place(&self) -> PyResult<usize> {
        place_of(&self.position, &["start", "middle", "end"])
    }
}

/// The place of an enum's member among the values of all.
fn place_of(member: &Bound<'_, PyAny>, values: &[&str]) -> PyResult<usize> {
    let value: String = member.getattr(interned!(member.py(), "value"))?.extract()?;
    Ok(values.iter().position(|known| *known == value).unwrap_or(values.len()))
}
