//! temporary
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter { Words, Chars, O200kBase, Cl100kBase }
impl Counter {
    pub fn from_name(n: &str) -> Option<Self> { Some(match n { "words" => Self::Words, "chars" => Self::Chars, "o200k_base" => Self::O200kBase, "cl100k_base" => Self::Cl100kBase, _ => return None }) }
    pub fn raw_count(self, t: &str) -> u32 { (match self { Self::Words => t.split_whitespace().count(), Self::Chars => t.chars().count(), Self::O200kBase => bpe_openai::o200k_base().count(t), Self::Cl100kBase => bpe_openai::cl100k_base().count(t) }) as u32 }
    pub fn tokens_of(self, n: u32) -> u32 { match self { Self::Words => (13 * n).div_ceil(10), Self::Chars => (2 * n).div_ceil(7), _ => n } }
}
