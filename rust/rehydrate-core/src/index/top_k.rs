//! The best few of many scores (top k).

/// Twice the wanted number and this many more are kept before the worse ones go.
const SLACK: usize = 4;
/// Room that is made at once: a limit may be any number.
const LARGEST: usize = 1 << 16;

fn room_for(limit: usize) -> usize {
    limit.saturating_mul(2).saturating_add(SLACK)
}

/// The best few of many scores.
pub(super) struct TopK {
    pub limit: usize,
    /// Nothing up to this is among the best.
    pub floor: f32,
    kept: Vec<(f32, u32)>,
}

impl TopK {
    pub fn new(limit: usize, floor: f32) -> Self {
        Self { limit, floor, kept: Vec::with_capacity(room_for(limit).min(LARGEST)) }
    }

    /// Keep `entry` if its score is among the best so far and it may be found.
    #[inline]
    pub fn offer(&mut self, score: f32, entry: u32, passes: impl FnOnce() -> bool) {
        if score > self.floor && self.limit > 0 && passes() {
            self.kept.push((score, entry));
            if self.kept.len() >= room_for(self.limit) {
                self.prune();
            }
        }
    }

    fn prune(&mut self) {
        if self.kept.len() > self.limit {
            let (_, last, _) = self.kept.select_nth_unstable_by(self.limit - 1, better);
            self.floor = last.0;
            self.kept.truncate(self.limit);
        }
    }

    /// TopK first.
    pub fn finish(mut self) -> Vec<(f32, u32)> {
        if self.limit > 0 {
            self.prune();
        }
        self.kept.sort_unstable_by(better);
        self.kept
    }
}

fn better(a: &(f32, u32), b: &(f32, u32)) -> std::cmp::Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}
