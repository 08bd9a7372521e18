"""OPTIONS: the options of compact_context, each with its default, its check and its JSON Schema.

Every surface derives them from here: the function itself, JSON-RPC and MCP, the command line,
batches and the engines that run them. `Arguments` are those of a call, checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, get_args

from rehydrate import _engine
from rehydrate._check import check_choice, check_timeout
from rehydrate._engine import COUNTERS
from rehydrate._native import (
    Scoring,
    check_counter,
    check_outline,
    checked_budget,
    checked_memory,
    checked_query,
    checked_ratio,
)
from rehydrate.compact.outline import OutlineSize
from rehydrate.compact.signals import Deadline, Memory
from rehydrate.embedding.choice import Choice, choice_of
from rehydrate.embedding.protocol import Model
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import FORMATS
from rehydrate.messages import PROVIDERS, Conversation

if TYPE_CHECKING:
    from rehydrate._engine import CounterName
    from rehydrate.compact.archive import Archive
    from rehydrate.formats import FormatName
    from rehydrate.messages import Provider


MIN_RATIO = 0.05
"""The least target_ratio: smaller ones are raised to it. A budget in tokens may be smaller."""

ProfileName = Literal["balanced", "chitta"]
"""The names of scoring profiles (`Scoring.named`)."""

Granularity = Literal["message", "excerpt"]

GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""The pieces that are kept or dropped: whole messages, or also blocks of long texts."""

ThinkingPolicy = Literal["auto", "keep", "strip"]

THINKING: tuple[ThinkingPolicy, ...] = get_args(ThinkingPolicy)
"""The policies for thinking in kept messages: "auto" keeps what the model takes back. A model that
binds thinking to its prefix takes back only what is before the first change."""


class RetentionOptions(TypedDict, total=False):
    """The options that a measured compaction takes (`retention_batch`)."""

    scoring: ProfileName | Scoring
    embedder: str | PathLike[str] | Model | Callable[[list[str]], Any] | None
    counter: CounterName | Callable[[str], int] | None
    format: FormatName | Literal["auto"]
    granularity: Granularity
    thinking: ThinkingPolicy
    outline: OutlineSize


class CompactOptions(RetentionOptions, total=False):
    """The options that apply to all rows of a batch; each means what it does for one.

    Not among them: ``memory`` and ``archive``, which belong to one conversation's owner, ``pin``,
    which names messages of one conversation, and ``timeout``.
    """

    query: str | None
    """For rows without one of their own."""
    target_ratio: float
    budget_tokens: int | None
    model: str
    provider: Provider | None


class Option(NamedTuple):
    """One option."""

    default: Any
    check: Callable[[Any], Any]
    """Returns the value as the pipeline uses it, or raises InvalidArgumentError."""
    schema: Mapping[str, Any]
    """The options as JSON's values; empty if JSON has none."""
    description: str
    """For a client that shows the schema, and for the command line; if the schema is empty, why
    a client can't set it."""


