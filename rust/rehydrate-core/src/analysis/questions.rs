//! Questions in a text: the sentences that ask for information, and not only for something to be done; whether the text
//! ends in a short one.
use super::python_re::{Pattern, is_space};
use super::words::asks;

/// Question marks of Latin, Chinese and Japanese, Arabic, Syriac, Armenian and Ethiopic.
const QUESTION_MARKS: [char; 6] = ['?', '\u{ff1f}', '\u{61f}', '\u{2e2e}', '\u{55e}', '\u{1367}'];

/// Words that ask for information.
macro_rules! question_word {
    ($begin:literal) => {
        concat!(
            $begin,
            r"(?:what|which|when|where|who|whom|whose|how|why|tell|remind|recall",
            r"|was|welche[rsnm]?|wann|wo|wer|wen|wem|wie|warum|wieso",
            r"|quel(?:le)?s?|quoi|quand|où|comment|combien|pourquoi",
            r"|qué|cuál(?:es)?|cuándo|dónde|quién|cómo|cuánt[oa]s?",
            r"|qual|quais|quando|onde|quem|quant[oaie]s?|cosa|quale|dove|perché",
            r"|wat|welke?|wanneer|waar|wie|hoe|waarom",
            r"|что|како[йе]|какая|какие|когда|где|кто|как|почему|сколько)»",
            r"|什么|哪|谁|怎么|多少|几|为什么|何|どこ|いつ|誰|どの|どれ|なぜ|どう",
            r"|무엇|뭐|어디|언제|누구|어느|어떤|왜|어떻게|얼마|몇)",
        )
    };
}
/// Matches a request to do something.
static REQUEST: Pattern = Pattern::new(
    concat!(
        r"«(?:(?:can|could|would|will)\s(?:you|we)|please",
        r"|(?:kannst|könntest|würdest)\sdu|(?:können|könnten|würden)\ssie|bitte",
        r"|(?:peux|pourrais)[ -]tu|(?:pouvez|pourriez)[ -]vous",
        r"|puedes?|pod[rí]+as?|por\sfavor|pode(?:s|ria|rias)?\s(?:me|tu|você)",
        r"|puoi|potresti|può|kun\sje|kunt\su|можешь|можете|мог(?:ла|ли)?\sбы)»",
        r"|请|能不能|可以|帮我|ください|くれ|もらえ|いただけ|주세요|줄래|주시|줄\s수",
    ),
    "",
);

/// Matches a request for information, even inside a request to do something.
static QUESTION_WORD: Pattern = Pattern::new(question_word!("(?:«"), "");
/// The same at the beginning of a sentence.
static QUESTION_WORD_FIRST: Pattern = Pattern::new(question_word!("^(?:"), "");

/// The share of a text that is in questions, 0 to 1.
#[must_use]
pub fn question_share(text: &str) -> f64 {
    let (mut all, mut asked) = (0_u32, 0_u32);
    for sentence in sentences(text) {
        let chars = u32::try_from(sentence.chars().count()).unwrap_or(u32::MAX);
        all = all.saturating_add(chars);
        asked = asked.saturating_add(if is_question(sentence) { chars } else { 0 });
    }
    f64::from(asked) / f64::from(all.max(1))
}

/// The most characters of a question that only asks. A longer one says what it is about, as an answer does.
const SHORT: usize = 80;

/// Whether a text ends in a question that is short.
pub(crate) fn ends_in_short_question(text: &str) -> bool {
    let text = text.trim_end();
    let start = text.char_indices().rev().nth(SHORT).map_or(0, |(at, _)| at);
    asks(text) && sentences(&text[start..]).last().is_some_and(|sentence| sentence.chars().count() <= SHORT)
}

/// Whether a sentence asks for information, and not only for something to be done.
fn is_question(sentence: &str) -> bool {
    if sentence.ends_with(QUESTION_MARKS) {
        return !REQUEST.is_match(sentence) || QUESTION_WORD.is_match(sentence);
    }
    !sentence.contains(',') && QUESTION_WORD_FIRST.is_match(sentence)
}

/// The sentences of a text, without the white space between them: they end at a mark with white space after it, at a mark of
/// Chinese or Japanese, and at the end of a line.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut before) = (Vec::new(), 0, ' ');
    for (at, c) in text.char_indices() {
        if at < start {
            before = c;
            continue;
        }
        let spaces = |is_one: fn(char) -> bool| text[at..].find(|c| !is_one(c)).map_or(text.len(), |end| at + end);
        if matches!(before, '.' | '!' | '?' | '\u{61f}') && is_space(u32::from(c)) {
            found.push(&text[start..at]);
            start = spaces(|c| is_space(u32::from(c)));
        } else {
            if matches!(before, '\u{3002}' | '\u{ff01}' | '\u{ff1f}') {
                found.push(&text[start..at]);
                start = at;
            }
            if c == '\n' {
                found.push(&text[start..at]);
                start = spaces(|c| c == '\n');
            }
        }
        before = c;
    }
    found.push(&text[start..]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_asks_for_information() {
        for asks in [
            "Was it 80?",
            "Can you tell me the port?",
            "which port was it",
            "WHICH one?",
            "什么意思",
            "cuáles son",
            "WHİCH",
        ] {
            assert!(is_question(asks), "{asks}");
        }
        for other in ["Can you fix it?", "When it is fixed, commit.", "Go on.", "", "whichever"] {
            assert!(!is_question(other), "{other}");
        }
    }

    #[test]
    fn sentences_end_at_marks_and_lines() {
        assert_eq!(
            sentences("One. Two?  three\n\nfour。五！six 1.5"),
            ["One.", "Two?", "three", "four。", "五！", "six 1.5"]
        );
        assert_eq!(sentences(""), [""]);
    }

    #[test]
    fn a_short_question_is_the_last_sentence() {
        let (long, said) = ("very ".repeat(20), "It is so. ".repeat(50));
        for text in
            ["Which port?", "Anna: And you?\n", &format!("{said}Which one? :)"), &format!("{long}\nどこですか？")]
        {
            assert!(ends_in_short_question(text), "{text}");
        }
        for text in
            ["", "Port 80.", &format!("Is it {long}long?"), &format!("{said}Is it {long}long?"), &"é".repeat(400)]
        {
            assert!(!ends_in_short_question(text), "{text}");
        }
    }

    #[test]
    fn a_text_asks_by_the_share_of_its_questions() {
        assert!((question_share("Which port? I forgot it.") - 11.0 / 23.0).abs() < 1e-12);
        assert!(question_share("").abs() < f64::EPSILON);
    }
}
