//! The user's own words: a small share of the budget is theirs before anything competes for it.
//!
//! What a user said once (a constraint, a preference, a correction) is short and never said again, and no later tool call
//! shows that it was needed: a measure of reuse cannot see its worth, so it is not left to the objective alone.
use crate::prepared::Prepared;
use crate::unit::Role;

/// Share of the free budget that user turns may take before the packing begins.
const SHARE: f64 = 0.05;

impl Prepared {
    /// The user turns, newest first, that fit into their share of `free_tokens`; what does not fit is passed over.
    /// `weight`, 0 to 1, shrinks the share where a query decides what matters.
    pub(crate) fn heard_users(&self, unit_tokens: &[u32], pinned: &[bool], free_tokens: u64, weight: f64) -> Vec<bool> {
        let mut heard = vec![true; self.units.len()];
        for message in self.messages.iter().filter(|message| message.role != Role::User) {
            heard[message.unit] = false;
        }
        let mut left = free_tokens as f64 * SHARE * weight;
        for unit in (0..self.units.len()).rev().filter(|&unit| !pinned[unit]) {
            let tokens = f64::from(unit_tokens[unit]);
            heard[unit] = heard[unit] && left > 0.0 && tokens <= left;
            left -= if heard[unit] { tokens } else { 0.0 };
        }
        heard
    }
}
