"""Types of the Rust module; kept true by stubtest."""

import builtins
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from datetime import datetime, tzinfo
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, Unpack, final

from typing_extensions import disjoint_base

from rehydrate._engine import CounterName
from rehydrate.agent.model import Stop
from rehydrate.compact.options import ProfileName
from rehydrate.compact.outline import OutlineName, OutlineSize
from rehydrate.compact.result import BlockReport, ChangedEntry, Dropped, UnitReport
from rehydrate.compact.signals import Vectors as ModelVectors, WeightedQuery
from rehydrate.context.context_store import Heading, Status
from rehydrate.context.history import Entries, PromptState
from rehydrate.context.tool_calls import Scope
from rehydrate.cost.prefix import Why
from rehydrate.cost.prices import Price, Usage
from rehydrate.errors import ProviderError, Violation
from rehydrate.formats.calls import CallFormat
from rehydrate.formats.rendering import RenderedMessage
from rehydrate.formats.thinking import ThinkingModel
from rehydrate.memory.folder import Chunk
from rehydrate.memory.items import (
    Added,
    Filters,
    Fusion,
    Hit,
    ItemFields,
    MemoryItem,
    MemoryLimits,
    MemoryStats,
    Recalled,
    Tier,
    Vectors,
    VerifyReport,
)
from rehydrate.memory.store import ThreadRow
from rehydrate.messages import FormatName, Message, PieceKind, Provider, Unit
from rehydrate.prompt.ir import CompiledPrompt, Segment
from rehydrate.prompt.originals import About
from rehydrate.prompt.reports import Change, PromptExplanation, PromptRow, Why as PartWhy
from rehydrate.prompt.request import Budget, ProviderPolicy, TimeRange
from rehydrate.prompt.section import DroppedSection, Section
from rehydrate.prompt.sources.source import Found
from rehydrate.prompt.splicing import Match

__all__ = [
    "CACHE_BYTES",
    "NOT_INSTRUCTIONS",
    "REDACTED",
    "REMAINDER_PREFIX",
    "SHORTEST_QUOTE",
    "Activity",
    "AnswerJoiner",
    "Applied",
    "ArrowColumns",
    "ArrowReader",
    "ArrowRows",
    "ArrowStream",
    "ArrowTable",
    "Bill",
    "ContextStore",
    "Conversation",
    "Decision",
    "DivisibleTexts",
    "Division",
    "Document",
    "Echoes",
    "EventDecoder",
    "Excerpts",
    "Explanation",
    "FetchArguments",
    "FreeNames",
    "HeldOriginals",
    "Item",
    "ItemIndex",
    "JsonMessages",
    "JsonStream",
    "Layout",
    "LocalStore",
    "LocalThreads",
    "NameIndex",
    "Needs",
    "OnnxModel",
    "Operation",
    "Parted",
    "Passages",
    "PrefixBinding",
    "Prepared",
    "PromptCache",
    "PromptRecords",
    "Replies",
    "RequestBody",
    "RequestItem",
    "RowHashes",
    "Schema",
    "Scoring",
    "Selection",
    "SessionFile",
    "SessionOutline",
    "SessionPart",
    "SessionRecord",
    "ShortenedText",
    "Span",
    "Subject",
    "Text",
    "TextIndex",
    "ToolArguments",
    "TranscriptReader",
    "__version__",
    "after_fork",
    "answering_model",
    "as_dicts",
    "as_items",
    "as_sequence",
    "as_unicode",
    "before_exit",
    "before_fork",
    "best_cover",
    "beyond_limits",
    "billed_usage",
    "binding_instructions",
    "block_runs",
    "broken_laws",
    "broken_rules",
    "cache_limit",
    "cache_vectors",
    "cached_bytes",
    "cached_vectors",
    "call_result",
    "cap_text",
    "capped_results",
    "cell_text",
    "chat_entries",
    "check_choice",
    "check_columns",
    "check_counter",
    "check_indices",
    "check_item",
    "check_known",
    "check_list",
    "check_methods",
    "check_outline",
    "check_own",
    "check_path",
    "check_provenance",
    "check_record_time",
    "check_section",
    "check_server_name",
    "check_share",
    "check_thread_records",
    "check_timeout",
    "check_type",
    "check_whole",
    "checked_budget",
    "checked_filters",
    "checked_found",
    "checked_fusion",
    "checked_handles",
    "checked_limit",
    "checked_memory",
    "checked_namespace",
    "checked_purge",
    "checked_query",
    "checked_ratio",
    "checked_relevance",
    "checked_tier",
    "chunks",
    "clean_text",
    "clear_cache",
    "close_onnx",
    "compared_texts",
    "count",
    "count_messages",
    "counter_name",
    "counting_records",
    "counts",
    "cover",
    "deduplicated",
    "describe",
    "describe_page",
    "detect_format",
    "differing_texts",
    "divide",
    "embed",
    "end_to_end",
    "entries_of",
    "entries_without_thinking",
    "entry_inputs",
    "error_event",
    "error_from_body",
    "explanation_text",
    "exported_lines",
    "fair_share",
    "fence_tags",
    "fenced",
    "fenced_items",
    "fenced_outline",
    "fetch_arguments",
    "file_text",
    "first_kept",
    "folded_records",
    "format_of",
    "handle_of_text",
    "handles",
    "has_calls",
    "has_claudes_thinking",
    "head_and_tail",
    "heading_tokens",
    "hit_lines",
    "hit_relevance",
    "in_blocks",
    "instructions_kept",
    "is_answer",
    "is_langchain_message",
    "is_own_request",
    "is_regional",
    "is_request",
    "is_scan",
    "is_server_url",
    "is_short_to_add",
    "is_summary",
    "is_turn_kept",
    "isa",
    "json_object",
    "json_row",
    "kept_values",
    "known_ancestor",
    "known_name",
    "langchain_fields",
    "langchain_to_openai",
    "last_compaction",
    "last_summary",
    "last_turns",
    "late_tokens",
    "line_numbers",
    "line_span",
    "lines_in",
    "lint",
    "lint_rules",
    "long_results",
    "lost_names",
    "mark",
    "marked",
    "marks_in",
    "meets_filter",
    "memory_command",
    "memory_stale",
    "memory_texts",
    "memory_tool",
    "merged_lines",
    "message_tokens",
    "named_format",
    "names",
    "names_in",
    "namespace_fits",
    "needs_after",
    "note_pieces",
    "notice",
    "open_onnx",
    "ordered_sections",
    "outline_slot",
    "outline_tokens",
    "own_entries",
    "own_entry",
    "page_end",
    "paragraphs",
    "parse_time_range",
    "parsed_docstring",
    "passage_excerpt",
    "payload",
    "pinned_indices",
    "placed_breakpoints",
    "plain",
    "plain_at",
    "prompt_break",
    "prompt_changes",
    "prompt_digest",
    "prompt_rows",
    "proposal_prompt",
    "provider_error",
    "provider_name",
    "provider_of",
    "put_back",
    "read",
    "read_answer",
    "read_call",
    "read_entries",
    "read_fenced_outline",
    "read_outline",
    "read_places",
    "read_server_text",
    "read_session",
    "read_tool",
    "redact_inside",
    "redacted_records",
    "redacted_text",
    "refusal",
    "refuse_copy",
    "refused_request",
    "relevant_hits",
    "render_entries",
    "repaired_entries",
    "repeated",
    "replace_texts",
    "reported_in",
    "request_arguments",
    "resolve_namespace",
    "result_entries",
    "result_texts",
    "role_of",
    "safe_line",
    "said_entries",
    "said_in",
    "scanned",
    "scripted_reply",
    "secret_kinds",
    "secrets",
    "seen_as_chat",
    "server_items",
    "server_rows",
    "server_text",
    "server_words",
    "session_values",
    "set_alone",
    "set_cache_limit",
    "settings_with_hooks",
    "settings_without_hooks",
    "short_reason",
    "shown",
    "shown_messages",
    "shown_url",
    "snippets",
    "span",
    "span_attributes",
    "span_texts",
    "spliced",
    "split_front_matter",
    "stale_thinking",
    "state_content",
    "steps",
    "summary_message",
    "summary_prompt",
    "system_and_tools",
    "taken_back",
    "text_of",
    "tool_definition",
    "tool_inputs",
    "transcript_branch",
    "transcript_lines",
    "transcripts",
    "ui_messages",
    "unicode_inside",
    "unit_memory",
    "unit_text",
    "unmarked",
    "usage_attributes",
    "used_names",
    "user_message",
    "user_text",
    "value_text",
    "visible_text",
    "weighted_query",
    "with_exchanges",
    "with_items",
    "without_calls",
    "without_marks",
    "without_stale_thinking",
    "without_thinking",
    "words_of_user",
    "write_outline",
    "zone_of",
]

_Place = tuple[int, int]

__version__: str

# The label in the fence of content that is not fully trusted.
NOT_INSTRUCTIONS: str
# The beginning of the handles of sections that an answer had no room for.
REMAINDER_PREFIX: str
# What a redaction leaves in place of a text.
REDACTED: str

# Characters. A shorter text may be in another word for word by chance.
SHORTEST_QUOTE: int

# A conversation in a text: its entries, and their places. It raises InvalidArgumentError for a text
# without one.
@final
class Document:
    def __new__(cls, name: str, text: str) -> Document: ...
    @property
    def name(self) -> str: ...
    @property
    def entries(self) -> list[Any]: ...
    # The other keys of the object around the messages.
    @property
    def around(self) -> tuple[str, ...]: ...
    # Whether each entry has lines of its own.
    @property
    def is_lines(self) -> bool: ...
    def texts(self) -> list[str]: ...
    # The line on which an entry begins, from 1.
    def line_of(self, index: int) -> int: ...
    # The text with only these entries in it, in this order, and new ones in place of those in
    # `changed`; with all of them, the same text.
    def keep(self, indices: Sequence[int], changed: Mapping[int, Any] = ...) -> str: ...

# The text of a file; InvalidArgumentError for other bytes.
def file_text(data: bytes, name: str) -> str: ...

