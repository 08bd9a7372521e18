//! Directives: the rules, constraints, prohibitions, limits, goals, preferences and corrections that users state in
//! plain prose.
//!
//! Such a sentence is short, is never said again, and no later tool call shows that it was needed. If it is lost, it is
//! broken. It is recognised sentence by sentence: by words that make a rule by themselves (`cues.rs`), or by two signs
//! of different kinds ("use X" and "instead of Y", "keep" and "under 200"). A sentence about somebody ("I never knew")
//! or a question needs more. An order isn't a rule: "please check order 7" is done once, where "use 4 spaces" goes on.
//! Each directive has a strength and the words of its subject. It is derived once from a text and cached with it.
mod cues;
mod finder;
mod sentences;

use std::ops::Range;

use self::cues::{AMOUNT, Cue, DUTY, MANNER, ORDER, PLEA, TASK};
use self::finder::Finder;
use self::sentences::{CLAUSE, in_clauses, outside_harness_tags, sentences};
use crate::analysis::words;
use crate::interrupt::checkpoint;

/// Signs of different kinds that make a directive.
const SIGNS: u32 = 2;
/// Weight of a strong cue, in signs.
const STRONG: u32 = 2;
/// How to answer, as somebody wants it.
const WISH: u32 = DUTY.bit() | MANNER.bit();
/// The signs of an order: what to do once, to which, and please. A rule has another one as well.
const ONCE: u32 = TASK.bit() | AMOUNT | PLEA.bit();
/// More signs than these add nothing.
const STRONGEST: u32 = 6;
/// In front of a colon, up to this many words are a label.
const MAX_LABEL_WORDS: usize = 4;
/// A longer one isn't a sentence by a person: minified code, a dump.
const MAX_SENTENCE_BYTES: usize = 1_000;

/// How strong each directive in `text` is, 2 to 6.
pub(crate) fn strengths(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    find(text, |_, Judged { strength, .. }| found.push(strength));
    found
}

/// A directive, and where it is in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectiveSpan {
    /// In bytes, without white space around it.
    pub range: Range<usize>,
    /// 2 to 6.
    pub strength: u32,
    /// Whether its words make a rule by themselves, as "always" does. "change row 5" only has two signs of one.
    pub is_plain: bool,
    /// The content words of the sentence, ascending.
    pub subject: Vec<u32>,
}

/// The directives in `text`, and their places.
#[must_use]
pub fn directive_spans(text: &str) -> Vec<DirectiveSpan> {
    let mut found = Vec::new();
    find(text, |sentence, Judged { strength, is_plain }| {
        let sentence = sentence.trim();
        let start = sentence.as_ptr().addr() - text.as_ptr().addr();
        let range = start..start + sentence.len();
        found.push(DirectiveSpan { range, strength, is_plain, subject: subject(sentence) });
    });
    found
}

/// The verdict on a sentence.
#[derive(Clone, Copy, Default)]
struct Judged {
    /// 0: it isn't a directive.
    strength: u32,
    is_plain: bool,
}

/// Call `found` with each sentence of `text` that is a directive, a part of `text`.
fn find(text: &str, mut found: impl FnMut(&str, Judged)) {
    let finder = Finder::get();
    let mut clauses = String::new();
    for said in outside_harness_tags(text) {
        for (sentence, asks) in sentences(said).filter(|(sentence, _)| sentence.len() <= MAX_SENTENCE_BYTES) {
            checkpoint();
            let judged = finder.judge(sentence, asks, &mut clauses);
            if judged.strength > 0 {
                found(sentence, judged);
            }
        }
    }
}

/// The content words of a sentence, ascending.
fn subject(sentence: &str) -> Vec<u32> {
    let mut subject = words::words(sentence);
    subject.sort_unstable();
    subject.dedup();
    subject
}

