//! Names of models, as providers, gateways and routers spell them: the row of a table for a name, and its provider.
use once_cell::race::OnceBox;
use regex::Regex;

/// The most characters of a name. A longer one is unknown.
const LONGEST: usize = 256;

/// A pattern that is compiled at its first use.
struct Shape(&'static str, OnceBox<Regex>);

impl Shape {
    const fn new(source: &'static str) -> Self {
        Self(source, OnceBox::new())
    }

    fn get(&self) -> &Regex {
        self.1.get_or_init(|| Box::new(Regex::new(self.0).expect("it is written correctly")))
    }
}

/// The vendor, the region and the like before a model's name.
static VENDOR: Shape = Shape::new(r"^(.*/)?([\w-]+\.)*anthropic\.|^.*/");
/// A date, a revision or a variant may follow a model's name without making it another model.
static REVISION: Shape = Shape::new(concat!(
    r"^(-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|-latest|-v[0-9]+",
    r"|@[0-9A-Za-z_.-]+|:[0-9A-Za-z_.-]+|\[[0-9A-Za-z_.-]+\])*\z"
));
static BEDROCK: Shape = Shape::new(concat!(
    r"^(arn:aws[a-z-]{0,20}:bedrock:",
    r"|([a-z-]{1,20}\.)?(ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.)"
));
static MAKERS: [(Shape, &str); 3] = [
    (Shape::new(r"^claude-"), "anthropic"),
    (Shape::new(r"^gemini-"), "gemini"),
    (Shape::new(r"^(ft:)?(chatgpt|codex|gpt|o\d)\b"), "openai_chat"),
];

/// The name of a table that a model's name means, with or without vendor, date and revision: the longest match.
#[must_use]
pub fn known_name<'a>(model: &str, names: &[&'a str]) -> Option<&'a str> {
    if let Some(known) = names.iter().find(|&&name| name == model) {
        return Some(known);
    }
    if model.chars().count() > LONGEST {
        return None;
    }
    let lowered = model.to_lowercase();
    let name = VENDOR.get().replace(&lowered, "");
    let dashed = name.replace('.', "-"); // some gateways write claude-sonnet-4.5
    [&*name, dashed.as_str()].into_iter().find_map(|spelled| {
        let fits = |key: &&&str| spelled.strip_prefix(**key).is_some_and(|rest| REVISION.get().is_match(rest));
        let length = |key: &&str| key.chars().count();
        names.iter().filter(fits).copied().reduce(|best, key| if length(&key) > length(&best) { key } else { best })
    })
}

/// The provider that a model's name suggests. An id or an ARN of Bedrock means Converse.
#[must_use]
pub fn provider_of(model: &str) -> Option<&'static str> {
    let lowered = model.to_lowercase();
    if BEDROCK.get().is_match(&lowered) {
        return Some("bedrock");
    }
    // A router names the maker before it.
    let is_by = |shape: &Shape| lowered.split('/').any(|part| shape.get().is_match(part));
    MAKERS.iter().find(|(shape, _)| is_by(shape)).map(|(_, provider)| *provider)
}

#[cfg(test)]
mod tests {
    use super::{known_name, provider_of};

    #[test]
    fn a_name_is_known_with_vendor_date_and_revision() {
        let names = ["claude-opus-4", "claude-opus-4-5", "claude-sonnet-4-5"];
        let profile = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/";
        let arn = format!("{profile}us.anthropic.claude-opus-4-5-20251101-v1:0");
        assert_eq!(known_name("us.anthropic.claude-opus-4-5-20251101-v1:0", &names), Some("claude-opus-4-5"));
        assert_eq!(known_name(&arn, &names), Some("claude-opus-4-5"));
        assert_eq!(known_name("anthropic/claude-sonnet-4.5", &names), Some("claude-sonnet-4-5"));
        assert_eq!(known_name("claude-opus-4-5-20251101-thinking", &names), None);
        assert_eq!(known_name(&"x".repeat(300), &names), None);
    }

    #[test]
    fn a_name_suggests_its_provider() {
        for (name, provider) in [
            ("gpt-5.1", Some("openai_chat")),
            ("ft:gpt-4o:me", Some("openai_chat")),
            ("openrouter/anthropic/claude-opus-5", Some("anthropic")),
            ("us.anthropic.claude-opus-4-6-v1", Some("bedrock")),
            ("models/gemini-3-pro", Some("gemini")),
            ("my-7b", None),
        ] {
            assert_eq!(provider_of(name), provider, "{name}");
        }
    }
}
