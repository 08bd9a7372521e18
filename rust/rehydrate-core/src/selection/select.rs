//! Selection: score every message, pack the units, make sure that the first survivor may lead.
use crate::conversation::message_parts::MessageParts;
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::PieceKind;
use crate::error::{Error, Result};
use crate::packing::first_turn_repair;
use crate::packing::pack::{Blocks, Packing, Problem, pack_coverage_with_blocks, pack_greedy_with_blocks};
use crate::scoring::coverage::Features;
use crate::scoring::objective::{names_of_query, on_one_scale, worth_of_names};
use crate::scoring::rank_fusion::rerank_count;
use crate::scoring::relevance::{AnalysedQuery, USUAL_SEMANTIC_WEIGHT};
use crate::scoring::request::{PackMode, Request, SignalMode, Vectors};
use crate::scoring::signals::{NEUTRAL_SIMILARITY, Signals, Weights, clamp_coverage};
use crate::selection::outcome::Selection;

/// The largest share of the budget that the reply may take whole.
const REPLY_SHARE: f64 = 0.05;

impl Prepared {
    /// Score every message, pack the units into `request.target_tokens`, and make the first survivor valid.
    ///
    /// # Errors
    /// [`Error::Argument`] when the request's columns do not fit the conversation.
    pub fn select(&self, request: &Request<'_>) -> Result<Selection> {
        self.verify(request)?;
        let system = self.system_units();
        let pinned = self.always_kept(&system);
        let candidate = self.candidates(&pinned);
        let measured = self.measure(request, &candidate);
        let recency = self.recency();
        let signals: Vec<Signals> = self
            .messages
            .iter()
            .enumerate()
            .map(|(i, message)| Signals {
                structural: message.structural,
                recency: recency[i],
                semantic: measured.similarity[i],
                coverage: request.memory_coverage.map_or(0.0, |coverage| clamp_coverage(coverage[i])),
                odds: measured.odds[i],
            })
            .collect();
        let part_scores: Vec<f64> = signals.iter().map(|signals| signals.score(&request.weights)).collect();

        let (unit_tokens, item_tokens) = (self.unit_tokens(), self.item_tokens());
        let (units, items) = (self.units.len(), item_tokens.len());
        let pinned_items = self.items_of(&pinned, &vec![false; units]);
        let pinned_tokens = (0..units).filter(|&u| pinned[u]).map(|u| u64::from(item_tokens[u])).sum();
        let blocks = self.parts.as_ref().map(MessageParts::for_packing).unwrap_or_default();
        let by_coverage = request.packing == PackMode::Coverage;
        let query_share = request.query_share(measured.standing_out);
        let (names, words) = request.query.filter(|_| query_share > 0.0).map(names_of_query).unwrap_or_default();
        let Features { of_item: features, weight, named } =
            if by_coverage { self.features(&signals, &names) } else { Features::none(items) };
        let score = match request.packing {
            PackMode::Greedy => self.item_scores(&part_scores),
            PackMode::Coverage if query_share > 0.0 => self.worth_to_query(&signals, &item_tokens, &pinned_items),
            PackMode::Coverage => vec![0.0; items],
        };
        let mut problem = Problem {
            token_cost: &item_tokens,
            score: &score,
            pinned: &pinned_items,
            features: &features,
            feature_weight: &weight,
            budget_tokens: request.target_tokens,
        };
        // These are kept before anything competes. If everything fits, that is everything.
        let mut first = pinned_items.clone();
        let left = request.target_tokens.saturating_sub(pinned_tokens);
        let mut laid_down = vec![0; items];
        if self.fits_whole(request.target_tokens) {
            first.fill(true);
        } else {
            let mut left = left;
            if let Some(reply) = request.reply.filter(|_| by_coverage) {
                left -= self.reserve_reply(reply, &problem, &blocks, left, &mut first);
            }
            if by_coverage && request.signals == SignalMode::Calibrated {
                laid_down = self.directive_strengths(items);
                // The query's share is not theirs.
                let left = (left as f64 * (1.0 - query_share)) as u64;
                self.reserve_laid_down(&laid_down, &problem, &blocks, left, &mut first);
            }
        }
        problem.pinned = &first;
        let scaled = by_coverage.then(|| {
            let scores = self.item_scores(&self.scores_beside_query(&signals, request));
            // Each name has its part of the query's share.
            let mut of_names = worth_of_names(&features, &named, &first);
            of_names.iter_mut().for_each(|worth| *worth /= words.max(1) as f64);
            on_one_scale(&problem, &blocks, query_share, scores, &of_names)
        });
        if let Some((score, weight)) = &scaled {
            (problem.score, problem.feature_weight) = (score, weight);
        }
        let packing = match request.packing {
            PackMode::Greedy => pack_greedy_with_blocks(&problem, &blocks),
            PackMode::Coverage => pack_coverage_with_blocks(&problem, &blocks),
        };
        let may_lead: Vec<bool> = self.units.iter().map(|unit| unit.may_lead).collect();
        let repair = |units: &Problem<'_>, packing: &mut Packing| {
            first_turn_repair::repair_first_turn(units, &self.system_alone(), &may_lead, packing)
        };
        let (packing, kept_blocks, leader) =
            self.resolve_units(&Problem { pinned: &pinned, ..problem }, packing, &first, repair);