impl Finder {
    /// How strong a directive `sentence` is. `clauses` is scratch.
    fn judge(&self, sentence: &str, asks: bool, clauses: &mut String) -> Judged {
        let letters = in_clauses(sentence, clauses);
        let (mut signs, mut strong, mut figure) = (if letters.has_digit { AMOUNT } else { 0 }, false, false);
        let (mut unless, mut demoted, mut tells, mut tale) = (false, false, false, false);
        self.find(clauses, |cue| match cue {
            Cue::Strong => strong = true,
            Cue::Unless if tale => demoted = true,
            Cue::Unless => unless = true,
            Cue::Sign(sign) => signs |= sign,
            Cue::Tale => (tale, tells) = (true, true),
            Cue::Figure => figure = true,
            Cue::Clause => tale = false,
            Cue::Label => {}
        });
        if signs & ORDER.bit() != 0 {
            signs &= !TASK.bit(); // of one kind
        }
        // "I want short answers" is about nobody.
        strong |= WISH & !signs == 0;
        let label = self.has_label(clauses, sentence);
        unless &= !figure;
        if figure && !label && signs.count_ones() < SIGNS + 1 {
            return Judged::default();
        }
        let own = signs.count_ones() + u32::from(demoted) + u32::from(letters.has_capitals && is_stressed(sentence));
        let strength = own + STRONG * (u32::from(strong || unless) + u32::from(label));
        let is_plain = strong || unless || label;
        let is_directive = is_plain || (signs & !ONCE != 0 && own >= SIGNS + u32::from(tells));
        let is_plea = !asks || (signs & PLEA.bit() != 0 && strength > STRONG);
        let strength = if is_directive && is_plea { strength.clamp(SIGNS, STRONGEST) } else { 0 };
        Judged { strength, is_plain }
    }

    /// Whether it begins with a label that says so, such as "Rule:" or "HARD CONSTRAINT:".
    fn has_label(&self, clauses: &str, sentence: &str) -> bool {
        let Some(colon) = sentence.find([':', '：']) else { return false };
        let words = sentence[..colon].split_whitespace().count();
        let label = clauses.trim_start().split(CLAUSE).next().unwrap_or_default();
        (1..=MAX_LABEL_WORDS).contains(&words)
            && (label.split(' ').any(|word| self.labels.contains(word))
                || self.unspaced_labels.iter().any(|known| label.contains(&**known)))
    }
}

