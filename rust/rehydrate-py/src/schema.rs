//! Records from JSON's values, by the type hints of their classes: the reverse of `plain_at`.
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::checks::{SHOWN, listed_words, shown, type_name, written};
use crate::errors::raise;
use crate::exit::Running;
use crate::interned::interned;
use crate::plain::At;

type Any<'py> = Bound<'py, PyAny>;

/// A dataclass or named tuple that is read from its fields.
#[pyclass(frozen, module = "rehydrate._native")]
pub struct Schema(Record);

#[pymethods]
impl Schema {
    /// Look at the type hints of the class, and of those in it.
    #[new]
    fn new(class_: &Any<'_>) -> PyResult<Self> {
        let _running = Running::begin();
        Record::of(class_).map(Self)
    }

    /// A record from an object of JSON. The fields in `ready` were read before, and are not in it.
    ///
    /// Raises UnreadableIRError, with the path from `path` on, for a field that is unknown, missing or of another type.
    #[pyo3(signature = (value, path="", **ready))]
    fn read<'py>(&self, value: &Any<'py>, path: &str, ready: Option<&Bound<'py, PyDict>>) -> PyResult<Any<'py>> {
        let _running = Running::begin();
        self.0.read(value, &At::Path(path), ready)
    }
}

struct Record {
    class: Py<PyAny>,
    name: String,
    fields: Vec<Field>,
    /// By name, the place of a field.
    places: Py<PyDict>,
}

struct Field {
    name: Py<PyString>,
    shape: Shape,
    is_required: bool,
}

/// The values that a type hint lets through.
enum Shape {
    Any,
    /// An instance of this very class; a whole number for a float too.
    Exactly(Py<PyType>),
    /// One of these names, for its value: of an enum or a `Literal`.
    Choice(Py<PyDict>),
    Time,
    Record(Record),
    List(Box<Shape>),
    Object(Box<Shape>),
    /// Null, a text, or another one.
    Either {
        null: bool,
        text: Option<Box<Shape>>,
        other: Box<Shape>,
    },
}

impl Record {
    fn of(class: &Any<'_>) -> PyResult<Self> {
        let py = class.py();
        let hints = py.import("typing")?.call_method1("get_type_hints", (class,))?;
        let mut fields = Vec::new();
        let mut add = |name: Any<'_>, is_required: bool| -> PyResult<()> {
            let shape = Shape::of(&hints.get_item(&name)?)?;
            fields.push(Field { name: name.cast_into()?.unbind(), shape, is_required });
            Ok(())
        };
        if class.cast::<PyType>()?.is_subclass_of::<PyTuple>()? {
            let defaults = class.getattr("_field_defaults")?;
            for name in class.getattr("_fields")?.try_iter()? {
                let name = name?;
                let is_required = !defaults.contains(&name)?;
                add(name, is_required)?;
            }
        } else {
            let module = py.import("dataclasses")?;
            let missing = module.getattr("MISSING")?;
            for field in module.call_method1("fields", (class,))?.try_iter()? {
                let field = field?;
                if field.getattr("init")?.is_truthy()? {
                    let has_default = |name: &str| PyResult::Ok(!field.getattr(name)?.is(&missing));
                    let is_required = !has_default("default")? && !has_default("default_factory")?;
                    add(field.getattr("name")?, is_required)?;
                }
            }
        }
        let name = class.getattr("__name__")?.extract()?;
        let places = PyDict::new(py);
        for (place, field) in fields.iter().enumerate() {
            places.set_item(&field.name, place)?;
        }
        Ok(Self { class: class.clone().unbind(), name, fields, places: places.unbind() })
    }

    fn read<'py>(&self, value: &Any<'py>, at: &At<'_, 'py>, ready: Option<&Bound<'py, PyDict>>) -> PyResult<Any<'py>> {
        let py = value.py();
        let Ok(mapping) = value.cast::<PyMapping>() else { return Err(other_type(value, at, "an object")) };
        let pairs: Vec<(Any<'py>, Any<'py>)> = mapping.items()?.extract()?;
        let places = self.places.bind(py);
        let mut unknown = Vec::new();
        for (name, _) in &pairs {
            if !places.contains(name)? {
                unknown.push(name.str()?);
            }
        }
        if !unknown.is_empty() {
            let names: Vec<String> = self.fields.iter().map(|field| field.name.bind(py).to_string()).collect();
            let remedy = format!("upgrade rehydrate, or leave it out: a {} has {}", self.name, names.join(", "));
            refuse(at, "has the unknown field", &unknown, &remedy)?;
        }
        let is_there =
            |name| PyResult::Ok(mapping.contains(name)? || ready.map_or(Ok(false), |ready| ready.contains(name))?);
        let mut missing = Vec::new();
        for field in self.fields.iter().filter(|field| field.is_required) {
            if !is_there(&field.name)? {
                missing.push(field.name.bind(py).clone());
            }
        }
        refuse(at, "has no", &missing, "add it")?;
        let read = ready.map_or_else(|| Ok(PyDict::new(py)), |ready| ready.copy())?;
        for (name, one) in &pairs {
            let place: usize = places.as_any().get_item(name)?.extract()?;
            let field = &self.fields[place];
            let name = field.name.bind(py);
            read.set_item(name, field.shape.read(one, &At::Field(at, name))?)?;
        }
        self.class.bind(py).call((), Some(&read)).map_err(|error| does_not_fit(py, error, at))
    }
}

