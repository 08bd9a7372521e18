//! Whether the numbers of a segment fit each other. A search follows offsets, lengths and ordinals without checks. Each
//! is checked once, when bytes become a segment: a checksum says that they are as written, not by whom.
use super::graph;
use super::layout::{self, Column, Damaged, Fixed, Section, VectorSections};
use super::segment::Segment;
use super::vector_rows::Rows;
use crate::embed::builtin::{PackedBag, StaticModel};
use crate::embed::{Embedder, MAX_DIM};
use crate::interrupt::Pace;

/// Numbers of [`Section::Counts`].
const COUNTS: usize = 6;

/// # Errors
/// [`Damaged`] for a number that leads nowhere or contradicts another.
pub(super) fn verify(segment: &Segment) -> Result<(), Damaged> {
    ensure(segment.column::<u64>(Section::Counts).len() == COUNTS, "no counts")?;
    let model = StaticModel::builtin();
    if segment.count(4) != model.mark() || segment.section(Section::TokenWeights).len() != model.vocab_size() {
        return Err(Damaged("made with another built-in model"));
    }
    verify_entries(segment)?;
    verify_words(segment)?;
    verify_trigrams(segment)?;
    verify_bags(segment, model)?;
    verify_rows(segment, layout::BUILTIN, model.dim(), segment.count(2))?;
    let dim = usize::try_from(segment.count(1)).ok().filter(|&dim| dim <= MAX_DIM);
    verify_rows(segment, layout::OWN, dim.ok_or(Damaged("vectors of too many components"))?, segment.count(3))
}

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

fn ascends<T: Ord>(numbers: impl Iterator<Item = T> + Clone) -> bool {
    numbers.clone().zip(numbers.skip(1)).all(|(before, after)| before < after)
}

/// Whether `starts` are the beginnings of `count` pieces in something of length `end`, with one more number for the
/// end.
fn starts(starts: impl ExactSizeIterator<Item = u64> + Clone, count: usize, end: usize) -> bool {
    let ascends = starts.clone().zip(starts.clone().skip(1)).all(|(before, after)| before <= after);
    let (first, last) = (starts.clone().next(), starts.clone().last());
    starts.len() == count + 1 && ascends && first == Some(0) && last == Some(end as u64)
}

fn verify_entries(segment: &Segment) -> Result<(), Damaged> {
    fn length<T: Fixed>(segment: &Segment, section: Section) -> usize {
        segment.column::<T>(section).len()
    }
    let ids = segment.column::<u64>(Section::Ids);
    let (by_id, sources) = (segment.column::<u32>(Section::ById), segment.column::<u32>(Section::Source));
    let lengths = segment.column::<u16>(Section::Length);
    let columns = [
        length::<i64>(segment, Section::Time),
        length::<u32>(segment, Section::Kind),
        length::<u32>(segment, Section::ThreadOf),
        length::<u8>(segment, Section::Tier),
        length::<u8>(segment, Section::Trust),
        length::<i64>(segment, Section::Expires),
        length::<u64>(segment, Section::Speaker),
        length::<u8>(segment, Section::Asks),
    ];
    let is_long = columns.into_iter().chain([by_id.len(), sources.len(), lengths.len()]).all(|len| len == ids.len());
    ensure(is_long && u32::try_from(ids.len()).is_ok(), "a column has another length")?;
    ensure(ascends(sources.iter().zip(ids.iter())), "entries out of order")?;
    ensure(by_id.iter().all(|ordinal| (ordinal as usize) < ids.len()), "an ordinal leads nowhere")?;
    ensure(ascends(by_id.iter().map(|ordinal| ids.get(ordinal as usize))), "ids out of order")?;
    ensure(ascends(segment.column::<u64>(Section::Tombstones).iter()), "deletions out of order")?;
    let total: u64 = lengths.iter().map(u64::from).sum();
    ensure(segment.total_length() == total, "lengths come to something else")
}

fn verify_words(segment: &Segment) -> Result<(), Damaged> {
    let (terms, at) = (segment.column::<u64>(Section::Terms), segment.column::<u64>(Section::TermAt));
    ensure(segment.column::<u32>(Section::TermCount).len() == terms.len(), "terms without a count")?;
    ensure(ascends(terms.iter()), "terms out of order")?;
    ensure(starts(at.iter(), terms.len(), segment.section(Section::Postings).len()), "postings out of order")?;
    let mut pace = Pace::default();
    let mut fits = |term: usize| {
        let postings = segment.postings_at(term);
        pace.step_by(postings.bytes.len());
        postings.fits(segment.len() as u32)
    };
    ensure((0..terms.len()).all(&mut fits), "a posting leads nowhere")
}

