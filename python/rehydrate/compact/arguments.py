"""The arguments of compact_context: checked, and in the form that the pipeline uses."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rehydrate import _engine
from rehydrate._check import check_choice, check_timeout
from rehydrate.compact.outline import OutlineSize
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import Deadline, Memory
from rehydrate.embedding.choice import model_of
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.messages import PROVIDERS, Conversation

if TYPE_CHECKING:
    from rehydrate.compact.archive import ArchiveTarget
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model

MIN_RATIO = 0.05

Granularity = Literal["message", "excerpt"]

GRANULARITIES: tuple[Granularity, ...] = ("message", "excerpt")
"""The pieces that are kept or dropped whole: messages, or also blocks of long texts."""

ThinkingPolicy = Literal["auto", "keep", "strip"]

THINKING: tuple[ThinkingPolicy, ...] = ("auto", "keep", "strip")
"""The policies for thinking in kept messages: "auto" keeps what the model takes back. A model that
binds thinking to its prefix takes back only what stands before the first change."""


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
    """Not checked: the check needs the conversation's target."""

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


def checked_arguments(
    query: object,
    target_ratio: object,
    *,
    budget_tokens: object,
    memory: Any,
    scoring: Any,
    embedder: Any,
    counter: object,
    format: str,  # noqa: A002  the field's word
    granularity: Any,
    thinking: Any,
    model: object,
    provider: Any,
    pin: Iterable[Any],
    timeout: object,
    archive: object,
    outline: OutlineSize,
) -> Arguments:
    """Return the arguments of compact_context, or raise InvalidArgumentError for the first bad one.

    `format`, `pin` and `outline` are checked later, against the messages.
    """
    profile = scoring if isinstance(scoring, Scoring) else Scoring.named(scoring)
    ratio, budget = _checked_ratio(target_ratio), _checked_budget(budget_tokens)
    counted_by = _engine.check_counter(profile.counter if counter is None else counter)
    check_choice("granularity", granularity, GRANULARITIES)
    check_choice("thinking", thinking, THINKING)
    if provider is not None:
        check_choice("provider", provider, PROVIDERS)
    model = _checked_model(model)
    query = _checked_query(query)
    caller_model = model_of(embedder)
    seconds = check_timeout("timeout", timeout)
    deadline = None if seconds is None else Deadline.within(seconds)
    return Arguments(
        query=query,
        target_ratio=ratio,
        budget_tokens=budget,
        scoring=profile,
        counter=counted_by,
        caller_model=caller_model,
        has_embedder=embedder is not None,
        memory=memory,
        archive=_checked_archive(memory, archive),
        deadline=deadline,
        format=format,
        divides_texts=granularity == "excerpt",
        thinking=thinking,
        model=model,
        provider=provider,
        pin=pin,
        outline=outline,
    )


def _checked_ratio(ratio: object) -> float:
    """Return the share of the tokens to keep: above 0, at most 1, raised to 0.05 if less."""
    if isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and 0 < ratio <= 1:
        return max(float(ratio), MIN_RATIO)
    raise InvalidArgumentError(
        f"target_ratio is {ratio!r}; pass the share of the tokens to keep, a number above 0 and up "
        f"to 1 (what is less than {MIN_RATIO} is taken as that){_ratio_hint(ratio)}"
    )


def _ratio_hint(ratio: object) -> str:
    """Return what a number that is no share was probably meant as, or ""."""
    if not isinstance(ratio, (int, float)) or isinstance(ratio, bool):
        return ""
    if isinstance(ratio, float) and math.isnan(ratio):
        return ""
    if 100 * MIN_RATIO <= ratio <= 100:
        return f"; did you mean {ratio / 100:g}?"
    if 1 < ratio < 100 * MIN_RATIO:
        return ""
    if ratio > 100:
        return "; a number of tokens is budget_tokens"
    return "; budget_tokens=0 keeps only what is always kept"


def _checked_budget(budget: Any) -> int | None:
    """Return a number of tokens, or None."""
    if budget is None:
        return None
    with suppress(TypeError):  # numpy's integers are integers too
        if not isinstance(budget, bool) and (tokens := operator.index(budget)) >= 0:
            return min(tokens, 2**63)
    raise InvalidArgumentError(
        f"budget_tokens is {budget!r}; pass a whole number of tokens from 0 up, "
        "or None to go by target_ratio"
    )


def _checked_query(query: object) -> str | None:
    """Return the query without surrounding white space, or None."""
    if not (query is None or isinstance(query, str)):
        raise InvalidArgumentError(f"query is a {type(query).__name__}; pass a string or None")
    return query if query is None else query.strip()


def _checked_model(model: object) -> str:
    """Return the name of the model that gets the messages; "" if unknown."""
    if isinstance(model, str):
        return model
    raise InvalidArgumentError(
        f'model is a {type(model).__name__}; pass the model\'s name as the provider has it, or ""'
    )


def _check_memory(memory: object) -> None:
    """Raise for an object without `recall`, and for a memory without a namespace."""
    if memory is not None and not callable(getattr(memory, "recall", None)):
        raise InvalidArgumentError(
            f"memory is of type {type(memory).__name__}, which has no recall; pass a "
            "rehydrate.Memory, an object with recall(vectors, k) -> similarities, or None"
        )
    if memory is not None and getattr(memory, "namespace", "") is None:
        raise MissingNamespaceError("memory")


def _checked_archive(memory: Any, archive: object) -> ArchiveTarget | None:
    """Return what is written to which memory; None for nothing."""
    _check_memory(memory)
    if archive is False:
        return None
    from rehydrate.compact.archive import Archive, ArchiveTarget

    chosen = Archive() if archive is True else archive
    if not isinstance(chosen, Archive):
        raise InvalidArgumentError(
            f"archive is {archive!r}; pass True, False or an Archive(dropped=..., novel=...)"
        )
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
    return ArchiveTarget(memory, chosen)


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
