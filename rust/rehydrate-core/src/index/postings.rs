//! Lists of (ordinal, count) in few bytes: the distance to the ordinal before, whose lowest bit says that a count follows.

/// A list being written.
#[derive(Debug, Default, Clone)]
pub(super) struct List {
    pub bytes: Vec<u8>,
    pub entries: u32,
    last: u32,
}

impl List {
    /// Append an ordinal beyond all before it.
    pub fn push(&mut self, ordinal: u32, count: u32) {
        let distance = u64::from(ordinal - self.last);
        varint(distance << 1 | u64::from(count > 1), &mut self.bytes);
        if count > 1 {
            varint(u64::from(count), &mut self.bytes);
        }
        self.last = ordinal;
        self.entries += 1;
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Call `found` with each (ordinal, count) of a list.
#[inline]
pub(super) fn each(bytes: &[u8], mut found: impl FnMut(u32, u32)) {
    let (mut at, mut ordinal) = (0, 0_u32);
    let read = |at: &mut usize| {
        let first = bytes[*at];
        *at += 1;
        if first < 0x80 {
            return u64::from(first);
        }
        let (mut number, mut shift) = (u64::from(first & 0x7F), 7);
        loop {
            let byte = bytes[*at];
            *at += 1;
            number |= u64::from(byte & 0x7F) << (shift & 63);
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    };
    while at < bytes.len() {
        let head = read(&mut at);
        ordinal = ordinal.wrapping_add((head >> 1) as u32);
        let count = if head & 1 == 1 { read(&mut at) as u32 } else { 1 };
        found(ordinal, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_read_as_it_was_written(mut list in prop::collection::vec((any::<u32>(), 1..400_u32), 0..50)) {
            list.sort_unstable();
            list.dedup_by_key(|entry| entry.0);
            let mut written = List::default();
            list.iter().for_each(|&(ordinal, count)| written.push(ordinal, count));
            let mut read = Vec::new();
            each(&written.bytes, |ordinal, count| read.push((ordinal, count)));
            prop_assert_eq!(read, list);
        }
    }

    #[test]
    fn neighbours_take_a_byte_each() {
        let mut list = List::default();
        (0..100).for_each(|ordinal| list.push(ordinal, 1));
        assert_eq!((list.bytes.len(), list.entries), (100, 100));
    }
}
