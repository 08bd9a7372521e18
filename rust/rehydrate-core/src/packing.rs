//! Packing into a token budget, and the repair of the first kept turn.
mod bucket_queue;
pub(crate) mod feature_lists;
pub(crate) mod first_turn_repair;
pub(crate) mod pack;

pub use feature_lists::FeatureLists;
pub use first_turn_repair::repair_first_turn;
pub use pack::{
    Blocks, Packing, Problem, pack_coverage, pack_coverage_with_blocks, pack_greedy, pack_greedy_with_blocks,
};
