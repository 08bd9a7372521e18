"""Benches of the context store: its peers, what a swap costs, a bill after a compaction."""

from __future__ import annotations

import pytest

from benches.python import own_summaries, sticky
from benches.python.cache_replay import Request, Session, Way
from benches.python.extractive import bundle
from benches.python.same_size import OURS, held, row
from benches.python.swap_costs import measure, total
from rehydrate import count_tokens
from rehydrate.cost import price_of
from rehydrate.retention import cut_sessions, read_session
from tests.retention.sessions_made import transcript, work, write_lines


def test_a_bundle_has_the_rarest_sentences_in_their_order_and_no_results():
    said = ["Ask at berth_7.", "Look again.", "Look there.", "The crane log is src/rows.py."]
    messages = [{"role": "user", "content": text} for text in (*said, said[1])]
    assert bundle(messages, 10).splitlines() == said[3:]
    assert bundle(messages, 17).splitlines() == [said[0], said[3]]
    assert bundle(messages, 100).splitlines() == said
    worked = work()
    extract = bundle(worked, 200)
    assert "handler" not in extract and "file_3.py" in bundle(worked, 10_000)
    assert 150 < count_tokens(extract) <= 200


@pytest.mark.parametrize("last", [0, 6])
def test_nothing_but_what_must_stay_is_larger_than_it_may_be(last):
    (cut,) = cut_sessions([read_session(work())], (0.8,))
    found = held(cut, 400, last)
    assert next(iter(found)) == OURS
    assert all(each.size <= 1 for name, each in found.items() if "compact" not in name)
    shown = len(cut.mentioned(cut.messages[len(cut.messages) - last :])) / len(cut.needed)
    assert all(shown <= each.share <= 1 for each in found.values())


def test_the_row_has_the_others_with_their_intervals():
    cuts = cut_sessions([read_session(work(seed=seed), str(seed)) for seed in (1, 2)], (0.7,))
    made = row("names", [held(cut, 300) for cut in cuts], 0.5)
    assert made.value is not None and made.want == 0.5
    assert (
        "; an extractive bundle 1.00 (1.00-1.00" in made.beside
        and "the last messages" in made.beside
    )


def test_the_agents_own_summary_is_measured_by_what_was_used_after_it(tmp_path):
    write_lines(tmp_path / "a.jsonl", transcript(work(40), summary_at=50))
    later, soon = own_summaries.rows(tmp_path)
    # Of the 15 files that are read again it names one.
    assert f"{own_summaries.OWN} 0.07 (one session)" in later.beside
    assert later.limit.startswith("1 summaries") and soon.value is not None


def test_sessions_without_a_summary_say_so(tmp_path):
    write_lines(tmp_path / "a.jsonl", transcript(work()))
    (made,) = own_summaries.rows(tmp_path)
    assert made.value is None and made.beside == "there is none"


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
def test_kinds_of_breaks_are_distinguished(session, layout, swaps, compacts):
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


def test_a_compaction_in_each_call_costs_more_than_none_and_a_kept_one_less(monkeypatch):
    monkeypatch.setattr(sticky, "CALLS", 40)
    none = sticky.bill(sticky.laid_out).units
    each = sticky.bill(sticky.hook).units
    kept = sticky.bill(sticky.kept_and_extended()).units
    context = sticky.bill(sticky.context()).units
    assert max(kept, context) < none < each