@final
class Conversation:
    def __new__(
        cls,
        format: str,  # noqa: A002  the field's word
        messages: tuple[Message, ...],
        units: tuple[Unit, ...] | None = None,
        ignored: Sequence[int] = ...,
        user_first: bool = False,
        bound: Sequence[int] = ...,
    ) -> Conversation: ...
    def replace(
        self,
        *,
        ignored: Sequence[int] | None = None,
        user_first: bool | None = None,
        bound: Sequence[int] | None = None,
        opening: Sequence[int] | None = None,
        unknown: dict[str, int] | None = None,
    ) -> Conversation: ...
    def with_messages(self, messages: Mapping[int, Message]) -> Conversation: ...
    def followed_by(self, other: Conversation, start: int) -> Conversation | None: ...
    def light(self) -> Conversation: ...
    def light_indices(self, start: int) -> list[int]: ...
    def messages_from(self, start: int) -> tuple[Message, ...]: ...
    def __contains__(self, index: int, /) -> bool: ...
    def repeats_calls(self) -> bool: ...
    def answers(self) -> list[tuple[str, int]]: ...
    def renumbered(self, indices: Sequence[int]) -> Conversation: ...
    def without(self, indices: Iterable[int]) -> Conversation: ...
    @property
    def format(self) -> str: ...
    @property
    def ignored(self) -> tuple[int, ...]: ...
    @property
    def user_first(self) -> bool: ...
    @property
    def bound(self) -> tuple[int, ...]: ...
    @property
    def opening(self) -> tuple[int, ...]: ...
    @property
    def unknown(self) -> dict[str, int]: ...
    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def units(self) -> tuple[Unit, ...]: ...
    @property
    def message_count(self) -> int: ...
    @property
    def unit_count(self) -> int: ...
    @property
    def indices(self) -> list[int]: ...
    @property
    def roles(self) -> list[str]: ...
    def message(self, at: int) -> Message: ...
    def texts(self) -> list[str]: ...
    def kept_messages(self, kept_units: Sequence[bool]) -> list[bool]: ...
    def lone_texts(self, beginning: str) -> list[tuple[int, str]]: ...
    def uncommon_indices(self) -> list[int]: ...
    def thoughtful_indices(self) -> list[int]: ...
    def last_user_message(self) -> Message | None: ...
    def last_user_text(self) -> str: ...
    def answered_reply(self) -> int | None: ...
    def pins(self, *, thoughts: bool = True) -> dict[int, str]: ...
    def kept_for_words(self) -> frozenset[int]: ...
    def unit_of(self) -> dict[int, int]: ...
    def units_holding(self, indices: Iterable[int]) -> list[int]: ...
    # Raises InvalidMessageError for the first message with a role that is neither a usual one nor
    # among `weighted`: it would belong to no turn and be dropped first.
    def check_speakers(self, weighted: Collection[str] | None = None) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[type[Conversation], tuple[Any, ...]]: ...

# A conversation's entries with parallel calls parted. A place is an index of this list, an origin
# one of the caller.
@final
class Parted:
    # None if no calls may be parted. `pinned` are indices of messages that stay whole.
    @staticmethod
    def of(
        conversation: Conversation, entries: Sequence[Any], pinned: Collection[int]
    ) -> Parted | None: ...
    # The same messages once more, read again.
    def again(self, conversation: Conversation, entries: Sequence[Any]) -> Parted | None: ...
    @property
    def format(self) -> str: ...
    @property
    def originals(self) -> Sequence[Any]: ...
    @property
    def entries(self) -> tuple[Any, ...]: ...
    # Place -> origin.
    @property
    def origins(self) -> tuple[int, ...]: ...
    # The places of messages of which only a part is there.
    @property
    def blocks(self) -> list[int]: ...
    # The origins that were parted: of a message and its results.
    @property
    def spans(self) -> list[tuple[int, int]]: ...
    def read(self) -> Conversation: ...
    def places(self, origins: Collection[int]) -> list[int]: ...
    # For each place, the whole message as it came in.
    def whole_entries(self) -> list[Any]: ...
    # The kept messages of which only a part is there, and their number; after them the same
    # messages joined.
    def both_ways(
        self, conversation: Conversation, kept: Sequence[bool]
    ) -> tuple[Conversation, int]: ...
    # The number of messages that are gone, and of those that are kept in part.
    def counts(self, conversation: Conversation, kept: Sequence[bool]) -> tuple[int, int]: ...
    # Origins and entries, with the kept parts joined. `outline` is the position of an outline and
    # its place; one between two parts of a message goes after its results.
    def merged(
        self, places: Sequence[int], entries: Sequence[Any], outline: tuple[int, int] | None
    ) -> tuple[list[int], list[Any], tuple[int, int] | None]: ...

@final
class Prepared:
    # `weight_of` is the weight of a role, 1 without it; `pinned` are the units that are always
    # kept, () for none. `asked` says that messages will be compared with a query, `recalled` with
    # memories. With `divisible` its texts are divided into blocks, which may be kept one by one; a
    # mark in a gap costs more with handles.
    def __new__(
        cls,
        conversation: Conversation,
        *,
        counter: str | Callable[[str], int],
        weight_of: Callable[[str], float] | None = None,
        pinned: Sequence[bool] = ...,
        embed: bool = False,
        calibrated: bool = False,
        coverage: bool = False,
        asked: bool = False,
        recalled: bool = False,
        divisible: DivisibleTexts | None = None,
        with_handles: bool = False,
    ) -> Prepared: ...
    @property
    def message_tokens(self) -> list[int]: ...
    @property
    def dim(self) -> int | None: ...
    def division(self, text: int) -> Division: ...
    # The divided messages, block by block, and the rest: a message each.
    def parts(self, conversation: Conversation) -> Conversation: ...
    def vectors(self) -> bytes: ...
    def rank(self, query: str) -> list[int]: ...
    # The relevance of each message, 0.0 for all if nothing is found, and the confidence.
    def relevances(self, query: str, vectors: ModelVectors | None) -> tuple[list[float], float]: ...
    def select(
        self,
        *,
        query: WeightedQuery | None,
        vectors: ModelVectors | None,
        memory_coverage: Sequence[float] | None,
        scoring: Scoring,
        reply: int | None,
        target_tokens: int,
    ) -> Selection: ...

@final
class Selection:
    @property
    def kept(self) -> list[bool]: ...
    @property
    def query_share(self) -> float: ...
    @property
    def pinned_tokens(self) -> int: ...
    @property
    def embedding(self) -> bool: ...
    def kept_blocks(self) -> list[bytes]: ...
    def blocks(self) -> list[list[tuple[int, float]]]: ...

# A selection, and the units and messages that it keeps.
@final
class Decision:
    def __new__(
        cls, conversation: Conversation, selection: Selection, message_tokens: Sequence[int]
    ) -> Decision: ...
    @property
    def conversation(self) -> Conversation: ...
    @property
    def selection(self) -> Selection: ...
    @property
    def message_tokens(self) -> list[int]: ...
    def kept_messages(self) -> list[bool]: ...
    # Each dropped unit, its tokens, and the share of it that memory covers.
    def dropped_units(self) -> list[tuple[int, int, float]]: ...
    # `reply`: the unit that the user answers. `cut`: the tokens of messages that are kept in part,
    # by position; `stripped`: those that a unit lost; `stale`: those that a message lost after
    # `first_change`, by index. `origins`: the indices in the caller's list, if calls were parted.
    def explanation(
        self,
        *,
        pins: Mapping[int, str],
        reply: int | None,
        target_tokens: int,
        by_coverage: bool,
        divided: tuple[Prepared, Conversation, Sequence[bytes], Mapping[int, str]] | None,
        cut: Mapping[int, int],
        stripped: Mapping[int, int],
        stale: Mapping[int, int],
        first_change: int | None,
        origins: Sequence[int] | None,
    ) -> Explanation: ...
    # `handles`: those in memory, by index of the message.
    def dropped(
        self,
        *,
        target_tokens: int,
        by_coverage: bool,
        handles: Mapping[int, str],
        origins: Sequence[int] | None,
    ) -> tuple[Dropped, ...]: ...

# The score of every unit and each of its signals: `str` of it is a table.
@final
class Explanation:
    def __new__(cls, units: tuple[UnitReport, ...]) -> Explanation: ...
    @property
    def units(self) -> tuple[UnitReport, ...]: ...
    def __iter__(self) -> Iterator[UnitReport]: ...
    def __len__(self) -> int: ...
    def to_dict(self) -> list[dict[str, Any]]: ...
    def _repr_html_(self) -> str: ...

# One block for each run of neighbours in one text that are all kept or all dropped; and `3`, `3-5`
# or, with gaps, `3..9`.
def block_runs(blocks: Sequence[BlockReport]) -> list[BlockReport]: ...
def span(indices: Sequence[int]) -> str: ...

# Options for scoring and packing units. The docstring in the module has the arguments.
@final
class Scoring:
    def __new__(
        cls,
        *,
        recency: float = 0.3,
        semantic: float = 0.4,
        novelty: float = 0.3,
        structural: Mapping[str, float] | None = None,
        signals: Literal["calibrated", "raw"] = "calibrated",
        packing: Literal["coverage", "greedy"] = "coverage",
        counter: CounterName = "o200k_base",
    ) -> Scoring: ...
    @staticmethod
    def named(name: ProfileName) -> Scoring: ...
    @property
    def recency(self) -> float: ...
    @property
    def semantic(self) -> float: ...
    @property
    def novelty(self) -> float: ...
    @property
    def structural(self) -> Mapping[str, float]: ...
    @property
    def signals(self) -> Literal["calibrated", "raw"]: ...
    @property
    def packing(self) -> Literal["coverage", "greedy"]: ...
    @property
    def counter(self) -> CounterName: ...
    @property
    def keeps_reply(self) -> bool: ...
    def weight_of(self, role: str) -> float: ...

# The blocks of a text.
@final
class Division:
    # The unit in which blocks are counted: lines, elements, members or characters.
    @property
    def measure(self) -> str: ...
    # Begin and end in characters, share of the measure, numbers of the first and the last line.
    @property
    def blocks(self) -> list[tuple[int, int, int, int, int]]: ...
    # The kept blocks unchanged, with a mark on a line of its own for each gap.
    def render(self, text: str, kept: Sequence[int], handle: str = "") -> str: ...
    # Each run of neighbours that are all kept or all left out: its text, its shown form, and
    # whether it is kept.
    def runs(self, text: str, kept: Sequence[int], handle: str) -> list[tuple[str, str, bool]]: ...

_HandleOf = Callable[[Message, str], str]

@final
class DivisibleTexts:
    def __new__(
        cls,
        conversation: Conversation,
        entries: Sequence[Any],
        whole_units: Collection[int] | None = None,
        for_words: Collection[int] | None = None,
    ) -> DivisibleTexts: ...
    # Strings in the inputs of finished calls are pieces of their own in it, after all others of
    # their message.
    @property
    def conversation(self) -> Conversation: ...
    # In another order, with others among them: the index of a message, or a message with its entry
    # and whether its last piece may be divided; and the number of each one's unit.
    def arranged(
        self, rows: Sequence[int | tuple[Message, Any, bool]], unit_of: Sequence[int]
    ) -> DivisibleTexts: ...
    # For each piece of the conversation, whether it may be divided.
    def flags(self) -> list[bool]: ...
    # A mark with small numbers and one with large ones, and each block: as they are counted.
    def marks(self, handle: str) -> list[str]: ...
    def blocks(self) -> list[str]: ...
    # The tokens of each message as it came in.
    def message_tokens(
        self, prepared: Prepared, count: Callable[[Conversation], list[int]]
    ) -> list[int]: ...