        let has_directive = self.units_with_directives(&laid_down, &packing.kept, &kept_blocks);
        let is_kept = |item: usize| if item < units { packing.kept[item] } else { kept_blocks[item - units].kept };
        let unsaid = self.unsaid(&features, weight.len(), is_kept);
        let (message_signals, message_scores) = self.best_of_messages(signals, part_scores);
        let best_message = self.best_of_units(&message_scores);
        Ok(Selection {
            leader,
            has_directive,
            unsaid,
            query_share,
            pinned_tokens,
            embedding: measured.embedding,
            packing,
            blocks: kept_blocks,
            signals: message_signals,
            message_scores,
            best_message,
            unit_tokens,
        })
    }

    fn verify(&self, request: &Request<'_>) -> Result<()> {
        let messages = self.messages.len();
        let (needs, asked) = (&self.needs, request.query.is_some());
        let calibrated = request.signals == SignalMode::Calibrated;
        // If calibrated, the built-in model counts in addition to the caller's vectors.
        let by_texts = calibrated || request.vectors.is_none();
        let bags_missing = asked && by_texts && needs.model.is_some() && !(needs.bags || needs.vectors);
        let terms_missing = asked && calibrated && !needs.terms;
        if bags_missing || terms_missing || (request.packing == PackMode::Coverage && !needs.mentions) {
            return Err(Error::Argument("a request for what was not prepared; see Needs".into()));
        }
        if let Some(coverage) = request.memory_coverage
            && coverage.len() != messages
        {
            return Err(Error::Argument(format!("{} coverages for {messages} messages", coverage.len())));
        }
        if let Some(vectors) = request.vectors {
            let rows = vectors.positions.map_or(messages, <[usize]>::len);
            if vectors.messages.len() != rows * vectors.dim
                || vectors.query.is_some_and(|query| query.len() != vectors.dim)
                || vectors.positions.is_some_and(|positions| positions.iter().any(|&position| position >= messages))
            {
                return Err(Error::Argument(format!(
                    "{} vector components for {rows} of {messages} messages, {} dimensions",
                    vectors.messages.len(),
                    vectors.dim
                )));
            }
        }
        Ok(())
    }

    /// The relevance of each message to `query`, 1 for the best, and how far to trust it: the share of the query that
    /// the best message matches, 0 to 1. For the caller's `vectors` see [`Request`].
    ///
    /// # Errors
    /// [`Error::Argument`] when the vectors do not fit the conversation, or it was not prepared for a query.
    pub fn relevances(&self, query: &str, vectors: Option<Vectors<'_>>) -> Result<(Vec<f64>, f64)> {
        let request = Request {
            query: Some(query),
            query_weight: 1.0,
            vectors,
            memory_coverage: None,
            weights: Weights { recency: 0.0, semantic: USUAL_SEMANTIC_WEIGHT, novelty: 0.0 },
            signals: SignalMode::Calibrated,
            packing: PackMode::Greedy,
            asks: true,
            reply: None,
            target_tokens: 0,
        };
        self.verify(&request)?;
        let candidate = self.candidates(&self.always_kept(&self.system_units()));
        let found = self.calibrated(query, &request, &candidate);
        Ok((found.relevance, found.confidence))
    }

    /// The messages that an expensive model should be asked about: the best fifth of those that are not kept anyway,
    /// most relevant to `query` first by words and the built-in model.
    #[must_use]
    pub fn rank(&self, query: &str) -> Vec<usize> {
        let candidate = self.candidates(&self.always_kept(&self.system_units()));
        let query = AnalysedQuery::new(query, self.model());
        let relevance = self.relevance(&query, None, &candidate, USUAL_SEMANTIC_WEIGHT).relevance;
        let mut ranked: Vec<usize> = (0..candidate.len()).filter(|&message| candidate[message]).collect();
        ranked.sort_by(|&a, &b| relevance[b].total_cmp(&relevance[a]).then(b.cmp(&a)));
        ranked.truncate(rerank_count(ranked.len()));
        ranked
    }

    /// Per part its score, without its similarity to a query that counts separately.
    fn scores_beside_query(&self, signals: &[Signals], request: &Request<'_>) -> Vec<f64> {
        let plain = |s: &Signals| Signals { odds: 1.0, semantic: NEUTRAL_SIMILARITY, ..*s }.score(&request.weights);
        signals.iter().map(plain).collect()
    }

    /// Mark in `first` the reply that the user answers, if `left` tokens suffice: for a unit in blocks the last block
    /// of its text, for another the whole, if it takes little of the budget. Returns its tokens.
    fn reserve_reply(
        &self,
        reply: usize,
        problem: &Problem<'_>,
        blocks: &Blocks<'_>,
        left: u64,
        first: &mut [bool],
    ) -> u64 {
        let units = self.units.len();
        let said = |part: &usize| {
            let message = &self.messages[*part];
            message.unit == reply && message.pieces.clone().any(|piece| self.kinds[piece] == PieceKind::Text)
        };
        let last = (0..self.messages.len()).rev().find(said);
        let block =
            last.and_then(|part| self.parts.as_ref().and_then(|parts| parts.block[part])).map(|block| units + block);
        let unit = if first[reply] { 0 } else { i64::from(problem.token_cost[reply]) };
        let price = block.map_or(unit, |item| unit + blocks.cost(item, units, problem, first)).max(0).unsigned_abs();
        let is_little = block.is_some() || price as f64 <= REPLY_SHARE * problem.budget_tokens as f64;
        if !is_little || price > left {
            return 0;
        }
        first[reply] = true;
        if let Some(item) = block {
            first[item] = true;
        }
        price
    }

    /// Per unit, whether it is kept whatever it costs.
    fn always_kept(&self, system: &[bool]) -> Vec<bool> {
        self.units.iter().zip(system).map(|(unit, &system)| unit.pinned || system).collect()
    }

    /// Per message, or part of one, whether it has to compete. The blocks of a unit that is kept anyway do.
    fn candidates(&self, pinned: &[bool]) -> Vec<bool> {
        let parts = self.messages.iter().enumerate();
        parts.map(|(part, message)| !pinned[message.unit] || self.is_block(part)).collect()
    }

    /// Per unit, whether only the system speaks in it: it is outside the order of turns.
    fn system_alone(&self) -> Vec<bool> {
        let mut alone = vec![true; self.units.len()];
        for message in self.messages.iter().filter(|message| !message.is_system()) {
            alone[message.unit] = false;
        }
        alone
    }

    /// Per unit, whether it holds a system message.
    fn system_units(&self) -> Vec<bool> {
        let mut system = vec![false; self.units.len()];
        for message in self.messages.iter().filter(|message| message.is_system()) {
            system[message.unit] = true;
        }
        system
    }
}
