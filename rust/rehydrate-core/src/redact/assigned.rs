//! A name and its value, as programs, shells, JSON, YAML and XML write them; the values in quotes and without.
//!
//! Text that can be read in several ways is read in the order in which a backtracking regular expression would try
//! them.
use std::ops::Range;

use super::reading::{
    Match, Pattern, ansi, char_at, char_before, escaped, gap, is_blank, is_space, is_word, line_number, literal, one,
    quote, repeated, repeats, some, space,
};

/// Most characters of a value.
const MOST: usize = 512;
/// Fewest of a password.
pub(super) const PASSWORD: usize = 6;

/// The possible beginnings of a value after its name, which ends at `at`, and the quotation mark before it.
fn values(text: &str, at: usize) -> impl Iterator<Item = (usize, Option<&str>)> {
    let set = equals(text, after_name(text, at)).into_iter().chain(named_value(text, at));
    set.flat_map(move |at| repeats(at, 12, |at| gap(text, at))).flat_map(move |at| maybe_quoted(text, at)).flat_map(
        move |(at, quote)| {
            let ends = repeats(at, 4, |at| ansi(text, at));
            ends.into_iter().map(move |at| (at, quote))
        },
    )
}

/// After the quotation marks at `at`, three or one, and the prefix of a Python string before them.
fn after_quotes(text: &str, at: usize) -> impl Iterator<Item = (usize, Option<&str>)> {
    let is_prefix = |char: char| matches!(char.to_ascii_lowercase(), 'b' | 'f' | 'r' | 'u');
    let begin = repeated(at, 2, |at| one(text, at, is_prefix));
    let mark = quote(text, begin);
    let three = mark.and_then(|end| {
        let mark = &text[begin..end];
        let three = literal(text, literal(text, end, mark)?, mark)?;
        Some((repeated(three, 40, |at| space(text, at)), Some(&text[begin..three])))
    });
    three.into_iter().chain(mark.map(|end| (end, Some(&text[begin..end]))))
}

/// After quotation marks; without any.
fn maybe_quoted(text: &str, at: usize) -> impl Iterator<Item = (usize, Option<&str>)> {
    after_quotes(text, at).chain([(at, None)])
}

/// A value that is apart from its name: after a type, on the next line, or in a bracket.
fn apart(text: &str, at: usize, least: usize) -> Option<Match> {
    // `: str =`, `: &'static str =`, `?: string | null =`, Go's `string =`, C's `[] =`
    static TYPED: Pattern = Pattern::new(concat!(
        r"(?:[?!]?:[ \t]{0,4}(?:&(?:'[a-z_]{1,16} )?(?:mut )?|\*)?[A-Za-z_][A-Za-z0-9_.]{0,40}",
        r"(?:::[A-Za-z0-9_]{1,40}){0,4}(?:[<\[][^=\r\n\x22']{0,40}[>\]])?\??",
        r"(?: ?\| ?[A-Za-z_][A-Za-z0-9_.]{0,40}){0,3}(?:\[\])?|string|\[[0-9]{0,4}\])[ \t]{0,4}="
    ));
    static BLOCK: Pattern = Pattern::new(r"[|>][-+0-9]{0,2}[ \t]{0,4}(?:[\r\n]|\\{1,7}[rn])");
    static VALUE: Pattern = Pattern::new("«quote»?(?i:value)«quote»?«gap»[:=]«gap»");
    let named = after_name(text, at);
    let first = char_at(text, named)?;
    let typed = if ":?!s[".contains(first) { TYPED.end(text, named) } else { None };
    let sets = typed.into_iter().map(|end| (end, true));
    sets.chain(equals(text, named).first().map(|&end| (end, false))).find_map(|(set, is_typed)| {
        let near = repeated(set, 12, |at| gap(text, at));
        let opening = char_at(text, near)?;
        if first == ':' && matches!(opening, '|' | '>') {
            let line = BLOCK.end(text, near)?;
            let indented = repeated(line, 60, |at| between_lines(text, at));
            return value(text, indented, None, least);
        }
        let opens = |at| between_lines(text, at).or_else(|| one(text, at, |char| matches!(char, '(' | '[')));
        let opened = repeated(set, 60, opens);
        if !is_typed && opened == near && opening != '{' {
            return None;
        }
        let member = literal(text, opened, "{").map_or(opened, |at| repeated(at, 60, |at| between_lines(text, at)));
        if let Some(key) = VALUE.end(text, member) {
            return maybe_quoted(text, key).find_map(|(at, quote)| value(text, at, quote, least));
        }
        // Three quotes after a colon begin a docstring.
        let marks = |quote: &str| quote.bytes().filter(|&byte| byte != b'\\').count();
        let is_string = |quote: Option<&str>| is_typed || first != ':' || quote.is_none_or(|quote| marks(quote) < 3);
        let mut quoted = after_quotes(text, opened).filter(|&(_, quote)| is_string(quote));
        let is_in_list = text[set..opened].contains('[');
        let least = if is_in_list { 1 } else { least };
        let found = quoted.find_map(|(at, quote)| value(text, at, quote, least))?;
        Some(Match { is_in_list, ..found })
    })
}

