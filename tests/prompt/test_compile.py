"""compile: layout, cache marks, digests, budgets and what it refuses."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from rehydrate.errors import (
    BudgetExceededError,
    InternalError,
    InvalidArgumentError,
    RehydrateError,
)
from rehydrate.formats import validate
from rehydrate.prompt import (
    BEGINNING,
    PROVIDERS,
    Budget,
    ContextRequest,
    History,
    PromptIR,
    ToolDef,
    compile,
)
from rehydrate.prompt.counting import prompt_tokens, room, upper_bound
from tests.prompt.irs import LONG, found, system_section, tool
from tests.prompt.test_render_history import ANTHROPIC

TURNS = (
    *(
        {"role": role, "content": f"{role} says {number} " + "and more " * 20}
        for number in range(6)
        for role in ("user", "assistant")
    ),
    {"role": "user", "content": "Which port?"},
)


def ir_of(*sections, entries=TURNS, format="plain", tools=(), **request):
    return PromptIR(
        ContextRequest(**request), tuple(sections), tuple(tools), History(tuple(entries), format)
    )


def roles(prompt):
    return [message["role"] for message in prompt.messages]


def test_static_parts_come_first_and_dynamic_ones_before_the_last_user_turn():
    ir = ir_of(found(1), system_section(), found(2, stability="static"), tools=[tool()])
    prompt = compile(ir, "anthropic")
    ids = [segment.id for segment in prompt.segments]
    assert ids[:3] == ["tools[0]", "system", "semantic:mem_2"]
    assert ids[-3:] == ["history[11]", "semantic:mem_1", "history[12]"]
    stability = {segment.id: segment.stability for segment in prompt.segments}
    assert stability["history[11]"] == "static"
    assert stability["history[12]"] == "dynamic"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_a_history_the_observation_is_what_the_user_says(provider):
    prompt = compile(PromptIR(ContextRequest("Which port?"), (system_section(),)), provider)
    said = [{"text": "Which port?"}] if provider in ("bedrock", "gemini") else "Which port?"
    key = "parts" if provider == "gemini" else "content"
    assert prompt.messages[-1] == {"role": "user", key: said}
    assert [segment.id for segment in prompt.segments] == ["system", "history[0]"]


def test_a_prompt_without_any_message_is_refused():
    with pytest.raises(InvalidArgumentError, match="pass a history"):
        compile(PromptIR(sections=(system_section(),)))


def test_an_unknown_provider_is_refused_by_name():
    with pytest.raises(InvalidArgumentError, match=r"'cohere'.*'anthropic'"):
        compile(ir_of(), "cohere")


def test_a_tool_that_another_provider_runs_is_refused_and_ones_own_is_the_same_object():
    raw = {"type": "bash_20250124", "name": "bash"}
    ir = ir_of(tools=[ToolDef.read(raw)])
    assert compile(ir, "anthropic", minimum_prefix=10_000).request["tools"][0] is raw
    with pytest.raises(InvalidArgumentError, match=r"'bash'.*anthropic itself"):
        compile(ir, "openai_chat")


@pytest.mark.parametrize("anchor", range(7))
def test_a_section_never_parts_a_system_message_from_the_reply_to_it(anchor):
    tool = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "weigh"}}
    system = {"role": "system", "content": [tool]}
    user, reply = ({"role": role, "content": "Hello."} for role in ("user", "assistant"))
    call = {"type": "tool_use", "id": "t", "name": "get", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    calls, results = {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}
    for entries in (
        [user, reply, user, system, reply, user],
        [user, calls, results, system, reply, user],
        [user, system, calls, results, system, reply],
    ):
        before: list[str] = []
        for end in range(max(anchor, 1), 7):
            prompt = compile(ir_of(found(anchor=anchor), entries=entries[:end], format="anthropic"))
            came_in = validate(entries[:end], "anthropic")
            assert len(validate(prompt.messages, "anthropic")) == len(came_in)
            ids = [segment.id for segment in prompt.segments]
            assert "semantic:mem_1" in ids
            assert ids[: len(before)] == before
            before = ids


def test_an_anchored_section_keeps_its_place_as_the_conversation_grows():
    section = found(1, anchor=4)
    before = compile(ir_of(section, entries=TURNS[:5]), "anthropic", minimum_prefix=1)
    after = compile(ir_of(section), "anthropic", minimum_prefix=1)
    digests = [segment.digest for segment in before.segments]
    assert [segment.digest for segment in after.segments][: len(digests)] == digests


def test_nothing_is_between_a_call_and_its_results():
    for anchor in range(6):
        for end in range(3, 6):
            prompt = compile(
                ir_of(found(1, anchor=anchor), entries=ANTHROPIC[:end], format="anthropic")
            )
            ids = [segment.id for segment in prompt.segments]
            where = ids.index("semantic:mem_1")
            if end > 3:
                assert ids[where - 1] != "history[2]"
            else:
                assert ids[-1] == "history[2]"


def test_its_place_does_not_depend_on_later_entries():
    for anchor in range(6):
        section = found(1, anchor=anchor)
        for end in range(max(anchor, 2), len(ANTHROPIC)):
            prompts = [
                compile(ir_of(section, entries=entries, format="anthropic"), minimum_prefix=1)
                for entries in (ANTHROPIC[:end], ANTHROPIC)
            ]
            one, other = [[segment.digest for segment in each.segments] for each in prompts]
            assert other[: len(one)] == one


def test_at_most_four_breakpoints_are_on_static_ends_after_enough_tokens():
    ir = ir_of(system_section(content="Rule. " * 40), found(2, stability="static"), found(1))
    prompt = compile(ir, "anthropic", minimum_prefix=50)
    assert prompt.ir.breakpoints == ("system", "semantic:mem_2", "history[9]", "history[11]")
    marked = [segment.id for segment in prompt.segments if segment.breakpoint]
    assert tuple(marked) == prompt.ir.breakpoints
    assert json.dumps(prompt.request).count("cache_control") == 4
    short = compile(ir, "anthropic", minimum_prefix=200)
    assert "system" not in short.ir.breakpoints
    assert compile(ir, "anthropic", minimum_prefix=10**6).ir.breakpoints == ()


def test_without_a_floating_section_the_whole_history_is_kept_by_the_cache():
    prompt = compile(ir_of(), "anthropic", minimum_prefix=1)
    # The prompt before this one ended with history[10], where the assistant had not answered yet.
    assert prompt.ir.breakpoints == ("history[10]", "history[12]")
    assert prompt.messages[12]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert prompt.messages[11] is TURNS[11]


def test_no_mark_is_put_on_thinking_or_empty_text():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    entries = [
        *TURNS[:3],
        {"role": "assistant", "content": [{"type": "text", "text": "So"}, thought]},
    ]
    prompt = compile(ir_of(entries=entries, format="anthropic"), minimum_prefix=1)
    last = prompt.messages[-1]["content"]
    assert last[-1] is thought
    assert last[0]["cache_control"]
    only = [*TURNS[:3], {"role": "assistant", "content": [thought]}]
    prompt = compile(ir_of(entries=only, format="anthropic"), minimum_prefix=1)
    assert prompt.messages[-1] is only[-1]


def test_the_callers_own_marks_count_and_keep_their_time_to_live():
    def marked(ttl):
        mark = {"type": "ephemeral", **ttl}
        return [
            {**turn, "content": [{"type": "text", "text": "x", "cache_control": mark}]}
            for turn in TURNS[:3]
        ] + [*TURNS[3:]]

    prompt = compile(ir_of(entries=marked({}), format="anthropic"), minimum_prefix=1)
    assert json.dumps(prompt.request).count("cache_control") == 4
    longer = compile(ir_of(entries=marked({"ttl": "1h"}), format="anthropic"), minimum_prefix=1)
    assert json.dumps(longer.request).count("cache_control") == 3
    assert sum(segment.breakpoint for segment in longer.segments) == 3


def test_openai_gets_no_marks():
    for provider in ("openai_chat", "openai_responses"):
        prompt = compile(ir_of(system_section()), provider, minimum_prefix=1)
        assert "cache_control" not in json.dumps(prompt.request)
        assert prompt.ir.breakpoints == ()


def test_a_model_of_bedrock_gets_marks_only_where_it_takes_them():
    call = {"type": "tool_use", "id": "t", "name": "grep", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x " * 50}
    turns = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    later = [*TURNS[:3], *turns]

    def request(model, *sections, entries=TURNS):
        ir = ir_of(*sections, tools=[tool()], entries=entries, format="anthropic")
        prompt = compile(ir, "bedrock", model=model, minimum_prefix=1)
        return {part: json.dumps(each).count("cachePoint") for part, each in prompt.request.items()}

    claude, nova, qwen = (
        "us.anthropic.claude-opus-4-6-v1",
        "us.amazon.nova-pro-v1:0",
        "qwen.qwen3-coder-next",
    )
    assert request(claude) == {"messages": 2, "toolConfig": 1}
    assert request(claude, entries=later) == {"messages": 2, "toolConfig": 1}
    assert request(nova) == {"messages": 2, "toolConfig": 0}
    assert request(nova, entries=later) == {"messages": 1, "toolConfig": 0}
    assert request(nova, system_section()) == {"messages": 2, "toolConfig": 0, "system": 1}
    assert request(qwen, system_section()) == {"messages": 0, "toolConfig": 0, "system": 0}
    for unsaid in ("", "arn:aws:bedrock:us-east-1:1:application-inference-profile/ab12"):
        assert request(unsaid) == request(claude)


def digest(message):
    return compile(ir_of(entries=[*TURNS[:1], message])).segments[-1].digest


def test_a_mark_changes_no_digest_and_any_other_word_does():
    plain, marked = (compile(ir_of(), minimum_prefix=least) for least in (10**6, 1))
    assert [s.digest for s in plain.segments] == [s.digest for s in marked.segments]
    other = compile(ir_of(entries=[*TURNS[:-1], {"role": "user", "content": "Which Port?"}]))
    assert [s.digest for s in other.segments][:-1] == [s.digest for s in plain.segments][:-1]
    assert other.segments[-1].digest != plain.segments[-1].digest


def test_a_key_of_a_tools_input_is_no_cache_mark():
    def call(value):
        block = {"type": "tool_use", "id": "t", "name": "set", "input": {"cache_control": value}}
        return {"role": "assistant", "content": [block]}

    assert digest(call("a")) != digest(call("b"))


def test_a_mark_in_deeply_nested_data_is_data():
    nested: object = {"cache_control": 1}
    for _ in range(400):
        nested = [nested]
    block = {"type": "server_tool_use", "id": "s", "name": "f", "input": {"a": nested}}
    marked = block | {"cache_control": {"type": "ephemeral"}}
    said = [{"role": "assistant", "content": [each]} for each in (block, marked)]
    assert digest(said[0]) == digest(said[1])


@pytest.mark.parametrize("depth", [100, 100_000])
def test_results_in_results_end_the_process_in_no_prompt(depth: int):
    content: object = "core"
    for _ in range(depth):
        content = [{"type": "tool_result", "tool_use_id": "t", "content": content}]
    use = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    said = [{"role": "assistant", "content": [use]}, {"role": "user", "content": content}]
    ir = ir_of(entries=[TURNS[0], *said], format="anthropic")
    try:
        prompt = compile(ir, "anthropic")
    except RehydrateError:
        return
    assert len(prompt.messages) == 3


def test_the_same_ir_gives_the_same_bytes_in_every_process():
    program = """
