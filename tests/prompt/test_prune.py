"""Prune: strictly over the soft budget, by priority, by worth, never under a floor."""

import json
import re
from hashlib import sha512

import pytest

import rehydrate
from rehydrate.errors import BudgetExceededError
from rehydrate.prompt import BEGINNING, Budget, ContextRequest, History, Outcome, PromptIR, compile
from rehydrate.prompt.counting import prompt_tokens
from tests.prompt.irs import LONG, found, system_section, tool

NOISE = "\n".join(f"entry {n}: the weather in city {n * 7919 % 997} is fair" for n in range(150))


class Kept:
    """Originals in a dict."""

    def __init__(self):
        self.texts = {}

    def put(self, text):
        return (
            self.texts.setdefault(f"kept_{len(self.texts)}", text) and f"kept_{len(self.texts) - 1}"
        )


def prune(
    *sections,
    entries=({"role": "user", "content": "Go on."},),
    soft=1_000,
    hard=50_000,
    query="Which port does server3.py listen on?",
    originals=None,
    compact_to=0.6,
):
    budget = Budget(soft, hard, compact_to)
    request = ContextRequest(query, budget=budget)
    ir = PromptIR(request, sections, (), History(tuple(entries), "plain"))
    return compile(ir, "openai_chat", originals=originals).ir


def by_id(ir):
    return {section.id: section for section in ir.sections}


def test_exactly_the_soft_budget_is_not_over_it():
    ir = PromptIR(ContextRequest("x"), (found(1, content=LONG),), (tool(),))
    tokens = compile(ir, "openai_chat").tokens
    at = PromptIR(ContextRequest("x", budget=Budget(tokens, tokens)), ir.sections, ir.tools)
    assert compile(at, "openai_chat").ir.meta.dropped == ()
    over = PromptIR(ContextRequest("x", budget=Budget(tokens - 1, tokens)), ir.sections, ir.tools)
    assert compile(over, "openai_chat").ir.meta.dropped != ()


def test_a_lower_priority_goes_before_a_higher_one_whatever_their_relevance():
    low = found(1, content=NOISE, priority="low", relevance=1.0)
    high = found(2, content="The proxy is called edge.", priority="high", relevance=0.0)
    after = prune(low, high, soft=200)
    assert [each.id for each in after.sections] == ["semantic:mem_2"]
    (gone,) = after.meta.dropped
    assert (gone.section, gone.priority, gone.by) == ("semantic:mem_1", "low", "prune")


def test_a_long_section_is_cut_to_the_blocks_that_the_turn_asks_for():
    servers = LONG.splitlines()[:12]
    after = prune(found(1, content="\n".join([NOISE, *servers])), soft=2_000)
    (section,) = after.sections
    assert set(servers) <= set(section.content.splitlines())
    assert "omitted" in section.content
    assert section.tokens == rehydrate.count_tokens(section.content)
    assert prompt_tokens(after) <= after.budget.target_tokens
    kept = [line for line in section.content.splitlines() if not line.startswith("[...")]
    assert set(kept) <= {*NOISE.splitlines(), *servers}


def test_a_section_is_never_cut_under_its_floor():
    parts = [
        found(1, content=NOISE, min_tokens=300, priority="low"),
        found(2, content=LONG, min_tokens=50),
        found(3, content="The gateway is edge.", min_tokens=2, priority="low"),
    ]
    kept = by_id(prune(*parts, soft=1_000))
    assert kept["semantic:mem_1"].tokens >= 300
    assert kept["semantic:mem_1"].content != NOISE
    assert kept["semantic:mem_2"].tokens >= 50
    assert kept["semantic:mem_3"] is not None


def test_what_must_stay_is_kept_over_the_soft_budget_and_reported():
    rule = system_section(content=LONG, mode="constraint", priority="normal")
    after = prune(rule, found(1, content=NOISE), soft=500)
    assert [each.id for each in after.sections] == ["system"]
    assert any(why.startswith("over budget") for why in after.meta.degraded)
    assert after.meta.outcome is Outcome.OVER_BUDGET