def choice(name: str, choices: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return the check of an option that is one of these words."""

    def checked(value: Any) -> Any:
        check_choice(name, value, choices)
        return value

    return checked


def _profile(scoring: Any) -> Scoring:
    return scoring if isinstance(scoring, Scoring) else Scoring.named(scoring)


def _or_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _model(model: object) -> str:
    if isinstance(model, str):
        return model
    raise InvalidArgumentError(
        f'model is a {type(model).__name__}; pass the model\'s name as the provider has it, or ""'
    )


def _timeout(timeout: object) -> Deadline | None:
    seconds = check_timeout("timeout", timeout)
    return None if seconds is None else Deadline.within(seconds)


def _archive(archive: object) -> Any:
    """Return an Archive; None for nothing."""
    if archive is False:
        return None
    from rehydrate.compact.archive import Archive

    chosen = Archive() if archive is True else archive
    if not isinstance(chosen, Archive):
        raise InvalidArgumentError(
            f"archive is {archive!r}; pass True, False or an Archive(dropped=..., novel=...)"
        )
    return chosen


def _check_writable(memory: object, archive: Archive) -> None:
    """Refuse to archive into something that can't be written to."""
    if memory is None:
        raise InvalidArgumentError(
            f"archive is {archive!r}, but there is no memory to write to; "
            "pass memory=rehydrate.Memory.open(path, namespace=...)"
        )
    if not callable(getattr(memory, "add", None)):
        raise InvalidArgumentError(
            f"archive is {archive!r}, but memory is of type {type(memory).__name__}, which has no "
            "add; pass a rehydrate.Memory"
        )


def _later(value: Any) -> Any:
    """Leave it to the check against the messages."""
    return value


OPTIONS: Mapping[str, Option] = {
    "query": Option(
        None,
        checked_query,
        {"type": ["string", "null"]},
        "What the next turn is about; null: what the user said last.",
    ),
    "target_ratio": Option(
        0.4,
        checked_ratio,
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "Share of the tokens to keep, from 0.05 (what is less is taken as that).",
    ),
    "budget_tokens": Option(
        None,
        checked_budget,
        {"type": ["integer", "null"], "minimum": 0},
        "Tokens to keep, instead of target_ratio.",
    ),
    "memory": Option(
        None,
        checked_memory,
        {},
        "the server's own: `rehydrate rpc --memory FILE --namespace NAME`",
    ),
    "scoring": Option(
        "balanced",
        _profile,
        {"type": "string", "enum": [*get_args(ProfileName)]},
        "How messages are judged; chitta is the plain formula of three signals.",
    ),
    "embedder": Option(
        "auto",
        choice_of,
        {},
        "a callable, or which of the server's own models to use: the server's choice",
    ),
    "counter": Option(
        None,
        _or_none(check_counter),
        {"type": ["string", "null"], "enum": [*COUNTERS, None]},
        "What counts tokens: an exact encoding, or an estimate by words or characters. null: the "
        "scoring's own.",
    ),
    "format": Option(
        "auto",
        _later,
        {"type": "string", "enum": ["auto", *FORMATS]},
        "The messages' format, where it should not be detected.",
    ),
    "granularity": Option(
        "message",
        choice("granularity", GRANULARITIES),
        {"type": "string", "enum": [*GRANULARITIES]},
        "message: messages are kept or dropped whole. excerpt: of long texts the best blocks are "
        "kept. Default: message; over MCP excerpt where archive is true.",
    ),
    "thinking": Option(
        "auto",
        choice("thinking", THINKING),
        {"type": "string", "enum": [*THINKING]},
        "The model's thinking in kept messages: auto keeps what the model takes back (newer Claude "
        "models refuse it after a change), keep all of it, strip none but that of an open tool "
        "loop.",
    ),
    "model": Option(
        "",
        _model,
        {"type": "string"},
        "The model that is asked next, which decides what thinking auto keeps; empty: a Claude "
        "that takes none after a change.",
    ),
    "provider": Option(
        None,
        _or_none(choice("provider", PROVIDERS)),
        {"type": ["string", "null"], "enum": [*PROVIDERS, None]},
        "For whom a list of OpenAI chat or plain messages is, where a gateway sends it on; null: "
        "the list's own, or anthropic where the model is a Claude.",
    ),
    "pin": Option(
        [],
        _later,
        {"type": "array", "items": {"type": "integer"}},
        "Messages that are always kept: their indices, from the end if negative.",
    ),
    "timeout": Option(
        None,
        _timeout,
        {"type": ["number", "null"], "minimum": 0},
        "Seconds after which the answer is made with the vectors there are.",
    ),
    "archive": Option(
        False,
        _archive,
        {
            "type": ["boolean", "object"],
            "properties": {
                "dropped": {"type": "boolean", "description": "Every dropped message, whole."},
                "novel": {"type": "boolean", "description": "What memory does not hold yet."},
                "episode": {"type": "boolean", "description": "One line about this compaction."},
                "thread": {"type": ["string", "null"], "description": "The conversation's name."},
            },
            "additionalProperties": False,
        },
        "What is written to the server's memory before it is dropped; true: every dropped message, "
        "whole. Marks of gaps name its handle.",
    ),
    "outline": Option(
        False,
        check_outline,
        {"type": ["boolean", "number"]},
        "List the names in what is dropped, in a message of its own where the first gap is: true, "
        "or its size in tokens (a whole number) or as a share of the conversation.",
    ),
}
"""By name, in the order of the function's parameters."""


class Arguments(NamedTuple):
    """The checked arguments of a call."""

    query: str | None
    """"" for no query; None for the last user turn."""
    target_ratio: float
    budget_tokens: int | None
    memory: Memory | None
    scoring: Scoring
    embedder: Choice
    counter: str | _engine.CustomCounter
    format: str
    granularity: Granularity
    thinking: ThinkingPolicy
    model: str
    provider: str | None
    pin: Iterable[Any]
    timeout: Deadline | None
    archive: Archive | None
    """The content to write to `memory`; None for nothing."""
    outline: OutlineSize

    def target_of(self, before_tokens: int) -> int:
        """Return how many of these tokens may be kept."""
        if self.budget_tokens is not None:
            return self.budget_tokens
        return math.floor(before_tokens * self.target_ratio + 1e-9)

    @property
    def is_calibrated(self) -> bool:
        """Whether signals are calibrated within the conversation."""
        return self.scoring.signals == "calibrated"

    @property
    def packs_by_coverage(self) -> bool:
        """Whether the packing rewards one mention of everything that matters."""
        return self.scoring.packing == "coverage"


def checked_arguments(**given: Any) -> Arguments:
    """Return the arguments of compact_context, or raise InvalidArgumentError for the first bad one.

    `format` and `pin` are checked later, against the messages.
    """
    checked = {name: OPTIONS[name].check(value) for name, value in given.items()}
    if checked["archive"] is not None:
        _check_writable(checked["memory"], checked["archive"])
    if checked["counter"] is None:
        checked["counter"] = check_counter(checked["scoring"].counter)
    return Arguments(**checked)


def pinned_units(
    conversation: Conversation, indices: Sequence[int], *, thoughts: bool = True
) -> tuple[dict[int, str], list[int]]:
    """Return the units that are always kept, each with the reason: the conversation's own, and
    those that hold the messages that the caller pinned, which come once more by themselves.

    Without `thoughts`, no unit is kept only for the thinking that begins an open tool loop.
    """
    pins = conversation.pins(thoughts=thoughts)
    by_caller = conversation.units_holding(indices)
    for unit in by_caller:
        pins.setdefault(unit, "pinned by the caller")
    return pins, by_caller
