//! Feature lists: the features that each item mentions, and the reverse.

/// Lists of feature ids, one a unit, laid end to end.
#[derive(Clone, Debug, Default)]
pub struct FeatureLists {
    ends: Vec<u32>,
    pub(super) ids: Vec<u32>,
}

impl FeatureLists {
    /// `units` empty lists: packing by score alone.
    #[must_use]
    pub fn none(units: usize) -> Self {
        Self { ends: vec![0; units], ids: Vec::new() }
    }

    /// No lists yet, with room for `units` of them and `mentions` ids in all.
    #[must_use]
    pub fn with_capacity(units: usize, mentions: usize) -> Self {
        Self { ends: Vec::with_capacity(units), ids: Vec::with_capacity(mentions) }
    }

    /// Append the list of the next unit.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.ends.push(u32::try_from(self.ids.len()).expect("under 4 billion mentions"));
    }

    /// Append the lists of further units.
    pub fn append(&mut self, further: Self) {
        let before = u32::try_from(self.ids.len()).expect("under 4 billion mentions");
        self.ends.extend(further.ends.iter().map(|end| before + end));
        self.ids.extend(further.ids);
    }

    /// The number of units that mention each of `features` features.
    pub(super) fn mentions_of_each(&self, features: usize) -> Vec<u32> {
        let mut mentions = vec![0_u32; features];
        for &feature in &self.ids {
            mentions[feature as usize] += 1;
        }
        mentions
    }

    /// The same lists of `units` units with new numbers, without the features that have the largest number.
    pub(super) fn renumbered(&self, units: usize, number: &[u32]) -> Self {
        let mut ids = vec![0; self.ids.len() + 1];
        let mut found = 0;
        let mut ends = Vec::with_capacity(units);
        for unit in 0..units {
            for &feature in self.of(unit) {
                // Whether a feature stays is unpredictable, so no branch depends on it.
                ids[found] = number[feature as usize];
                found += usize::from(ids[found] != u32::MAX);
            }
            ends.push(u32::try_from(found).expect("under 4 billion mentions"));
        }
        ids.truncate(found);
        Self { ends, ids }
    }

    /// The reverse: for each feature the units that mention it, ascending. `mentions` says how many do.
    pub(super) fn inverted(&self, units: usize, mentions: Vec<u32>) -> Self {
        let mut ends = mentions;
        for feature in 1..ends.len() {
            ends[feature] += ends[feature - 1];
        }
        let mut starts: Vec<u32> = std::iter::once(0).chain(ends.iter().copied()).collect();
        let mut ids = vec![0_u32; self.ids.len()];
        for unit in 0..units {
            for &feature in self.of(unit) {
                let at = &mut starts[feature as usize];
                ids[*at as usize] = u32::try_from(unit).expect("under 4 billion units");
                *at += 1;
            }
        }
        Self { ends, ids }
    }

    /// The features of `unit`, each once.
    #[must_use]
    pub fn of(&self, unit: usize) -> &[u32] {
        let start = if unit == 0 { 0 } else { self.ends[unit - 1] as usize };
        &self.ids[start..self.ends[unit] as usize]
    }
}
