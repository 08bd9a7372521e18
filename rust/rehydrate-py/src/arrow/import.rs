//! From the capsules of the Arrow C interfaces to batches.
use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rehydrate_core::error::Error;

use super::{SCHEMA, STREAM};
use crate::errors::to_py;

const ARRAY: &CStr = c"arrow_array";

/// The source of batches.
pub enum Source {
    /// A stream, and whether a batch has come from it.
    Stream(RecordBatchStreamReader, bool),
    /// A batch that has not been taken yet.
    One(Option<RecordBatch>),
}

impl Source {
    pub fn of(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = table.py();
        if let Some(method) = table.getattr_opt("__arrow_c_stream__")? {
            let capsule = method.call0()?.cast_into::<PyCapsule>()?;
            return stream(&capsule)?.map_err(|error| unread(py, &error));
        }
        if let Some(method) = table.getattr_opt("__arrow_c_array__")? {
            let (schema, array) = method.call0()?.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
            return one(&schema, &array)?.map_err(|error| unread(py, &error));
        }
        let found = table.get_type().qualname()?;
        Err(to_py(
            py,
            &Error::Argument(format!(
                "the batch is of type {found}, which has no __arrow_c_stream__ or __arrow_c_array__; pass a table or a \
                 record batch of pyarrow, polars, duckdb or nanoarrow"
            )),
        ))
    }

    /// The next batch; of a stream without any, one without rows.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self {
            Self::One(batch) => Ok(batch.take()),
            Self::Stream(reader, has_come) => match reader.next() {
                Some(Ok(batch)) => {
                    *has_come = true;
                    Ok(Some(batch))
                }
                Some(Err(error)) => Err(Error::Argument(format!("the table cannot be read: {error}"))),
                None if *has_come => Ok(None),
                None => {
                    *has_come = true;
                    Ok(Some(RecordBatch::new_empty(reader.schema())))
                }
            },
        }
    }
}

#[expect(unsafe_code, reason = "the interface is C's")]
fn stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<Result<Source, ArrowError>> {
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds this struct. It is moved out of it, and what stays there is marked as released.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
    Ok(reader.map(|reader| Source::Stream(reader, false)))
}

#[expect(unsafe_code, reason = "the interface is C's")]
fn one(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<Result<Source, ArrowError>> {
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold these structs, and the caller's capsules outlive the call. The array is moved
    // out of its capsule, and what stays there is marked as released; the schema is only read.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    Ok(data.and_then(|data| {
        if !matches!(data.data_type(), DataType::Struct(_)) {
            return Err(ArrowError::SchemaError(format!("it is an array of {}, not of rows", data.data_type())));
        }
        let rows = StructArray::from(data);
        if rows.null_count() > 0 {
            return Err(ArrowError::SchemaError("whole rows are null".into()));
        }
        Ok(Source::One(Some(RecordBatch::from(rows))))
    }))
}

fn unread(py: Python<'_>, error: &ArrowError) -> PyErr {
    to_py(py, &Error::Argument(format!("the table cannot be read: {error}; pass one with named columns")))
}