fn verify_trigrams(segment: &Segment) -> Result<(), Damaged> {
    let column = |section| segment.column::<u32>(section);
    let (words, trigrams, of) = (column(Section::WordTerm), column(Section::Trigrams), column(Section::TrigramWords));
    let terms = segment.column::<u64>(Section::Terms).len();
    ensure(words.iter().all(|term| (term as usize) < terms), "a word counts as no term")?;
    ensure(segment.column::<u8>(Section::WordTrigrams).len() == words.len(), "words without a count")?;
    ensure(ascends(trigrams.iter()), "trigrams out of order")?;
    let at = column(Section::TrigramAt);
    ensure(starts(at.iter().map(u64::from), trigrams.len(), of.len()), "trigrams lie out of order")?;
    ensure(of.iter().all(|word| (word as usize) < words.len()), "a trigram isn't in any word")
}

/// Every bag, and the counts over all of them: a view subtracts deleted entries from these.
fn verify_bags(segment: &Segment, model: &StaticModel) -> Result<(), Damaged> {
    let (at, bags) = (segment.column::<u32>(Section::BagAt), segment.column::<u32>(Section::Bags));
    ensure(starts(at.iter().map(u64::from), segment.len(), bags.len()), "bags out of order")?;
    let mut count = vec![0_u32; model.vocab_size()];
    let (mut pace, mut packed) = (Pace::default(), Vec::new());
    for ordinal in 0..segment.len() {
        packed.clear();
        segment.bag(ordinal, &mut packed);
        pace.step_by(packed.len());
        let bag = PackedBag::verified(&packed, count.len()).ok_or(Damaged("a bag is none"))?;
        bag.ids().for_each(|token| count[usize::from(token)] += 1);
    }
    let counted = (0_u16..).zip(count).filter(|(_, count)| *count > 0);
    let (tokens, counts) = (segment.column::<u16>(Section::Tokens), segment.column::<u32>(Section::TokenCount));
    ensure(tokens.len() == counts.len() && counted.eq(tokens.iter().zip(counts.iter())), "tokens are miscounted")
}

/// The rows of one space, each of `dim` components, of which `present` exist.
fn verify_rows(segment: &Segment, sections: VectorSections, dim: usize, present: u64) -> Result<(), Damaged> {
    let floats = |section| segment.column::<f32>(section);
    let (scale, norm) = (floats(sections.scale), floats(sections.residual_norm));
    let (mean, sum, centroid_scale) = (floats(sections.mean), floats(sections.sum), floats(sections.centroid_scale));
    let is_finite = |column: Column<'_, f32>| column.iter().all(f32::is_finite);
    ensure([scale, norm, mean, sum, centroid_scale].into_iter().all(is_finite), "a vector is not finite")?;
    let rows = if dim == 0 { 0 } else { segment.len() };
    let is_long = segment.section(sections.rows).len() == rows * dim
        && [scale.len(), norm.len()] == [rows; 2]
        && [mean.len(), sum.len()] == [dim; 2];
    ensure(is_long, "vectors of another length")?;
    let is_row = |(scale, norm): (f32, f32)| scale == 0.0 || norm > 0.0;
    ensure(scale.iter().zip(norm.iter()).all(is_row), "a vector has no length")?;
    let held = scale.iter().filter(|&scale| scale != 0.0).count();
    ensure((held as u64..=rows as u64).contains(&present), "vectors are miscounted")?;

    verify_lists(segment, sections, (dim, rows), held)?;
    let slot = |at: usize| Rows::of(segment, sections).map_or(at, |rows| rows.slot(at));
    let is_row = |at: u64| usize::try_from(at).is_ok_and(|at| at < rows && scale.get(slot(at)) != 0.0);
    ensure(graph::fits(segment.section(sections.graph), (dim, rows), is_row), "a graph leads nowhere")
}

/// The lists that rows of `dim` components are in, of which `held` are vectors.
fn verify_lists(
    segment: &Segment,
    sections: VectorSections,
    (dim, rows): (usize, usize),
    held: usize,
) -> Result<(), Damaged> {
    let centroid_scale = segment.column::<f32>(sections.centroid_scale);
    let column = |section| segment.column::<u32>(section);
    let (lists, order, slots) = (column(sections.lists), column(sections.order), column(sections.slots));
    let centroids = segment.section(sections.centroids).len();
    let Some(count) = lists.len().checked_sub(1) else {
        let rest = [order.len(), slots.len(), centroid_scale.len(), centroids];
        return ensure(rest == [0; 4], "lists without a beginning");
    };
    let is_long = [order.len(), slots.len()] == [rows; 2] && centroids == count * dim && centroid_scale.len() == count;
    ensure(is_long && count > 0, "lists of another length")?;
    ensure(starts(lists.iter().map(u64::from), count, held), "lists out of order")?;
    let is_back =
        |(slot, ordinal): (usize, u32)| (ordinal as usize) < rows && slots.get(ordinal as usize) as usize == slot;
    ensure(order.iter().enumerate().all(is_back), "a slot leads nowhere")
}
