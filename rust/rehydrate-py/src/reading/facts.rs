//! Facts about a list that its messages do not hold.
use std::collections::BTreeSet;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::blocks::Body;

/// Facts about the list as a whole.
#[derive(Default)]
pub struct Facts {
    pub format: String,
    pub ignored: Vec<usize>,
    pub user_first: bool,
    pub bound: Vec<usize>,
    pub opening: Vec<usize>,
    pub unknown: Option<Py<PyDict>>,
}

impl Facts {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            format: self.format.clone(),
            ignored: self.ignored.clone(),
            bound: self.bound.clone(),
            opening: self.opening.clone(),
            unknown: self.unknown.as_ref().map(|unknown| unknown.clone_ref(py)),
            ..*self
        }
    }
}

/// Facts about a list that its messages do not hold.
#[derive(Default)]
pub struct Notes {
    /// The index of the last entry with a summary that the provider itself wrote.
    pub state: Option<usize>,
    /// The indices of entries that always stay.
    pub bound: BTreeSet<usize>,
    pub unknown: Option<Py<PyDict>>,
}

impl Notes {
    /// Note the facts of an entry. An unreadable block may be state too.
    pub fn take(&mut self, py: Python<'_>, body: &mut Body) -> PyResult<()> {
        if body.has_state {
            self.state = Some(body.index);
        }
        if body.has_unread {
            self.bound.insert(body.index);
        }
        if body.unknown.is_empty() {
            return Ok(());
        }
        for name in body.unknown.drain(..) {
            let unknown = self.unknown.get_or_insert_with(|| PyDict::new(py).unbind()).bind(py);
            let count: usize = unknown.get_item(&name)?.map_or(Ok(0), |count| count.extract())?;
            unknown.set_item(name, count + 1)?;
        }
        Ok(())
    }

    /// The facts of the list. The provider ignores everything before its last summary.
    pub fn facts(mut self, format: &str) -> Facts {
        self.bound.extend(self.state);
        let bound = self.bound.into_iter().collect();
        Facts { format: format.to_owned(), bound, unknown: self.unknown, ..Facts::default() }
    }
}
