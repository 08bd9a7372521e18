"""The bench of swaps tells a swap from a verbatim compaction, and from a store written anew."""

from __future__ import annotations

import pytest

from benches.python.cache_replay import Request, Session, Way
from benches.python.swap_costs import measure, total
from rehydrate.cost import price_of

WAY = Way("anthropic", "claude-sonnet-4-5", "5m", price_of("claude-sonnet-4-5"))


@pytest.fixture(scope="module")
def session():
    """A session of sixty user turns."""
    said = []
    for turn in range(60):
        said.append({"role": "user", "content": f"What is at berth {turn}? " + "crane " * 60})
        said.append({"role": "assistant", "content": f"Rope {turn}. " + "rope " * 60})
    requests = [Request(said[: n + 1], 10.0 * n, n, None) for n in range(0, len(said), 2)]
    return Session("berths", "Be brief.", (), (), requests, "anthropic")


@pytest.mark.parametrize(
    ("layout", "swaps", "compacts"),
    [
        ("background", True, False),
        ("store each turn", True, False),
        ("as shipped", False, True),
        ("context", False, False),
    ],
)
def test_breaks_are_told_apart(session, layout, swaps, compacts):
    found = measure(session, layout, WAY, 9_000)
    assert (found.swaps > 0) == swaps == (found.lost > 0)
    assert (found.compactions > 0) == compacts
    assert 0 < found.read < 1 and found.largest <= found.usage.input
    assert found.dollars <= found.usage.input * 1.25 * WAY.price.input / 1e6


def test_sessions_add_up(session):
    found = measure(session, "background", WAY, 9_000)
    both = total([found, found])
    assert (both.swaps, both.dollars) == (2 * found.swaps, 2 * found.dollars)
    assert both.a_swap == found.a_swap and both.largest == found.largest
    assert f"{both.swaps} swaps" in str(both)
