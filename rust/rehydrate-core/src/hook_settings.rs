//! An agent's settings, edited as a text: lists of hooks by event, `{"hooks": {"Stop": [...]}}`. Everything else stays
//! byte for byte.
use std::collections::BTreeMap;

use crate::analysis::python_re::is_space;
use crate::caps::{Member, NotJson, code_points, json_members};

const INDENT: &str = "  ";
const HOOKS: &str = "hooks";

type Result<T> = std::result::Result<T, NotJson>;

/// The settings with one more group of hooks for each event. A group is JSON with an indent of two.
///
/// # Errors
/// [`NotJson`] for what isn't a JSON object, or nested too deeply.
pub fn with_hooks(text: &[u32], groups: &[(String, String)]) -> Result<Vec<u32>> {
    let mut text = text.to_vec();
    if text.iter().all(|&point| is_space(point)) {
        text = code_points("{}\n");
    }
    for (event, group) in groups {
        let root = skip(&text, 0);
        let list = format!("[\n{INDENT}{}\n]", indented(group, 1));
        text = match member(&text, root, HOOKS)? {
            None => {
                let event = format!("{{\n{INDENT}\"{event}\": {}\n}}", indented(&list, 1));
                added(&text, root, Some(HOOKS), &event, 1)?
            }
            Some(hooks) => match member(&text, hooks.start, event)? {
                None => added(&text, hooks.start, Some(event), &list, 2)?,
                Some(own) => added(&text, own.start, None, group, 3)?,
            },
        };
    }
    Ok(text)
}

/// The settings without some groups of hooks: their numbers, by event.
///
/// An event, or the hooks, that are empty then are left out too, except those that are `kept`: an event by its name,
/// the hooks by "".
///
/// # Errors
/// As `with_hooks`.
pub fn without_hooks(text: &[u32], gone: &BTreeMap<String, Vec<usize>>, kept: &[String]) -> Result<Vec<u32>> {
    let is_kept = |name: &str| kept.iter().any(|each| each == name);
    let (mut text, root) = (text.to_vec(), skip(text, 0));
    for (event, numbers) in gone {
        let Some(hooks) = member(&text, root, HOOKS)? else { break };
        let events = json_members(&text, hooks.start)?;
        let Some(at) = position(&events, event) else { continue };
        let list = events[at].start;
        if numbers.len() == json_members(&text, list)?.len() && !is_kept(event) {
            text = removed(&text, hooks.start, at)?;
            continue;
        }
        let mut numbers = numbers.clone();
        numbers.sort_unstable();
        for number in numbers.into_iter().rev() {
            text = removed(&text, list, number)?;
        }
    }
    let members = json_members(&text, root)?;
    if let Some(at) = position(&members, HOOKS)
        && json_members(&text, members[at].start)?.is_empty()
        && !is_kept("")
    {
        text = removed(&text, root, at)?;
    }
    Ok(text)
}

/// The text with one more part at the end of the object or array that begins there.
fn added(text: &[u32], start: usize, name: Option<&str>, value: &str, depth: usize) -> Result<Vec<u32>> {
    let indent = format!("\n{}", INDENT.repeat(depth));
    let value = indented(value, depth);
    let part = name.map_or_else(|| value.clone(), |name| format!("\"{name}\": {value}"));
    Ok(match json_members(text, start)?.last() {
        Some(last) => joined(text, last.end, &format!(",{indent}{part}"), last.end),
        None => {
            let closing = &indent[..indent.len() - INDENT.len()];
            joined(text, start + 1, &format!("{indent}{part}{closing}"), skip(text, start + 1))
        }
    })
}

/// The text without a part of the object or array that begins there, and without the comma that separated it.
fn removed(text: &[u32], start: usize, number: usize) -> Result<Vec<u32>> {
    let parts = json_members(text, start)?;
    let Some(part) = parts.get(number) else { return Err(NotJson) };
    Ok(match number.checked_sub(1).map(|before| &parts[before]) {
        // From the end of the one before, so that its layout goes too.
        Some(before) => joined(text, before.end, "", part.end),
        None => match parts.get(1) {
            Some(next) => joined(text, skip(text, part.lead), "", skip(text, next.lead)),
            None => joined(text, start + 1, "", skip(text, part.end)),
        },
    })
}

