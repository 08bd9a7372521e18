//! Vectors of one space in a segment: int8 rows with a scale each, how far each lies from their mean, and cells of many.
use super::best::Best;
use super::cells::Gathered;
use super::layout::{Column, Section, Writer};
use super::segment::Segment;
use super::sketch;
use super::view::Gate;
use crate::embed::{MAX_DIM, dot, is_present, normalize};

/// Rows that are compared at once.
pub(super) const BLOCK: usize = 1024;

/// The sections of one space.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub rows: Section,
    pub scale: Section,
    pub spread: Section,
    pub mean: Section,
    pub sum: Section,
    pub centres: Section,
    pub centre_scale: Section,
    pub centre_sketches: Section,
    pub sketches: Section,
    pub cells: Section,
    pub order: Section,
    pub places: Section,
}

pub(super) const BUILTIN: Place = Place {
    rows: Section::BuiltinRows,
    scale: Section::BuiltinScale,
    spread: Section::BuiltinSpread,
    mean: Section::BuiltinMean,
    sum: Section::BuiltinSum,
    centres: Section::BuiltinCentres,
    centre_scale: Section::BuiltinCentreScale,
    centre_sketches: Section::BuiltinCentreSketches,
    sketches: Section::BuiltinSketches,
    cells: Section::BuiltinCells,
    order: Section::BuiltinOrder,
    places: Section::BuiltinPlaces,
};

pub(super) const OWN: Place = Place {
    rows: Section::OwnRows,
    scale: Section::OwnScale,
    spread: Section::OwnSpread,
    mean: Section::OwnMean,
    sum: Section::OwnSum,
    centres: Section::OwnCentres,
    centre_scale: Section::OwnCentreScale,
    centre_sketches: Section::OwnCentreSketches,
    sketches: Section::OwnSketches,
    cells: Section::OwnCells,
    order: Section::OwnOrder,
    places: Section::OwnPlaces,
};

/// The square of a mean's length from which all rows are one: nothing would be left of them without it.
const ALIKE: f32 = 0.999;

/// Rows being gathered, one an ordinal.
pub(super) struct RowsWriter {
    dim: usize,
    rows: Vec<u8>,
    scale: Vec<f32>,
    sum: Vec<f32>,
    present: u32,
}

impl RowsWriter {
    pub fn new(dim: usize, rows: usize) -> Self {
        Self {
            dim,
            rows: Vec::with_capacity(dim * rows),
            scale: Vec::with_capacity(rows),
            sum: vec![0.0; dim],
            present: 0,
        }
    }

    /// Append the row of the next ordinal: of length 1, or not [`is_present`]: none.
    pub fn push(&mut self, row: &[f32]) {
        if row.len() != self.dim || !is_present(row) {
            self.rows.resize(self.rows.len() + self.dim, 0);
            self.scale.push(0.0);
            return;
        }
        self.scale.push(push_bytes(row, &mut self.rows));
        self.sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        self.present += 1;
    }

    /// Write them out; returns how many there are. `older` are the sum and number of the rows of older segments.
    pub fn finish(self, older: Option<(&[f32], u32)>, place: Place, writer: &mut Writer) -> u32 {
        let Self { dim, rows, scale, sum, present } = self;
        let mut mean = sum.clone();
        let mut counted = present;
        if let Some((sum, number)) = older.filter(|(sum, _)| sum.len() == dim) {
            mean.iter_mut().zip(sum).for_each(|(mean, sum)| *mean += sum);
            counted += number;
        }
        mean.iter_mut().for_each(|x| *x /= counted.max(1) as f32);
        if dot(&mean, &mean) > ALIKE {
            mean.fill(0.0);
        }
        let steps = Steps::of(&mean);
        let square = dot(&mean, &mean);
        let spread_of = |(row, &scale): (&[u8], &f32)| {
            let along = whole_dot(row, &steps.steps) as f32 * steps.scale * scale;
            if scale == 0.0 { 0.0 } else { (1.0 - 2.0 * along + square).max(1e-6).sqrt() }
        };
        let spread: Vec<f32> = rows.chunks_exact(dim.max(1)).zip(&scale).map(spread_of).collect();
        let gathered = Gathered { dim, rows: &rows, scale: &scale, spread: &spread, mean: &mean };
        if let Some(cells) = gathered.cells() {
            let mut places = vec![0_u32; cells.order.len()];
            (0..).zip(&cells.order).for_each(|(place, &ordinal)| places[ordinal as usize] = place);
            let moved = |column: &[f32]| cells.order.iter().map(|&at| column[at as usize]).collect::<Vec<_>>();
            writer.put(place.spread, moved(&spread));
            writer.put(place.scale, moved(&scale));
            let row = |&at: &u32| &rows[at as usize * dim..][..dim];
            writer.bytes(place.rows, cells.order.iter().flat_map(row).copied().collect());
            let mut centres = Vec::with_capacity(cells.centres.len());
            let scales: Vec<f32> = cells.centres.chunks_exact(dim).map(|row| push_bytes(row, &mut centres)).collect();
            writer.bytes(place.centres, centres);
            writer.put(place.centre_scale, scales);
            let (mut turned, mut sketches) = (Vec::new(), Vec::new());
            cells.centres.chunks_exact(dim).for_each(|centre| sketch::push(centre, &mut turned, &mut sketches));
            writer.put(place.centre_sketches, sketches);
            writer.put(place.sketches, gathered.sketches(&cells.order));
            writer.put(place.cells, cells.at);
            writer.put(place.order, cells.order);
            writer.put(place.places, places);
        } else {
            writer.put(place.spread, spread);
            writer.put(place.scale, scale);
            writer.bytes(place.rows, rows);
        }
        writer.put(place.mean, mean);
        writer.put(place.sum, sum);
        present
    }
}

