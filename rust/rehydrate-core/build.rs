//! Writes the vocabulary tables of `src/tokens/vocabulary.rs` from the data inside the `bpe-openai` crate.

#[path = "src/tokens/layout.rs"]
#[allow(dead_code, reason = "what reads a table is not needed to write it")]
mod layout;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokens/layout.rs");
    write_tables("o200k_base", bpe_openai::o200k_base(), 19);
    write_tables("cl100k_base", bpe_openai::cl100k_base(), 18);
}

/// Writes `{name}.bytes`, the tokens one after the other by rank, and `{name}.slots`, the hash table over them.
fn write_tables(name: &str, tokenizer: &bpe_openai::Tokenizer, slot_bits: u32) {
    let mut bytes = Vec::new();
    let mut slots = vec![0u64; 1 << slot_bits];
    for rank in 0..tokenizer.bpe.num_tokens() as u32 {
        let token = tokenizer.bpe.token_bytes(rank);
        let hash = layout::hash(token);
        let mut index = layout::first_slot(hash, slot_bits);
        while slots[index] != 0 {
            index = (index + 1) & (slots.len() - 1);
        }
        slots[index] = layout::pack(rank, bytes.len(), token.len(), hash);
        bytes.extend_from_slice(token);
    }
    // A token may be compared by sixteen bytes at once: nothing is read after the end.
    bytes.extend_from_slice(&[0; 16]);

    let directory = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let slots: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
    std::fs::write(directory.join(format!("{name}.bytes")), bytes).expect("OUT_DIR is writable");
    std::fs::write(directory.join(format!("{name}.slots")), slots).expect("OUT_DIR is writable");
}
