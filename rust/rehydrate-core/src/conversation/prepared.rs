//! A conversation with its texts counted and analysed, ready to be scored again and again.
use once_cell::race::OnceBox;

use crate::conversation::message_parts::{DividedText, MessagePart, MessageParts};
use crate::conversation::text::{Needs, TextAnalysis};
use crate::conversation::unit::{Message, PieceKind, Unit};
use crate::conversation::weighted_rows::WeightedRows;
use crate::embed::builtin::{PackedBag, StaticModel};
use crate::embed::{Embedder, normalize};
use crate::interrupt::Pace;

/// A prepared conversation, as [`crate::engine::Engine::prepare`] returns it.
#[derive(Default)]
pub struct Prepared {
    /// Per piece, its analysis.
    pub(crate) analyses: Vec<TextAnalysis>,
    /// Per piece, its kind.
    pub(crate) kinds: Vec<PieceKind>,
    /// The messages, or their parts if long texts are divided.
    pub(crate) messages: Vec<Message>,
    /// Their units.
    pub(crate) units: Vec<Unit>,
    /// Tokens of each message, whole.
    pub(crate) message_tokens: Vec<u32>,
    /// The needs that it was prepared for.
    pub(crate) needs: Needs,
    /// The parts of the messages. None if each message is one part.
    pub(crate) parts: Option<MessageParts>,
    /// Vectors for queries, made at the first.
    pub(crate) weighted_rows: OnceBox<WeightedRows>,
}

impl Prepared {
    /// Tokens of each message, media included.
    #[must_use]
    pub fn message_tokens(&self) -> &[u32] {
        &self.message_tokens
    }

    /// The number of units.
    #[must_use]
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// Rows of vectors and coverages: one per message, or one per part if long texts are divided.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.messages.len()
    }

    /// The built-in model, if the conversation was prepared for it.
    #[must_use]
    pub fn model(&self) -> Option<&'static StaticModel> {
        self.needs.model
    }

    /// The built-in model's vector of each message (of each part if long texts are divided), one row each, in the
    /// model's own space. That is the same in every conversation, so memories can be compared with it. Empty if the
    /// conversation was not prepared for it.
    #[must_use]
    pub fn message_vectors(&self) -> Vec<f32> {
        self.pool(|analysis, model, row| analysis.add_to(row, model))
    }

    /// The same with each token weighted by `weight` of its id.
    pub(crate) fn weighted_vectors(&self, weight: impl Fn(u16) -> f32) -> Vec<f32> {
        self.pool(|analysis, model, row| {
            if let Some(bag) = analysis.bag() {
                model.add(bag.iter(), &weight, row);
            }
        })
    }

    fn pool(&self, add: impl Fn(&TextAnalysis, &StaticModel, &mut [f32])) -> Vec<f32> {
        let Some(model) = self.model() else { return Vec::new() };
        let mut rows = vec![0.0; self.messages.len() * model.dim()];
        let mut pace = Pace::default();
        for (message, row) in self.messages.iter().zip(rows.chunks_exact_mut(model.dim())) {
            for analysis in self.analyses_of(message) {
                pace.step_by(analysis.bag().map_or(0, PackedBag::len));
                add(analysis, model, row);
            }
            pace.step();
            normalize(row);
        }
        rows
    }

    /// The analyses of the texts of `message`.
    pub(crate) fn analyses_of(&self, message: &Message) -> impl Iterator<Item = &TextAnalysis> {
        self.analyses[message.pieces.clone()].iter()
    }

    /// One derived part of every text that has it, numbered by message.
    pub(crate) fn texts<'a, T>(&'a self, part: impl Fn(&'a TextAnalysis) -> Option<T>) -> Vec<(usize, T)> {
        TextAnalysis::look_at(&self.analyses);
        let numbered = self.messages.iter().enumerate();
        let texts = numbered.flat_map(|(index, message)| self.analyses_of(message).map(move |text| (index, text)));
        texts.filter_map(|(index, text)| Some((index, part(text)?))).collect()
    }

    /// The messages, or their skeletons, in the order of their units, and within a unit in their own.
    pub(crate) fn messages_by_unit(&self) -> Vec<usize> {
        let mut messages: Vec<usize> = (0..self.messages.len()).filter(|&index| !self.is_block(index)).collect();
        messages.sort_by_key(|&index| self.messages[index].unit);
        messages
    }

    /// Tokens of each unit: the sum of its messages'.
    pub(crate) fn unit_tokens(&self) -> Vec<u32> {
        let unit_of = |message: usize| self.messages[message].unit;
        match &self.parts {
            None => self.sums((0..self.messages.len()).map(|message| (unit_of(message), self.message_tokens[message]))),
            Some(parts) => {
                let firsts = (0..self.messages.len()).filter(|&part| parts.block[part].is_none());
                self.sums(firsts.map(|part| (unit_of(part), self.message_tokens[parts.message[part]])))
            }
        }
    }

    fn sums(&self, costs: impl Iterator<Item = (usize, u32)>) -> Vec<u32> {
        let mut tokens = vec![0_u32; self.units.len()];
        for (unit, cost) in costs {
            tokens[unit] = tokens[unit].saturating_add(cost);
        }
        tokens
    }

    /// Tokens of each item to pack: the units without their optional parts, then the blocks.
    pub(crate) fn item_tokens(&self) -> Vec<u32> {
        let Some(parts) = &self.parts else { return self.unit_tokens() };
        let skeletons = (0..self.messages.len()).filter(|&part| parts.block[part].is_none());
        let mut tokens = self.sums(skeletons.map(|part| (self.messages[part].unit, parts.tokens[part])));
        tokens.extend(parts.blocks.iter().map(|block| parts.tokens[block.part]));
        tokens
    }
}

impl Prepared {
    /// The texts that are divided; none unless excerpts were asked for.
    #[must_use]
    pub fn divided_texts(&self) -> &[DividedText] {
        self.parts.as_ref().map_or(&[], |parts| &parts.texts)
    }

    /// Each part in order. None if the parts are the messages.
    #[must_use]
    pub fn parts(&self) -> Option<Vec<MessagePart>> {
        let parts = self.parts.as_ref()?;
        let position =
            |block: Option<usize>| block.map(|block| (parts.blocks[block].text, parts.blocks[block].position));
        Some(parts.message.iter().zip(&parts.block).map(|(&message, &block)| (message, position(block))).collect())
    }

    /// Whether part `part` is a block.
    pub(crate) fn is_block(&self, part: usize) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.block[part].is_some())
    }
}