/// Whether it stresses a word of three letters or more by capitals, as in "NEVER" and "IMPORTANT:".
fn is_stressed(sentence: &str) -> bool {
    const STRESSED: [&str; 8] = ["NEVER", "MUST", "ALWAYS", "NOT", "ONLY", "IMPORTANT", "DON'T", "STOP"];
    let mut words = sentence.split(|char: char| !char.is_alphanumeric() && char != '\'');
    let first = sentence.split(':').next().unwrap_or_default();
    let is_capital_label = first.len() < sentence.len()
        && first.chars().any(char::is_uppercase)
        && !first.chars().any(|char| char.is_lowercase() || char.is_ascii_digit());
    is_capital_label || words.any(|word| STRESSED.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strength(text: &str) -> u32 {
        strengths(text).into_iter().max().unwrap_or(0)
    }

    fn is_directive(text: &str) -> bool {
        strength(text) > 0
    }

    #[track_caller]
    fn all_are_directives(texts: &[&str]) {
        let missed: Vec<&&str> = texts.iter().filter(|text| !is_directive(text)).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn directives_in_english_are_recognised() {
        all_are_directives(&[
            "Never force-push to the main branch.",
            "please don’t rename any public API",
            "Do not book anything without my approval.",
            "Always run the formatter before you commit.",
            "Our budget is $500 in total.",
            "Keep answers below 100 words.",
            "The aim is to get the page under one second.",
            "I would prefer an early flight.",
            "Prefer composition over inheritance.",
            "Actually, use Postgres instead of SQLite.",
            "From now on, call me Sam.",
            "Only Python 3.11 is available on the server.",
            "We cannot use the network in CI.",
        ]);
    }

    #[test]
    fn a_number_makes_a_rule_of_what_goes_on() {
        all_are_directives(&[
            "Use 4 spaces.",
            "Use Python 3.11",
            "always use port 8443",
            "Never deploy after 16:00",
            "Keep answers under 100 words",
            "Check order 7 before each deployment.",
            "Run at most 3 tests at once.",
            "The page should load within 2 seconds.",
        ]);
        all_are_directives(&[
            "Bitte verwende 4 Leerzeichen.",
            "Utilise 4 espaces, s'il te plaît.",
            "Por favor, usa 4 espacios.",
            "Per favore, usa 4 spazi.",
            "Gebruik 4 spaties.",
            "Proszę, używaj 4 spacji.",
            "Lütfen 4 boşluk kullan.",
            "Пожалуйста, используй 4 пробела.",
            "השתמש ב-4 רווחים.",
            "استخدم 4 مسافات.",
            "कृपया 4 स्पेस का उपयोग करें।",
            "请用4个空格缩进。",
            "スペースを4つ使ってください。",
            "공백 4개를 사용해 주세요.",
        ]);
    }

    #[test]
    fn directives_in_other_languages_are_recognised() {
        all_are_directives(&[
            "Lösche niemals Kundendaten.",
            "Maximal drei Versuche, dann abbrechen.",
            "Ich bevorzuge kurze Antworten.",
        ]);
        all_are_directives(&[
            "Ne supprime jamais les sauvegardes.",
            "Le budget est de 500 euros.",
            "N’oublie pas de lancer les tests.",
        ]);
        all_are_directives(&[
            "Nunca subas cambios a la rama principal.",
            "No más de tres intentos.",
            "Hay que ejecutar las pruebas.",
        ]);
        all_are_directives(&["Não apague os arquivos de log.", "O orçamento é de 500 reais."]);
        all_are_directives(&["Non cancellare i file di log.", "D'ora in poi usa Postgres invece di SQLite."]);
        all_are_directives(&[
            "Не трогай основную ветку.",
            "Максимум три попытки.",
            "Всегда спрашивай меня перед удалением.",
        ]);
        all_are_directives(&["לעולם אל תמחק גיבויים.", "לא יותר משלושה ניסיונות."]);
        all_are_directives(&["لا تقم أبدا بحذف السجلات.", "ثلاث محاولات كحد أقصى."]);
        all_are_directives(&["लॉग फ़ाइलें कभी मत हटाओ।", "अधिकतम तीन प्रयास।"]);
        all_are_directives(&["不要删除日志文件。", "回答不要超过一百字。", "改用Postgres,而不是SQLite。"]);
        all_are_directives(&["ログは削除しないでください。", "試行は最大三回までです。"]);
        all_are_directives(&[
            "로그 파일을 삭제하지 마세요.",
            "Verwijder nooit de logbestanden.",
            "Nie usuwaj plików z logami.",
        ]);
        all_are_directives(&["Her zaman önce testleri çalıştırmalısın."]);
    }

    #[test]
    fn what_tells_or_asks_or_orders_once_is_no_rule() {
        for text in [
            "",
            "continue",
            "Fix the failing test and go on.",
            "I never knew that the parser was this slow.",
            "Why do we never see that message in the log?",
            "Don't worry, it works now.",
            "That must have been the cache.",
            "I can't wait to see it!",
            "Run the tests.",
            "Run the tests, keep the log.",
            "Please run the tests.",
            "check order 7",
            "Could you check order 7?",
            "Please look at PR 12.",
            "run test 3",
            "open line 40",
            "go to step 2",
            "Yes, please go ahead and cancel the reservation NQNU5R.",
            "Prüfe Bestellung 7.",
            "Bitte sieh dir Zeile 40 an.",
            "Supprime la ligne 40, s'il te plaît.",
            "Por favor, revisa el pedido 7.",
            "Пожалуйста, посмотри строку 40.",
            "请查看订单7。",
            "注文7を確認してください。",
            "주문 7을 확인해 주세요.",
            "Thanks, that looks good.",
            "Was hat der letzte Test ergeben?",
            "¿Qué dice el registro?",
            "看一下日志。",
        ] {
            assert!(!is_directive(text), "{text}");
        }
        assert!(is_directive("Could you please never touch that file?"), "asked for politely");
    }

    #[test]
    fn a_label_and_capitals_make_it_stronger() {
        assert!(is_directive("Goal: the importer reads every row."));
        assert!(is_directive("目标:启动更快"));
        assert!(strength("IMPORTANT: the office is closed") > strength("Important: the office is closed"));
        assert!(!is_directive("Melanie: the importer reads every row"), "a speaker");
    }

    #[test]
    fn a_sentence_is_found_in_a_long_text_and_a_dump_is_not_read() {
        let notes = "The meeting began at nine. ".repeat(200);
        assert_eq!(strengths(&format!("{notes}Never touch the ledger. {notes}")).len(), 1);
        assert!(strengths(&"must;".repeat(MAX_SENTENCE_BYTES)).is_empty());
    }

    #[test]
    fn what_a_harness_says_in_a_user_turn_is_not_the_users() {
        let said = "<system-reminder>Never mention this. You must not answer.</system-reminder>";
        assert!(!is_directive(said));
        assert_eq!(strengths(&format!("Never push. {said} Always test.")).len(), 2);
        assert!(!is_directive("<task-notification>You must read it"), "never closed");
        assert!(is_directive("<rules>You must read it</rules>"), "the user's own tags");
    }

    #[test]
    fn spans_are_the_sentences_themselves() {
        let text = "Thanks!  Never touch the ledger. <system-reminder>Never x.</system-reminder> Bitte antworte immer auf Deutsch.";
        let spans = directive_spans(text);
        let said: Vec<&str> = spans.iter().map(|span| &text[span.range.clone()]).collect();
        assert_eq!(said, ["Never touch the ledger", "Bitte antworte immer auf Deutsch"]);
        assert_eq!(spans.iter().map(|span| span.strength).collect::<Vec<_>>(), strengths(text));
    }
}
