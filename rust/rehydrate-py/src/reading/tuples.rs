//! A conversation's messages as Python's named tuples.
use once_cell::race::OnceBox;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rehydrate_core::conversation::PieceKind;

use super::conversation::Conversation;
use super::facts::Facts;
use super::strings::{Id, Source};

/// Makes named tuples by `tuple.__new__`, without their own constructors, which are written in Python.
pub struct Make<'py> {
    pub new: Bound<'py, PyAny>,
    piece: Bound<'py, PyAny>,
    message: Bound<'py, PyAny>,
    pub unit: Bound<'py, PyAny>,
    /// In order.
    kinds: Bound<'py, PyTuple>,
}

impl<'py> Make<'py> {
    pub fn new(py: Python<'py>) -> PyResult<Self> {
        static SHAPES: OnceBox<[Py<PyAny>; 5]> = OnceBox::new();
        let [new, piece, message, unit, kinds] = SHAPES.get_or_try_init(|| {
            let module = py.import("rehydrate.messages")?;
            let shape = |name| PyResult::Ok(module.getattr(name)?.unbind());
            let kinds = PyTuple::new(py, module.getattr("PieceKind")?.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
            if kinds.len() <= PieceKind::Thinking as usize {
                return Err(PyValueError::new_err("a kind of piece is missing"));
            }
            let new = py.get_type::<PyTuple>().getattr("__new__")?.unbind();
            PyResult::Ok(Box::new([new, shape("Piece")?, shape("Message")?, shape("Unit")?, kinds.into_any().unbind()]))
        })?;
        Ok(Self {
            new: new.bind(py).clone(),
            piece: piece.bind(py).clone(),
            message: message.bind(py).clone(),
            unit: unit.bind(py).clone(),
            kinds: kinds.bind(py).clone().cast_into()?,
        })
    }
}

impl Conversation {
    pub(super) fn made<'py>(&self, make: &Make<'py>, at: usize) -> PyResult<Bound<'py, PyAny>> {
        let (py, of, row) = (make.new.py(), &self.columns, &self.all()[at]);
        let piece = |(text, kind): &(Source, PieceKind)| {
            make.new.call1((&make.piece, (text.to_py(py), make.kinds.get_item(*kind as usize)?)))
        };
        let pieces = PyTuple::new(py, of.pieces(at).iter().map(piece).collect::<PyResult<Vec<_>>>()?)?;
        let ids = |ids: &[Id]| PyTuple::new(py, ids.iter().map(|id| id.to_py(py)));
        let (calls, answers) = (ids(of.calls(at))?, ids(of.answers(at))?);
        let role = of.of.roles[row.role].shown.bind(py);
        let fields = (row.index, role, pieces, row.images, calls, answers, row.is_user_turn, row.media_tokens);
        make.new.call1((&make.message, fields))
    }

    /// The values by which one is compared and copied, however they are held.
    pub(super) fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Facts { format, ignored, user_first, bound, .. } = &self.facts;
        let (ignored, bound) = (PyTuple::new(py, ignored)?, PyTuple::new(py, bound)?);
        (format, self.messages(py)?, self.units(py)?, ignored, *user_first, bound).into_pyobject(py)
    }
}