/// Append a row in steps of a byte; returns what a step is.
fn push_bytes(row: &[f32], out: &mut Vec<u8>) -> f32 {
    let largest = row.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let steps = 127.0 / largest;
    out.extend(row.iter().map(|x| ((x * steps).round() as i8).cast_unsigned()));
    1.0 / steps
}

/// Rows read where they lie: in the order of ordinals, or cell by cell.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub dim: usize,
    pub rows: &'a [u8],
    pub scale: Column<'a, f32>,
    pub spread: Column<'a, f32>,
    pub mean: Column<'a, f32>,
    centres: &'a [u8],
    centre_scale: Column<'a, f32>,
    centre_sketches: Column<'a, u64>,
    /// Of rows in cells.
    sketches: Column<'a, u64>,
    /// Where the rows of each cell begin, one more for the end; empty: no cells.
    pub cells: Column<'a, u32>,
    pub order: Column<'a, u32>,
    pub places: Column<'a, u32>,
}

impl<'a> Rows<'a> {
    /// The rows of a segment in one space; None where it has none.
    pub fn of(segment: &'a Segment, place: Place) -> Option<Self> {
        let mean = segment.column::<f32>(place.mean);
        (mean.len() > 0).then(|| Self {
            dim: mean.len(),
            rows: segment.section(place.rows),
            scale: segment.column(place.scale),
            spread: segment.column(place.spread),
            mean,
            centres: segment.section(place.centres),
            centre_scale: segment.column(place.centre_scale),
            centre_sketches: segment.column(place.centre_sketches),
            sketches: segment.column(place.sketches),
            cells: segment.column(place.cells),
            order: segment.column(place.order),
            places: segment.column(place.places),
        })
    }

    pub fn len(&self) -> usize {
        self.scale.len()
    }

    /// Number of cells; 0: all rows are to be looked at.
    pub fn cells(&self) -> usize {
        self.cells.len().saturating_sub(1)
    }

    /// The ordinal of the row at `place`.
    #[inline]
    pub fn ordinal(&self, place: usize) -> usize {
        if self.order.len() == 0 { place } else { self.order.get(place) as usize }
    }

    fn place(&self, ordinal: usize) -> usize {
        if self.places.len() == 0 { ordinal } else { self.places.get(ordinal) as usize }
    }

    /// The rows of a cell.
    pub fn cell(&self, cell: usize) -> std::ops::Range<usize> {
        self.cells.get(cell) as usize..self.cells.get(cell + 1) as usize
    }
}

/// A vector that rows are compared with, in whole steps.
#[derive(Clone)]
pub(super) struct Steps {
    pub steps: Vec<i16>,
    pub scale: f32,
}

/// So fine that sums of so many products with bytes stay below 2^31.
const FINEST: f32 = 2047.0;
const _: () = assert!(MAX_DIM as i64 * FINEST as i64 * 127 < 1 << 31);

impl Steps {
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        if largest == 0.0 || !largest.is_finite() {
            return Self { steps: vec![0; vector.len()], scale: 0.0 };
        }
        let steps = FINEST / largest;
        Self { steps: vector.iter().map(|x| (x * steps).round() as i16).collect(), scale: 1.0 / steps }
    }
}

/// Room for the results of kernels.
#[derive(Default)]
pub(super) struct Scratch {
    pub products: Vec<i32>,
    distances: Vec<u32>,
    near: Vec<u32>,
    /// By distance of two sketches, what the cosine may be.
    likely: Vec<f32>,
}

