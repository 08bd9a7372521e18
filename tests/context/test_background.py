"""Background summaries: nobody waits, nothing is lost, what is sent is valid."""

import json
import threading
import time
from dataclasses import replace
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, strategies as st

from rehydrate import count_tokens, formats, validate
from rehydrate.context import (
    BackgroundCompaction,
    CompactionEvent,
    Context,
    ContextJIT,
    compact_history,
)
from rehydrate.context.thread import PromptCall
from rehydrate.errors import BudgetExceededError, InvalidArgumentError
from rehydrate.prompt import Budget
from rehydrate.testing import ScriptedModel
from tests import strategies

PATIENCE_SECONDS = 600
BUDGET = Budget(soft_tokens=6_000, hard_tokens=100_000)
RULE = "Never push to main without asking me first."
SUMMARY = "The user wants the berths of the harbour listed. Files and berths were read one by one."


def assistant(text):
    return {"role": "assistant", "content": text}


def work(context, turns, start=0, *, hangs=False):
    """Talk until the summary of a writer was swapped in; return prompts. Nobody waits for a writer
    that ``hangs``."""
    prompts = []
    for turn in range(start, start + turns):
        prompts.append(context.prompt(f"What is at berth {turn}? {RULE if turn == 0 else ''}"))
        use = {"type": "tool_use", "id": f"t{turn}", "name": "Edit", "input": {"path": f"b{turn}"}}
        context.add({"role": "assistant", "content": [use]})
        block = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"crane {turn} " * 60}
        context.add({"role": "user", "content": [block]})
        prompts.append(context.prompt())
        context.add(assistant(f"A crane is at berth {turn}."))
        settle(context, hangs=hangs)
    return prompts


def talk(context, turns, *, hangs=False):
    prompts = []
    for turn in range(turns):
        prompts.append(context.prompt(f"What is at berth {turn}? " + "crane " * 60))
        context.add(assistant(f"A rope is at berth {turn}. " + "rope " * 60))
        settle(context, hangs=hangs)
    return prompts


def settle(context, *, hangs=False):
    """Wait for the summary that is being written: a real user types for longer."""
    written = context._background._written_last
    if written is not None and not hangs:
        assert written.done.wait(PATIENCE_SECONDS)


class Events(list):
    def kinds(self):
        return [event.kind for event in self]


def begun(writer=None, **options):
    events = Events()
    background = BackgroundCompaction(
        writer=writer, on_event=events.append, **{"keep_last": 6, **options}
    )
    return Context(budget=BUDGET, background=background), events


def all_valid(prompts):
    return all(not validate(prompt.messages, "anthropic") for prompt in prompts)


def summary_of(prompt):
    return next(str(each.content) for each in prompt.ir.sections if each.id == "summary")


def test_the_store_takes_the_place_of_what_came_before():
    context, events = begun()
    prompts = work(context, 40)
    assert all_valid(prompts) and len(context.history) == 160
    # Its own thread says that it is ready: late, where the machine is busy.
    assert events.kinds()[0] == "started" and {*events.kinds()[1:3]} == {"ready", "swapped"}
    assert "swapped" in events.kinds()[3:]
    assert RULE in json.dumps(prompts[-1].messages)
    assert "b0: edited" in summary_of(prompts[-1]) or "more: " in summary_of(prompts[-1])
    event = next(event for event in events if event.kind == "swapped")
    assert isinstance(event, CompactionEvent) and event.after_tokens < event.before_tokens
    # Between swaps each prompt extends the one before.
    broken = [n for n in range(1, len(prompts)) if not _extends(prompts[n - 1], prompts[n])]
    assert len(broken) == events.kinds().count("swapped")
    assert all(n % 2 == 0 for n in broken)  # a user turn begins there


def _extends(one, other):
    digests = [[segment.digest for segment in each.segments] for each in (one, other)]
    return digests[1][: len(digests[0])] == digests[0]


def test_a_summary_of_a_model_is_verified_and_what_it_lost_is_appended():
    model = ScriptedModel(lambda _prompt: SUMMARY + " It is in src/invented.py.")
    context, _ = begun(model)
    prompts = work(context, 30)
    summary = summary_of(prompts[-1])
    assert summary.startswith(SUMMARY) and RULE in summary
    assert "do not rely on: src/invented.py" in summary
    assert any("src/invented.py" in line for each in prompts for line in each.ir.meta.degraded)
    asked = json.dumps(model.prompts[0].messages)
    assert "Decisions" in asked and "What is at berth 0?" in asked


