//! Scripts: which are written without spaces, which the built-in model does not know, and what counts as a word there.
//!
//! The built-in model's vocabulary is English: of Hebrew, Russian or Chinese it has single letters, of Thai nothing, so any
//! two texts would look alike to it. Texts in such scripts are distinguished by n-grams of characters instead (McNamee and
//! Mayfield 2004), which need no dictionary and see through prefixes and endings.
use std::ops::Range;

use once_cell::race::OnceBox;
use rustc_hash::FxHashSet;

/// How a letter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Latin: words between spaces, and the built-in model knows their pieces.
    Latin,
    /// Words between spaces in any other alphabet.
    Spaced,
    /// Han, kana and Hangul: two characters are about a word.
    Ideographs,
    /// Thai, Lao, Khmer, Myanmar: nothing is between words, and a word has several letters.
    Unspaced,
}

impl Script {
    /// The script of a letter; None for digits, signs and marks.
    pub fn of(char: char) -> Option<Self> {
        if char.is_ascii() {
            return char.is_ascii_alphabetic().then_some(Self::Latin);
        }
        match u32::from(char) {
            0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF => Some(Self::Unspaced),
            0x1100..=0x11FF
            | 0x2E80..=0x2FDF
            | 0x3005..=0x3007
            | 0x3040..=0x318F
            | 0x31F0..=0x31FF
            | 0x3400..=0x4DBF
            | 0x4E00..=0x9FFF
            | 0xA960..=0xA97F
            | 0xAC00..=0xD7FF
            | 0xF900..=0xFAFF
            | 0x20000..=0x3FFFF => Some(Self::Ideographs),
            _ if !char.is_alphabetic() => None,
            // Latin, its phonetic letters, and what is written with it: signs, numerals, wide and mathematical letters.
            0x00AA..=0x036F
            | 0x1D00..=0x1DBF
            | 0x1E00..=0x1EFF
            | 0x2070..=0x218F
            | 0x24B6..=0x24E9
            | 0x2C60..=0x2C7F
            | 0xA720..=0xA7FF
            | 0xAB30..=0xAB6F
            | 0xFB00..=0xFB06
            | 0xFF21..=0xFF5A
            | 0x1D400..=0x1D7FF => Some(Self::Latin),
            _ => Some(Self::Spaced),
        }
    }

    /// Characters of an n-gram: shorter ones are in too many words.
    fn gram(self) -> usize {
        if self == Self::Ideographs { 2 } else { 3 }
    }
}

/// Whether nothing is between words of this letter's script.
pub(crate) fn is_unspaced(char: char) -> bool {
    matches!(Script::of(char), Some(Script::Ideographs | Script::Unspaced))
}

/// Whether a character that isn't a letter belongs to the word before it: a combining mark, a joiner.
pub(crate) fn is_mark(char: char) -> bool {
    match u32::from(char) {
        0..0x0300 => false,
        0x0300..=0x036F | 0x0483..=0x0489 | 0x200C | 0x200D => true,
        // Marks of the scripts of India and their neighbours are letters to Unicode, but for the signs that join consonants.
        0x0900..=0x0DFF | 0x0F00..=0x0FFF | 0x1A00..=0x1CFF | 0xA800..=0xABFF | 0x11000..=0x11FFF => {
            use unicode_categories::UnicodeCategories;
            char.is_mark()
        }
        _ => is_point(char),
    }
}

/// Vowel points and cantillation of Hebrew and Arabic: people leave them out of searches.
fn is_point(char: char) -> bool {
    matches!(u32::from(char), 0x0591..=0x05BD | 0x05BF | 0x05C1 | 0x05C2 | 0x05C4 | 0x05C5 | 0x05C7
        | 0x0610..=0x061A | 0x064B..=0x065F | 0x0670)
}

