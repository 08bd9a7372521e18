//! The words for a decision and for something that holds from now on instead of another thing, and the words with which
//! models and servers say that they failed.
//!
//! Directives of users are found by the table of `analysis/directives/cues.rs`.
use std::ops::Range;

use super::sentences::sentences;
use crate::analysis::python_re::{Pattern, is_space};

/// The sentences that state a decision, and do not ask.
#[must_use]
pub fn decisions(text: &str) -> Vec<Range<usize>> {
    let says_so = |range: &Range<usize>| {
        let sentence = &text[range.clone()];
        !sentence.ends_with(['?', '？', '؟']) && DECISION.is_match(sentence)
    };
    sentences(text).filter(says_so).collect()
}

/// Whether a sentence says that something holds from now on, or instead of another thing.
#[must_use]
pub fn is_correction(sentence: &str) -> bool {
    CORRECTION.is_match(sentence)
}

/// Why a writer's text is not a summary. None if it may be one.
#[must_use]
pub fn refusal(text: &str) -> Option<String> {
    /// A shorter text is not a summary of a conversation that was worth one.
    const LEAST: usize = 40;
    let text = text.trim_matches(|char: char| is_space(char.into()));
    match text.chars().count() {
        0 => Some("it is empty".into()),
        _ if is_refusal(text) => Some("it is the text of an error or a refusal".into()),
        count if count < LEAST => Some(format!("it has {count} characters")),
        _ => None,
    }
}

fn is_refusal(text: &str) -> bool {
    /// A text this short that speaks of limits is an error message.
    const SHORT: usize = 400;
    FAILED.is_match(text) || (text.chars().nth(SHORT - 1).is_none() && TOO_MANY.is_match(text))
}

static FAILED: Pattern = Pattern::new(
    concat!(
        r#"^(?-i:\W)*(?:(?:(?-i:\w)+\.)*(?-i:\w)*(?:error|exception)»|error»|traceback»|[45]\d\d»|http»"#,
        r#"|(?:rate\slimit|too\smany\srequests|service\sunavailable|internal\sserver)"#,
        r#"|\{\s*"(?:error|detail|message)"|<!?(?:doctype|html)"#,
        r#"|(?:i'm|i\sam)\s(?:sorry|unable|not\sable)|sorry»|i\s(?:can't|cannot|can\snot|won't)"#,
        r#"|as\san\sai|unfortunately,?\si»)"#,
    ),
    "",
);

static TOO_MANY: Pattern = Pattern::new("too many requests|rate.?limit|quota exceeded|overloaded", "");

static DECISION: Pattern = Pattern::new(
    concat!(
        r"«(?:(?:we|i)(?:'ve|\shave)?\s(?:decided|chose|settled\son|agreed)|decision\s?:",
        r"|let's\s(?:go\swith|use|keep|stick\swith)|(?:we|i)(?:'ll|\swill)\s(?:go\swith|stick\swith)",
        r"|we(?:'ll|\swill)\s(?:use|keep)|we're\s(?:using|going\swith)",
        r"|(?:wir|ich)\s(?:haben|habe)\s(?:(?:uns|mich)?\s?.{0,59}(?-i:[^\w\n])|(?:uns|mich)?\s)?entschieden",
        r"|(?:wir|ich)\s(?:nehmen|nehme|verwenden|verwende|bleiben\sbei|bleibe\sbei)|entscheidung\s?:|beschlossen",
        r"|(?:nous|on|j)\s?'?\s?(?:avons|a|ai)\sdécidé|décision\s?:|on\s(?:garde|utilise|prend|part\ssur)",
        r"|nous\s(?:utiliserons|gardons)",
        r"|(?:hemos|he)\sdecidido|decidimos|decisión\s?:|vamos\sa\susar|usaremos|nos\squedamos\scon",
        r"|decidi(?:mos|u)?»|decisão\s?:|vamos\susar|ficamos\scom",
        r"|abbiamo\sdeciso|ho\sdeciso|decisione\s?:|useremo",
        r"|(?:we|ik)\s(?:hebben|heb)\sbesloten|we\s(?:gebruiken|kiezen)|besluit\s?:",
        r"|(?:мы\s)?решили|решено|решение\s?:|будем\sиспользовать)",
        r"|决定|我们选择|我们用|就用|采用|決定|に決め|を使うことに|にしましょう|결정|하기로\s?했",
        r"|החלטנו|הוחלט|נשתמש|قررنا|تقرر|سنستخدم",
    ),
    "",
);

