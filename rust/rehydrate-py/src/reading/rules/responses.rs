//! Items of Responses, as the rules read them.
use pyo3::prelude::*;
use rehydrate_core::conversation::Role;
use rehydrate_core::rules::openai_responses::{Item, Of, is_misplaced};

use super::super::blocks::Body;
use super::super::fields::{Fields, is_list, listed, text_of};
use super::super::responses::{self, Numbered, read_item};
use super::{name_of, named, role_of, written_role};
use crate::interned::interned;

const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// The items of a list.
pub fn items(numbered: &[Numbered<'_>]) -> PyResult<Vec<Item>> {
    let items =
        numbered.iter().map(|(index, raw, _)| responses::Item::of(raw, *index)).collect::<PyResult<Vec<_>>>()?;
    for item in &items {
        read_item(&mut Body::new(item.index, false), item)?; // raises what the reader raises
    }
    items.iter().map(rules_item).collect()
}

fn rules_item(item: &responses::Item<'_>) -> PyResult<Item> {
    let py = item.entry.py();
    let entry = Fields::needed(&item.entry, item.index, String::new)?;
    let of = match text_of(&item.kind).as_ref() {
        "message" => message(entry, item.speaker.role == Role::Assistant)?,
        "reasoning" => {
            let summary = entry.get(interned!(py, "summary"))?;
            Of::Reasoning { has_summary: summary.as_ref().is_some_and(is_list) }
        }
        _ => Of::Other,
    };
    Ok(Item {
        index: item.index,
        kind: name_of(item.kind.clone())?,
        role: role_of(&item.speaker)?,
        call: item.call.clone().map(name_of).transpose()?,
        answer: item.answer.clone().map(name_of).transpose()?,
        id: named(entry, interned!(py, "id"))?,
        of,
    })
}

fn message(entry: Fields<'_, '_>, is_assistants: bool) -> PyResult<Of> {
    let py = entry.as_any().py();
    let role = entry.text(interned!(py, "role"))?;
    let content = entry.get(interned!(py, "content"))?;
    let mut misplaced = Vec::new();
    for part in listed(content.as_ref())? {
        let Some(part) = Fields::of(&part) else { continue };
        if let Some(kind) = part.kind()?.0.map(name_of).transpose()?
            && is_misplaced(&kind, is_assistants)
        {
            misplaced.push(kind);
        }
    }
    Ok(Of::Message {
        role: written_role(entry)?,
        is_known: role.is_some_and(|role| ROLES.contains(&text_of(&role).as_ref())),
        is_null: content.is_none(),
        misplaced,
    })
}
