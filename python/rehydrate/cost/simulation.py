"""Simulation of a provider's cache: `simulate` bills prompts.

An Anthropic cache keeps the prefixes that end at a breakpoint, and looks for one from each
breakpoint back over 20 content blocks. OpenAI's and Gemini's keep every prefix, OpenAI's in steps
of 128 tokens; from GPT-5.6 on, OpenAI's keeps the one that ends with the newest message. All keep
nothing shorter than the model's minimum, and drop a prefix that was not used for its time to live;
reading it restarts that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rehydrate import _native, formats
from rehydrate._check import check_list, check_type, check_whole, shown
from rehydrate._text import notebook_html
from rehydrate.cost.prefix import segments_of
from rehydrate.cost.prices import (
    MAX_COUNT,
    Price,
    Ttl,
    Usage,
    check_ttl,
    cost,
    minimum_prefix,
    price_of,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import CompiledPrompt, Segment
from rehydrate.prompt.request import NO_POLICY, ProviderPolicy


@dataclass(frozen=True, slots=True)
class Simulation:
    """The requests of a job: `turns` has the usage of each, `costs` its dollars."""

    turns: tuple[Usage, ...]
    costs: tuple[float, ...]
    price: Price
    billed: tuple[Usage, ...]
    """Those of `turns`, and before one that was summarised its summary: each is billed alone, by
    the prices of a long one or not."""

    @property
    def total(self) -> Usage:
        """Usage of all requests together."""
        return Usage.total(self.turns)

    @property
    def cost(self) -> float:
        """Dollars of all requests together, output included."""
        return sum(self.costs)

    @property
    def input_cost(self) -> float:
        """Dollars of the prompts alone."""
        return sum([cost(turn._replace(output=0), self.price) for turn in self.billed])

    @property
    def plain_input_cost(self) -> float:
        """Dollars of the same prompts without any cache."""
        return sum([cost(Usage(uncached=turn.input), self.price) for turn in self.billed])

    @property
    def saved(self) -> float:
        """Share of the prompts' dollars that the cache saves; below 0 if it costs more.

        0.0 if there was nothing to pay.
        """
        plain = self.plain_input_cost
        return 1 - self.input_cost / plain if plain else 0.0

    @property
    def hit_rate(self) -> float:
        """Share of the prompts' tokens that were read from the cache."""
        total = self.total
        return total.read / total.input if total.input else 0.0

    def __str__(self) -> str:
        """Return a line for each request, then the sums, as a table in plain text."""
        rows = [*zip(self.turns, self.costs, strict=True), (self.total, self.cost)]
        lines = [
            f"{'request':>7}{'read':>12}{'written':>12}{'uncached':>12}{'output':>12}{'$':>12}"
        ]
        for number, (turn, dollars) in enumerate(rows, 1):
            counts = (turn.read, turn.written + turn.written_1h, turn.uncached, turn.output)
            name = number if number < len(rows) else "all"
            lines.append(f"{name:>7}{''.join([f'{n:>12,}' for n in counts])}{dollars:>12.4f}")
        return "\n".join([*lines, f"the cache saves {self.saved:.0%} of the input's price"])

    _repr_html_ = notebook_html