static CORRECTION: Pattern = Pattern::new(
    concat!(
        r"«(?:from\snow\son|going\sforward|from\shere\son|instead|rather\sthan|changed?\smy\smind|scratch\sthat",
        r"|forget\swhat|correction|i\swas\swrong|no\slonger|not.{1,40}any\s?more|on\ssecond\sthoughts?|supersedes",
        r"|replaces",
        r"|(?:ab|von)\s(?:jetzt|sofort|nun)|künftig|stattdessen|anstatt|statt|nicht\smehr",
        r"|ich\shabe\smich\sgeirrt",
        r"|désormais|dorénavant|à\spartir\sde\smaintenant|à\sla\splace|au\slieu|plus\sjamais",
        r"|a\spartir\sde\sahora|de\sahora\sen\sadelante|en\s(?:vez|lugar)\sde|ya\sno",
        r"|a\spartir\sde\sagora|daqui\sem\sdiante|em\svez\sde|mudei\sde\sideia",
        r"|d'ora\sin\spoi|da\sadesso|invece|al\sposto\sdi|ho\scambiato\sidea|non.{1,30}più",
        r"|vanaf\snu|voortaan|in\splaats\svan|niet\smeer",
        r"|od\steraz|zamiast|już\snie|artik|bundan\ssonra|yerine",
        r"|отныне|впредь|теперь|вместо|больше\sне)»",
        r"|从现在|今后|改用|改为|改成|而不是|不再|これから|今後|代わりに|ではなく|앞으로|대신|이제부터",
        r"|מעכשיו|מעתה|במקום|من\s+الآن|بدلا|अब\s+से|के\s+बजाय",
    ),
    "",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_said_not_asked() {
        let text =
            "It is slow. We decided to use SQLite. WE'LL GO WITH Rust? \nWir haben uns für Go entschieden.\n决定用它。";
        let found: Vec<&str> = decisions(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["We decided to use SQLite.", "Wir haben uns für Go entschieden.", "决定用它。"]);
        for text in ["swe decided", "ich habe unsentschieden", "undecided", "we\u{301} decided"] {
            assert!(decisions(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn corrections_are_whole_words() {
        for text in
            ["From now on, use spaces.", "Artık öyle.", "ARTIK", "DECİSİON: İNSTEAD", "改用它", "not here any more"]
        {
            assert!(is_correction(text), "{text}");
        }
        for text in ["Use tabs.", "insteads", "statthaft", "now"] {
            assert!(!is_correction(text), "{text}");
        }
    }

    #[test]
    fn errors_and_refusals_are_not_summaries() {
        for text in [
            "429 Too Many Requests",
            "** openai.APIError: no",
            "I'm sorry, but",
            "İ CAN'T",
            "<!DOCTYPE html>",
            "{\"error\": 1}",
            "We hit a rate-limit.",
        ] {
            assert!(is_refusal(text), "{text}");
        }
        for text in ["We fixed errors.", "4291 rows", "Sorrys", "unfortunately, it"] {
            assert!(!is_refusal(text), "{text}");
        }
        assert!(!is_refusal(&format!("{} rate limit", "x".repeat(400))));
        for (text, why) in [
            (" \n", Some("it is empty")),
            (" 429 Too Many Requests", Some("it is the text of an error or a refusal")),
            (" It is short. ", Some("it has 12 characters")),
            ("The crane was painted, and the boat comes next.", None),
        ] {
            assert_eq!(refusal(text).as_deref(), why);
        }
    }
}
