"""A compaction of a context: long results are kept in part, and their wholes by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from rehydrate import Budget, Context, count_tokens, validate
from rehydrate.context import ContextJIT
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import ContextRequest, History, PromptIR, compile
from tests.compact.cases import Case
from tests.compact.test_excerpts import long_cases
from tests.strategies import Entry

WIDE = Budget(10**7, 10**8)
GAP = re.compile(r"\[\.\.\. [\d,]+ lines? omitted, [\d-]+(?:, (\w+))? \.\.\.\]")


def log(name: str, lines: int = 300) -> str:
    return "".join(f"12:{n % 60:02} {name}_{n} served berth {n * 7 % 97}\n" for n in range(lines))


def looked_up(*names: str) -> list[Entry]:
    """A user's question, and a long result for each name."""
    entries: list[Entry] = [{"role": "user", "content": "Which request failed?"}]
    for name in names:
        use = {"type": "tool_use", "id": f"t_{name}", "name": "read_log", "input": {"log": name}}
        result = {"type": "tool_result", "tool_use_id": f"t_{name}", "content": log(name)}
        entries += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": f"Nothing failed in {name}."},
            {"role": "user", "content": f"Then read what comes after {name}_250, please."},
        ]
    return entries


def compacted(entries: list[Entry], share: float, **options: Any) -> Context:
    context = Context(provider="anthropic", budget=WIDE, **options)
    context.add(*entries)
    context.compact(int(share * count_tokens(entries)))
    return context


def results(entries: Any) -> list[str]:
    return [
        block["content"]
        for entry in entries
        if isinstance(entry["content"], list)
        for block in entry["content"]
        if block["type"] == "tool_result"
    ]


def test_a_compaction_keeps_the_best_lines_of_long_results_and_says_where_the_whole_is():
    entries = looked_up("north", "south", "east")
    context = compacted(entries, 0.4)
    assert context.ir is not None
    shown = results(context.ir.history.entries)
    gaps = [match for text in shown for match in GAP.finditer(text)]
    assert gaps
    lines = {line for text in results(entries) for line in text.splitlines()}
    assert {line for text in shown for line in GAP.sub("", text).splitlines()} <= lines | {""}
    wholes = [context.originals.get(gap[1]) for gap in gaps]
    assert set(wholes) <= set(results(entries))
    assert context.history == entries
    assert not validate(context.prompt("And now?").messages, "anthropic")


def test_it_keeps_to_the_size_asked_for():
    entries = looked_up("north", "south", "east", "west")
    for share in (0.2, 0.4, 0.7):
        ir = compacted(entries, share).ir
        assert ir is not None
        assert ir.tokens <= share * count_tokens(entries)


def test_the_line_that_the_user_asks_for_stays_though_its_result_does_not_fit():
    entries = looked_up("north", "south", "east")
    odd = "12:31 the anchor chain jammed at buoy Galatea\n"
    whole = entries[2]["content"][0]["content"]
    entries[2]["content"][0]["content"] = whole[:5_000] + odd + whole[5_000:]
    asked = {"role": "user", "content": "Where did the anchor chain jam?"}

    def is_there(granularity: str) -> bool:
        context = Context(provider="anthropic", budget=WIDE, granularity=granularity)
        context.add(*entries, asked)
        context.compact(int(0.2 * count_tokens(entries)))
        assert context.ir is not None
        return odd in "".join(results(context.ir.history.entries))

    assert is_there("excerpt")
    assert not is_there("message")


def test_prompts_after_it_extend_one_another():
    context = compacted(looked_up("north", "south", "east"), 0.4)
    first = context.prompt("And now?")
    context.add({"role": "assistant", "content": "Nothing more."})
    second = context.prompt("Thanks.")
    assert [each.digest for each in second.segments[: len(first.segments)]] == [
        each.digest for each in first.segments
    ]


def test_a_second_compaction_cuts_the_whole_texts_anew():
    entries = looked_up("north", "south", "east")
    context = compacted(entries, 0.7)
    context.compact(int(0.4 * count_tokens(entries)))
    assert context.ir is not None
    wholes = results(entries)
    for text in results(context.ir.history.entries):
        for gap in GAP.finditer(text):
            assert context.originals.get(gap[1]) in wholes