def simulate(
    prompts: Iterable[CompiledPrompt | Sequence[Segment]],
    *,
    model: str = "",
    price: Price | None = None,
    ttl: Ttl = "5m",
    gaps: float | Sequence[float] = 0.0,
    output_tokens: int | Sequence[int] = 0,
    minimum_tokens: int | None = None,
    policy: ProviderPolicy = NO_POLICY,
) -> Simulation:
    """Simulate the bill of these prompts, sent in this order, each after the previous answer.

    ``model`` gives price and minimum prefix ("": that of the first prompt); ``price`` and
    ``minimum_tokens`` override it. ``gaps`` are the seconds between a request and the next, one
    number for all or one for each but the first; ``output_tokens`` likewise, one for each. Raises
    InvalidArgumentError for a model without a price, for more than 4 breakpoints of Anthropic's,
    and for sequences of another length.

    ``policy`` is how the provider caches (`ProviderPolicy`): with ``cache_breakpoints`` OpenAI only
    caches prefixes that end at one of them: it writes the latest 4 of a prompt and looks at the
    latest 80. (Its ``ttl`` is "30m" from GPT-5.6 on, or "12h" in the Responses API.) With
    ``cached_content`` Gemini has the tools and the system text already; its storage is not billed
    here. Above ``compact_at`` Anthropic reads the prompt once more and writes a summary of 2,000
    tokens, which later prompts have instead of the summarised messages. Above
    ``clear_tool_uses_at`` it leaves the results of old calls out; that needs compiled prompts, in
    which they can be seen.

    Unknowns are assumed at their best: no entry is lost to load, and every breakpoint in a prompt
    counts as used.

    >>> tools = Segment("tools[0]", "tool", 3_000, "a1", "static", breakpoint=True)
    >>> again = simulate([[tools], [tools]], price=Price(input=3, output=15))
    >>> [(turn.read, turn.written) for turn in again.turns]
    [(0, 3000), (3000, 0)]
    """
    check_list("prompts", prompts, "pass a list of compiled prompts")
    prompts = list(prompts)
    model = model or next((p.model for p in prompts if isinstance(p, CompiledPrompt)), "")
    price = price_of(model) if price is None else price
    check_type("price", price, Price, "pass a Price(input=..., output=...)")
    check_whole("minimum_tokens", minimum_tokens, 0, or_none=True)
    minimum = minimum_prefix(model) if minimum_tokens is None else minimum_tokens
    check_ttl(ttl)
    check_type("policy", policy, ProviderPolicy, "pass a ProviderPolicy()")
    cache = _native.PromptCache(price, ttl, minimum, policy)
    waits = _each("gaps", gaps, max(len(prompts) - 1, 0))
    outputs = _each("output_tokens", output_tokens, len(prompts))
    turns: list[Usage] = []
    costs: list[float] = []
    billed: list[Usage] = []
    for prompt, after, output in zip(prompts, [0.0, *waits], outputs, strict=False):
        results = () if policy.clear_tool_uses_at is None else _results(prompt)
        summarized, usage = cache.send(segments_of(prompt), after, results)
        usage = usage._replace(output=int(output))
        requests = [summarized, usage] if any(summarized) else [usage]
        turns.append(Usage.total(requests))
        costs.append(sum([cost(each, price) for each in requests]))
        billed += requests
    return Simulation(tuple(turns), tuple(costs), price, tuple(billed))


def _results(prompt: CompiledPrompt | Sequence[Segment]) -> list[int]:
    """Return which segments have results of tool calls."""
    if not isinstance(prompt, CompiledPrompt):
        raise InvalidArgumentError(
            "policy has clear_tool_uses_at, and a prompt is a list of Segments, in which no "
            "results can be seen; pass compiled prompts"
        )
    conversation = formats.parse(prompt.messages, prompt.provider)
    first = len(prompt.segments) - len(prompt.messages)
    return [first + each.index for each in conversation.messages if each.answers]


def _each(name: str, value: Any, length: int) -> Sequence[float]:
    """Return one number for each, from one for all or a sequence of that length."""
    if isinstance(value, (int, float)):
        value = [value] * length
    check_list(name, value, "pass one number for all, or one for each")
    values = list(value)
    if len(values) != length:
        raise InvalidArgumentError(
            f"{name} has {len(values)} numbers, expected {length}; pass one number for all, or "
            f"{length} of them"
        )
    for value in values:
        if not (isinstance(value, (int, float)) and 0 <= value <= MAX_COUNT):
            raise InvalidArgumentError(
                f"{name} has {shown(value)}; pass numbers from 0 to {MAX_COUNT:,}"
            )
    return values
