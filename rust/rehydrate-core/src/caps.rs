//! Tool results shown in part: long ones by their kind (JSON, log, diff, code, text), repeated ones without the
//! repeated lines.
mod code;
pub(crate) mod code_points;
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
mod references;
mod seen_lines;
mod shown;

pub use code_points::{code_points, decoded, encoded, grouped, lossy};
pub use cut::{Capped, Options, cap, fair_share};
pub use json::{Member, NotJson, json_members};
pub(crate) use json::{member_text, strings_in};
pub use kinds::{Kind, kind_of};
pub use references::{Reference, with_references};
pub use seen_lines::{Repeat, SeenLines};
pub(crate) use shown::CachedShown;
pub use shown::{Shown, notice};
