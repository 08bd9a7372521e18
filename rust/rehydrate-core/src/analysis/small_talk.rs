//! Messages that ask for nothing, and queries in ideographs, for a search by words.
use super::python_re::words;

/// A query of nothing but these words asks for nothing.
const SMALL_TALK: &str = "a again alright and bye cheers continue cool day do evening fine go good goodbye great hello hey hi \
    how i is it k let me morning much next night nice no nope of ok okay on one perfect please right so sounds sure thank \
    thanks that the then there this thx to well what yeah yep yes you your ahead are for now s";

/// Whether all words of a query are small talk, or it has none.
#[must_use]
pub fn is_small_talk(query: &str) -> bool {
    let lowered = query.to_lowercase();
    words(&lowered).all(|word| SMALL_TALK.split_whitespace().any(|known| known == word))
}

/// Whether more than half of the letters in a query's words are ideographs.
///
/// Words there are single characters and pairs, and a paraphrase shares fewer of them.
#[must_use]
pub fn is_in_ideographs(query: &str) -> bool {
    let ideographs = query.chars().filter(|char| ('\u{3400}'..='\u{9fff}').contains(char)).count();
    let lowered = query.to_lowercase();
    2 * ideographs > words(&lowered).map(|word| word.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_ask_for_nothing() {
        for query in ["", "?!", "Thanks, that's great!", "Yes, go ahead.", "OK..."] {
            assert!(is_small_talk(query), "{query}");
        }
        for query in ["Thanks, which port?", "端口", "ok_then", "no1"] {
            assert!(!is_small_talk(query), "{query}");
        }
    }

    #[test]
    fn queries_in_ideographs() {
        assert!(is_in_ideographs("那个端口是多少？"));
        assert!(is_in_ideographs("Caddy 的端口是多少"));
        assert!(!is_in_ideographs("Which port does 端口 mean?"));
        assert!(!is_in_ideographs("ポートは"));
        assert!(!is_in_ideographs(""));
    }
}