/// A letter in the form under which it is found, or None if it is left out. Points, joiners and accents by themselves
/// say nothing. Variants of a letter, and its form at a word's end, are one.
pub(crate) fn fold(char: char) -> Option<char> {
    match char {
        _ if is_point(char) => None,
        '\u{0300}'..='\u{036F}' | '\u{200C}' | '\u{200D}' | 'ـ' | '\u{093C}' => None,
        'ך' => Some('כ'),
        'ם' => Some('מ'),
        'ן' => Some('נ'),
        'ף' => Some('פ'),
        'ץ' => Some('צ'),
        'أ' | 'إ' | 'آ' | 'ٱ' => Some('ا'),
        'ى' | 'ی' => Some('ي'),
        'ک' => Some('ك'),
        'ة' => Some('ه'),
        'ё' => Some('е'),
        'Ё' => Some('Е'),
        'ς' => Some('σ'),
        _ => Some(char),
    }
}

/// Lower-cased and folded.
pub(crate) fn form(run: &str) -> String {
    run.chars().filter_map(fold).flat_map(char::to_lowercase).filter_map(fold).collect()
}

/// The run of letters in one script other than Latin, with their marks, at the start of `text`.
pub(crate) fn foreign_run(text: &str) -> Option<(Script, &str)> {
    let script = Script::of(text.chars().next()?).filter(|&script| script != Script::Latin)?;
    let belongs = |char: char| Script::of(char).map_or_else(|| is_mark(char), |own| own == script);
    let end = text.find(|char| !belongs(char)).unwrap_or(text.len());
    Some((script, &text[..end]))
}

/// All such runs of `text`, and their places.
pub(crate) fn foreign_runs(text: &str) -> impl Iterator<Item = (Range<usize>, Script)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            at += text.as_bytes()[at..].iter().position(|byte| !byte.is_ascii())?;
            let start = at;
            if let Some((script, run)) = foreign_run(&text[start..]) {
                at += run.len();
                return Some((start..at, script));
            }
            at += text[start..].chars().next()?.len_utf8();
        }
    })
}

/// The n-grams of a [`form`] of a script; a shorter one is its own.
pub(crate) fn grams(form: &str, script: Script) -> impl Iterator<Item = &str> {
    slices(form, script.gram())
}

/// The terms of a word between spaces: its [`form`] and the n-grams of that.
pub(crate) fn form_and_grams(form: &str, script: Script) -> impl Iterator<Item = &str> {
    let whole = Some(form).filter(|form| !form.is_empty());
    whole.into_iter().chain(grams(form, script).filter(|gram| gram.len() < form.len()))
}

/// The terms of a run without spaces, for queries about any part of it: its n-grams and those one shorter.
pub(crate) fn shorter_and_grams(run: &str, script: Script) -> impl Iterator<Item = &str> {
    let is_longer = run.chars().nth(script.gram() - 1).is_some();
    let grams = is_longer.then(|| slices(run, script.gram())).into_iter().flatten();
    slices(run, script.gram() - 1).chain(grams)
}

fn slices(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let bounds = || text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let is_short = text.chars().nth(size).is_none();
    let whole = (is_short && !text.is_empty()).then_some(text).into_iter();
    let pieces = bounds().zip(bounds().skip(size)).map(|(from, to)| &text[from..to]);
    whole.chain(pieces.filter(move |_| !is_short))
}

/// Whether a [`form`] or an n-gram says nothing of a subject.
pub(crate) fn is_filler(form: &str, script: Script) -> bool {
    static SET: OnceBox<FxHashSet<String>> = OnceBox::new();
    let set = SET.get_or_init(|| Box::new(FILLERS.split_whitespace().map(self::form).collect()));
    set.contains(form) || (script == Script::Ideographs && form.contains(|char| FILLING_IDEOGRAPHS.contains(char)))
}

/// Words of Russian, Greek, Hebrew, Arabic and Hindi, and endings of Japanese and Korean, that are in any text.
const FILLERS: &str = "и в на с со по за из от до о об к у не ни что чем как это кто где когда почему зачем сколько какой \
    какая какое какие какого ли или но а мы вы я он она они его её их нас вас для про был была было были есть уже ещё \
    και το τη την τον η ο οι τα της του των να με σε για από τι πότε πού πώς ποιος ποια είναι δεν που στο στη στην \
    של את על עם זה זאת הוא היא הם אני אתה אנחנו לנו לי לך מה מי מתי איפה איך למה כמה האם כי אם או גם לא כן יש אין היה \
    היתה תהיה כל אבל רק שלנו שלי \
    في من على إلى عن مع هذا هذه ذلك هو هي ما ماذا متى أين كيف لماذا كم هل أن إن أو لا لم كان كانت التي الذي كل قد لنا لدينا \
    है हैं का की के को में से पर और या यह वह क्या कब कहाँ कौन कैसे क्यों कितना कितनी कितने था थी थे हो ही भी नहीं हम मैं तुम ने कि रहा रही \
    です ます ませ せん まし した して すか から まで ので こと ある いる いつ どこ どの って という \
    니다 습니 입니 합니 나요 까요 하고 하는 에서 으로 는지 언제 얼마 어디 무엇";

