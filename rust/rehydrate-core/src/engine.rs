//! The facade: a conversation in, the same conversation with everything known of its texts out. Wiring only.
use std::sync::{Arc, OnceLock};

use crate::cache::ContentCache;
use crate::error::Result;
use crate::parts::{DividedText, Excerpting, Parts};
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
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(|| Self::new(DEFAULT_CACHE_BYTES))
    }

    /// Count and analyse every text of `conversation`. `counts`, where the caller counts by a measure of its own, has the
    /// tokens of each piece and `counter` is not asked. `interrupted` is asked between texts and stops the work by
    /// returning an error.
    ///
    /// # Errors
    /// Columns that do not fit each other, or what `interrupted` returned.
    pub fn prepare(
        &self,
        conversation: Conversation<'_>,
        counter: Counter,
        counts: Option<&[u32]>,
        needs: Needs,
        mut interrupted: impl FnMut() -> Result<()>,
    ) -> Result<Prepared> {
        conversation.verify()?;
        let mut analyses = Vec::with_capacity(conversation.pieces.len());
        let mut raw_counts = Vec::with_capacity(conversation.pieces.len());
        for (index, &piece) in conversation.pieces.iter().enumerate() {
            interrupted()?;
            let analysis = self.analysis(piece);
            raw_counts.push(counts.map_or_else(|| analysis.count(piece, counter), |counts| counts[index]));
            analysis.fill(piece, needs);
            analyses.push(analysis);
        }
        let rounding = Rounding { counter, is_own: counts.is_some() };
        let tokens = |message: &Message| rounding.sum(&raw_counts[message.pieces.clone()], message.media_tokens);
        Ok(Prepared {
            message_tokens: conversation.messages.iter().map(tokens).collect(),
            kinds: conversation.pieces.iter().map(|piece| piece.kind).collect(),
            analyses,
            messages: conversation.messages,
            units: conversation.units,
            needs,
            parts: None,
        })
    }

    /// The same, with the long texts that `excerpting` allows divided into blocks that may be kept one by one.
    ///
    /// # Errors
    /// As [`Engine::prepare`].
    pub fn prepare_in_parts(
        &self,
        conversation: Conversation<'_>,
        excerpting: &Excerpting<'_>,
        counter: Counter,
        counts: Option<&[u32]>,
        needs: Needs,
        mut interrupted: impl FnMut() -> Result<()>,
    ) -> Result<Prepared> {
        conversation.verify()?;
        excerpting.verify(&conversation)?;
        let rounding = Rounding { counter, is_own: counts.is_some() };
        let mut own_block_counts = excerpting.block_counts.into_iter().flatten().copied();
        let mut parts = Parts::default();
        let mut prepared = Prepared { units: conversation.units, needs, ..Prepared::default() };
        for (index, message) in conversation.messages.iter().enumerate() {
            let is_pinned = prepared.units[message.unit].pinned || message.is_system();
            let (mut whole, mut undivided, mut marks) = (Vec::new(), Vec::new(), 0_u32);
            let mut blocks = Vec::new();
            let first_piece = prepared.kinds.len();
            for at in message.pieces.clone() {
                interrupted()?;
                let piece = conversation.pieces[at];
                let analysis = self.analysis(piece);
                whole.push(counts.map_or_else(|| analysis.count(piece, counter), |counts| counts[at]));
                let may_divide = excerpting.divisible[at] && !is_pinned;
                if let Some(division) = may_divide.then(|| analysis.division(piece.text)).flatten() {
                    let mark_tokens = rounding.sum(&[excerpting.mark_count(&division)], 0);
                    marks = marks.saturating_add(mark_tokens);
                    parts.mark_tokens.push(mark_tokens);
                    blocks.push((at, division));
                    continue;
                }
                undivided.extend(whole.last());
                analysis.fill(piece, needs);
                prepared.analyses.push(analysis);
                prepared.kinds.push(piece.kind);
            }
            prepared.message_tokens.push(rounding.sum(&whole, message.media_tokens));
            parts.push_skeleton(index, rounding.sum(&undivided, message.media_tokens).saturating_add(marks));
            prepared.messages.push(Message { pieces: first_piece..prepared.kinds.len(), ..message.clone() });
            for (at, division) in blocks {
                let piece = conversation.pieces[at];
                parts.texts.push(DividedText { piece: at, division: Arc::clone(&division) });
                for (place, block) in division.blocks.iter().enumerate() {
                    interrupted()?;
                    let piece = Piece { text: &piece.text[block.bytes.clone()], ..piece };
                    let analysis = self.analysis(piece);
                    let count = own_block_counts.next();
                    let count = count.unwrap_or_else(|| analysis.count(piece, counter));
                    analysis.fill(piece, needs);
                    parts.push_block(index, place, rounding.sum(&[count], 0));
                    let next = prepared.kinds.len();
                    prepared.messages.push(Message { pieces: next..next + 1, media_tokens: 0, ..message.clone() });
                    prepared.analyses.push(analysis);
                    prepared.kinds.push(piece.kind);
                }
            }
        }
        prepared.parts = Some(parts.finish(&prepared.messages, prepared.units.len()));
        Ok(prepared)
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

    fn analysis(&self, piece: Piece<'_>) -> Arc<TextAnalysis> {
        let cost_bytes = TextAnalysis::cost_bytes(piece.text);
        self.cache.get_or_insert_with(TextAnalysis::key(piece), cost_bytes, TextAnalysis::default)
    }
}

/// How raw counts become tokens.
#[derive(Clone, Copy)]
struct Rounding {
    counter: Counter,
    /// Whether the counts are the caller's own, which are tokens already.
    is_own: bool,
}

impl Rounding {
    /// Tokens of texts that are counted together, and of the media beside them.
    fn sum(self, raw_counts: &[u32], media_tokens: u32) -> u32 {
        let raw = raw_counts.iter().fold(0_u32, |sum, &count| sum.saturating_add(count));
        let tokens = if self.is_own { raw } else { self.counter.tokens_of(raw) };
        tokens.saturating_add(media_tokens)
    }
}
