//! Secrets in commands: options, and arguments that some programs take after a letter.
use std::iter::successors;

use super::assigned::argument;
use super::reading::{
    Match, Pattern, char_at, is_blank, is_space, is_word, literal, one, quote, repeated, some, space,
};

/// Characters between the name of a program and its option.
const MOST_BETWEEN: usize = 200;

/// `at` and the places after it in the same command, up to this many characters on.
fn onward(text: &str, at: usize, most: usize) -> impl Iterator<Item = usize> {
    let is_inside = |char| !matches!(char, '\n' | '\\' | '|' | ';' | '&');
    let next = move |&at: &usize| one(text, at, is_inside).or_else(|| quote(text, at));
    successors(Some(at), next).take(most + 1)
}

/// The end of the word, if one ends at `at`.
fn word(text: &str, at: usize) -> Option<usize> {
    (!char_at(text, at).is_some_and(is_word)).then_some(at)
}

/// The end of an option of one letter: of a command, or in a list of its arguments.
fn option(text: &str, at: usize, letters: &[&str]) -> Option<usize> {
    let dash = one(text, at, is_blank).or_else(|| quote(text, at))?;
    letters.iter().find_map(|letter| literal(text, dash, letter))
}

/// From an option to its value, if they are two of a list.
fn listed(text: &str, at: usize) -> Option<usize> {
    let comma = literal(text, quote(text, at)?, ",")?;
    let value = repeated(comma, 8, |at| space(text, at));
    quote(text, value).map(|_| value)
}

/// `--password ...`, `--api-token=...`
pub(super) fn command_option(text: &str, at: usize) -> Option<Match> {
    static NAME: Pattern = Pattern::new(
        "--(?:[a-z]{1,16}-){0,2}(?:pass(?:word|wd|phrase|code)?|token|secret|(?:api|access|auth)-?(?:key|token))",
    );
    let name = NAME.end(text, at)?;
    let set = literal(text, name, "=").or_else(|| some(text, name, 1..=4, is_blank)).or_else(|| listed(text, name))?;
    argument(text, set)
}

/// `mysql -u root -p...`
pub(super) fn command_password(text: &str, at: usize) -> Option<Match> {
    static LOGIN: Pattern =
        Pattern::new(r"(?:sshpass|docker|podman|registry|az|mysql\w*|mariadb\w*|mongo\w*|psql|sqlcmd|smbclient)");
    let login = word(text, LOGIN.end(text, at)?)?;
    onward(text, login, MOST_BETWEEN).find_map(|at| {
        let at = option(text, at, &["-p", "-P"])?;
        let separated = one(text, at, |char| is_blank(char) || char == '=').or_else(|| listed(text, at));
        let found = separated.and_then(|at| argument(text, at)).or_else(|| argument(text, at))?;
        (!is_of_ports(text[found.value.clone()].trim_start_matches('='))).then_some(found)
    })
}

/// Whether a value is a mapping of ports, for `docker run -p`.
fn is_of_ports(value: &str) -> bool {
    static PORTS: Pattern = Pattern::new(concat!(
        r"(?:(?:[0-9.]{7,15}|\[[0-9A-Fa-f:.]{2,45}\]|localhost):)?",
        r"(?:(?:[0-9]{1,5}(?:-[0-9]{1,5})?|\$\{?[A-Za-z_][A-Za-z0-9_]{0,40}\}?)?:)?",
        r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?|\$\{?[A-Za-z_][A-Za-z0-9_]{0,40}\}?)(?:/(?:tcp|udp|sctp))?$"
    ));
    value.contains([':', '/']) && PORTS.is_match(value)
}

/// `redis-cli -a ...`, `ldapsearch -w ...`, `-passin pass:...`, `smbclient -U user%...`, `htpasswd -b file user ...`
pub(super) fn command_secret(text: &str, at: usize) -> Option<Match> {
    static PASS: Pattern = Pattern::new(r"-pass(?:in|out)?[ \t]pass:");
    let blank = |at| one(text, at, is_blank);
    let after = |program: usize, letter: &'static str| {
        let values =
            onward(text, word(text, program)?, MOST_BETWEEN).filter_map(move |at| blank(option(text, at, &[letter])?));
        Some(values)
    };
    if let Some(end) = literal(text, at, "redis-cli") {
        after(end, "-a")?.find_map(|at| argument(text, at))
    } else if let Some(end) = literal(text, at, "ldap") {
        let end = some(text, end, 3..=12, |char| char.is_ascii_lowercase())?;
        after(end, "-w")?.find_map(|at| argument(text, at))
    } else if let Some(end) = literal(text, at, "smbclient") {
        after(end, "-U")?.find_map(|at| {
            let user = some(text, at, 1..=64, |char| !is_space(char) && char != '%')?;
            argument(text, literal(text, user, "%")?)
        })
    } else if let Some(end) = literal(text, at, "htpasswd") {
        // From the first to the last letter that may be the option. Each place is checked once.
        let letters =
            onward(text, word(text, end)?, 20).enumerate().filter(|&(_, at)| literal(text, at, "b").is_some());
        let letters: Vec<(usize, usize)> = letters.collect();
        let (&(first, begin), &(last, _)) = (letters.first()?, letters.last()?);
        onward(text, begin + 1, 100 + last - first).find_map(|at| {
            let user = some(text, blank(at)?, 1..=64, |char| is_word(char) || matches!(char, '.' | '-'))?;
            argument(text, blank(user)?)
        })
    } else {
        argument(text, PASS.end(text, at)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_no_passwords() {
        let password = |text: &'static str| command_password(text, 0).map(|found| &text[found.value]);
        for ports in [
            "docker run -p 127.0.0.1:8080:80 nginx",
            "docker run -p 3000:3000 -d node",
            "docker run -p=127.0.0.1::80/tcp nginx",
            "podman run -p [::1]:8000-8010:8000-8010/udp nginx",
            r#"docker run -p "$HOST_PORT:80" nginx"#,
            r#"docker", "run", "-p", "8080:${PORT}", "nginx"#,
        ] {
            assert_eq!(password(ports), None, "{ports}");
        }
        for (text, value) in [
            ("docker run -p 8080:80 mysql -pHunter22", "Hunter22"),
            ("docker login -u me -p 3000:3000x", "3000:3000x"),
            ("mysql -p $cr3t:pass/word", "$cr3t:pass/word"),
        ] {
            assert_eq!(password(text), Some(value), "{text}");
        }
    }
}
