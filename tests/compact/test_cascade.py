"""The cascade: an expensive model embeds the best fifth of the messages, until a deadline."""

from __future__ import annotations

import copy
import json
import re
import threading
from base64 import b64encode
from collections import UserDict
from collections.abc import Sequence
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate import Embedder, _native, compact_context, formats, validate
from rehydrate.compact import Archive
from rehydrate.compact.signals import MIN_EMBEDDED_TEXTS
from rehydrate.memory import Memory
from rehydrate.messages import problems_of
from tests.compact.cases import Case, FixedMemory, HashEmbedder, cases, talk
from tests.embedding.doubles import Counting, lengths
from tests.memory.plain import PlainStore
from tests.sizes import PATIENCE_SECONDS

LONG = talk(
    *(
        f"{('user', 'assistant')[n % 2]}: turn {n} is about the {('harbour', 'garden')[n % 9 == 4]}"
        for n in range(1_000)
    )
)
QUERY = "what about the garden?"
GARDEN = [message["content"] for message in LONG if "garden" in message["content"]]


SPACES = count()


class Fixed:
    """A model that knows these texts only."""

    def __init__(self, rows: dict[str, list[float]]) -> None:
        self.space = f"fixed {next(SPACES)}"  # an id may be used again, and its cached rows
        self.rows = rows

    def embed(self, texts: Sequence[str], *, deadline: float | None = None) -> Any:
        return np.array([self.rows.get(text, [0.0, 0.0]) for text in texts], np.float32)


def explained(compaction: Any) -> list[dict[str, Any]]:
    return compaction.explain().to_dict()


def test_with_a_query_only_the_best_fifth_is_embedded_the_query_first():
    counting = Counting()
    compaction = compact_context(LONG, QUERY, embedder=counting)
    assert compaction.stats.embedding
    assert counting.texts[0] == QUERY
    assert len(counting.texts) == 1 + 200
    assert set(GARDEN) - {LONG[-1]["content"]} <= set(counting.texts)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": FixedMemory([0.0] * len(LONG))},
        {"memory": FixedMemory([0.0] * len(LONG)), "query": None},
        {"scoring": "chitta"},
    ],
    ids=" ".join,
)
def test_a_memory_and_the_raw_formula_need_every_vector(options: dict[str, Any]):
    counting = Counting()
    compact_context(LONG, **({"query": QUERY} | options), embedder=counting)
    assert set(counting.texts) - {QUERY} == {message["content"] for message in LONG}
    assert len(counting.texts) == len(set(counting.texts))


@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
def test_without_query_and_memory_the_newest_text_alone_is_embedded(scoring: str):
    counting = Counting()
    messages = [*LONG, {"role": "user", "content": "  "}]
    compaction = compact_context(messages, embedder=counting, scoring=scoring)
    assert compaction.stats.embedding
    assert counting.texts == [LONG[-1]["content"]]


def test_each_message_is_embedded_once_across_calls():
    counting = Counting()
    memory = FixedMemory([0.0] * 300)
    compact_context(LONG[:300], QUERY, embedder=counting, memory=memory)
    first = len(counting.texts)
    compact_context(LONG[:300], "and the harbour?", embedder=counting, memory=memory)
    assert counting.texts[first:] == ["and the harbour?"]


def test_a_text_without_a_word_is_never_sent():
    counting = Counting()
    messages = talk("user: one", "assistant: ", "user:  \n", "user: two")
    compact_context(messages, "q", embedder=counting)
    assert counting.texts == ["one", "two", "q"]


def test_the_model_decides_between_messages_that_words_cannot_tell_apart():
    messages = talk("user: aa bb", "user: cc dd", "user: ee ff", "user: gg hh", "user: go on")
    vectors = {m["content"]: [0.1, 1.0] for m in messages} | {"a query": [1.0, 0.0]}
    for wanted in range(4):
        model = Fixed(vectors | {messages[wanted]["content"]: [1.0, 0.1]})
        rows = compact_context(messages, "a query", embedder=model).explain().units
        assert max(rows[:4], key=lambda row: row.semantic).unit == wanted


@given(st.integers(2, MIN_EMBEDDED_TEXTS - 1), st.integers(0, 5))
def test_the_cascade_equals_asking_about_everything_where_everything_is_few(size: int, word: int):
    messages, query = LONG[:size], f"turn {word} of the garden"
    cascade = compact_context(messages, query, 0.3, embedder=HashEmbedder())
    every = compact_context(
        messages, query, 0.3, embedder=HashEmbedder(), memory=FixedMemory([0.0] * size)
    )
    assert explained(cascade) == explained(every)


def test_one_vector_alone_changes_nothing_that_is_kept():
    query = {QUERY: [1.0, 0.0]}
    beneath = compact_context(LONG, QUERY, 0.2)
    for vectors in ({}, {GARDEN[3]: [0.5, 0.5]}):
        partial = compact_context(LONG, QUERY, 0.2, embedder=Fixed(query | vectors))
        assert partial.stats.embedding
        assert len(partial.messages) == pytest.approx(len(beneath.messages), rel=0.05)
        assert set(GARDEN) <= {message["content"] for message in partial.messages}


