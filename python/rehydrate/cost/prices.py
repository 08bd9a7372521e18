"""Prices and minimum prefixes by model, as tables that the user edits or replaces; Usage and cost.

Usage is the tokens of a request by the way they are billed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from rehydrate import _native
from rehydrate._check import check_choice, check_list, check_type, check_whole, shown
from rehydrate._native import is_regional, known_name
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.ir import USUAL_MINIMUM_PREFIX

T = TypeVar("T")
Ttl = Literal["5m", "30m", "1h", "12h"]
TTL_SECONDS: dict[str, float] = {"5m": 300.0, "30m": 1_800.0, "1h": 3_600.0, "12h": 43_200.0}
_OF_OPENAI = ("30m", "12h")

AS_OF = "2026-11"
"""The month of the prices: those that ``genai-prices`` 0.2.3 by Pydantic ships, with which a test
compares each row. Providers change prices; your invoice decides."""


MAX_PRICE = 1e9
"""Dollars for a million tokens, or a factor of them: the sums of larger ones would not be exact."""
_PRICES = f"from 0 to {MAX_PRICE:,.0f}"
_NUMBERS = ("input", "output", "read", "write", "write_1h", "long_input", "long_output", "regional")
_REGIONAL = 1.1
"""For Claudes from 4.5 on, and GPT from 5.6 on."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens, and the cache's prices as shares of the input price.

    >>> Price(input=3, output=15).write
    1.25
    >>> Price(2, 10, then=(date(2026, 12, 1), Price(4, 20))).on(date(2026, 12, 1)).input
    4
    """

    input: float
    output: float
    read: float = 0.1
    """Share of the input price for a token read from the cache."""
    write: float = 1.25
    """Share of the input price for a token written to the cache for five minutes, or any time of
    OpenAI's; 1.0 where writing costs nothing extra."""
    write_1h: float = 2.0
    """The same for an hour."""
    automatic: bool = False
    """Whether the provider caches by itself, or only prefixes that end at a breakpoint (Anthropic).
    By itself it caches every prefix; where a write has a fee (OpenAI from GPT-5.6), what ends with
    the newest message."""
    step_tokens: int = 1
    """The step in tokens in which every prefix is read."""
    long_tokens: int | None = None
    """A request with more input tokens is billed by the next two, all of it; None: none is."""
    long_input: float = 2.0
    """The factor of a long request's input price, its reads and its writes."""
    long_output: float = 1.5
    then: tuple[date, Price] | None = None
    """The day (in UTC) from which another price holds, and that price; None: no change is known."""
    regional: float = 1.0
    """The factor of all prices where the name is one of Bedrock's in a region or a group of regions
    ("us."), and not "global." (`price_of`)."""

    def __post_init__(self) -> None:
        """Refuse a value that cannot be a price."""
        for name in _NUMBERS:
            value = getattr(self, name)
            check_type(f"price: {name}", value, (int, float), f"pass a number {_PRICES}")
            if not 0 <= value <= MAX_PRICE:
                raise InvalidArgumentError(
                    f"price: {name} is {shown(value)}; pass a number {_PRICES}"
                )
        check_whole("price: step_tokens", self.step_tokens, 1)
        check_whole("price: long_tokens", self.long_tokens, 1, or_none=True)
        if self.then is not None:
            remedy = "pass None, or (datetime.date(...), Price(...))"
            check_type("price: then", self.then, tuple, remedy)
            if tuple(map(type, self.then)) != (date, Price):
                raise InvalidArgumentError(f"price: then is {shown(self.then)}; {remedy}")

    def on(self, day: date | None = None) -> Price:
        """Return the price that holds on this day (None: today, in UTC): this one, or one after
        it."""
        if day is not None and type(day) is not date:
            raise InvalidArgumentError(f"on is {shown(day)}; pass a datetime.date, or None")
        if self.then is None:
            return self
        start, later = self.then
        return self if (day or datetime.now(UTC).date()) < start else later.on(day)

    def write_share(self, ttl: Ttl) -> float:
        """Share of the input price for a token that is cached for this time."""
        check_ttl(ttl)
        if ttl in _OF_OPENAI and not self.automatic:
            raise InvalidArgumentError(f"ttl is {ttl!r}, which OpenAI alone has; pass 5m or 1h")
        return self.write_1h if ttl == "1h" else self.write


