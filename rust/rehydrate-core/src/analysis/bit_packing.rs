//! Bit packing: lists of whole numbers in 32-bit words, each list at the smallest width that holds its largest number.

/// Widths in bits, by the code that a list's head holds.
const WIDTHS: [u32; 7] = [0, 1, 2, 4, 8, 16, 32];
const CODE_BITS: u32 = 3;

/// Append a list to `out`: a head (length and width), then the numbers, low bits first. A list of only zeros takes no
/// word.
pub(crate) fn push(out: &mut Vec<u32>, numbers: impl ExactSizeIterator<Item = u32> + Clone) {
    let largest = numbers.clone().max().unwrap_or(0);
    let code = (0_u32..).zip(WIDTHS).find(|&(_, width)| u64::from(largest) < 1 << width).map_or(6, |(code, _)| code);
    out.push(u32::try_from(numbers.len()).expect("a text has under 2^29 parts") << CODE_BITS | code);
    let width = WIDTHS[code as usize];
    if width > 0 {
        push_at(out, width, numbers);
    }
}

/// Append numbers of `width` bits each, without a head.
pub(crate) fn push_at(out: &mut Vec<u32>, width: u32, numbers: impl Iterator<Item = u32>) {
    let (mut word, mut filled) = (0, 0);
    for number in numbers {
        word |= number << filled;
        filled += width;
        if filled == u32::BITS {
            out.push(word);
            (word, filled) = (0, 0);
        }
    }
    if filled > 0 {
        out.push(word);
    }
}

/// A list, read where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<'a> {
    words: &'a [u32],
    length: usize,
    width: u32,
}

impl<'a> Numbers<'a> {
    /// The list at the start of `words`, and what follows it.
    pub fn split(words: &'a [u32]) -> (Self, &'a [u32]) {
        let (head, rest) = (words[0], &words[1..]);
        let (length, width) = ((head >> CODE_BITS) as usize, WIDTHS[(head & ((1 << CODE_BITS) - 1)) as usize]);
        let (words, rest) = rest.split_at((length * width as usize).div_ceil(32));
        (Self { words, length, width }, rest)
    }

    /// Whether `words` begin with a list.
    pub fn is_at(words: &[u32]) -> bool {
        words.split_first().is_some_and(|(head, rest)| {
            let width = WIDTHS.get((head & ((1 << CODE_BITS) - 1)) as usize);
            width.is_some_and(|&width| ((head >> CODE_BITS) as usize * width as usize).div_ceil(32) <= rest.len())
        })
    }

    pub fn len(self) -> usize {
        self.length
    }

    /// The number at `index`.
    #[inline]
    pub fn get(self, index: usize) -> u32 {
        if self.width == 0 {
            return 0;
        }
        let bit = index * self.width as usize;
        let mask = u32::MAX >> (u32::BITS - self.width);
        self.words[bit / 32] >> (bit % 32) & mask
    }

    /// All of them in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        (0..self.length).map(move |index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_width_are_read_as_they_were_written() {
        let lists: [&[u32]; 8] =
            [&[], &[0, 0, 0], &[1, 0, 1], &[3, 1, 2], &[15; 9], &[255, 7], &[65_535, 0, 9], &[u32::MAX, 0]];
        let mut words = Vec::new();
        lists.iter().for_each(|list| push(&mut words, list.iter().copied()));
        let mut rest = words.as_slice();
        for list in lists {
            let (read, after) = Numbers::split(rest);
            assert_eq!((read.iter().collect::<Vec<_>>(), read.len()), (list.to_vec(), list.len()));
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn small_numbers_take_few_words() {
        let words_of = |numbers: Vec<u32>| {
            let mut words = Vec::new();
            push(&mut words, numbers.into_iter());
            words.len()
        };
        assert_eq!([words_of(vec![0; 100]), words_of(vec![1; 32]), words_of(vec![3; 32])], [1, 2, 3]);
        assert_eq!([words_of(vec![200; 4]), words_of(vec![200; 5])], [2, 3]);
    }
}
