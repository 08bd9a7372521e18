"""prefix_report: where a prompt stops extending the previous one, and why; worth_compacting: when a
compaction has paid for itself.

Prompts are compared by their digests alone, so it is fast enough for every turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rehydrate import _native
from rehydrate._check import check_type, check_whole, shown
from rehydrate._text import notebook_html
from rehydrate.cost.prices import MAX_COUNT, MILLION, Price, Ttl, Usage, check_ttl, price_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import CompiledPrompt, Segment, shared_segments, tokens_of

Why = Literal["changed", "removed", "inserted", "reordered", "replaced", "other model"]
_WORDS: dict[str, str] = {
    "changed": "{place} changed",
    "removed": "{place} was removed",
    "inserted": "{place} was inserted",
    "reordered": "{place} was moved",
    "replaced": "{place} was replaced",
    "other model": "the model is another, and each has a cache of its own",
}


def segments_of(prompt: CompiledPrompt | Sequence[Segment]) -> Sequence[Segment]:
    """Return a prompt's segments, in the order in which they are read."""
    if isinstance(prompt, CompiledPrompt):
        return prompt.segments
    if isinstance(prompt, (list, tuple)) and all(isinstance(each, Segment) for each in prompt):
        for each in prompt:
            check_whole(f"segment {each.id!r}: tokens", each.tokens, 0)
        return prompt
    raise InvalidArgumentError(
        f"a prompt is of type {type(prompt).__name__}; pass a CompiledPrompt, or a list of Segments"
    )


class Break(NamedTuple):
    """The first difference between a prompt and the previous one."""

    place: str
    """A section, ``tools[2]`` or ``history[12]``: of the previous prompt, unless it was
    inserted."""
    kind: str
    """tool, system or message."""
    why: Why

    def __str__(self) -> str:
        """Return the break in words."""
        noun = {"tool": "the schema of ", "system": "system block "}.get(self.kind, "")
        return _WORDS[self.why].format(place=noun + self.place)


@dataclass(frozen=True, slots=True)
class PrefixReport:
    """How much of a prompt the cache of the previous one can serve."""

    shared_tokens: int
    """Tokens of the common beginning."""
    shared_segments: int
    previous_tokens: int
    current_tokens: int
    extends: bool
    """Whether the current prompt begins with the whole previous one."""
    keeps_cached: bool
    """Whether it begins with all that the cache was asked to keep: up to the last breakpoint of the
    previous prompt, or all of it if there is none."""
    broke: Break | None = None
    rewritten_tokens: int = 0
    """Tokens that were in the previous prompt too, and must be written again since something before
    them changed."""
    cost: float | None = None
    """Dollars of writing them beyond reading them; None without a known price."""
    billed: Usage | None = None
    """The tokens billed for the current prompt; None without its response."""
    diagnosis: str = ""
    """Why the provider's cache missed, in its own word: "messages_changed", and others of
    Anthropic's cache diagnostics; "" if it said nothing."""
    missed_tokens: int = 0
    """Tokens that it would have read otherwise, as it says."""

    def __str__(self) -> str:
        """Return one line: what is shared, and what broke it."""
        shared = f"{self.shared_tokens:,} of {self.previous_tokens:,} tokens are shared"
        if self.billed is not None:
            shared += f", {self.billed.read:,} of {self.billed.input:,} were read from the cache"
        if self.diagnosis:
            shared += f" ({self.diagnosis}: {self.missed_tokens:,} missed)"
        if self.broke is None:
            return f"{shared}: the prompt extends the one before it"
        money = "" if self.cost is None else f" (${self.cost:.4f})"
        again = f"{self.rewritten_tokens:,} tokens are written again{money}"
        return f"{shared}: {self.broke}, {again}"

    _repr_html_ = notebook_html


