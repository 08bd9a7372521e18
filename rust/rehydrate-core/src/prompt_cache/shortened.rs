//! Prompts as a provider's policy shortens them before it reads them.
use super::Segment;

/// Tokens of a summary that the provider writes.
pub const SUMMARY_TOKENS: i64 = 2_000;
/// Tokens of the text in place of a result that it left out.
const CLEARED_TOKENS: i64 = 10;

/// The rules by which a provider shortens a prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Tokens above which a summary takes the place of the conversation.
    pub compact_at: Option<i64>,
    /// Tokens above which the results of old tool calls are left out.
    pub clear_at: Option<i64>,
    /// The newest results that stay then.
    pub keep_results: usize,
    /// If fewer tokens could be left out, nothing is.
    pub clear_at_least: i64,
}

/// The prompts that a provider reads for one request.
#[derive(Debug)]
pub struct Sent<'a> {
    /// To write a summary, if it writes one.
    pub summarized: Option<Vec<Segment<'a>>>,
    /// To answer.
    pub answered: Vec<Segment<'a>>,
}

/// The prompts of one conversation, shortened.
#[derive(Debug)]
pub struct Shortened {
    policy: Policy,
    /// The digests of the messages that the summary is of.
    summarized: Vec<String>,
}

impl Shortened {
    /// A conversation that begins.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, summarized: Vec::new() }
    }

    /// The prompts that are read, for one in which the segments `results` are results of tool calls.
    pub fn sent<'a>(&mut self, mut segments: Vec<Segment<'a>>, results: &[usize]) -> Sent<'a> {
        self.clear(&mut segments, results);
        let Some(limit) = self.policy.compact_at else { return Sent { summarized: None, answered: segments } };
        let (head, mut messages): (Vec<_>, Vec<_>) = segments.into_iter().partition(|segment| !segment.is_message);
        let is_continued = self.summarized.len() <= messages.len()
            && self.summarized.iter().zip(&messages).all(|(digest, message)| *digest == message.digest);
        if !is_continued {
            self.summarized.clear(); // the client shortened it itself
        }
        let digests = messages.iter().map(|message| message.digest.clone().into_owned()).collect();
        let later = messages.split_off(self.summarized.len());
        let now: Vec<_> = head.iter().cloned().chain(self.summary()).chain(later).collect();
        if Segment::total(&now) <= limit {
            return Sent { summarized: None, answered: now };
        }
        self.summarized = digests;
        Sent { summarized: Some(now), answered: head.into_iter().chain(self.summary()).collect() }
    }

    fn summary<'a>(&self) -> Option<Segment<'a>> {
        let last = self.summarized.last()?;
        let digest = format!("summary of {} to {last}", self.summarized.len());
        Some(Segment { digest: digest.into(), tokens: SUMMARY_TOKENS, blocks: 1, marked: true, is_message: true })
    }

    /// Leave out the results of old calls.
    fn clear(&self, segments: &mut [Segment<'_>], results: &[usize]) {
        let old = &results[..results.len().saturating_sub(self.policy.keep_results)];
        let freed: i64 = old.iter().map(|&at| (segments[at].tokens - CLEARED_TOKENS).max(0)).sum();
        let is_due = self.policy.clear_at.is_some_and(|limit| Segment::total(segments) > limit);
        if !is_due || freed < self.policy.clear_at_least {
            return;
        }
        for &at in old {
            let was = &mut segments[at];
            was.tokens = was.tokens.min(CLEARED_TOKENS);
            was.digest = format!("cleared {}", was.digest).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(digest: &str, tokens: i64, is_message: bool) -> Segment<'_> {
        Segment { digest: digest.into(), tokens, blocks: 1, marked: false, is_message }
    }

    #[test]
    fn a_summary_takes_the_place_of_the_messages_until_the_client_shortens_them() {
        let mut prompts = Shortened::new(Policy { compact_at: Some(50_000), ..Policy::default() });
        let prompt = || vec![segment("rules", 1_000, false), segment("a", 30_000, true), segment("b", 30_000, true)];
        let first = prompts.sent(prompt(), &[]);
        assert_eq!(first.summarized.map(|read| Segment::total(&read)), Some(61_000));
        assert_eq!(Segment::total(&first.answered), 3_000);
        let mut longer = prompt();
        longer.push(segment("c", 500, true));
        let second = prompts.sent(longer, &[]);
        assert!(second.summarized.is_none());
        assert_eq!(Segment::total(&second.answered), 3_500);
        let other = prompts.sent(vec![segment("d", 700, true)], &[]);
        assert_eq!(Segment::total(&other.answered), 700);
    }

    #[test]
    fn results_of_old_calls_are_left_out_where_that_frees_enough() {
        let policy = Policy { clear_at: Some(5_000), keep_results: 1, clear_at_least: 2_000, ..Policy::default() };
        let prompt = || vec![segment("a", 3_000, true), segment("b", 3_000, true), segment("c", 3_000, true)];
        let sent = Shortened::new(policy).sent(prompt(), &[0, 2]);
        assert_eq!(Segment::total(&sent.answered), 6_010);
        let sent = Shortened::new(Policy { clear_at_least: 2_991, ..policy }).sent(prompt(), &[0, 2]);
        assert_eq!(Segment::total(&sent.answered), 9_000);
    }
}
