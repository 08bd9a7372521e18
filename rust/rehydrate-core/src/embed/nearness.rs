//! How near the tokens of a query are to those of a conversation, from call to call.
use std::sync::Mutex;

use crate::embed::builtin::StaticModel;

/// Cosine of two tokens from which they count as related.
const NEAR: f32 = 0.3;
/// Tokens that are looked up at once: one row of bytes per token of the vocabulary, one vector instruction per row.
pub(crate) const LANES: usize = 16;
/// Tokens that those are compared with at once.
const BLOCK: usize = 64;

/// How near a query's tokens are to those of a conversation. The next one often has the same query and nearly the same
/// tokens.
#[derive(Default)]
pub(crate) struct Nearness {
    model: u64,
    asked: Vec<u16>,
    known: Vec<u16>,
    /// For each [`LANES`] of the tokens asked for, a row for each known token.
    rows: Vec<[u8; LANES]>,
}

/// Of the last conversation. It is taken while it is in use; nobody waits for it, since a forked child might forever.
static LAST: Mutex<Option<Nearness>> = Mutex::new(None);

impl Nearness {
    pub fn take_last() -> Self {
        LAST.try_lock().ok().and_then(|mut last| last.take()).unwrap_or_default()
    }

    pub fn keep(self) {
        if let Ok(mut last) = LAST.try_lock() {
            *last = Some(self);
        }
    }

    /// That of these tokens: rows of `before` as far as it has them.
    pub fn of(model: &StaticModel, asked: &[u16], known: &[u16], before: &Self) -> Self {
        let is_same = (before.model, before.asked.as_slice()) == (model.mark(), asked);
        let there = if is_same { before.known.as_slice() } else { &[] };
        let mut at = 0;
        let place = known.iter().map(|token| {
            at += there[at..].iter().take_while(|there| *there < token).count();
            (there.get(at) == Some(token)).then_some(at)
        });
        let places: Vec<Option<usize>> = place.collect();
        let missing: Vec<u16> =
            known.iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(&token, _)| token).collect();
        let mut rows = Vec::with_capacity(asked.len().div_ceil(LANES) * known.len());
        let mut cosines = [0.0_f32; LANES * BLOCK];
        let mut fresh = vec![[0_u8; LANES]; missing.len()];
        for (chunk, tokens) in asked.chunks(LANES).enumerate() {
            for (fresh, others) in fresh.chunks_mut(BLOCK).zip(missing.chunks(BLOCK)) {
                model.similarities(tokens, others, &mut cosines);
                for (row, cosines) in fresh.iter_mut().zip(cosines.chunks_exact(tokens.len())) {
                    row.iter_mut().zip(cosines).for_each(|(near, &cosine)| *near = step_of(cosine));
                }
            }
            let mut fresh = fresh.iter();
            let row = |place: &Option<usize>| match place {
                &Some(at) => Some(before.rows_of(chunk)[at]),
                None => fresh.next().copied(),
            };
            rows.extend(places.iter().filter_map(row));
        }
        Self { model: model.mark(), asked: asked.to_vec(), known: known.to_vec(), rows }
    }

    /// One row for each known token, of the tokens asked for from `chunk` times [`LANES`] on.
    pub fn rows_of(&self, chunk: usize) -> &[[u8; LANES]] {
        &self.rows[chunk * self.known.len()..][..self.known.len()]
    }
}

/// `max(cosine - 0.3, 0) / 0.7`, in steps of 1/255.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
fn step_of(cosine: f32) -> u8 {
    (((cosine - NEAR) / (1.0 - NEAR)).clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}
