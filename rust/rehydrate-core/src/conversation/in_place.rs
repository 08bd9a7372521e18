//! The place of system messages among others: none separates a call from its results.
use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::Role;

/// The fields of a message that decide whether a system message may be next to it.
#[derive(Clone, Debug)]
pub struct Spoken<Id> {
    /// The speaker.
    pub role: Role,
    /// The ids of its calls.
    pub calls: Vec<Id>,
    /// The ids of its results.
    pub answers: Vec<Id>,
}

/// The positions of the messages in their order, with system messages that came during pending calls moved after the
/// results.
///
/// In an open call at the end, only results may follow the call. Then the system message goes before the assistant's
/// turn.
#[must_use]
pub fn in_place<Id: Eq + Hash>(messages: &[Spoken<Id>]) -> Vec<usize> {
    let mut placed: Vec<usize> = Vec::with_capacity(messages.len());
    let mut late: Vec<usize> = Vec::new();
    let mut waiting = Waiting::default();
    let (mut turn, mut before) = (0, Role::Other); // the start of the assistant's turn, and the role before
    for (at, each) in messages.iter().enumerate() {
        let is_assistant = each.role == Role::Assistant;
        if each.role == Role::System && !waiting.0.is_empty() {
            late.push(at);
            continue;
        }
        if is_assistant && before == Role::Assistant {
            waiting.add(&each.calls);
        } else if is_assistant || each.answers.is_empty() {
            // These are never answered: the history came like this.
            placed.append(&mut late);
            waiting = Waiting::default();
            waiting.add(&each.calls);
            turn = placed.len();
        }
        placed.push(at);
        before = each.role;
        waiting.take(&each.answers);
        if waiting.0.is_empty() {
            placed.append(&mut late);
        }
    }
    placed.splice(turn..turn, late);
    placed
}

/// The number of times that each call waits: a damaged history may use one id for two calls.
struct Waiting<'a, Id>(FxHashMap<&'a Id, usize>);

impl<Id> Default for Waiting<'_, Id> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<'a, Id: Eq + Hash> Waiting<'a, Id> {
    fn add(&mut self, calls: &'a [Id]) {
        for call in calls {
            *self.0.entry(call).or_default() += 1;
        }
    }

    fn take(&mut self, answers: &'a [Id]) {
        for answer in answers {
            if let Some(count) = self.0.get_mut(answer) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(answer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages written as `u` (user), `s` (system), `a12` (calls 1 and 2) and `r12` (results of 1 and 2).
    fn order(messages: &[&str]) -> Vec<usize> {
        let spoken = |message: &&str| {
            let (role, ids) = message.split_at(1);
            let ids: Vec<char> = ids.chars().collect();
            match role {
                "s" => Spoken { role: Role::System, calls: vec![], answers: vec![] },
                "a" => Spoken { role: Role::Assistant, calls: ids, answers: vec![] },
                _ => Spoken { role: Role::User, calls: vec![], answers: ids },
            }
        };
        in_place(&messages.iter().map(spoken).collect::<Vec<_>>())
    }

    #[test]
    fn a_system_message_amid_a_call_goes_behind_its_results() {
        assert_eq!(order(&["u", "a1", "s", "r1", "u"]), [0, 1, 3, 2, 4]);
        assert_eq!(order(&["u", "a12", "s", "r1", "s", "r2"]), [0, 1, 3, 5, 2, 4]);
    }

    #[test]
    fn in_an_open_call_it_goes_before_the_turn() {
        assert_eq!(order(&["u", "a1", "s"]), [0, 2, 1]);
        assert_eq!(order(&["u", "a", "a1", "s"]), [0, 3, 1, 2]);
    }

    #[test]
    fn a_call_that_is_never_answered_holds_nothing_back() {
        assert_eq!(order(&["a1", "s", "u", "s"]), [0, 1, 2, 3]);
        assert_eq!(order(&["a11", "s", "r1", "s", "r1"]), [0, 2, 4, 1, 3]);
        assert_eq!(order(&["s", "u", "s"]), [0, 1, 2]);
        assert!(order(&[]).is_empty());
    }
}
