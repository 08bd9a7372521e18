"""What stands beside the context store in the bench: as large as it, and what it says it is."""

from __future__ import annotations

import pytest

from benches.python import own_summaries
from benches.python.extractive import bundle
from benches.python.same_size import OURS, held, row
from rehydrate import count_tokens
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
