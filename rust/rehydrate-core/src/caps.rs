//! Caps of tool results: a long one is shown in part, by its kind: JSON, log, diff, code, text.
mod code;
mod code_points;
mod cut;
mod diff;
mod json;
mod json_lines;
mod json_values;
mod kinds;
mod lines;
mod list;
mod log;
mod matches;
mod patterns;

pub use code_points::{code_points, lossy};
pub use cut::{Capped, Options, cap, fair_share};
pub use kinds::{Kind, kind_of};