def _openai(
    input: float,  # noqa: A002  the field's word
    output: float,
    read: float = 0.1,
    long_tokens: int | None = None,
    write: float = 1.0,
) -> Price:
    """Return a price of OpenAI's. From GPT-5.6 on writes have a fee, and nothing is rounded
    (https://developers.openai.com/api/docs/guides/prompt-caching)."""
    step = 128 if write == 1.0 else 1
    regional = 1.0 if write == 1.0 else _REGIONAL
    return Price(input, output, read, write, write, True, step, long_tokens, regional=regional)


def _google(
    input: float,  # noqa: A002  the field's word
    output: float,
    read: float = 0.1,
    long_tokens: int | None = None,
    then: tuple[date, Price] | None = None,
) -> Price:
    """Return a price of Gemini's, cached by itself; the storage of cached content is not in it."""
    return Price(input, output, read, 1.0, 1.0, True, long_tokens=long_tokens, then=then)


_claude = partial(Price, regional=_REGIONAL)
_FLASH = _google(0.75, 3.75, then=(date(2027, 1, 1), _google(1.5, 7.5)))

PRICES: dict[str, Price] = {
    "claude-fable-5-2": _claude(8, 40, read=0.025),
    "claude-fable-5-1": _claude(10, 50, read=0.025),
    "claude-fable-5": _claude(10, 50),
    "claude-mythos-5-2": _claude(8, 40, read=0.025),
    "claude-opus-5-5": _claude(4, 20, read=0.05),
    "claude-opus-5": _claude(5, 25),
    "claude-opus-4-8": _claude(5, 25),
    "claude-opus-4-7": _claude(5, 25),
    "claude-opus-4-6": _claude(5, 25),
    "claude-opus-4-5": _claude(5, 25),
    "claude-opus-4-1": Price(15, 75),
    "claude-opus-4": Price(15, 75),
    "claude-sonnet-5-5": _claude(2, 10, read=0.05),
    "claude-sonnet-5": _claude(2, 10),
    "claude-sonnet-4-6": _claude(3, 15),
    "claude-sonnet-4-5": _claude(3, 15, long_tokens=200_000),
    "claude-sonnet-4": Price(3, 15),
    "claude-3-7-sonnet": Price(3, 15),
    "claude-haiku-5-5": _claude(0.1, 0.5, long_tokens=100_000, long_input=5, long_output=5),
    "claude-haiku-4-5": _claude(1, 5),
    "claude-3-5-haiku": Price(0.8, 4),
    "gpt-6.1-sol": _openai(2, 10, 0.05, 272_000, 1.25),
    "gpt-6.1-terra": _openai(1, 5, 0.05, 272_000, 1.25),
    "gpt-6-astra": _openai(10, 50, 0.1, 272_000, 1.25),
    "gpt-6-sol": _openai(2, 10, 0.1, 272_000, 1.25),
    "gpt-6-luna": _openai(0.1, 0.5, 0.1, 272_000, 1.25),
    "gpt-5.6": _openai(4, 20, 0.1, 272_000, 1.25),  # the alias of gpt-5.6-sol
    "gpt-5.6-sol": _openai(4, 20, 0.1, 272_000, 1.25),
    "gpt-5.6-terra": _openai(2, 12, 0.1, 272_000, 1.25),
    "gpt-5.6-luna": _openai(0.2, 1.2, 0.1, 272_000, 1.25),
    "gpt-5.5": _openai(5, 30, 0.1, 272_000),
    "gpt-5.4": _openai(2.5, 15, 0.1, 272_000),
    "gpt-5.4-mini": _openai(0.75, 4.5),
    "gpt-5.4-nano": _openai(0.2, 1.25),
    "gpt-5.3": _openai(1.75, 14),
    "gpt-5.2": _openai(1.75, 14),
    "gpt-5.1": _openai(1.25, 10),
    "gpt-5": _openai(1.25, 10),
    "gpt-5-mini": _openai(0.25, 2),
    "gpt-5-nano": _openai(0.05, 0.4),
    "gpt-4.1": _openai(2, 8, 0.25),
    "gpt-4.1-mini": _openai(0.4, 1.6, 0.25),
    "gpt-4.1-nano": _openai(0.1, 0.4, 0.25),
    "gpt-4o": _openai(2.5, 10, 0.5),
    "gpt-4o-mini": _openai(0.15, 0.6, 0.5),
    "o3": _openai(2, 8, 0.25),
    "o4-mini": _openai(1.1, 4.4, 0.25),
    "gemini-4-argon": _google(2, 10, 0.05, then=(date(2026, 12, 1), _google(4, 20, 0.05))),
    "gemini-3.8-flash": _FLASH,
    "gemini-3.7-flash": _FLASH,
    "gemini-3.6-flash": _FLASH,
    "gemini-3.5-flash": _google(1.5, 9),
    "gemini-3.5-flash-lite": _google(0.3, 2.5),
    "gemini-3.1-pro-preview": _google(2, 12, long_tokens=200_000),
    "gemini-2.5-pro": _google(1.25, 10, long_tokens=200_000),
    "gemini-2.5-flash": _google(0.3, 2.5),
    "gemini-2.5-flash-lite": _google(0.1, 0.4),
}
"""List prices by model, `AS_OF`, with the changes announced by then; those of batches and fast
modes differ."""

