"""thinking="auto": a compaction keeps the thinking that the model takes back, and no other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate import compact_context, formats, validate
from rehydrate.formats import THINKING_MODELS, ThinkingModel, thinking_model
from tests.compact.cases import Case, cases, figures
from tests.strategies import Entry

MODELS = ["", "claude-opus-5-5", "claude-fable-5-1", "claude-opus-5", "claude-sonnet-4-5", "gpt-5"]
models = st.sampled_from(MODELS)


def thought(number: int) -> Entry:
    return {"type": "thinking", "thinking": f"hm, {number}. " * 9, "signature": f"c2ln{number}"}


def user(number: int) -> Entry:
    return {"role": "user", "content": f"Question {number} of the harbour? " * 4}


def answer(number: int) -> Entry:
    reply = {"type": "text", "text": f"Berth {number} is free. " * 9}
    return {"role": "assistant", "content": [thought(number), reply]}


def call(number: int) -> list[Entry]:
    use = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"berth": number}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number} " * 60}
    return [
        {"role": "assistant", "content": [thought(number), use]},
        {"role": "user", "content": [result]},
    ]


def thoughts(entries: list[Any]) -> list[int]:
    """The indices of the messages with thinking."""
    return [
        index
        for index, entry in enumerate(entries)
        if any(
            isinstance(block, dict) and block.get("type") == "thinking"
            for block in entry["content"]
        )
    ]


TALK = [entry for number in range(8) for entry in (user(number), answer(number))] + [user(99)]
LOOP = [*TALK[:-1], user(20), *call(21), *call(22)]


def first_change(compaction: rehydrate.Compaction, count: int) -> int:
    return min(set(range(count)) - set(compaction.indices), default=count)


def auto(case: Case, model: str, **changed: Any) -> rehydrate.Compaction:
    return case.compact(thinking="auto", model=model, **changed)


@given(cases(), models, st.sampled_from(["message", "excerpt"]))
def test_what_is_left_is_valid_and_nothing_that_came_in_is_changed(case: Case, model, granularity):
    before = copy.deepcopy(case.entries)
    assert validate(auto(case, model, granularity=granularity).messages, case.format) == []
    assert case.entries == before


@given(cases(broken=True), models)
def test_a_damaged_conversation_gets_no_more_violations(case: Case, model: str):
    before = validate(case.entries, case.format)
    assert len(validate(auto(case, model).messages, case.format)) <= len(before)


@given(cases(), models)
def test_compacting_the_result_at_the_same_budget_changes_nothing(case: Case, model: str):
    once = auto(case, model, pin=())
    options = case.options | {"pin": (), "thinking": "auto", "model": model}
    options.pop("target_ratio", None)
    options["budget_tokens"] = once.stats.target_tokens
    twice = compact_context(once.messages, **options)
    if once.stats.over_budget and once.stats.stripped:
        # A message kept for its thinking isn't kept once the thinking is gone.
        assert set(map(id, twice.messages)) <= set(map(id, once.messages))
        return
    assert list(map(id, twice.messages)) == list(map(id, once.messages))
    assert not twice.stats.changed
    assert twice.stats.before_tokens == once.stats.after_tokens


@given(cases(), models)
def test_it_decides_as_keep_does_and_then_only_leaves_out_thinking(case: Case, model: str):
    kept, chosen = case.compact(model=model), auto(case, model)
    waits = any("waits for the end of the turn" in said for said in chosen.stats.degraded)
    is_pinned_less = thinking_model(model, case.format, case.entries).open_loop == "any"
    if waits:
        assert list(map(id, chosen.messages)) == list(map(id, case.entries))
        assert not chosen.stats.changed
    elif not is_pinned_less:
        entries = dict(zip(chosen.indices, chosen.messages, strict=True))
        without = formats.FORMATS[case.format].without_thinking(case.entries)
        for index, entry in zip(kept.indices, kept.messages, strict=True):
            shown = entries.get(index)
            assert shown is entry or shown == without[index] != entry
        assert set(chosen.indices) <= set(kept.indices)
        assert chosen.stats.before_tokens == kept.stats.before_tokens
        assert chosen.stats.after_tokens + chosen.stats.stripped_tokens == kept.stats.after_tokens


@given(cases(), st.sampled_from(["claude-opus-5", "claude-sonnet-4-5"]))
def test_a_model_that_binds_nothing_keeps_all_its_thinking(case: Case, model: str):
    kept, chosen = case.compact(model=model), auto(case, model)
    assert list(map(id, chosen.messages)) == list(map(id, kept.messages))
    assert figures(chosen) == figures(kept)


@pytest.mark.parametrize("model", ["", "claude-opus-5-5", "claude-new-7"])
def test_thinking_goes_after_the_first_change_and_stays_before_it(model):
    compaction = compact_context(TALK, target_ratio=0.6, pin=[0, 1, 2, 3], model=model)
    first = first_change(compaction, len(TALK))
    assert 3 < first < len(TALK) - 2
    kept = dict(zip(compaction.indices, compaction.messages, strict=True))
    assert all(kept[index] is TALK[index] for index in range(first))
    behind = [entry for index, entry in kept.items() if index > first]
    assert thoughts(behind) == []
    lost = [index for index in kept if index > first and index in thoughts(TALK)]
    stats = compaction.stats
    assert (stats.stripped, stats.after_tokens) == (len(lost), stats.after_tokens)
    again = compact_context(compaction.messages, target_ratio=1.0, thinking="keep")
    assert again.stats.before_tokens == stats.after_tokens <= stats.target_tokens
    rows = [row for row in compaction.explain() if row.stripped]
    assert [row.messages for row in rows] == [(index,) for index in lost]
    assert {row.stripped for row in rows} == {f"message {first} changed before it"}
    assert f"omit  thinking: message {first} changed before it" in str(compaction.explain())
    assert sum(row.stripped_tokens for row in rows) == stats.stripped_tokens > 0


def test_where_nothing_is_left_out_no_thinking_is():
    compaction = compact_context(TALK, target_ratio=1.0, model="claude-opus-5-5")
    assert all(kept is came for kept, came in zip(compaction.messages, TALK, strict=True))
    assert (compaction.stats.stripped, compaction.stats.changed) == (0, False)


def test_an_entry_that_is_kept_in_part_is_a_change_too():
    long = {"role": "user", "content": "\n".join(f"line {n} of the log" for n in range(400))}
    entries = [user(1), answer(1), long, answer(2), user(3)]
    compaction = compact_context(
        entries, target_ratio=0.4, granularity="excerpt", model="claude-opus-5-5", pin=[0, 1, 3]
    )
    assert compaction.stats.excerpted == 1
    assert thoughts(compaction.messages) == [1]
    assert compaction.messages[3]["content"] == answer(2)["content"][1:]


def test_an_adaptive_model_takes_an_open_tool_loop_without_its_thinking():
    compaction = compact_context(LOOP, target_ratio=0.5, model="claude-opus-5-5")
    assert compaction.stats.changed
    assert thoughts(compaction.messages) == []
    assert compaction.messages[-1] is LOOP[-1]


def test_a_model_of_manual_thinking_keeps_its_open_tool_loop_as_it_is():
    compaction = compact_context(LOOP, target_ratio=0.5, model="claude-sonnet-4-5")
    assert compaction.stats.changed
    assert [entry for entry in compaction.messages if entry in LOOP[17:]] == LOOP[17:]


def test_in_an_open_tool_loop_of_an_unknown_claude_the_compaction_waits_and_says_so():
    compaction = compact_context(LOOP, target_ratio=0.5)
    assert all(kept is came for kept, came in zip(compaction.messages, LOOP, strict=True))
    assert not compaction.stats.changed
    (problem,) = compaction.stats.degraded
    assert "waits for the end of the turn" in problem and "pass the model's name" in problem
    assert {row.reason for row in compaction.explain()} == {"waits for the end of the turn"}
    # With the turn over it does not wait.
    over = compact_context([*LOOP, answer(23), user(24)], target_ratio=0.5)
    assert over.stats.changed and over.stats.degraded == ()


def test_a_loop_of_one_turn_is_compacted_after_the_thinking_that_it_begins_with():
    loop = [user(0), *(entry for number in range(12) for entry in call(number))]
    compaction = compact_context(loop, target_ratio=0.5)
    assert compaction.stats.changed and compaction.stats.degraded == ()
    assert compaction.messages[:2] == loop[:2]  # with the thinking that the turn began with
    first = first_change(compaction, len(loop))
    kept = [index for index in compaction.indices if index in thoughts(loop)]
    assert thoughts(compaction.messages) == [
        position
        for position, index in enumerate(compaction.indices)
        if index in kept and index < first
    ]


def test_thinking_after_the_apis_own_summary_is_bound_to_it_alone():
    summary = {"role": "assistant", "content": [{"type": "compaction", "content": "So far."}]}
    entries = [*TALK[:-1], summary, user(30), answer(30), user(31)]
    options: dict[str, Any] = {"model": "claude-opus-5-5", "pin": [16, 17, 18]}
    compaction = compact_context(entries, target_ratio=0.4, **options)
    assert compaction.stats.dropped > 0
    assert any(kept is entries[18] for kept in compaction.messages)


def test_a_transcript_names_the_model_itself():
    def line(kind: str, entry: Entry, **rest: Any) -> Entry:
        message = {**entry, **rest}
        return {"type": kind, "uuid": f"u{id(entry)}", "sessionId": "s", "message": message}

    def lines(model: str) -> list[Entry]:
        return [
            line("user", entry)
            if entry["role"] == "user"
            else line("assistant", entry, id=f"m{index}", model=model)
            for index, entry in enumerate(TALK)
        ]

    assert compact_context(lines("claude-opus-5-5"), target_ratio=0.8).stats.stripped > 0
    assert compact_context(lines("claude-opus-4-8"), target_ratio=0.8).stats.stripped == 0
    named = compact_context(lines("claude-opus-4-8"), target_ratio=0.8, model="claude-opus-5-5")
    assert named.stats.stripped > 0


def test_behind_a_gateway_claudes_signed_thinking_counts_as_claudes():
    def reply(number: int, **more: Any) -> Entry:
        return {"role": "assistant", "content": f"Berth {number} is free. " * 9, **more}

    signed = [
        entry
        for number in range(8)
        for entry in (user(number), reply(number, thinking_blocks=[thought(number)]))
    ]
    signed.append(user(9))
    plain = [
        {**entry, "reasoning_content": "hm"} if entry["role"] == "assistant" else entry
        for entry in TALK_OF_CHAT
    ]
    by_model = {
        "": True,
        "anthropic/claude-opus-5.5": True,
        "anthropic/claude-opus-4.8": False,
    }
    for model, goes in by_model.items():
        compaction = compact_context(signed, target_ratio=0.5, format="openai_chat", model=model)
        assert (compaction.stats.stripped > 0) == goes
    compaction = compact_context(plain, target_ratio=0.5, format="openai_chat")
    assert compaction.stats.dropped > 0 and compaction.stats.stripped == 0


TALK_OF_CHAT: list[Entry] = [
    {"role": role, "content": f"{role} {number} " * 20}
    for number in range(8)
    for role in ("user", "assistant")
] + [{"role": "user", "content": "And now?"}]


@pytest.fixture
def register():
    before = dict(THINKING_MODELS)
    yield THINKING_MODELS
    THINKING_MODELS.clear()
    THINKING_MODELS.update(before)


def test_a_row_that_the_user_registers_or_replaces_is_what_holds(register):
    register["harbour-1"] = ThinkingModel(False, source="https://harbour.example/thinking")
    register["claude-opus-5-5"] = register["claude-opus-5-5"]._replace(on_mismatch="drop")
    for model in ("harbour-1", "harbour-1-20270101", "claude-opus-5-5"):
        compaction = compact_context(TALK, target_ratio=0.5, model=model)
        assert compaction.stats.changed and compaction.stats.stripped == 0
    register["claude-opus-5"] = ThinkingModel(True, source="https://harbour.example/thinking")
    assert compact_context(TALK, target_ratio=0.8, model="claude-opus-5").stats.stripped > 0


def test_every_row_says_where_the_provider_says_so():
    for name, row in THINKING_MODELS.items():
        assert row.source.startswith("https://platform.claude.com/docs/"), name
        assert name not in row.reads
        assert all(other in THINKING_MODELS for other in row.reads), name
        assert thinking_model(f"us.anthropic.{name}-v1:0") is row


NEWER = ["fable-5-1", "fable-5-2", "mythos-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5"]


@pytest.mark.parametrize("model", ["", *(f"claude-{n}" for n in [*NEWER, "haiku-5-5", "opus-6"])])
def test_the_newer_models_and_the_unknown_bind_thinking_to_its_prefix(model):
    assert thinking_model(model, "anthropic").refuses_changed_prefix


def test_a_model_that_is_no_name_is_refused():
    with pytest.raises(
        rehydrate.errors.InvalidArgumentError, match="model is a int; pass the model's"
    ):
        compact_context([], model=5)
