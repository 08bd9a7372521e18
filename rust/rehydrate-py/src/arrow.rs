//! Arrow tables for Python, by the PyCapsule interface: rows of texts come in, columns of results go out next to an id.
//!
//! A row without a text, or with bytes that aren't UTF-8, is an error of the row and never of the table.
mod import;
mod stream;
mod texts;

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyString};
use rehydrate_core::batches;
use rehydrate_core::embed::Embedder;
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::engine::Engine;
use rehydrate_core::error::Error;
use rehydrate_core::fork::{Guarded, Refused};
use rehydrate_core::interrupt;

use crate::errors::{detached, to_py};
use crate::tokens::named;
use import::Source;
pub use stream::ArrowStream;
use texts::Texts;

const STREAM: &std::ffi::CStr = c"arrow_array_stream";
const SCHEMA: &std::ffi::CStr = c"arrow_schema";

/// Makes this thread compute without a helper thread, or with one again. Returns whether it did without one before.
#[pyfunction]
pub fn set_alone(alone: bool) -> bool {
    interrupt::set_alone(alone)
}

/// The batches of anything with `__arrow_c_stream__` or `__arrow_c_array__`, one after the other. There is at least
/// one.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ArrowReader {
    source: Guarded<Source>,
}

#[pymethods]
impl ArrowReader {
    #[new]
    fn new(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refused =
            |(problem, remedy): Refused| Error::Argument(format!("a table cannot be read: {problem}; {remedy}"));
        Ok(Self { source: Guarded::new(Source::of(table)?, refused) })
    }

    fn __iter__(itself: Bound<'_, Self>) -> Bound<'_, Self> {
        itself
    }

    /// The producer may be Python code, so the interpreter's lock is released meanwhile.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowRows>> {
        let next = || self.source.with(Source::next_batch)?;
        Ok(detached(py, next)?.map(|batch| ArrowRows { batch }))
    }
}

/// Rows of a table.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ArrowRows {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowRows {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The texts of rows of a column: None for a missing text, bytes for one that isn't UTF-8.
    fn texts<'py>(&self, py: Python<'py>, column: &str, start: usize, end: usize) -> PyResult<Bound<'py, PyList>> {
        let texts = self.column(py, column)?;
        let text = |row: usize| match texts.bytes(row) {
            None => py.None().into_bound(py),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => PyString::new(py, text).into_any(),
                Err(_) => PyBytes::new(py, bytes).into_any(),
            },
        };
        PyList::new(py, (start..end.min(self.batch.num_rows())).map(text))
    }

    /// Check that a column holds texts.
    fn check(&self, py: Python<'_>, column: &str) -> PyResult<()> {
        self.column(py, column).map(|_| ())
    }

    /// The tokens of each text of a column, and the error if there are none.
    fn counts(&self, py: Python<'_>, column: &str, counter: &str) -> PyResult<ArrowColumns> {
        let texts = self.column(py, column)?;
        let columns = detached(py, || {
            let counted = batches::counts(Engine::shared(), &texts.all(), named(counter)?);
            let tokens: Int64Array = counted.into_iter().map(|count| count.map(i64::from)).collect();
            Ok(vec![("tokens".into(), Arc::new(tokens) as ArrayRef), texts.problems(column)])
        })?;
        Ok(ArrowColumns { columns })
    }

    /// The built-in model's vector of each text of a column, and the error if there is none.
    fn vectors(&self, py: Python<'_>, column: &str) -> PyResult<ArrowColumns> {
        let texts = self.column(py, column)?;
        let columns = detached(py, || {
            let model = StaticModel::builtin();
            let rows = batches::vectors(model, &texts.all());
            let (dim, zeros) = (model.dim(), vec![0.0; model.dim()]);
            let mut lists = FixedSizeListBuilder::new(Float32Builder::with_capacity(rows.len() * dim), dim as i32);
            for row in &rows {
                lists.values().append_slice(row.as_ref().unwrap_or(&zeros));
                lists.append(row.is_some());
            }
            Ok(vec![("vector".into(), Arc::new(lists.finish()) as ArrayRef), texts.problems(column)])
        })?;
        Ok(ArrowColumns { columns })
    }

    /// Some columns of these rows, followed by columns of results.
    fn with_columns(&self, py: Python<'_>, kept: Vec<String>, results: &ArrowColumns) -> PyResult<Self> {
        let schema = self.batch.schema_ref();
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for name in &kept {
            let at = schema.index_of(name).map_err(|error| wrong(py, &error))?;
            fields.push(Arc::clone(&schema.fields()[at]));
            arrays.push(Arc::clone(self.batch.column(at)));
        }
        for (name, array) in &results.columns {
            fields.push(Arc::new(Field::new(name, array.data_type().clone(), true)));
            arrays.push(Arc::clone(array));
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| wrong(py, &error))?;
        Ok(Self { batch })
    }
}

impl ArrowRows {
    fn column(&self, py: Python<'_>, name: &str) -> PyResult<Texts> {
        let found = self.batch.column_by_name(name);
        let found = found.ok_or_else(|| to_py(py, &Error::Argument(format!("there is no column {name:?}"))))?;
        Texts::of(found).ok_or_else(|| {
            to_py(
                py,
                &Error::Argument(format!(
                    "column {name:?} is of type {}; pass texts (string, large_string or string_view), a conversation as \
                     the JSON of its list of messages",
                    found.data_type()
                )),
            )
        })
    }
}

/// Columns of results, all of as many rows.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ArrowColumns {
    columns: Vec<(String, ArrayRef)>,
}

#[pymethods]
impl ArrowColumns {
    /// Columns by name, each with the kind of its values: "whole", "share", "truth", "text", "long_text" or "indices".
    #[new]
    fn new(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let column = |(name, kind, values): (String, String, Bound<'_, PyAny>)| Ok((name, array(&kind, &values)?));
        Ok(Self { columns: columns.into_iter().map(column).collect::<PyResult<_>>()? })
    }
}

fn array(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "whole" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "share" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        "truth" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "text" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
        // One column of a batch may hold more than the 2 GB of a short one.
        "long_text" => Arc::new(LargeStringArray::from(values.extract::<Vec<Option<String>>>()?)),
        "indices" => {
            let mut lists = ListBuilder::new(Int32Builder::new());
            for list in values.try_iter()? {
                let list: Option<Vec<i32>> = list?.extract()?;
                lists.values().append_slice(list.as_deref().unwrap_or_default());
                lists.append(list.is_some());
            }
            Arc::new(lists.finish())
        }
        _ => return Err(PyValueError::new_err(format!("no column of kind {kind}"))),
    })
}

/// A table: batches of rows with the same columns. Any reader of Arrow reads it without a copy.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl ArrowTable {
    #[new]
    fn new(py: Python<'_>, batches: Vec<PyRef<'_, ArrowRows>>) -> PyResult<Self> {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), |first| first.batch.schema());
        // Fields of one name and type may still differ in their metadata.
        let same = |rows: &PyRef<'_, ArrowRows>| {
            RecordBatch::try_new(Arc::clone(&schema), rows.batch.columns().to_vec()).map_err(|error| wrong(py, &error))
        };
        let batches = batches.iter().map(same).collect::<PyResult<_>>()?;
        Ok(Self { schema, batches })
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowTable of {} rows: {}>", self.__len__(), self.column_names().join(", "))
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
        let batches: Vec<Result<RecordBatch, ArrowError>> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }
}

fn wrong(py: Python<'_>, error: &ArrowError) -> PyErr {
    to_py(py, &Error::Argument(format!("the table cannot be used: {error}")))
}