/// The text with another one from one place up to another.
fn joined(text: &[u32], from: usize, middle: &str, to: usize) -> Vec<u32> {
    [&text[..from], &code_points(middle), &text[to..]].concat()
}

/// A member of the object that begins there; the last of its name counts, as for JSON.
fn member(text: &[u32], start: usize, name: &str) -> Result<Option<Member>> {
    let members = json_members(text, start)?;
    Ok(position(&members, name).map(|at| members[at].clone()))
}

fn position(members: &[Member], name: &str) -> Option<usize> {
    let name = code_points(name);
    members.iter().rposition(|each| each.key == name)
}

fn indented(value: &str, depth: usize) -> String {
    value.replace('\n', &format!("\n{}", INDENT.repeat(depth)))
}

/// The place after the white space that JSON allows.
fn skip(text: &[u32], at: usize) -> usize {
    let is_blank = |point: &&u32| [0x20, 0x09, 0x0A, 0x0D].contains(*point);
    at + text[at..].iter().take_while(is_blank).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caps::lossy;

    fn with(text: &str, events: &[&str]) -> String {
        let groups: Vec<_> = events.iter().map(|event| ((*event).to_owned(), "{\n  \"x\": 1\n}".to_owned())).collect();
        lossy(&with_hooks(&code_points(text), &groups).unwrap())
    }

    fn without(text: &str, gone: &[(&str, &[usize])], kept: &[&str]) -> String {
        let gone = gone.iter().map(|(event, numbers)| ((*event).to_owned(), numbers.to_vec())).collect();
        let kept: Vec<String> = kept.iter().map(|name| (*name).to_owned()).collect();
        lossy(&without_hooks(&code_points(text), &gone, &kept).unwrap())
    }

    #[test]
    fn a_group_is_added_where_there_are_none_some_and_no_settings() {
        let hooks = "\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"x\": 1\n      }\n    ]\n  }";
        assert_eq!(with("", &["Stop"]), format!("{{{hooks}\n}}\n"));
        assert_eq!(with(" {\"a\": 1 }", &["Stop"]), format!(" {{\"a\": 1,{hooks} }}"));
        let there = "{\"hooks\": {\"Stop\": [ ]}}";
        assert_eq!(with(there, &["Stop"]), "{\"hooks\": {\"Stop\": [\n      {\n        \"x\": 1\n      }\n    ]}}");
        assert!(with_hooks(&code_points("[1"), &[("Stop".into(), "{}".into())]).is_err());
    }

    #[test]
    fn what_was_added_is_removed_and_all_else_stays() {
        for text in ["{}\n", " {\"a\": [1, 2] }", "{\n\t\"hooks\": {\"Go\": [{}]},\n\t\"b\": {}\n}", "{\"é😀\": 1}"]
        {
            assert_eq!(without(&with(text, &["Stop", "End"]), &[("Stop", &[0]), ("End", &[0])], &[]), text);
        }
        let text = "{\"hooks\": {\"Stop\": [1, 2, 3 ]}}";
        assert_eq!(without(text, &[("Stop", &[0, 1])], &[]), "{\"hooks\": {\"Stop\": [3 ]}}");
        assert_eq!(without(text, &[("Stop", &[0, 2])], &[]), "{\"hooks\": {\"Stop\": [2 ]}}");
        assert_eq!(without(text, &[("Stop", &[0, 1, 2])], &["Stop"]), "{\"hooks\": {\"Stop\": []}}");
        assert_eq!(without(text, &[("Stop", &[0, 1, 2])], &[""]), "{\"hooks\": {}}");
        assert_eq!(without(text, &[("Stop", &[0, 1, 2])], &[]), "{}");
    }
}