/// Between two lines: white space, a diff's mark, a line's number.
fn between_lines(text: &str, at: usize) -> Option<usize> {
    space(text, at).or_else(|| one(text, at, |char| char == '+')).or_else(|| line_number(text, at))
}

/// The next text of a list.
pub(super) fn next_in_list(text: &str, before: &Match) -> Option<Match> {
    let closed = quote(text, before.end).filter(|_| before.is_in_list)?;
    let comma = literal(text, repeated(closed, 8, |at| space(text, at)), ",")?;
    let next = repeated(comma, 60, |at| between_lines(text, at));
    let found = after_quotes(text, next).find_map(|(at, quote)| value(text, at, quote, 1))?;
    Some(Match { is_in_list: true, ..found })
}

/// Past the end of a name's own quotation marks and brackets.
fn after_name(text: &str, at: usize) -> usize {
    let coloured = repeated(at, 4, |at| ansi(text, at));
    let closed = quote(text, coloured).map(|end| literal(text, end, "]").unwrap_or(end));
    repeated(closed.unwrap_or(coloured), 12, |at| gap(text, at))
}

/// The possible ends of the assignment sign: `=`, `:` and the like.
fn equals(text: &str, at: usize) -> Vec<usize> {
    match char_at(text, at) {
        Some(':') => literal(text, at, ":=").into_iter().chain([at + 1]).collect(),
        Some('=') => {
            let mut ends: Vec<usize> = literal(text, at, "=>").into_iter().collect();
            let several = repeats(at, 3, |at| literal(text, at, "="));
            ends.extend(several.into_iter().filter(|&end| end > at));
            ends
        }
        Some('：') => vec![at + '：'.len_utf8()],
        Some('%') => ["%3A", "%3a", "%3D", "%3d"].iter().filter_map(|escape| literal(text, at, escape)).collect(),
        Some('\\') => escaped(text, at, &["u003d", "u003D", "u003a", "u003A", "uff1a"]).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// `name: DB_PASSWORD, value: hunter2` in YAML, JSON and XML: the end of the second colon.
fn named_value(text: &str, at: usize) -> Option<usize> {
    let between = |at| {
        let mark = |char| matches!(char, ',' | '+' | '>' | '|');
        space(text, at).or_else(|| one(text, at, mark)).or_else(|| line_number(text, at))
    };
    let closed = quote(text, at).unwrap_or(at);
    let next = repeated(closed, 40, between);
    if next == closed {
        return None;
    }
    let value = literal(text, quote(text, next).unwrap_or(next), "value")?;
    let end = repeated(quote(text, value).unwrap_or(value), 12, |at| gap(text, at));
    one(text, end, |char| matches!(char, ':' | '='))
}

/// Whether a value without quotes goes on with the character at `at`: up to white space, a quotation mark, or a
/// separator before the next name. So `&` and `;` may be parts of a password.
fn is_bare(text: &str, at: usize) -> bool {
    let Some(char) = char_at(text, at) else { return false };
    let next = at + char.len_utf8();
    let is_last = || char_at(text, next).is_none_or(|char| is_space(char) || "\"'`\\".contains(char));
    match char {
        '\\' => char_at(text, next).is_none_or(|char| !"nrtbfuvx0\"'`\\/".contains(char)),
        ';' | ',' | '&' | '|' => !is_last() && !is_next_name(text, next),
        '(' | ')' | '{' | '}' | '[' | ']' | '>' => !is_last(),
        '<' => !is_last() && !is_tag(text, next),
        '"' | '\'' | '`' | '\x1b' => false,
        _ => !is_space(char),
    }
}

fn is_next_name(text: &str, at: usize) -> bool {
    let name = one(text, at, |char| char.is_ascii_alphabetic() || char == '_')
        .and_then(|at| some(text, at, 0..=40, |char| is_word(char) || matches!(char, '.' | '-')))
        .and_then(|at| some(text, at, 0..=2, is_blank));
    name.is_some_and(|end| matches!(char_at(text, end), Some('=' | ':')))
}

fn is_tag(text: &str, at: usize) -> bool {
    one(text, literal(text, at, "/").unwrap_or(at), |char| char.is_ascii_lowercase())
        .and_then(|at| some(text, at, 0..=15, |char| char.is_ascii_lowercase() || char.is_ascii_digit()))
        .is_some_and(|end| matches!(char_at(text, end), Some(' ' | '/' | '>')))
}

/// The end of a value without quotes.
fn bare(text: &str, at: usize, least: usize, most: usize) -> Option<usize> {
    let (mut end, mut chars) = (at, 0);
    while chars < most && is_bare(text, end) {
        end = one(text, end, |_| true)?;
        chars += 1;
    }
    (chars >= least).then_some(end)
}

/// The places where a value in quotes may go on from `at`: past an escaped mark, and past one character.
fn quoted_ends(text: &str, at: usize, quote: &str) -> impl Iterator<Item = usize> {
    let char = char_at(text, at).filter(|char| !matches!(char, '\r' | '\n' | '\x1b') && !text[at..].starts_with(quote));
    let pair = literal(text, at, "\\").and_then(|at| one(text, at, |char| "\"'\\".contains(char)));
    char.into_iter().flat_map(move |char| pair.into_iter().chain([at + char.len_utf8()]))
}

/// The end of a value that ends at the same quotes.
fn quoted(text: &str, at: usize, quote: &str, least: usize) -> Option<usize> {
    let mut dead = [0; DEAD_BYTES];
    let mut end = quoted_least(text, at..at, quote, least, &mut dead)?;
    for _ in least..MOST {
        let Some(next) = quoted_ends(text, end, quote).next() else { break };
        end = next;
    }
    Some(end)
}

/// Bytes of the longest beginning: twelve characters.
const DEAD_BYTES: usize = 64;

/// The first way to read `left` characters on from `read`; `dead` has the places where that many are too many.
fn quoted_least(
    text: &str,
    read: Range<usize>,
    quote: &str,
    left: usize,
    dead: &mut [u16; DEAD_BYTES],
) -> Option<usize> {
    if left == 0 {
        return Some(read.end);
    }
    if dead[read.len()] & 1 << left != 0 {
        return None;
    }
    let found =
        quoted_ends(text, read.end, quote).find_map(|end| quoted_least(text, read.start..end, quote, left - 1, dead));
    if found.is_none() {
        dead[read.len()] |= 1 << left;
    }
    found
}

fn value(text: &str, at: usize, quote: Option<&str>, least: usize) -> Option<Match> {
    let end = match quote {
        Some(quote) => quoted(text, at, quote, least),
        None => bare(text, at, least, MOST),
    };
    end.map(|end| Match { is_quoted: quote.is_some(), ..Match::of(at..end) })
}

/// A password as a command is given it.
pub(super) fn argument(text: &str, at: usize) -> Option<Match> {
    maybe_quoted(text, at).find_map(|(at, quote)| value(text, at, quote, PASSWORD))
}

/// The value, of at least this many characters, of a name that ends at `at`.
fn assigned(text: &str, at: usize, least: usize) -> Option<Match> {
    apart(text, at, least).or_else(|| values(text, at).find_map(|(at, quote)| value(text, at, quote, least)))
}

/// Names of passwords in ten languages. Those that are not ASCII also as JSON writes them.
macro_rules! password {
    ($more:literal) => {
        concat!(
            r"(?i:(?:password|passwd|passphrase|passcode|passwort|kennwort|contrasena|senha|wachtwoord|haslo|heslo",
            r"|parola|motdepasse|mot de passe|contraseña|hasło|şifre|lösenord|пароль|密码|密碼|口令|パスワード",
            r"|비밀번호|סיסמה|סיסמא|كلمة المرور",
            r"|contrase\\{1,7}u00f1a|has\\{1,7}u0142o|\\{1,7}u015fifre|l\\{1,7}u00f6senord",
            r"|\\{1,7}u043f\\{1,7}u0430\\{1,7}u0440\\{1,7}u043e\\{1,7}u043b\\{1,7}u044c",
            r"|\\{1,7}u041f\\{1,7}u0430\\{1,7}u0440\\{1,7}u043e\\{1,7}u043b\\{1,7}u044c",
            r"|\\{1,7}u041f\\{1,7}u0410\\{1,7}u0420\\{1,7}u041e\\{1,7}u041b\\{1,7}u042c",
            r"|\\{1,7}u5bc6\\{1,7}u7801|\\{1,7}u5bc6\\{1,7}u78bc|\\{1,7}u53e3\\{1,7}u4ee4",
            r"|\\{1,7}u30d1\\{1,7}u30b9\\{1,7}u30ef\\{1,7}u30fc\\{1,7}u30c9",
            r"|\\{1,7}ube44\\{1,7}ubc00\\{1,7}ubc88\\{1,7}ud638",
            r"|\\{1,7}u05e1\\{1,7}u05d9\\{1,7}u05e1\\{1,7}u05de\\{1,7}u05d4",
            r"|\\{1,7}u05e1\\{1,7}u05d9\\{1,7}u05e1\\{1,7}u05de\\{1,7}u05d0",
            r"|\\{1,7}u0643\\{1,7}u0644\\{1,7}u0645\\{1,7}u0629",
            r" \\{1,7}u0627\\{1,7}u0644\\{1,7}u0645\\{1,7}u0631\\{1,7}u0648\\{1,7}u0631",
            r")s?[_-]?\d{0,2})",
            $more
        )
    };
}

/// The beginnings of such names.
pub(super) const PASSWORD_LITERALS: &str = concat!(
    "password|passwd|passphrase|passcode|passwort|kennwort|contrasena|senha|wachtwoord|haslo|heslo|parola|motdepasse",
    "|mot de passe|contraseña|hasło|şifre|lösenord|пароль|Пароль|ПАРОЛЬ|密码|密碼|口令|パスワード|비밀번호|סיסמה|סיסמא",
    "|كلمة المرور|contrase|pwd|identified ",
    r"|has\|l\|\u015f|\u043f|\u041f|\u5bc6|\u53e3|\u30d1|\ube44|\u05e1|\u0643"
);

/// `password = ...`, and SQL's `PASSWORD '...'` and `IDENTIFIED BY '...'`
pub(super) fn password(text: &str, at: usize) -> Option<Match> {
    static NAME: Pattern = Pattern::new(password!(r"|(?i:pwd)\d{0,2}"));
    static IDENTIFIED: Pattern =
        Pattern::new(r"(?i:identified[ \t]{1,4}(?:with[ \t]{1,4}[a-z0-9_'\x22]{1,40}[ \t]{1,4})?by)");
    let in_quotes = |name| {
        let begin = some(text, name, 1..=4, is_blank)?;
        let end = quote(text, begin)?;
        let found = value(text, end, Some(&text[begin..end]), PASSWORD)?;
        literal(text, found.end, &text[begin..end]).map(|_| found)
    };
    match NAME.end(text, at) {
        Some(name) => assigned(text, name, PASSWORD).or_else(|| in_quotes(name)),
        None => in_quotes(IDENTIFIED.end(text, at)?),
    }
}

/// `pass = ...`, where `pass` is a word or the end of one, and not of `compass`.
pub(super) fn weak_password(text: &str, at: usize) -> Option<Match> {
    let before = &text[..at];
    let ends_with = |first: &str, second: &str| {
        let mut chars = before.chars().rev();
        chars.next().is_some_and(|char| second.contains(char)) && chars.next().is_some_and(|char| first.contains(char))
    };
    let last = char_before(text, at);
    let is_word_begin = || {
        last.is_none_or(|char| !char.is_ascii_alphabetic())
            || ends_with("0123456789[;", "mK")
            || ends_with("\\", "nrt")
            || ends_with("3", "Dd")
    };
    let is_name = match text.as_bytes().get(at..at + 4)? {
        b"PASS" => true,
        b"Pass" => last.is_some_and(|char| char.is_ascii_lowercase()) || is_word_begin(),
        b"pass" => is_word_begin(),
        _ => false,
    };
    if !is_name {
        return None;
    }
    static NUMBER: Pattern = Pattern::new(r"\d{0,2}");
    assigned(text, NUMBER.end(text, at + 4)?, PASSWORD)
}

/// `api_key = ...` and the like.
pub(super) fn secret(text: &str, at: usize) -> Option<Match> {
    static NAME: Pattern = Pattern::new(concat!(
        "(?i:secret(?:[_-]?key|[_-]?base)?|token|credentials?|[_-]pat|signature|key-data",
        "|(?:api|access|auth|account|private|encryption|signing|session|master|service|client)[_-]?key)"
    ));
    let is_at =
        |at: usize, name: &str| text.get(at..at + name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
    let last = char_before(text, at);
    let is_page = |end: usize| end >= 4 && is_at(end - 4, "page");
    let is_of_page = || is_page(at) || last.is_some_and(|char| matches!(char, '_' | '-')) && is_page(at - 1);
    let is_parameter = || last.is_some_and(|char| matches!(char, '?' | '&' | ';' | '-'));
    if is_at(at, "token") && is_of_page() || is_at(at, "signature") && !is_parameter() {
        return None;
    }
    assigned(text, NAME.end(text, at)?, 12)
}

/// The forty characters of `aws_secret_access_key = ...`.
pub(super) fn aws_secret_key(text: &str, at: usize) -> Option<Match> {
    static NAME: Pattern = Pattern::new("(?i:secret_?(?:access_?)?key|aws_?secret)");
    let is_key = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '+');
    values(text, NAME.end(text, at)?).find_map(|(at, quote)| {
        let end = some(text, at, 40..=40, is_key)?;
        let goes_on = char_at(text, end).is_some_and(|char| is_key(char) || char == '=');
        (!goes_on).then(|| Match { is_quoted: quote.is_some(), ..Match::of(at..end) })
    })
}

/// `Authorization: Bearer ...`
pub(super) fn authorization(text: &str, at: usize) -> Option<Match> {
    static TOKEN: Pattern = Pattern::new(concat!(
        r"(?:(?<scheme>(?i:basic|bearer|token|digest|negotiate|apikey))[ \t]{1,4})?",
        r"(?<secret>[A-Za-z0-9._~+/\-]{8,}={0,2})"
    ));
    static NAME: Pattern = Pattern::new("(?i:authorization)");
    values(text, NAME.end(text, at)?)
        .find_map(|(at, quote)| TOKEN.at(text, at).map(|found| Match { is_quoted: quote.is_some(), ..found }))
}

/// `DB_PASSWORD=...` up to white space, with any characters.
pub(super) fn password_variable(text: &str, at: usize) -> Option<Match> {
    let names = ["PASSWORD=", "PASSWD=", "PASSPHRASE="].iter().find_map(|name| literal(text, at, name));
    let short = || {
        char_before(text, at).filter(|&char| char == '_')?;
        ["PASS=", "PWD="].iter().find_map(|name| literal(text, at, name))
    };
    let at = names.or_else(short)?;
    let step = |at| match char_at(text, at)? {
        '\\' if is_bare(text, at) => Some(at + 1),
        '\\' => None,
        _ => one(text, at, |char| !is_space(char) && !"\"'`\x1b".contains(char)),
    };
    let ends = repeats(at, 256, step);
    (ends.len() > PASSWORD).then(|| Match::of(at..ends[0]))
}

/// `the password is ...`
pub(super) fn password_in_words(text: &str, at: usize) -> Option<Match> {
    static WORDS: Pattern = Pattern::new(password!(r"[ \t]{1,4}(?:is|was|ist|lautet|es|est|è|é|to|это):?[ \t]{1,4}"));
    maybe_quoted(text, WORDS.end(text, at)?).find_map(|(at, quote)| {
        let end = bare(text, at, PASSWORD, 256)?;
        Some(Match { is_quoted: quote.is_some(), ..Match::of(at..end) })
    })
}

/// The pairs of a cookie.
pub(super) fn cookie(text: &str, at: usize) -> Option<Match> {
    static NAME: Pattern = Pattern::new("(?i:cookies?)«quote»?«gap»[:=]«gap»«quote»?");
    let begin = NAME.end(text, at)?;
    let name = |at| some(text, at, 1..=64, |char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-'));
    let set = |at| {
        let at = literal(text, at, "=")?;
        some(text, at, 0..=1024, |char| !is_space(char) && !"\"'\\\x1b;".contains(char))
    };
    let next = |at| {
        let at = literal(text, at, ";")?;
        let end = name(literal(text, at, " ").unwrap_or(at))?;
        Some(set(end).unwrap_or(end))
    };
    Some(Match::of(begin..repeated(set(name(begin)?)?, 40, next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(read: fn(&str, usize) -> Option<Match>, text: &str) -> Option<&str> {
        let places = text.char_indices().map(|(at, _)| at);
        places.filter_map(|at| read(text, at)).map(|found| &text[found.value]).next()
    }

    #[test]
    fn what_may_be_read_in_several_ways_is_read_as_a_backtracking_pattern_reads_it() {
        for (text, value) in [
            ("password:=hunter22", Some("hunter22")),
            ("password:=abcd1", Some("=abcd1")),
            ("password==>ab1c", Some("=>ab1c")),
            ("password=b'hunter22'", Some("hunter22")),
            ("password = bfr123456", Some("bfr123456")),
            ("password=\x1b[32mhunter22\x1b[0m", Some("hunter22")),
            (r"password=\e[31mabc", Some(r"\e[31mabc")),
            (r#""password": "\u001b[32mab1""#, Some(r"\u001b[32mab1")),
            ("password%3Dhunter22", Some("hunter22")),
            ("密码：hunter22", Some("hunter22")),
            (r"contrase\u00f1a: hunter22", Some("hunter22")),
            (r"\u043f\u0430\u0440\u043e\u043b\u044c: hunter22", Some("hunter22")),
            ("- name: DB_PASSWORD\n  value: hunter22", Some("hunter22")),
            ("     1→name: PASSWORD\n     2→value: hunter22", Some("hunter22")),
            ("password      =             hunter22", None),
        ] {
            assert_eq!(value_of(password, text), value, "{text}");
        }
    }

    #[test]
    fn a_value_that_is_apart_from_its_name_is_in_quotes_or_a_block() {
        for (text, value) in [
            ("password: &'static str = 'hunter22'", Some("hunter22")),
            ("password: a, b='hunter22'", None),
            ("password: a == 'hunter22'", None),
            ("password: |\n  hunter22", Some("hunter22")),
            ("password=|\n  hunter22", None),
            ("password = (\n1→'hunter22'", Some("hunter22")),
            ("password\n'hunter22'", None),
            ("password = {'hunter22': 1}", None),
            (r#"password = \"\"\"hunter22\"\"\""#, Some("hunter22")),
            ("ENCRYPTED PASSWORD 'hunter22'", Some("hunter22")),
            ("a password 'hunter22", None),
        ] {
            assert_eq!(value_of(password, text), value, "{text}");
        }
    }

    #[test]
    fn a_value_goes_up_to_the_same_quotes_or_to_the_next_name() {
        for (text, value) in [
            (r#"password="a\"b\"c1""#, Some(r#"a\"b\"c1"#)),
            (r#"{\"password\": \"hunter 22\"}"#, Some("hunter 22")),
            (r#"password="correct horse 9 battery""#, Some("correct horse 9 battery")),
            // Too short in pairs: some are read as two characters.
            (r#"password="\\\\\\" 9"#, Some(r#"\\\\\\" 9"#)),
            (r#"password="abc" 1234567"#, None),
            ("password=abc;12def(g)", Some("abc;12def(g")),
            ("password=abc123;user=1def22", Some("abc123")),
            ("password=abc123<b>def", Some("abc123")),
            ("password=abc1<3def", Some("abc1<3def")),
            (r"password=abc123\nmore", Some("abc123")),
        ] {
            assert_eq!(value_of(password, text), value, "{text}");
        }
        assert_eq!(value_of(password, &format!("password='{}'", "a".repeat(600))).map(str::len), Some(MOST));
    }

    #[test]
    fn names_with_other_meanings_are_left() {
        assert_eq!(value_of(weak_password, "compass: Hunter22"), None);
        assert_eq!(value_of(weak_password, r"\npass: Hunter22"), Some("Hunter22"));
        assert_eq!(value_of(weak_password, "dbPass: Hunter22"), Some("Hunter22"));
        assert_eq!(value_of(secret, "next_page_token=aB3dE5gH7jK9"), None);
        assert_eq!(value_of(secret, "my_token=aB3dE5gH7jK9"), Some("aB3dE5gH7jK9"));
        assert_eq!(value_of(secret, "signature=aB3dE5gH7jK9"), None);
        assert_eq!(value_of(secret, "?signature=aB3dE5gH7jK9"), Some("aB3dE5gH7jK9"));
    }
}