@pytest.mark.parametrize(
    "writes",
    [
        lambda _messages: "",
        lambda _messages: "429 Too Many Requests",
        lambda _messages: '{"error": {"type": "overloaded_error"}}',
        lambda _messages: "I'm sorry, I can't help with that.",
        lambda _messages: None,
        lambda _messages: 1 / 0,
        lambda _messages: "berth " * 100_000,
    ],
)
def test_a_bad_summary_is_refused_and_the_store_takes_its_place(writes):
    context, events = begun(writes)
    prompts = work(context, 30)
    assert "swapped" in events.kinds() and all_valid(prompts)
    assert any(
        "the store takes its place" in line for each in prompts for line in each.ir.meta.degraded
    )
    assert summary_of(prompts[-1]).startswith("## Task State")


def test_what_is_appended_stays_within_bounds():
    said = [user for number in range(300) for user in edit(number)]
    compacted = compact_history(
        said, lambda _messages: SUMMARY, keep_last=1, format="anthropic", max_tokens=500
    )
    summary = compacted.summary
    assert summary.startswith(SUMMARY) and count_tokens(summary) < 1_200
    assert "- file: b298 edited #895" in summary and "more: " in summary


def edit(number):
    use = {"type": "tool_use", "id": f"t{number}", "name": "Edit", "input": {"path": f"b{number}"}}
    block = {"type": "tool_result", "tool_use_id": use["id"], "content": "ok"}
    return [
        {"role": "user", "content": f"Change b{number}."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [block]},
    ]


def test_what_no_longer_holds_is_not_appended():
    context, _ = begun(ScriptedModel(lambda _prompt: SUMMARY))
    context.prompt("Always use tabs in files.")
    context.add(assistant("Yes."))
    context.prompt("From now on, always use spaces in files instead of tabs.")
    context.add(assistant("Yes."))
    summary = summary_of(talk(context, 40)[-1])
    assert "use spaces in files" in summary and "- preference: Always use tabs" not in summary


def test_a_writer_gets_what_came_since_the_summary_before():
    given = []

    def writes(messages):
        given.append([str(message) for message in messages])
        return SUMMARY

    context, _ = begun(writes)
    work(context, 70)
    assert len(given) > 2
    for before, now in pairwise(given):
        # The first message is the summary before; no other one comes twice.
        assert SUMMARY in now[0] and not set(before[1:]).intersection(now[1:])


def test_what_a_summary_reads_does_not_grow_with_the_thread(monkeypatch):
    counts, read, main = [], formats.read, threading.current_thread()

    def counted(entries, *rest):
        if threading.current_thread() is not main:
            counts.append(len(entries))
        return read(entries, *rest)

    monkeypatch.setattr(formats, "read", counted)
    context, events = begun()
    work(context, 150)
    # Each of the first entries is read once more where a job failed to go on from the last.
    assert events.kinds().count("ready") > 8
    assert sum(counts) <= len(context.history) and max(counts[3:]) < len(context.history) / 4


def test_a_model_that_is_cut_off_is_refused():
    from rehydrate.agent import Reply

    context, _ = begun(ScriptedModel(lambda _p: Reply((), SUMMARY, stop="length")))
    prompts = work(context, 30)
    assert any(
        "did not finish: length" in line for each in prompts for line in each.ir.meta.degraded
    )


def test_no_turn_waits_for_a_writer_that_hangs():
    ends = threading.Event()
    context, events = begun(lambda _messages: ends.wait(60) and SUMMARY, wait=0.05)
    prompts = talk(context, 40, hangs=True)
    ends.set()
    assert all_valid(prompts) and "swapped" not in events.kinds()
    assert events.kinds().count("started") == 1  # a second one would hang too
    assert any("not ready within 0.05 s" in event.detail for event in events)
    assert any("verbatim" in line for each in prompts for line in each.ir.meta.degraded)
    assert context.usage.compactions  # verbatim


