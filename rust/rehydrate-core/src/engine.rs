//! The facade: a conversation in, the same conversation with everything known of its texts out. Wiring only.
use std::sync::Arc;

use once_cell::race::OnceBox;

use crate::cache::{ContentCache, Held};
use crate::error::Result;
use crate::interrupt::checkpoint;
use crate::prepared::Prepared;
use crate::text::{Needs, TextAnalysis};
use crate::tokens::Counter;
use crate::unit::{Conversation, Message, Piece, PieceKind};

/// Bytes of derived data a process keeps unless told otherwise.
pub const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// Everything that outlives a call: the cache of what was derived from texts.
pub struct Engine {
    cache: ContentCache<TextAnalysis>,
}

impl Engine {
    /// An engine whose cache holds about `cache_bytes`.
    #[must_use]
    pub fn new(cache_bytes: usize) -> Self {
        Self { cache: ContentCache::new(cache_bytes) }
    }

    /// The engine that all callers of a process share.
    #[must_use]
    pub fn shared() -> &'static Self {
        static ENGINE: OnceBox<Engine> = OnceBox::new();
        ENGINE.get_or_init(|| Box::new(Self::new(DEFAULT_CACHE_BYTES)))
    }

    /// Count and analyse every text of `conversation`. `counts`, where the caller counts by a measure of its own, has the
    /// tokens of each piece and `counter` is not asked.
    ///
    /// # Errors
    /// Columns that do not fit each other.
    pub fn prepare(
        &self,
        conversation: Conversation<'_>,
        counter: Counter,
        counts: Option<&[u32]>,
        needs: Needs,
    ) -> Result<Prepared> {
        conversation.verify()?;
        let mut analyses = Vec::with_capacity(conversation.pieces.len());
        let mut raw_counts = Vec::with_capacity(conversation.pieces.len());
        for (index, &piece) in conversation.pieces.iter().enumerate() {
            checkpoint();
            let analysis = self.analysis(piece);
            raw_counts.push(counts.map_or_else(|| analysis.count(piece, counter), |counts| counts[index]));
            analysis.fill(piece, needs);
            analyses.push(analysis);
        }
        let tokens = |message: &Message| {
            let raw = raw_counts[message.pieces.clone()].iter().fold(0_u32, |sum, &count| sum.saturating_add(count));
            let tokens = if counts.is_some() { raw } else { counter.tokens_of(raw) };
            tokens.saturating_add(message.media_tokens)
        };
        Ok(Prepared {
            message_tokens: conversation.messages.iter().map(tokens).collect(),
            kinds: conversation.pieces.iter().map(|piece| piece.kind).collect(),
            analyses,
            messages: conversation.messages,
            units: conversation.units,
            needs,
        })
    }

    /// Tokens of one text by itself.
    pub fn count(&self, text: &str, counter: Counter) -> u32 {
        let piece = Piece { text, kind: PieceKind::Text };
        counter.tokens_of(self.analysis(piece).count(piece, counter))
    }

    /// Forget everything derived from texts so far.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Every lock of this engine, to be held across a fork: the child has but one thread, and a lock that another one
    /// held would stay locked in it for good.
    #[must_use]
    pub fn hold(&self) -> Held<'_> {
        self.cache.hold()
    }

    fn analysis(&self, piece: Piece<'_>) -> Arc<TextAnalysis> {
        let cost_bytes = TextAnalysis::cost_bytes(piece.text);
        self.cache.get_or_insert_with(TextAnalysis::key(piece), cost_bytes, TextAnalysis::default)
    }
}
