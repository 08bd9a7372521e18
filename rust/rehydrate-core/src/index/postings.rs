//! Lists of (ordinal, count): each ordinal as the distance from the one before, then the few counts that are not one.
//!
//! Most distances of a long list are one byte, so that eight at a time are read without a check of each.

/// A list being written.
#[derive(Debug, Default, Clone)]
pub(super) struct PostingsBuilder {
    ordinals: Vec<u8>,
    repeated: Vec<u8>,
    pub entries: u32,
    last: u32,
    last_repeated: u32,
}

impl PostingsBuilder {
    /// Append an ordinal beyond all before it.
    pub fn push(&mut self, ordinal: u32, count: u32) {
        varint(ordinal - self.last, &mut self.ordinals);
        if count > 1 {
            varint(ordinal - self.last_repeated, &mut self.repeated);
            varint(count, &mut self.repeated);
            self.last_repeated = ordinal;
        }
        self.last = ordinal;
        self.entries += 1;
    }

    /// Bytes of the list.
    pub fn len(&self) -> usize {
        self.ordinals.len() + self.repeated.len()
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(&self.ordinals);
        out.extend(&self.repeated);
    }
}

fn varint(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number at the beginning of `rest`, which is moved beyond it; 0 at the end.
#[inline(always)]
fn read(rest: &mut &[u8]) -> u32 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, after)) = rest.split_first() {
        *rest = after;
        number |= u32::from(byte & 0x7F) << (shift & 31);
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

/// A list as it is in a segment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Postings<'a> {
    pub bytes: &'a [u8],
    pub entries: u32,
}

impl<'a> Postings<'a> {
    /// Call `found` with each ordinal; returns the counts that are not one.
    #[inline(always)]
    pub fn each(self, mut found: impl FnMut(u32)) -> Repeated<'a> {
        let (mut rest, mut left, mut ordinal) = (self.bytes, self.entries, 0_u32);
        while left > 0 {
            while left >= 8
                && let Some((eight, after)) = rest.split_first_chunk::<8>()
                && u64::from_le_bytes(*eight) & 0x8080_8080_8080_8080 == 0
            {
                for &distance in eight {
                    ordinal = ordinal.wrapping_add(u32::from(distance));
                    found(ordinal);
                }
                (rest, left) = (after, left - 8);
            }
            if left > 0 {
                ordinal = ordinal.wrapping_add(read(&mut rest));
                found(ordinal);
                left -= 1;
            }
        }
        Repeated(rest)
    }
}

impl Postings<'_> {
    /// Whether it holds as many ordinals as it says, ascending and below `end`, and valid counts for them.
    pub fn fits(self, end: u32) -> bool {
        if self.entries as usize > self.bytes.len() {
            return false;
        }
        let (mut fits, mut least) = (true, 0);
        let mut ascend = |ordinal: u32| {
            fits &= (least..end).contains(&ordinal);
            least = ordinal.saturating_add(1);
        };
        let repeated = self.each(&mut ascend);
        let mut least = 0;
        repeated.each(|ordinal, _| {
            fits &= (least..end).contains(&ordinal);
            least = ordinal.saturating_add(1);
        });
        fits
    }
}

/// The ordinals of a list whose count is not one.
pub(super) struct Repeated<'a>(&'a [u8]);

impl Repeated<'_> {
    /// Call `found` with each ordinal and its count.
    #[inline(always)]
    pub fn each(self, mut found: impl FnMut(u32, u32)) {
        let (mut rest, mut ordinal) = (self.0, 0_u32);
        while !rest.is_empty() {
            ordinal = ordinal.wrapping_add(read(&mut rest));
            found(ordinal, read(&mut rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_read_as_it_was_written(
            mut list in prop::collection::vec((prop_oneof![0..400_u32, any::<u32>()], prop_oneof![Just(1), 1..400_u32]), 0..80)
        ) {
            list.sort_unstable();
            list.dedup_by_key(|entry| entry.0);
            let mut written = PostingsBuilder::default();
            list.iter().for_each(|&(ordinal, count)| written.push(ordinal, count));
            let mut bytes = Vec::new();
            written.write(&mut bytes);
            prop_assert_eq!(bytes.len(), written.len());
            let (mut ordinals, mut repeated) = (Vec::new(), Vec::new());
            let counts = Postings { bytes: &bytes, entries: written.entries }.each(|ordinal| ordinals.push(ordinal));
            counts.each(|ordinal, count| repeated.push((ordinal, count)));
            prop_assert_eq!(ordinals, list.iter().map(|entry| entry.0).collect::<Vec<_>>());
            list.retain(|entry| entry.1 > 1);
            prop_assert_eq!(repeated, list);
        }
    }

    #[test]
    fn neighbours_take_a_byte_each() {
        let mut list = PostingsBuilder::default();
        (0..100).for_each(|ordinal| list.push(ordinal, 1));
        assert_eq!((list.len(), list.entries), (100, 100));
    }
}
