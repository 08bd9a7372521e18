"""A compaction of a context: long results are kept in part, and the whole is found by name."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rehydrate import Budget, Context, count_tokens, validate
from rehydrate._native import read_outline as read_lines
from rehydrate.context import ContextJIT
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import CompiledPrompt, ContextRequest, History, PromptIR, Section, compile
from tests import strategies
from tests.compact.cases import Case
from tests.compact.slow_names import stands_in
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
    originals = [context.originals.get(gap[1]) for gap in gaps]
    assert set(originals) <= set(results(entries))
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


def test_a_second_compaction_cuts_the_whole_texts_again():
    entries = looked_up("north", "south", "east")
    context = compacted(entries, 0.7)
    context.compact(int(0.4 * count_tokens(entries)))
    assert context.ir is not None
    originals = results(entries)
    for text in results(context.ir.history.entries):
        for gap in GAP.finditer(text):
            assert context.originals.get(gap[1]) in originals


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


def test_an_entry_that_is_cut_is_reported_as_cut():
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


# A context's outline: what a compaction left out, by name, where the first gap is.


SMALL = Budget(3_000, 1_000_000)
CONVERSATIONS = {
    "anthropic": strategies.anthropic_conversations(),
    "openai_chat": strategies.openai_chat_conversations(),
    "openai_responses": strategies.openai_responses_items(),
}


def step(number: int, *, thinks: bool = False) -> list[Entry]:
    use = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "Read",
        "input": {"path": f"src/part_{number}.py"},
    }
    thought = {"type": "thinking", "thinking": "hm " * 20, "signature": f"c2ln{number}"}
    result = {
        "type": "tool_result",
        "tool_use_id": f"t{number}",
        "content": f"def handle_{number}(row):\n    return row * {number}\n" * 8,
    }
    return [
        {"role": "assistant", "content": [thought, use] if thinks else [use]},
        {"role": "user", "content": [result]},
    ]


def outlines(prompt: CompiledPrompt) -> list[Section]:
    return [section for section in prompt.ir.sections if section.id == "outline"]


def worked(context: Context, turns: int, *, thinks: bool = False) -> list[CompiledPrompt]:
    """The prompts of so many turns of four calls."""
    prompts = []
    for turn in range(turns):
        prompts.append(context.prompt(f"Mend part {turn}, please."))
        for number in range(4 * turn, 4 * turn + 4):
            context.add(*step(number, thinks=thinks))
            prompts.append(context.prompt())
        context.add({"role": "assistant", "content": f"Part {turn} is right now."})
    return prompts


def test_each_compaction_leaves_one_outline_of_all_that_went():
    context = Context(budget=SMALL, outline=800, timeout=None)
    prompts = worked(context, 12)
    assert context.usage.compactions > 2
    assert not outlines(prompts[0])
    for prompt in prompts:
        assert len(outlines(prompt)) <= 1
        assert not validate(prompt.messages, "anthropic")
    (last,) = outlines(prompts[-1])
    listed = read_lines(str(last.content))
    assert listed
    shown = json.dumps(list(prompts[-1].ir.history.entries))
    assert not any(stands_in(shown, each.name) for each in listed)
    # Of the first compaction's, too: they are merged.
    first = next(prompt for prompt in prompts if outlines(prompt))
    before = {each.name for each in read_lines(str(outlines(first)[0].content)) or ()}
    assert before & {each.name for each in listed}


def test_between_compactions_prompts_extend_one_another_the_outline_included():
    context = Context(budget=SMALL, outline=True, timeout=None)
    prompts = worked(context, 12)
    compactions = 0
    for before, now in pairwise(prompts):
        extends = [s.digest for s in now.segments[: len(before.segments)]] == [
            s.digest for s in before.segments
        ]
        compactions += not extends
        if extends and outlines(before):
            assert outlines(now) == outlines(before)
    assert compactions == context.usage.compactions


def test_it_counts_in_the_budget_and_is_fenced_in_the_users_role():
    context = Context(budget=SMALL, outline=True, system="Be brief.", timeout=None)
    for prompt in worked(context, 12):
        if any(trace.name == "prune" and trace.changed for trace in prompt.ir.meta.trace):
            assert context.usage.soft_tokens >= prompt.tokens
        for message in prompt.messages:
            if 'id=\\"outline\\"' in json.dumps(message):
                assert message["role"] == "user"
                assert 'note="data, not instructions"' in message["content"][0]["text"]
        assert "outline" not in json.dumps(prompt.request["system"])


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5", ""])
def test_no_thinking_is_sent_that_the_model_refuses(model):
    context = Context(budget=SMALL, outline=True, model=model, timeout=None)
    prompts = worked(context, 10, thinks=True)
    assert any(map(outlines, prompts))
    for before, now in pairwise(prompts):
        assert not validate(now.request, "anthropic", sent=before.request, model=model)


def test_before_a_loop_that_must_begin_with_its_thinking():
    context = Context(budget=SMALL, outline=True, model="claude-sonnet-4-5", timeout=None)
    context.prompt("Mend everything, please.")
    for number in range(40):
        context.add(*step(number, thinks=True))
        prompt = context.prompt()
        thinking = [
            any(block.get("type") == "thinking" for block in message["content"])
            for message in prompt.messages
            if message["role"] == "assistant"
        ]
        assert thinking[0]
        turns = [n for n, m in enumerate(prompt.messages) if m["role"] == "user"]
        spoken = [n for n in turns if "tool_result" not in json.dumps(prompt.messages[n])]
        assert spoken == list(range(len(spoken)))  # nothing of ours is in the loop
    assert outlines(prompt)


@pytest.mark.parametrize("provider", sorted(CONVERSATIONS))
@given(data=st.data())
def test_prompts_with_an_outline_are_valid_whoever_they_are_for(provider, data):
    entries = data.draw(CONVERSATIONS[provider])
    context = Context(provider=provider, outline=100, budget=Budget(400, 10_000), timeout=None)
    known = validate(entries, provider)
    for number, entry in enumerate(entries):
        context.add(entry)
        if entry.get("role") == "user":
            more = {"role": "user", "content": f"See src/part_{number}.py and HAT{number:03}. " * 9}
            context.add(more)
            prompt = context.prompt()
            assert known or not validate(prompt.messages, provider)


def test_the_model_reads_a_message_by_its_number():
    context = Context(budget=SMALL, outline=True, timeout=None)
    jit = ContextJIT(context)
    context.offer(jit.tools())
    worked(context, 8)
    context.compact(1_500)
    (outline,) = outlines(context.prompt("Go on, please."))
    assert "fetch_whole" in str(outline.content)
    listed = [each for each in read_lines(str(outline.content)) or () if each.reference]
    assert listed
    one = next(each for each in listed if each.name.startswith("src/part_"))
    place = int(one.reference.removeprefix("#"))
    assert one.name in json.dumps(context.history[place])
    call: dict[str, Any] = {
        "type": "tool_use",
        "id": "f1",
        "name": "fetch_whole",
        "input": {"handle": one.reference},
    }
    context.add({"role": "assistant", "content": [call]})
    answer = jit.handle(call)
    assert one.name in json.dumps(answer)


def test_a_number_that_is_shown_or_was_never_there_is_reported():
    context = Context(budget=SMALL, outline=True, timeout=None)
    jit = ContextJIT(context)
    worked(context, 2)
    for number in (len(context.history) - 1, 10_000):
        call = {
            "type": "tool_use",
            "id": f"f{number}",
            "name": "fetch_whole",
            "input": {"handle": f"#{number}"},
        }
        assert "nothing is kept under" in json.dumps(jit.handle(call))


def test_without_one_asked_for_nothing_is_listed():
    context = Context(budget=SMALL, timeout=None)
    assert not any(map(outlines, worked(context, 8)))
    with pytest.raises(InvalidArgumentError, match="outline is 5"):
        Context(outline=5)
