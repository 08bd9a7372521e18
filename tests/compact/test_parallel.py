"""Parallel calls: each goes with its own result, and the rest of the message stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory, compact_context, formats, validate
from rehydrate._native import Parted
from rehydrate.compact import Archive
from rehydrate.compact.archive import message_json
from rehydrate.page.comparison import rows
from tests.compact.cases import figures, talk
from tests.strategies import BY_FORMAT, Entry

IDS = ("a", "b", "c", "d")
ASKED = "What does b_main do?"


def body(name: str) -> str:
    return f"def {name}_main(): " + " ".join(f"{name}_{n}" for n in range(60))


def anthropic(*, lead: tuple[Entry, ...] = ({"type": "text", "text": "Reading."},)) -> list[Entry]:
    calls = [{"type": "tool_use", "id": i, "name": "Read", "input": {"path": i}} for i in IDS]
    results = [{"type": "tool_result", "tool_use_id": i, "content": body(i)} for i in "cabd"]
    return [
        *talk("user: read all"),
        {"role": "assistant", "content": [*lead, *calls]},
        {"role": "user", "content": results},
        *talk("assistant: read", f"user: {ASKED}"),
    ]


def openai_chat() -> list[Entry]:
    calls = [
        {
            "id": i,
            "type": "function",
            "function": {"name": "Read", "arguments": f'{{"path":"{i}"}}'},
        }
        for i in IDS
    ]
    return [
        *talk("user: read all"),
        {"role": "assistant", "content": "Reading.", "refusal": None, "tool_calls": calls},
        *({"role": "tool", "tool_call_id": i, "content": body(i)} for i in "cabd"),
        *talk("assistant: read", f"user: {ASKED}"),
    ]


def openai_responses(*, with_ids: bool = False) -> list[Entry]:
    def item(kind: str, number: str, **rest: Any) -> Entry:
        return {"type": kind, **({"id": f"{kind}_{number}"} if with_ids else {}), **rest}

    def said(number: str, text: str) -> Entry:
        part = {"type": "output_text", "text": text, "annotations": []}
        return item("message", number, role="assistant", content=[part])

    return [
        *talk("user: read all"),
        {"type": "reasoning", "summary": [], "encrypted_content": "b3BhcXVl"},
        said("m", "Reading."),
        *(
            item("function_call", i, call_id=i, name="Read", arguments=f'{{"p":"{i}"}}')
            for i in IDS
        ),
        said("n", "All four."),
        *({"type": "function_call_output", "call_id": i, "output": body(i)} for i in "cabd"),
        *talk("assistant: read", f"user: {ASKED}"),
    ]


def claude_code() -> list[Entry]:
    def line(role: str, content: Any, message_id: str | None = None) -> Entry:
        message = {"role": role, "content": content} | ({"id": message_id} if message_id else {})
        return {"type": role, "sessionId": "s", "message": message}

    calls = {i: {"type": "tool_use", "id": i, "name": "Read", "input": {"path": i}} for i in IDS}
    results = {i: {"type": "tool_result", "tool_use_id": i, "content": body(i)} for i in IDS}
    return [
        line("user", "read all"),
        line("assistant", [{"type": "text", "text": "Reading."}], "m1"),
        *(line("assistant", [calls[i]], "m1") for i in "ab"),
        *(line("user", [results[i]]) for i in "ab"),  # before the last calls are written
        *(line("assistant", [calls[i]], "m1") for i in "cd"),
        *(line("user", [results[i]]) for i in "dc"),
        line("assistant", [{"type": "text", "text": "read"}], "m2"),
        line("user", ASKED),
    ]


PARTED: dict[str, Callable[[], list[Entry]]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "claude_code": claude_code,
}
every_format = pytest.mark.parametrize("name", sorted(PARTED))


def calls_and_results(messages: list[Any]) -> tuple[list[str], list[str]]:
    read = formats.parse(messages).messages
    return (
        [call for each in read for call in each.calls],
        [answer for each in read for answer in each.answers],
    )


@every_format
def test_the_call_that_is_asked_for_stays_with_its_result_and_the_others_go(name: str):
    messages = PARTED[name]()
    before = copy.deepcopy(messages)
    once = compact_context(messages, target_ratio=0.4)
    assert calls_and_results(once.messages) == (["b"], ["b"])
    assert body("b") in str(once.messages)
    assert validate(once.messages, name) == []
    assert messages == before
    assert once.stats.after_tokens <= once.stats.target_tokens

    twice = compact_context(once.messages, budget_tokens=once.stats.target_tokens)
    assert list(map(id, twice.messages)) == list(map(id, once.messages))
    assert twice.stats.before_tokens == once.stats.after_tokens


@every_format
def test_blocks_keep_the_order_that_the_model_wrote_them_in(name: str):
    messages = PARTED[name]()
    whole = calls_and_results(messages)
    for percent in range(10, 100, 10):
        kept = calls_and_results(compact_context(messages, target_ratio=percent / 100).messages)
        for before, after in zip(whole, kept, strict=True):
            assert after == [each for each in before if each in after]


@every_format
def test_a_message_that_keeps_all_its_calls_is_the_callers_object(name: str):
    said = {"role": "user", "content": "well " * 100}
    filler = {"type": "user", "message": said} if name == "claude_code" else said
    messages = [filler, *PARTED[name]()]
    query = " ".join(f"{each}_main" for each in IDS)
    total = compact_context(messages, query).stats.before_tokens
    compaction = compact_context(messages, query, budget_tokens=total - 60)
    assert compaction.stats.dropped == 1
    assert list(map(id, compaction.messages)) == list(map(id, messages[1:]))
    assert compaction.stats.excerpted == 0


@every_format
def test_figures_and_reasons_are_by_the_messages_that_came_in(name: str):
    messages = PARTED[name]()
    compaction = compact_context(messages, target_ratio=0.4)
    kept, gone = set(compaction.indices), {each.index for each in compaction.dropped}
    assert kept | gone == set(range(len(messages)))
    assert not kept & gone
    assert compaction.stats.dropped == len(gone)
    changed = sum(
        entry is not messages[index]
        for index, entry in zip(compaction.indices, compaction.messages, strict=True)
    )
    assert compaction.stats.excerpted == changed
    of_rows = [row for row in compaction.explain() if row.role == "tool use"]
    assert [row.kept for row in of_rows] == [False, True, False, False]
    for row, call in zip(of_rows, IDS, strict=True):
        assert body(call) in str([messages[index] for index in row.messages])
    shown = rows(messages, compaction)
    assert [row.unit for row in shown] == list(compaction.explain())
    assert [tuple(m.index for m in row.messages) for row in shown] == [
        row.messages for row in compaction.explain()
    ]


@every_format
def test_the_formula_that_others_are_compared_with_knows_no_parts(name: str):
    messages = PARTED[name]()
    rows = list(compact_context(messages, scoring="chitta").explain())
    assert len([row for row in rows if row.role == "tool use"]) == 1


@every_format
def test_what_the_model_has_not_answered_yet_is_never_parted(name: str):
    messages = PARTED[name]()[:-2]
    compaction = compact_context(messages, budget_tokens=1)
    assert calls_and_results(compaction.messages) == calls_and_results(messages)
    assert len([row for row in compaction.explain() if row.role == "tool use"]) == 1


@every_format
def test_a_pinned_message_keeps_all_its_calls(name: str):
    messages = PARTED[name]()
    index = next(i for i, each in enumerate(formats.parse(messages).messages) if each.calls)
    compaction = compact_context(messages, budget_tokens=1, pin=[messages[index]])
    assert any(each is messages[index] for each in compaction.messages)
    assert validate(compaction.messages, name) == []


@every_format
def test_dropped_parts_are_archived_as_the_message_that_came_in(name: str, tmp_path: Any):
    messages = PARTED[name]()
    with Memory.open(tmp_path / "m.db", namespace="n") as memory:
        compaction = compact_context(messages, target_ratio=0.4, memory=memory, archive=Archive())
        for each in compaction.dropped:
            assert each.handle is not None
            assert memory.get(each.handle).text == message_json(messages[each.index])


@every_format
@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.7])
def test_an_outline_is_put_before_or_after_a_message_and_its_results(name: str, ratio: float):
    messages = PARTED[name]()
    compaction = compact_context(messages, target_ratio=ratio, outline=100)
    assert validate(compaction.messages, name) == []
    if compaction.outline is not None:
        assert "outline" in str(compaction.messages[compaction.outline.position])
        rest = [*compaction.indices]
        del rest[compaction.outline.position]
        assert rest == sorted(rest)


@every_format
def test_long_results_are_excerpted_part_by_part(name: str):
    messages = PARTED[name]()
    lines = "\n".join(f"{n}: value_{n} = compute_{n}(x)" for n in range(400))
    text = str(messages).count(body("b"))
    assert text == 1
    messages = _replaced(messages, body("b"), lines)
    compaction = compact_context(messages, "compute_250", 0.4, granularity="excerpt")
    assert validate(compaction.messages, name) == []
    assert "compute_250" in str(compaction.messages)
    assert "lines omitted" in str(compaction.messages)
    if name == "claude_code":
        ids = {each["message"].get("id") for each in compaction.messages}
        assert ids <= {"m1", "m2", None}
    assert [row.unit for row in rows(messages, compaction)] == list(compaction.explain())


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    return new if value == old else value


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
SERVER = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}


def _beside_results() -> list[Entry]:
    messages = anthropic()
    messages[2]["content"].append({"type": "text", "text": "Use tabs."})
    return messages


def _signed_call() -> list[Entry]:
    messages = openai_chat()
    messages[1]["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    return messages


def _thought_line() -> list[Entry]:
    messages = claude_code()
    messages[1]["message"]["content"] = [THOUGHT]
    return messages


def _called_amid_results() -> list[Entry]:
    """The results of a and b come around call c."""
    messages = claude_code()
    messages[5], messages[6] = messages[6], messages[5]
    return messages


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(anthropic(lead=(THOUGHT,)), id="thinking"),
        pytest.param(anthropic(lead=(SERVER, FOUND)), id="server tool"),
        pytest.param(_beside_results(), id="text of the user's next to results"),
        pytest.param(_signed_call(), id="signature"),
        pytest.param(
            [*openai_chat()[:1], openai_chat()[1] | {"reasoning": "Hm."}, *openai_chat()[2:]],
            id="reasoning",
        ),
        pytest.param(openai_responses(with_ids=True), id="reasoning and ids"),
        pytest.param(_thought_line(), id="line of thinking"),
        pytest.param(_called_amid_results(), id="call amid results"),
    ],
)
def test_what_the_provider_wants_together_stays_together(messages: list[Entry]):
    compaction = compact_context(messages, target_ratio=0.4, thinking="keep")
    of_calls = [row for row in compaction.explain() if row.role == "tool use"]
    others = [row for row in compaction.explain() if "a" in row.preview]
    assert len(of_calls) <= 1
    assert others
    calls, results = calls_and_results(compaction.messages)
    assert sorted(calls) in ([], [*IDS])
    assert sorted(calls) == sorted(results)


def test_parallel_items_without_reasoning_are_parted_with_their_ids():
    messages = [item for item in openai_responses(with_ids=True) if item.get("type") != "reasoning"]
    compaction = compact_context(messages, target_ratio=0.4)
    assert calls_and_results(compaction.messages) == (["b"], ["b"])


def test_reasoning_stays_with_what_follows_it():
    messages = [each for each in openai_responses() if each.get("role") != "assistant"]
    messages += talk("assistant: read", f"user: {ASKED}")
    for percent in range(5, 100, 5):
        compaction = compact_context(messages, target_ratio=percent / 100)
        assert validate(compaction.messages, "openai_responses") == []
        kinds = [each.get("type") for each in compaction.messages]
        if "reasoning" in kinds:
            after = compaction.messages[kinds.index("reasoning") + 1]
            assert after.get("call_id") == "a"


def test_calls_off_the_path_of_a_transcript_are_parted_too():
    """The model goes on from the result that came last, on which the last call does not hang."""
    lines = claude_code()
    parents = [None, 0, 1, 2, 2, 3, 3, 6, 7, 6, 9, 10]
    for number, (line, parent) in enumerate(zip(lines, parents, strict=True)):
        line |= {"uuid": f"u{number}", "parentUuid": None if parent is None else f"u{parent}"}
    conversation = formats.parse(lines)
    parted = Parted.of(conversation, lines, ())
    assert parted is not None
    assert parted.read().indices == conversation.indices == [*range(len(lines))]
    assert len(parted.read().units) == len(conversation.units) + len(IDS) - 1


@given(st.data())
def test_a_list_without_parallel_calls_is_not_parted(data: Any):
    name = data.draw(st.sampled_from(sorted(BY_FORMAT)))
    entries = data.draw(BY_FORMAT[name]())
    conversation, read = formats.read(entries, name)
    single = all(
        len({call for message in unit.messages for call in message.calls}) < 2
        for unit in conversation.units
    )
    parted = Parted.of(conversation, read, ())
    assert not (single and parted)
    if parted:
        units = parted.read().units
        assert len(units) > len(conversation.units)
        assert validate(list(parted.entries), name) == []
        places = range(len(parted.entries))
        origins, merged, _ = parted.merged(places, parted.entries, None)
        assert origins == [*range(len(entries))]
        assert all(one is other for one, other in zip(merged, read, strict=True))


def test_the_same_call_gives_the_same_result():
    messages = anthropic()
    first, second = (compact_context(messages, target_ratio=0.4) for _ in range(2))
    assert figures(first) == figures(second)
    assert first.messages == second.messages


def test_a_message_of_anthropics_may_have_a_key_of_chats():
    messages = [each | {"tool_calls": None} for each in anthropic()]
    kept = compact_context(messages, target_ratio=0.4, format="anthropic")
    assert calls_and_results(kept.messages) == (["b"], ["b"])
    assert validate(kept.messages, "anthropic") == []
