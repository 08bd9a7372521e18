//! Which features each unit mentions, and what mentioning each is worth.
use crate::pack::FeatureLists;
use crate::prepared::Prepared;
use crate::score::Signals;

/// Features of a conversation: lists by unit, weights by feature.
pub(crate) struct Features {
    pub of_unit: FeatureLists,
    pub weight: Vec<f64>,
}

impl Features {
    pub fn none(units: usize) -> Self {
        Self { of_unit: FeatureLists::none(units), weight: Vec::new() }
    }

    /// Per unit, the summed weights of its features.
    pub fn worth_of_units(&self, units: usize) -> Vec<f64> {
        (0..units).map(|unit| self.of_unit.of(unit).iter().map(|&f| self.weight[f as usize]).sum()).collect()
    }
}

impl Prepared {
    pub(crate) fn features(&self, _signals: &[Signals]) -> Features {
        let mut ids: rustc_hash::FxHashMap<u32, u32> = Default::default();
        let mut last: Vec<usize> = vec![];
        let mut count: Vec<u32> = vec![];
        let mut lists: Vec<Vec<u32>> = vec![vec![]; self.units.len()];
        for m in &self.messages {
            for a in self.analyses_of(m) {
                for &(h, _) in a.mentions().into_iter().flat_map(|m| m.iter()) {
                    let id = *ids.entry(h).or_insert_with(|| { last.push(0); count.push(0); last.len() as u32 - 1 });
                    last[id as usize] = m.unit;
                    count[id as usize] += 1;
                    lists[m.unit].push(id);
                }
            }
        }
        let mut of_unit = FeatureLists::default();
        for mut l in lists { l.sort_unstable(); l.dedup(); of_unit.push(l); }
        let n = self.units.len() as f64;
        let weight = (0..last.len()).map(|f| ((last[f] as f64 + 1.0) / n).powi(2) * f64::from(1 + count[f]).ln()).collect();
        Features { of_unit, weight }
    }
}
