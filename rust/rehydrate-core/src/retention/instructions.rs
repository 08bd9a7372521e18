//! The rules of a user for the rest of a session: the sentences that bind, and how many of them are still there.
use rustc_hash::FxHashSet;
use unicase::UniCase;

use super::single_spaced;
use crate::analysis::python_re::{Pattern, is_space, is_word, lines, words};
use crate::sessions::stripped;

/// At the head of a clause these make a rule. Elsewhere ("I don't know", "they never stop") it is talk.
static BINDING: Pattern = Pattern::new(
    concat!(
        r"(?:^|[,;:(*-] ?|«(?:please|and|but|then|should|must|to) )",
        r"(?:never|always|do not|don't|only|avoid|prefer|use only|stick to|remember|keep in mind)»",
        r"|«(?:shall not|may not|not allowed|forbidden",
        r"|prefer|no more than|at most|at least|upper limit|limit of|budget|deadline|cap (?:of|is)",
        r"|make sure|from now on|for the whole|without (?:asking|my)|unless|requirement)»",
        r"|«(?:niemals|immer|müssen|muss|darf(?:st)? (?:nicht|kein)|höchstens|mindestens)»",
        r"|«(?:ne \w+ jamais|toujours|dois|doit|interdit|au plus|au moins)»",
        r"|«(?:nunca|siempre|sempre|debe|deve|prohibido|proibido|como máximo|al menos|vietato)»",
        "|никогда|всегда|нельзя|должн|не более|обязательно|запрещ",
        "|必须|不要|不得|禁止|务必|永远|总是|不能|至少|最多|必ず|しないで|絶対|してはいけない|以内",
    ),
    "",
);
static MUST: Pattern = Pattern::new("«must(?:n't)?", "");
/// After "must" it is talk.
static TALK: Pattern = Pattern::new("^(?:['’-]| (?:have|be|feel)»)", "");

/// Length of a sentence that counts. A shorter one is empty talk, a longer one is pasted.
const MIN_CHARS: usize = 12;
const MAX_CHARS: usize = 400;
/// The first sentences of a session count: a user pastes a handbook once.
const MAX_SENTENCES: usize = 200;
/// The share of a sentence's words that one line must hold, to count as the same instruction.
const WORDS_SHARE: f64 = 0.75;
/// Letters of a word that are compared, so that `touch` equals `touched`.
const STEM_CHARS: usize = 5;

/// The sentences of a user's turns that bind the rest of the session, each once.
pub fn binding_sentences<E>(turns: impl Iterator<Item = Result<String, E>>) -> Result<Vec<String>, E> {
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    for turn in turns {
        let turn = turn?;
        let outside_code: Vec<&str> = turn.split("```").step_by(2).collect();
        for sentence in lines(&outside_code.join("\n")).into_iter().flat_map(sentences).map(stripped) {
            if binds(sentence) && seen.insert(sentence.to_owned()) {
                found.push(sentence.to_owned());
            }
        }
        if found.len() >= MAX_SENTENCES {
            break;
        }
    }
    found.truncate(MAX_SENTENCES);
    Ok(found)
}

fn binds(sentence: &str) -> bool {
    // In other scripts a word may be one or two characters: half as many say as much.
    let min_chars = if sentence.is_ascii() { MIN_CHARS } else { MIN_CHARS / 2 };
    let is_long_enough = (min_chars..=MAX_CHARS).contains(&sentence.chars().count());
    is_long_enough && !sentence.ends_with(['?', '？']) && (BINDING.is_match(sentence) || has_must(sentence))
}

fn has_must(sentence: &str) -> bool {
    MUST.regex().find_iter(sentence).any(|found| {
        let rest = &sentence[found.end()..];
        !rest.starts_with(|c| is_word(u32::from(c))) && !TALK.is_match(rest)
    })
}

