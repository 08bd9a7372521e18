//! Examples of losses: names that are used later, the last text that had each, and the first that uses it again.
use super::names::WantedNames;
use super::single_spaced;
use crate::analysis::python_re::is_alpha;

/// Characters shown on either side of a name.
const CONTEXT_CHARS: usize = 110;

/// A name that is lost.
pub struct Loss<'a> {
    pub name: &'a str,
    /// The last text that had it, with some of what is before and after it.
    pub index: usize,
    pub before: String,
    pub after: String,
    /// The number of later texts that use it, and the first of these around it.
    pub used: usize,
    pub used_in: String,
}

/// At most `most` of the lost names, the most used first, without names that contain each other. `texts` are those
/// before the cut, `ahead` those after it.
#[must_use]
pub fn losses<'a>(lost: &'a [String], texts: &[String], ahead: &[String], most: usize) -> Vec<Loss<'a>> {
    let mut uses: Vec<Vec<&str>> = vec![Vec::new(); lost.len()];
    let wanted = WantedNames::new(lost.to_vec());
    for text in ahead {
        wanted.found_in(text).into_iter().for_each(|number| uses[number].push(text));
    }
    let mut ranked = Vec::new();
    for (name, uses) in lost.iter().zip(uses) {
        if let Some(&first) = uses.first() {
            // Names with letters come first: a number says little to a reader.
            let is_number = !name.chars().any(|c| is_alpha(u32::from(c)));
            ranked.push((is_number, std::cmp::Reverse(uses.len()), name.as_str(), first));
        }
    }
    ranked.sort_unstable();
    let mut found: Vec<Loss<'a>> = Vec::new();
    for (_, uses, name, first) in ranked {
        let is_known = found.iter().any(|other| other.name.contains(name) || name.contains(other.name));
        if is_known || found.len() == most {
            continue;
        }
        let Some(index) = texts.iter().rposition(|text| text.contains(name)) else { continue };
        let (before, after) = context(&texts[index], name);
        let (before_use, after_use) = context(first, name);
        let used_in = format!("{before_use}{name}{after_use}");
        found.push(Loss { name, index, before, after, used: uses.0, used_in });
    }
    found
}

/// Some text before and after the last occurrence of a name.
fn context(text: &str, name: &str) -> (String, String) {
    let start = text.rfind(name).unwrap_or_default();
    let (head, tail) = (&text[..start], &text[start + name.len()..]);
    let begin = head.char_indices().rev().nth(CONTEXT_CHARS - 1).map_or(0, |(at, _)| at);
    let end = tail.char_indices().nth(CONTEXT_CHARS).map_or(tail.len(), |(at, _)| at);
    let (before, after) = (single_spaced(&head[begin..]), single_spaced(&tail[..end]));
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    (format!("{}{before}", cut(begin > 0)), format!("{after}{}", cut(end < tail.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_used_name_comes_first_and_one_that_holds_it_does_not_come() {
        let lost: Vec<String> = ["8443", "src/a.py", "a.py", "never/used.py"].map(String::from).into();
        let texts = ["read  src/a.py\nnow".to_owned(), format!("port 8443 {}", "x".repeat(200))];
        let ahead =
            ["edit src/a.py".to_owned(), "open 8443, src/a.py".to_owned(), "8443".to_owned(), "8443".to_owned()];
        let found = losses(&lost, &texts, &ahead, 8);
        assert_eq!(found.iter().map(|loss| loss.name).collect::<Vec<_>>(), ["a.py", "8443"]);
        assert_eq!((found[0].index, found[0].used), (0, 2));
        assert_eq!((found[0].before.as_str(), found[0].after.as_str()), ("read src/", " now"));
        assert_eq!(found[0].used_in, "edit src/a.py");
        assert_eq!(found[1].after, format!(" {}…", "x".repeat(109)));
        assert_eq!(losses(&lost, &texts, &ahead, 1).len(), 1);
    }
}
