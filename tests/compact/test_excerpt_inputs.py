"""Excerpts: long strings in the inputs of finished calls are kept in part, no others."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

import rehydrate
from rehydrate import compact_context, formats, validate
from rehydrate._native import DivisibleTexts, entry_inputs
from rehydrate.memory import Memory
from rehydrate.messages import PieceKind
from tests.compact.cases import Case, cases, words
from tests.compact.test_excerpts import LONG_TEXTS
from tests.memory.plain import PlainStore
from tests.strategies import BY_FORMAT, Draw, Entry

FORMATS = sorted(set(BY_FORMAT) - {"plain"})


class Input(NamedTuple):
    """The input of one call, as `entry_inputs` reads it."""

    call: str | None
    name: object
    value: object
    paths: tuple[tuple[str | int, ...], ...]
    is_text: bool


def inputs_of(entry: Any, name: str) -> list[Input]:
    """The inputs of the calls that may be divided."""
    return [Input(*each) for each in entry_inputs(name, entry) if each is not None]


def at_path(entry: Any, path: tuple[str | int, ...]) -> Any:
    """The value at a path of an entry, which may be an object of LangChain's."""
    for step in path:
        is_object = not isinstance(entry, (dict, list, tuple))
        entry = getattr(entry, str(step)) if is_object else entry[step]
    return entry


def with_content(value: Any, text: str, *, is_text: bool) -> Any:
    """An input with a long string in it."""
    if is_text:
        return text
    if isinstance(value, str):
        return json.dumps({**json.loads(value or "{}"), "edits": [1e3, {"content": text}]})
    return {**(value or {}), "edits": [1e3, {"content": text}]}


@st.composite
def written(draw: Draw, only: str | None = None) -> Case:
    """A case in which some calls wrote something long."""
    case = draw(cases(only=only))
    conversation = case.plain()
    format_ = formats.FORMATS[conversation.format]
    entries = list(case.entries)
    for message in conversation.messages:
        for each in inputs_of(entries[message.index], format_.name):
            if draw(st.integers(0, 3)):
                text = LONG_TEXTS[draw(st.sampled_from(sorted(LONG_TEXTS)))]
                texts = {
                    path: with_content(
                        at_path(entries[message.index], path), text, is_text=each.is_text
                    )
                    for path in each.paths
                }
                entries[message.index] = format_.replace(entries[message.index], texts)
    options = case.options | {"granularity": "excerpt"}
    options |= {"format": conversation.format, "pin": [entries[index] for index in case.pinned]}
    if draw(st.integers(0, 3)):
        options.pop("budget_tokens", None)
        options["target_ratio"] = draw(st.sampled_from([0.2, 0.3, 0.5, 0.7, 0.9]))
    return case._replace(entries=entries, options=options)


def values(entry: Any, name: str) -> list[Any]:
    """Return the values of its calls' inputs."""
    return [at_path(entry, path) for each in inputs_of(entry, name) for path in each.paths]


def emptied(entry: Any, name: str) -> Any:
    """The entry without its texts and without what its calls say."""
    format_ = formats.FORMATS[name]
    paths = [path for path in format_.places(entry, 0) if path is not None]
    paths += [path for each in inputs_of(entry, name) for path in each.paths]
    return format_.replace(entry, dict.fromkeys(paths, "")) if paths else entry


def what_is_kept_is_valid(case: Case, compaction: rehydrate.Compaction):
    assert validate(compaction.messages, case.format) == []
    made = 0
    for index, entry in zip(compaction.indices, compaction.messages, strict=True):
        if entry is not case.entries[index]:
            made += 1
            assert type(entry) is type(case.entries[index])
            assert emptied(entry, case.format) == emptied(case.entries[index], case.format)
    assert compaction.stats.excerpted == made


def of_inputs_only_long_strings_change_and_json_stays_json(
    case: Case, compaction: rehydrate.Compaction
):
    kept = dict(zip(compaction.indices, compaction.messages, strict=True))
    for message in case.plain().messages:
        index = message.index
        if index in case.cut():
            continue
        entry = kept.get(index, case.entries[index])
        befores, afters = values(case.entries[index], case.format), values(entry, case.format)
        for before, after in zip(befores, afters, strict=True):
            if before == after:
                continue
            assert type(before) is type(after)
            if isinstance(before, str) and before.startswith("{"):
                before, after = json.loads(before), json.loads(after)
            pairs = zip(strings(before), strings(after), strict=True)
            changed = [(was, now) for was, now in pairs if was != now]
            assert changed
            for was, now in changed:
                lines = [line for line in now.split("\n") if "omitted" not in line]
                assert len(was) >= 1_000
                assert all(line in was for line in lines)


