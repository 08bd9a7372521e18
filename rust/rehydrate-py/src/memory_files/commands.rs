//! The commands of the memory tool: what each changes, and its answer.
//!
//! Commands, answers and errors are those of Anthropic's documentation of the tool, also for commands on folders.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PySequence, PyString};
use rehydrate_core::memory_files::{inserted, line_at, lines_with, shown_file, shown_folder};

use super::{Answered, ROOT, Refused, refused};
use crate::reading::{Fields, string_of, text_of};

const MAX_PATH_CHARS: usize = 512;
const QUOTED_CHARS: usize = 2_000;
const COMMANDS: [&str; 6] = ["view", "create", "str_replace", "insert", "delete", "rename"];

/// The effect of a command on the files.
pub struct Outcome<'py> {
    /// The new text of each file that changes, None if it goes.
    pub changes: Bound<'py, PyDict>,
    pub answer: String,
    /// After a replacement, the file and the line for the answer.
    pub edited: Option<(String, usize)>,
}

/// The outcome of a command on files, which are texts by path. With `overwrites` an existing file may be created again.
pub fn outcome_of<'py>(
    arguments: &Bound<'py, PyAny>,
    texts: &Bound<'py, PyDict>,
    overwrites: bool,
) -> Answered<Outcome<'py>> {
    let Some(given) = Fields::of(arguments) else {
        return refused(format!("Error: the arguments are {}; send an object", shown(arguments)?));
    };
    let command = Command { given, files: Files(texts), changes: PyDict::new(texts.py()) };
    let (answer, edited) = command.run(overwrites)?;
    Ok(Outcome { changes: command.changes, answer, edited })
}

fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(text_of(&value.repr()?).into_owned())
}

/// Texts by path.
#[derive(Clone, Copy)]
struct Files<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Files<'_, 'py> {
    fn text(self, path: &str) -> PyResult<Option<Bound<'py, PyString>>> {
        Ok(self.0.get_item(path)?.map(|text| text.cast_into()).transpose()?)
    }

    /// The files in their order.
    fn all(self) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>> {
        self.0.iter().map(|(path, text)| Ok((path.cast_into()?, text.cast_into()?))).collect()
    }

    fn is_folder(self, path: &str) -> PyResult<bool> {
        Ok(self.at(path)?.iter().any(|(file, _)| text_of(file) != path))
    }

    /// The file of this path, or all files of this folder.
    fn at(self, path: &str) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>> {
        let is_there =
            |file: &str| file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        Ok(self.all()?.into_iter().filter(|(file, _)| is_there(&text_of(file))).collect())
    }

    /// No folder above a path may be a file.
    fn check_folders(self, path: &str) -> Answered<()> {
        for (place, _) in path.match_indices('/').skip(1) {
            if self.text(&path[..place])?.is_some() {
                return refused(format!("Error: The path {} is a file, not a directory", &path[..place]));
            }
        }
        Ok(())
    }
}

struct Command<'a, 'py> {
    given: Fields<'a, 'py>,
    files: Files<'a, 'py>,
    changes: Bound<'py, PyDict>,
}

type Answer = (String, Option<(String, usize)>);

