//! Names of models, as providers, gateways and routers spell them: the row of a table for a name, its provider, and what
//! Bedrock does with it.
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

/// The makers of Bedrock's models, before the names of these.
macro_rules! makers {
    () => {
        "(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|writer|zai)"
    };
}

/// The vendor, the region and the like before a model's name.
static VENDOR: Shape = Shape::new(r"^(.*/)?([\w-]+\.)*(anthropic|openai)\.|^.*/");
/// A date, a revision or a variant may follow a model's name without making it another model.
static REVISION: Shape = Shape::new(concat!(
    r"^(-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2}|-latest|-v[0-9]+",
    r"|@[0-9A-Za-z_.-]+|:[0-9A-Za-z_.-]+|\[[0-9A-Za-z_.-]+\])*\z"
));
static BEDROCK: Shape = Shape::new(concat!(r"^(arn:aws[a-z-]{0,20}:bedrock:|([a-z-]{1,20}\.)?", makers!(), r"\.)"));
/// The region, the maker and the name of a model of Bedrock's, also at the end of an ARN.
static BY_MAKER: Shape = Shape::new(concat!(r"(?:^|/)(?:([a-z-]{1,20})\.)?", makers!(), r"\.([^/]*)\z"));
/// The Claudes that Bedrock caches nothing for.
static UNCACHED: Shape = Shape::new(r"^claude-(v2|instant|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)");
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
    let longest = |spelled: fn(&str) -> String| {
        let name = spelled(&name);
        let fits = |key: &&&str| {
            let rest = name.strip_prefix(&spelled(&key.to_lowercase()));
            rest.is_some_and(|rest| REVISION.get().is_match(rest))
        };
        let length = |key: &&str| key.chars().count();
        names.iter().filter(fits).copied().reduce(|best, key| if length(&key) > length(&best) { key } else { best })
    };
    // Some gateways write claude-sonnet-4.5, others gpt-5-6-sol.
    longest(str::to_owned).or_else(|| longest(|text| text.replace('.', "-")))
}

/// Where in a request a model takes the cache points of Converse's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePoints {
    Anywhere,
    /// After system texts and messages, but not after tools, or calls and their results.
    AfterTexts,
    Nowhere,
}

/// Where a model of Bedrock's takes cache points: a request with one elsewhere is refused (2026-09,
/// <https://github.com/BerriAI/litellm/pull/39210>; for Nova <https://github.com/LibreChat-AI/agents/pull/253>,
/// <https://github.com/aws-samples/bedrock-engineer/pull/71>). One whose name doesn't say the maker, as a profile's of
/// your own, may be a Claude.
#[must_use]
pub fn cache_points_of(model: &str) -> CachePoints {
    let lowered = model.to_lowercase();
    let Some(found) = BY_MAKER.get().captures(&lowered) else { return CachePoints::Anywhere };
    match (&found[2], &found[3]) {
        ("anthropic", name) if !UNCACHED.get().is_match(name) => CachePoints::Anywhere,
        ("amazon", name) if name.starts_with("nova") => CachePoints::AfterTexts,
        _ => CachePoints::Nowhere,
    }
}

/// Whether a model's name means one of Bedrock's in a region, or in a group of regions, and not anywhere.
#[must_use]
pub fn is_regional(model: &str) -> bool {
    let lowered = model.to_lowercase();
    let found = BY_MAKER.get().captures(&lowered);
    found.is_some_and(|found| found.get(1).is_none_or(|region| region.as_str() != "global"))
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
    use super::{CachePoints, cache_points_of, is_regional, known_name, provider_of};

    #[test]
    fn a_name_is_known_with_vendor_date_and_revision() {
        let names = ["claude-opus-4", "claude-opus-4-5", "claude-sonnet-4-5", "gpt-5.6-sol", "Qwen3-32B"];
        let profile = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/";
        let arn = format!("{profile}us.anthropic.claude-opus-4-5-20251101-v1:0");
        assert_eq!(known_name("us.anthropic.claude-opus-4-5-20251101-v1:0", &names), Some("claude-opus-4-5"));
        assert_eq!(known_name(&arn, &names), Some("claude-opus-4-5"));
        assert_eq!(known_name("anthropic/claude-sonnet-4.5", &names), Some("claude-sonnet-4-5"));
        for spelled in ["gpt-5-6-sol", "us.openai.gpt-5.6-sol", "openai/gpt-5.6-sol-2026-07-09"] {
            assert_eq!(known_name(spelled, &names), Some("gpt-5.6-sol"), "{spelled}");
        }
        assert_eq!(known_name("openrouter/qwen3-32b", &names), Some("Qwen3-32B"));
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
            ("moonshot.kimi-k2-thinking", Some("bedrock")),
            ("models/gemini-3-pro", Some("gemini")),
            ("my-7b", None),
        ] {
            assert_eq!(provider_of(name), provider, "{name}");
        }
    }

    #[test]
    fn a_name_says_where_bedrock_serves_and_caches_it() {
        let arn = "arn:aws:bedrock:us-east-1::foundation-model/";
        for (name, points, regional) in [
            ("us.anthropic.claude-opus-4-6-v1", CachePoints::Anywhere, true),
            ("global.anthropic.claude-opus-5", CachePoints::Anywhere, false),
            ("anthropic.claude-3-haiku-20240307-v1:0", CachePoints::Nowhere, true),
            ("us.amazon.nova-pro-v1:0", CachePoints::AfterTexts, true),
            ("qwen.qwen3-coder-next", CachePoints::Nowhere, true),
            (&format!("{arn}meta.llama3-70b-instruct-v1:0"), CachePoints::Nowhere, true),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/ab12", CachePoints::Anywhere, false),
            ("claude-opus-5", CachePoints::Anywhere, false),
            ("", CachePoints::Anywhere, false),
        ] {
            assert_eq!((cache_points_of(name), is_regional(name)), (points, regional), "{name}");
        }
    }
}