def test_instructions_of_the_systems_stay_even_at_a_low_priority():
    rule = system_section(priority="low")
    assert "system" in by_id(prune(rule, found(1, content=NOISE), soft=100))


def test_over_the_hard_budget_names_the_largest_section():
    with pytest.raises(BudgetExceededError, match="largest part is section 'semantic:mem_1'"):
        prune(found(1, content=LONG, priority="critical"), system_section(), soft=100, hard=200)


def test_history_and_sections_share_the_room_by_worth():
    talk = [
        {"role": role, "content": f"{role} on the weather of day {n}: fair and mild, as it was."}
        for n in range(60)
        for role in ("user", "assistant")
    ]
    reported = {"role": "user", "content": "Note: server3.py listens on port 8003 since Monday."}
    entries = [*talk[:40], reported, *talk[40:], {"role": "user", "content": "And now?"}]
    after = prune(found(1, content=LONG), found(2, content=NOISE), entries=entries, soft=1_500)
    kept = after.history.entries
    assert any(each is reported for each in kept)
    assert kept[-1] is entries[-1]
    assert "server3.py" in by_id(after)["semantic:mem_1"].content
    assert after.history.entry_indices == tuple(
        index for index, entry in enumerate(entries) if any(entry is each for each in kept)
    )
    assert len(after.history.tokens) == len(kept)
    gone = {record.section for record in after.meta.dropped}
    assert gone >= {f"history[{n}]" for n in range(121) if n not in after.history.entry_indices}
    assert prompt_tokens(after) <= after.budget.target_tokens


def test_an_open_tool_loop_stays():
    call = {"id": "c", "type": "function", "function": {"name": "get", "arguments": "{}"}}
    entries = [
        {"role": "user", "content": NOISE},
        {"role": "user", "content": NOISE},
        {"role": "user", "content": "Get it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "8003"},
    ]
    request = ContextRequest("8003", budget=Budget(500, 50_000))
    ir = PromptIR(request, history=History(tuple(entries), "openai_chat"))
    for provider in ("openai_chat", "anthropic", "openai_responses"):
        assert compile(ir, provider).ir.history.entry_indices == (2, 3, 4)


def test_an_open_tool_loop_keeps_the_thought_that_it_begins_with():
    """With thinking enabled Anthropic refuses a loop that begins without one."""

    def calls(number, *before):
        call = {"type": "tool_use", "id": f"t{number}", "name": "get", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": NOISE}
        return [
            {"role": "assistant", "content": [*before, call]},
            {"role": "user", "content": [result]},
        ]

    thoughts = (
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "", "signature": "s"},
    )
    request = ContextRequest("Get it.", budget=Budget(3_000, 50_000))
    for thought in thoughts:
        loop = [*calls(1, thought), *calls(2), *calls(3)]
        entries = ({"role": "user", "content": "Get it."}, *loop)
        ir = PromptIR(request, history=History(entries, "anthropic"))
        assert compile(ir, "anthropic").ir.history.entry_indices == (0, 1, 2, 5, 6)


def test_everything_left_out_can_be_fetched_where_originals_are_kept():
    originals = Kept()
    entries = [{"role": "user", "content": NOISE}, {"role": "user", "content": "Go on."}]
    long = found(1, content=NOISE + LONG)
    after = prune(long, entries=entries, originals=originals, soft=1_500)
    handles = {record.section: record.handle for record in after.meta.dropped}
    assert originals.texts[handles["semantic:mem_1"]] == long.content
    assert json.loads(originals.texts[handles["history[0]"]]) == entries[0]
    assert by_id(after)["semantic:mem_1"].handle == handles["semantic:mem_1"]


def test_originals_that_fail_cost_the_handle_only():
    class Full:
        def put(self, text):
            raise OSError("full")

    after = prune(found(1, content=NOISE + LONG), originals=Full(), soft=1_500)
    assert after.meta.dropped[0].handle is None


def test_a_system_entry_in_front_does_not_hide_that_the_assistant_would_be_first():
    def call(name):
        return {"type": "tool_use", "id": name, "name": "Read", "input": {}}

    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "the"}
    entries = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read the file, please, and say what it is about."},
        {"role": "assistant", "content": [call("toolu_1")]},
        {"role": "user", "content": [result, {"type": "text", "text": "And the next."}]},
        {"role": "assistant", "content": [call("toolu_2")]},
    )
    ir = PromptIR(ContextRequest(budget=Budget(20, 1_000)), history=History(entries, "anthropic"))
    messages = compile(ir).messages
    assert messages[0] == {"role": "user", "content": [{"type": "text", "text": BEGINNING}]}
    assert not rehydrate.validate(messages, "anthropic")


