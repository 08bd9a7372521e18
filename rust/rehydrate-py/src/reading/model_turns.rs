//! Links within the model's turns of Responses items, beyond calls and their outputs.
//!
//! Within a turn a reasoning item and the items it led to are one unit, up to the next reasoning. From the first tool
//! call on the rest of the turn is one unit: the API refuses a reasoning item without the items that followed it, and
//! those without their reasoning.
use rehydrate_core::conversation::Role;

use super::fields::text_of;
use super::responses::Item;

/// The links so far, by the places of items in their list.
#[derive(Default)]
pub struct ModelTurns {
    pub links: Vec<(usize, usize)>,
    /// The first item of the latest row of reasoning in this turn.
    thought: Option<usize>,
    is_thinking: bool,
    /// The first call of this turn.
    caller: Option<usize>,
}

impl ModelTurns {
    /// Take the next item, with its place in the list.
    pub fn add(&mut self, item: &Item<'_>, place: usize) {
        if item.speaker.role != Role::Assistant {
            (self.thought, self.caller, self.is_thinking) = (None, None, false);
            return;
        }
        let kind = text_of(&item.kind);
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
        } else if item.call.is_some() || kind == "tool_search_call" {
            self.caller = Some(place);
        }
    }
}
