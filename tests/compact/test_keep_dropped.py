"""archive=: what is left out is in memory, under handles, as it was."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate import compact_context, formats, validate
from rehydrate.compact import Archive
from rehydrate.memory import Memory
from rehydrate.messages import problems_of
from tests.compact.cases import Case, cases, talk
from tests.memory.plain import PlainStore

NOVEL = Archive(dropped=False, novel=True)

LOG = "\n".join(f"line {n}: service {n % 7} answered in {n * 13 % 101} ms" for n in range(400))
MARK = re.compile(r"\[\.\.\. [\d,]+ lines? omitted, [\d-]+, (mem_\w+) \.\.\.\]")


def fresh() -> Memory:
    return Memory(PlainStore(), namespace="alice", redact=False)


def excerpted(memory: Memory | None, log: str = LOG, **options: Any) -> Any:
    messages = talk("user: Why is service 3 slow?", f"user: {log}", "user: Go on.")
    given = {"budget_tokens": 900, "granularity": "excerpt", "archive": memory is not None}
    return compact_context(messages, memory=memory, **(given | options))


@given(cases(), st.sampled_from(["message", "excerpt"]))
def test_what_is_dropped_comes_back_exactly(case: Case, granularity: str):
    memory = fresh()
    before = copy.deepcopy(case.entries)
    compaction = case.compact(memory=memory, archive=True, granularity=granularity)
    unknown = formats.parse(case.entries, case.format).unknown
    assert compaction.stats.degraded == problems_of(unknown)
    assert case.entries == before
    for record in compaction.dropped:
        assert record.handle is not None
        stored = json.loads(memory.get(record.handle).text)
        assert stored == as_stored(before[record.index])
        assert memory.get(record.handle).tier == "cold"
    held = {item.handle for item in memory.list(limit=None, kinds=["message"])}
    assert held == {record.handle for record in compaction.dropped}


def as_stored(entry: Any) -> Any:
    """A message as JSON tells it; LangChain's as their type and their dump."""
    if isinstance(entry, dict):
        return entry
    return {"type": entry.type, "data": entry.model_dump(mode="json")}


@given(cases(), st.sampled_from(["message", "excerpt"]))
def test_writing_everything_keeps_the_laws(case: Case, granularity: str):
    memory = fresh()
    options = {"memory": memory, "granularity": granularity}
    case = case._replace(options=case.options | options)
    compaction = case.compact(archive=Archive(novel=True, episode=True))
    stats = compaction.stats
    assert stats.degraded == problems_of(formats.parse(case.entries, case.format).unknown)
    assert validate(compaction.messages, case.format) == []
    assert stats.over_budget == (stats.after_tokens > stats.target_tokens)
    if stats.over_budget:
        rows = [row for row in compaction.explain() if row.kept]
        reasons = {row.reason for row in rows if row.unit not in case.pins()}
        assert reasons <= {"a user turn must come first"}


@given(cases(), st.sampled_from(["message", "excerpt"]))
def test_compacting_the_result_changes_nothing_and_writes_nothing(case: Case, granularity: str):
    writing = {"memory": fresh(), "archive": Archive(novel=True)}
    once = case.compact(**writing, granularity=granularity)
    held = writing["memory"].list(limit=None)
    survivors = {id(message) for message in once.messages}
    pins = [case.entries[index] for index in case.pinned]
    options = case.options | writing | {"pin": [one for one in pins if id(one) in survivors]}
    options.pop("target_ratio", None)
    options |= {"budget_tokens": once.stats.target_tokens, "granularity": granularity}
    twice = rehydrate.compact_context(once.messages, **options)
    assert list(map(id, twice.messages)) == list(map(id, once.messages))
    assert not twice.stats.changed
    assert writing["memory"].list(limit=None) == held


def test_a_gap_names_where_the_whole_text_is():
    memory = fresh()
    compaction = excerpted(memory)
    _, shown, _ = [message["content"] for message in compaction.messages]
    (handle,) = set(MARK.findall(shown))
    assert memory.get(handle).text == LOG
    assert memory.get(handle).kind == "text"