# The kept messages with texts that lost blocks. `entries` are the positions of those whose entry
# holds the same text as its one divided text; `cut` makes an entry, and its tokens, of the kept
# part.
@final
class Excerpts:
    def __new__(
        cls,
        texts: DivisibleTexts,
        prepared: Prepared,
        selection: Selection,
        count: Callable[[Conversation], list[int]],
        entries: Sequence[int] | None = None,
        cut: Callable[[Any, str], tuple[Any, int]] | None = None,
    ) -> Excerpts: ...
    # The whole texts that lost blocks, each with its message.
    def partial_texts(self) -> list[tuple[Message, str]]: ...
    # The indices of messages kept in part; `at_most` adds those that `fit` may cut.
    def changed_indices(self, *, at_most: bool = False) -> list[int]: ...
    # Writes the marks, and drops blocks, those of least gain first, until the target is met.
    def fit(self, kept_tokens: Sequence[int], target_tokens: int, handle_of: _HandleOf) -> None: ...
    # The changed messages by position.
    @property
    def by_position(self) -> dict[int, ChangedEntry]: ...
    # For the report.
    def divided_texts(
        self,
    ) -> tuple[Prepared, Conversation, Sequence[bytes], Mapping[int, str]]: ...

@final
class OnnxModel:
    def __new__(
        cls,
        *,
        model: PathLike[str],
        tokenizer: PathLike[str],
        threads: int,
        max_tokens: int,
        first_token: bool,
        by_length: bool,
    ) -> OnnxModel: ...
    @property
    def dim(self) -> int: ...
    def embed(self, texts: Sequence[str], *, seconds: float | None) -> bytes: ...

# Everything that a thread must not lose. The docstrings of this and the next classes are in the
# module.
@final
class ContextStore:
    # The least that `render` takes.
    MIN_TOKENS: int
    def __new__(cls) -> ContextStore: ...
    @property
    def seen(self) -> int: ...
    @property
    def operations(self) -> list[Operation]: ...
    def operations_since(self, number: int) -> list[Operation]: ...
    def written_since(self, number: int) -> list[dict[str, Any]]: ...
    def update(self, messages: Iterable[Message], seen: int | None = None) -> list[Operation]: ...
    def apply(self, answer: str, items: Sequence[Item], messages: Iterable[Message]) -> Applied: ...
    def replay(
        self,
        written: Iterable[Mapping[str, Any]],
        messages: Iterable[Message],
        seen: int,
        recent: Iterable[Message] | None = None,
    ) -> None: ...
    def mark(self) -> tuple[int, int]: ...
    def back_to(self, mark: tuple[int, int]) -> None: ...
    def leave_out(self, entries: Collection[int]) -> None: ...
    def as_of(self, entry: int) -> ContextStore: ...
    def items(self, heading: str | None = None) -> list[Item]: ...
    def render(
        self,
        budget_tokens: int,
        *,
        conversation: Conversation | None = None,
        visible: Collection[int] | None = None,
    ) -> str: ...
    def render_with(self, activity: Activity, budget_tokens: int) -> str: ...
    def verified(
        self, summary: str, sources: Iterable[str], max_tokens: int
    ) -> tuple[str, str, list[str]]: ...