/// The error of a class for values that it does not accept together, with their place.
fn does_not_fit<'py>(py: Python<'py>, error: PyErr, at: &At<'_, 'py>) -> PyErr {
    let is_one = |class: &str| {
        let class = py.import("rehydrate.errors").and_then(|errors| errors.getattr(class));
        class.is_ok_and(|class| error.is_instance(py, &class))
    };
    if is_one("InvalidArgumentError") && !is_one("UnreadableIRError") {
        return unreadable(py, at, "does not hold together", &error.value(py).to_string());
    }
    error
}

impl Shape {
    fn of(hint: &Any<'_>) -> PyResult<Self> {
        let py = hint.py();
        let typing = py.import("typing")?;
        if hint.is(&typing.getattr("Any")?) {
            return Ok(Self::Any);
        }
        let origin = typing.call_method1("get_origin", (hint,))?;
        if origin.is_none() {
            return Self::of_class(hint);
        }
        let hints: Vec<Any<'_>> = typing.call_method1("get_args", (hint,))?.extract()?;
        let is_union = origin.is(&typing.getattr("Union")?) || origin.is(&py.import("types")?.getattr("UnionType")?);
        if is_union {
            return Self::of_union(&hints);
        }
        if origin.is(&typing.getattr("Literal")?) {
            let choices = PyDict::new(py);
            for one in hints {
                choices.set_item(one.str()?, one)?;
            }
            return Ok(Self::Choice(choices.unbind()));
        }
        if origin.is(py.get_type::<PyTuple>()) {
            return Ok(Self::List(Box::new(Self::of(&hints[0])?)));
        }
        Ok(Self::Object(Box::new(Self::of(&hints[1])?)))
    }

    fn of_class(hint: &Any<'_>) -> PyResult<Self> {
        let py = hint.py();
        let class = hint.cast::<PyType>()?;
        let enums = py.import("enum")?;
        if class.is_subclass(&enums.getattr("Enum")?)? {
            let (choices, texts) = (PyDict::new(py), enums.getattr("StrEnum")?);
            for member in class.try_iter()? {
                let member = member?;
                let name = if member.is_instance(&texts)? {
                    member.getattr("value")?.str()?.into_any()
                } else {
                    member.getattr("name")?.call_method0("lower")?
                };
                choices.set_item(name, member)?;
            }
            return Ok(Self::Choice(choices.unbind()));
        }
        if hint.is(&py.import("datetime")?.getattr("datetime")?) {
            return Ok(Self::Time);
        }
        if hint.hasattr("__dataclass_fields__")? || class.is_subclass_of::<PyTuple>()? {
            return Record::of(hint).map(Self::Record);
        }
        Ok(Self::Exactly(class.clone().unbind()))
    }