def test_a_compaction_meanwhile_discards_the_summary():
    go_on = threading.Event()
    context, events = begun(lambda _messages: go_on.wait(60) and SUMMARY)
    turn = 0
    while "started" not in events.kinds():
        work(context, 1, turn, hangs=True)
        turn += 1
    context.compact(2_000)
    go_on.set()
    while "ready" not in events.kinds():
        time.sleep(0.003)
    work(context, 1, turn)
    assert events.kinds()[:3] == ["started", "ready", "discarded"]


@pytest.mark.parametrize("how", ["fails", "is given up"])
def test_a_summary_is_ready_again_where_the_prompt_that_swapped_it_in(how):
    calls = []
    context, events = begun(lambda messages: calls.append(messages) or SUMMARY)
    turn = 0
    while "started" not in events.kinds():
        work(context, 1, turn)
        turn += 1
    while "ready" not in events.kinds():
        time.sleep(0.003)
    if how == "fails":
        context.budget = replace(BUDGET, max_job_tokens=context.usage.job_tokens)
        with pytest.raises(BudgetExceededError):
            context.prompt("What is at the last berth?")
        assert "swapped" not in events.kinds()
        context.budget = BUDGET
    else:
        call = PromptCall()
        context._prompt("What is at the last berth?", None, call)
        context._thread.give_up_call(call)
        assert "swapped" in events.kinds()
    assert SUMMARY in summary_of(context.prompt("What is at the last berth?"))
    assert events.kinds()[:3] == ["started", "ready", "swapped"]
    assert len(calls) == 1


def test_raw_thinking_is_never_sent_to_a_writer():
    seen = []
    context, _ = begun(lambda messages: seen.append(json.dumps(messages)) or SUMMARY)
    for turn in range(40):
        context.prompt(f"What is at berth {turn}? " + "crane " * 40)
        thought = {"type": "thinking", "thinking": "a secret thought", "signature": "x"}
        text = {"type": "text", "text": f"Nothing at {turn}. " + "rope " * 60}
        context.add({"role": "assistant", "content": [thought, text]})
        settle(context)
    assert seen and not any("secret thought" in each for each in seen)


def test_what_was_summarised_is_found_by_asking():
    context, events = begun()
    jit = ContextJIT(context)
    work(context, 30)
    assert "swapped" in events.kinds()
    asked = {"type": "tool_use", "id": "q", "name": "fetch_whole", "input": {"handle": "#3"}}
    context.add({"role": "assistant", "content": [asked]})
    assert "A crane is at berth 0." in jit.handle(asked)["content"]


def test_a_stored_thread_goes_on_from_its_summary(tmp_path):
    options = {"budget": BUDGET, "background": BackgroundCompaction(keep_last=6)}
    path = tmp_path / "t.db"
    with Context.open(path, thread="t", namespace="a", **options) as context:
        sent = work(context, 30)
        assert summary_of(sent[-1])
    with Context.open(path, thread="t", namespace="a", **options) as context:
        after = context.prompt("And then?")
        assert _extends(sent[-1], after) or summary_of(after) != summary_of(sent[-1])


@given(entries=strategies.anthropic_conversations(), keep_last=st.integers(0, 6))
def test_a_compacted_history_is_valid_and_keeps_its_tail(entries, keep_last):
    if validate(entries, "anthropic"):
        return
    compacted = compact_history(entries, keep_last=keep_last, format="anthropic")
    assert not validate(compacted.messages, "anthropic")
    if not compacted.summary:
        assert compacted.messages == entries
        return
    tail = entries[compacted.kept_from :]
    assert all(
        one is other for one, other in zip(compacted.messages[-len(tail) :], tail, strict=True)
    )
    made = compacted.messages[: -len(tail)]
    summary, acknowledged = [each for each in made if each["role"] != "system"]
    assert summary["content"].startswith("[compacted history summary]\n")
    assert acknowledged["content"] == "Acknowledged."


@pytest.mark.parametrize(
    "written", [None, "It is about piers and masts, and all goes well so far."]
)
def test_a_history_that_is_compacted_again_and_again_tells_each_thing_once(written):
    task = "Find a free pier for the Halvard, whose mast is 24.5 m. Never book pier 13."
    history = [{"role": "user", "content": task}, assistant("I will look. " * 40)]
    for number in range(9):
        for turn in range(4):
            history.append({"role": "user", "content": f"Go on with {number}.{turn}."})
            history.append(assistant(f"Pier {number}.{turn} is long. " * 30))
        writer = None if written is None else lambda messages: written
        compacted = compact_history(history, writer, keep_last=2, format="anthropic")
        assert compacted.summary and not compacted.degraded
        history = compacted.messages
        summary = compacted.summary
        assert summary.count("Never book pier 13.") == 1
        assert "preference: -" not in summary
        assert summary.count(str(written)) <= 1


