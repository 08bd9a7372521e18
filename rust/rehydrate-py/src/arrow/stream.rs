//! A stream of batches that Python makes one by one, when they are read.
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator};
use rehydrate_core::error::Error;

use super::{ArrowRows, SCHEMA, STREAM, wrong};
use crate::errors::to_py;

/// Batches with the same columns, each made when it is read. They are read once.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ArrowStream {
    schema: SchemaRef,
    source: Mutex<Option<Made>>,
}

#[pymethods]
impl ArrowStream {
    /// The first batch, and an iterator of those after it.
    #[new]
    fn new(first: PyRef<'_, ArrowRows>, rest: Bound<'_, PyIterator>) -> Self {
        let schema = first.batch.schema();
        let made = Made { schema: schema.clone(), first: Some(first.batch.clone()), rest: rest.unbind() };
        Self { schema, source: Mutex::new(Some(made)) }
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowStream: {}>", self.column_names().join(", "))
    }

    /// The schema, by the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(|error| wrong(py, &error))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// The batches, by the Arrow PyCapsule interface. A request for another schema is ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let made = self
            .source
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or_else(|| to_py(py, &Error::Argument("the stream has been read; make another one".into())))?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(made)), STREAM)
    }
}

struct Made {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    rest: Py<PyIterator>,
}

impl Iterator for Made {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.first.take() {
            return Some(Ok(batch));
        }
        let next = |py: Python<'_>| {
            let made = self.rest.bind(py).clone().next()?;
            let batch = made.and_then(|rows| Ok(rows.cast::<ArrowRows>()?.get().batch.clone()));
            Some(batch.map_err(|error| ArrowError::ComputeError(error.to_string())))
        };
        let batch = Python::try_attach(next)??;
        Some(batch.and_then(|batch| RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())))
    }
}

impl RecordBatchReader for Made {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
