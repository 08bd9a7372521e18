//! Selection: score every message, pack the units, make sure that the first survivor may lead.
use crate::conversation::message_parts::MessageParts;
use crate::conversation::prepared::Prepared;
use crate::conversation::unit::PieceKind;
use crate::error::{Error, Result};
use crate::packing::first_turn_repair;
use crate::packing::pack::{Packing, Problem, pack_coverage_with_blocks, pack_greedy_with_blocks};
use crate::scoring::coverage::Features;
use crate::scoring::objective::{QUESTION_SHARE, on_one_scale};
use crate::scoring::rank_fusion::rerank_count;
use crate::scoring::relevance::{AnalysedQuery, USUAL_SEMANTIC_WEIGHT};
use crate::scoring::request::{PackMode, Request, SignalMode, Vectors};
use crate::scoring::signals::{Signals, Weights, clamp_coverage};
use crate::selection::outcome::Selection;
use crate::tune::tune;

/// The largest share of the budget that the reply may take whole.
const REPLY_SHARE: f64 = 0.05;

impl Prepared {
    /// Score every message, pack the units into `request.target_tokens`, and see to a valid first survivor.
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
        let units = self.units.len();
        let pinned_items = self.items_of(&pinned, &vec![false; units]);
        let blocks = self.parts.as_ref().map(MessageParts::for_packing).unwrap_or_default();
        let coverage = request.packing == PackMode::Coverage;
        let features = if coverage { self.features(&signals) } else { Features::none(item_tokens.len()) };
        let (mut query_share, mut scaled) = (0.0, Vec::new());
        let mut item_worth = match request.packing {
            PackMode::Greedy => self.item_scores(&part_scores),
            PackMode::Coverage if request.query.is_some() => {
                // A weight of 0 of the semantic signal switches the query off.
                let weight = request.query_weight * request.weights.semantic / USUAL_SEMANTIC_WEIGHT;
                let standing = measured.standing_out.unwrap_or(0.0).powf(tune("STAND", 0.0));
                let terms = if self.needs.terms { 1.0 } else { 0.0 };
                query_share = (tune("SHARE", QUESTION_SHARE) * weight * standing * terms).min(1.0);
                if query_share > 0.0 { self.worth_to_query(&signals, &request.weights, &item_tokens, &pinned_items) } else { vec![0.0; item_tokens.len()] }
            }
            PackMode::Coverage => vec![0.0; item_tokens.len()],
        };
        let feature_weight = features.weight;
        let problem = Problem {
            token_cost: &item_tokens,
            score: &[],
            pinned: &pinned,
            features: &features.of_item,
            feature_weight: &feature_weight,
            budget_tokens: request.target_tokens,
        };
        // What is kept before anything competes; where nothing needs to go, everything.
        let mut first = pinned_items;
        let directives = if coverage && request.signals == SignalMode::Calibrated {
            self.items_with_directives(item_tokens.len())
        } else {
            vec![false; item_tokens.len()]
        };
        if self.fits_whole(request.target_tokens) {
            first.fill(true);
        } else if coverage {
            if let Some(reply) = request.reply {
                self.reserve_reply(reply, &unit_tokens, request.target_tokens, &mut first);
            }
            if tune("LEAD", 0.0) > 0.0 {
                self.reserve_lead(&unit_tokens, (request.target_tokens as f64 * tune("LEAD", 0.0)) as u64, &mut first);
            }
            self.reserve_laid_down(&directives, &problem, &blocks, &mut first);
        }
        let pinned_tokens = (0..units).filter(|&u| pinned[u]).map(|u| u64::from(item_tokens[u])).sum();
        if coverage && query_share > 0.0 {
            let problem =
                Problem { score: &item_worth, feature_weight: &feature_weight, pinned: &first, ..problem };
            (item_worth, scaled) = on_one_scale(&problem, &blocks, query_share);
        }
        let feature_weight = if scaled.is_empty() { feature_weight } else { scaled };
        let problem = Problem {
            token_cost: &item_tokens,
            score: &item_worth,
            pinned: &first,
            features: &features.of_item,
            feature_weight: &feature_weight,
            budget_tokens: request.target_tokens,
        };
        let packing = match request.packing {
            PackMode::Greedy => pack_greedy_with_blocks(&problem, &blocks),
            PackMode::Coverage => pack_coverage_with_blocks(&problem, &blocks),
        };
        let may_lead: Vec<bool> = self.units.iter().map(|unit| unit.may_lead).collect();
        let repair = |units: &Problem<'_>, packing: &mut Packing| {
            first_turn_repair::repair_first_turn(units, &system, &may_lead, packing)
        };
        let (packing, kept_blocks, leader) =
            self.resolve_units(&Problem { pinned: &pinned, ..problem }, packing, repair);

        let has_directive = self.units_with_directives(&directives, &packing.kept, &kept_blocks);
        let worth = Features { of_item: features.of_item, weight: feature_weight }.worth_of_items(item_tokens.len());
        let (message_signals, message_scores) = self.best_of_messages(signals, part_scores);
        let best_message = self.best_of_units(&message_scores);
        Ok(Selection {
            leader,
            has_directive,
            feature_worth: self.units_of(&worth),
            unit_worth: self.units_of(&item_worth),
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
        // Without words a calibrated query is asked for its names alone.
        let names_only = calibrated && !needs.terms;
        // Calibrated, the built-in model has its say beside vectors of the caller's.
        let by_texts = if calibrated { !names_only } else { request.vectors.is_none() };
        let bags_missing = asked && by_texts && needs.model.is_some() && !(needs.bags || needs.vectors);
        let terms_missing = asked && names_only && request.vectors.is_some_and(|vectors| vectors.query.is_some());
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

    /// The relevance of each message to `query`, 1 for the best, and how far to trust it: the share of the query that the
    /// best message matches, 0 to 1. Of the caller's `vectors` see [`Request`].
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
            reply: None,
            target_tokens: 0,
        };
        self.verify(&request)?;
        if !self.needs.terms {
            return Err(Error::Argument("a request for what was not prepared; see Needs".into()));
        }
        let candidate = self.candidates(&self.always_kept(&self.system_units()));
        let found = self.calibrated(query, &request, &candidate);
        Ok((found.relevance, found.confidence))
    }

    /// The messages that an expensive model is worth asking about: the best fifth of those that are not kept anyway, most
    /// relevant to `query` first by words and the built-in model.
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

    /// The reply that the user answers: of a unit in blocks, the last one of what it says; of another the whole, where it
    /// takes little of the budget.
    fn reserve_reply(&self, reply: usize, unit_tokens: &[u32], budget: u64, first: &mut [bool]) {
        let said = |part: usize| {
            self.messages[part].unit == reply
                && self.messages[part].pieces.clone().any(|piece| self.kinds[piece] == PieceKind::Text)
        };
        let last = (0..self.messages.len()).rev().find(|&part| said(part));
        let block = last.and_then(|part| self.parts.as_ref().and_then(|parts| parts.block[part]));
        if let Some(block) = block {
            first[reply] = true;
            first[self.units.len() + block] = true;
        } else if f64::from(unit_tokens[reply]) <= tune("REPLY", REPLY_SHARE) * budget as f64 {
            first[reply] = true;
        }
    }

    /// The first user's turn.
    fn reserve_lead(&self, unit_tokens: &[u32], room: u64, first: &mut [bool]) {
        let Some(part) = (0..self.messages.len()).find(|&part| self.messages[part].role == crate::conversation::unit::Role::User) else { return };
        let unit = self.messages[part].unit;
        let next = part + 1;
        if next < self.messages.len() && self.is_block(next) && self.messages[next].unit == unit {
            first[unit] = true;
            first[self.units.len() + self.parts.as_ref().and_then(|parts| parts.block[next]).unwrap_or_default()] = true;
        } else if u64::from(unit_tokens[unit]) <= room {
            first[unit] = true;
        }
    }

    /// Per unit, whether it is kept whatever it costs.
    fn always_kept(&self, system: &[bool]) -> Vec<bool> {
        self.units.iter().zip(system).map(|(unit, &system)| unit.pinned || system).collect()
    }

    /// Per message, or part of one, whether it has to compete. Of a unit that is kept anyway its blocks do.
    fn candidates(&self, pinned: &[bool]) -> Vec<bool> {
        let parts = self.messages.iter().enumerate();
        parts.map(|(part, message)| !pinned[message.unit] || self.is_block(part)).collect()
    }

    fn system_units(&self) -> Vec<bool> {
        let mut system = vec![false; self.units.len()];
        for message in self.messages.iter().filter(|message| message.is_system()) {
            system[message.unit] = true;
        }
        system
    }
}
