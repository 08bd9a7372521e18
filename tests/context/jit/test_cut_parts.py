"""Cut parts: all that a prompt does not show of a text is found, and read at any place of it."""

from __future__ import annotations

import json
import random
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Budget, Context, ContextJIT, Memory, compact_context, validate
from rehydrate.memory import MemoryItem
from rehydrate.prompt.counting import text_tokens
from tests.compact.test_excerpt_inputs import CODE, session
from tests.context.jit.test_jit import NOON, answer_of, call, fetch

NEEDLE = "record 5456: the harbour master's private phone is +49-30-7788, call only at night"
WORDS = ["pump", "valve", "crew", "rope", "mast", "fuel", "tide", "crane"]


def records(count: int = 6_000, seed: int = 4) -> list[str]:
    chance = random.Random(seed)
    lines = [f"record {n}: {' '.join(chance.choices(WORDS, k=8))}" for n in range(count)]
    lines[5_456] = NEEDLE
    return lines


def dumped(text: str, provider: str = "anthropic") -> list[dict[str, Any]]:
    """A conversation whose tool returned the text, as the provider has it."""
    if provider == "openai_chat":
        function = {"name": "dump", "arguments": "{}"}
        called = {"id": "a", "type": "function", "function": function}
        return [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "a", "content": text},
            {"role": "assistant", "content": "I have read it."},
        ]
    if provider == "openai_responses":
        return [
            {"role": "user", "content": "Read it."},
            {"type": "function_call", "call_id": "a", "name": "dump", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": text},
            {"role": "assistant", "content": "I have read it."},
        ]
    tool = {"type": "tool_use", "id": "a", "name": "dump", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": text}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [tool]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "I have read it."},
    ]


def asked_of(text: str, **options: Any) -> tuple[Context, ContextJIT]:
    budget = Budget(soft_tokens=60_000, hard_tokens=10**7)
    context = Context(budget=budget, clock=NOON.timestamp, **options)
    jit = ContextJIT(context, max_calls=8, clock=NOON.timestamp)
    context.add(*dumped(text, options.get("provider", "anthropic")))
    context.prompt("What is the harbour master's phone?")
    return context, jit


def handle_in(context: Context) -> str:
    found = re.search(r"kept whole as (orig_\w+)", json.dumps(context.prompt().request))
    assert found
    return found[1]


def test_the_cut_part_of_a_capped_result_is_found_with_its_lines_and_handle():
    lines = records()
    context, jit = asked_of("\n".join(lines))
    assert "7788" not in str(context.prompt().request)
    content = answer_of(context, jit, call("harbour master's private phone"))
    assert "\n".join(lines[5_453:5_460]) in content
    assert f'whole="{handle_in(context)}"' in content
    before, after = re.findall(r"\[\.\.\. [\d,]+ lines omitted, (\d+)-(\d+) \.\.\.\]", content)
    first, end = int(before[1]), int(after[0])
    shown = content.partition("...]\n")[2].partition("\n[...")[0]
    assert shown == "\n".join(lines[first : end - 1])
    assert text_tokens([content])[0] < 1_400
    assert not validate(context.prompt().messages, "anthropic")


def test_what_is_visible_is_not_repeated_and_what_was_found_is_not_sent_twice():
    lines = records()
    context, jit = asked_of("\n".join(lines))
    shown = str(context.prompt().messages)
    head = [line for line in lines if line in shown]
    assert len(head) > 100
    seen = jit.answer(call(head[50].partition(": ")[2], "t0"))
    repeated = [line for line in head if re.search(rf"^{re.escape(line)}$", seen.content, re.M)]
    assert not repeated
    jit._retriever.unsplice("t0")
    first = answer_of(context, jit, call("harbour master's private phone", "t1"))
    again = answer_of(context, jit, call("the private phone of the harbour master", "t2"))
    assert NEEDLE in first
    assert NEEDLE not in again


def test_of_a_query_that_nothing_in_the_text_answers_nothing_comes():
    _, jit = asked_of("\n".join(records()))
    content = jit.handle(call("when does the invoice of Bergmann fall due?"))["content"]
    assert content.startswith("Nothing was found")


def test_a_name_or_a_number_is_found_as_it_is_written():
    lines = records()
    lines[5_000] = "record 5000: mast 0x7f3a91 rope"
    _, jit = asked_of("\n".join(lines))
    assert lines[5_000] in jit.handle(call("0x7f3a91"))["content"]


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_a_capped_result_that_was_compacted_away_is_looked_through_too(provider):
    context, jit = asked_of("\n".join(records()), provider=provider, granularity="message")
    for number in range(12):
        said = f"Something else, {number}: " + "we talk of other things at length. " * 40
        context.add({"role": "user", "content": said}, {"role": "assistant", "content": "Yes."})
    context.add({"role": "user", "content": "Go on."})
    context.prompt()
    context.compact(3_000)
    assert "record 1:" not in str(context.prompt().request)
    answered = jit.answer(call("harbour master's private phone"))
    assert NEEDLE in answered.content
    assert sum("record 5456" in str(each.content) for each in answered.sections) == 1


def test_a_time_range_leaves_out_what_was_said_at_another_time():
    _, jit = asked_of("\n".join(records()))
    asked = {"query": "harbour master's private phone"}
    day = f"{NOON - timedelta(5):%Y-%m-%d}"
    assert NEEDLE not in jit.handle(call(**asked, id_="t1", time_range=day))["content"]
    assert NEEDLE in jit.handle(call(**asked, id_="t2", time_range="today"))["content"]


def test_one_long_line_of_json_is_found_and_read_at_any_character():
    rows = [
        {"id": n, "name": f"boat {n}", "berth": n % 40, "note": "x" * 20} for n in range(30_000)
    ]
    rows[21_000]["name"] = "the pilot's launch Meerkat"
    text = json.dumps(rows, separators=(",", ":"))
    context, jit = asked_of(text)
    found = jit.handle(call("pilot's launch Meerkat"))["content"]
    assert "the pilot's launch Meerkat" in found
    handle = handle_in(context)
    read = jit.handle(fetch(handle, "f1", query="launch Meerkat"))["content"]
    at = text.index("Meerkat")
    begin = re.search(r"characters (\d+)-(\d+) \(line 1\)", read) or pytest.fail(read)
    assert int(begin[1]) <= at <= int(begin[2])
    page = jit.answer(fetch(handle, "f2", offset=at - 2_000)).sections[0].content
    assert text[at - 2_000 :].startswith(page)
    assert "Meerkat" in page


def test_an_echo_that_became_a_reference_is_not_repeated_while_its_source_is_above():
    text = "\n".join(f"note {n}: the mast of boat {n} is {n * 3} cm high" for n in range(60))
    context, jit = asked_of(text)
    context.add({"role": "assistant", "content": "Noted."}, *dumped(text)[:3])
    context.add({"role": "assistant", "content": "As before."})
    request = str(context.prompt("Go on.").request)
    assert request.count("note 41:") == 1
    assert "note 41:" not in jit.handle(call("how high is the mast of boat 41?"))["content"]


def test_what_hot_memory_has_no_lines_left_for_is_found(tmp_path):
    lines = [f"- rule {n}: boats of kind {n} berth at quay {n % 7}" for n in range(300)]
    lines[222] = "- the diver's number is 4711"
    with Memory.open(tmp_path / "m.db", namespace="a") as memory:
        memory.add([MemoryItem("\n".join(lines), tier="hot", source="core.md")])
        context = Context(memory, timeout=None)
        jit = ContextJIT(context, timeout=None)
        prompt = context.prompt("Whom do I call?")
        assert lines[10] in str(prompt.request)
        assert "4711" not in str(prompt.request)
        content = jit.handle(call("the diver's number"))["content"]
    assert lines[222] in content


def test_what_is_found_and_has_no_room_is_said_to_be_there():
    context = Context(clock=NOON.timestamp)
    jit = ContextJIT(context, budget_tokens=256)
    context.add(*dumped("\n".join(records())))
    context.prompt("What is the harbour master's phone?")
    content = jit.handle(call("harbour master's private phone"))["content"]
    assert "Nothing was found" not in content
    assert re.search(r"fetch_whole (orig|rest)_\w+", content)


# fetch_whole


def test_any_place_of_megabytes_is_reached_in_a_few_calls():
    lines = records(90_000)
    context, jit = asked_of("\n".join(lines))
    handle = handle_in(context)
    found = answer_of(context, jit, fetch(handle, "f1", query="harbour master's private phone"))
    assert NEEDLE in found
    assert "(90,000 lines, " in found
    numbers = re.search(r"lines (\d+)-(\d+)", found) or pytest.fail(found)
    first = int(numbers[2]) + 1
    page = answer_of(context, jit, fetch(handle, "f2", lines=f"{first}-{first + 40}"))
    assert page.startswith("\n".join(lines[first - 1 : first + 39]))
    assert f"[lines {first}-{first + 40} of 90,000]" in page
    assert not validate(context.prompt().messages, "anthropic")


def test_lines_come_byte_for_byte_and_in_pages_that_join():
    lines = ["\tline \u200b one\r", "", "   ", "vier \U0001f6a2 ", *records()[:4_000]]
    text = "\n".join(lines)
    context, jit = asked_of(text)
    handle = handle_in(context)
    got, wanted, calls = "", "2001-2500", 0
    while wanted:
        calls += 1
        answered = jit.answer(fetch(handle, f"f{calls}", lines=wanted))
        (section,) = answered.sections
        got += section.content
        assert answered.content.startswith(section.content)
        onward = re.search(r'go on with lines="(\d+-\d+)"', answered.content)
        wanted = onward[1] if onward else ""
        jit._retriever.unsplice(f"f{calls}")
    assert got == "\n".join(lines[2_000:2_500]) + "\n"
    assert calls > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lines": "7000-7100"}, "has 6,000; send a range within 1-6000"),
        ({"lines": "30-20"}, "lines are counted from 1"),
        ({"lines": "0-20"}, "lines are counted from 1"),
        ({"lines": "about 7"}, 'send a range such as "3400-3500"'),
        ({"lines": [1, 2]}, 'send a range such as "3400-3500"'),
        ({"lines": "1-5", "query": "x"}, "lines and query were sent; send one of them"),
        ({"offset": 5, "lines": "1-5"}, "offset and lines were sent; send one of them"),
        ({"query": 7}, "query is 7; send a few words"),
        ({"line": "1-5"}, "there is no argument 'line'; send handle, query, lines, offset"),
    ],
)
@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_a_range_that_is_invalid_is_an_error_that_says_what_to_send(arguments, said, provider):
    context, jit = asked_of("\n".join(records()), provider=provider)
    asked = {"handle": handle_in(context), **arguments}
    if provider == "anthropic":
        made = {"type": "tool_use", "id": "f", "name": "fetch_whole", "input": asked}
    elif provider == "openai_chat":
        function = {"name": "fetch_whole", "arguments": json.dumps(asked)}
        made = {"id": "f", "type": "function", "function": function}
    else:
        named = {"name": "fetch_whole", "arguments": json.dumps(asked)}
        made = {"type": "function_call", "call_id": "f", **named}
    answered = jit.answer(made)
    assert answered.is_error
    assert said in answered.content
    assert said in json.dumps(answered.result, ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize("lines", ["5001", 5001, "5,001-5,001", "5001..5001", "5001\u20135001"])
def test_a_range_may_be_written_in_many_ways(lines):
    context, jit = asked_of("\n".join(records()))
    (section,) = jit.answer(fetch(handle_in(context), lines=lines)).sections
    assert section.content == records()[5_000] + "\n"


def test_an_offset_may_be_written_as_a_number_with_a_point():
    context, jit = asked_of("\n".join(records()))
    pages = [jit.answer(fetch(handle_in(context), f"f{at}", offset=at)) for at in (600, 900.0)]
    whole, later = [page.sections[0].content for page in pages]
    assert later.startswith(whole[300:400])


def test_a_query_that_nothing_matches_says_how_long_the_text_is():
    context, jit = asked_of("\n".join(f"{n} {n * 7}" for n in range(40_000)))
    answered = jit.answer(fetch(handle_in(context), query="zzzyzx"))
    assert not answered.is_error
    assert answered.content.startswith("Nothing in orig_")
    assert "40,000 lines" in answered.content


ABSURD = ["0", "9-3", "-4", "1e9", "²-³", "1-2-3", "9" * 5_000, "1-" + "9" * 5_000, "to"]
ABSURD += ["a" * 90_000, 10**400, -1, 0, 2.5, True, [1, 2], {"first": 1}]


@pytest.mark.parametrize("lines", ABSURD, ids=range(len(ABSURD)))
def test_lines_that_are_invalid_are_answered_with_what_to_send(lines):
    context, jit = asked_of("\n".join(records()))
    for number, asked in enumerate((lines, 10**5_000)):
        answered = jit.answer(fetch(handle_in(context), f"f{number}", lines=asked))
        assert answered.is_error
        assert answered.content.startswith("fetch_whole: lines is ")
        assert '"3400-3500"' in answered.content
        assert len(answered.content) < 300
    for number, asked in enumerate((2.5, -1.0, 1e300, True, "9")):
        answered = jit.answer(fetch(handle_in(context), f"o{number}", offset=asked))
        assert answered.content.startswith("fetch_whole: offset is ")
    far = jit.answer(fetch(handle_in(context), "far", offset=10**5_000)).content
    assert far.startswith("fetch_whole: offset is a whole number of 16,610 bits; send")


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_the_model_gets_back_what_was_cut_of_an_input(tmp_path: Path, name: str):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        kept = compact_context(
            session(name),
            target_ratio=0.5,
            granularity="excerpt",
            memory=memory,
            archive=True,
        )
        (block,) = {block.handle for row in kept.explain() for block in row.blocks}
        assert block is not None
        context = Context([memory], format=name, timeout=None)
        context.add(*kept.messages)
        context.prompt()
        jit = ContextJIT(context, timeout=None)
        assert jit.answer(fetch(block)).content.count(CODE) == 1