/// A query against the rows of one segment.
pub(super) struct Probe {
    steps: Steps,
    /// What the mean contributes to every product.
    along_mean: f32,
    centred: bool,
    /// The query less the mean, of length 1: what cells are chosen by.
    direction: Steps,
    /// How far the query lies from the mean.
    spread: f32,
    /// What [`Probe::may_be`] adds for every row.
    aside: f32,
    /// Of the direction.
    sketch: Vec<u64>,
}

impl Probe {
    /// `vector` has length 1; `centred`: the rows' mean is taken from both sides.
    pub fn new(vector: &[f32], rows: &Rows<'_>, centred: bool) -> Option<Self> {
        if rows.dim != vector.len() || !is_present(vector) {
            return None;
        }
        let mean: Vec<f32> = rows.mean.iter().collect();
        let mut direction: Vec<f32> = vector.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
        let spread = dot(&direction, &direction).sqrt();
        normalize(&mut direction);
        if centred && !is_present(&direction) {
            return None;
        }
        let aside = dot(&mean, vector) + 0.5 * (1.0 - dot(&mean, &mean));
        let mut sketch = Vec::new();
        if rows.cells() > 0 {
            sketch::push(&direction, &mut Vec::new(), &mut sketch);
        }
        let towards = Steps::of(&direction);
        let (steps, along_mean) =
            if centred { (towards.clone(), dot(&mean, &direction)) } else { (Steps::of(vector), 0.0) };
        Some(Self { steps, along_mean, centred, direction: towards, spread, aside, sketch })
    }

    /// The cosine with the row of an ordinal; None where there is none.
    pub fn cosine(&self, rows: &Rows<'_>, ordinal: usize) -> Option<f32> {
        let at = rows.place(ordinal);
        let row = &rows.rows[at * rows.dim..][..rows.dim];
        (rows.scale.get(at) != 0.0).then(|| self.of_product(whole_dot(row, &self.steps.steps), rows, at))
    }

    #[inline(always)]
    fn of_product(&self, product: i32, rows: &Rows<'_>, at: usize) -> f32 {
        let cosine = product as f32 * self.steps.scale * rows.scale.get(at);
        let cosine = if self.centred { (cosine - self.along_mean) / rows.spread.get(at) } else { cosine };
        cosine.clamp(-1.0, 1.0)
    }

    /// Offer the rows at `places` that pass to `best`, numbered from `base`.
    pub fn offer(
        &self,
        rows: &Rows<'_>,
        places: std::ops::Range<usize>,
        gate: &Gate<'_>,
        base: usize,
        best: &mut Best,
        products: &mut Vec<i32>,
    ) {
        products.resize(BLOCK, 0);
        let mut from = places.start;
        while from < places.end {
            let block = &mut products[..BLOCK.min(places.end - from)];
            whole_dots(&rows.rows[from * rows.dim..], rows.dim, &self.steps.steps, block);
            for (place, &product) in (from..).zip(&*block) {
                let cosine = self.of_product(product, rows, place);
                if cosine > best.floor && rows.scale.get(place) != 0.0 {
                    let ordinal = rows.ordinal(place);
                    best.offer(cosine, (base + ordinal) as u32, || gate.passes(ordinal));
                }
            }
            from += BLOCK;
        }
    }

    /// The same for the rows of a cell, but those whose sketch is too far from the query's to be among the best are passed
    /// over.
    pub fn offer_near(
        &self,
        rows: &Rows<'_>,
        places: std::ops::Range<usize>,
        gate: &Gate<'_>,
        base: usize,
        best: &mut Best,
        scratch: &mut Scratch,
    ) {
        let words = self.sketch.len();
        scratch.distances.resize(places.len(), 0);
        let sketches = &rows.sketches.raw()[places.start * words..places.end * words];
        sketch::distances(sketches, &self.sketch, &mut scratch.distances);
        // Where nothing is good enough yet, the nearest by their sketches say what is.
        let mut seen = None;
        if best.floor <= 0.0 && best.wanted() < places.len() {
            let Scratch { distances, near, .. } = &mut *scratch;
            near.clear();
            near.extend_from_slice(distances);
            let (_, &mut nearest, _) = near.select_nth_unstable(best.wanted());
            near.clear();
            near.extend((0..).zip(&*distances).filter(|(_, distance)| **distance <= nearest).map(|(at, _)| at));
            seen = Some(nearest);
            self.offer_those(rows, places.start, gate, base, best, scratch);
        }
        let Scratch { distances, near, likely, .. } = &mut *scratch;
        near.clear();
        let apart = (0_u32..).zip(&*distances).filter(|(_, distance)| seen.is_none_or(|seen| **distance > seen));
        if best.floor <= 0.0 || words < TELLING {
            near.extend(apart.map(|(at, _)| at));
        } else if self.centred {
            let limit = sketch::limit(best.floor, rows.dim);
            near.extend(apart.filter(|(_, distance)| **distance <= limit).map(|(at, _)| at));
        } else {
            sketch::likely(rows.dim, likely);
            let spreads = rows.spread.range(places.clone());
            let may_be = |(at, distance): &(u32, &u32)| {
                self.may_be(likely[**distance as usize], spreads.get(*at as usize)) > best.floor
            };
            near.extend(apart.filter(may_be).map(|(at, _)| at));
        }
        self.offer_those(rows, places.start, gate, base, best, scratch);
    }