def prefix_report(
    previous: CompiledPrompt | Sequence[Segment],
    current: CompiledPrompt | Sequence[Segment],
    *,
    model: str = "",
    price: Price | None = None,
    ttl: Ttl = "5m",
    response: Mapping[str, Any] | None = None,
) -> PrefixReport:
    """Compare a prompt with the one that was sent before it.

    ``response`` is the provider's answer to the current prompt, as a mapping: its usage says what
    the cache served in fact, and cache diagnostics say why it served no more, if the request asked
    for them: Anthropic's with ``diagnostics={"previous_message_id": ...}``, OpenAI Responses' with
    ``prompt_cache_options={"comparison_response_id": ...}``.

    ``price``, or that of ``model``, or that of the current prompt's model if the table has it,
    gives the cost of a break. Cache marks are not part of a prefix: they may move without breaking
    it.

    >>> rules = Segment("rules", "system", 900, "a1", "static")
    >>> first = [rules, Segment("history[0]", "message", 50, "b2", "static")]
    >>> print(prefix_report(first, [rules._replace(digest="a2"), first[1]], price=Price(3, 15)))
    0 of 950 tokens are shared: system block rules changed, 50 tokens are written again ($0.0002)
    """
    check_ttl(ttl)
    before, after = segments_of(previous), segments_of(current)
    is_other_model = _is_other_model(previous, current)
    shared = 0 if is_other_model else shared_segments(before, after)
    shared_tokens = tokens_of(before[:shared])
    broke, rewritten, cost = None, 0, None
    if shared < len(before):
        why, rewritten = _native.prompt_break(before[shared:], after[shared:])
        why = "other model" if is_other_model else why
        segment = after[shared] if why == "inserted" else before[shared]
        broke = Break(segment.id, segment.kind, why)
    price = _price(model, current) if price is None else price
    if price is not None:
        check_type("price", price, Price, "pass a Price(input=..., output=...)")
        share = max(price.write_share(ttl) - price.read, 0.0)
        cost = share * price.input * rewritten / MILLION
    billed, diagnosis, missed = _read_response(response)
    last = len(before) - 1
    last_kept = next((index for index in range(last, -1, -1) if before[index].breakpoint), last)
    return PrefixReport(
        shared_tokens,
        shared,
        shared_tokens + tokens_of(before[shared:]),
        tokens_of(after),
        broke is None,
        shared > last_kept,
        broke,
        rewritten,
        cost,
        billed,
        diagnosis,
        missed,
    )


def _read_response(response: Mapping[str, Any] | None) -> tuple[Usage | None, str, int]:
    """Return the billed tokens, why the cache missed, and how many tokens."""
    if response is None:
        return None, "", 0
    check_type("response", response, Mapping, "pass the provider's answer as a mapping")
    names = ("usage", "usageMetadata", "usage_metadata")
    usage = next(filter(None, map(response.get, names)), None)
    if usage is None:
        raise InvalidArgumentError(
            "response has no usage; pass the whole answer, such as message.to_dict()"
        )
    reason = _fields(_fields(response.get("diagnostics")).get("cache_miss_reason"))
    found = _fields(response.get("prompt_cache_diagnostics"))
    missed = found.get("cache_missed_tokens") or reason.get("cache_missed_input_tokens")
    diagnosis = found.get("reason") or found.get("type") or reason.get("type")
    return (
        Usage.billed(usage),
        diagnosis if isinstance(diagnosis, str) and diagnosis != "cache_hit" else "",
        missed if isinstance(missed, int) else 0,
    )


def _fields(value: Any) -> Mapping[str, Any]:
    """Return what a diagnosis says; one of a shape that is unknown says nothing."""
    return value if isinstance(value, Mapping) else {}


def _is_other_model(
    previous: CompiledPrompt | Sequence[Segment], current: CompiledPrompt | Sequence[Segment]
) -> bool:
    if not (isinstance(previous, CompiledPrompt) and isinstance(current, CompiledPrompt)):
        return False
    names = {previous.model, current.model} - {""}
    return previous.provider != current.provider or len(names) > 1


def _price(model: str, current: CompiledPrompt | Sequence[Segment]) -> Price | None:
    if model:
        return price_of(model)
    if not isinstance(current, CompiledPrompt):
        return None
    try:
        return price_of(current.model)
    except InvalidArgumentError:
        return None


