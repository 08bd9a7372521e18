//! Strings that are made once: keys of messages, and roles.
use once_cell::race::OnceBox;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A string of Python, made at its first use.
///
/// `pyo3::intern!` releases the GIL while it holds a lock. A child that another thread forks then waits forever for
/// that lock. Here no thread waits: two threads may make the string, and one of them is kept.
pub struct Interned(&'static str, OnceBox<Py<PyString>>);

impl Interned {
    pub const fn new(text: &'static str) -> Self {
        Self(text, OnceBox::new())
    }

    pub const fn text(&self) -> &'static str {
        self.0
    }

    pub fn get<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.1.get_or_init(|| Box::new(PyString::intern(py, self.0).unbind())).bind(py)
    }
}

/// `interned!(py, "role")`: a `&Bound<'py, PyString>`.
macro_rules! interned {
    ($py:expr, $text:literal) => {{
        static STRING: $crate::interned::Interned = $crate::interned::Interned::new($text);
        STRING.get($py)
    }};
}
pub(crate) use interned;

/// A struct that is read from the attributes of a Python object. PyO3's own derive has the lock that `interned!`
/// avoids.
macro_rules! record {
    ($(#[$meta:meta])* struct $name:ident<$py:lifetime> { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        struct $name<$py> { $($(#[$doc])* $field: $type,)* }

        impl<'a, $py> FromPyObject<'a, $py> for $name<$py> {
            type Error = PyErr;

            fn extract(value: Borrowed<'a, $py, PyAny>) -> PyResult<Self> {
                Ok(Self { $($field: {
                    static NAME: $crate::interned::Interned = $crate::interned::Interned::new(stringify!($field));
                    value.getattr(NAME.get(value.py()))?.extract()?
                },)* })
            }
        }
    };
}
pub(crate) use record;
