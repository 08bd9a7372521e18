//! Whether a pattern's match is a secret: not a placeholder, not a name, path or expression of code, not a word.
use super::reading::{Match, Pattern, char_at, is_word};
use crate::analysis::python_re::{is_alpha, is_digit, is_space};

/// A match and the text it is in.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'t> {
    pub text: &'t str,
    pub start: usize,
    pub found: &'t Match,
}

impl<'t> Candidate<'t> {
    pub fn whole(&self) -> &'t str {
        &self.text[self.start..self.found.end]
    }

    pub fn value(&self) -> &'t str {
        &self.text[self.found.value.clone()]
    }
}

/// Around a value, of the sentence or the code it is in.
const AROUND: &[char] =
    &['.', ',', ';', ':', '!', '?', '(', ')', '{', '}', '[', ']', '<', '>', '&', '|', '=', '*', '+', '"', '\'', '`'];
const MIXED: &str = "!@#$%^&*+=~?";
const SCHEMES: [&str; 7] = ["basic", "bearer", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"];

/// Paths, addresses, and names joined by dots.
macro_rules! code {
    ($($more:tt)*) => {
        concat!(
            r"[~.]{0,2}/|[a-zA-Z]:\\|[a-z]+://",
            r"|[a-z_]+[0-9]{0,5}(?:\.[A-Za-z_]+[0-9]{0,5}[A-Za-z_]*)+$",
            $($more)*
        )
    };
}
static CODE: Pattern = Pattern::new(code!());
/// These, versions, dates, and words that end in at most one number.
static NAME_LIKE: Pattern = Pattern::new(code!(
    r"|v?[0-9]+\.[0-9]+(?:\.[0-9]+)?|[0-9]{4}-[0-9][0-9]-[0-9][0-9]",
    r"|(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)[0-9]{0,3}(?:[-._/:](?:[a-z]+|[A-Z]+|[A-Z][a-z]+)?[0-9]{0,3})*$"
));

/// Whether a value is in place of a secret, as `${PASSWORD}` or `your-key-here`.
pub(super) fn is_placeholder(value: &str) -> bool {
    static PLACEHOLDER: Pattern = Pattern::new(concat!(
        r"(?i:\$(?:[A-Z_][A-Z0-9_]*|[A-Za-z_.]+)?$|.*\$\{[A-Za-z_]\w*(?:[:}?-]|$)|.*\$\((?-i:[a-z])",
        r"|.*\{\{.*\}\}|[xX*.\-_•]+$|<[A-Za-z][\w .:-]*>?$|\{[A-Za-z_][\w.\[\]()'\x22!:]*\}?$",
        r"|\[[A-Za-z][\w .:-]*\]?$|%[A-Za-z_]+%|%\([A-Za-z_]|%[sdr]$",
        r"|(?:your|my|some|the|example|dummy|fake|placeholder)[-_ ]",
        r"|(?:none|null|true|false|undefined|changeme|redacted|secret|password|token)$)"
    ));
    PLACEHOLDER.is_match(value)
}

/// Shannon's entropy per character.
fn entropy_bits(value: &str) -> f64 {
    let mut counts: Vec<(char, u32)> = Vec::new();
    let mut total = 0.0;
    for char in value.chars() {
        total += 1.0;
        match counts.iter_mut().find(|(known, _)| *known == char) {
            Some((_, count)) => *count += 1,
            None => counts.push((char, 1)),
        }
    }
    -counts.iter().map(|&(_, count)| f64::from(count) / total).map(|share| share * share.log2()).sum::<f64>()
}

/// Whether a value is too random for a word, a path, a version or a name.
pub(super) fn looks_random(value: &str, least_chars: usize) -> bool {
    value.chars().count() >= least_chars
        && has(value, is_letter)
        && (has(value, is_number) || is_jumbled(value))
        && entropy_bits(value) >= 3.0
        && !is_placeholder(value)
        && (!NAME_LIKE.is_match(value) || has_random_part(value))
}

fn has(value: &str, is_so: impl Fn(char) -> bool) -> bool {
    value.chars().any(is_so)
}

fn is_letter(char: char) -> bool {
    is_alpha(char.into())
}

/// Digits of any script, superscripts and numbers in circles included, as in Python's `str.isdigit`.
fn is_number(char: char) -> bool {
    let others = matches!(char,
        '²' | '³' | '¹' | '\u{1369}'..='\u{1371}' | '\u{19DA}' | '⁰' | '⁴'..='⁹' | '₀'..='₉' | '①'..='⑨' | '⑴'..='⑼'
        | '⒈'..='⒐' | '⓪' | '⓵'..='⓽' | '⓿' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒' | '\u{10A40}'..='\u{10A43}'
        | '\u{10E60}'..='\u{10E68}' | '\u{11052}'..='\u{1105A}' | '\u{1F100}'..='\u{1F10A}');
    others || is_digit(char.into())
}

/// Whether a value that looks like a path or names has a part that no path or name has.
fn has_random_part(value: &str) -> bool {
    value
        .split(['/', '.', '_', ':', '-'])
        .any(|part| part.chars().count() >= 16 && kinds(part) >= 3 && entropy_bits(part) >= 3.5)
}

/// The number of kinds of characters in it: small and large letters, digits, signs.
fn kinds(value: &str) -> usize {
    let kinds = [char::is_lowercase, char::is_uppercase, is_number, is_mixed];
    kinds.into_iter().filter(|kind| has(value, kind)).count()
}

fn is_mixed(char: char) -> bool {
    MIXED.contains(char)
}

/// Whether letters change their case as in no word or name.
fn is_jumbled(value: &str) -> bool {
    let length = value.chars().count();
    let pairs = value.chars().zip(value.chars().skip(1));
    let changes = pairs.filter(|(a, b)| a.is_uppercase() != b.is_uppercase()).count();
    length >= 12 && changes as f64 > 0.4 * length as f64
}

/// The value without the punctuation around it.
fn core(value: &str) -> &str {
    value.trim_matches(AROUND)
}

/// Whether it looks like a person's password: short, letters mixed with anything else.
pub(super) fn is_password(it: &Candidate) -> bool {
    let value = it.value();
    let core = core(value);
    if core.chars().count() < 4 || is_placeholder(value) || CODE.is_match(core) {
        return false;
    }
    if value.contains(' ') && !is_phrase(value) {
        return false;
    }
    let has_digit = has(core, is_number);
    if !has(core, is_letter) {
        return has_digit && core.chars().count() >= 8;
    }
    !is_expression(it) && (has_digit || has(value, is_mixed) || is_jumbled(core))
}

/// Whether the value is code, as in `password = make_one(1)`. Text in quotes is a value, and so is the right side of a
/// shell's assignment.
fn is_expression(it: &Candidate) -> bool {
    // A call, an index, an attribute, a type.
    static EXPRESSION: Pattern = Pattern::new(r"[!&*]?(?:await |new )?[A-Za-z_$][\w$.:]*(?:->|\?\.|[(\[<]|::)");
    if it.found.is_quoted || is_shell(it.whole()) {
        return false;
    }
    let Some(end) = EXPRESSION.end(it.value(), 0) else {
        return matches!(char_at(it.text, it.found.value.end), Some('(' | '['));
    };
    // Arguments of a call are names and short words.
    let rest = &it.value()[end..];
    rest.chars().count() < 8 || kinds(rest) < 3 || is_names(rest)
}

fn is_names(text: &str) -> bool {
    text.strip_suffix(';').unwrap_or(text).chars().all(|char| is_word(char) || ".$,:=()[]".contains(char))
}

/// `NAME=value`
fn is_shell(text: &str) -> bool {
    let is_name = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    text.starts_with(|char: char| char.is_ascii_uppercase())
        && text
            .trim_start_matches(is_name)
            .strip_prefix('=')
            .is_some_and(|value| !value.starts_with(|char: char| is_space(char.into()) || "=$(".contains(char)))
}

/// Whether words in quotes are a passphrase, and not a sentence about one.
fn is_phrase(value: &str) -> bool {
    static PROSE: Pattern = Pattern::new(concat!(
        r"(?is:.*?(?:^|\W)(?:must|should|shall|may|can|cannot|contain\w*|required|characters?|invalid|please|enter",
        r"|your|the|is|are|was|for|with|from|this|that|not|and|or|to|of|in|an?|at|least)(?:$|\W))"
    ));
    let words = value.split(|char: char| is_space(char.into())).filter(|word| !word.is_empty()).count();
    words <= 8 && !PROSE.is_match(value)
}

/// Whether a word in a sentence can be nothing but a password.
pub(super) fn is_strong(it: &Candidate) -> bool {
    let core = core(it.value());
    core.chars().count() >= 6 && kinds(core) >= 3 && !NAME_LIKE.is_match(core) && !is_placeholder(core)
}

/// The same of a value whose name has other meanings: `pass`.
pub(super) fn is_weak_password(it: &Candidate) -> bool {
    is_password(it) && (is_strong(it) || is_token(it))
}

/// Whether the value of a variable of the environment looks like a password.
pub(super) fn is_variable(it: &Candidate) -> bool {
    let value = it.value();
    !is_placeholder(value)
        && !CODE.is_match(value)
        && has(value, is_letter)
        && (has(core(value), |char| !is_letter(char)) || is_jumbled(value))
}

pub(super) fn is_token(it: &Candidate) -> bool {
    looks_random(core(it.value()), 12) && !is_expression(it)
}

pub(super) fn is_argument(it: &Candidate) -> bool {
    !it.value().starts_with('-') && (is_password(it) || is_token(it))
}

pub(super) fn is_credential(it: &Candidate) -> bool {
    if it.found.has_scheme {
        return !is_placeholder(it.value());
    }
    is_token(it) && !SCHEMES.iter().any(|scheme| it.value().eq_ignore_ascii_case(scheme))
}

pub(super) fn has_random_cookie(it: &Candidate) -> bool {
    it.value().split(';').any(|pair| looks_random(pair.split_once('=').map_or("", |(_, value)| value), 16))
}

pub(super) fn is_url_password(it: &Candidate) -> bool {
    !is_placeholder(it.value()) || matches!(it.value(), "password" | "secret")
}

/// Whether what follows a name and a colon in a URL, up to an `@` after its first `/`, is a password: neither a port and
/// a path, nor the path of a repository.
pub(super) fn has_slash(user: &str, value: &str) -> bool {
    static PORT: Pattern = Pattern::new(r"(?i)$|\{\d*\}$|\d{1,5}(?:$|[^a-z0-9])|[a-z_]*port");
    let (port, _) = value.split_once('/').unwrap_or_default();
    !PORT.is_match(port) && !is_placeholder(port) && !user.contains(['@', '[']) && kinds(value) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_random_is_neither_a_word_nor_a_name() {
        let random = ["q7Zp0aXk29LmT", "aBcDeFgHiJkLmN", "src/aB3dE5gH7jK9mN1p/x"];
        let other =
            ["internationalisation", "v1.2.3", "2026-02-17T12:00", "some/path/to_it1", "xxxxxxxxxxxxx1", "a1b2c3"];
        assert!(random.iter().all(|value| looks_random(value, 12)));
        assert_eq!(other.iter().find(|value| looks_random(value, 12)), None);
    }

    #[test]
    fn what_has_a_slash_in_a_url_is_a_port_and_a_path_or_a_password() {
        assert!(has_slash("admin", "Sup3r/Secret") && has_slash("", "p%40ss/w0rdX") && has_slash("a", "$1x/y"));
        let paths = ["8080/a@B2", "/A1", "{port}/A1", "{}/A1", "27017,b:27017/Db", "my_port/A1", "path/with"];
        assert_eq!(paths.iter().find(|path| has_slash("host", path)), None);
        assert!(!has_slash("git@host", "Owner/repo1") && !has_slash("[", ":1]:80/A1"));
    }

    #[test]
    fn placeholders_are_no_values() {
        let placeholders =
            ["${DB_PASSWORD}", "<token>", "your-key-here", "{{ secret }}", "%s", "****", "$(cat x)", "[key]"];
        assert_eq!(placeholders.iter().find(|value| !is_placeholder(value)), None);
        assert_eq!(["hunter2", "$ecret2024!", "$(CAT)"].iter().find(|value| is_placeholder(value)), None);
    }

    #[test]
    fn entropy_is_shannons() {
        assert_eq!(["", "aaaa", "abcd"].map(entropy_bits), [0.0, 0.0, 2.0]);
        assert!((entropy_bits("aab") - 0.918_295_8).abs() < 1e-6);
    }
}