MINIMUM_PREFIX: dict[str, int] = {
    "claude-fable-5-1": 512,
    "claude-fable-5": 512,
    "claude-opus-5-5": 512,
    "claude-opus-5": 512,
    "claude-sonnet-5-5": 512,
    "claude-haiku-5-5": 512,
    "claude-opus-4-8": 1_024,
    # 2,048 in some quotes of the documentation: the larger one never wastes a breakpoint.
    "claude-opus-4-7": 4_096,
    "claude-opus-4-6": 4_096,
    "claude-opus-4-5": 4_096,
    # 1,024 as documented at first, 2,048 as observed (issue 1194 of anthropic-sdk-python).
    "claude-sonnet-4-6": 2_048,
    "claude-haiku-4-5": 4_096,
    "claude-3-5-haiku": 2_048,
    "claude-3-haiku": 2_048,
    # https://ai.google.dev/gemini-api/docs/caching, as of 2026-10-13.
    "gemini-4-argon": 4_096,
    "gemini-3.8-flash": 4_096,
    "gemini-3.7-flash": 4_096,
    "gemini-3.6-flash": 4_096,
    "gemini-3.5-flash": 4_096,
    "gemini-3.1-pro-preview": 4_096,
    "gemini-2.5-pro": 2_048,
    "gemini-2.5-flash": 2_048,
}
"""The minimum tokens of a cached prefix, by model; others: `USUAL_MINIMUM_PREFIX`."""


def price_of(
    model: str, prices: Mapping[str, Price] | None = None, *, on: date | None = None
) -> Price:
    """Return the price of a model by its name, with or without vendor, date and revision.

    ``prices`` is the table, None: `PRICES`. ``on`` is the day of the request, None: today in UTC.
    Raises InvalidArgumentError for a model that the table lacks.

    >>> price_of("anthropic/claude-sonnet-4-5-20250929").input
    3
    >>> price_of("gemini-4-argon", on=date(2026, 11, 30)).input
    2
    >>> price_of("gemini-4-argon", on=date(2026, 12, 1)).input
    4
    """
    table = PRICES if prices is None else prices
    if prices is not None:
        _check_prices(prices)
    row = _row(model, table)
    if row is None:
        raise InvalidArgumentError(
            f"no price is known of model {shown(model)}; pass price=Price(input=..., output=...), "
            "or add it to rehydrate.cost.PRICES"
        )
    price = row.on(on)
    if price.regional == 1.0 or not is_regional(model):
        return price
    dollars = [round(each * price.regional, 9) for each in (price.input, price.output)]
    return replace(price, input=dollars[0], output=dollars[1], regional=1.0)