/// The sentences of a line: one ends before white space, or at once in Chinese and Japanese.
fn sentences(line: &str) -> Vec<&str> {
    let (mut found, mut begin, mut last) = (Vec::new(), 0, ' ');
    for (at, c) in line.char_indices() {
        if matches!(last, '。' | '！' | '？' | '；') {
            found.push(&line[begin..at]);
            begin = at;
        } else if matches!(last, '.' | '!' | '?' | ';') && is_space(u32::from(c)) {
            let rest = line[at..].trim_start_matches(|c| is_space(u32::from(c)));
            if !rest.is_empty() {
                found.push(&line[begin..at]);
                begin = line.len() - rest.len();
            }
        }
        last = c;
    }
    found.push(&line[begin..]);
    found
}

/// The share of sentences that is still there, to the letter or in other words of one line. None if there are no
/// sentences. `whole` is everything that is kept, `said` the part of it that no tool returned.
#[must_use]
pub fn share_kept(sentences: &[String], whole: &str, said: &str) -> Option<f64> {
    if sentences.is_empty() {
        return None;
    }
    let mut missing: Vec<&String> = sentences.iter().filter(|sentence| !whole.contains(sentence.as_str())).collect();
    if !missing.is_empty() {
        let whole = single_spaced(whole);
        missing.retain(|sentence| !whole.contains(&single_spaced(sentence)));
    }
    if missing.is_empty() {
        return Some(1.0);
    }
    let distinct: FxHashSet<&str> = lines(said).into_iter().collect();
    let lines: Vec<FxHashSet<String>> = distinct.into_iter().map(stems).collect();
    let is_lost = |sentence: &&&String| {
        let words = stems(sentence);
        let needed = (WORDS_SHARE * words.len() as f64).max(1.0);
        !lines.iter().any(|line| line.len() as f64 >= needed && words.intersection(line).count() as f64 >= needed)
    };
    let lost = missing.iter().filter(is_lost).count();
    Some(1.0 - lost as f64 / sentences.len() as f64)
}

/// The words of a text without their case, cut to their first ones.
fn stems(text: &str) -> FxHashSet<String> {
    let folded = UniCase::unicode(text).to_folded_case();
    words(&folded).map(|word| word.chars().take(STEM_CHARS).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(text: &str) -> Vec<String> {
        binding_sentences([Ok::<_, ()>(text.to_owned())].into_iter()).expect("no error")
    }

    #[test]
    fn rules_are_told_from_talk() {
        let text = "House rules:\n- Never touch src/embed.\nI don't know why. They never stop. Prefer small commits. \
            The budget is $500. That must have been hard! Must I? ```\nnever in code, please\n```\nNiemals ohne Freigabe.";
        let rules =
            ["- Never touch src/embed.", "Prefer small commits.", "The budget is $500.", "Niemals ohne Freigabe."];
        assert_eq!(binding(text), rules);
    }

    #[test]
    fn what_follows_must_says_whether_it_binds() {
        assert_eq!(binding("You must not have it."), ["You must not have it."]);
        assert_eq!(binding("It mustn't be late, ever."), [""; 0]);
        assert_eq!(binding("You mustn't touch it."), ["You mustn't touch it."]);
        assert_eq!(binding("It is a must-have of ours."), [""; 0]);
        assert_eq!(binding("The mustard is in the fridge."), [""; 0]);
    }

    #[test]
    fn sentences_end_before_white_space_or_at_once() {
        assert_eq!(sentences("One. Two!  Three? "), ["One.", "Two!", "Three? "]);
        assert_eq!(sentences("不要改。必须测试"), ["不要改。", "必须测试"]);
        assert_eq!(binding("不要改这个文件。必须测试它们"), ["不要改这个文件。", "必须测试它们"]);
    }

    #[test]
    fn a_rule_is_kept_to_the_letter_or_in_other_words_of_one_line() {
        let rules = ["Never touch src/embed.".to_owned(), "The budget is $500.".to_owned()];
        let kept = |text: &str| share_kept(&rules, text, text);
        assert_eq!(kept("So: never touch  src/embed."), Some(0.5));
        assert_eq!(kept("- do not touch src/embed (never)\n- budget: the cap is $500"), Some(1.0));
        assert_eq!(kept("never\ntouch\nsrc/embed\nbudget"), Some(0.0));
        assert_eq!(share_kept(&rules, "So: Never touch  src/embed.", ""), Some(0.5));
        assert_eq!(share_kept(&[], "", ""), None);
    }
}