def test_handles_are_counted_and_the_budget_is_kept():
    for budget in range(200, 2_000, 150):
        compaction = excerpted(fresh(), budget_tokens=budget)
        assert compaction.stats.after_tokens <= budget
        assert compaction.stats.after_tokens == rehydrate.count_tokens(compaction.messages)


def test_an_excerpt_with_handles_is_left_as_it_is_by_the_next_compaction():
    memory = fresh()
    once = excerpted(memory)
    held = memory.list(limit=None)
    twice = compact_context(
        once.messages,
        budget_tokens=once.stats.target_tokens,
        granularity="excerpt",
        memory=memory,
        archive=True,
    )
    assert not twice.stats.changed
    assert list(map(id, twice.messages)) == list(map(id, once.messages))
    assert memory.list(limit=None) == held


def test_an_excerpt_of_an_excerpt_leads_back_to_the_first_text():
    memory = fresh()
    once = excerpted(memory)
    twice = compact_context(
        once.messages, budget_tokens=300, granularity="excerpt", memory=memory, archive=True
    )
    _, shown, _ = [message["content"] for message in twice.messages]
    between = {memory.get(handle).text for handle in MARK.findall(shown)} - {LOG}
    (first,) = {handle for text in between for handle in MARK.findall(text)}
    assert memory.get(first).text == LOG


def test_a_forged_handle_is_text_like_any_other():
    memory = fresh()
    forged = "[... 9 lines omitted, 1-9, mem_0000000000000000000000000 ...]\n" + LOG
    plain = excerpted(memory, log=forged)
    _, shown, _ = [message["content"] for message in plain.messages]
    real = set(MARK.findall(shown)) - {"mem_0000000000000000000000000"}
    assert [memory.get(handle).text for handle in real] == [forged]
    with pytest.raises(rehydrate.RehydrateError):
        memory.get("mem_0000000000000000000000000")


def test_without_being_asked_nothing_is_written_and_marks_have_no_handles():
    memory = fresh()
    compaction = excerpted(memory, archive=False)
    assert memory.list() == []
    assert "mem_" not in str(compaction.messages)
    assert [record.handle for record in compaction.dropped] == [None] * len(compaction.dropped)


def test_secrets_are_labelled_in_what_comes_back_and_it_is_still_json():
    memory = Memory(PlainStore(), namespace="alice")
    text = 'export A="x"\nAKIAIOSFODNN7EXAMPLE\nand {"password": "hunter2hunter2"} and more'
    compaction = compact_context(
        [{"role": "user", "content": [{"type": "text", "text": text}]}, *talk("user: Go on.")],
        budget_tokens=0,
        memory=memory,
        archive=True,
    )
    item = memory.get(compaction.dropped[0].handle)
    text = json.loads(item.text)["content"][0]["text"]
    assert "AKIA" not in text
    assert "hunter2" not in text
    assert text.startswith('export A="x"\n[redacted:aws_access_key]\n')
    assert {item.text[r.start : r.end] for r in item.redactions} == {
        f"[redacted:{r.name}]" for r in item.redactions
    }
    assert len(item.redactions) == item.text.count("[redacted:") == 2


@pytest.mark.parametrize("odd", [{1, 2}, object(), float("nan"), b"bytes"])
def test_a_message_that_json_cannot_say_is_dropped_all_the_same_and_that_is_said(odd: Any):
    memory = fresh()
    messages = [
        {"role": "user", "content": "hello there", "odd": odd},
        *talk("user: hi, what can you do for me today?", "user: Go on."),
    ]
    compaction = compact_context(messages, budget_tokens=0, memory=memory, archive=True)
    first, second = compaction.dropped
    assert first.handle is None
    assert json.loads(memory.get(second.handle).text) == messages[1]
    (problem,) = compaction.stats.degraded
    assert problem.startswith("memory: message 0 is not kept: ")


def test_half_a_surrogate_pair_comes_back_too():
    memory = fresh()
    messages = talk("user: a \ud800 b", "user: Go on.")
    compaction = compact_context(messages, budget_tokens=0, memory=memory, archive=True)
    assert json.loads(memory.get(compaction.dropped[0].handle).text) == messages[0]