import hashlib, json
from tests.prompt.test_compile import TURNS, ir_of
from tests.prompt.irs import LONG, found, system_section, tool
from rehydrate.prompt.compiler import compile
from rehydrate.prompt import PROVIDERS, Budget
ir = ir_of(system_section(), found(1, content=LONG), found(2, content=LONG, min_tokens=200),
           found(3), tools=[tool()], budget=Budget(1500, 5000))
for provider in PROVIDERS:
    prompt = compile(ir, provider, minimum_prefix=50)
    print(hashlib.sha256(json.dumps([prompt.request, prompt.segments]).encode()).hexdigest())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == len(set(PROVIDERS))


def test_over_the_hard_budget_is_an_error_that_names_the_largest_part():
    ir = ir_of(
        system_section(content=LONG), found(1), budget=Budget(soft_tokens=100, hard_tokens=1_000)
    )
    with pytest.raises(BudgetExceededError, match="largest part is section 'system'"):
        compile(ir)
    with pytest.raises(BudgetExceededError, match="largest part is the history"):
        compile(ir_of(budget=Budget(soft_tokens=50, hard_tokens=100)), passes=())


def test_tokens_of_a_provider_whose_encoding_is_not_public_are_bounded_from_above():
    ir = ir_of()
    tokens = compile(ir, "openai_chat").tokens
    exact = Budget(soft_tokens=tokens, hard_tokens=tokens)
    request = ContextRequest(budget=exact)
    assert not compile(ir.replace(request=request), "openai_chat").ir.meta.dropped
    assert compile(ir.replace(request=request), "anthropic").ir.meta.dropped
    for budget in range(1, 3_000, 7):
        for provider in PROVIDERS:
            assert upper_bound(room(budget, provider), provider) <= budget
            assert upper_bound(room(budget, provider) + 1, provider) > budget


