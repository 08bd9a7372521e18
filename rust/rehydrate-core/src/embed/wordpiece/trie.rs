//! A double-array trie over the vocabulary's bytes: the longest token that a word starts with.
//!
//! The child of a node by byte `b` is the slot `node.base ^ b`, if that slot's label is `b`. No two nodes have the same
//! base, so a label says for certain whose child a slot is.
//!
//! The build script makes that of the built-in model's vocabulary with this module.
use std::borrow::Cow;

/// The tokens to look for: those that start a word, or those written with `##`, that continue one.
#[derive(Clone, Copy)]
pub enum Root {
    Starting = 0,
    Continuing = 1,
}

pub struct Trie {
    nodes: Cow<'static, [u64]>,
}

/// Eight bytes when packed, so that a step costs one cache line at most.
#[derive(Clone, Copy)]
struct Node {
    base: u32,
    label: u16,
    id: u16,
}

impl Node {
    #[inline(always)]
    const fn packed(self) -> u64 {
        self.base as u64 | (self.label as u64) << 32 | (self.id as u64) << 48
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the parts of a word")]
    const fn unpacked(word: u64) -> Self {
        Self { base: word as u32, label: (word >> 32) as u16, id: (word >> 48) as u16 }
    }
}

const NO_ID: u16 = u16::MAX;
/// No byte: the label of the roots and of slots not in use.
const NO_LABEL: u16 = u16::MAX;
/// A base and its children are in the same block, as exclusive or changes the lowest eight bits only.
const BLOCK: usize = 256;

impl Trie {
    /// Builds the trie from tokens and their ids, below `u16::MAX`, each list sorted and without repetition.
    pub fn new(starting: &[(&[u8], u16)], continuing: &[(&[u8], u16)]) -> Trie {
        let mut builder = Builder::new();
        // Breadth first: the nodes near the roots, which every word passes, are close together.
        let mut level = vec![(Root::Starting as usize, starting), (Root::Continuing as usize, continuing)];
        let mut depth = 0;
        let mut labels = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::with_capacity(level.len());
            for (node, mut tokens) in level {
                if let [(token, id), longer @ ..] = tokens
                    && token.len() == depth
                {
                    builder.nodes[node].id = *id;
                    tokens = longer;
                }
                if tokens.is_empty() {
                    continue;
                }
                let families = tokens.chunk_by(|a, b| a.0[depth] == b.0[depth]);
                labels.clear();
                labels.extend(families.clone().map(|family| family[0].0[depth]));
                let base = builder.place(&labels);
                builder.nodes[node].base = base as u32;
                next.extend(families.zip(&labels).map(|(family, &label)| (base ^ usize::from(label), family)));
            }
            level = next;
            depth += 1;
        }
        Trie { nodes: builder.nodes.into_iter().map(Node::packed).collect() }
    }

    /// The trie with these nodes.
    pub const fn with_nodes(nodes: &'static [u64]) -> Trie {
        Trie { nodes: Cow::Borrowed(nodes) }
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[u64] {
        &self.nodes
    }

    /// The id and the length in bytes of the longest token that `word` starts with.
    #[inline]
    pub fn longest_prefix(&self, root: Root, word: &[u8]) -> Option<(u16, usize)> {
        let mut longest = None;
        let nodes = self.nodes();
        let mut base = Node::unpacked(nodes[root as usize]).base as usize;
        for (&byte, len) in word.iter().zip(1..) {
            let node = nodes.get(base ^ usize::from(byte)).map(|&word| Node::unpacked(word));
            let Some(node) = node.filter(|node| node.label == u16::from(byte)) else {
                break;
            };
            if node.id != NO_ID {
                longest = Some((node.id, len));
            }
            base = node.base as usize;
        }
        longest
    }
}

/// Finds room for families of children.
struct Builder {
    nodes: Vec<Node>,
    /// For each slot, whether some node has it for a base.
    is_base: Vec<bool>,
    /// For each block, a bit for every slot that is free.
    free: Vec<[u64; BLOCK / 64]>,
}

impl Builder {
    /// The number of blocks that are searched for room before a new one is added. With more, the table is denser and
    /// slower to build.
    const OPEN_BLOCKS: usize = 2;

    /// The first block holds the roots, and base 0, which the leaves have: no other node may be there.
    fn new() -> Builder {
        let mut builder = Builder { nodes: Vec::new(), is_base: Vec::new(), free: Vec::new() };
        builder.add_block();
        builder.free[0] = [0; BLOCK / 64];
        builder
    }

    fn add_block(&mut self) {
        let len = self.nodes.len() + BLOCK;
        self.nodes.resize(len, Node { base: 0, label: NO_LABEL, id: NO_ID });
        self.is_base.resize(len, false);
        self.free.push([u64::MAX; BLOCK / 64]);
    }

    /// Takes the slots of children with these labels, and returns their parent's base.
    fn place(&mut self, labels: &[u8]) -> usize {
        let base = loop {
            let first = self.free.len().saturating_sub(Self::OPEN_BLOCKS);
            if let Some(base) = (first..self.free.len()).find_map(|block| self.find_base(block, labels)) {
                break base;
            }
            self.add_block();
        };
        self.is_base[base] = true;
        for &label in labels {
            let slot = base ^ usize::from(label);
            self.nodes[slot].label = u16::from(label);
            self.free[slot / BLOCK][slot % BLOCK / 64] &= !(1 << (slot % 64));
        }
        base
    }

    /// A base in `block` that no node has and all of whose children by `labels` are free.
    fn find_base(&self, block: usize, labels: &[u8]) -> Option<usize> {
        let is_free = |slot: usize| self.free[block][slot % BLOCK / 64] >> (slot % 64) & 1 == 1;
        for (word, &bits) in self.free[block].iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let slot = block * BLOCK + word * 64 + bits.trailing_zeros() as usize;
                let base = slot ^ usize::from(labels[0]);
                if !self.is_base[base] && labels[1..].iter().all(|&label| is_free(base ^ usize::from(label))) {
                    return Some(base);
                }
                bits &= bits - 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_wins_and_the_two_roots_do_not_mix() {
        let trie = Trie::new(&[(b"a", 0), (b"abc", 1), (b"b", 2)], &[(b"ab", 3), (b"bc", 4)]);
        assert_eq!(trie.longest_prefix(Root::Starting, b"abcd"), Some((1, 3)));
        assert_eq!(trie.longest_prefix(Root::Starting, b"abd"), Some((0, 1)));
        assert_eq!(trie.longest_prefix(Root::Continuing, b"abd"), Some((3, 2)));
        assert_eq!(trie.longest_prefix(Root::Continuing, b"b"), None);
        assert_eq!(trie.longest_prefix(Root::Starting, b"\0\xFF"), None);
        assert_eq!(trie.longest_prefix(Root::Starting, b""), None);
    }

    #[test]
    fn every_token_is_found_and_none_that_was_not_put_in() {
        let tokens: Vec<String> = (0..5_000u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        let mut sorted: Vec<(&[u8], u16)> = tokens.iter().map(|token| token.as_bytes()).zip(0..).collect();
        sorted.sort_unstable();
        let trie = Trie::new(&sorted, &[]);
        for (token, id) in sorted {
            assert_eq!(trie.longest_prefix(Root::Starting, token), Some((id, token.len())));
            assert_eq!(trie.longest_prefix(Root::Continuing, token), None);
        }
    }
}
