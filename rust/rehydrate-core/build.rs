//! Writes the vocabulary tables of `src/tokens/vocabulary.rs` from `vocabularies/`, and the trie over the built-in
//! model's vocabulary.

use std::path::PathBuf;

#[path = "src/tokens/layout.rs"]
#[allow(dead_code, reason = "what reads a table is not needed to write it")]
mod layout;

#[path = "src/embed/wordpiece/trie.rs"]
#[allow(dead_code, reason = "what reads a trie is not needed to write it")]
mod trie;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokens/layout.rs");
    println!("cargo::rerun-if-changed=src/embed/wordpiece/trie.rs");
    println!("cargo::rerun-if-changed=model/vocab.txt");
    write_trie();
    write_tables("o200k_base", 19);
    write_tables("cl100k_base", 18);
}

/// Writes `{name}.bytes`, the tokens one after the other by rank, and `{name}.slots`, the hash table over them, from
/// `vocabularies/{name}.bin`: each token by rank, its length in a byte before it.
fn write_tables(name: &str, slot_bits: u32) {
    let path = format!("vocabularies/{name}.bin");
    println!("cargo::rerun-if-changed={path}");
    let vocabulary = std::fs::read(path).expect("the package has the vocabulary");
    let (mut bytes, mut slots) = (Vec::new(), vec![0u64; 1 << slot_bits]);
    let (mut rest, mut rank) = (vocabulary.as_slice(), 0);
    while let Some((&len, tail)) = rest.split_first() {
        let (token, tail) = tail.split_at(len.into());
        let hash = layout::hash(token);
        let mut index = layout::first_slot(hash, slot_bits);
        while slots[index] != 0 {
            index = (index + 1) & (slots.len() - 1);
        }
        slots[index] = layout::pack(rank, bytes.len(), token.len(), hash);
        bytes.extend_from_slice(token);
        (rest, rank) = (tail, rank + 1);
    }
    // A token may be compared by sixteen bytes at once: nothing is read after the end.
    bytes.extend_from_slice(&[0; 16]);

    let slots: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
    write(&format!("{name}.bytes"), &bytes);
    write(&format!("{name}.slots"), &slots);
}

/// Writes `wordpiece.rs`: the trie's nodes, the id of unknown words and the number of tokens.
fn write_trie() {
    let vocab = std::fs::read_to_string("model/vocab.txt").expect("the package has the model");
    let (mut starting, mut continuing, mut unknown) = (Vec::new(), Vec::new(), None);
    for (token, id) in vocab.lines().map(str::trim_end).zip(0_u16..) {
        match token.strip_prefix("##") {
            Some(rest) => continuing.push((rest.as_bytes(), id)),
            None => starting.push((token.as_bytes(), id)),
        }
        unknown = unknown.or((token == "[UNK]").then_some(id));
    }
    starting.sort_unstable();
    continuing.sort_unstable();
    let (size, unknown) = (starting.len() + continuing.len(), unknown.expect("the vocabulary has [UNK]"));
    let trie = trie::Trie::new(&starting, &continuing);
    let (nodes, number) = (trie.nodes(), trie.nodes().len());
    let source = format!(
        "pub const VOCAB_SIZE: usize = {size};\npub const UNKNOWN: u16 = {unknown};\n\
         pub static NODES: [u64; {number}] = {nodes:?};\n"
    );
    write("wordpiece.rs", source.as_bytes());
}

fn write(name: &str, content: &[u8]) {
    let directory = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(directory.join(name), content).expect("OUT_DIR is writable");
}
