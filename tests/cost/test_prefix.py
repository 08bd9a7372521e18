"""prefix_report: where a prompt stops extending the previous one, why, and the cost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rehydrate.cost import Price, prefix_report, simulate
from rehydrate.prompt import CompiledPrompt, PromptIR, Segment
from tests.cost.segments import row, seg

PRICE = Price(3, 15)


def test_a_prompt_that_goes_on_extends_the_one_before_it():
    report = prefix_report(row("abc"), row("abcd"))
    assert (report.extends, report.keeps_cached, report.broke) == (True, True, None)
    assert (report.shared_tokens, report.rewritten_tokens) == (3_000, 0)
    assert "extends" in str(report)


@pytest.mark.parametrize(
    ("current", "why", "place", "again"),
    [
        ("axcd", "changed", "b", 2_000),
        ("acd", "removed", "b", 2_000),
        ("axbcd", "inserted", "x", 3_000),
        ("acbd", "reordered", "b", 3_000),
        ("a", "removed", "b", 0),
        ("xbcd", "changed", "a", 3_000),
    ],
)
def test_a_break_is_named_with_its_reason_and_what_must_be_written_again(
    current, why, place, again
):
    before = row("abcd")
    after = row(current)
    if why == "changed":  # the same section with another content
        at = current.index("x")
        after[at] = after[at]._replace(id=before[at].id)
    report = prefix_report(before, after, price=PRICE)
    assert report.broke is not None
    assert (report.broke.why, report.broke.place) == (why, place)
    assert report.rewritten_tokens == again
    assert report.cost == pytest.approx(1.15 * 3 * again / 1e6)
    assert not report.extends


def test_history_entries_are_told_apart_by_content_not_by_their_numbers():
    def numbered(digests):
        return [Segment(f"history[{n}]", "message", 10, d, "static") for n, d in enumerate(digests)]

    report = prefix_report(numbered("abcd"), numbered("acd"))
    assert report.broke == ("history[1]", "message", "removed")
    report = prefix_report(numbered("abcd"), numbered("axbcd"))
    assert report.broke == ("history[1]", "message", "inserted")


def test_a_changed_tool_schema_is_called_one():
    before = [seg("read", kind="tool"), seg("rules", kind="system")]
    after = [before[0]._replace(digest="other"), before[1]]
    assert "the schema of read changed" in str(prefix_report(before, after))


def test_another_section_in_the_same_place_is_a_replacement():
    report = prefix_report(row("ab"), row("ay"))
    assert report.broke is not None
    assert report.broke.why == "replaced"


def test_breakpoints_may_move_without_breaking_anything():
    report = prefix_report(row("abc", marks="c"), row("abc", marks="a"))
    assert report.extends


def test_what_stands_behind_the_last_breakpoint_may_change_for_nothing():
    report = prefix_report(row("abx", marks="b"), row("aby", marks="b"))
    assert (report.extends, report.keeps_cached) == (False, True)
    assert not prefix_report(row("abx", marks="x"), row("aby")).keeps_cached


def test_another_model_has_another_cache():
    def compiled(model):
        return CompiledPrompt("anthropic", {"messages": []}, PromptIR(), tuple(row("ab")), model)

    report = prefix_report(compiled("claude-opus-4-5"), compiled("claude-haiku-4-5"))
    assert report.broke is not None
    assert report.broke.why == "other model"
    assert report.shared_tokens == 0
    assert report.cost == pytest.approx(1.15 * 1 * 2_000 / 1e6)
    assert prefix_report(compiled("x"), compiled("x")).cost is None


@given(st.text("abcde", max_size=9), st.text("abcde", max_size=9))
def test_the_report_agrees_with_the_simulated_bill(first, second):
    """A cache with a breakpoint everywhere reads exactly the shared tokens."""
    price = Price(1, 1, automatic=True, write=1)
    before, after = row(first), row(second)
    report = prefix_report(before, after)
    _, turn = simulate([before, after], price=price, minimum_tokens=0).turns
    assert report.shared_tokens == turn.read
    assert report.extends == second.startswith(first)
    assert (report.broke is None) == report.extends
    assert report.shared_tokens + report.rewritten_tokens <= report.previous_tokens
