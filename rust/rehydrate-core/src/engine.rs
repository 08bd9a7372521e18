//! The facade: a conversation in, the same conversation with the analysis of its texts out. It only wires the parts.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use once_cell::race::OnceBox;

use crate::cache::ContentCache;
use crate::caps::{CachedShown, Options, Shown};
use crate::conversation::message_parts::{CachedDivision, DividedText, Excerpting, MessageParts, in_json};
use crate::conversation::prepared::Prepared;
use crate::conversation::text::{Needs, TextAnalysis, Wanted};
use crate::conversation::unit::{Conversation, Message, Piece, PieceKind};
use crate::embed::nearness::Nearness;
use crate::embed::{CachedVector, is_present, wordpiece};
use crate::error::Result;
use crate::excerpts::blocks::Division;
use crate::interrupt::{Pace, checkpoint, with_helper};
use crate::tokens::Counter;

/// Bytes of derived data a process keeps by default.
pub const DEFAULT_CACHE_BYTES: usize = 320 << 20;
static SHARED_CACHE_BYTES: AtomicUsize = AtomicUsize::new(DEFAULT_CACHE_BYTES);
/// The part of the cache for vectors of models other than the built-in one. The rest is for the analysis of texts.
const VECTORS_SHARE: usize = 5;
/// The part of the rest for the division of long texts: a few dozen bytes for each block.
const DIVISIONS_SHARE: usize = 8;
/// The part of the rest for the shown parts of long tool results.
const SHOWN_SHARE: usize = 16;

/// From this many bytes of new texts on a second thread helps: reading them takes twenty times as long as starting it.
const HELPED_BYTES: usize = 64 << 10;
/// The bytes that are hashed in the time of one step.
const HASHED_BYTES_A_STEP: usize = 64;

/// The number of threads that may compute at once. It is found out once, since that takes as long as a small
/// conversation.
fn cores() -> usize {
    static CORES: AtomicUsize = AtomicUsize::new(0);
    match CORES.load(Ordering::Relaxed) {
        0 => {
            let found = std::thread::available_parallelism().map_or(1, usize::from);
            CORES.store(found, Ordering::Relaxed);
            found
        }
        known => known,
    }
}

/// The state that outlives a call: the cache of derived values.
pub struct Engine {
    cache: ContentCache<TextAnalysis>,
    divisions: ContentCache<CachedDivision>,
    shown: ContentCache<CachedShown>,
    vectors: ContentCache<CachedVector>,
}

/// The bytes of each cache, by the bytes of all.
struct Shares {
    cache: usize,
    divisions: usize,
    shown: usize,
    vectors: usize,
}

impl Shares {
    fn of(cache_bytes: usize) -> Self {
        let vectors = cache_bytes / VECTORS_SHARE;
        let rest = cache_bytes - vectors;
        let (divisions, shown) = (rest / DIVISIONS_SHARE, rest / SHOWN_SHARE);
        Self { cache: rest - divisions - shown, divisions, shown, vectors }
    }
}

impl Engine {
    /// An engine whose cache holds about `cache_bytes`.
    #[must_use]
    pub fn new(cache_bytes: usize) -> Self {
        let shares = Shares::of(cache_bytes);
        Self {
            cache: ContentCache::new(shares.cache),
            divisions: ContentCache::new(shares.divisions),
            shown: ContentCache::new(shares.shown),
            vectors: ContentCache::new(shares.vectors),
        }
    }