    /// Offer those of the rows from `first` on that `scratch.near` names.
    fn offer_those(
        &self,
        rows: &Rows<'_>,
        first: usize,
        gate: &Gate<'_>,
        base: usize,
        best: &mut Best,
        scratch: &mut Scratch,
    ) {
        let Scratch { products, near, .. } = scratch;
        products.resize(near.len().max(products.len()), 0);
        whole_dots_at(&rows.rows[first * rows.dim..], rows.dim, near, &self.steps.steps, products);
        for (&at, &product) in near.iter().zip(&*products) {
            let place = first + at as usize;
            let cosine = self.of_product(product, rows, place);
            if cosine > best.floor {
                let ordinal = rows.ordinal(place);
                best.offer(cosine, (base + ordinal) as u32, || gate.passes(ordinal));
            }
        }
    }

    /// The cosine, mean and all, with a row that lies `spread` from the mean, by what it is less the mean.
    ///
    /// Of rows x = m + s u and the query q = m + t d, all of length 1: x q = m q + s m u + s t (d u), and as x x = 1,
    /// s m u = (1 - m m - s s) / 2.
    #[inline(always)]
    fn may_be(&self, centred: f32, spread: f32) -> f32 {
        self.aside + spread * (self.spread * centred - 0.5 * spread)
    }

    /// The `number` cells that point most as the query does, the nearest first: of those whose sketches are nearest.
    pub fn cells(&self, rows: &Rows<'_>, number: usize, scratch: &mut Scratch) -> Vec<u32> {
        let Scratch { products, distances, near, .. } = scratch;
        distances.resize(rows.cells(), 0);
        sketch::distances(rows.centre_sketches.raw(), &self.sketch, distances);
        near.clear();
        near.extend(0..rows.cells() as u32);
        let likely = (LIKELY * number).max(LEAST_LIKELY);
        if likely < near.len() && self.sketch.len() >= TELLING {
            near.select_nth_unstable_by_key(likely, |&cell| distances[cell as usize]);
            near.truncate(likely);
        }
        products.resize(near.len().max(products.len()), 0);
        whole_dots_at(rows.centres, rows.dim, near, &self.direction.steps, products);
        let along = |(&product, &cell): (&i32, &u32)| (product as f32 * rows.centre_scale.get(cell as usize), cell);
        let mut along: Vec<(f32, u32)> = products.iter().zip(&*near).map(along).collect();
        if number < along.len() {
            along.select_nth_unstable_by(number, |a, b| b.0.total_cmp(&a.0));
            along.truncate(number);
        }
        along.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        along.into_iter().map(|(_, cell)| cell).collect()
    }
}

/// So many times as many cells as are wanted are compared by more than their sketches.
const LIKELY: usize = 4;
const LEAST_LIKELY: usize = 80;
/// Words from which a sketch tells cells and rows apart: of fewer bits, one in some hundred rows would miss its own cell.
const TELLING: usize = 4;

/// The products of each row with `steps`. Exact: bytes times numbers up to [`FINEST`].
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(super) fn whole_dots(rows: &[u8], dim: usize, steps: &[i16], out: &mut [i32]) {
    for (out, row) in out.iter_mut().zip(rows.chunks_exact(dim)) {
        *out = product(row, steps);
    }
}

/// The same for some of the rows.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn whole_dots_at(rows: &[u8], dim: usize, at: &[u32], steps: &[i16], out: &mut [i32]) {
    for (out, &at) in out.iter_mut().zip(at) {
        *out = product(&rows[at as usize * dim..][..dim], steps);
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn whole_dot(row: &[u8], steps: &[i16]) -> i32 {
    product(row, steps)
}

#[inline(always)]
fn product(row: &[u8], steps: &[i16]) -> i32 {
    row.iter().zip(steps).map(|(&x, &step)| i32::from(x.cast_signed()) * i32::from(step)).sum()
}
