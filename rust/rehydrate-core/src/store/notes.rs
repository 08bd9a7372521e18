//! Notes of a store between calls: the uses of items by searches, and the number of added items.
use rustc_hash::FxHashMap;

use super::builder::FILED_ITEMS;

/// Notes between calls. Locked inside the fork guard only.
#[derive(Default)]
pub(super) struct Notes {
    /// The number of times that searches showed items since the last write: written with the next one.
    pub uses: FxHashMap<i64, u64>,
    /// Items added since the last file was wanted, by namespace.
    pub added: FxHashMap<String, usize>,
}

impl Notes {
    /// Whether `more` items make it time for another index file.
    pub fn is_file_wanted(&mut self, namespace: &str, more: usize) -> bool {
        let added = self.added.remove(namespace).unwrap_or(0) + more;
        if added >= FILED_ITEMS {
            return true;
        }
        if self.added.len() >= NOTED_NAMESPACES {
            // Those with most are soonest worth a file.
            let mut counts: Vec<usize> = self.added.values().copied().collect();
            let (_, &mut median, _) = counts.select_nth_unstable(NOTED_NAMESPACES / 2);
            self.added.retain(|_, &mut count| count > median);
        }
        self.added.insert(namespace.to_owned(), added);
        false
    }
}

/// Items whose uses are remembered between two writes.
pub(super) const NOTED_USES: usize = 4096;
/// Namespaces whose additions are counted. A missing count does no harm.
const NOTED_NAMESPACES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_of_namespaces_is_bounded_and_a_busy_one_still_gets_its_file() {
        let mut notes = Notes::default();
        let mut wanted = 0;
        for namespace in 0..10 * NOTED_NAMESPACES {
            assert!(!notes.is_file_wanted(&format!("tenant {namespace}"), 1));
            wanted += usize::from(notes.is_file_wanted("busy", 8));
            assert!(notes.added.len() <= NOTED_NAMESPACES);
        }
        assert_eq!(wanted, 80 * NOTED_NAMESPACES / FILED_ITEMS);
    }
}
