//! Calls that wait for their results, and those that were made and answered.
use rustc_hash::{FxHashMap, FxHashSet};

/// The call ids made and answered so far.
#[derive(Default)]
pub struct Ledger<'a> {
    unanswered: FxHashMap<&'a [u8], usize>,
    answered: FxHashSet<&'a [u8]>,
}

impl<'a> Ledger<'a> {
    /// Record a call; whether its id was called before.
    pub fn call(&mut self, call: &'a [u8]) -> bool {
        let is_repeated = self.knows(call);
        *self.unanswered.entry(call).or_insert(0) += 1;
        is_repeated
    }

    /// Record a result; whether it is one too many for its id.
    pub fn answer(&mut self, answer: &'a [u8]) -> bool {
        match self.unanswered.get_mut(answer).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                self.answered.insert(answer);
                false
            }
            None => self.answered.contains(answer),
        }
    }

    /// Whether this id was called.
    pub fn knows(&self, call: &[u8]) -> bool {
        self.unanswered.contains_key(call)
    }
}

/// Values by the id of their call, in the order in which the ids came.
pub struct Waiting<'a, T> {
    by_id: FxHashMap<&'a [u8], (usize, T)>,
    next: usize,
}

impl<T> Default for Waiting<'_, T> {
    fn default() -> Self {
        Self { by_id: FxHashMap::default(), next: 0 }
    }
}

impl<'a, T: Default> Waiting<'a, T> {
    /// The value of an id, a new one at first.
    pub fn entry(&mut self, id: &'a [u8]) -> &mut T {
        let next = &mut self.next;
        let (_, value) = self.by_id.entry(id).or_insert_with(|| {
            *next += 1;
            (*next, T::default())
        });
        value
    }

    pub fn get_mut(&mut self, id: &[u8]) -> Option<&mut T> {
        self.by_id.get_mut(id).map(|(_, value)| value)
    }

    pub fn remove(&mut self, id: &[u8]) -> Option<T> {
        self.by_id.remove(id).map(|(_, value)| value)
    }

    /// Take all of them, in their order.
    pub fn take(&mut self) -> Vec<(&'a [u8], T)> {
        let mut all: Vec<_> = self.by_id.drain().collect();
        all.sort_by_key(|(_, (place, _))| *place);
        all.into_iter().map(|(id, (_, value))| (id, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_too_many_once_all_calls_of_its_id_are_answered() {
        let mut ledger = Ledger::default();
        assert!(!ledger.answer(b"a") && !ledger.call(b"a") && ledger.call(b"a"));
        assert_eq!([ledger.answer(b"a"), ledger.answer(b"a"), ledger.answer(b"a")], [false, false, true]);
    }

    #[test]
    fn what_waits_comes_out_as_it_came() {
        let mut waiting: Waiting<'_, usize> = Waiting::default();
        for id in [b"c", b"a", b"b", b"c"] {
            *waiting.entry(id) += 1;
        }
        waiting.remove(b"a");
        *waiting.entry(b"a") += 5;
        assert_eq!(waiting.take(), [(&b"c"[..], 2), (b"b", 1), (b"a", 5)]);
    }
}
