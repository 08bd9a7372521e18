//! Selection end to end on arbitrary columns, of whole messages and of blocks: no panic, no surprise about the budget, the
//! same answer twice.
#![no_main]
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use rehydrate_core::conversation::Excerpting;
use rehydrate_core::conversation::Needs;
use rehydrate_core::conversation::{Conversation, Message, Piece, PieceKind, Role, Unit};
use rehydrate_core::embed::builtin::StaticModel;
use rehydrate_core::engine::Engine;
use rehydrate_core::excerpts::MIN_BYTES;
use rehydrate_core::scoring::Weights;
use rehydrate_core::selection::{PackMode, Request, SignalMode, Vectors};
use rehydrate_core::tokens::Counter;

const DIM: usize = 3;

/// Texts of which some are long enough to be divided, which inputs by themselves are not.
fn texts(input: &mut Unstructured<'_>) -> Result<Vec<String>> {
    let mut texts = vec![String::new()];
    for _ in 0..input.int_in_range(0..=12_u8)? {
        let text: &str = input.arbitrary()?;
        let times = input.choose_index(4)?;
        texts.push(if times == 3 {
            format!("{text}\n").repeat(MIN_BYTES / (text.len() + 1) + 5)
        } else {
            text.to_owned()
        });
    }
    Ok(texts)
}

