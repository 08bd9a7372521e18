//! The exact-match boost: the few entries that hold everything that a query asks for, word for word: a name, an
//! identifier.
use super::view::View;
use crate::scoring::rank_fusion::CandidateSignals;

/// If more entries than this hold its rarest word, a query asks for something common, and holding it says little.
const MAX_MATCHES: usize = 32;
/// Less than this of a query's words is not all of them.
const MIN_SHARE: f32 = 0.999;

impl View {
    /// Whether each of `entries`, which ascend, holds the rarest word of a query itself and all others at least as parts of
    /// words; `words` are those of [`super::terms::QueryTerms`].
    pub(super) fn exact_matches(
        &self,
        words: &[(u64, Vec<u32>)],
        entries: &[usize],
        signals: &[CandidateSignals],
    ) -> Vec<bool> {
        let mut hold = vec![false; entries.len()];
        let rarest = words.iter().map(|&(term, _)| (self.entries_with(term), term)).min();
        if let Some((_, term)) = rarest.filter(|(number, _)| (1..=MAX_MATCHES).contains(number)) {
            for reader in &self.readers {
                reader.segment.postings(term).each(|ordinal| {
                    if let Ok(at) = entries.binary_search(&(reader.base + ordinal as usize)) {
                        hold[at] = signals[at].trigram >= MIN_SHARE;
                    }
                });
            }
        }
        hold
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::CandidateSignals;
    use crate::index::terms::QueryTerms;
    use crate::index::{Entry, Meta, Query, Segment, Settings, View};

    const PEOPLE: [&str; 5] = ["Anna", "Boris", "Clara", "Dmitri", "Elena"];
    const SERVICES: [&str; 4] = ["billing", "search", "gateway", "checkout"];
    /// Sentences said again and again, each with a gap for a word said once.
    const SENTENCES: [&str; 8] = [
        "{p}: thanks, that works for me {u}",
        "The {s} service was deployed with {u} to staging and all checks passed.",
        "{p} said the {s} dashboard is slow since Monday {u}",
        "Please use {u} in the {s} service instead of the old helper.",
        "{p}: the customer who reported it is called {u}.",
        "ticket {u}: the {s} service was restarted by {p}",
        "{p} is on holiday, ask about {u} in the {s} channel.",
        "src/{s}/{u}.rs\n    self.{s}.retry(limit)?;",
    ];

    /// The identifier or name of an entry. Its neighbours are as similar as possible.
    fn own(style: usize, number: usize) -> String {
        match style {
            0 => format!("token{number}"),
            1 => format!("OPS-{number}"),
            2 => format!("parseRow{number}"),
            3 => format!("ERR_CONN_{number}"),
            4 => format!("note{number}q"),
            _ => {
                let syllables = ["ba", "kra", "ne", "stu", "vo", "zi", "lem", "tor", "qua", "fin"];
                format!("{number:04}").bytes().map(|digit| syllables[usize::from(digit - b'0')]).collect()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_one_entry_alone_holds_finds_it_first(
            said in prop::collection::vec((0..SENTENCES.len(), 0..20_usize, 0..4_u32, 0..3_u32), 20..160),
            style in 0..6_usize,
            first in 100..2_000_usize,
            cut in 1..4_usize,
            asked in prop::collection::vec(any::<prop::sample::Index>(), 8),
            question in 0..3_usize,
        ) {
            let texts: Vec<String> = (first..).zip(&said).map(|(number, &(said, names, ..))| {
                let (person, service) = (PEOPLE[names % PEOPLE.len()], SERVICES[names % SERVICES.len()]);
                SENTENCES[said].replace("{p}", person).replace("{s}", service).replace("{u}", &own(style, number))
            }).collect();
            let entries: Vec<Entry<'_>> = (0..).zip(&texts).zip(&said).map(|((id, text), &(_, _, source, thread))| {
                Entry { id, meta: Meta { source, thread, ..Meta::default() }, text, vector: None }
            }).collect();
            let pieces = entries.chunks(entries.len().div_ceil(cut));
            let open = |piece| Arc::new(Segment::open(Arc::new(Segment::build(piece, &[], &Settings::default()))).unwrap());
            let view = View::new(pieces.map(open).collect());
            for at in asked {
                let at = at.index(texts.len());
                let word = own(style, first + at);
                let query = ["{u}", "where is the {u}?", "what about {u}"][question].replace("{u}", &word);
                let hits = view.search(&Query::new(&query, 3));
                prop_assert_eq!(hits[0].id, at as u64, "{}: {:?}", query, hits.iter().map(|hit| &texts[hit.id as usize]).collect::<Vec<_>>());
                prop_assert!(hits.iter().skip(1).all(|hit| hit.score < hits[0].score));
            }
        }
    }

    #[test]
    fn a_word_that_many_entries_hold_promises_nothing() {
        let texts: Vec<String> =
            (0..60).map(|i| format!("{} number {i}", if i < 40 { "apple" } else { "pear" })).collect();
        let entries: Vec<Entry<'_>> =
            (0..).zip(&texts).map(|(id, text)| Entry { id, meta: Meta::default(), text, vector: None }).collect();
        let view = View::new(vec![Arc::new(
            Segment::open(Arc::new(Segment::build(&entries, &[], &Settings::default()))).unwrap(),
        )]);
        let entries: Vec<usize> = (0..60).collect();
        let signals = [CandidateSignals { text: 1.0, trigram: 1.0, builtin: 0.0, own: 0.0, soft: 0.0 }; 60];
        let held = |query| {
            let held = view.exact_matches(&QueryTerms::of(query).words, &entries, &signals);
            held.into_iter().filter(|holds| *holds).count()
        };
        assert_eq!((held("apple"), held("pear"), held("plum"), held("")), (0, 20, 0, 0));
    }
}