def minimum_prefix(model: str) -> int:
    """Return the minimum tokens of a prefix that this model's cache keeps.

    >>> minimum_prefix("claude-opus-4-5-20251101"), minimum_prefix("gpt-5")
    (4096, 1024)
    """
    minimum = _row(model, MINIMUM_PREFIX)
    return USUAL_MINIMUM_PREFIX if minimum is None else minimum


def _check_prices(prices: Mapping[str, Price]) -> None:
    remedy = "pass a mapping of a model's name -> Price"
    check_type("prices", prices, Mapping, remedy)
    for name, price in prices.items():
        check_type("prices: a name", name, str, remedy)
        check_type(f"prices: that of {name}", price, Price, remedy)


def _row(model: str, table: Mapping[str, T]) -> T | None:
    """Return the row of a table for a model; None for one that it lacks."""
    check_type("model", model, str, "pass the model's name, as the provider has it")
    name = known_name(model, table)
    return None if name is None else table[name]


def check_ttl(ttl: str) -> None:
    """Raise InvalidArgumentError for any other time to live."""
    check_choice("ttl", ttl, TTL_SECONDS)


MILLION = 1_000_000


class Usage(NamedTuple):
    """Tokens of one request, or of several."""

    read: int = 0
    """Tokens read from the cache."""
    written: int = 0
    """Tokens written to the cache for five minutes, for a fee."""
    written_1h: int = 0
    """The same for an hour."""
    uncached: int = 0
    """Tokens neither read nor written for a fee."""
    output: int = 0

    @property
    def input(self) -> int:
        """Tokens of the whole prompt."""
        _check_counts(self)
        return self.read + self.written + self.written_1h + self.uncached

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """Return the sum of several requests.

        >>> Usage.total([Usage(read=2), Usage(read=3, output=1)])
        Usage(read=5, written=0, written_1h=0, uncached=0, output=1)
        """
        check_list("usages", usages, "pass a list of Usage")
        every = list(usages)
        for usage in every:
            check_type("usages: one", usage, Usage, "pass a list of Usage")
            _check_counts(usage)
        return cls(*map(sum, zip(cls(), *every, strict=True)))

    @classmethod
    def billed(cls, usage: Mapping[str, Any]) -> Usage:
        """Read the ``usage`` of a provider's response: Anthropic's, OpenAI chat's or Responses',
        Converse's, or Gemini's ``usageMetadata``, in camelCase or in snake_case.

        A count that is absent or None is 0. Raises InvalidArgumentError for one that isn't a
        whole number, and for a part that is more than the whole.

        >>> Usage.billed({"prompt_tokens": 1500, "completion_tokens": 9,
        ...               "prompt_tokens_details": {"cached_tokens": 1408}})
        Usage(read=1408, written=0, written_1h=0, uncached=92, output=9)
        """
        check_type("usage", usage, Mapping, "pass the response's usage as a mapping")
        return cls(*_native.billed_usage(usage))


MAX_COUNT = 2**53
"""More tokens than anything is billed for; money is exact up to it."""


def _check_counts(usage: Usage) -> None:
    for name, count in zip(usage._fields, usage, strict=True):
        if not (isinstance(count, (int, float)) and abs(count) <= MAX_COUNT):
            raise InvalidArgumentError(
                f"usage: {name} is {shown(count)}; pass a number of tokens up to {MAX_COUNT:,}"
            )


def cost(usage: Usage, price: Price) -> float:
    """Return dollars of one request: ``p_in * (U + 1.25 W5m + 2 W1h + 0.1 R) + p_out * O``, both
    prices by those of a long one where it is.

    >>> cost(Usage(read=100_000, written=2_000, output=500), Price(input=3, output=15))
    0.045
    """
    check_type("usage", usage, Usage, "pass a Usage")
    check_type("price", price, Price, "pass a Price(input=..., output=...)")
    _check_counts(usage)
    weighted = (
        usage.uncached
        + price.write * usage.written
        + price.write_1h * usage.written_1h
        + price.read * usage.read
    )
    is_long = price.long_tokens is not None and usage.input > price.long_tokens
    into, out = (price.long_input, price.long_output) if is_long else (1.0, 1.0)
    return (into * price.input * weighted + out * price.output * usage.output) / MILLION