/// Columns as they may come: mostly in range, sometimes not.
fn conversation<'a>(input: &mut Unstructured<'_>, texts: &'a [String]) -> Result<Conversation<'a>> {
    let units = input.int_in_range(0..=12_usize)?;
    let mut found = Conversation::default();
    for _ in 0..units {
        found.units.push(Unit { pinned: input.ratio(1, 8)?, may_lead: input.arbitrary()? });
    }
    for _ in 0..input.int_in_range(0..=24_usize)? {
        let first = found.pieces.len();
        for _ in 0..input.int_in_range(0..=2_u8)? {
            let kind = PieceKind::try_from(input.int_in_range(0..=3_u8)?).expect("a kind");
            found.pieces.push(Piece { text: input.choose(texts)?, kind });
        }
        let is_broken = input.ratio(1, 100)?;
        found.messages.push(Message {
            pieces: first..found.pieces.len() + usize::from(is_broken),
            media_tokens: if input.ratio(1, 20)? { input.arbitrary()? } else { 0 },
            structural: if is_broken { input.arbitrary()? } else { f64::from(input.arbitrary::<u8>()?) / 100.0 },
            role: Role::try_from(input.int_in_range(0..=4_u8)?).expect("a role"),
            unit: if units == 0 { 0 } else { input.int_in_range(0..=units - 1)? },
        });
    }
    Ok(found)
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(16 << 20));
    let calibrated = input.arbitrary()?;
    let coverage = input.arbitrary()?;
    let needs = Needs {
        model: input.arbitrary::<bool>()?.then(StaticModel::builtin),
        bags: input.arbitrary()?,
        vectors: input.arbitrary()?,
        terms: calibrated,
        mentions: coverage,
    };
    let counter = *input.choose(Counter::ALL)?;
    let query: Option<&str> = input.arbitrary()?;
    let target_tokens = input.int_in_range(0..=2_000)?;
    let (with_vectors, with_memory): (bool, bool) = input.arbitrary()?;
    let query_vector: [f32; DIM] = input.arbitrary()?;
    let weights: [u8; 3] = input.arbitrary()?;
    let texts = texts(input)?;
    let conversation = conversation(input, &texts)?;
    let divisible: Vec<bool> = conversation.pieces.iter().map(|_| input.arbitrary()).collect::<Result<_>>()?;
    let excerpting = Excerpting {
        divisible: &divisible,
        mark_counts: input.arbitrary::<[u8; 2]>()?.map(u32::from),
        block_counts: None,
    };
    let in_parts = input.arbitrary()?;
    let roles: Vec<(Role, usize)> = conversation.messages.iter().map(|message| (message.role, message.unit)).collect();
    let prepare = || match in_parts {
        true => engine.prepare_with_excerpts(conversation.clone(), &excerpting, counter, None, needs),
        false => engine.prepare(conversation.clone(), counter, None, needs),
    };
    let Ok(prepared) = prepare() else { return Ok(()) };
    assert_eq!(prepared.message_tokens().len(), roles.len());
    // Whatever an embedder or a memory may give: NaN and infinity too, and vectors of some messages only.
    let rows = prepared.rows();
    let positions: Vec<usize> = (0..rows).filter(|_| input.arbitrary().unwrap_or(true)).collect();
    let of_some = input.arbitrary()?;
    let given = if of_some { positions.len() } else { rows };
    let numbers: Vec<f32> = (0..given * DIM).map(|_| input.arbitrary()).collect::<Result<_>>()?;
    let covered: Vec<f64> = (0..rows).map(|_| input.arbitrary()).collect::<Result<_>>()?;
    let request = Request {
        query,
        query_weight: 1.0,
        asks: true,
        vectors: with_vectors.then_some(Vectors {
            dim: DIM,
            messages: &numbers,
            positions: of_some.then_some(&positions[..]),
            query: query.map(|_| &query_vector[..]),
        }),
        memory_coverage: with_memory.then_some(&covered),
        weights: Weights {
            recency: f64::from(weights[0]) / 100.0,
            semantic: f64::from(weights[1]) / 100.0,
            novelty: f64::from(weights[2]) / 100.0,
        },
        signals: if calibrated { SignalMode::Calibrated } else { SignalMode::Raw },
        packing: if coverage { PackMode::Coverage } else { PackMode::Greedy },
        reply: (!roles.is_empty()).then_some(0),
        target_tokens,
    };
    let Ok(selection) = prepared.select(&request) else { return Ok(()) };
    assert!(selection.message_scores.iter().all(|score| score.is_finite()), "{:?}", selection.message_scores);
    for (role, unit) in roles {
        assert!(role != Role::System || selection.packing.kept[unit], "a system unit was dropped");
    }
    let pinned = selection.pinned_tokens;
    let led = selection.leader.map_or(0, |unit| u64::from(selection.unit_tokens[unit]));
    // A kept message that is divided is counted in its blocks, which may be more than the whole. A leader is kept as
    // its marks alone.
    let marks = excerpting.mark_counts.map(|mark| u64::from(counter.tokens_of(mark)));
    let apart: u64 = prepared
        .divided_texts()
        .iter()
        .enumerate()
        .map(|(text, divided)| {
            let blocks =
                selection.blocks.iter().filter(|choice| choice.text == text).map(|choice| u64::from(choice.tokens));
            let of = conversation.messages.iter().position(|message| message.pieces.contains(&divided.piece));
            // A text that is in a later message too counts as less than itself, and at most as the texts of its message.
            let of_texts =
                |at: usize| prepared.message_tokens()[at].saturating_sub(conversation.messages[at].media_tokens);
            let whole = engine.count(conversation.pieces[divided.piece].text, counter).min(of.map_or(0, of_texts));
            (blocks.sum::<u64>() + marks[0].max(marks[1])).saturating_sub(u64::from(whole))
        })
        .sum();
    let allowed = target_tokens.max(pinned + led) + apart;
    let used = selection.packing.used_tokens;
    // Sums of u32 stop at its end: a unit that got there has lost count.
    let saturated = selection.unit_tokens.contains(&u32::MAX);
    assert!(
        saturated || used <= allowed,
        "{used} of {target_tokens} tokens with {pinned} pinned, {led} led, {apart} for blocks"
    );
    let again = prepare().and_then(|prepared| prepared.select(&request)).expect("as before");
    assert_eq!(again.packing, selection.packing, "selected twice, selected differently");
    assert_eq!(again.blocks, selection.blocks, "selected twice, divided differently");
    for choice in selection.blocks.iter().filter(|choice| choice.kept) {
        let text = &prepared.divided_texts()[choice.text];
        assert!(choice.position < text.division.blocks.len(), "a block out of nowhere");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _too_short = run(&mut Unstructured::new(bytes));
});
