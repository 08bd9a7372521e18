//! Names that are not in use yet.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyString};

use crate::exit::Running;

/// Gives each wanted name, or the same with the first number that makes it free. A name that is wanted a thousand times
/// is not searched from its first number again.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct FreeNames {
    taken: Py<PySet>,
    /// Between a name and its number.
    between: String,
    numbers: Py<PyDict>,
}

#[pymethods]
impl FreeNames {
    #[new]
    fn begin(taken: &Bound<'_, PyAny>, between: String) -> PyResult<Self> {
        let _running = Running::begin();
        let py = taken.py();
        let names = PySet::empty(py)?;
        for name in taken.try_iter()? {
            names.add(name?)?;
        }
        Ok(Self { taken: names.unbind(), between, numbers: PyDict::new(py).unbind() })
    }

    /// The name, which is taken from now on.
    fn take<'py>(&self, wanted: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let _running = Running::begin();
        let (taken, numbers) = (self.taken.bind(wanted.py()), self.numbers.bind(wanted.py()));
        let mut number: u64 = numbers.get_item(wanted)?.map_or(Ok(1), |number| number.extract())?;
        let mut name = wanted.clone().into_any();
        while taken.contains(&name)? {
            number += 1;
            name = wanted.add(format!("{}{number}", self.between))?;
        }
        numbers.set_item(wanted, number)?;
        taken.add(&name)?;
        Ok(name)
    }
}
