"""The arguments of compact_context: checked, and in the form that the pipeline uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine
from rehydrate.compact.options import OPTIONS
from rehydrate.compact.outline import OutlineSize
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import Deadline, Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation

if TYPE_CHECKING:
    from rehydrate.compact.archive import Archive, ArchiveTarget
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model


class Arguments(NamedTuple):
    """The checked arguments of a call."""

    query: str | None
    """"" for no query; None for the last user turn."""
    target_ratio: float
    budget_tokens: int | None
    scoring: Scoring
    counter: str | _engine.CustomCounter
    caller_model: Model | NamedModel | None
    """The model in `embedder`; None for the built-in model, and for none."""
    has_embedder: bool
    memory: Memory | None
    archive: ArchiveTarget | None
    deadline: Deadline | None
    format: str
    divides_texts: bool
    thinking: str
    model: str
    provider: str | None
    pin: Iterable[Any]
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
    scoring, seconds = checked["scoring"], checked["timeout"]
    return Arguments(
        query=checked["query"],
        target_ratio=checked["target_ratio"],
        budget_tokens=checked["budget_tokens"],
        scoring=scoring,
        counter=checked["counter"] or _engine.check_counter(scoring.counter),
        caller_model=checked["embedder"],
        has_embedder=given["embedder"] is not None,
        memory=checked["memory"],
        archive=_archive_target(checked["memory"], checked["archive"]),
        deadline=None if seconds is None else Deadline.within(seconds),
        format=checked["format"],
        divides_texts=checked["granularity"] == "excerpt",
        thinking=checked["thinking"],
        model=checked["model"],
        provider=checked["provider"],
        pin=checked["pin"],
        outline=checked["outline"],
    )


def _archive_target(memory: Any, archive: Archive | None) -> ArchiveTarget | None:
    """Return what is written to which memory; None for nothing."""
    if archive is None:
        return None
    from rehydrate.compact.archive import ArchiveTarget

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
    return ArchiveTarget(memory, archive)


class Pinned(NamedTuple):
    """The units that are always kept."""

    reasons: dict[int, str]
    """Unit -> reason."""
    by_caller: tuple[int, ...]
    """The units that the caller pinned."""


def pinned_units(
    conversation: Conversation,
    indices: Sequence[int],
    *,
    thoughts: bool = True,
) -> Pinned:
    """Return the units that are always kept: the conversation's own, and those that hold the
    messages that the caller pinned.

    Without `thoughts`, no unit is kept only for the thinking that begins an open tool loop.
    """
    pins = conversation.pins(thoughts=thoughts)
    by_caller = tuple(conversation.units_holding(indices))
    for unit in by_caller:
        pins.setdefault(unit, "pinned by the caller")
    return Pinned(pins, by_caller)


def pinned_indices(messages: Sequence[Any], pin: Iterable[Any]) -> list[int]:
    """Return the indices of the messages that the caller pinned.

    `pin` holds indices into `messages`, or the message objects themselves. Raises
    InvalidArgumentError for anything else.
    """
    if isinstance(pin, (int, str, Mapping)) or not isinstance(pin, Iterable):
        raise InvalidArgumentError(
            f"pin is of type {type(pin).__name__}; pass a list of indices or message objects"
        )
    return [_index_of(messages, entry) for entry in pin]


def _index_of(messages: Sequence[Any], entry: Any) -> int:
    if isinstance(entry, int) and not isinstance(entry, bool):
        if -len(messages) <= entry < len(messages):
            return entry % len(messages)
        raise InvalidArgumentError(
            f"pin names message {entry} of {len(messages)}; "
            f"an index goes from {-len(messages)} to {len(messages) - 1}"
        )
    for index, message in enumerate(messages):
        if message is entry:
            return index
    raise InvalidArgumentError(
        f"pin holds a {type(entry).__name__} that is none of the messages; "
        "pass an index, or the very object that is in the list"
    )
