//! The description of a function and of its parameters, read from a docstring in Google's style.
use crate::analysis::python_re;

/// A function's description, and that of each parameter that has one.
#[must_use]
pub fn described(docstring: &str) -> (String, Vec<(&str, String)>) {
    let lines: Vec<&str> = docstring.split('\n').collect();
    let first_heading = lines.iter().position(|line| is_heading(line)).unwrap_or(lines.len());
    let description = lines[..first_heading].join("\n").trim_matches(is_space).to_owned();
    let of_parameters = |line: &&str| ["Args:", "Arguments:", "Parameters:"].contains(&line.trim_end_matches(is_space));
    let section = lines.iter().skip_while(|line| !of_parameters(line)).skip(1).take_while(|line| !is_heading(line));
    let (mut found, mut at, mut indent): (Vec<(&str, Vec<&str>)>, usize, &str) = (Vec::new(), 0, "");
    for line in section {
        if let Some((outer, name, rest)) = parameter(line).filter(|(outer, ..)| indent.is_empty() || *outer == indent) {
            indent = outer;
            at = found.iter().position(|(known, _)| *known == name).unwrap_or(found.len());
            if at == found.len() {
                found.push((name, Vec::new()));
            }
            found[at].1 = vec![rest];
        } else if let Some((_, lines)) = found.get_mut(at) {
            lines.push(line);
        }
    }
    let words = |lines: &[&str]| {
        let text = lines.join(" ");
        text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let found = found.into_iter().map(|(name, lines)| (name, words(&lines)));
    (description, found.filter(|(_, text)| !text.is_empty()).collect())
}

/// Whether a line is one or two words and a colon, the first with a capital letter.
fn is_heading(line: &str) -> bool {
    let Some(words) = line.trim_end_matches(is_space).strip_suffix(':') else { return false };
    let (first, second) = words.split_once(' ').unwrap_or((words, "_"));
    let is_name = |word: &str| !word.is_empty() && word.chars().all(is_word);
    first.starts_with(|char: char| char.is_ascii_uppercase()) && is_name(first) && is_name(second)
}

/// The white space before a parameter, its name, and what is on the line after its colon.
fn parameter(line: &str) -> Option<(&str, &str, &str)> {
    let stars = line.trim_start_matches(is_space);
    let outer = &line[..line.len() - stars.len()];
    let named = stars.strip_prefix("**").or_else(|| stars.strip_prefix('*')).unwrap_or(stars);
    let rest = named.trim_start_matches(is_word);
    let name = &named[..named.len() - rest.len()];
    let rest = rest.trim_start_matches(is_space);
    let after_type = match rest.strip_prefix('(') {
        Some(of_type) => of_type.split_once(')')?.1,
        None => rest,
    };
    let said = after_type.strip_prefix(':')?;
    (!outer.is_empty() && !name.is_empty()).then_some((outer, name, said))
}

fn is_space(char: char) -> bool {
    python_re::is_space(u32::from(char))
}

fn is_word(char: char) -> bool {
    python_re::is_word(u32::from(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_what_is_after_their_colon_and_below_it() {
        let (description, of) =
            described("Adds.\n\nArgs:\n    a (int): One,\n        and b: only.\n    **b: Two.\n    c:\n");
        assert_eq!(description, "Adds.");
        assert_eq!(of, [("a", "One, and b: only.".to_owned()), ("b", "Two.".to_owned())]);
    }

    #[test]
    fn a_heading_ends_the_description_and_the_parameters() {
        let (description, of) = described("Adds.\n Note: x\nOther Things: \nArgs:\n\n  a: One\nReturns:\n  b: Two");
        assert_eq!(description, "Adds.\n Note: x");
        assert_eq!(of, [("a", "One".to_owned())]);
        assert_eq!(described("Args are: few"), ("Args are: few".to_owned(), vec![]));
    }
}
