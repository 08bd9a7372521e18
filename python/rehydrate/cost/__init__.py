"""Cost of prompts, and the savings of the provider's cache.

PRICES, MINIMUM_PREFIX, Price, price_of     tables by model, which the user edits
Usage, cost                                 tokens of a request, and their money
simulate(prompts)                           the bill of requests sent one after another
prefix_report(previous, current)            where a prompt stops extending the previous one, and why
worth_compacting(...)                       after how many turns a compaction has paid for itself
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.cost.prefix import (
        Break as Break,
        PrefixReport as PrefixReport,
        Worth as Worth,
        prefix_report as prefix_report,
        worth_compacting as worth_compacting,
    )
    from rehydrate.cost.prices import (
        AS_OF as AS_OF,
        MINIMUM_PREFIX as MINIMUM_PREFIX,
        PRICES as PRICES,
        Price as Price,
        Ttl as Ttl,
        Usage as Usage,
        cost as cost,
        minimum_prefix as minimum_prefix,
        price_of as price_of,
    )
    from rehydrate.cost.simulation import (
        Simulation as Simulation,
        simulate as simulate,
    )

__all__, __dir__, __getattr__ = front(__name__)
