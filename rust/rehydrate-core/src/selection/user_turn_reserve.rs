//! The user's own words: a small share of the budget is theirs before anything competes for it.
//!
//! A user's word said once is short and never said again, and no later tool call shows that it was needed: a measure of
//! reuse cannot see its worth, so it is not left to the objective alone. A turn with a directive (`directives.rs`) goes
//! first, and has the share whatever is asked.
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::Role;

/// Share of the free budget that user turns may take before the packing begins.
const SHARE: f64 = 0.05;

impl Prepared {
    /// The user turns, newest first, that fit into their share of `free_tokens`; what does not fit is passed over.
    /// A turn with a directive goes first, by strength; `weight`, 0 to 1, is how much the others count where a query
    /// decides what matters.
    pub(crate) fn reserved_user_turns(
        &self,
        unit_tokens: &[u32],
        pinned: &[bool],
        directives: &[u32],
        free_tokens: u64,
        weight: f64,
    ) -> Vec<bool> {
        let mut users = vec![true; self.units.len()];
        for message in self.messages.iter().filter(|message| message.role != Role::User) {
            users[message.unit] = false;
        }
        let mut order: Vec<usize> = (0..self.units.len()).rev().filter(|&unit| users[unit] && !pinned[unit]).collect();
        order.sort_by_key(|&unit| std::cmp::Reverse(directives[unit]));
        let mut reserved = vec![false; self.units.len()];
        let (share, mut used) = (free_tokens as f64 * SHARE, 0.0);
        for unit in order {
            let tokens = f64::from(unit_tokens[unit]);
            let room = if directives[unit] > 0 { share } else { share * weight };
            reserved[unit] = used < room && used + tokens <= room;
            used += if reserved[unit] { tokens } else { 0.0 };
        }
        reserved
    }
}
