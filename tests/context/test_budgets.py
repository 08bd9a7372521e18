"""Budgets of a context: what is compacted, what stays, and what is refused before it is sent."""

import pytest

from rehydrate import validate
from rehydrate.context import Context
from rehydrate.errors import BudgetExceededError, InvalidArgumentError
from rehydrate.prompt import Budget


def test_a_soft_budget_that_is_crossed_compacts_and_nothing_is_lost():
    context = Context(provider="openai_chat", budget=Budget(2_000, 1_000_000))
    said = []
    for turn in range(60):
        said += [
            {"role": "user", "content": f"Question {turn} about berth {turn * 7}? " * 4},
            {"role": "assistant", "content": f"Answer {turn}: the crane at quay {turn}. " * 6},
        ]
    breaks = 0
    for entry in said:
        context.add(entry)
        if entry["role"] == "user":
            compiled = context.prompt()
            assert not validate(compiled.messages, "openai_chat")
            assert context.usage.upper_bound_tokens <= 2_000
            breaks += context.prefix is not None and not context.prefix.extends
    usage = context.usage
    assert context.history == said
    assert usage.compactions == breaks > 0
    assert breaks < 15, "a compaction leaves room for several turns"
    assert usage.visible_entries < usage.entries == len(said)


def test_compact_shortens_the_next_prompt_to_what_was_asked():
    context = Context(provider="openai_chat")
    for turn in range(40):
        context.add(
            {"role": "user", "content": f"Question {turn} about berth {turn}"},
            {"role": "assistant", "content": f"Berth {turn} is free until {turn}:30. " * 5},
        )
    whole = context.prompt("What was said of berth 3?")
    context.add({"role": "assistant", "content": "It is free until 3:30."})
    ir = context.compact(whole.tokens // 4)
    assert ir.tokens <= whole.tokens // 4
    after = context.prompt("Thanks. And berth 5?")
    assert after.tokens < whole.tokens // 2
    assert context.usage.compactions == 1
    assert len(context.history) == 83


def test_a_job_over_its_limit_stops_before_anything_is_sent():
    context = Context(provider="openai_chat", budget=Budget(500, 600, max_job_tokens=600))
    context.prompt("hello " * 300)
    context.add({"role": "assistant", "content": "hi"})
    usage, history = context.usage, context.history
    said = r"the job needs 7\d\d tokens, Budget.max_job_tokens is 600; .* context.new_job\(\)"
    with pytest.raises(BudgetExceededError, match=said):
        context.prompt("hello " * 400)
    assert context.usage == usage
    assert context.history == history
    context.new_job()
    assert context.prompt("hello " * 400).messages[-1]["content"] == "hello " * 400
    assert len(context.history) == 3
    assert context.usage.job_share < 1.0


def test_a_job_has_no_limit_unless_it_is_given_one():
    context = Context(provider="openai_chat", budget=Budget(soft_tokens=2_000, hard_tokens=2_500))
    for turn in range(60):
        context.prompt(f"Question {turn} about berth {turn * 7}? " * 4)
        context.add({"role": "assistant", "content": f"Answer {turn}: the crane. " * 6})
    usage = context.usage
    assert usage.job_tokens > usage.hard_tokens
    assert (usage.max_job_tokens, usage.job_share) == (None, None)
    assert usage.hard_share < 1.0


def test_the_hard_budget_is_the_limit_of_one_request_and_says_what_to_do():
    context = Context(provider="openai_chat", budget=Budget(500, 600))
    said = (
        r"what must stay in the prompt needs 9\d\d tokens, Budget.hard_tokens is 600; the largest "
        r"part is what must stay of the history with 9\d\d: shorten it, .*raise Budget.hard_tokens"
    )
    with pytest.raises(BudgetExceededError, match=said):
        context.prompt("hello " * 900)
    assert context.history == []


def test_the_budget_of_a_live_context_can_be_changed():
    context = Context(provider="openai_chat", budget=Budget(500, 600))
    with pytest.raises(BudgetExceededError):
        context.prompt("hello " * 900)
    context.budget = Budget(soft_tokens=500, hard_tokens=1_000)
    assert context.prompt("hello " * 900).tokens > 600
    assert context.usage.hard_tokens == context.budget.hard_tokens == 1_000
    with pytest.raises(InvalidArgumentError, match="budget is of type int; pass a Budget"):
        context.budget = 1_000
    context.budget = Budget(soft_tokens=100_000, max_job_tokens=2_000)
    assert context.room_tokens < 1_500


@pytest.mark.parametrize("soft_tokens", [1_000, 2_000, 8_000])
def test_the_reply_that_the_user_answers_stays_at_the_defaults(soft_tokens):
    context = Context(budget=Budget(soft_tokens=soft_tokens))
    for turn in range(200):
        context.add(
            {"role": "user", "content": f"What is at quay {turn}, and until when will it be?"},
            {"role": "assistant", "content": f"A crane, number {turn}, until {turn}:30. " * 3},
        )
    context.add({"role": "user", "content": "How do we get the ship out?"})
    said = "There are two ways. Option 1: move the crane. Option 2: wait for the tide."
    reply = {"role": "assistant", "content": said}
    context.add(reply)
    prompt = context.prompt("yes, the second one please, and what was at quay 3 and quay 4?")
    assert context.usage.compactions == 1
    assert any(message is reply for message in prompt.messages)


def test_the_last_twelve_messages_stay_where_there_is_room():
    assert Budget().keep_last == 12
    context = Context(provider="openai_chat", budget=Budget(soft_tokens=2_000))
    for turn in range(100):
        context.add(
            {"role": "user", "content": f"What is at quay {turn}?"},
            {"role": "assistant", "content": f"A crane, number {turn}, until {turn}:30. " * 3},
        )
    prompt = context.prompt("ok, go on")
    assert prompt.messages[-12:] == context.history[-12:]


def test_the_last_messages_never_take_more_than_half_of_the_room():
    context = Context(provider="openai_chat", budget=Budget(soft_tokens=2_000))
    said = {"role": "user", "content": "The password of the gate is swordfish-77. " * 4}
    context.add(said)
    for turn in range(40):
        context.add({"role": "user", "content": f"Line {turn} of the noise. " * 40})
    prompt = context.prompt("What was the password of the gate?")
    assert any(message is said for message in prompt.messages)


def test_code_that_runs_is_not_cut_and_its_result_finds_it() -> None:
    context = Context(provider="anthropic", budget=Budget(300, 1_000_000))
    caller = {"type": "code_execution_20260120", "tool_id": "srv"}
    run = {"type": "server_tool_use", "id": "srv", "name": "code_execution", "input": {"code": "x"}}
    ran = {"type": "code_execution_tool_result", "tool_use_id": "srv", "content": {"stdout": "7"}}
    context.add({"role": "user", "content": "Count the ships."})
    for number, before in enumerate(([run], [], [])):
        call_id = f"toolu_{number}"
        made = {"type": "tool_use", "id": call_id, "name": "count", "input": {}, "caller": caller}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": "a ship " * 200}
        context.add({"role": "assistant", "content": [*before, made]})
        context.add({"role": "user", "content": [result]})
        assert len(context.prompt().messages) == 2 * number + 3
    context.add({"role": "assistant", "content": [ran, {"type": "text", "text": "Seven."}]})
    context.add({"role": "user", "content": "Thanks."})
    prompt = context.prompt()
    assert validate(prompt.messages, "anthropic") == []
    assert len(prompt.messages) < 9
