//! The `rehydrate._native` module: converts, detaches, maps errors; no loop that computes.
mod answers;
mod arrow;
mod caps;
mod checks;
mod context_store;
mod convert;
mod decision;
mod division;
mod docstring;
mod document;
mod door;
mod errors;
mod excerpts;
mod exchanges;
mod exit;
mod fences;
mod fork;
mod free_names;
mod home;
mod interned;
mod item_index;
mod json_rows;
mod json_stream;
mod langgraph;
mod layout;
mod linting;
mod memory_files;
mod model_names;
mod notes;
mod onnx;
mod options;
mod originals;
mod outline;
mod parting;
mod passages;
mod plain;
mod prepared;
mod prompt;
mod prompt_cache;
mod questions;
mod reading;
mod redact;
mod relevance;
mod request_body;
mod retention;
mod retrieval;
mod schema;
mod scoring;
mod server_text;
mod sessions;
mod store;
mod telemetry;
mod terminal;
mod thread_log;
mod times;
mod tokens;
mod tool_arguments;
mod unicode;
mod writing;

use pyo3::prelude::*;

/// The Rust core, for the package: private.
///
/// The free-threaded interpreter may stay so: classes are frozen (but those that one reader fills: `AnswerJoiner`, `Bill`,
/// `EventDecoder`, `Replies`), shared values are in locks, in atomics or written once, and nothing counts on one thread
/// at a time.
#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::answers::{
        AnswerJoiner, Bill, EventDecoder, Replies, error_event, error_from_body, is_answer, provider_error,
        read_answer, reported_in,
    };
    #[pymodule_export]
    use super::arrow::{ArrowColumns, ArrowReader, ArrowRows, ArrowStream, ArrowTable, set_alone};
    #[pymodule_export]
    use super::caps::{cap_text, fair_share};
    #[pymodule_export]
    use super::checks::{
        check_choice, check_known, check_list, check_methods, check_path, check_share, check_timeout, check_type,
        check_whole, refuse_copy, shown,
    };
    #[pymodule_export]
    use super::context_store::{
        Activity, Applied, ContextStore, Item, Operation, Span, fenced, proposal_prompt, summary_prompt,
        transcript_lines,
    };
    #[pymodule_export]
    use super::convert::is_short_to_add;
    #[pymodule_export]
    use super::decision::{Decision, Explanation, block_runs, short_reason, span};
    #[pymodule_export]
    use super::division::{Division, divide, mark};
    #[pymodule_export]
    use super::docstring::parsed_docstring;
    #[pymodule_export]
    use super::document::{Document, file_text};
    #[pymodule_export]
    use super::door::{end_to_end, is_own_request, refused_request};
    #[pymodule_export]
    use super::excerpts::{DivisibleTexts, Excerpts, compared_texts};
    #[pymodule_export]
    use super::exchanges::{RequestItem, in_blocks, with_exchanges};
    #[pymodule_export]
    use super::exit::before_exit;
    #[pymodule_export]
    use super::fences::fence_tags;
    #[pymodule_export]
    use super::fork::{after_fork, before_fork};
    #[pymodule_export]
    use super::free_names::FreeNames;
    #[pymodule_export]
    use super::item_index::{ItemIndex, beyond_limits, handles, snippets};
    #[pymodule_export]
    use super::json_rows::{JsonMessages, cell_text, json_row};
    #[pymodule_export]
    use super::json_stream::JsonStream;
    #[pymodule_export]
    use super::langgraph::{meets_filter, namespace_fits, value_text};
    #[pymodule_export]
    use super::layout::{Layout, check_columns, check_indices, prompt_break, shown_messages};
    #[pymodule_export]
    use super::linting::{Subject, Text, is_request, lint, lint_rules, system_and_tools};
    #[pymodule_export]
    use super::memory_files::{memory_command, memory_stale, memory_texts, memory_tool};
    #[pymodule_export]
    use super::model_names::{answering_model, is_regional, known_name, provider_of};
    #[pymodule_export]
    use super::notes::{chunks, note_pieces, refusal, split_front_matter};
    #[pymodule_export]
    use super::onnx::{OnnxModel, close_onnx, isa, open_onnx};
    #[pymodule_export]
    use super::options::{checked_budget, checked_memory, checked_query, checked_ratio, pinned_indices};
    #[pymodule_export]
    use super::originals::{HeldOriginals, handle_of_text};
    #[pymodule_export]
    use super::outline::{
        NameIndex, check_outline, fenced_outline, names, outline_slot, outline_tokens, read_fenced_outline,
        read_outline, write_outline,
    };
    #[pymodule_export]
    use super::parting::Parted;
    #[pymodule_export]
    use super::passages::{Passages, TextIndex, describe_page, line_numbers, line_span, page_end, passage_excerpt};
    #[pymodule_export]
    use super::plain::{plain, plain_at};
    #[pymodule_export]
    use super::prepared::{Prepared, Selection, embed, message_tokens};
    #[pymodule_export]
    use super::prompt::{
        PromptRecords, broken_laws, check_provenance, check_section, checked_found, deduplicated, explanation_text,
        heading_tokens, late_tokens, ordered_sections, placed_breakpoints, prompt_changes, prompt_rows, spliced,
        with_items,
    };
    #[pymodule_export]
    use super::prompt_cache::PromptCache;
    #[pymodule_export]
    use super::questions::weighted_query;
    #[pymodule_export]
    use super::reading::{
        Conversation, Echoes, PrefixBinding, RowHashes, ShortenedText, as_dicts, as_sequence, billed_usage,
        broken_rules, capped_results, check_own, detect_format, differing_texts, entries_of, entries_without_thinking,
        entry_inputs, first_kept, format_of, has_claudes_thinking, head_and_tail, is_langchain_message, json_object,
        last_compaction, long_results, marks_in, merged_lines, named_format, notice, read, read_entries, read_places,
        repeated, replace_texts, result_texts, stale_thinking, taken_back, transcript_branch, unit_memory, unit_text,
        unmarked, without_calls, without_stale_thinking, without_thinking,
    };
    #[pymodule_export]
    use super::redact::{redact_inside, redacted_text, secret_kinds, secrets};
    #[pymodule_export]
    use super::relevance::{checked_relevance, hit_relevance, relevant_hits};
    #[pymodule_export]
    use super::request_body::RequestBody;
    #[pymodule_export]
    use super::retention::{
        Needs, best_cover, binding_instructions, count_messages, cover, has_calls, instructions_kept, is_summary,
        is_turn_kept, lines_in, lost_names, names_in, needs_after, payload, role_of, session_values, steps, text_of,
        tool_inputs, user_text, without_marks,
    };
    #[pymodule_export]
    use super::retrieval::{FetchArguments, fenced_items, fetch_arguments, request_arguments};
    #[pymodule_export]
    use super::schema::Schema;
    #[pymodule_export]
    use super::scoring::Scoring;
    #[pymodule_export]
    use super::server_text::{read_server_text, server_text};
    #[pymodule_export]
    use super::sessions::{
        SessionFile, SessionOutline, SessionPart, SessionRecord, TranscriptReader, clean_text, known_ancestor,
        last_summary, last_turns, put_back, read_session, said_entries, said_in, settings_with_hooks,
        settings_without_hooks, transcripts, used_names, words_of_user,
    };
    #[pymodule_export]
    use super::store::LocalStore;
    #[pymodule_export]
    use super::store::checks::{
        as_items, check_item, checked_filters, checked_fusion, checked_handles, checked_limit, checked_namespace,
        checked_purge, checked_tier, resolve_namespace,
    };
    #[pymodule_export]
    use super::store::server::{
        check_server_name, is_scan, is_server_url, scanned, server_items, server_rows, server_words, shown_url,
    };
    #[pymodule_export]
    use super::store::threads::{LocalThreads, check_record_time, check_thread_records};
    #[pymodule_export]
    use super::telemetry::{provider_name, span_attributes, span_texts, usage_attributes};
    #[pymodule_export]
    use super::terminal::{hit_lines, paragraphs, safe_line, visible_text};
    #[pymodule_export]
    use super::thread_log::{
        counting_records, exported_lines, folded_records, kept_values, prompt_digest, redacted_records, state_content,
    };
    #[pymodule_export]
    use super::times::{describe, parse_time_range, zone_of};
    #[pymodule_export]
    use super::tokens::{
        cache_limit, cache_vectors, cached_bytes, cached_vectors, check_counter, clear_cache, count, counter_name,
        counts, set_cache_limit,
    };
    #[pymodule_export]
    use super::tool_arguments::ToolArguments;
    #[pymodule_export]
    use super::unicode::{as_unicode, unicode_inside};
    #[pymodule_export]
    use super::writing::{
        call_result, chat_entries, langchain_fields, langchain_to_openai, marked, own_entries, own_entry, read_call,
        read_tool, render_entries, repaired_entries, result_entries, scripted_reply, seen_as_chat, summary_message,
        tool_definition, ui_messages, user_message,
    };

    use super::*;

    /// glibc gives the top of its heap back to the system at each `free` while that is over 128 KB, or over twice the
    /// largest block that was mapped by itself and freed. A selection takes and frees a megabyte or two, whose pages
    /// the system would have to clear again each time (a sixth of a warm call). After one such block, never touched, it
    /// keeps 4 MB.
    const FREED_ONCE: usize = 2 << 20;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(FREED_ONCE)));
        home::settle(module.py())?;
        module.add("SHORTEST_QUOTE", prompt::SHORTEST_QUOTE)?;
        module.add("CACHE_BYTES", rehydrate_core::engine::DEFAULT_CACHE_BYTES)?;
        module.add("NOT_INSTRUCTIONS", rehydrate_core::context_store::NOT_INSTRUCTIONS)?;
        module.add("REDACTED", rehydrate_core::thread_log::REDACTED)?;
        module.add("REMAINDER_PREFIX", retrieval::REMAINDER_PREFIX)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
