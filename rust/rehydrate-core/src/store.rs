//! Memories in one SQLite file: items of many namespaces, written safely, found fast.
//!
//! ```text
//! facade        the store as callers see it           search, verify: what else they ask for
//! connections   one writer, a few readers, patience   use_count: nothing crosses a fork
//!   schema      tables and versions                   problem: errors with path and remedy
//!   write, limits, purge | read, scan, snippet        each within one transaction
//!   threads     append-only logs of conversations
//! segments      index files                           builder: makes and merges them; background: its thread
//!   index_snapshot  a namespace's index in memory     index_cache: of all that are in use
//! ```
//! The file is the truth. An acknowledged write survives the process and the machine; several threads and processes use
//! one store at once. Indexes are made from the truth and can always be made again: damage in them never shows.
mod background;
mod builder;
mod connections;
mod database_file;
mod facade;
mod files;
mod index_cache;
mod index_snapshot;
mod item;
mod limits;
mod namespace;
mod notes;
mod patience;
mod problem;
mod purge;
mod read;
mod scan;
mod schema;
mod search;
mod segments;
mod server;
mod snippet;
mod threads;
mod use_count;
mod verify;
mod write;

pub use background::settle;
pub use facade::{Additions, DEFAULT_INDEX_BYTES, Options, Store};
pub use item::{Added, Filter, Item, Link, MAX_NAME_BYTES, NewItem, Tier, handle_for, verify_name};
pub use limits::{Candidate, Limits, beyond};
pub use purge::Purge;
pub use read::{Page, Paging};
pub use scan::{Scan, is_scan};
pub use search::{Hit, Near, SearchRequest};
pub use server::{indexed_words, is_server_url, name_number, shown_url};
pub use snippet::snippet;
pub use threads::{Record, ThreadInfo, thread_conflict, verify_time};
pub use use_count::{ForkGuard, guard_fork};
pub use verify::{Report, Stats};