/// Characters of Chinese that belong to no name of a thing.
const FILLING_IDEOGRAPHS: &str = "的了么麼吗嗎呢吧啊什们們这這哪谁誰怎您你我是很";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_told_apart() {
        for (letters, script) in [
            ("aZéßőﬁĀ", Script::Latin),
            ("яΩשبअԱგ", Script::Spaced),
            ("漢字かカ々한ㄱ𠀀", Script::Ideographs),
            ("ไทยລາວខ្មမြန်", Script::Unspaced),
        ] {
            for letter in letters.chars().filter(|&char| !is_mark(char)) {
                assert_eq!(Script::of(letter), Some(script), "{letter}");
            }
        }
        for sign in "1٣.。-→€😀 \n\u{200D}".chars() {
            assert_eq!(Script::of(sign), None, "{sign:?}");
        }
    }

    #[test]
    fn marks_split_no_word() {
        let runs = |text| foreign_runs(text).map(|(range, _)| &text[range]).collect::<Vec<&str>>();
        assert_eq!(runs("छूट अवधि in क्षत्रिय"), ["छूट", "अवधि", "क्षत्रिय"]);
        assert_eq!(runs("שָׁלוֹם, مُحَمَّد и ёлка"), ["שָׁלוֹם", "مُحَمَّد", "и", "ёлка"]);
        assert_eq!(runs("naïve café – 5€ 😀 α=1"), ["α"]);
        assert_eq!(runs("GPT的API我们。天气"), ["的", "我们", "天气"]);
        assert_eq!(runs(""), Vec::<&str>::new());
    }

    #[test]
    fn forms_of_a_letter_are_one() {
        for (one, other) in [("שָׁלוֹם", "שלום"), ("أحمـد", "احمد"), ("ЁЛКА", "елка"), ("فاتورة", "فاتوره")]
        {
            assert_eq!(form(one), form(other));
        }
        assert_eq!(form("עלים"), form("עלימ"), "a letter at a word's end is the letter inside of it");
    }

    #[test]
    fn fillers_are_known_in_every_form() {
        for (filler, script) in
            [("её", Script::Spaced), ("إلى", Script::Spaced), ("איך", Script::Spaced), ("什么", Script::Ideographs)]
        {
            assert!(is_filler(&form(filler), script), "{filler}");
        }
        assert!(!is_filler("发票", Script::Ideographs) && !is_filler("счет", Script::Spaced));
    }

    #[test]
    fn a_run_has_its_grams_and_a_short_one_is_its_own() {
        let of = |form, script| grams(form, script).collect::<Vec<_>>();
        assert_eq!(of("счета", Script::Spaced), ["сче", "чет", "ета"]);
        assert_eq!(of("漢字典", Script::Ideographs), ["漢字", "字典"]);
        assert_eq!(of("и", Script::Spaced), ["и"]);
        assert_eq!(of("чай", Script::Spaced), ["чай"]);
        assert_eq!(of("", Script::Spaced), Vec::<&str>::new());
        assert_eq!(form_and_grams("счет", Script::Spaced).collect::<Vec<_>>(), ["счет", "сче", "чет"]);
        assert_eq!(form_and_grams("и", Script::Spaced).count() + form_and_grams("", Script::Spaced).count(), 1);
        let both = |run, script| shorter_and_grams(run, script).collect::<Vec<_>>();
        assert_eq!(both("漢字典", Script::Ideographs), ["漢", "字", "典", "漢字", "字典"]);
        assert_eq!(both("漢", Script::Ideographs), ["漢"]);
        assert_eq!(both("ไทย", Script::Unspaced), ["ไท", "ทย", "ไทย"]);
        assert_eq!(both("ไ", Script::Unspaced), ["ไ"]);
    }
}
