"""A context's thinking: kept while its prompts extend one another, gone after a break."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import rehydrate
from rehydrate import Budget, Context, Interpreter, validate
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import (
    CompiledPrompt,
    ContextRequest,
    History,
    Outcome,
    PromptIR,
    compile,
    compiler,
)
from tests.strategies import Entry

BINDS, FREE, MANUAL = "claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5"
SMALL = Budget(2_000, 1_000_000)


def thought(name: object) -> Entry:
    return {"type": "thinking", "thinking": f"hm, {name}. " * 20, "signature": f"c2ln{name}"}


def answer(name: object) -> Entry:
    said = {"type": "text", "text": f"Berth {name} is free. " * 30}
    return {"role": "assistant", "content": [thought(name), said]}


def call(name: object, words: int = 90) -> list[Entry]:
    use = {"type": "tool_use", "id": f"t{name}", "name": "look", "input": {"berth": str(name)}}
    result = {"type": "tool_result", "tool_use_id": f"t{name}", "content": f"{name} " * words}
    return [
        {"role": "assistant", "content": [thought(name), use]},
        {"role": "user", "content": [result]},
    ]


def thoughts(prompt: CompiledPrompt) -> list[str]:
    return [
        block["signature"]
        for message in prompt.messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "thinking"
    ]


def talked(context: Context, turns: int) -> list[CompiledPrompt]:
    """The prompts of so many turns."""
    prompts = []
    for turn in range(turns):
        prompts.append(context.prompt(f"Question {turn}? " * 15))
        context.add(answer(turn))
    return prompts


def refused(prompts: list[CompiledPrompt], model: str) -> list[Any]:
    """Return the parts of each prompt that the model would refuse after the prompt before it."""
    return [
        violation
        for before, now in pairwise(prompts)
        for violation in validate(now.request, "anthropic", sent=before.request, model=model)
    ]


@pytest.mark.parametrize("model", [BINDS, "", FREE])
def test_all_thinking_stays_while_the_prompts_extend_one_another(model):
    context = Context(model=model, system="Be brief.")
    prompts = talked(context, 6)
    assert thoughts(prompts[-1]) == [f"c2ln{n}" for n in range(5)]
    assert refused(prompts, model) == []


@pytest.mark.parametrize("model", [BINDS, ""])
def test_after_a_compaction_thinking_goes_and_later_thinking_stays(model):
    context = Context(model=model, system="Be brief.", budget=SMALL)
    prompts = talked(context, 14)
    assert context.usage.compactions > 1
    assert refused(prompts, model) == []
    assert any(thoughts(prompt) for prompt in prompts[8:])
    compacted = next(
        n for n, p in enumerate(prompts) if any(t.name == "thinking" for t in traces(p))
    )
    gone = {f"c2ln{n}" for n in range(compacted)} - set(thoughts(prompts[compacted]))
    for later in prompts[compacted:]:
        assert gone.isdisjoint(thoughts(later))
    (trace,) = [trace for trace in traces(prompts[compacted]) if trace.name == "thinking"]
    assert trace.changed and "something before" in trace.notes[0]
    # Nothing that was added is lost or changed by it.
    assert context.history[1] == answer(0)


@pytest.mark.parametrize("model", [BINDS, FREE])
def test_each_prompt_is_rendered_and_validated_once_also_where_it_is_compacted(model, monkeypatch):
    """One that loses thinking is laid out again, from the first entry that lost it."""
    calls: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        function = getattr(module, name)

        def counting(*arguments: Any) -> Any:
            calls[name] += 1
            made = function(*arguments)
            if name == "lay_out":
                calls["new"] += len(made.values) - made.system - made.kept
            return made

        monkeypatch.setattr(module, name, counting)

    count(compiler, "render_prompt")
    count(compiler, "_violations")
    count(compiler, "lay_out")
    context = Context(model=model, system="Be brief.", budget=Budget(5_000, 1_000_000))
    log = "\n".join([f"line {number} of the harbour's log, berth {number}" for number in range(90)])
    shortened = compactions = 0
    for turn in range(14):
        calls.clear()
        prompt = context.prompt(f"Question {turn}? " * 15)
        assert calls["render_prompt"] == calls["_violations"] == 1
        has_lost = any(each.name == "thinking" for each in traces(prompt))
        assert calls["lay_out"] == 1 + has_lost
        if has_lost:
            assert calls["new"] < 2 * len(prompt.ir.history.entries)
        if context.usage.compactions == compactions:
            shortened += any(each.changed for each in traces(prompt) if "echo" in each.name)
        compactions = context.usage.compactions
        use, result = call(turn)
        result["content"][0]["content"] = log
        context.add(use, result, answer(turn))
    assert compactions > 1 and shortened, "texts that were shortened are taken whole again"


def traces(prompt: CompiledPrompt) -> Any:
    return prompt.ir.meta.trace


def test_a_model_that_binds_nothing_keeps_all_its_thinking_through_compactions():
    context = Context(model=FREE, budget=SMALL)
    prompts = talked(context, 14)
    assert context.usage.compactions > 1
    for prompt in prompts:
        said = [m for m in prompt.messages if m["role"] == "assistant"]
        assert len(thoughts(prompt)) == len(said)


def test_kept_by_wish_it_stays_wherever_it_is():
    context = Context(model=BINDS, budget=SMALL, thinking="keep")
    prompts = talked(context, 14)
    assert refused(prompts, BINDS) != []


def test_a_tool_that_is_offered_later_is_a_change_before_everything():
    context = Context(model=BINDS, system="Be brief.")
    prompts = talked(context, 3)
    context.offer([{"name": "book", "input_schema": {"type": "object"}}])
    prompts += talked(context, 2)
    assert thoughts(prompts[3]) == []
    assert thoughts(prompts[4]) == ["c2ln0"]
    assert refused(prompts, BINDS) == []


@pytest.mark.parametrize("model", [BINDS, FREE, MANUAL])
def test_a_tool_loop_under_way_is_compacted_as_its_model_takes_it(model):
    context = Context(model=model, budget=SMALL)
    prompts = talked(context, 4)
    prompts.append(context.prompt("Look at all of them."))
    for number in range(20, 32):
        context.add(*call(number))
        prompts.append(context.prompt())
    assert context.usage.compactions > 0
    assert refused(prompts, model) == []
    if model != BINDS:
        assert "c2ln20" in thoughts(prompts[-1])


def test_an_unknown_claudes_tool_loop_waits_for_its_end_and_says_so():
    context = Context(budget=SMALL)
    prompts = talked(context, 5)
    prompts.append(context.prompt("Look at all of them."))
    before = context.usage.compactions
    for number in range(20, 26):
        context.add(*call(number))
        prompts.append(context.prompt())
        assert context.prefix is not None and context.prefix.extends
    waiting = [said for said in prompts[-1].ir.meta.degraded if "waits for the end" in said]
    assert len(waiting) == 1 and waiting[0].startswith("over budget: ")
    assert prompts[-1].ir.meta.outcome is Outcome.WAITS
    assert list(prompts[-1].ir.verify()) == []
    assert context.usage.compactions == before
    context.add(answer(26))
    prompts.append(context.prompt("Thanks."))
    assert context.usage.compactions == before + 1
    assert not any("waits" in said for said in prompts[-1].ir.meta.degraded)
    assert refused(prompts, "") == []


def under_way(hard_tokens: int) -> Context:
    """A context in the middle of a tool loop, over its soft budget."""
    context = Context(budget=Budget(2_000, hard_tokens))
    talked(context, 4)
    context.prompt("Look at all of them.")
    for number in range(20, 24):
        context.add(*call(number, 300))
        context.prompt()
    return context


def test_asked_for_a_size_a_compaction_does_not_wait():
    context = under_way(1_000_000)
    waited = context.compact()
    assert any("waits" in said for said in waited.meta.degraded)
    assert context.compact(1_500).tokens < waited.tokens / 2
    assert any("lost what it begins with" in said for said in context.prompt().ir.meta.degraded)


def test_beyond_the_hard_budget_it_does_not_wait_either():
    context = under_way(8_000)
    before = context.usage.compactions
    for number in range(24, 40):
        context.new_job()
        context.add(*call(number, 300))
        context.prompt()
    assert context.usage.compactions > before


def compiled(entries: list[Entry], **more: Any) -> CompiledPrompt:
    soft = more.pop("soft", 50_000)
    request = ContextRequest("", budget=Budget(soft, 1_000_000))
    return compile(PromptIR(request, history=History(tuple(entries), "anthropic")), **more)


TALK = [
    entry
    for number in range(8)
    for entry in ({"role": "user", "content": f"Question {number}?"}, answer(number))
] + [{"role": "user", "content": "And now?"}]


def test_compile_compares_with_what_was_sent():
    sent = compiled(TALK[:9], model=BINDS)
    assert len(thoughts(compiled(TALK, model=BINDS, sent=sent))) == 8
    edited = [*TALK[:4], {"role": "user", "content": "Another."}, *TALK[5:]]
    after = compiled(edited, model=BINDS, sent=sent)
    assert thoughts(after) == ["c2ln0", "c2ln1"]
    assert validate(after.request, "anthropic", sent=sent.request, model=BINDS) == []
    assert len(thoughts(compiled(edited, model=BINDS, sent=sent, thinking="keep"))) == 8
    assert len(thoughts(compiled(edited, model=FREE, sent=sent))) == 8
    assert all(one is other for one, other in zip(after.messages[:5], edited, strict=False))


def test_without_anything_sent_what_is_left_out_is_the_first_change():
    assert len(thoughts(compiled(TALK, model=BINDS))) == 8
    short = compiled(TALK, model=BINDS, soft=1_500)
    assert any(each.by == "prune" for each in short.ir.meta.dropped)
    places = [int(each.section[8:-1]) for each in short.ir.meta.dropped if each.by == "prune"]
    assert all(int(name[4:]) * 2 + 1 < min(places) for name in thoughts(short))


def test_a_policy_that_is_invalid_is_refused():
    with pytest.raises(
        InvalidArgumentError, match="thinking is 'strip'; choose one of 'auto', 'keep'"
    ):
        compiled(TALK, thinking="strip")
    with pytest.raises(
        InvalidArgumentError, match="thinking is None; choose one of 'auto', 'keep'"
    ):
        Context(thinking=None)


def test_an_interpreter_names_its_model_to_a_context_that_knows_none():
    model = rehydrate.testing.ScriptedModel(["Berth 4."], name=MANUAL)
    context = under_way(1_000_000)
    assert any("waits" in said for said in context.prompt().ir.meta.degraded)
    Interpreter(model).run(context)
    context.add({"role": "user", "content": "And now?"}, *call(40, 300))
    kept = context.compact(2_500)  # as after an overflow: it must not wait
    assert not any("lost what it begins with" in said for said in kept.meta.degraded)
    assert thoughts(context.prompt())[-1] == "c2ln40"