def test_tokens_are_those_of_what_is_sent_fences_included():
    ir = ir_of(system_section(), found(1), found(2, stability="static"), tools=[tool()])
    prompt = compile(ir, "openai_chat")
    assert prompt.tokens == prompt_tokens(prompt.ir)
    assert prompt.tokens > prompt.ir.tokens


def test_images_count():
    png = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    entries = ({"role": "user", "content": [png]},)
    assert compile(ir_of(entries=entries, format="anthropic")).tokens >= 1_600


def test_a_pruned_history_that_begins_with_the_assistant_is_introduced():
    ir = ir_of(entries=TURNS[1:])
    prompt = compile(ir, "anthropic")
    assert prompt.messages[0]["content"][0]["text"] == BEGINNING
    assert prompt.segments[0].id == "beginning"
    assert compile(ir, "openai_chat").messages[0] is TURNS[1]


def test_a_broken_history_is_sent_as_it_is_and_reported():
    broken = [ANTHROPIC[1], ANTHROPIC[2], TURNS[0]]
    prompt = compile(ir_of(entries=broken, format="anthropic"))
    assert any("unanswered_tool_call" in why for why in prompt.ir.meta.degraded)


def test_a_pass_that_breaks_the_history_is_an_internal_error():
    def lose_results(ir, target):
        kept = [*ANTHROPIC[1:3], TURNS[0]]
        return ir.replace(history=History(tuple(kept), "anthropic"))

    with pytest.raises(InternalError, match="unanswered_tool_call"):
        compile(ir_of(entries=ANTHROPIC, format="anthropic"), passes=[lose_results])