def test_the_model_can_ask_for_what_a_gap_left_out():
    context = compacted(looked_up("north", "south", "east"), 0.4)
    context.prompt("And now?")
    assert context.ir is not None
    handle = next(m[1] for text in results(context.ir.history.entries) for m in GAP.finditer(text))
    jit = ContextJIT(context)
    use = {"type": "tool_use", "id": "ask", "name": "fetch_whole", "input": {"handle": handle}}
    context.add({"role": "assistant", "content": [use]})
    answer = jit.handle(use)
    assert context.originals.get(handle)[:200] in json.dumps(answer).replace("\\n", "\n")


def test_without_originals_a_gap_has_no_handle():
    entries = looked_up("north", "south")
    request = ContextRequest("", budget=Budget(3_000, 10**6))
    ir = PromptIR(request, history=History(tuple(entries), "anthropic"))
    compiled = compile(ir, "anthropic", granularity="excerpt")
    gaps = [gap for text in results(compiled.messages) for gap in GAP.finditer(text)]
    assert gaps
    assert all(gap[1] is None for gap in gaps)


def test_an_entry_that_is_cut_is_told_as_cut():
    context = compacted(looked_up("north", "south", "east"), 0.4)
    assert context.ir is not None
    cut = [row for row in context.ir.explain().rows if row.kind == "cut"]
    shown = {f"history[{place}]" for place in context.ir.history.entry_indices}
    assert cut
    assert {row.id for row in cut} <= shown
    assert all(row.handle for row in cut)


def test_excerpts_are_the_default_and_whole_messages_a_choice():
    entries = looked_up("north", "south", "east")
    context = compacted(entries, 0.4)
    assert context.ir is not None
    assert not all(any(each is entry for entry in entries) for each in context.ir.history.entries)
    context = Context(provider="anthropic", budget=WIDE, granularity="message")
    context.add(*entries)
    context.compact(int(0.4 * count_tokens(entries)))
    assert context.ir is not None
    assert all(any(each is entry for entry in entries) for each in context.ir.history.entries)


def test_long_strings_in_the_inputs_of_finished_calls_are_cut_and_held() -> None:
    code = "".join(f"def berth_{n}(x):\n    return x + {n}\n\n\n" for n in range(200))
    write = {"path": "berths.py", "content": code}
    entries: list[Entry] = [
        {"role": "user", "content": "Write the berths."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "Write", "input": write}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "written"}],
        },
        {"role": "assistant", "content": "Written."},
        {"role": "user", "content": "What does berth_7 return?"},
    ]
    context = compacted(entries, 0.3)
    assert context.ir is not None
    shown = context.ir.history.entries[1]["content"][0]["input"]
    assert shown["path"] == "berths.py" and "def berth_7(x):" in shown["content"]
    (handle, *_) = {gap[1] for gap in GAP.finditer(shown["content"])}
    assert context.originals.get(handle) == code
    assert entries[1]["content"][0]["input"]["content"] == code
    assert validate(context.prompt().messages) == []


def test_another_granularity_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"granularity.*'words'.*excerpt"):
        Context(granularity="words")
    with pytest.raises(InvalidArgumentError, match=r"granularity.*'words'.*excerpt"):
        compile(PromptIR(ContextRequest("hello")), granularity="words")


OWN = {"anthropic": "anthropic", "claude_code": "anthropic", "openai_responses": "openai_responses"}


@given(case=long_cases())
def test_what_it_leaves_is_a_valid_prompt_and_nothing_is_lost(case: Case):
    name = case.options["format"]
    provider = OWN.get(name, "openai_chat")
    context = Context(provider=provider, format=name, budget=WIDE, granularity="excerpt")
    context.add(*case.entries)
    if not case.entries:
        return
    context.compact(max(count_tokens(case.entries, format=name) // 3, 1))
    assert not validate(context.prompt().messages, provider)
    assert context.history == case.entries