impl<'py> Command<'_, 'py> {
    fn run(&self, overwrites: bool) -> Answered<Answer> {
        let name = self.argument("command")?;
        let known =
            name.cast::<PyString>().ok().and_then(|name| COMMANDS.into_iter().find(|each| text_of(name) == *each));
        let answer = match known {
            Some("view") => self.view()?,
            Some("create") => self.create(overwrites)?,
            Some("str_replace") => return self.replace(),
            Some("insert") => self.insert()?,
            Some("delete") => self.delete()?,
            Some(_) => self.rename()?,
            None => {
                return refused(format!("Error: `command` is {}; send one of {}", shown(&name)?, COMMANDS.join(", ")));
            }
        };
        Ok((answer, None))
    }

    fn argument(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let py = self.changes.py();
        Ok(self.given.get(&PyString::new(py, name))?.unwrap_or_else(|| py.None().into_bound(py)))
    }

    fn text(&self, name: &str) -> Answered<String> {
        let value = self.argument(name)?;
        let Ok(text) = value.cast::<PyString>() else {
            return refused(format!("Error: `{name}` is {}; send a string", shown(&value)?));
        };
        match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => {
                refused(format!("Error: `{name}` holds half of a surrogate pair, which isn't text; leave it out"))
            }
        }
    }

    /// A path below /memories without needless slashes.
    ///
    /// The files are rows of a database, so no path leads out of it. Paths that would lead out of a folder are still
    /// refused: a model that sends one is wrong, or misled.
    fn path(&self, name: &str) -> Answered<String> {
        let value = self.argument(name)?;
        let text = match value.cast::<PyString>() {
            Ok(text) if !text.is_empty().map_err(Refused::Raised)? => text,
            _ => return refused(format!("Error: `{name}` is {}; send a path such as {ROOT}/notes.md", shown(&value)?)),
        };
        let length = text.len()?;
        if length > MAX_PATH_CHARS {
            return refused(format!("Error: `{name}` has {length} characters; send at most {MAX_PATH_CHARS}"));
        }
        let path = text_of(text);
        if !text.call_method0("isprintable")?.is_truthy()? || path.contains('\\') {
            return refused(format!("Error: Path {} has a character that no file name here may have", shown(&value)?));
        }
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if !path.starts_with('/') || parts.first() != Some(&&ROOT[1..]) {
            return refused(format!("Error: Path must start with {ROOT}, got: {path}"));
        }
        let parse = value.py().import("urllib.parse")?;
        let decoded = parse.call_method1("unquote", (parse.call_method1("unquote", (&value,))?,))?;
        let decoded = text_of(decoded.cast::<PyString>().map_err(PyErr::from)?).replace('\\', "/");
        if parts.contains(&"..") || decoded.split('/').any(|part| part == "..") {
            return refused(format!("Error: Path {path} would escape {ROOT} directory"));
        }
        Ok(format!("/{}", parts.join("/")))
    }

    fn view(&self) -> Answered<String> {
        let path = self.path("path")?;
        if let Some(text) = self.files.text(&path)? {
            return shown_file(&path, &text_of(&text), |count| self.lines(count));
        }
        if path != ROOT && !self.files.is_folder(&path)? {
            return refused(format!("The path {path} does not exist. Please provide a valid path."));
        }
        let files = self.files.all()?;
        let files: Vec<_> = files.iter().map(|(file, text)| (text_of(file), text_of(text))).collect();
        Ok(shown_folder(&path, files.iter().map(|(file, text)| (&**file, &**text))))
    }

    /// The first and the last line to show.
    fn lines(&self, count: usize) -> Answered<(usize, usize)> {
        let range = self.argument("view_range")?;
        if range.is_none() {
            return Ok((1, count));
        }
        let ends: Vec<_> = match range.cast::<PySequence>() {
            Ok(ends) => ends.try_iter()?.collect::<PyResult<_>>()?,
            Err(_) => Vec::new(),
        };
        let wrong = |shown: String| format!("Error: Invalid `view_range` parameter: {shown}. It should be ");
        let numbers = match ends.as_slice() {
            [first, last] => line_of(first)?.zip(line_of(last)?),
            _ => None,
        };
        let Some((first, last)) = numbers else {
            return refused(
                wrong(shown(&range)?) + "[start_line, end_line], or [start_line, -1] for the rest of the file.",
            );
        };
        let most = count as i64;
        let (first, last) = (first.max(1), if last == -1 { most } else { last.min(most) });
        if first > most || last < first {
            let listed = PyList::new(range.py(), ends)?;
            let words = wrong(shown(&listed)?);
            return refused(format!("{words}within the range of lines of the file: [1, {count}]"));
        }
        Ok((first as usize, last as usize))
    }

    fn create(&self, overwrites: bool) -> Answered<String> {
        let (path, text) = (self.path("path")?, self.text("file_text")?);
        let is_there = self.files.text(&path)?.is_some();
        if path == ROOT || self.files.is_folder(&path)? || (is_there && !overwrites) {
            return refused(format!("Error: File {path} already exists"));
        }
        self.files.check_folders(&path)?;
        self.changes.set_item(&path, text)?;
        Ok(format!("File created successfully at: {path}"))
    }

    fn replace(&self) -> Answered<Answer> {
        let (path, old) = (self.path("path")?, self.text("old_str")?);
        let new = if self.argument("new_str")?.is_none() { String::new() } else { self.text("new_str")? };
        let Some(before) = self.files.text(&path)? else {
            return refused(format!("Error: The path {path} does not exist. Please provide a valid path."));
        };
        if old.is_empty() {
            return refused("No replacement was performed. `old_str` is empty; send the text to replace".to_owned());
        }
        let before = text_of(&before);
        let cut = old.char_indices().nth(QUOTED_CHARS).map(|(end, _)| format!("{}...", &old[..end]));
        let quoted = cut.as_ref().unwrap_or(&old);
        let mut places = before.match_indices(old.as_str());
        let Some((place, _)) = places.next() else {
            return refused(format!(
                "No replacement was performed, old_str `{quoted}` did not appear verbatim in {path}."
            ));
        };
        if places.next().is_some() {
            let lines = lines_with(&before, &old);
            return refused(format!(
                "No replacement was performed. Multiple occurrences of old_str `{quoted}` in lines: {lines}. Please \
                 ensure it is unique"
            ));
        }
        self.changes.set_item(&path, before.replacen(old.as_str(), &new, 1))?;
        let answer = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n";
        Ok((answer.to_owned(), Some((path, line_at(&before, place)))))
    }

    fn insert(&self) -> Answered<String> {
        let (path, text, line) = (self.path("path")?, self.text("insert_text")?, self.argument("insert_line")?);
        let Some(before) = self.files.text(&path)? else {
            return refused(format!("Error: The path {path} does not exist"));
        };
        let number = line_of(&line)?.and_then(|line| usize::try_from(line).ok());
        match inserted(&text_of(&before), number, &text) {
            Ok(after) => self.changes.set_item(&path, after)?,
            Err(count) => {
                let line = string_of(&line)?;
                return refused(format!(
                    "Error: Invalid `insert_line` parameter: {}. It should be within the range of lines of the file: [0, \
                     {count}]",
                    text_of(&line)
                ));
            }
        }
        Ok(format!("The file {path} has been edited."))
    }

    fn delete(&self) -> Answered<String> {
        let path = self.path("path")?;
        if path == ROOT {
            return refused(format!("Error: Cannot delete the {ROOT} directory itself"));
        }
        let gone = self.files.at(&path)?;
        if gone.is_empty() {
            return refused(format!("Error: The path {path} does not exist"));
        }
        for (file, _) in gone {
            self.changes.set_item(file, self.changes.py().None())?;
        }
        Ok(format!("Successfully deleted {path}"))
    }

    fn rename(&self) -> Answered<String> {
        let (old, new) = (self.path("old_path")?, self.path("new_path")?);
        if old == ROOT {
            return refused(format!("Error: Cannot rename the {ROOT} directory itself"));
        }
        if new == ROOT || self.files.text(&new)?.is_some() || self.files.is_folder(&new)? {
            return refused(format!("Error: The destination {new} already exists"));
        }
        let moved = self.files.at(&old)?;
        if moved.is_empty() {
            return refused(format!("Error: The path {old} does not exist"));
        }
        if new.starts_with(&format!("{old}/")) {
            return refused(format!("Error: Cannot rename {old} into itself"));
        }
        self.files.check_folders(&new)?;
        for (file, _) in &moved {
            self.changes.set_item(file, self.changes.py().None())?;
        }
        for (file, text) in moved {
            self.changes.set_item(format!("{new}{}", &text_of(&file)[old.len()..]), text)?;
        }
        Ok(format!("Successfully renamed {old} to {new}"))
    }
}

/// The number of a line, if it is exactly an int. One that is too large for any file becomes the largest number.
fn line_of(value: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if !value.is_exact_instance_of::<PyInt>() {
        return Ok(None);
    }
    match value.extract() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Ok(Some(if value.lt(0)? { i64::MIN } else { i64::MAX })),
    }
}
