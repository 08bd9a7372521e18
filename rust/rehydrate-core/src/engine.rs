//! The facade: a conversation in, the same conversation with everything known of its texts out. Wiring only.
use once_cell::race::OnceBox;

use crate::cache::{ContentCache, Held};
use crate::embed::is_present;
use crate::error::Result;
use crate::interrupt::checkpoint;
use crate::prepared::Prepared;
use crate::text::{Needs, TextAnalysis, Wanted};
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
        let counter_of_texts = counts.is_none().then_some(counter);
        let wanted = Wanted { counter: counter_of_texts, needs };
        let mut analyses = Vec::with_capacity(conversation.pieces.len());
        for &piece in &conversation.pieces {
            checkpoint();
            analyses.push(self.analysis(piece, &wanted));
        }
        if let Some(model) = needs.model.filter(|_| !needs.bags && !needs.vectors) {
            // The newest text that says anything shows whether the model works.
            let wanted = Wanted { needs: Needs { bags: true, ..needs }, ..wanted };
            for (analysis, &piece) in analyses.iter_mut().zip(&conversation.pieces).rev() {
                *analysis = self.analysis(piece, &wanted);
                if analysis.bag().is_some_and(|bag| is_present(&model.vector(bag.iter(), |_| 1.0))) {
                    break;
                }
            }
        }
        let raw_count = |index: usize| match counts {
            Some(counts) => counts[index],
            None => analyses[index].count(counter).unwrap_or_default(),
        };
        let tokens = |message: &Message| {
            let raw = message.pieces.clone().fold(0_u32, |sum, piece| sum.saturating_add(raw_count(piece)));
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
        let wanted = Wanted { counter: Some(counter), needs: Needs::default() };
        counter.tokens_of(self.analysis(piece, &wanted).count(counter).unwrap_or_default())
    }

    /// Forget everything derived from texts so far.
    pub fn clear_cache(&self) {
        self.cache.clear();
    }

    /// Bytes of derived data held, by the cache's account.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.cache.held_bytes()
    }

    /// Every lock of this engine, to be held across a fork: the child has but one thread, and a lock that another one
    /// held would stay locked in it for good.
    #[must_use]
    pub fn hold(&self) -> Held<'_, TextAnalysis> {
        self.cache.hold()
    }

    fn analysis(&self, piece: Piece<'_>, wanted: &Wanted) -> TextAnalysis {
        let suffices = |text: &TextAnalysis| text.suffices(wanted);
        self.cache.get_or_grow(TextAnalysis::key(piece), suffices, |so_far| TextAnalysis::derive(piece, wanted, so_far))
    }
}
