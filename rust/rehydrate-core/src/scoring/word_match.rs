//! BM25 over the messages of one conversation, and the rarity of the words that each holds.
use crate::analysis::words::PackedTerms;
use crate::interrupt::checkpoint;
use crate::scoring::bm25::{BM25, idf};

/// The quality of documents' matches with a query, word by word.
pub(crate) struct WordMatch {
    /// BM25 of each document.
    pub bm25: Vec<f64>,
    /// Per document, the summed rarity of the query's words that it holds.
    pub rarity: Vec<f64>,
    /// The summed rarity of all words of the query.
    pub rarity_of_query: f64,
    /// Per document, whether it has all words of the query and no others.
    pub echoes: Vec<bool>,
}

/// Words that are looked up in one pass over the texts: their counts stay in the processor's cache.
const WORDS_A_PASS: usize = 16;

/// Match `documents` with the distinct words of a query. `texts` are numbered by document; a document is the terms of its
/// texts together.
pub(crate) fn match_words(documents: usize, texts: &[(usize, PackedTerms<'_>)], query: &[u32]) -> WordMatch {
    let mut lengths = vec![0.0; documents];
    for (document, terms) in texts {
        lengths[*document] += f64::from(terms.length);
    }
    let average = (lengths.iter().sum::<f64>() / documents.max(1) as f64).max(1e-9);
    let mut found = WordMatch {
        bm25: vec![0.0; documents],
        rarity: vec![0.0; documents],
        rarity_of_query: 0.0,
        echoes: vec![false; documents],
    };
    let mut matched = vec![0_u32; documents];
    let mut counts = vec![[0_u32; WORDS_A_PASS]; documents];
    for words in query.chunks(WORDS_A_PASS) {
        checkpoint();
        counts.fill([0; WORDS_A_PASS]);
        for (document, terms) in texts {
            for (count, &word) in counts[*document].iter_mut().zip(words) {
                *count += terms.count(word);
            }
        }
        for (matched, counts) in matched.iter_mut().zip(&counts) {
            *matched += counts.iter().sum::<u32>();
        }
        for index in 0..words.len() {
            let with_it = counts.iter().filter(|counts| counts[index] > 0).count();
            let rarity = idf(documents, with_it as f64);
            found.rarity_of_query += rarity;
            for (document, counts) in counts.iter().enumerate().filter(|(_, counts)| counts[index] > 0) {
                let (count, length) = (f64::from(counts[index]), lengths[document]);
                found.rarity[document] += rarity;
                found.bm25[document] += BM25.term_weight(rarity, count, length, average);
            }
        }
    }
    for (document, echoes) in found.echoes.iter_mut().enumerate() {
        let says_all = !query.is_empty() && found.rarity[document] == found.rarity_of_query;
        *echoes = says_all && f64::from(matched[document]) == lengths[document];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::words::{terms, words};

    fn packed(text: &str) -> Vec<u32> {
        let mut packed = Vec::new();
        terms(text).pack(&mut packed);
        packed
    }

    #[test]
    fn a_document_is_all_its_texts_and_a_rare_word_says_more() {
        let texts = ["apple pie", "apple", "cherry"].map(packed);
        let documents =
            [(0, PackedTerms::read(&texts[0])), (0, PackedTerms::read(&texts[1])), (1, PackedTerms::read(&texts[2]))];
        let mut query: Vec<u32> =
            (0..40).map(|n| words(&format!("absent{n}"))[0]).chain(words("apple cherry")).collect();
        query.sort_unstable();
        let found = match_words(2, &documents, &query);
        let one_of_two = idf(2, 1.0);
        assert_eq!(found.rarity, [one_of_two, one_of_two]);
        assert!((found.rarity_of_query - 2.0 * one_of_two - 40.0 * idf(2, 0.0)).abs() < 1e-9);
        assert!(found.bm25.iter().all(|&score| score > 0.0));
    }

    #[test]
    fn bm25_is_the_formula() {
        let texts = ["apple pie apple", "apple", "cherry tart with cream"].map(packed);
        let documents: Vec<_> = texts.iter().map(|terms| PackedTerms::read(terms)).enumerate().collect();
        let scores = match_words(3, &documents, &words("apple")).bm25;
        // lengths 3, 1, 3 (no stop word), 7/3 on average; idf = ln(1 + 1.5 / 2.5)
        let expected =
            |tf: f64, length: f64| 1.6_f64.ln() * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / (7.0 / 3.0)));
        for (score, expected) in scores.iter().zip([expected(2.0, 3.0), expected(1.0, 1.0), 0.0]) {
            assert!((score - expected).abs() < 1e-12, "{score} {expected}");
        }
    }
}
