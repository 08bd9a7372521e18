"""What a prompt costs, and what the provider's cache saves of it.

PRICES, MINIMUM_PREFIX, Price, price_of     tables by model, which the user edits
Usage, cost                                 tokens of a request, and their money
simulate(prompts)                           what requests one after another would be billed
prefix_report(previous, current)            where a prompt stops extending the one before, and why
worth_compacting(...)                       after how many turns a compaction has paid for itself
"""

from rehydrate.cache.cost import Usage, cost
from rehydrate.cache.prefix import Break, PrefixReport, prefix_report
from rehydrate.cache.prices import (
    AS_OF,
    MINIMUM_PREFIX,
    PRICES,
    Price,
    minimum_prefix,
    price_of,
)
from rehydrate.cache.simulate import Simulation, simulate
from rehydrate.cache.worth import Worth, worth_compacting

__all__ = [
    "AS_OF",
    "MINIMUM_PREFIX",
    "PRICES",
    "Break",
    "PrefixReport",
    "Price",
    "Simulation",
    "Usage",
    "Worth",
    "cost",
    "minimum_prefix",
    "prefix_report",
    "price_of",
    "simulate",
    "worth_compacting",
]
