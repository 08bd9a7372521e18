//! Soft match: each token of a query looks for its nearest token in each message.
use crate::embed::builtin::{Bag, PackedBag, StaticModel};
use crate::embed::nearness::{LANES, Nearness};
use crate::interrupt::Pace;
use crate::scoring::bm25::idf;

/// A longer query is judged by its rarest tokens.
const QUERY_TOKENS: usize = 32;
/// And by this many n-grams of other scripts: a word has several.
const QUERY_GRAMS: usize = 256;
/// Weight of an n-gram that no message holds: every other n-gram spans two words or an ending, and means nothing.
const UNSEEN_GRAM: f64 = 0.5;

/// The share of a query that each message matches, and how much there is to match.
pub(crate) struct Match {
    pub of_message: Vec<f64>,
    pub of_query: f64,
}

/// Match `query` with `messages` of them, whose texts' bags are numbered by message. A query token matches a message by
/// its nearest token there, `max(cosine - 0.3, 0) / 0.7`, in steps of 1/255, and weighs by the IDF of these matches; an
/// n-gram matches itself only. `document_frequency` says how many messages have each token of the vocabulary.
pub(crate) fn soft_match(
    model: &StaticModel,
    query: &Bag,
    messages: usize,
    bags: &[(usize, PackedBag<'_>)],
    document_frequency: &[u32],
    nearness: &mut Nearness,
) -> Match {
    let present: Vec<u16> = (0..=u16::MAX).zip(document_frequency).filter(|(_, df)| **df > 0).map(|p| p.0).collect();
    let mut asked: Vec<u16> = query.iter().map(|entry| entry.0).filter(|&token| !model.is_filler(token)).collect();
    let mut grams = asked.split_off(asked.partition_point(|&token| !model.is_hashed(token)));
    let rarity = |&token: &u16| (document_frequency[token as usize], token);
    asked.sort_by_key(rarity);
    asked.truncate(2 * QUERY_TOKENS);
    asked.sort_unstable(); // which is the rarest may change from one message to the next
    grams.sort_by_key(rarity);
    grams.truncate(QUERY_GRAMS);
    let known = &present[..present.partition_point(|&token| !model.is_hashed(token))];

    // Tokens that occur are numbered, so that their data is close together.
    let mut number = vec![0_u16; document_frequency.len()];
    (0..).zip(&present).for_each(|(at, &token)| number[token as usize] = at);
    let mut scored: Vec<(f64, u16, Vec<u8>)> = Vec::with_capacity(asked.len());
    let mut of_grams = Vec::with_capacity(grams.len());
    let mut near = vec![[0_u8; LANES]; present.len()];
    let score = |tokens: &[u16], near: &[[u8; LANES]], scored: &mut Vec<(f64, u16, Vec<u8>)>| {
        let mut best = vec![[0_u8; LANES]; messages];
        let mut pace = Pace::default();
        for (message, bag) in bags {
            pace.step_by(1 + bag.len());
            nearest(*bag, &number, near, &mut best[*message]);
        }
        for (lane, &token) in tokens.iter().enumerate() {
            let matches: Vec<u8> = best.iter().map(|lanes| lanes[lane]).collect();
            let matched = matches.iter().map(|&step| of_step(step)).sum();
            scored.push((idf(messages, matched), token, matches));
        }
    };
    *nearness = Nearness::of(model, &asked, known, nearness);
    for (chunk, tokens) in asked.chunks(LANES).enumerate() {
        near[..known.len()].copy_from_slice(nearness.rows_of(chunk));
        score(tokens, &near, &mut scored);
    }
    for tokens in grams.chunks(LANES) {
        near.fill([0; LANES]);
        for (lane, &token) in tokens.iter().enumerate().filter(|(_, token)| document_frequency[**token as usize] > 0) {
            near[usize::from(number[token as usize])][lane] = u8::MAX;
        }
        score(tokens, &near, &mut of_grams);
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| rarity(&a.1).cmp(&rarity(&b.1))));
    scored.truncate(QUERY_TOKENS);
    let mut of_message = vec![0.0; messages];
    for (rarity, _, matches) in &scored {
        of_message.iter_mut().zip(matches).for_each(|(sum, &step)| *sum += rarity * of_step(step));
    }
    let mut of_query: f64 = scored.iter().map(|(rarity, ..)| rarity).sum();
    for (rarity, _, matches) in &of_grams {
        let is_seen = matches.iter().any(|&step| step > 0);
        of_query += rarity * if is_seen { 1.0 } else { UNSEEN_GRAM };
        of_message.iter_mut().zip(matches).for_each(|(sum, &step)| *sum += rarity * of_step(step));
    }
    Match { of_message, of_query }
}

fn of_step(step: u8) -> f64 {
    f64::from(step) / 255.0
}

/// Raise each lane of `best` to the largest nearness of any token in the bag.
fn nearest(bag: PackedBag<'_>, number: &[u16], near: &[[u8; LANES]], best: &mut [u8; LANES]) {
    *best = bag.ids().fold(*best, |mut best, token| {
        let row = &near[usize::from(number[token as usize])];
        for lane in 0..LANES {
            best[lane] = best[lane].max(row[lane]);
        }
        best
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::builtin::pack_bag;

    /// The simple way: every token of the query against every token of the message.
    fn by_hand(model: &StaticModel, query: &Bag, messages: &[Bag]) -> (Vec<f64>, f64) {
        let mut of_message = vec![0.0; messages.len()];
        let mut of_query = 0.0;
        for &(token, _) in query.iter().filter(|entry| !model.is_filler(entry.0)) {
            let best: Vec<f64> = messages
                .iter()
                .map(|bag| {
                    let tokens: Vec<u16> = bag.iter().map(|entry| entry.0).collect();
                    let mut cosines = vec![0.0; tokens.len()];
                    model.similarities(&[token], &tokens, &mut cosines);
                    cosines.iter().map(|&cosine| f64::from((cosine - 0.3) / 0.7)).fold(0.0, f64::max)
                })
                .collect();
            let rarity = idf(messages.len(), best.iter().sum());
            of_query += rarity;
            of_message.iter_mut().zip(best).for_each(|(sum, best)| *sum += rarity * best);
        }
        (of_message, of_query)
    }

    #[test]
    fn lanes_and_bytes_give_what_the_obvious_way_gives() {
        let model = StaticModel::builtin();
        let texts =
            ["the invoice was paid in march", "a dog barked", "payment of bills, receipts", "", "cats and dogs"];
        let messages: Vec<Bag> = texts.iter().map(|text| model.bag(text)).collect();
        let mut document_frequency = vec![0; model.vocab_size()];
        messages.iter().flat_map(|bag| bag.iter()).for_each(|entry| document_frequency[entry.0 as usize] += 1);
        let query = model
            .bag("which bill did the hound pay for? a puppy kennel cost statement price money animal seventeen april");
        let packed = messages.iter().map(|bag| {
            let mut packed = Vec::new();
            pack_bag(bag, &mut packed);
            packed
        });
        let packed: Vec<Vec<u32>> = packed.collect();
        let bags: Vec<_> = packed.iter().map(|packed| PackedBag::read(packed)).enumerate().collect();
        let mut nearness = Nearness::default();
        let mut matched = |bags| soft_match(model, &query, messages.len(), bags, &document_frequency, &mut nearness);
        let found = matched(&bags);
        let again = matched(&bags);
        assert_eq!((&again.of_message, again.of_query), (&found.of_message, found.of_query), "with the rows known");
        let (of_message, of_query) = by_hand(model, &query, &messages);
        assert!((found.of_query - of_query).abs() < 0.05, "{} {of_query}", found.of_query);
        for (found, expected) in found.of_message.iter().zip(&of_message) {
            assert!((found - expected).abs() < 0.05, "{found} {expected}");
        }
        assert!(of_message[2] > of_message[3] && of_message[1] > of_message[3]);
    }
}
