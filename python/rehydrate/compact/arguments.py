"""The arguments of compact_context: each is checked, and brought into the form that is used."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._check import check_choice, check_timeout
from rehydrate.compact.signals import Deadline
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.messages import PROVIDERS, Conversation

if TYPE_CHECKING:
    from rehydrate.compact.archive import Writing

MIN_RATIO = 0.05
GRANULARITIES = ("message", "excerpt")
"""What is kept or left out as a whole: messages, or also blocks of long texts."""

THINKING = ("auto", "keep", "strip")
"""What becomes of the model's thinking in messages that are kept: "auto" keeps what the model takes
back, which is what stands before the first change where it binds thinking to its prefix."""


def checked_ratio(ratio: object) -> float:
    """The share of the tokens to keep: above 0, at most 1, and never less than 0.05."""
    if isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and 0 < ratio <= 1:
        return max(float(ratio), MIN_RATIO)
    raise InvalidArgumentError(
        f"target_ratio is {ratio!r}; pass the share of the tokens to keep, a number above 0 and up "
        f"to 1 (what is less than {MIN_RATIO} is taken as that){_instead_of(ratio)}"
    )


def _instead_of(ratio: object) -> str:
    """What was meant by a number that is no share."""
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


def checked_budget(budget: Any) -> int | None:
    """A number of tokens, or None."""
    if budget is None:
        return None
    with suppress(TypeError):  # numpy's integers are integers too
        if not isinstance(budget, bool) and (tokens := operator.index(budget)) >= 0:
            return min(tokens, 2**63)
    raise InvalidArgumentError(
        f"budget_tokens is {budget!r}; pass a whole number of tokens from 0 up, "
        "or None to go by target_ratio"
    )


def checked_deadline(timeout: object) -> Deadline | None:
    """By when to be done, or None."""
    seconds = check_timeout("timeout", timeout)
    return None if seconds is None else Deadline.within(seconds)


def checked_query(query: object) -> str | None:
    """What is asked: "" for nothing, None for what the user said last."""
    if not (query is None or isinstance(query, str)):
        raise InvalidArgumentError(f"query is a {type(query).__name__}; pass a string or None")
    return query if query is None else query.strip()


def check_choices(**chosen: object) -> None:
    """Refuse what is none of the words to choose from: granularity, thinking, provider."""
    known = {"granularity": GRANULARITIES, "thinking": THINKING, "provider": PROVIDERS}
    for name, value in chosen.items():
        if name == "provider" and value is None:
            continue
        check_choice(name, value, known[name])


def checked_inputs(excerpt_inputs: object, granularity: str) -> bool:
    """Whether inputs are cut: only together with results."""
    if not isinstance(excerpt_inputs, bool):
        raise InvalidArgumentError(f"excerpt_inputs is {excerpt_inputs!r}; pass True or False")
    if excerpt_inputs and granularity != "excerpt":
        raise InvalidArgumentError(
            f"excerpt_inputs is True, but granularity is {granularity!r}, which keeps every "
            'message whole; pass granularity="excerpt" with it'
        )
    return excerpt_inputs


def checked_model(model: object) -> str:
    """The name of the model that is asked next; "" where nobody says it."""
    if isinstance(model, str):
        return model
    raise InvalidArgumentError(
        f'model is a {type(model).__name__}; pass the model\'s name as the provider has it, or ""'
    )


def check_memory(memory: object) -> None:
    """Refuse what cannot recall, or would not know whose memories are meant."""
    if memory is not None and not callable(getattr(memory, "recall", None)):
        raise InvalidArgumentError(
            f"memory is of type {type(memory).__name__}, which has no recall; pass a "
            "rehydrate.Memory, an object with recall(vectors, k) -> similarities, or None"
        )
    if memory is not None and getattr(memory, "namespace", "") is None:
        raise MissingNamespaceError("memory")


def checked_archive(memory: Any, archive: object) -> Writing | None:
    """What is to be written to memory; None: nothing."""
    check_memory(memory)
    if archive is False:
        return None
    from rehydrate.compact.archive import Archive, Writing

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
    return Writing(memory, chosen)


def keeps_dropped(writing: Writing | None) -> bool:
    """Whether dropped messages and texts are kept whole, so that marks can name a handle."""
    return writing is not None and writing.archive.dropped


class Pinned(NamedTuple):
    """What is always kept."""

    reasons: dict[int, str]
    """By unit, why."""
    by_caller: tuple[int, ...]
    """The units that the caller pinned."""


def pinned_units(
    conversation: Conversation,
    messages: Sequence[Any],
    pin: Iterable[Any],
    *,
    thoughts: bool = True,
    reply: bool = True,
) -> Pinned:
    """Units that are always kept, with the reason: the conversation's own and the caller's.

    `pin` holds indices into `messages` or the very objects; without `thoughts` nothing is kept for
    the thinking alone that an open tool loop begins with, and without `reply` not the assistant's
    reply that the last user turn answers. Raises InvalidArgumentError for
    anything else.
    """
    if isinstance(pin, (int, str, Mapping)) or not isinstance(pin, Iterable):
        raise InvalidArgumentError(
            f"pin is of type {type(pin).__name__}; pass a list of indices or message objects"
        )
    pins = conversation.pins(thoughts=thoughts, reply=reply)
    indices = [_index_of(messages, entry) for entry in pin]
    wanted = conversation.units_holding(indices) if indices else ()
    for unit in wanted:
        pins.setdefault(unit, "pinned by the caller")
    return Pinned(pins, wanted)


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
