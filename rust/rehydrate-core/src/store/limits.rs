//! Limits of a namespace: the least useful items become cold, and those that were cold for longest go. Hot items stay.
use super::item::Tier;
use super::problem::{Attempt, count_at};
use super::write::WriteTransaction;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const HOUR_MS: i64 = 60 * 60 * 1000;
/// Full trust makes up for this much age.
const TRUST_MS: f64 = 120.0 * DAY_MS as f64;
/// Being shown twice as often makes up for this much age.
const USE_MS: f64 = 30.0 * DAY_MS as f64;

/// The limits of a namespace. None means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Items.
    pub items: Option<u64>,
    /// Bytes of their texts, vectors and notes.
    pub bytes: Option<u64>,
    /// Warm items stored longer ago than this become cold. Cold ones stored twice as long ago go.
    pub age_ms: Option<i64>,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self { items: None, bytes: None, age_ms: None };
}

impl Default for Limits {
    /// A million items, 2 GiB, a year.
    fn default() -> Self {
        Self { items: Some(1_000_000), bytes: Some(2 << 30), age_ms: Some(365 * DAY_MS) }
    }
}

/// The used and the allowed number of items and of bytes.
#[derive(Clone, Copy)]
struct Amount {
    items: i64,
    bytes: i64,
}

impl Amount {
    /// As much as may be.
    fn of(limits: &Limits) -> Self {
        let whole = |limit: Option<u64>| limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        Self { items: whole(limits.items), bytes: whole(limits.bytes) }
    }

    fn is_within(self, limit: Self) -> bool {
        self.items <= limit.items && self.bytes <= limit.bytes
    }

    fn scaled(self, share: f64) -> Self {
        let scaled = |whole: i64| if whole == i64::MAX { whole } else { (whole as f64 * share) as i64 };
        Self { items: scaled(self.items), bytes: scaled(self.bytes) }
    }

    fn remove(&mut self, bytes: i64) {
        self.items -= 1;
        self.bytes -= bytes;
    }
}

/// An item that may be demoted or dropped.
pub struct Candidate {
    id: i64,
    tier: u8,
    bytes: i64,
    worth: f64,
}

impl Candidate {
    /// An item of this tier and size, last said or found at a time, with its trust, found this many times.
    pub fn new(id: i64, tier: u8, bytes: i64, newest_ms: i64, trust: f64, uses: i64) -> Self {
        Self { id, tier, bytes, worth: newest_ms as f64 + trust * TRUST_MS + (1.0 + uses as f64).log2() * USE_MS }
    }
}

/// The warm items that become cold, the least useful first, and the cold ones that go, if a namespace holds this many
/// items and bytes.
///
/// The warm and hot items are reduced to three quarters of the limit and all of them to 95 per cent, so that the next
/// additions find room and the items are only read now and then.
pub fn beyond(mut candidates: Vec<Candidate>, items: i64, bytes: i64, limits: &Limits) -> (Vec<i64>, Vec<i64>) {
    let (mut held, limit) = (Amount { items, bytes }, Amount::of(limits));
    let mut kept = held;
    candidates.iter().filter(|item| item.tier == Tier::Cold as u8).for_each(|item| kept.remove(item.bytes));
    candidates.sort_by(|a, b| a.worth.total_cmp(&b.worth).then(a.id.cmp(&b.id)));
    let (mut cooled, mut gone) = (Vec::new(), Vec::new());
    for item in candidates.iter_mut().filter(|item| item.tier == Tier::Warm as u8) {
        if kept.is_within(limit.scaled(0.75)) {
            break;
        }
        kept.remove(item.bytes);
        item.tier = Tier::Cold as u8;
        cooled.push(item.id);
    }
    candidates.sort_by_key(|item| item.id);
    for item in candidates.iter().filter(|item| item.tier == Tier::Cold as u8) {
        if held.is_within(limit.scaled(0.95)) {
            break;
        }
        held.remove(item.bytes);
        gone.push(item.id);
    }
    (cooled, gone)
}

impl WriteTransaction<'_> {
    /// Remove expired items, and keep the namespace within `limits`. Returns how many items became cold, and how many of
    /// those beyond the limits are gone.
    pub fn enforce(&mut self, limits: &Limits) -> Attempt<(usize, usize)> {
        let expired = ids(self, "expires <= ?2", self.now_ms)?;
        self.delete(&expired)?;
        let (mut demoted, mut dropped) = (0, 0);
        if let Some(age) =
            limits.age_ms.filter(|age| self.now_ms.saturating_sub(self.namespace.aged_ms) >= HOUR_MS.min(age / 8))
        {
            self.namespace.aged_ms = self.now_ms;
            let aged = ids(self, "tier = 1 AND created < ?2", self.now_ms.saturating_sub(age))?;
            demoted += self.set_tier(&aged, Tier::Cold as u8)?;
            let old = ids(self, "tier = 2 AND created < ?2", self.now_ms.saturating_sub(age.saturating_mul(2)))?;
            dropped += self.delete(&old)?;
        }
        let (items, bytes) = (self.namespace.items, self.namespace.bytes);
        if !(Amount { items, bytes }).is_within(Amount::of(limits)) {
            let (cooled, gone) = beyond(candidates(self)?, items, bytes, limits);
            demoted += self.set_tier(&cooled, Tier::Cold as u8)?;
            dropped += self.delete(&gone)?;
        }
        self.namespace.demoted += demoted as i64;
        self.namespace.dropped += dropped as i64;
        Ok((demoted, dropped))
    }
}

fn ids(writing: &WriteTransaction<'_>, condition: &str, bound: i64) -> Attempt<Vec<i64>> {
    let query = format!("SELECT id FROM items WHERE namespace = ?1 AND {condition}");
    let mut statement = writing.transaction.prepare_cached(&query)?;
    Ok(statement.query_map((writing.namespace.id, bound), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

fn candidates(writing: &WriteTransaction<'_>) -> Attempt<Vec<Candidate>> {
    let query =
        "SELECT id, tier, bytes, max(time, used), trust, uses FROM items WHERE namespace = ?1 AND tier IN (1, 2)";
    let mut statement = writing.transaction.prepare_cached(query)?;
    let rows = statement.query_map([writing.namespace.id], |row| {
        Ok(Candidate::new(row.get(0)?, row.get(1)?, count_at(row, 2)?, row.get(3)?, row.get(4)?, row.get(5)?))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
