//! Many texts at once, by this thread and a helper: counted, or embedded.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::embed::Embedder;
use crate::engine::Engine;
use crate::interrupt::{checkpoint, with_helper};
use crate::tokens::Counter;

/// The number of rows taken at once: few enough for both threads to end together, and enough that taking them costs
/// nothing.
const TAKEN_ROWS: usize = 32;

/// The tokens of each text. None for a row without one.
#[must_use]
pub fn counts(engine: &Engine, texts: &[Option<&str>], counter: Counter) -> Vec<Option<u32>> {
    let present: Vec<&str> = texts.iter().copied().flatten().collect();
    let mut counted = engine.counts(&present, counter).into_iter();
    texts.iter().map(|text| text.and_then(|_| counted.next())).collect()
}

/// The vector of each text. None for a row without one, zeros for a text of which the model knows nothing, or on which
/// it fails.
#[must_use]
pub fn vectors(model: &dyn Embedder, texts: &[Option<&str>]) -> Vec<Option<Vec<f32>>> {
    spread(texts, |text| {
        text.map(|text| {
            let mut row = vec![0.0; model.dim()];
            if model.embed(&[text], &mut row).is_err() {
                row.fill(0.0);
            }
            row
        })
    })
}

fn spread<'a, T: Send>(texts: &[Option<&'a str>], work: impl Fn(Option<&'a str>) -> T + Sync) -> Vec<T> {
    let chunks: Vec<_> = texts.chunks(TAKEN_ROWS).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(chunks.len())));
    let work_some = || {
        while let Some((at, chunk)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, chunks.get(at)?)))
        {
            let rows: Vec<T> = chunk
                .iter()
                .map(|&text| {
                    checkpoint();
                    work(text)
                })
                .collect();
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, rows));
        }
    };
    if chunks.len() > 1 {
        with_helper(work_some)
    } else {
        work_some()
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().flat_map(|(_, rows)| rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_order_and_those_without_a_text_stay_without_a_result() {
        let texts: Vec<String> = (0..1_000).map(|row| "word ".repeat(row % 7)).collect();
        let rows: Vec<_> =
            texts.iter().enumerate().map(|(row, text)| (row % 11 > 0).then_some(text.as_str())).collect();
        let engine = Engine::new(1 << 20);
        let one_by_one: Vec<_> = rows.iter().map(|row| row.map(|text| engine.count(text, Counter::Words))).collect();
        assert_eq!(counts(&engine, &rows, Counter::Words), one_by_one);
        assert_eq!(counts(&engine, &[], Counter::Words), []);
    }
}
