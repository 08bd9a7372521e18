"""Strategies to compare: `compact_context` and its settings, the last messages, and your own."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehydrate._text import error_text
from rehydrate.compact.api import compact_context
from rehydrate.compact.options import MIN_RATIO
from rehydrate.errors import InvalidArgumentError, MissingPackageError
from rehydrate.retention.baselines import keep_last, trim_messages
from rehydrate.retention.measure import Compact, Kept
from rehydrate.retention.reading import Message
from rehydrate.tokens import count_tokens

MAX_CACHED_COUNTS = 50_000
"""Maximum number of messages whose count is cached."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A compactor with a name."""

    name: str
    compact: Compact
    options: tuple[tuple[str, Any], ...] | None = None
    """Options, if it is `compact_context`; only such strategies are recommended."""

    def code(self, ratio: float) -> str:
        """Return the Python call at this ratio."""
        options = "".join(f", {name}={value!r}" for name, value in self.options or ())
        return f"compact_context(messages, target_ratio={ratio:g}{options})"

    def command(self, ratio: float) -> str:
        """Return the command line at this ratio."""
        options = "".join(f" --{name} {value}" for name, value in self.options or ())
        return f"rehydrate compact FILE --ratio {ratio:g}{options}"


def standard_strategies(cost: Callable[[Message], int]) -> list[Strategy]:
    """Return the usual baselines and this package's settings, each the simplest first."""
    found = [Strategy("keep last", keep_last(cost))]
    with suppress(MissingPackageError):  # "keep last" keeps the same
        found.append(Strategy("trim_messages", trim_messages(cost)))
    found.append(_ours("compact_context"))
    found.append(_ours("excerpts", granularity="excerpt"))
    # Not to be recommended: it keeps the names that the measure looks for, but not their meaning.
    found.append(Strategy("outline", compacted(outline=True, thinking="keep")))
    return found


def _ours(name: str, **options: Any) -> Strategy:
    # The thinking stays: no request is made of the output, and an open tool loop would wait.
    return Strategy(name, compacted(**options, thinking="keep"), tuple(options.items()))


def compacted(**options: Any) -> Compact:
    """Return `compact_context` with these options as a `Compact` function."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        budget = None if ratio >= MIN_RATIO else int(count_tokens(messages) * ratio)
        compaction = compact_context(messages, query, ratio, budget_tokens=budget, **options)

        def reasons() -> dict[int, str]:
            return {dropped.index: dropped.reason for dropped in compaction.dropped}

        indices = [*compaction.indices]
        if compaction.outline is not None:  # it lists what was removed, and brings nothing back
            del indices[compaction.outline.position]
        return Kept(compaction.messages, indices, reasons)

    return compact


def named_strategy(name: str) -> Strategy:
    """Return the function that ``module:function`` names, as a strategy.

    It is called with the messages, the query or None, and the ratio of the tokens to keep. It
    returns the messages that are left; some may be its own. Modules of the current folder are found
    too. Raises InvalidArgumentError where there is no such function.

    >>> named_strategy("json:nothing")
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: strategy 'json:nothing': nothing is not in json; name \
a function (messages, query, ratio) -> messages
    """
    module_name, colon, function_name = name.partition(":")
    if not (colon and module_name and function_name):
        raise InvalidArgumentError(f"strategy is {name!r}; write it as module:function")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # any error of the import
        raise InvalidArgumentError(
            f"strategy {name!r}: {module_name} cannot be imported ({error_text(error)}); run it in "
            "the folder of the module, or install it"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        is_there = hasattr(module, function_name)
        kind = f"a {type(function).__name__}" if is_there else f"not in {module_name}"
        raise InvalidArgumentError(
            f"strategy {name!r}: {function_name} is {kind}; "
            "name a function (messages, query, ratio) -> messages"
        )
    return Strategy(name, checked(function, name))


def checked(function: Callable[..., Any], name: str) -> Compact:
    """Wrap a caller's function as a compactor: its result is checked, and copies of messages are
    matched to the originals."""

    def compact(messages: list[Message], query: str | None, ratio: float) -> list[Message]:
        returned = function(list(messages), query, ratio)
        kept = getattr(returned, "messages", returned)
        if not isinstance(kept, (list, tuple)):
            kind = type(kept).__name__
            raise InvalidArgumentError(f"{name} returned a {kind}; return a list of messages")
        for index, message in enumerate(kept):
            if not isinstance(message, dict):
                kind = type(message).__name__
                raise InvalidArgumentError(
                    f"{name} returned a {kind} as message {index}; return dicts in the format "
                    "that came in"
                )
        return Kept(kept, _indices(kept, messages))

    return compact


def exact_cost() -> Callable[[Message], int]:
    """Return a function that counts a message's tokens exactly, once: the unit of budgets."""
    counts: dict[int, tuple[Message, int]] = {}

    def cost(message: Message) -> int:
        if id(message) not in counts:
            if len(counts) >= MAX_CACHED_COUNTS:
                counts.clear()
            # The message is held, so that its id stays its own.
            counts[id(message)] = (message, count_tokens([message]))
        return counts[id(message)][1]

    return cost


def _indices(kept: Sequence[Message], messages: Sequence[Message]) -> list[int]:
    """Return the indices of the kept messages: the same objects, then those that are equal."""
    by_id = {id(message): index for index, message in enumerate(messages)}
    found = [by_id[id(message)] for message in kept if id(message) in by_id]
    others = [message for message in kept if id(message) not in by_id]
    if others:
        written = {_as_json(message): index for index, message in enumerate(messages)}
        found += [written[text] for text in map(_as_json, others) if text in written]
    return sorted(set(found))


def _as_json(message: Message) -> str:
    return json.dumps(message, sort_keys=True, default=str)