def strings(value: Any) -> list[str]:
    """The strings of an input that aren't keys."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value
    return [text for each in inner for text in strings(each)] if is_nested(value) else []


def is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple))


def the_budget_holds_with_inputs_cut(case: Case, compaction: rehydrate.Compaction):
    stats = compaction.stats
    counter = case.options["counter"] or case.scoring.counter
    again = compact_context(
        compaction.messages, target_ratio=1.0, counter=counter, format=case.format
    )
    assert stats.after_tokens == again.stats.before_tokens
    assert stats.after_tokens == sum(row.kept_tokens for row in compaction.explain())
    assert stats.before_tokens == case.compact(granularity="message").stats.before_tokens
    if stats.over_budget:
        rest = [row for row in compaction.explain() if row.kept and row.unit not in case.pins()]
        assert [row.reason for row in rest] in ([], ["a user turn must come first"])


PROOFS = ("signature", "encrypted", "thought", "thinking", "reasoning")
OF_OTHERS = ("input", "arguments", "args", "text", "usage")


def said_in(entry: Any, name: str) -> Any:
    """The part of an entry that the model wrote, and its provider may have signed."""
    if name == "langchain":
        return [entry.content, entry.additional_kwargs]
    if name in ("openai_chat", "openai_responses"):
        return entry
    if name == "codex":
        return entry["payload"]
    if name == "claude_code":
        is_queued = entry["type"] == "attachment"
        return entry["attachment"]["prompt"] if is_queued else entry["message"]["content"]
    return entry.get("parts" if name in ("gemini", "ai_sdk_ui") else "content")


def is_signed(value: Any) -> bool:
    """Whether there is a thought or a signature in it."""
    if isinstance(value, Mapping):
        return proves(str(value.get("type"))) or any(
            item and (proves(key) or is_signed(item))
            for key, item in value.items()
            if key not in OF_OTHERS
        )
    return is_nested(value) and any(map(is_signed, value))


def proves(name: str) -> bool:
    return any(proof in name for proof in PROOFS)


def what_is_pinned_or_signed_keeps_its_inputs(case: Case, compaction: rehydrate.Compaction):
    conversation = case.read()
    kept = dict(zip(compaction.indices, compaction.messages, strict=True))
    for number, unit in enumerate(conversation.units):
        stays = number in case.pins()
        unit_messages = [
            message._replace(index=case.origins([message.index])[0]) for message in unit.messages
        ]
        for message in unit_messages:
            has_thought = any(piece.kind is PieceKind.THINKING for piece in message.pieces)
            entry = case.entries[message.index]
            stays = stays or has_thought or is_signed(said_in(entry, case.format))
        for index in unit.members if stays else ():
            if index in kept:
                assert values(kept[index], case.format) == values(case.entries[index], case.format)


def compacting_the_result_again_changes_nothing(case: Case, compaction: rehydrate.Compaction):
    there = dict(zip(compaction.indices, compaction.messages, strict=True))
    options = {key: value for key, value in case.options.items() if key != "target_ratio"}
    options["pin"] = [there[place] for place in case.pinned if place in there]
    options["budget_tokens"] = compaction.stats.target_tokens
    twice = compact_context(compaction.messages, **options)
    assert list(map(id, twice.messages)) == list(map(id, compaction.messages))


LAWS = (
    what_is_kept_is_valid,
    of_inputs_only_long_strings_change_and_json_stays_json,
    the_budget_holds_with_inputs_cut,
    what_is_pinned_or_signed_keeps_its_inputs,
    compacting_the_result_again_changes_nothing,
)


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
@pytest.mark.parametrize("name", FORMATS)
def test_the_laws_hold_with_inputs_cut(name: str, data: st.DataObject):
    case = data.draw(written(only=name))
    before = copy.deepcopy(case.entries)
    compaction = case.compact()
    for law in LAWS:
        law(case, compaction)
    assert case.entries == before


CODE = LONG_TEXTS["code"]


def session(name: str = "anthropic", *, thought: bool = False) -> list[Any]:
    """A file is written, the turn ends, another begins."""
    call = {"path": "calls.py", "content": CODE}
    if name == "anthropic":
        blocks: list[Entry] = [{"type": "tool_use", "id": "c1", "name": "Write", "input": call}]
        if thought:
            blocks.insert(0, {"type": "redacted_thinking", "data": "b3BhcXVl"})
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "written"}
        return [
            {"role": "user", "content": "Write the calls."},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "Written."},
            {"role": "user", "content": "What is next?"},
            {"role": "assistant", "content": "The tests."},
            {"role": "user", "content": "Go on."},
        ]
    function = {"name": "Write", "arguments": json.dumps(call, indent=1)}
    calls = [{"id": "c1", "type": "function", "function": function}]
    return [
        {"role": "user", "content": "Write the calls."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "written"},
        {"role": "assistant", "content": "Written."},
        {"role": "user", "content": "What is next?"},
        {"role": "assistant", "content": "The tests."},
        {"role": "user", "content": "Go on."},
    ]


def compacted(messages: list[Any], **options: Any) -> rehydrate.Compaction:
    given = {"target_ratio": 0.5, "granularity": "excerpt"}
    return compact_context(messages, **(given | options))


def test_the_content_of_a_write_is_kept_in_part():
    compaction = compacted(session())
    (call,) = compaction.messages[1]["content"]
    assert call["input"]["path"] == "calls.py"
    assert "lines omitted" in call["input"]["content"]
    assert compaction.stats.after_tokens <= compaction.stats.target_tokens


def test_arguments_keep_their_spelling_around_what_is_cut():
    compaction = compacted(session("openai_chat"))
    arguments = compaction.messages[1]["tool_calls"][0]["function"]["arguments"]
    assert arguments.startswith('{\n "path": "calls.py",\n "content": "')
    assert "lines omitted" in json.loads(arguments)["content"]


def test_next_to_a_thought_the_input_stays():
    compaction = compacted(session(thought=True), thinking="keep")
    assert compaction.stats.excerpted == 0
    assert compacted(session(thought=True), thinking="strip").stats.excerpted == 1


def test_the_inputs_of_earlier_steps_of_an_open_turn_are_divided():
    messages = session()[:3]
    messages += [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c2", "name": "Bash", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "ok"}],
        },
    ]
    assert compacted(messages).stats.excerpted == 1
    assert compacted(messages[:3]).stats.excerpted == 0  # the model has not reacted to it yet


def test_all_places_in_which_langchain_says_a_call_are_cut_alike():
    from rehydrate.formats import openai_to_langchain

    messages = openai_to_langchain(session("openai_chat"))
    (call,) = messages[1].tool_calls
    block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
    extra = {"tool_calls": session("openai_chat")[1]["tool_calls"]}
    messages[1] = messages[1].model_copy(update={"content": [block], "additional_kwargs": extra})
    kept = compacted(messages).messages[1]
    shown = kept.tool_calls[0]["args"]["content"]
    assert "lines omitted" in shown
    assert kept.content[0]["input"]["content"] == shown
    arguments = kept.additional_kwargs["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments)["content"] == shown
    assert messages[1].tool_calls[0]["args"]["content"] == CODE


def test_a_gap_in_an_input_names_where_the_whole_string_is():
    memory = Memory(PlainStore(), namespace="alice", redact=False)
    compaction = compacted(session(), memory=memory, archive=True)
    content = compaction.messages[1]["content"][0]["input"]["content"]
    mark = next(line for line in content.split("\n") if "omitted" in line)
    handle = mark.rpartition(", ")[2].partition(" ")[0]
    assert memory.get(handle).text == CODE
    assert compaction.stats.after_tokens == rehydrate.count_tokens(compaction.messages)


def test_a_counter_of_the_callers_counts_inputs_too():
    compaction = compacted(session("openai_chat"), counter=words, target_ratio=0.4)
    assert compaction.stats.excerpted == 1
    assert compaction.stats.after_tokens <= compaction.stats.target_tokens


def test_the_explanation_and_the_page_show_the_blocks_of_an_input():
    from rehydrate.page import side_by_side

    compaction = compacted(session())
    blocks = compaction.explain().units[1].blocks
    assert {block.message for block in blocks} == {1}
    assert [block.kept for block in blocks].count(False) > 0
    page = side_by_side(session(), compaction)
    assert "lines omitted" in page
    assert "call_39" in page


def test_half_a_surrogate_pair_is_no_reason_to_fail():
    messages = session()
    messages[1]["content"][0]["input"]["content"] = CODE + "\ud83d"
    conversation = formats.parse(messages)
    assert DivisibleTexts(conversation, messages).conversation is conversation


def test_the_input_of_a_call_that_a_program_made_stays():
    text = "\n".join(f"{n}: value_{n} = compute_{n}(x)" for n in range(400))
    caller = {"type": "program", "caller_id": "p"}
    made = {"type": "function_call", "call_id": "a", "name": "write", "caller": caller}
    entries = [
        {"role": "user", "content": "Go."},
        {"type": "program", "id": "i", "call_id": "p", "code": "write()"},
        made | {"arguments": json.dumps({"text": text})},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
        {"type": "program_output", "id": "o", "call_id": "p", "result": "done"},
        {"role": "assistant", "content": "It is written."},
        {"role": "user", "content": "And now?"},
    ]
    for ratio in (0.2, 0.5, 0.8):
        kept = compact_context(entries, target_ratio=ratio, granularity="excerpt")
        assert all(each in entries for each in kept.messages)