    fn of_union(hints: &[Any<'_>]) -> PyResult<Self> {
        let is_null = |hint: &&Any<'_>| hint.is(hint.py().None().bind(hint.py()).get_type());
        let others: Vec<&Any<'_>> = hints.iter().filter(|hint| !is_null(hint)).collect();
        let (last, rest) = others.split_last().ok_or_else(|| PyTypeError::new_err("a union of nothing"))?;
        let text = if last.is(last.py().get_type::<PyString>()) {
            None
        } else {
            rest.iter().find(|hint| hint.is(hint.py().get_type::<PyString>()))
        };
        Ok(Self::Either {
            null: others.len() < hints.len(),
            text: text.map(|hint| Self::of(hint).map(Box::new)).transpose()?,
            other: Box::new(Self::of(last)?),
        })
    }

    fn read<'py>(&self, value: &Any<'py>, at: &At<'_, 'py>) -> PyResult<Any<'py>> {
        let py = value.py();
        match self {
            Self::Any => Ok(value.clone()),
            Self::Exactly(class) => {
                let class = class.bind(py);
                let is_whole = value.is_exact_instance_of::<PyInt>();
                let is_one = value.get_type().is(class) || (is_whole && class.is(py.get_type::<PyFloat>()));
                if !is_one {
                    return Err(other_type(value, at, &kind(class)?));
                }
                if is_whole && value.extract::<i64>().is_err() {
                    return Err(unreadable(py, at, &format!("is {}", shown(value, SHOWN)), "pass a number of 64 bits"));
                }
                Ok(value.clone())
            }
            Self::Choice(choices) => {
                let choices = choices.bind(py);
                let chosen = if value.is_instance_of::<PyString>() { choices.get_item(value)? } else { None };
                chosen.ok_or_else(|| {
                    let names: Vec<Any<'py>> = choices.keys().iter().collect();
                    let remedy = format!("choose one of {}", listed_words(&names));
                    unreadable(py, at, &format!("is {}", written(value)), &remedy)
                })
            }
            Self::Time => {
                let read = py.import("datetime")?.getattr("datetime")?.call_method1("fromisoformat", (value,));
                read.map_err(|error| {
                    if !error.is_instance_of::<PyTypeError>(py) && !error.is_instance_of::<PyValueError>(py) {
                        return error;
                    }
                    let remedy = "pass a time such as 2026-02-17T09:30:00+00:00";
                    unreadable(py, at, &format!("is {}", written(value)), remedy)
                })
            }
            Self::Record(record) => record.read(value, at, None),
            Self::List(of) => {
                if !value.is_instance_of::<PyList>() && !value.is_instance_of::<PyTuple>() {
                    return Err(other_type(value, at, "a list"));
                }
                let values = value.try_iter()?.enumerate();
                let read = values.map(|(number, one)| of.read(&one?, &At::Index(at, number)));
                Ok(PyTuple::new(py, read.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Self::Object(of) => {
                let Ok(mapping) = value.cast::<PyMapping>() else { return Err(other_type(value, at, "an object")) };
                let read = PyDict::new(py);
                for pair in mapping.items()? {
                    let (key, one): (Any<'py>, Any<'py>) = pair.extract()?;
                    let one = of.read(&one, &At::Key(at, &key.str()?))?;
                    read.set_item(key, one)?;
                }
                Ok(read.into_any())
            }
            Self::Either { null: true, .. } if value.is_none() => Ok(value.clone()),
            Self::Either { text: Some(text), .. } if value.is_instance_of::<PyString>() => text.read(value, at),
            Self::Either { other, .. } => other.read(value, at),
        }
    }
}

/// A class as a remedy names it.
fn kind(class: &Bound<'_, PyType>) -> PyResult<String> {
    let name: String = class.getattr(interned!(class.py(), "__name__"))?.extract()?;
    Ok(match name.as_str() {
        "str" => "a string".into(),
        "int" => "a whole number".into(),
        "float" => "a number".into(),
        "bool" => "true or false".into(),
        _ => name,
    })
}

fn unreadable<'py>(py: Python<'py>, at: &At<'_, 'py>, problem: &str, remedy: &str) -> PyErr {
    at.path(py).map_or_else(|error| error, |path| raise(py, "UnreadableIRError", (path, problem, remedy)))
}

fn other_type<'py>(value: &Any<'py>, at: &At<'_, 'py>, expected: &str) -> PyErr {
    let found = if value.is_none() { "null".into() } else { format!("of type {}", type_name(value)) };
    unreadable(value.py(), at, &format!("is {found}"), &format!("pass {expected}"))
}

/// Refuse fields that are unknown or missing, if there are any.
fn refuse<'py>(at: &At<'_, 'py>, problem: &str, names: &[Bound<'py, PyString>], remedy: &str) -> PyResult<()> {
    let Some(first) = names.first() else { return Ok(()) };
    let py = first.py();
    let listed: Vec<String> = names.iter().map(|name| written(name)).collect();
    let problem = format!("{problem} {}", listed.join(", "));
    Err(raise(py, "UnreadableIRError", (at.path(py)?, problem, remedy, PyTuple::new(py, names)?)))
}
