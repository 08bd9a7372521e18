//! Links within the model's turns of Responses items, beyond calls and their outputs.
//!
//! Within a turn a reasoning item and the items it led to are one unit, up to the next reasoning. From the first tool
//! call on the rest of the turn is one unit: the API refuses a reasoning item without the items that followed it, and
//! those without their reasoning. The calls that a program makes belong to it.
use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyString;
use rehydrate_core::conversation::Role;

use super::fields::{Fields, string_of, text_of};
use super::responses::Item;
use super::strings::Id;
use crate::interned::interned;

/// The links so far, by the places of items in their list.
#[derive(Default)]
pub struct ModelTurns {
    pub links: Vec<(usize, usize)>,
    /// The first item of the latest row of reasoning in this turn.
    thought: Option<usize>,
    is_thinking: bool,
    /// The first call of this turn.
    caller: Option<usize>,
    /// The places of approval requests, and of programs, by the id of their call.
    requests: HashMap<Vec<u8>, usize>,
    programs: HashMap<Vec<u8>, usize>,
}

impl ModelTurns {
    /// Take the next item, with its place in the list.
    pub fn add(&mut self, entry: Fields<'_, '_>, item: &Item<'_>, place: usize) -> PyResult<()> {
        if item.speaker.role != Role::Assistant {
            (self.thought, self.caller, self.is_thinking) = (None, None, false);
            return Ok(());
        }
        let py = item.entry.py();
        let kind = text_of(&item.kind);
        let call = item.call.clone().map(bytes).transpose()?;
        // A reference may point to reasoning too.
        let opens = matches!(kind.as_ref(), "reasoning" | "item_reference");
        if opens && !self.is_thinking {
            self.thought = Some(place);
        } else if let Some(thought) = self.thought {
            self.links.push((thought, place));
        }
        self.is_thinking = opens;
        if let Some(caller) = self.caller {
            self.links.push((caller, place));
        } else if call.is_some() || kind == "tool_search_call" {
            self.caller = Some(place);
        }
        if kind == "program"
            && let Some(call) = &call
        {
            self.programs.insert(call.clone(), place);
        }
        let caller = entry.get(interned!(py, "caller"))?;
        let program = match caller.as_ref().and_then(Fields::of) {
            Some(caller) => caller.get(interned!(py, "caller_id"))?.map(|id| bytes(string_of(&id)?)).transpose()?,
            None => None,
        };
        self.links.extend(program.and_then(|id| self.programs.get(&id)).map(|&program| (program, place)));
        match (kind.as_ref(), call) {
            ("mcp_approval_request", Some(call)) => {
                self.requests.insert(call, place);
            }
            ("mcp_call", _) => {
                let request = entry.text(interned!(py, "approval_request_id"))?.map(bytes).transpose()?;
                self.links.extend(request.and_then(|id| self.requests.get(&id)).map(|&request| (request, place)));
            }
            _ => {}
        }
        Ok(())
    }
}

fn bytes(id: Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    Ok(Id::of(id)?.as_bytes().to_vec())
}