def test_system_messages_among_the_others_are_not_summarised():
    changed = {"role": "system", "content": "Answer in French."}
    said = [
        {"role": "user", "content": "One."},
        changed,
        assistant("Two."),
        *[{"role": "user", "content": "Three."}, assistant("Four.")] * 9,
    ]
    compacted = compact_history(said, keep_last=2, format="anthropic")
    assert compacted.messages[0] is changed
    assert compacted.summary
    assert "French" not in compacted.summary
    assert not validate(compacted.messages, "anthropic")


@pytest.mark.parametrize("format", ["anthropic", "openai_chat", "openai_responses", "claude_code"])
def test_a_function_writes_the_history_of_each_format(format):
    said = {
        "anthropic": [{"role": "user", "content": "One."}, assistant("Two.")] * 10,
        "openai_chat": [{"role": "user", "content": "One."}, assistant("Two.")] * 10,
        "claude_code": [
            {"type": role, "message": {"role": role, "content": "One."}}
            for role in ("user", "assistant")
        ]
        * 10,
        "openai_responses": [
            {"type": "message", "role": role, "content": "One."} for role in ("user", "assistant")
        ]
        * 10,
    }[format]
    compacted = compact_history(said, lambda messages: SUMMARY, keep_last=4, format=format)
    assert len(compacted.messages) == 6 and compacted.summary.startswith(SUMMARY)
    assert not validate(compacted.messages, format)
    failed = compact_history(said, lambda messages: 1 / 0, keep_last=4, format=format)
    assert failed.degraded and len(failed.messages) == 6
    assert formats.parse(failed.messages, format).messages[0].text.startswith("[compacted history")


@pytest.mark.parametrize("format", ["bedrock", "gemini"])
def test_where_roles_alternate_the_tail_of_a_history_begins_with_the_assistant(format):
    def said(role, text):
        if format == "bedrock":
            return {"role": role, "content": [{"text": text}]}
        return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}

    history = [said("user", RULE), said("assistant", "I will ask.")] * 10
    compacted = compact_history(history, lambda messages: SUMMARY, keep_last=4)
    assert compacted.messages[1:] == history[-5:] and compacted.kept_from == 15
    assert compacted.messages[1] is history[15]
    assert not validate(compacted.messages, format)
    assert compact_history(history[:3], lambda messages: SUMMARY, keep_last=4).kept_from == 0


def test_arguments_are_checked():
    for wrong in ({"start_at": 2}, {"size": 0}, {"keep_last": -1}, {"wait": "1"}, {"writer": 3}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            BackgroundCompaction(**wrong)
    with pytest.raises(InvalidArgumentError, match="BackgroundCompaction"):
        Context(background=True)
    with pytest.raises(InvalidArgumentError, match="keep_last"):
        compact_history([], keep_last=-1)
    for max_tokens in (-1, 0, "400", True):
        with pytest.raises(InvalidArgumentError, match="max_tokens is"):
            compact_history([], max_tokens=max_tokens)
    with pytest.raises(InvalidArgumentError, match="writer is of type int"):
        compact_history([], 3)


class _Async:
    async def write(self, request):
        return await _write(request.messages)


async def _write(messages):
    await anyio.sleep(0)
    return SUMMARY


@pytest.mark.parametrize("backend", ["", "asyncio", "trio"])
@pytest.mark.parametrize("make", [lambda: _write, _Async, lambda: ScriptedModel([SUMMARY])])
def test_a_writer_may_be_async_and_a_loop_may_run(make, backend):
    said = [
        {"role": "user", "content": "List."},
        assistant("Yes."),
        {"role": "user", "content": "?"},
    ]

    async def inside():
        return compact_history(said, make(), keep_last=1, format="anthropic")

    compacted = anyio.run(inside, backend=backend) if backend else None
    compacted = compacted or compact_history(said, make(), keep_last=1, format="anthropic")
    assert SUMMARY in compacted.summary
    assert not compacted.degraded or "names what" in compacted.degraded[0]