    /// The engine that all callers of a process share. A forked child has one of its own, with an empty cache: a lock
    /// of the parent's cache may be held by a thread that the child does not have.
    #[must_use]
    pub fn shared() -> &'static Self {
        static FIRST: OnceBox<OfProcess> = OnceBox::new();
        let here = std::process::id();
        let mut slot = &FIRST;
        loop {
            let found = slot.get_or_init(|| {
                let (engine, of_child) = (Self::new(SHARED_CACHE_BYTES.load(Ordering::Relaxed)), OnceBox::new());
                Box::new(OfProcess { process: here, engine, of_child })
            });
            if found.process == here {
                return &found.engine;
            }
            slot = &found.of_child;
        }
    }

    /// Count and analyse every text of `conversation`. If the caller counts by its own measure, `counts` has the tokens
    /// of each piece, and `counter` is not asked.
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
        let wanted = Wanted { counter: counts.is_none().then_some(counter), needs, is_users: false };
        let said_by_users = conversation.said_by_users();
        let wanted_of = |at: usize| Wanted { is_users: said_by_users[at], ..wanted };
        let mut analyses = self.analyses(&conversation.pieces, wanted_of);
        self.read_newest(&mut analyses, &conversation.pieces, &wanted);
        let rounding = Rounding { counter, is_own: counts.is_some() };
        let raw_count = |index: usize| match counts {
            Some(counts) => counts[index],
            None => analyses[index].count(counter).unwrap_or_default(),
        };
        let tokens = |message: &Message| rounding.sum(message.pieces.clone().map(raw_count), message.media_tokens);
        Ok(Prepared {
            message_tokens: conversation.messages.iter().map(tokens).collect(),
            kinds: conversation.pieces.iter().map(|piece| piece.kind).collect(),
            analyses,
            messages: conversation.messages,
            units: conversation.units,
            needs,
            ..Prepared::default()
        })
    }

    /// The same, with the long texts that `excerpting` allows divided into blocks, which are kept one by one.
    ///
    /// # Errors
    /// As [`Engine::prepare`].
    pub fn prepare_with_excerpts(
        &self,
        conversation: Conversation<'_>,
        excerpting: &Excerpting<'_>,
        counter: Counter,
        counts: Option<&[u32]>,
        needs: Needs,
    ) -> Result<Prepared> {
        conversation.verify()?;
        excerpting.verify(&conversation)?;
        let rounding = Rounding { counter, is_own: counts.is_some() };
        let wanted = Wanted { counter: counts.is_none().then_some(counter), needs, is_users: false };
        let said_by_users = conversation.said_by_users();
        let counted_only = Wanted { needs: Needs::default(), ..wanted };
        let mut own_block_counts = excerpting.block_counts.into_iter().flatten().copied();
        let mut parts = MessageParts::default();
        let mut pieces: Vec<Piece<'_>> = Vec::with_capacity(conversation.pieces.len());
        let mut prepared = Prepared { units: conversation.units, needs, ..Prepared::default() };
        for (index, message) in conversation.messages.iter().enumerate() {
            let (mut whole, mut undivided, mut marks) = (Vec::new(), Vec::new(), 0_u32);
            let mut divided = Vec::new();
            let first_piece = pieces.len();
            for at in message.pieces.clone() {
                checkpoint();
                let piece = conversation.pieces[at];
                let wanted = Wanted { is_users: said_by_users[at], ..wanted };
                let may_divide = excerpting.divisible[at] && !message.is_system();
                let division = may_divide.then(|| self.division(piece)).flatten();
                let analysis = self.analysis(piece, if division.is_some() { &counted_only } else { &wanted });
                let of_counter = || match division {
                    Some(_) => self.count_in_place(piece, &analysis, counter),
                    None => analysis.count(counter).unwrap_or_default(),
                };
                let count = counts.map_or_else(of_counter, |counts| counts[at]);
                whole.push(count);
                if let Some(division) = division {
                    let mark_tokens = rounding.sum([excerpting.mark_count(&division)], 0);
                    marks = marks.saturating_add(mark_tokens);
                    parts.mark_tokens.push(mark_tokens);
                    divided.push((at, division));
                } else {
                    undivided.push(count);
                    prepared.analyses.push(analysis);
                    pieces.push(piece);
                }
            }
            prepared.message_tokens.push(rounding.sum(whole, message.media_tokens));
            parts.push_skeleton(index, rounding.sum(undivided, message.media_tokens).saturating_add(marks));
            prepared.messages.push(Message { pieces: first_piece..pieces.len(), ..message.clone() });
            for (at, division) in divided {
                let whole = conversation.pieces[at];
                let wanted = Wanted { is_users: said_by_users[at], ..wanted };
                parts.texts.push(DividedText { piece: at, division: Arc::clone(&division) });
                for (position, block) in division.blocks.iter().enumerate() {
                    checkpoint();
                    let piece = Piece { text: &whole.text[block.bytes.clone()], ..whole };
                    let analysis = self.analysis(piece, &wanted);
                    let count = own_block_counts.next();
                    let count = count.unwrap_or_else(|| self.count_in_place(piece, &analysis, counter));
                    parts.push_block(index, position, rounding.sum([count], 0));
                    let only = pieces.len()..pieces.len() + 1;
                    prepared.messages.push(Message { pieces: only, media_tokens: 0, ..message.clone() });
                    prepared.analyses.push(analysis);
                    pieces.push(piece);
                }
            }
        }
        self.read_newest(&mut prepared.analyses, &pieces, &wanted);
        prepared.kinds = pieces.iter().map(|piece| piece.kind).collect();
        prepared.parts = Some(parts.finish(&prepared.messages, prepared.units.len()));
        Ok(prepared)
    }

    /// If nothing is compared, read the newest text that says anything, which shows whether the model works.
    fn read_newest(&self, analyses: &mut [TextAnalysis], pieces: &[Piece<'_>], wanted: &Wanted) {
        let needs = wanted.needs;
        let Some(model) = needs.model.filter(|_| !needs.bags && !needs.vectors) else { return };
        let wanted = Wanted { needs: Needs { bags: true, ..needs }, ..*wanted };
        for (analysis, &piece) in analyses.iter_mut().zip(pieces).rev() {
            *analysis = self.analysis(piece, &wanted);
            if analysis.bag().is_some_and(|bag| is_present(&model.vector(bag.iter(), |_| 1.0))) {
                break;
            }
        }
    }

    /// Tokens of one text by itself.
    pub fn count(&self, text: &str, counter: Counter) -> u32 {
        let wanted = Wanted { counter: Some(counter), ..Wanted::default() };
        tokens_of(&self.analysis(Piece { text, kind: PieceKind::Text }, &wanted), counter)
    }

    /// Tokens of each text by itself. As in a conversation, a helper is worth its start only if many texts are new.
    pub fn counts(&self, texts: &[&str], counter: Counter) -> Vec<u32> {
        let wanted = Wanted { counter: Some(counter), ..Wanted::default() };
        let pieces: Vec<_> = texts.iter().map(|&text| Piece { text, kind: PieceKind::Text }).collect();
        self.analyses(&pieces, |_| wanted).iter().map(|analysis| tokens_of(analysis, counter)).collect()
    }

    /// The shown part of a capped text. None if the text fits whole. The text is UTF-8, as
    /// [`encoded`](crate::caps::encoded) writes it.
    pub fn cap(&self, text: &[u8], options: &Options<'_>) -> Option<Arc<Shown>> {
        let key = CachedShown::key(text, options);
        self.shown.get_or_grow(key, |_| true, |_| CachedShown::of(text, options)).0
    }

    /// The raw count of a divided text, or of a block of it. A text of a tool's input is a string inside JSON, and is
    /// counted as it is written there.
    fn count_in_place(&self, piece: Piece<'_>, analysis: &TextAnalysis, counter: Counter) -> u32 {
        if piece.kind != PieceKind::ToolInput {
            return analysis.count(counter).unwrap_or_default();
        }
        let written = Piece { text: &in_json(piece.text), ..piece };
        let wanted = Wanted { counter: Some(counter), ..Wanted::default() };
        self.analysis(written, &wanted).count(counter).unwrap_or_default()
    }

    /// Have the shared engine, and those of children forked later, hold about this many bytes.
    pub fn limit_shared(cache_bytes: usize) {
        SHARED_CACHE_BYTES.store(cache_bytes, Ordering::Relaxed);
        let (shared, mut set) = (Self::shared(), None);
        while set != Some(Self::shared_limit()) {
            let limit = Self::shared_limit(); // another thread's may be newer
            let shares = Shares::of(limit);
            shared.cache.set_capacity(shares.cache);
            shared.divisions.set_capacity(shares.divisions);
            shared.shown.set_capacity(shares.shown);
            shared.vectors.set_capacity(shares.vectors);
            set = Some(limit);
        }
    }

    /// The number of bytes held now.
    pub fn shared_limit() -> usize {
        SHARED_CACHE_BYTES.load(Ordering::Relaxed)
    }

    /// Forget everything derived from texts so far, with the words that this thread and the last helper know.
    pub fn clear_cache(&self) {
        self.cache.clear();
        self.divisions.clear();
        self.shown.clear();
        self.vectors.clear();
        Nearness::take_last();
        wordpiece::HANDED.forget();
        crate::tokens::HANDED.iter().for_each(|words| words.forget());
    }

    /// Bytes of derived data held, by the cache's account.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        let texts = self.cache.held_bytes() + self.divisions.held_bytes() + self.shown.held_bytes();
        texts + self.vectors.held_bytes()
    }

    /// The vector of a text in the space of a model, if it was kept.
    #[must_use]
    pub fn vector(&self, space: &[u8], text: &[u8]) -> Option<Arc<[f32]>> {
        self.vectors.find(CachedVector::key(space, text), |_| true).map(|found| found.0)
    }

    /// Keep the vector of a text. Zeros aren't a vector, and are not kept.
    pub fn keep_vector(&self, space: &[u8], text: &[u8], vector: &[f32]) {
        if vector.iter().any(|&x| x != 0.0) {
            let kept = CachedVector(vector.into());
            self.vectors.get_or_grow(CachedVector::key(space, text), |there| *there == kept, |_| kept.clone());
        }
    }

    /// The blocks of a text, if it is long enough to be divided.
    fn division(&self, piece: Piece<'_>) -> Option<Arc<Division>> {
        let divide = |_: Option<&CachedDivision>| CachedDivision::of(piece.text);
        self.divisions.get_or_grow(TextAnalysis::key(piece), |_| true, divide).0
    }

    /// The analyses of all these texts. Many new ones are read by two threads.
    fn analyses(&self, pieces: &[Piece<'_>], wanted_of: impl Fn(usize) -> Wanted + Sync) -> Vec<TextAnalysis> {
        let mut found = Vec::with_capacity(pieces.len());
        let (mut missing, mut missing_bytes) = (Vec::new(), 0);
        let mut pace = Pace::default();
        for (at, &piece) in pieces.iter().enumerate() {
            pace.step_by(1 + piece.text.len() / HASHED_BYTES_A_STEP);
            let wanted = wanted_of(at);
            let known = self.cache.find(TextAnalysis::key(piece), |text| text.suffices(&wanted));
            if known.is_none() {
                missing.push(at);
                missing_bytes += piece.text.len();
            }
            found.push(known);
        }
        let (next, read) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let read_some = || {
            let mut own = Vec::new();
            while let Some(&at) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                checkpoint();
                own.push((at, self.analysis(pieces[at], &wanted_of(at))));
            }
            read.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
        };
        if missing_bytes >= HELPED_BYTES && missing.len() > 1 && cores() > 1 {
            let here = std::thread::current().id();
            with_helper(|| {
                let _words = (std::thread::current().id() != here).then(HelperWords::take_over);
                read_some();
            });
        } else {
            read_some();
        }
        for (at, analysis) in read.into_inner().unwrap_or_else(PoisonError::into_inner) {
            found[at] = Some(analysis);
        }
        found.into_iter().map(|found| found.expect("each was known or is read now")).collect()
    }

    fn analysis(&self, piece: Piece<'_>, wanted: &Wanted) -> TextAnalysis {
        let suffices = |text: &TextAnalysis| text.suffices(wanted);
        self.cache.get_or_grow(TextAnalysis::key(piece), suffices, |so_far| TextAnalysis::derive(piece, wanted, so_far))
    }
}

