//! The lines of an outline: written from its names, and read again.
//!
//! A line for each heading: `Read: #4 src/rows.py, rows_of; #7 tests`. A reference, by which a message can be read, has
//! a blank after it and is before the names of its message.
use rustc_hash::FxHashMap;

/// The beginning of the first line.
const INTRODUCTION: &str = "Names in what was left out here";
/// References take at most a third as many characters as names: a handle has twenty tokens.
const NAME_CHARS_PER_REFERENCE_CHAR: i64 = 3;

/// A name in an outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    pub name: T,
    /// The tool that was called with it, or where it was.
    pub heading: T,
    /// The number or handle by which its message can be read; "" for none.
    pub reference: T,
}

/// Write the lines of these names; `how` says how to ask for one.
#[must_use]
pub fn write_lines(names: &[Listed<&str>], how: &str) -> String {
    let chars: usize = names.iter().map(|each| each.name.chars().count() + 2).sum();
    let mut room = i64::try_from(chars).unwrap_or(i64::MAX) / NAME_CHARS_PER_REFERENCE_CHAR;
    let mut has_room = FxHashMap::from_iter([("", true)]);
    let mut lines: Groups<'_, Groups<'_, Vec<&str>>> = Groups::default();
    for each in names {
        let fits = *has_room.entry(each.reference).or_insert_with(|| {
            room -= i64::try_from(each.reference.chars().count()).unwrap_or(i64::MAX / 2) + 1;
            room >= 0
        });
        lines.of(each.heading).of(if fits { each.reference } else { "" }).push(each.name);
    }
    let mut text = String::from(INTRODUCTION);
    if !how.is_empty() {
        text += "; ";
        text += how;
    }
    text.push('.');
    for (heading, mut groups) in lines.rows {
        // Names without a reference come first: after a reference they would seem to be its message's.
        groups.rows.sort_by_key(|(reference, _)| !reference.is_empty());
        let groups = groups.rows.iter().map(|(reference, names)| {
            let blank = if reference.is_empty() { "" } else { " " };
            format!("{reference}{blank}{}", names.join(", "))
        });
        text += &format!("\n{heading}: {}", groups.collect::<Vec<_>>().join("; "));
    }
    text
}

/// Read the names in the lines of an outline; None for any other text.
#[must_use]
pub fn read_lines(text: &str) -> Option<Vec<Listed<String>>> {
    let mut lines = text.split('\n');
    lines.next().filter(|first| first.starts_with(INTRODUCTION))?;
    let mut names = Vec::new();
    for line in lines {
        let (heading, listed) = line.split_once(':')?;
        let listed = listed.strip_prefix(' ').filter(|listed| !listed.is_empty() && !heading.is_empty())?;
        for group in listed.split("; ") {
            // A reference and a blank are before the first name.
            let first = &group[..group.find(", ").unwrap_or(group.len())];
            let reference = first.rfind(' ').map_or("", |blank| &first[..blank]);
            let written = if reference.is_empty() {
                group.strip_prefix(' ').unwrap_or(group)
            } else {
                &group[reference.len() + 1..]
            };
            let written = written.split(", ").filter(|name| !name.is_empty());
            names.extend(written.map(|name| Listed {
                name: name.to_owned(),
                heading: heading.to_owned(),
                reference: reference.to_owned(),
            }));
        }
    }
    Some(names)
}

/// Values by name, in the order in which their names came first.
struct Groups<'a, T> {
    place_of: FxHashMap<&'a str, usize>,
    rows: Vec<(&'a str, T)>,
}

impl<T> Default for Groups<'_, T> {
    fn default() -> Self {
        Self { place_of: FxHashMap::default(), rows: Vec::new() }
    }
}

impl<'a, T: Default> Groups<'a, T> {
    fn of(&mut self, name: &'a str) -> &mut T {
        let place = *self.place_of.entry(name).or_insert(self.rows.len());
        if place == self.rows.len() {
            self.rows.push((name, T::default()));
        }
        &mut self.rows[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<'a>(rows: &[(&'a str, &'a str, &'a str)]) -> Vec<Listed<&'a str>> {
        rows.iter().map(|&(name, heading, reference)| Listed { name, heading, reference }).collect()
    }

    #[test]
    fn names_are_grouped_by_heading_and_reference() {
        let names = listed(&[
            ("src/rows.py", "Read", "#4"),
            ("ValueError", "errors", ""),
            ("src/tables.py", "Read", "#4"),
            ("loose_name", "Read", ""),
        ]);
        let text = write_lines(&names, "ask");
        let lines = [
            "Names in what was left out here; ask.",
            "Read: loose_name; #4 src/rows.py, src/tables.py",
            "errors: ValueError",
        ];
        assert_eq!(text, lines.join("\n"));
        let mut read = read_lines(&text).expect("it is an outline");
        read.rotate_left(1);
        assert_eq!(read[0].reference, "#4");
        assert_eq!(read.len(), names.len());
    }

    #[test]
    fn long_references_are_left_out_once_they_take_a_third() {
        let names = listed(&[("first_name", "Read", "mem_0123456789abcdef"), ("second_name", "Read", "#1")]);
        assert_eq!(write_lines(&names, ""), format!("{INTRODUCTION}.\nRead: first_name, second_name"));
    }

    #[test]
    fn other_texts_are_no_outlines() {
        for text in [
            "",
            "Names",
            &format!("{INTRODUCTION}.\nno colon"),
            &format!("{INTRODUCTION}.\n: name"),
            &format!("{INTRODUCTION}.\nRead: "),
        ] {
            assert_eq!(read_lines(text), None, "{text:?}");
        }
        assert_eq!(read_lines(INTRODUCTION), Some(Vec::new()));
    }
}