@final
class Item:
    @property
    def id(self) -> int: ...
    @property
    def heading(self) -> Heading: ...
    @property
    def kind(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def span(self) -> Span: ...
    @property
    def trust(self) -> float: ...
    @property
    def strength(self) -> int: ...
    @property
    def uses(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def status(self) -> Status: ...
    @property
    def other(self) -> int | None: ...
    @property
    def last_entry(self) -> int: ...
    @property
    def is_changed(self) -> bool: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Span:
    def __new__(cls, entry: int, piece: int, start: int, end: int, digest: str) -> Span: ...
    @property
    def entry(self) -> int: ...
    @property
    def piece(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def digest(self) -> str: ...
    @property
    def handle(self) -> str: ...
    def to_dict(self) -> dict[str, Any]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Operation:
    @property
    def kind(self) -> str: ...
    @property
    def item(self) -> int: ...
    @property
    def entry(self) -> int: ...
    @property
    def added(self) -> Item | None: ...
    @property
    def other(self) -> int | None: ...
    @property
    def use(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Applied:
    @property
    def operations(self) -> list[Operation]: ...
    @property
    def refused(self) -> dict[str, int]: ...
    @property
    def unreadable(self) -> int: ...
    @property
    def summary(self) -> str: ...

# The commands that were run in a thread and the names in its texts, as it grows.
@final
class Activity:
    def __new__(cls) -> Activity: ...
    # False, and nothing is added, if a unit of these messages has earlier messages too.
    def add(self, conversation: Conversation) -> bool: ...

# The first difference of two prompts, of which these segments are left, and the number of tokens of
# the second that are in the first too.
def prompt_break(was: Sequence[Segment], now: Sequence[Segment]) -> tuple[Why, int]: ...

# The parts of a prompt in the order in which a provider reads them.
@final
class Layout:
    def __new__(
        cls,
        ir: Any,
        provider: str,
        known: int,
        last: Layout | None,
        beginning: str,
        write: Callable[[Any], tuple[str, int]],
        count: Callable[[list[Any]], list[int]],
    ) -> Layout: ...
    @property
    def provider(self) -> str: ...
    @property
    def segments(self) -> list[Any]: ...
    @property
    def values(self) -> list[Any]: ...
    # The number of parts that are tools, and of those that are tools or of the system.
    @property
    def tools(self) -> int: ...
    @property
    def system(self) -> int: ...
    # Content that was left out or changed, and the indices of its entries.
    @property
    def lost(self) -> dict[str, frozenset[int]]: ...
    # The number of the history's messages that the last prompt had.
    @property
    def kept(self) -> int: ...
    # The position in the history of the first entry after a change since the prompt that was sent;
    # without one, after the pruned entries.
    def first_change(self, ir: Any, sent: Any) -> int | None: ...
    # The arguments of the provider's SDK, with marks at these breakpoints; the segments; the
    # breakpoints that have a mark.
    def request(
        self, breakpoints: Sequence[str], history: Any
    ) -> tuple[dict[str, Any], tuple[Any, ...], tuple[str, ...]]: ...

# The messages of a prompt for a host that sends them itself, each with its index in the host's
# list; None: a section, or `beginning`.
def shown_messages(
    prompt: Any, beginning: str, write: Callable[[Any], str]
) -> list[tuple[int | None, Any]]: ...

# The store in one file, for any number of threads and processes, as `MemoryStore` describes it;
# dropping it never waits. `busy_seconds` is the time that it waits for other processes.
@final
class LocalStore:
    def __new__(
        cls,
        path: str | PathLike[str],
        *,
        limits: MemoryLimits,
        read_only: bool = ...,
        index_bytes: int | None = None,
        vectors: str | None = None,
        busy_seconds: float | None = None,
    ) -> LocalStore: ...
    @property
    def path(self) -> str: ...
    @property
    def threads(self) -> LocalThreads: ...
    def add(
        self, items: Sequence[MemoryItem], /, *, namespace: str, vectors: Vectors | None = None
    ) -> builtins.list[Added]: ...
    def get(self, handle: str, *, namespace: str) -> MemoryItem: ...
    def list(
        self,
        *,
        namespace: str,
        limit: int | None = ...,
        newest_first: bool = True,
        **filters: Unpack[Filters],
    ) -> builtins.list[MemoryItem]: ...
    def search(
        self,
        query: str,
        limit: int = ...,
        *,
        namespace: str,
        fusion: Fusion | None = None,
        vectors: Vectors | None = None,
        **filters: Unpack[Filters],
    ) -> builtins.list[Hit]: ...
    # Any two texts have a cosine above 0.5 in the built-in model: the common part of all vectors of
    # the namespace is removed, so that 0 means unrelated.
    def recall(
        self,
        texts: Sequence[str],
        k: int = ...,
        *,
        namespace: str,
        vectors: Vectors | None = None,
    ) -> builtins.list[builtins.list[Recalled]]: ...
    def forget(self, handles: str | Sequence[str], *, namespace: str) -> int: ...
    # PurgeIncompleteError if files that hold traces of it could not be removed.
    def purge(
        self,
        *,
        namespace: str,
        source: str | None = None,
        thread: str | None = None,
        everything: bool = False,
    ) -> int: ...
    def set_tier(self, handles: str | Sequence[str], tier: Tier, *, namespace: str) -> int: ...
    def link(self, handle: str, relation: str, other: str, *, namespace: str) -> bool: ...
    def stats(self, *, namespace: str) -> MemoryStats: ...
    def namespaces(self) -> builtins.list[str]: ...
    def sources(self, *, namespace: str) -> builtins.list[str]: ...
    def verify(self) -> VerifyReport: ...
    def rebuild(self, *, namespace: str | None = None) -> int: ...
    def set_vectors(self, handles: Sequence[str], vectors: Vectors, *, namespace: str) -> int: ...
    # The namespace takes vectors of any model then.
    def drop_vectors(self, *, namespace: str) -> int: ...
    # Write index files of all that no file holds yet, and wait for that.
    def flush(self) -> None: ...
    def close(self) -> None: ...

# The threads in the file of a store, as `ThreadStore` says.
@final
class LocalThreads:
    @property
    def path(self) -> str: ...
    def thread(self, namespace: str, name: str) -> ThreadRow | None: ...
    def threads(self, namespace: str) -> list[ThreadRow]: ...
    def append_records(
        self, namespace: str, name: str, expected: int, records: Sequence[tuple[int, float, str]]
    ) -> ThreadRow: ...
    # StoreCorruptError for a record that is not as it was written.
    def records(
        self, namespace: str, name: str, *, start: int = 0, limit: int = ...
    ) -> list[tuple[int, float, str]]: ...
    # No byte of the old ones stays. In the same transaction records are added.
    def replace_records(
        self,
        namespace: str,
        name: str,
        expected: int,
        bodies: Sequence[tuple[int, str]],
        added: Sequence[tuple[int, float, str]] = ...,
    ) -> None: ...
    def purge_thread(self, namespace: str, name: str) -> int: ...

# Id, text, time, source, kind, thread, tier, trust, when it expires, the bytes of its vector.
_Entry = tuple[int, str, int, str, str, str, int, float, int | None, bytes | None]
# Id, score, text, trigram, cosine.
_ItemHit = tuple[int, float, float, float, float | None]

# Refuses a time of a record that no reader could show: any outside the years 1 to 9999.
def check_record_time(time: float) -> None: ...

# Raises StoreConflictError if a thread has another number of records than the caller read.
def check_thread_records(server: str, name: str, expected: int, has: int | None) -> None: ...

# An index in memory, for items that are kept elsewhere.
@final
class ItemIndex:
    # An index in memory, for items that are kept elsewhere. It never changes.
    def __new__(cls) -> ItemIndex: ...
    def __len__(self) -> int: ...
    @property
    def held_bytes(self) -> int: ...
    # The same with more rows, which replace those with their ids, and without `deleted`. Vectors
    # have `dim` numbers.
    def grown(
        self, rows: Sequence[_Entry], deleted: Sequence[int], dim: int | None
    ) -> ItemIndex: ...
    # `allowed`: these ids alone.
    def search(
        self,
        query: str,
        filters: Filters,
        *,
        limit: int,
        now_ms: int,
        vector: Any,
        fusion: Fusion | None,
        allowed: Sequence[int] | None = None,
    ) -> list[_ItemHit]: ...
    # A row for each text, or for each row of `vectors`; without these 0 means unrelated.
    def recall(
        self,
        texts: Sequence[str],
        *,
        k: int,
        now_ms: int,
        vectors: Any,
        allowed: Sequence[int] | None = None,
    ) -> list[list[tuple[int, float]]]: ...

# The messages of a JSON list; kept ones are written as they are in it.
@final
class JsonMessages:
    def __new__(cls, text: str) -> JsonMessages: ...
    @property
    def messages(self) -> list[Any]: ...
    def written(self, kept: Sequence[Any], indices: Sequence[int]) -> str: ...

# The text of a cell of a table, which may be null or not UTF-8.
def cell_text(cell: str | bytes | None, column: str) -> str: ...

# A line of a table in JSON Lines: the id as text, the JSON of the messages, the query.
def json_row(line: bytes) -> tuple[str | None, str, str | None]: ...

# JSON values in a stream of bytes: (kind, bytes) of a "value", a "word" or a "line" of a broken
# part, or ("broken", why). After a word that isn't JSON, `skip_line` is called.
@final
class JsonStream:
    def __new__(cls, max_bytes: int) -> JsonStream: ...
    @property
    def has_headers(self) -> bool: ...
    def feed(self, data: bytes) -> None: ...
    def next(self, ended: bool) -> tuple[str, bytes | str] | None: ...
    def skip_line(self) -> None: ...

# The findings of the rules of these names, the most severe first, as the fields of each `Finding`.
# `min_prefix` is the shortest prefix that the model's cache keeps.
def lint(subject: Subject, min_prefix: int, rules: Sequence[str]) -> list[tuple[Any, ...]]: ...

# Every rule: its name, and its purpose in a few words.
def lint_rules() -> list[tuple[str, str]]: ...

# A prompt or a session, as the rules of `linting` read it: of a list of requests the last, and the
# system text of all.
@final
class Subject:
    @staticmethod
    def of(
        target: Any,
        *,
        format: str = ...,  # noqa: A002
        tools: Sequence[Any] = ...,
        system: Any = None,
        model: str = ...,
        budget: Budget | None = None,
    ) -> Subject: ...
    # Those of the history, and of an IR's dynamic sections; then those before them, sent with every
    # request; then the system text of each of a session's requests, if these are known.
    @property
    def texts(self) -> list[Text]: ...
    @property
    def static(self) -> list[Text]: ...
    @property
    def systems(self) -> list[Text]: ...
    @property
    def is_empty(self) -> bool: ...
    # Tokens of the current prompt, and before the last compaction of a transcript.
    @property
    def tokens(self) -> int: ...
    @property
    def tokens_before(self) -> int: ...
    @property
    def whole_tokens(self) -> int: ...
    @property
    def tool_tokens(self) -> int: ...
    @property
    def media_tokens(self) -> int: ...
    # Requests that were answered.
    @property
    def steps(self) -> int: ...
    @property
    def model(self) -> str: ...

# One text of a prompt; for a tool's result, the name of the tool and the input of its call.
@final
class Text:
    @property
    def place(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def kind(self) -> PieceKind: ...
    @property
    def tokens(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def step(self) -> int: ...
    @property
    def tool(self) -> str: ...
    @property
    def asked(self) -> str: ...

# Whether it is the content of one request, and not a message; the system text and the tools of a
# body.
def is_request(entry: object) -> bool: ...
def system_and_tools(body: dict[str, Any]) -> tuple[str, Any]: ...

# A provider's cache of the prompts that it was sent, which it shortens by its policy: it takes a
# price's rules, the time to live, and the shortest prefix that it keeps. `send` returns the usage
# of a summary of a prompt that is sent after `after` seconds, all 0 without one, and that of the
# prompt. `results` are the segments with results of tool calls.
@final
class PromptCache:
    def __new__(
        cls, price: Price, ttl: str, minimum: int, policy: ProviderPolicy
    ) -> PromptCache: ...
    def send(
        self, segments: Sequence[Segment], after: float, results: Sequence[int] = ...
    ) -> tuple[Usage, Usage]: ...

# The handles of (source, text) within a namespace, as `LocalStore.add` gives them.
def handles(namespace: str, items: Sequence[tuple[str, str]]) -> list[str]: ...

# The billed tokens in the usage of a provider's response: the fields of a `cost.Usage`.
def billed_usage(usage: Mapping[str, Any]) -> tuple[int, int, int, int, int]: ...

# A text without anything that moves the cursor, changes colours or reorders, on one line.
def safe_line(text: str) -> str: ...

# The lines of a text; if some of a paragraph are longer than `width`, all of the paragraph as one.
def paragraphs(text: str, width: int) -> list[str]: ...

# The lines of a hit's paragraphs, each in parts of which every second is a word of the query, and
# whether some are left out before them and after them: of more than `most`, those that have most of
# the query.
def hit_lines(
    paragraphs: Sequence[str], query: str, width: int, most: int
) -> tuple[list[list[str]], bool, bool]: ...

# A unit's reason in a few words, in a sentence without figures, and whether it is about something
# that is always kept.
def short_reason(reason: str) -> tuple[str, str, bool]: ...

# The beginning and the end of the part of each text that a query is about, in characters.
def snippets(texts: Sequence[str], query: str) -> list[tuple[int, int]]: ...

# The names of all kinds of secrets.
def secret_kinds() -> list[str]: ...

# The beginning and the end of each secret, in characters, and its kind's place among all; without
# the kinds that are `off`.
def secrets(text: str, off: Sequence[int]) -> list[tuple[int, int, int]]: ...

# A text without secrets, and the labels in their place: name, start and end. `known` are labels
# that it has already.
def redacted_text(
    text: str, off: Sequence[int], known: Sequence[tuple[str, int, int]]
) -> tuple[str, list[tuple[str, int, int]]]: ...

# A JSON value without secrets in its strings and keys; raises RecursionError for one that is nested
# too deep.
def redact_inside(value: Any, off: Sequence[int]) -> Any: ...

# A text of a tool result that is shown in part.
@final
class ShortenedText:
    @property
    def path(self) -> _Path: ...
    @property
    def text(self) -> str: ...
    # The id of the call that it answers, and the name of the tool; "" if unknown.
    @property
    def call(self) -> str: ...
    @property
    def tool(self) -> str: ...
    # The shown text. The whole is kept under this handle, or nowhere if it is "".
    def shown(self, handle: str) -> str: ...
    # A description of the change.
    def note(self) -> str: ...

# The hashes of a history's messages.
@final
class RowHashes: ...

# Finds repeats in tool results. The last conversations are remembered.
@final
class Echoes:
    def __new__(cls, least_characters: int) -> Echoes: ...
    # The echoes of each entry from `start` on that has some, by its position, and the hashes of the
    # messages. `known` are those before. None if these were forgotten: then all must be searched.
    # `changed` are the positions of the entries that an earlier pass changed.
    def find(
        self,
        rows: Conversation,
        start: int,
        known: RowHashes | None,
        entries: tuple[Any, ...],
        places: Callable[[Any, int], Sequence[_Path | None]],
        changed: set[int],
        by_row: bool,
    ) -> tuple[RowHashes | None, list[tuple[int, list[ShortenedText]]]]: ...

# The positions of the entries from `start` on whose results may have more than `least` tokens.
def long_results(
    rows: Conversation, start: int, counts: tuple[int, ...], least: int
) -> list[int]: ...

# The caps of these entries' results, by the `Caps` and by the position of each.
def capped_results(
    rows: Conversation,
    positions: Sequence[int],
    entries: tuple[Any, ...],
    places: Callable[[Any, int], Sequence[_Path | None]],
    caps: Any,
    counter: str,
    least: int,
    notice: int,
) -> list[tuple[int, list[ShortenedText]]]: ...

# The notice that this many tokens are missing, and the handle of the whole.
def notice(omitted: int, handle: str) -> str: ...

# Of each message the tool and the text of each result that may be shown in part.
def result_texts(
    rows: Conversation,
    entries: list[Any],
    places: Callable[[Any, int], Sequence[_Path | None]],
) -> list[list[tuple[str, str]]]: ...

# The batches of anything with the Arrow PyCapsule interface; at least one.
@final
class ArrowReader:
    def __new__(cls, table: object) -> ArrowReader: ...
    def __iter__(self) -> ArrowReader: ...
    def __next__(self) -> ArrowRows: ...

@final
class ArrowRows:
    def __len__(self) -> int: ...
    @property
    def names(self) -> list[str]: ...
    # None if there is no text, bytes if they aren't UTF-8.
    def texts(self, column: str, start: int, end: int) -> list[str | bytes | None]: ...
    def check(self, column: str) -> None: ...
    def counts(self, column: str, counter: str) -> ArrowColumns: ...
    def vectors(self, column: str) -> ArrowColumns: ...
    def with_columns(self, kept: Sequence[str], results: ArrowColumns) -> ArrowRows: ...

@final
class ArrowColumns:
    # Name, kind ("whole", "share", "truth", "text", "long_text" or "indices") and values, None for
    # null.
    def __new__(cls, columns: Sequence[tuple[str, str, Sequence[Any]]]) -> ArrowColumns: ...

@final
class ArrowTable:
    def __new__(cls, batches: Sequence[ArrowRows]) -> ArrowTable: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

# Batches that are made when they are read, once.
@final
class ArrowStream:
    def __new__(cls, first: ArrowRows, rest: Iterator[ArrowRows]) -> ArrowStream: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

# A value as an error names it: cut if it is long, a number of any length.
def shown(value: object, most: int = ...) -> str: ...
def check_type(name: str, value: object, kinds: type | tuple[type, ...], remedy: str) -> None: ...
def check_path(name: str, value: Any, remedy: str) -> None: ...
def check_known(
    owner: str, given: Iterable[str], known: Iterable[str], remedy: str = "its options are"
) -> None: ...

# Refuses one text or mapping in place of a list.
def check_list(name: str, value: object, remedy: str) -> None: ...

# `methods` are names, separated by blanks.
def check_methods(name: str, value: object, methods: str, remedy: str) -> None: ...
def check_choice(name: str, value: Any, choices: Iterable[str]) -> None: ...
def check_whole(
    name: str, value: Any, least: int = 0, most: int | None = None, *, or_none: bool = False
) -> None: ...
def check_share(name: str, value: Any) -> None: ...
def check_timeout(name: str, value: object) -> float | None: ...
def refuse_copy(name: str, remedy: str) -> NoReturn: ...

# The options of a compaction, checked: the value as it is used.
def checked_query(query: object) -> str | None: ...
def checked_ratio(ratio: object) -> float: ...
def checked_budget(budget: Any) -> int | None: ...
def checked_memory(memory: Any) -> Any: ...

# The indices of the messages that the caller pinned, by index or as the same objects.
def pinned_indices(messages: Sequence[Any], pin: Iterable[Any]) -> list[int]: ...

# Checks of the arguments of a memory's operations. Every entry point has them, the store's too.
def check_item(item: MemoryItem) -> None: ...
def as_items(
    texts: str | MemoryItem | Iterable[str | MemoryItem], fields: ItemFields
) -> list[MemoryItem]: ...
def checked_namespace(namespace: object) -> str: ...

# The namespace that is passed, else the one that the memory is bound to.
def resolve_namespace(
    operation: str, given: str | None, bound: str | None, *, is_confined: bool = False
) -> str: ...
def checked_tier(name: str, value: Any) -> Tier: ...
def checked_limit(name: str, limit: Any, max_limit: int | None = ...) -> int: ...
def checked_fusion(fusion: object) -> Fusion | None: ...
def checked_filters(operation: str, filters: Filters) -> Filters: ...
def checked_handles(handles: object) -> list[str]: ...
def checked_purge(source: object, thread: object, everything: object) -> None: ...

# The opening and the closing tag of untrusted content, which it cannot fake; sixteen digits that do
# not occur in it.
def fence_tags(
    id: str,  # noqa: A002  the field's word
    source: str,
    origin: str,
    title: str,
    handle: str | None,
    is_data: bool,
    content: str,
) -> tuple[str, str]: ...

# Has this thread compute without a helper thread, or with one again; returns how it was before.
def set_alone(alone: bool) -> bool: ...
def open_onnx(library: PathLike[str]) -> None: ...
def close_onnx() -> None: ...

# This machine's widest instructions that change an int8 model's results.
def isa() -> str: ...

# Of one text; of each message, media included. A counter is a name or a callable of the caller.
def count(text: str, counter: str | Callable[[str], int]) -> int: ...
def message_tokens(
    messages: Conversation | Sequence[Message], counter: str | Callable[[str], int]
) -> list[int]: ...
def check_counter(counter: object) -> str | Callable[[str], int]: ...
def counter_name(counter: str | Callable[[str], int]) -> str: ...
def counts(texts: Sequence[str], counter: str) -> list[int]: ...

# The shown part of a text, its kind, and the tokens left out; None if it fits whole.
def cap_text(
    text: str, limit: int, notice: int, counter: str, tool: str, rows: int, log_lines: int
) -> tuple[str, str, int] | None: ...

# The size to which the largest of some sizes must be cut so that all fit: of [10, 200, 300] in
# 210 it is 100.
def fair_share(sizes: Sequence[int], room: int) -> int: ...

# The division of a text; None if it is not long enough.
def divide(text: str) -> Division | None: ...

# The mark for a gap in a text. The handle says where a memory has the whole text.
def mark(measure: str, count: int, first: int, last: int, handle: str = "") -> str: ...

# The windows of texts, each with its part that the prompt shows. They are analysed at the first
# query.
@final
class Passages:
    def __new__(cls, texts: Sequence[tuple[str, str]]) -> Passages: ...
    @property
    def characters(self) -> int: ...
    # The windows that match, the best first, after those that hold the query as it is written.
    def best(self, query: str, *, min_confidence: float = ...) -> list[Match]: ...

# Texts, each scored as a message of one conversation; they are analysed once.
@final
class TextIndex:
    def __new__(cls, texts: Sequence[str]) -> TextIndex: ...
    # The relevance of each text, 1.0 for the best.
    def relevances(self, query: str) -> list[float]: ...

# The first matches with the lines around them, as many as fit, and where they are; without visible
# lines of `SHORTEST_QUOTE` characters at their ends.
def passage_excerpt(
    text: str,
    matches: Sequence[_Place],
    max_tokens: int,
    counter: str,
    visible_lines: Collection[str],
) -> tuple[str, list[_Place]]: ...

# The end of the page of a text from `start` on: `end`, or earlier if it lacks room. It ends
# after a line if that loses less than half of it.
def page_end(text: str, start: int, end: int, max_tokens: int, counter: str) -> int: ...

# The range of some lines of a text, counted from 1; without a last one all that follow. None
# if they begin beyond it.
def line_span(text: str, first: int, last: int | None) -> tuple[int, int] | None: ...

# The notice of what a page from `start` to `stop` shows, and how to read on up to `end`.
def describe_page(
    text: str, start: int, stop: int, end: int, in_lines: bool
) -> tuple[str, str]: ...

# The numbers of the lines from start to end; those of its characters in part of a line.
def line_numbers(text: str, start: int, end: int) -> str: ...

# The share of a text that is in questions, 0 to 1.

# The query that is given, or the last user turn if it asks something.
def weighted_query(
    conversation: Conversation, query: str | None, *, infer: bool = True
) -> WeightedQuery | None: ...

# The hits that are about a query, the relevance of a hit, and a checked relevance.
def relevant_hits(hits: Sequence[Hit], query: str, min_relevance: float) -> list[Hit]: ...
def hit_relevance(hit: Hit) -> float: ...
def checked_relevance(value: object) -> float: ...

# The chunks of a text, in order, at headings first; their bodies joined are the text.
def chunks(text: str, *, chunk_tokens: int = ...) -> list[Chunk]: ...

# The plain values of the front matter, and the text after it.
def split_front_matter(text: str) -> tuple[dict[str, str], str]: ...

# The pieces of a file of notes, each with its tier, and the number of lines if the first ones are
# hot memory.
def note_pieces(path: str, text: str) -> tuple[list[tuple[Tier, Chunk]], int]: ...

# Values as JSON gives them back: the same objects if it has them as they are. `path` is that of the
# list, for UnreadableIRError, and `start` the number of the first.
def kept_values(values: Sequence[Any], path: str, start: int) -> list[Any]: ...

# The content of the record of a state, compared with the one that was recorded before it. `entries`
# are those of the thread. It raises UnreadableIRError for values that JSON cannot hold.
def state_content(state: PromptState, before: PromptState, entries: Entries) -> dict[str, Any]: ...

# 128 bits of all that a provider is sent of a prompt, hexadecimal.
def prompt_digest(prompt: CompiledPrompt) -> str: ...

# The texts that another form of the same entries does not show as they are, each with its
# replacement.
def differing_texts(original: Conversation, shown: Conversation) -> list[tuple[str, str]]: ...

# The numbers of the records of a thread that count, each of kind, time and body; with `entries`,
# those of a thread that ends after this many. Raises UnreadableIRError for anything else.
def counting_records(
    rows: Sequence[tuple[int, float, str]], entries: int | None = None
) -> list[int]: ...

# The state that the records that count make, as JSON; ``"sent": true`` means the last state.
def folded_records(rows: Sequence[tuple[int, float, str]]) -> str: ...

# The lines of an export: a header, and each record that counts.
def exported_lines(
    rows: Sequence[tuple[int, float, str]], namespace: str, thread: str
) -> list[str]: ...

# The bodies of a thread's records that have one of these texts, without it, each by its number; and
# the texts of its entries that have one, before and after, each with its time. `texts_of` gives the
# texts of an entry as JSON.
def redacted_records(
    rows: Sequence[tuple[int, float, str]],
    texts: Sequence[str],
    texts_of: Callable[[str], list[str]],
) -> tuple[list[tuple[int, str]], list[tuple[float, str, str]]]: ...

# The texts of messages as a model reads them: each with its speaker, and if `numbered`, after the
# number of its entry.
def transcript_lines(messages: Iterable[Message], numbered: bool) -> list[str]: ...

# Lines in a fence that says that they are data. If there are very many, the middle is left out.
def fenced(name: str, lines: Sequence[str]) -> str: ...

# Asks a model for changes to the store: `items` are the valid ones, `messages` are new.
def proposal_prompt(items: Sequence[Item], messages: Iterable[Message]) -> str: ...

# Asks a model for a summary of messages, in addition to the store as markdown and the summary of
# earlier messages.
def summary_prompt(
    messages: Iterable[Message], store: str, previous: str, max_tokens: int
) -> str: ...

# Why a writer's text is not a summary. "" if it may be one.
def refusal(written: object) -> str: ...

# The index of the first message that stays: at least the last `keep_last` do, with at least this
# many tokens. None if that leaves nothing before, or if the provider needs the messages before.
def first_kept(
    conversation: Conversation, keep_last: int, tokens: Sequence[int], least_tokens: int
) -> int | None: ...

# The index from which on the last `keep_last` messages stay, or more, and the indices of the
# messages before it. None if a summary can replace nothing.
def head_and_tail(conversation: Conversation, keep_last: int) -> tuple[int, list[int]] | None: ...

# Times as people and models write them. The docstrings of these are in the module.
def parse_time_range(text: str, now: datetime, timezone: tzinfo | str) -> TimeRange: ...
def describe(span: TimeRange, timezone: tzinfo | str) -> str: ...
def zone_of(timezone: tzinfo | str) -> tzinfo: ...

# The arguments of calls of request_context and fetch_whole; `known` are their names. They raise
# InvalidArgumentError that says what to send.
def request_arguments(
    arguments: Mapping[str, Any],
    known: Collection[str],
    scopes: Sequence[str],
    now: datetime,
    timezone: tzinfo | str,
) -> tuple[str, Scope | None, TimeRange | None]: ...
def fetch_arguments(arguments: Mapping[str, Any], known: Collection[str]) -> FetchArguments: ...

# A text from a character on, some of its lines (the first and the last, or all that follow), or the
# parts of it that a query finds.
@final
class FetchArguments:
    @property
    def handle(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def lines(self) -> tuple[int, int | None] | None: ...
    @property
    def query(self) -> str: ...

# The items of an answer in their fence, each under its mark. Times are in the timezone.
def fenced_items(sections: Sequence[Section], timezone: tzinfo) -> str: ...
def embed(texts: Sequence[str]) -> tuple[bytes, int]: ...
def read_entries(format: str, entries: Sequence[Any]) -> Conversation: ...  # noqa: A002
def read_places(format: str, entry: Mapping[str, Any], index: int) -> list[_Path | None]: ...  # noqa: A002
def broken_rules(format: str, entries: Sequence[Any]) -> list[Violation]: ...  # noqa: A002

# The ends of static parts at which the prefix of an IR is cached; `own` are the caller's marks.
def placed_breakpoints(
    ir: Any,
    rows: Conversation,
    provider: str,
    model: str,
    minimum_prefix: int,
    own: Sequence[Any],
) -> list[str]: ...

# A value as JSON values: records as objects, sets and tuples as lists, times in ISO 8601, bytes as
# text or base64, anything else as its `str`. That of a value of an IR is read back: it raises
# UnreadableIRError, with the path, for values that JSON cannot hold. Both raise RecursionError.
def plain(value: Any) -> Any: ...
def plain_at(value: Any, path: str) -> Any: ...

# The reports of an IR: the laws that it breaks (each with the part and the message), the rows of
# its table, the table as text, and the changes of sections, tools, entries and the request.
def broken_laws(ir: Any, violations: Sequence[Violation]) -> list[tuple[str, str, str]]: ...
def prompt_rows(ir: Any) -> list[PromptRow]: ...
def explanation_text(table: PromptExplanation) -> str: ...
def prompt_changes(
    before: Any, after: Any
) -> tuple[list[Change], list[Change], list[Change], list[str]]: ...

# Whether a prompt shows an entry or a section, and why.
@final
class PromptRecords:
    def __new__(cls, ir: Any) -> PromptRecords: ...
    @property
    def ir(self) -> Any: ...
    # The place in the history of the entry with this index in the caller's list.
    def position(self, index: int) -> int | None: ...
    def why(self, id: str) -> PartWhy | None: ...  # noqa: A002  the field's word

# The new sections that fit a budget and those that do not; and of a prompt the kept ones, the
# records of the removed ones, and the ids of the changed ones, as `rehydrate.prompt.splicing`
# describes.
def spliced(
    found: Sequence[Section],
    visible: Collection[str],
    texts: Sequence[str],
    messages: Sequence[str],
    budget_tokens: int,
) -> tuple[list[Section], list[Section]]: ...
def deduplicated(
    ir: Any, positions: Mapping[str, int], last: Mapping[str, Section]
) -> tuple[list[Section], list[DroppedSection], list[str]]: ...

# At most the cost of a section's heading with these names, and of a section with its heading.
def heading_tokens(*names: str) -> int: ...
def late_tokens(section: Section) -> int: ...

# The sections in the order in which the model reads them.
def ordered_sections(sections: Sequence[Section]) -> list[Section]: ...

# The section with these items of its own in its provenance.
def with_items(section: Section, items: Sequence[str]) -> Section: ...

# The size of an outline, checked; and its most tokens, 0 if that is too few for one.
def check_outline(outline: Any) -> OutlineSize: ...
def outline_tokens(outline: OutlineSize, before_tokens: int, free_tokens: int) -> int: ...

# Originals in the memory of this process; the docstrings are in the module.
@disjoint_base
class HeldOriginals:
    def __new__(cls, max_bytes: int = 268435456) -> Self: ...
    @property
    def held_bytes(self) -> int: ...
    def __len__(self) -> int: ...
    def put(self, text: str, /, *, about: About | None = None) -> str: ...
    def get(self, handle: str, /) -> str: ...

# The handle of a text that is held in this process or in a thread.
def handle_of_text(text: str) -> str: ...

# Checks of a section, of what a source found, and of the columns of a history from JSON.
def check_provenance(provenance: Any) -> None: ...
def check_section(section: Any, provenance: type[Any], enums: Mapping[str, type[Any]]) -> None: ...
def checked_found(found: Found, source: str) -> Found: ...
def check_columns(history: Any) -> None: ...
def check_indices(history: Any) -> None: ...

# A dataclass or named tuple that is read from JSON's values, by its type hints.
@final
class Schema:
    def __new__(cls, class_: type[Any]) -> Schema: ...
    def read(self, value: Any, path: str = "", **ready: Any) -> Any: ...

# Each message, and the indices of its lines.
def merged_lines(entries: Sequence[Any]) -> list[tuple[dict[str, Any], tuple[int, ...]]]: ...

# Whether the next model binds the thinking of a conversation to the messages before it.
@final
class PrefixBinding:
    def __new__(
        cls, conversation: Conversation, entries: Sequence[Any], model: ThinkingModel
    ) -> PrefixBinding: ...
    @property
    def refuses_changed_prefix(self) -> bool: ...
    # Whether an open tool loop must keep the thinking at its beginning.
    @property
    def needs_thoughts(self) -> bool: ...
    # Whether there are changes under which a compaction must wait for the end of the turn.
    @property
    def may_wait(self) -> bool: ...
    # The index of the first message that goes with its unit or is among the changed ones.
    def first_change(self, kept_units: Sequence[bool], changed: Sequence[int]) -> int | None: ...
    def must_wait(self, kept_units: Sequence[bool], changed: Sequence[int]) -> bool: ...
    # Whether the model may refuse the open tool loop after this change either way.
    def loop_is_at_risk(self, first_change: int) -> bool: ...

# The conversation without its thinking, except in an open tool loop, and its entries, None for one
# of only thinking; the tokens that each message lost, and those of each remaining unit.
def without_thinking(
    conversation: Conversation,
    entries: Sequence[Any],
    count: Callable[[Conversation], list[int]] | None = None,
) -> tuple[Conversation, Sequence[Any], dict[int, int], dict[int, int]]: ...

# The kept entries without the thinking from the first change on: their indices, the entries, and
# the tokens that each changed or removed message lost.
def without_stale_thinking(
    conversation: Conversation,
    indices: Sequence[int],
    entries: Sequence[Any],
    first_change: int,
    excerpts: Mapping[int, Message],
    count: Callable[[Conversation], list[int]],
) -> tuple[list[int], list[Any], dict[int, int]]: ...

# The name in a table that a model's name means, with or without vendor, date and revision; the
# provider that it suggests; the model that answered last in a history.
def known_name(model: str, names: Iterable[str]) -> str | None: ...
def provider_of(model: str) -> Provider | None: ...
def is_regional(model: str) -> bool: ...
def answering_model(entries: Sequence[Any], format: str) -> str: ...  # noqa: A002
def has_claudes_thinking(entries: Sequence[Any]) -> bool: ...
def entries_without_thinking(format: str, entries: Sequence[Any]) -> list[Any]: ...  # noqa: A002
def marks_in(value: Any) -> list[Mapping[str, Any]]: ...
def unmarked(value: Any) -> Any: ...

# Whether entries are short enough to be read and counted on an event loop.
def is_short_to_add(entries: Sequence[Any]) -> bool: ...
def as_dicts(entries: Sequence[Any]) -> Sequence[Any]: ...
def is_langchain_message(value: object) -> bool: ...

# The entry with these texts or inputs at their paths; the entry itself never changes.
def replace_texts(entry: Any, texts: Mapping[_Path, Any]) -> Any: ...

# A list of messages, read, and its entries as dicts: the same sequence if it has no SDK object.
def read(
    messages: Sequence[Any],
    format: str = ...,  # noqa: A002  the field's word
) -> tuple[Conversation, Sequence[Any]]: ...

# The list of entries; raises InvalidMessageError for anything else.
def as_sequence(messages: object) -> Sequence[Any]: ...
def detect_format(messages: Sequence[Any]) -> FormatName: ...
def named_format(entries: Sequence[Any], format: str) -> FormatName: ...  # noqa: A002

# Raises InvalidMessageError for an entry that only another format can hold, or with a role that the
# provider does not know: it would be sent unchanged.
def check_own(entries: Sequence[Any], format: str) -> None: ...  # noqa: A002

# The index of the last summary in a transcript that its agent wrote when the window was full.
def last_compaction(conversation: Conversation, entries: Sequence[Any]) -> int | None: ...

# The messages, each a mapping with a role. What LangChain's own converter takes of one, and the
# fields of an AIMessage that hold its calls.
def chat_entries(messages: Sequence[Any]) -> Sequence[Mapping[str, Any]]: ...
def langchain_fields(
    entry: Mapping[str, Any], index: int
) -> tuple[dict[str, Any], dict[str, list[Any]]]: ...
def format_of(entries: Sequence[Any]) -> tuple[str, bool]: ...
def entries_of(messages: Any) -> Any: ...
def stale_thinking(after: Any, sent: Any) -> list[Violation]: ...
def langchain_to_openai(messages: Sequence[Any]) -> list[dict[str, Any]]: ...

# The position and the dict of chat of each message that a model sees.
def seen_as_chat(messages: Sequence[Any]) -> list[tuple[int, Any]]: ...

# Each input: the call's id, the tool's name, the input, its paths, and whether it is free text.
def entry_inputs(
    format: str,  # noqa: A002  the field's word
    entry: Any,
) -> list[tuple[str | None, Any, Any, tuple[_Path, ...], bool] | None]: ...

# The entries of a model's reply with their calls repaired, the same objects if nothing changes.
# `calls` are the ids of the calls in their order, before and after.
def repaired_entries(entries: Sequence[Any], calls: Sequence[tuple[str, str]]) -> list[Any]: ...

# The system blocks, the messages, and the omitted or changed content, with the indices of its
# entries.
def render_entries(
    entries: Sequence[Any],
    format: str,  # noqa: A002  the field's word
    provider: str,
    first: int,
) -> tuple[list[RenderedMessage], list[RenderedMessage], dict[str, frozenset[int]]]: ...
def own_entry(provider: str, entry: Any) -> Any: ...

# Entries of a format from their JSON.
def own_entries(values: Sequence[Any], format: str) -> list[Any]: ...  # noqa: A002

# A tool's name, description, schema (none of one that its provider runs), definition and provider.
def read_tool(tool: Any) -> tuple[str, str, Mapping[str, Any], Mapping[str, Any], str]: ...

# The format of a tool's call, its id, the tool's name and the arguments as they are.
def read_call(call: Any) -> tuple[CallFormat, str, str, Any] | None: ...
def call_result(
    format: str,  # noqa: A002  the field's word
    id: str,  # noqa: A002  the field's word
    name: str,
    content: str,
    is_error: bool,
) -> dict[str, Any]: ...
def tool_definition(
    format: str,  # noqa: A002  the field's word
    name: str,
    description: str,
    schema: Mapping[str, Any],
) -> dict[str, Any]: ...

# The results of one reply's calls as history entries: one message if the provider wants all of them
# in one.
def result_entries(results: Sequence[Any]) -> list[Any]: ...

# A user's message in a format; ``is_turn=False`` marks it as not a turn of the user if it can.
def user_message(text: str, format: str, *, is_turn: bool = True) -> Any: ...  # noqa: A002

# The entries of a format as UI messages of the AI SDK's.
def ui_messages(entries: Sequence[Any], format: str) -> list[dict[str, Any]]: ...  # noqa: A002

# A message of a summary: the user's with its text, or the assistant's that acknowledges it.
def summary_message(text: str, format: str, role: Literal["user", "assistant"]) -> Any: ...  # noqa: A002

# A copy with a cache mark on its last block that can have one; None if there can be none.
def marked(provider: str, value: Any) -> Any | None: ...

# The indices of lines that the user took back, with Codex's events by which the user did so; and of
# Claude Code's that have the uuid of an earlier line.
def taken_back(entries: Sequence[Any], format: str) -> frozenset[int]: ...  # noqa: A002
def repeated(entries: Sequence[Any], format: str) -> frozenset[int]: ...  # noqa: A002

_Path = tuple[str | int, ...]

# The role, the texts and the calls of each message of a unit; thinking is left out.
# The text of a unit, and the kind of memory that it is by the first bytes of its own words.
def unit_memory(conversation: Conversation, unit: int, most_bytes: int) -> tuple[str, str]: ...
def unit_text(conversation: Conversation, unit: int) -> str: ...

# The conversation without the calls of these tools and their results, and the indices of the
# messages of units that hold nothing else.
def without_calls(
    conversation: Conversation,
    tools: AbstractSet[str],
) -> tuple[Conversation, list[int]]: ...

# For LangGraph's store: whether a value meets a filter, its texts as lines after their names, and
# whether a namespace has a path at an end.
def meets_filter(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool: ...
def value_text(value: Any) -> str: ...
def namespace_fits(namespace: Sequence[str], match_type: str, path: Sequence[str]) -> bool: ...

# Reads the objects of a transcript from an offset on. With `skips` that is in the middle of a line,
# which is skipped. `broken` lines aren't JSON objects, or are too long. Raises OSError.
@final
class TranscriptReader:
    MAX_LINE_BYTES: int
    def __new__(
        cls, path: str | PathLike[str], offset: int = 0, *, skips: bool = False
    ) -> TranscriptReader: ...
    @property
    def offset(self) -> int: ...
    @property
    def skips(self) -> bool: ...
    @property
    def broken(self) -> int: ...
    @property
    def is_at_end(self) -> bool: ...
    def objects(self, max_bytes: int) -> list[dict[str, Any]]: ...

# The transcripts below the agents' folders, the last changed first; links are not followed.
def transcripts(roots: Sequence[tuple[str, PathLike[str]]]) -> list[SessionFile]: ...

@final
class SessionFile:
    @property
    def path(self) -> Path: ...
    @property
    def agent(self) -> str: ...
    @property
    def size(self) -> int: ...
    # The agent's own name for the session.
    @property
    def id(self) -> str: ...
    # The number of bytes that are not read yet. None if there is nothing new to read.
    def unread(self, known: SessionRecord | None) -> int | None: ...

# A transcript as an index knows it: the offset up to which it was read, and what its lines say of
# the session.
@final
class SessionRecord:
    # From a row; raises KeyError, TypeError, ValueError or OverflowError for anything else.
    @staticmethod
    def of(row: dict[str, Any]) -> SessionRecord: ...
    @property
    def row(self) -> dict[str, Any]: ...
    @property
    def path(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def id(self) -> str: ...
    # The source of its items: a digest, in which no secret can be.
    @property
    def source(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def project(self) -> str: ...
    @property
    def first(self) -> str: ...
    @property
    def last(self) -> str: ...
    # Lines that could not be read.
    @property
    def broken(self) -> int: ...
    @property
    def is_at_end(self) -> bool: ...
    # Whether any of it may have been said between these times.
    def within(self, after: datetime | None, before: datetime | None) -> bool: ...

# Reads on from where a record says, or again. A file that cannot be read counts as read: it is
# tried again when it changes.
def read_session(file: SessionFile, known: SessionRecord | None, max_bytes: int) -> SessionPart: ...

@final
class SessionPart:
    # From now on.
    @property
    def record(self) -> SessionRecord: ...
    # Whether earlier knowledge of the session must be forgotten.
    @property
    def begins_anew(self) -> bool: ...
    # Chunks of the words, to be added in these batches: each a text and its time.
    @property
    def batches(self) -> list[list[tuple[str, datetime]]]: ...
    @property
    def bytes(self) -> int: ...

# A session at a glance. Names take about `budget_tokens`. Raises OSError.
@final
class SessionOutline:
    def __new__(cls, file: SessionFile, budget_tokens: float, max_turns: int) -> SessionOutline: ...
    # The time and the words of user turns.
    @property
    def turns(self) -> list[tuple[str, str]]: ...
    @property
    def omitted_turns(self) -> int: ...
    # By use: the tool that was called with them, or their place.
    @property
    def names(self) -> dict[str, list[str]]: ...
    @property
    def messages(self) -> int: ...
    @property
    def broken_lines(self) -> int: ...
    # As a model reads it, in a fence.
    @property
    def text(self) -> str: ...

# The words in a line: the speaker ("user", "assistant", "call" of a tool) and the text.
def said_in(line: Mapping[str, Any]) -> list[tuple[str, str]]: ...
def words_of_user(message: Mapping[str, Any]) -> str: ...
def clean_text(text: str, max_chars: int) -> str: ...

# The entries in lines of an agent's.
def said_entries(
    lines: Iterable[Mapping[str, Any]], agent: str, ancestor: Callable[[str], str]
) -> list[dict[str, Any]]: ...

# From the end of a transcript: the last spoken lines, without results whose calls are not there,
# and Codex's last summary ("" for none). Both raise OSError.
def last_turns(path: PathLike[str], agent: str) -> list[dict[str, Any]]: ...
def last_summary(path: PathLike[str]) -> str: ...

# The id of the last known line, at this one or before it, or the id itself if there is none. The
# file is read backwards from an offset on.
def known_ancestor(
    name: str, path: PathLike[str], before: int, known: Container[object]
) -> str: ...

# The text that goes back after a compaction, and the names in the words and inputs of lines, the
# best first.
def put_back(mark: str, hint: str, store: str, excerpts: str, max_chars: int) -> str: ...
def used_names(lines: Sequence[Mapping[str, Any]]) -> list[str]: ...

# An agent's settings with groups of hooks, each as JSON with an indent of two, and without them, by
# event and number. Those that are empty then go too, except the kept ones: events; "", all hooks.
def settings_with_hooks(text: str, groups: Sequence[tuple[str, str]]) -> str: ...
def settings_without_hooks(
    text: str, gone: Mapping[str, Sequence[int]], kept: Sequence[str]
) -> str: ...

# The indices of a transcript's lines that the conversation went on from, in its order. None if no
# line names another.
def transcript_branch(entries: Sequence[Mapping[str, Any]]) -> list[int] | None: ...

# The best `limit` of the names that no shown text has, the best first: each with the number of
# the last text that has it, of the last tool input that has it, and whether it is a proper name.
def names(
    texts: Sequence[str],
    kinds: Sequence[int],
    units: Sequence[int],
    shown: Sequence[bool],
    limit: int,
) -> list[tuple[str, int, int | None, bool]]: ...

# The names in the texts of a conversation, and which of them are still visible.
@final
class NameIndex:
    def __new__(cls) -> NameIndex: ...
    # Of the messages, those in `kept` are visible. `reference_of` returns the reference by which a
    # dropped unit can be read. `excerpts` are messages that are kept in part, by index; `replaced`
    # maps an index to the names of an earlier outline.
    def add(
        self,
        conversation: Conversation,
        kept: Collection[int],
        reference_of: Callable[[Unit], str],
        *,
        excerpts: Mapping[int, Message] | None = None,
        replaced: Mapping[float, Sequence[OutlineName]] | None = None,
    ) -> None: ...
    # Add a text that is visible next to the conversation.
    def add_visible(self, text: str) -> None: ...
    # The names that are no longer visible, the most useful first.
    def best(self, limit: int) -> list[OutlineName]: ...

# The index of the first gap of a conversation where an outline may go, and the index that it is
# put before; None if there is none. `compact.outline` says more.
def outline_slot(
    conversation: Conversation,
    kept: Collection[int],
    removed: Sequence[float],
    model: ThinkingModel,
) -> tuple[float, float] | None: ...

# The names in the lines of an outline; None for any other text.
def read_outline(text: str) -> list[OutlineName] | None: ...

# The lines of an outline in their fence, as the text of a message; the names of an outline in its
# fence, None unless the text is exactly one outline.
def fenced_outline(lines: str) -> str: ...
def read_fenced_outline(text: str) -> list[OutlineName] | None: ...

# The lines of as many names of an outline as fit, in order; "" if none fits. `how` says to the
# reader how to ask for a name.
def write_outline(names: Sequence[OutlineName], how: str, fits: Callable[[str], bool]) -> str: ...
def cached_bytes() -> int: ...
def clear_cache() -> None: ...

CACHE_BYTES: int

def set_cache_limit(limit_bytes: int) -> None: ...
def cache_limit() -> int: ...

# The vectors of texts in the space of a model, float32; None if none was kept.
def cached_vectors(space: str, texts: Sequence[str]) -> list[bytes | None]: ...

# A row a text, C-contiguous float32; a row of zeros isn't a vector.
def cache_vectors(space: str, texts: Sequence[str], rows: Any) -> None: ...
def before_exit() -> None: ...
def before_fork() -> None: ...
def after_fork() -> None: ...

# Joins the events of a provider's stream to the body of an answer; `body` is None if it ended
# too early.
@final
class AnswerJoiner:
    def __new__(cls, provider: str) -> AnswerJoiner: ...
    def add(self, event: Mapping[str, Any]) -> str: ...
    def body(self) -> dict[str, Any] | None: ...

# Decodes server-sent events from bytes that may be cut anywhere.
@final
class EventDecoder:
    def __new__(cls) -> EventDecoder: ...
    def feed(self, chunk: bytes) -> list[str]: ...

# Several replies of a provider as one answer to a client; `begin` each, then `feed` or `take` it.
# `names` are those of the tools whose calls the proxy answers.
@final
class Replies:
    def __new__(cls, provider: str, names: Sequence[str]) -> Replies: ...
    @property
    def is_whole(self) -> bool: ...
    @property
    def calls(self) -> list[Any]: ...
    @property
    def has_others(self) -> bool: ...
    # Of the last reply, in the form of the next request; `shown` is the answer as the client has
    # it.
    @property
    def entries(self) -> list[Any]: ...
    @property
    def shown(self) -> tuple[Any, ...]: ...
    def begin(self) -> None: ...
    def feed(self, data: str) -> bytes: ...
    def take(self, body: dict[str, Any]) -> None: ...
    def finish(self) -> None: ...
    def end(self) -> bytes: ...
    def joined(self) -> dict[str, Any]: ...

# For the proxy: the status and the reason for a request that does not go on (None: it does);
# whether one is from this machine and not from a page of another site; and the headers that go on.
_Headers = Sequence[tuple[bytes, bytes]]

def refused_request(
    client: str | None, path: bytes, headers: _Headers
) -> tuple[int, str] | None: ...
def is_own_request(client: str | None, headers: _Headers) -> bool: ...
def end_to_end(headers: _Headers, dropped: Sequence[bytes]) -> list[tuple[bytes, bytes]]: ...

# A request's JSON object, whose messages are under `key`; ValueError for any other text.
@final
class RequestBody:
    def __new__(cls, raw: bytes, key: str) -> RequestBody: ...
    # Its values, without the messages.
    @property
    def fields(self) -> dict[str, Any]: ...
    # The messages, which are not read. None if they aren't a list.
    @property
    def items(self) -> list[RequestItem]: ...
    # A value as the client wrote it; "" if there is none.
    def written(self, name: str) -> str: ...
    # The body with other messages, also with these tools, and everything else as the client wrote
    # it.
    def with_items(self, texts: Sequence[str], tools: Sequence[str] = ...) -> bytes: ...

# One message of a request: as the client wrote it, its value, and the value without the marks of a
# cache. Both raise ValueError if the text isn't JSON.
@final
class RequestItem:
    def __new__(cls, text: str) -> RequestItem: ...
    @property
    def text(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def plain(self) -> Any: ...

_Exchange = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]

# A client's messages with the parts of their answers that it did not see: `known` returns the
# answers to the first messages.
def with_exchanges(
    items: Sequence[RequestItem], known: Callable[[int], Sequence[_Exchange]]
) -> list[RequestItem]: ...

# A message with its text as a block: clients change to blocks where a mark goes.
def in_blocks(message: Any) -> Any: ...
def is_answer(provider: str, body: Mapping[str, Any]) -> bool: ...

# Entries, text, calls, why it stopped, usage, model, id.
def read_answer(
    provider: str, body: Mapping[str, Any]
) -> tuple[list[Any], str, list[Any], Stop, Any, Any, Any]: ...

# The error that a body reports. None if it reports none.
def reported_in(provider: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None: ...

# The error for an SDK's exception; None if the provider did not fail.
def provider_error(provider: str, error: BaseException) -> ProviderError | None: ...

# The error that a body reports; `fallback` is its message if the body has none.
def error_from_body(
    provider: str,
    body: object,
    *,
    status: object = None,
    headers: object = None,
    fallback: str | None = None,
) -> ProviderError: ...
def error_event(raw: bytes, provider: str | None) -> bytes: ...

# The memory tool: the answer, whether it is an error, the changed files, and the records of the
# changes, for a log that `is_new` or not; the files after some records; the versions that are not
# the present text of a file, each with an empty body.
def memory_tool(provider: str) -> dict[str, Any]: ...
def memory_command(
    arguments: Any,
    texts: dict[str, str],
    is_new: bool,
    redactor: Callable[[str], Any] | None,
    limits: Any,
    overwrites: bool,
) -> tuple[str, bool, list[str], list[tuple[int, float, str]]]: ...
def memory_texts(
    rows: Sequence[tuple[int, float, str]], before: dict[str, str]
) -> dict[str, str]: ...
def memory_stale(
    rows: Sequence[tuple[int, float, str]], texts: dict[str, str]
) -> list[tuple[int, str]]: ...

# Reads the cost of an answer from its bytes.
@final
class Bill:
    def __new__(cls, *, is_streamed: bool) -> Bill: ...
    def feed(self, part: bytes) -> None: ...
    def usage(self) -> dict[str, Any]: ...

# The arguments of a call of a tool by name, within their schemas (`known`); null is the same as
# left out. Each raises InvalidArgumentError.
@final
class ToolArguments:
    def __new__(cls, sent: Mapping[str, Any], known: Mapping[str, Any]) -> ToolArguments: ...
    # As they were sent.
    @property
    def sent(self) -> Mapping[str, Any]: ...
    # "" if it is not needed and was not sent.
    def text(self, name: str, *, max_chars: int = ..., needed: bool = True) -> str: ...
    # None if none was sent.
    def texts(self, name: str) -> list[str] | None: ...
    # Within the range of its schema, which has a default.
    def whole(self, name: str) -> int: ...
    # One of the words of its schema; None if none was sent.
    def choice(self, name: str) -> str | None: ...

# A text without halves of surrogate pairs, which no request can carry; JSON without them in any of
# its strings.
def as_unicode(text: str) -> str: ...
def unicode_inside(value: Any) -> Any: ...

# Names that are not in use yet: each as wanted, or with the first number that makes it free.
@final
class FreeNames:
    def __new__(cls, taken: Iterable[str], between: str) -> FreeNames: ...
    def take(self, wanted: str) -> str: ...

# The description of a function, and that of each parameter by its name.
def parsed_docstring(docstring: str) -> tuple[str, dict[str, str]]: ...

# An object, or a text that is the JSON of one, as a dict; None for anything else.
def json_object(value: object) -> dict[str, Any] | None: ...

# Attributes of OpenTelemetry's spans: of an event of a turn; of its texts; of a usage; and a
# provider's name in the conventions.
def span_attributes(event: object) -> dict[str, Any]: ...
def span_texts(event: object) -> dict[str, str]: ...
def usage_attributes(usage: Usage) -> dict[str, Any]: ...
def provider_name(provider: str) -> str: ...

# A text as PostgreSQL takes it, and back.
def server_text(text: str) -> str: ...
def read_server_text(text: str) -> str: ...

# The part of a text that full-text search reads: all of it, or each word of a long one once.
def server_words(text: str) -> str: ...
def check_server_name(what: str, name: object, max_bytes: int) -> None: ...

# Rows of new items: handle, tier, kind, source, thread, tool, principal, trust, confidence,
# parents, time, created, expires, metadata, redactions, bytes, text, vector, words to be indexed.
def server_rows(
    namespace: str, items: Sequence[MemoryItem], now_ms: int, vectors: Any
) -> list[tuple[Any, ...]]: ...

# Items of rows, each with its id. A link: the item's id, the relation, the other's handle, whether
# it starts here, its number.
def server_items(
    namespace: str,
    rows: Sequence[tuple[Any, ...]],
    links: Sequence[tuple[int, str, str, bool, int]],
) -> list[tuple[int, MemoryItem]]: ...

# Whether words say too little of a query; and the texts that hold it, best first.
def is_scan(query: str) -> bool: ...
def scanned(
    query: str, texts: Sequence[tuple[int, str]], limit: int
) -> list[tuple[int, float]]: ...
def is_server_url(url: str) -> bool: ...
def shown_url(url: str) -> str: ...

# Ids of warm items that become cold, and of cold ones that go. A row: id, tier, bytes, when it was
# last said or found, trust, how often it was found.
def beyond_limits(
    rows: Sequence[tuple[int, int, int, int, float, int]],
    items: int,
    bytes: int,  # noqa: A002
    max_items: int | None,
    max_bytes: int | None,
) -> tuple[list[int], list[int]]: ...

# The measures of retention: a reader of messages of its own, and the needs after a cut.
def payload(message: Mapping[str, Any]) -> Mapping[str, Any]: ...
def role_of(message: Mapping[str, Any]) -> str: ...
def text_of(message: Mapping[str, Any]) -> str: ...
def tool_inputs(message: Mapping[str, Any]) -> str: ...
def user_text(message: Mapping[str, Any]) -> str: ...
def is_summary(message: Mapping[str, Any]) -> bool: ...
def has_calls(messages: Iterable[Mapping[str, Any]]) -> bool: ...
def count_messages(messages: Iterable[Mapping[str, Any]]) -> int: ...
def steps(messages: Iterable[Mapping[str, Any]]) -> list[range]: ...
def names_in(text: str) -> frozenset[str]: ...
def lines_in(text: str) -> frozenset[str]: ...
def without_marks(text: str) -> str: ...
def needs_after(
    before: Sequence[Mapping[str, Any]], ahead: Sequence[Mapping[str, Any]], has_calls: bool
) -> tuple[frozenset[str], frozenset[str]]: ...

@final
class Needs:
    def __new__(
        cls,
        names: Iterable[str],
        lines: Iterable[str],
        own: Sequence[Mapping[str, Any]],
    ) -> Needs: ...
    def found_in(
        self, messages: Iterable[Mapping[str, Any]]
    ) -> tuple[frozenset[str], frozenset[str]]: ...

# For each: name, message, its role, the text before and after it, its number of uses, and the first
# of them.
def lost_names(
    lost: Sequence[str],
    messages: Sequence[Mapping[str, Any]],
    ahead: Sequence[Mapping[str, Any]],
    most: int,
) -> list[tuple[str, int, str, str, str, int, str]]: ...
def binding_instructions(messages: Iterable[Mapping[str, Any]]) -> tuple[str, ...]: ...
def instructions_kept(
    sentences: Sequence[str], kept: Iterable[Mapping[str, Any]]
) -> float | None: ...
def is_turn_kept(turn: str, kept: Iterable[Mapping[str, Any]]) -> bool: ...

# The raw conversations in the text of a file; `expected` says what to pass.
def session_values(path: object, text: str, expected: str) -> list[Any]: ...

# For each text before, its runs compared with the text after: the old part, the new part, and
# whether it is kept.
def compared_texts(
    before: Sequence[tuple[int, str]], after: Sequence[tuple[int, str]]
) -> list[list[tuple[str, str, bool]]]: ...

# The entries of a scripted model's reply, the calls in them, and its id.
def scripted_reply(
    provider: str, parts: Sequence[Any], of_prompt: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]: ...

# Steps to keep, by new needs per cost; the better of that and of new needs alone.
def cover(
    needs: Sequence[Iterable[str]],
    costs: Sequence[int],
    budget: int,
    covered: Iterable[str] | None = None,
) -> list[int]: ...
def best_cover(needs: Sequence[Iterable[str]], costs: Sequence[int], budget: int) -> list[int]: ...

# Control characters as their pictures, and nothing that is not a character.
def visible_text(text: str) -> str: ...