class Worth(NamedTuple):
    """Whether to compact, with the figures."""

    pays: bool
    """Whether the expected turns cost less with the compaction than without."""
    break_even_turns: float
    """Turns until both cost the same; 0.0: it pays at once, infinity: it never does."""
    saved: float
    """Dollars saved over the expected turns; below 0 if the compaction costs more."""


def worth_compacting(
    before_tokens: int,
    after_tokens: int,
    kept_tokens: int = 0,
    *,
    expected_turns: float,
    model: str = "",
    price: Price | None = None,
    compaction_cost: float = 0.0,
    warm: bool = True,
    ttl: Ttl = "5m",
) -> Worth:
    """Decide whether a history of `before_tokens` should be compacted to `after_tokens`.

    A warm history of H tokens costs ``r H`` a turn to read, with r the share that reading costs
    (0.1). Compacted to H', of which the first R0 tokens are unchanged, the next turn reads R0 and
    writes the rest at the share w (1.25): ``r R0 + w (H' - R0)``; every turn after it reads H'.
    With a compaction that itself costs C dollars, k turns cost the same either way when

        k r (H - H') = (w - r)(H' - R0) + C / p_in
        k* = (w - r)/r * (H' - R0)/(H - H')  +  C / (r p_in (H - H'))

    and (1.25 - 0.1)/0.1 = 11.5. A cold cache has to be written either way: the smaller history is
    cheaper from the first turn on.

    ``kept_tokens`` are the first of them that do not change (the prompt before the history is read
    either way and counted in none of the three). ``compaction_cost`` are the dollars of the
    compaction itself: 0 for Rehydrate's own, the price of a call for a summary. ``warm`` says that
    the history is in the cache. Only money is weighed, not other reasons to compact (a model that
    reads a shorter prompt better, a full window). Raises InvalidArgumentError for numbers outside
    their limits and a model without a price.

    >>> worth_compacting(100_000, 30_000, 10_000, expected_turns=10, price=Price(3, 15))
    Worth(pays=True, break_even_turns=3.2857142857142856, saved=0.141)
    """
    price = price_of(model) if price is None else price
    check_type("price", price, Price, "pass a Price(input=..., output=...)")
    _check(before_tokens, after_tokens, kept_tokens, expected_turns, compaction_cost)
    write, per_token = price.write_share(ttl), price.input / MILLION
    removed, rewritten = before_tokens - after_tokens, after_tokens - kept_tokens
    each_turn = price.read * removed * per_token
    # The cost of the first turn beyond reading the smaller history.
    once = (write - price.read) * rewritten * per_token + compaction_cost
    if not warm:  # the larger history would have been written too
        once = compaction_cost - (write - price.read) * removed * per_token
    saved = -compaction_cost
    if expected_turns > 0:  # endless turns of nothing save nothing
        saved = (expected_turns * each_turn if each_turn else 0.0) - once
    if removed <= 0:
        turns = math.inf if once > 0 or removed < 0 else 0.0
    elif once <= 0 or (not warm and compaction_cost <= write * removed * per_token):
        turns = 0.0
    else:
        turns = once / each_turn if each_turn else math.inf
    return Worth(saved > 0, turns, round(saved, 12))


def _check(before: int, after: int, kept: int, turns: float, cost: float) -> None:
    for name, value in (("before_tokens", before), ("after_tokens", after), ("kept_tokens", kept)):
        check_whole(name, value, 0, MAX_COUNT)
    if kept > min(before, after):
        raise InvalidArgumentError(
            f"kept_tokens is {kept:,}, before_tokens {before:,} and after_tokens {after:,}; what "
            "stays as it was is part of both"
        )
    for name, number in (("expected_turns", turns), ("compaction_cost", cost)):
        check_type(name, number, (int, float), "pass a number")
        is_endless = name == "expected_turns" and number == math.inf
        if not (0 <= number <= MAX_COUNT or is_endless):
            raise InvalidArgumentError(
                f"{name} is {shown(number)}; pass a number from 0 to {MAX_COUNT:,}"
            )
