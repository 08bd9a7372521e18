"""The bill after a compaction: keeping the compacted list costs less than a new one each call."""

from __future__ import annotations

from benches.python import sticky


def test_a_compaction_in_each_call_costs_more_than_none_and_a_kept_one_less(monkeypatch):
    monkeypatch.setattr(sticky, "CALLS", 40)
    none = sticky.bill(sticky.laid_out).units
    each = sticky.bill(sticky.hook).units
    kept = sticky.bill(sticky.kept_and_extended()).units
    context = sticky.bill(sticky.context()).units
    assert max(kept, context) < none < each