def test_a_deadline_of_nothing_leaves_the_built_in_model_to_work():
    counting = Counting()
    compaction = compact_context(LONG, QUERY, embedder=counting, timeout=0.0)
    assert counting.texts == []
    assert not compaction.stats.embedding
    assert compaction.stats.degraded == (
        "deadline: 0 of 201 texts embedded in 0 s; the rest went with the built-in model",
    )
    assert explained(compaction) == explained(compact_context(LONG, QUERY))


@pytest.mark.parametrize("embedder", ["auto", None, lengths])
def test_a_deadline_that_is_kept_is_not_mentioned(embedder: Any):
    options = {"query": QUERY, "embedder": embedder}
    compaction = compact_context(LONG, **options, timeout=1e9)
    assert compaction.stats.degraded == ()
    assert explained(compaction) == explained(compact_context(LONG, **options))


def test_what_was_embedded_by_the_deadline_is_used_and_counted():
    stopped = threading.Event()

    def embed(texts: list[str]) -> Any:
        if len(batches) == 2:
            stopped.wait(PATIENCE_SECONDS)
        batches.append(texts)
        return lengths(texts)

    batches: list[list[str]] = []
    embedder = Embedder(embed, batch_size=10)
    # Two batches are answered at once, and the third not before the deadline, whenever that is.
    compaction = compact_context(LONG, QUERY, embedder=embedder, timeout=5)
    stopped.set()
    assert compaction.stats.embedding
    (problem,) = compaction.stats.degraded
    assert problem.startswith("deadline: 20 of 201 texts embedded in 5 s; the rest went with")
    assert embedder.state == "closed"


def test_what_is_cached_is_there_whatever_the_deadline():
    counting = Counting()
    whole = compact_context(LONG, QUERY, embedder=counting)
    again = compact_context(LONG, QUERY, embedder=counting, timeout=0.0)
    assert again.stats.degraded == ()
    assert explained(again) == explained(whole)


def test_an_embedder_that_compacts_with_another_works():
    def embed(texts: list[str]) -> Any:
        assert compact_context(LONG[:5], QUERY, embedder=HashEmbedder()).stats.embedding
        return lengths(texts)

    assert compact_context(LONG, QUERY, embedder=embed).stats.degraded == ()


def test_an_embedder_that_compacts_with_itself_ends():
    inner = []

    def embed(texts: list[str]) -> Any:
        inner.append(compact_context(LONG[:5], QUERY, embedder=embed).stats)
        return lengths(texts)

    assert compact_context(LONG[:9], "a query", embedder=embed).stats.embedding
    assert "it compacts with itself" in inner[0].degraded[0]


def test_partial_failure_says_how_much_came():
    def flaky(texts: list[str]) -> Any:
        if QUERY not in texts:
            raise ConnectionError("no route to host")
        return lengths(texts)

    embedder = Embedder(flaky, batch_size=50)
    compaction = compact_context(LONG, QUERY, embedder=embedder)
    assert compaction.stats.embedding
    (problem,) = compaction.stats.degraded
    assert problem.startswith("embedder: ConnectionError; ")
    assert problem.endswith("; 50 of 201 texts embedded; the rest went on with the built-in model")


def test_many_threads_share_one_embedder():
    counting = Counting()
    results: list[Any] = []

    def work() -> None:
        results.append(explained(compact_context(LONG[:200], QUERY, embedder=counting)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == results[0] for result in results)


def test_vectors_go_to_the_shared_cache_under_the_models_space():
    model = Fixed({"one": [1.0, 0.0]})
    compact_context(talk("user: one"), embedder=model)
    (row,) = _native.cached_vectors(model.space, ["one"])
    assert np.frombuffer(row, np.float32).tolist() == [1.0, 0.0]


# archive=: what is left out is in memory, under handles, as it was.


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
    dropped = {record.handle for record in compaction.dropped}
    assert held >= dropped
    kept = zip(compaction.indices, compaction.messages, strict=True)
    parted = [as_stored(before[index]) for index, one in kept if one is not case.entries[index]]
    assert all(json.loads(memory.get(handle).text) in parted for handle in held - dropped)


def as_stored(entry: Any) -> Any:
    """A message as JSON tells it; LangChain's as their type and their dump."""
    if isinstance(entry, dict):
        return json.loads(json.dumps(entry, default=lambda data: b64encode(data).decode()))
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


@pytest.mark.parametrize("odd", [{1, 2}, object(), float("nan")])
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


def test_a_dropped_message_may_be_any_mapping():
    memory = fresh()
    said = MappingProxyType({"type": "text", "text": "hi"})
    messages = [UserDict({"role": "user", "content": (said,)}), *talk("user: bye")]
    compaction = compact_context(messages, budget_tokens=0, memory=memory, archive=True)
    (gone,) = compaction.dropped
    assert compaction.stats.degraded == ()
    assert json.loads(memory.get(gone.handle).text)["content"] == [{"type": "text", "text": "hi"}]