def test_the_last_message_stays_where_nobody_spoke_to_the_model():
    entries = [{"role": "assistant", "content": f"Welcome, {n}."} for n in range(2)]
    rules = found(1, content=LONG, mode="constraint", stability="static")
    after = prune(rules, entries=entries, soft=400)
    assert after.history.entries == (entries[1],)
    assert compile(after, "anthropic").ir.history.entries == (entries[1],)


def test_a_user_turn_that_a_system_message_follows_is_a_message():
    entries = [
        {"role": "user", "content": "Begin."},
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "Begun."},
        {"role": "assistant", "content": "Read on. " * 30},
    ]
    ir = PromptIR(ContextRequest(budget=Budget(20, 1_000)), history=History(entries, "anthropic"))
    assert compile(ir).ir.history.entries == tuple(entries[:3])


def test_the_last_messages_stay_where_the_budget_says_so():
    said = [
        {
            "role": "user" if n % 2 == 0 else "assistant",
            "content": " ".join(f"src/part_{n}_{k}.py" for k in range(9))
            if n < 80
            else "yes " * 30,
        }
        for n in range(111)
    ]
    said[3] = {"role": "assistant", "content": "src/needle.py is what matters " * 20}

    def kept(keep_last: int) -> list[int]:
        budget = Budget(3_600, 10**6, compact_to=1.0, keep_last=keep_last)
        request = ContextRequest("what of src/needle.py?", budget=budget)
        ir = PromptIR(request, history=History(tuple(said), "openai_chat"))
        history = compile(ir, "openai_chat").ir.history
        return [history.entry_index(n) for n in range(len(history.entries))]

    assert 110 in kept(0)  # the last turn always stays
    assert not {101, 103, 107} & set(kept(0))
    assert {107, 108, 109, 110} <= set(kept(4))
    assert 3 in kept(4)
    # No more than a 32nd of the room, the newest first.
    assert {107, 108, 109, 110} <= set(kept(111))
    assert not {101, 103} & set(kept(111))
    assert 3 in kept(111)


def test_a_text_that_is_cut_to_make_room_for_long_handles_has_one_too():
    """Handles longer than any of ours: what was whole at the choice is cut for the marks."""

    class Long(Kept):
        def put(self, text):
            return super().put(text) + sha512(text.encode()).hexdigest()[:110]

    lines = [[f"line {k} of {n}: the port is {k * 7 % 90}" for k in range(n)] for n in (40, 60)]
    call = {"type": "tool_use", "name": "Read", "input": {}}
    answer = {"type": "tool_result"}
    entries = (
        {"role": "user", "content": "Read the files."},
        {"role": "assistant", "content": [call | {"id": f"t{n}"} for n in range(2)]},
        {
            "role": "user",
            "content": [
                answer | {"tool_use_id": f"t{n}", "content": "\n".join(text)}
                for n, text in enumerate(lines)
            ],
        },
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Which port is on line 3?"},
    )
    marks = 0
    for soft in range(900, 1_300, 20):
        budget = Budget(soft, compact_to=1.0, keep_last=0)
        ir = PromptIR(ContextRequest(budget=budget), (), (), History(entries, "anthropic"))
        sent = json.dumps(compile(ir, originals=Long(), granularity="excerpt").request)
        found = re.findall(r"\[\.\.\. [^]]* omitted[^]]*\]", sent)
        assert all("kept_" in mark for mark in found), (soft, found)
        marks += len(found)
    assert marks