def test_a_pass_of_the_users_own_runs_and_leaves_a_trace():
    def shout(ir, target):
        return ir.with_sections(
            [replace(each, content=str(each.content).upper(), tokens=None) for each in ir.sections]
        )

    prompt = compile(ir_of(system_section()), passes=[shout])
    assert prompt.request["system"][0]["text"] == "YOU HELP WITH SERVERS."
    (trace,) = prompt.ir.meta.trace
    assert trace.name == "shout"
    assert prompt.ir.sections[0].tokens is not None


def test_every_pass_leaves_one_entry_in_the_trace():
    names = [trace.name for trace in compile(ir_of()).ir.meta.trace]
    assert names == [
        "cap_tool_results",
        "remove_echoes",
        "deduplicate",
        "prune",
        "remove_echoes",
        "order",
        "place_breakpoints",
    ]


def test_nothing_that_came_in_is_changed():
    before = hashlib.sha256(json.dumps([TURNS, ANTHROPIC]).encode()).hexdigest()
    for provider in PROVIDERS:
        compile(ir_of(), provider, minimum_prefix=1)
        compile(ir_of(entries=ANTHROPIC, format="anthropic"), provider, minimum_prefix=1)
    assert hashlib.sha256(json.dumps([TURNS, ANTHROPIC]).encode()).hexdigest() == before


def test_a_part_whose_type_is_half_a_surrogate_is_named_in_what_was_lost() -> None:
    said = [{"role": "user", "content": [{"type": "\udc00", "text": "Go."}]}]
    history = History(tuple(said), "openai_chat")
    assert compile(PromptIR(history=history), "anthropic", passes=()).messages