/// Tokens of a text that was counted by `counter`.
fn tokens_of(analysis: &TextAnalysis, counter: Counter) -> u32 {
    counter.tokens_of(analysis.count(counter).unwrap_or_default())
}

/// Until it is dropped, this thread, a helper, has the words that the last helper read; then it leaves them to the next.
struct HelperWords;

impl HelperWords {
    fn take_over() -> Self {
        wordpiece::HANDED.take_over();
        crate::tokens::HANDED.iter().for_each(|words| words.take_over());
        Self
    }
}

impl Drop for HelperWords {
    fn drop(&mut self) {
        wordpiece::HANDED.leave();
        crate::tokens::HANDED.iter().for_each(|words| words.leave());
    }
}

/// The engine of a process. After a fork the child has its own. The inherited one stays as it is, unused.
struct OfProcess {
    process: u32,
    engine: Engine,
    of_child: OnceBox<OfProcess>,
}

/// The conversion of raw counts to tokens.
#[derive(Clone, Copy)]
struct Rounding {
    counter: Counter,
    /// Whether the counts are the caller's own, which are tokens already.
    is_own: bool,
}

impl Rounding {
    /// Tokens of texts that are counted together, and of their media.
    fn sum(self, raw_counts: impl IntoIterator<Item = u32>, media_tokens: u32) -> u32 {
        let raw = raw_counts.into_iter().fold(0_u32, u32::saturating_add);
        let tokens = if self.is_own { raw } else { self.counter.tokens_of(raw) };
        tokens.saturating_add(media_tokens)
    }
}
