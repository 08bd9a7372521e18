"""Stored threads: what comes after a restart extends what was sent before, and nothing is lost."""

import json
import random
import time
from dataclasses import replace

import anyio
import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory, validate
from rehydrate.agent import Interpreter
from rehydrate.context import Context, ContextJIT, Threads, retriever
from rehydrate.context.tool_calls import REQUEST
from rehydrate.errors import (
    InvalidArgumentError,
    MissingNamespaceError,
    RehydrateError,
    StoreClosedError,
    StoreConflictError,
    StoreCorruptError,
    StoreReadOnlyError,
    UnknownHandleError,
    UnknownThreadError,
)
from rehydrate.prompt import Budget
from rehydrate.testing import ScriptedModel, call as call_of
from tests import strategies

CONVERSATIONS = {
    "anthropic": strategies.anthropic_conversations(),
    "openai_chat": strategies.openai_chat_conversations(),
    "openai_responses": strategies.openai_responses_items(),
}
SMALL = Budget(soft_tokens=1_500, hard_tokens=200_000)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def call(id_, name="Read", **arguments):
    use = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
    return {"role": "assistant", "content": [use]}


def result(id_, text):
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": id_, "content": text}],
    }


def wire(compiled):
    return [segment.digest for segment in compiled.segments]


def long_turns(context, turns, seed=0):
    """Talk, with tool results that are capped, repeated and compacted away; return the prompts."""
    random_ = random.Random(seed)
    prompts = []
    lines = [f"line {n}: {random_.random()} of the listing" for n in range(400)]
    for turn in range(turns):
        prompts.append(context.prompt(f"Question {turn} about berth {turn % 5}?"))
        context.add(call(f"t{seed}_{turn}", path=f"src/file{turn % 3}.py"))
        context.add(result(f"t{seed}_{turn}", "\n".join(lines[turn % 3 :: 1 + turn % 4])))
        prompts.append(context.prompt())
        context.add(assistant(f"Answer {turn}: berth {turn % 5} is free until {turn}:00."))
    return prompts


def stored_bytes(where):
    """All bytes of the files, or of the rows."""
    if isinstance(where, str):
        import psycopg

        with psycopg.connect(where) as connection:
            rows = connection.execute("SELECT body FROM memory_thread_records").fetchall()
        return "".join(body for (body,) in rows).encode()
    return b"".join(file.read_bytes() for file in where.parent.iterdir() if file.is_file())


def opened(where, thread="t-42", **options):
    return Context.open(where, thread=thread, namespace="alice", **options)


@pytest.mark.parametrize("provider", sorted(CONVERSATIONS))
@given(data=st.data())
def test_a_thread_that_is_opened_anew_each_turn_sends_what_one_process_sends(
    tmp_path_factory, provider, data
):
    entries = data.draw(CONVERSATIONS[provider])
    path = tmp_path_factory.mktemp("threads") / "t.db"
    options = {"provider": provider, "system": "Be brief.", "timeout": None, "clock": lambda: 1e9}
    one = Context(**options)
    before = []
    with Threads.open(path, namespace="alice") as threads:
        for entry in entries:
            again = Context(threads=threads, thread="t", **options)
            again.add(entry)
            one.add(entry)
            if entry.get("role") != "user":
                continue
            compiled = again.prompt()
            assert json.dumps(compiled.request) == json.dumps(one.prompt().request)
            assert wire(compiled)[: len(before)] == before
            assert not validate(compiled.messages, provider)
            before = wire(compiled)
        assert Context(threads=threads, thread="t", **options).history == one.history == entries


def test_compactions_caps_and_echoes_survive_a_restart(where):
    one = Context(budget=SMALL, clock=lambda: 1e9)
    sent = []
    for turn in range(12):
        with opened(where, budget=SMALL, clock=lambda: 1e9) as again:
            made = long_turns(again, 1, seed=turn)
            assert sent == [] or again.usage.compactions or made[0].segments
        expected = long_turns(one, 1, seed=turn)
        assert [json.dumps(each.request) for each in made] == [
            json.dumps(each.request) for each in expected
        ]
        sent += made
    with opened(where, budget=SMALL) as again:
        assert again.usage == one.usage and again.usage.compactions > 1
        assert again.history == one.history
        assert again.ir.meta.dropped == one.ir.meta.dropped
        assert again.prefix is None  # it compares two prompts of one process


def test_the_budget_of_a_job_goes_on(where):
    budget = Budget(max_job_tokens=10_000)
    with opened(where, budget=budget) as context:
        context.prompt("One. " * 50)
        spent = context.usage.job_tokens
    with opened(where, budget=budget) as context:
        assert context.usage.job_tokens == spent > 0
        context.prompt("Two.")
        assert context.prefix.extends and context.usage.job_tokens < 2 * spent
        context.new_job()
    with opened(where, budget=budget) as context:
        assert context.usage.job_tokens == 0


def test_handles_lead_to_their_originals_after_a_restart(where, tmp_path):
    whole = "\n".join(f"{n}: port {n * 7919 % 65536} is open" for n in range(3_000))
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add(["The harbour's radio listens on channel 12. " * 40])
        with opened(where, sources=memory, timeout=None) as context:
            context.prompt("Which ports are open?")
            context.add(call("t1"), result("t1", whole))
            shown = json.dumps(context.prompt().messages)
            handles = {word for word in shown.replace('"', " ").split() if "orig_" in word}
            handles = {word[word.index("orig_") :][:31] for word in handles}
            assert handles
            texts = {handle: context.originals.get(handle) for handle in handles}
        with opened(where, sources=memory, timeout=None) as context:
            assert {handle: context.originals.get(handle) for handle in handles} == texts
            assert whole in texts.values()
            with pytest.raises(UnknownHandleError):
                context.originals.get("orig_" + "a" * 26)


def test_what_the_model_asked_for_stays_its_own_after_a_restart(where):
    """Also where the process ends between the answer and the next prompt."""
    budget = Budget(soft_tokens=8_000, hard_tokens=100_000)

    def ask(context):
        query = {"query": "red crane at berth"}
        asked = call("q1", "request_context", **query)
        context.add(asked)
        return asked["content"][0]

    def begin(context):
        context.prompt("What is in the harbour?")
        context.add(assistant("Ropes lie there. " * 20))
        context.prompt("And then?")
        context.add(assistant("The red crane stands at berth 9. " + "Ropes lie there. " * 400))
        context.prompt("Thanks.")
        for turn in range(100):
            context.add(assistant("Noted. " + f"filler {turn} " * 60))
            shown = json.dumps(context.prompt(f"Something else, number {turn}.").messages)
            if "red crane" not in shown and context.room_tokens > 1_500:
                return
        raise AssertionError("nothing was left out")

    with opened(where, budget=budget, clock=lambda: 1e9) as context:
        jit = ContextJIT(context)
        begin(context)
        answer = jit.handle(ask(context))
        assert "red crane" in answer["content"]
        context.add({"role": "user", "content": [answer]})
    with opened(where, budget=budget, clock=lambda: 1e9) as context:
        ContextJIT(context)
        prompt = context.prompt()
        assert {section.tool_call_id for section in prompt.ir.late_bound} == {"q1"}


def test_an_abandoned_prompt_is_undone_on_disk_too(where):
    async def main():
        with opened(where, sources=lambda _request: "never", timeout=5.0) as context:
            with anyio.move_on_after(0):
                await context.aprompt("Never received.")
            await anyio.to_thread.run_sync(lambda: None)
            await context.aadd(user("Hello."))
            return context.history

    history = anyio.run(main)
    with opened(where) as context:
        assert context.history == history
        assert context.prompt("Now.").messages[0]["content"] in ("Hello.", history[0]["content"])


def test_a_prompt_that_fails_leaves_no_trace(where):
    def fails(_ir, _target):
        raise RuntimeError("no")

    with opened(where, passes=[fails]) as context:
        context.add(user("Hello."))
        with pytest.raises(RuntimeError):
            context.prompt("And this?")
    with opened(where) as context:
        assert context.history == [user("Hello.")]


def test_of_two_contexts_on_a_thread_the_second_to_write_is_refused(where):
    with Threads.open(where, namespace="alice") as threads:
        one, other = (Context(threads=threads, thread="t") for _ in "12")
        one.add(user("From one."))
        with pytest.raises(StoreConflictError, match="open"):
            other.add(user("From the other."))
        with pytest.raises(StoreConflictError):
            other.prompt("Again.")
        assert other.history == []
        one.add(assistant("Goes on."))
        again = Context(threads=threads, thread="t")
        assert again.history == one.history and len(one.history) == 2


def test_a_close_that_cannot_write_says_so_and_closes(where):
    context = opened(where, durability="turn")
    context.add(user("From one."))
    with opened(where) as other:
        other.add(user("From the other."))
    with pytest.raises(StoreConflictError):
        context.close()
    assert context.history == [user("From one.")]
    context.close()
    with pytest.raises(StoreClosedError):
        context.add(user("More."))
    with pytest.raises(StoreClosedError):
        context._owned.list()


def test_what_json_cannot_hold_is_refused_whole(where):
    with opened(where) as context:
        with pytest.raises(InvalidArgumentError, match=r"history\[0\]"):
            context.add(call("t1", path=object()))
        assert context.history == []
        context.add(user("half a pair \ud83d and more"))
    with opened(where) as context:
        assert context.history == [user("half a pair \ud83d and more")]


def test_damage_is_reported_and_not_read(tmp_path):
    import sqlite3

    where = tmp_path / "threads.db"
    with opened(where) as context:
        context.add(user("Hello."), assistant("Hi."))
    with sqlite3.connect(where) as edit:
        edit.execute("UPDATE records SET body = CAST(replace(body, 'Hi', 'Ho') AS BLOB)")
    with pytest.raises(StoreCorruptError, match="record 2"):
        opened(where)
    with Memory.open(where, namespace="alice") as memory:
        report = memory.verify()
    assert not report.ok
    damage = 'namespace "alice": record 2 of thread "t-42" is not as it was written'
    assert report.problems == (damage,)


def test_turn_durability_writes_with_the_next_prompt(where):
    with Threads.open(where, namespace="alice", durability="turn") as threads:
        context = Context(threads=threads, thread="t")
        context.add(user("Hello."))
        assert threads.list() == []
        context.prompt()
        assert [entry for _, entry in threads.history("t")] == context.history
        context.add(assistant("Hi."))
        context.close()
        assert len(threads.history("t")) == 2


def test_a_closed_context_refuses_and_another_one_goes_on(where):
    with Threads.open(where, namespace="alice") as threads:
        one = Context(threads=threads, thread="t")
        one.add(user("Hello."))
        one.close()
        one.close()
        with pytest.raises(StoreClosedError, match="'t' was closed"):
            one.add(assistant("Too late."))
        assert one.history == Context(threads=threads, thread="t").history == [user("Hello.")]


def test_forks_list_export_load_and_purge(where, tmp_path):
    with Threads.open(where, namespace="alice") as threads:
        context = Context(threads=threads, thread="t", budget=SMALL, clock=lambda: 1e9)
        prompts = long_turns(context, 6)
        seen = context.usage.entries
        threads.fork("t", "whole")
        threads.fork("t", "half", entries=9)
        assert [one.name for one in threads.list()] == ["half", "whole", "t"]
        half = Context(threads=threads, thread="half", budget=SMALL, clock=lambda: 1e9)
        assert half.history == context.history[:9]
        assert wire(half.prompt())[: len(prompts[4].segments)] == wire(prompts[4])
        whole = Context(threads=threads, thread="whole", budget=SMALL, clock=lambda: 1e9)
        assert json.dumps(whole.prompt("Go on.").request) == json.dumps(
            context.prompt("Go on.").request
        )
        with pytest.raises(StoreConflictError, match="already"):
            threads.fork("t", "half")
        with pytest.raises(InvalidArgumentError, match="at most"):
            threads.fork("t", "more", entries=seen + 100)
        lines = threads.export_thread("t", tmp_path / "t.jsonl")
        assert lines == len((tmp_path / "t.jsonl").read_text().splitlines()) > seen
        assert threads.import_thread(tmp_path / "t.jsonl", thread="loaded") == "loaded"
        loaded = Context(threads=threads, thread="loaded", budget=SMALL, clock=lambda: 1e9)
        assert loaded.history == context.history and loaded.usage == context.usage
        assert threads.purge("t") > 0 == threads.purge("t")
        with pytest.raises(UnknownThreadError, match="'t'"):
            threads.history("t")
        with pytest.raises(StoreConflictError, match="not there any more"):
            context.add(assistant("Too late."))


def test_a_line_that_is_no_thread_is_named(where, tmp_path):
    bad = tmp_path / "bad.jsonl"
    with Threads.open(where, namespace="alice") as threads:
        for text in ("{}\n", "[]\n", "nothing\n", '{"format": "rehydrate memory", "version": 1}\n'):
            bad.write_text(text)
            with pytest.raises(InvalidArgumentError, match="line 1"):
                threads.import_thread(bad)
        assert threads.list() == []


def test_a_record_of_a_time_that_no_reader_shows_is_refused(where):
    with Threads.open(where, namespace="alice") as threads:
        for time in (1e300, float("nan"), -1e12):
            with pytest.raises(InvalidArgumentError, match="years 1 to 9999"):
                threads.native.append_records("alice", "t", 0, [(1, time, "x")])
        assert threads.list() == []


def test_read_has_a_thread_of_one_moment(where):
    with Threads.open(where, namespace="alice") as threads:
        context = Context(threads=threads, thread="t", clock=lambda: 1e9)
        context.add(user("Never push to main."), assistant("I will not."))
        read = threads.read("t")
        assert list(read.entries) == context.history and read.format == context.format
        assert {time.isoformat() for time in read.times} == {"2001-09-09T01:46:40+00:00"}
        assert read.store.items() == context.store.items()
        with pytest.raises(UnknownThreadError):
            threads.read("t-9")


def test_a_memory_of_the_same_file_and_namespaces_stay_apart(where):
    with Memory.open(where, namespace="alice") as memory:
        memory.add(["Staging listens on port 8443."])
        with opened(where, sources=memory, timeout=None) as context:
            assert "8443" in json.dumps(context.prompt("Which port is staging on?").messages)
        assert memory.stats().items == 1 and memory.verify().problems == ()
        with Threads.open(where) as threads:
            assert threads.list(namespace="bob") == []
            with pytest.raises(MissingNamespaceError):
                threads.list()
        memory.purge(everything=True)
    with Threads.open(where, namespace="alice") as threads:
        assert threads.list() == []


def test_arguments_are_checked(where):
    with Threads.open(where, namespace="alice") as threads:
        with pytest.raises(InvalidArgumentError, match="thread is empty"):
            Context(threads=threads)
        Context(threads=threads, thread="t", provider="openai_chat").add(user("Hello."))
        with pytest.raises(InvalidArgumentError, match="format='openai_chat'"):
            Context(threads=threads, thread="t", provider="anthropic")
        assert Context(threads=threads, thread="t").provider == "openai_chat"
        moved = Context(threads=threads, thread="t", format="openai_chat")
        assert moved.prompt().messages
    with pytest.raises(InvalidArgumentError, match="durability"):
        Threads.open(where, durability="never")
    with pytest.raises(StoreClosedError):
        threads.list(namespace="alice")
    with (
        Threads.open(where, namespace="alice", read_only=True) as readable,
        pytest.raises(StoreReadOnlyError),
    ):
        Context(threads=readable, thread="t", format="openai_chat").add(user("No."))


def test_tools_offered_again_change_nothing(where):
    tool = {"name": "move", "description": "Move a crane.", "input_schema": {"type": "object"}}
    with opened(where, tools=[tool]) as context:
        ContextJIT(context)
        before = context.prompt("Hello.")
    with opened(where, tools=[tool]) as context:
        ContextJIT(context)
        context.add(assistant("Hi."))
        after = context.prompt("Again.")
        assert wire(after)[: len(before.segments)] == wire(before)
        assert context.prefix.extends


def test_a_reworded_tool_stays_as_the_thread_began_with_it(where, monkeypatch):
    def move(description):
        return {"name": "move", "description": description, "input_schema": {"type": "object"}}

    with opened(where, tools=[move("Move a crane.")]) as context:
        ContextJIT(context)
        before = context.prompt("Hello.")
        context.add(assistant("Hi."))
    reworded = replace(REQUEST, description="Asks.")
    monkeypatch.setattr("rehydrate.context.jit.REQUEST", reworded)
    with opened(where, tools=[move("Move one crane.")]) as context:
        context.offer([move("Move one crane.")])
        jit = ContextJIT(context)
        after = context.prompt("Again.")
        assert wire(after)[: len(before.segments)] == wire(before)
        assert context.prefix.extends
        kept = [line for line in after.ir.meta.degraded if "when the thread began" in line]
        assert [line.split()[1] for line in kept] == ["'move'", "'request_context'"]
        assert context.jit is jit
        with pytest.raises(InvalidArgumentError, match="two tools are named 'move'"):
            context.offer([move("Move a crane.")])


def test_a_reworded_function_is_called_under_its_stored_definition(where):
    def turn(describe):
        def berths() -> str:
            return describe

        berths.__doc__ = describe
        model = ScriptedModel([call_of("berths"), "Berth 4."])
        with opened(where) as context:
            Interpreter(model, [berths], jit=False).run(context, "Which berth is free?")
            return context.ir.tools[0].description, str(context.history[-2])

    turn("One.")
    description, answer = turn("Two.")
    assert description == "One."
    assert "Two." in answer


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_calls(where, backend):
    async def main():
        async with await Context.aopen(where, thread="t", namespace="alice") as context:
            await context.aprompt("Hello.")
            await context.aadd(assistant("Hi."))
        with Threads.open(where, namespace="alice") as threads:
            return [one.name for one in await threads.alist()], len(await threads.ahistory("t"))

    assert anyio.run(main, backend=backend) == (["t"], 2)


def test_the_model_finds_what_was_said_in_other_threads(where):
    with Threads.open(where, namespace="alice") as threads:
        before = Context(threads=threads, thread="monday")
        before.prompt("Remember: the blue crane is repaired by Ferryman Oyelaran.")
        before.add(assistant("Noted."))
        Context(threads=threads, thread="bob", namespace="bob").prompt("The blue crane is Bob's.")
        now = Context(threads=threads, thread="now")
        jit = ContextJIT(now)
        now.prompt("Who repairs it?")
        asked = call("q1", "request_context", query="who repairs the blue crane")
        now.add(asked)
        answer = jit.handle(asked["content"][0])["content"]
        assert "Ferryman Oyelaran" in answer and "monday #0" in answer and "Bob's" not in answer
        before.prompt("The blue crane is painted red by Petra.")
        again = call("q2", "request_context", query="who paints the blue crane red")
        now.add({"role": "user", "content": [jit.handle(asked["content"][0])]}, again)
        assert "Petra" in jit.handle(again["content"][0])["content"]


def test_a_thread_that_is_too_large_to_search_hides_no_other_one(tmp_path, monkeypatch):
    monkeypatch.setattr(retriever, "_MAX_OTHER_BYTES", 20_000)
    with Threads.open(tmp_path / "t.db", namespace="alice") as threads:
        Context(threads=threads, thread="small").add(user("The mooring code is 55-GHI."))
        Context(threads=threads, thread="large").add(user("rope " * 5_000))
        now = Context(threads=threads, thread="now")
        now.prompt("Hello.")
        asked = call("q1", "request_context", query="mooring code")["content"][0]
        answer = ContextJIT(now).answer(asked)
        assert "55-GHI" in answer.content
        assert "1 of 2 other threads" in " ".join(answer.degraded)


@pytest.mark.parametrize("depth", [100, 400, 3_000])
def test_a_deep_entry_is_stored_or_refused_by_a_typed_error(where, depth):
    value = "x"
    for _ in range(depth):
        value = {"a": value}
    with opened(where) as context:
        try:
            context.add(user("go"), call("t1", **value), result("t1", "r"))
        except RehydrateError:
            assert depth > 100
        else:
            assert depth < 3_000
        context.add(user("and now?"))
    with opened(where) as context:
        assert context.history[-1] == user("and now?")


def test_a_thread_that_was_purged_and_begun_again_is_another_one(where):
    with Threads.open(where, namespace="alice") as threads:
        old = Context(threads=threads, thread="t")
        old.add(user("The old question."))
        threads.purge("t")
        time.sleep(0.002)  # threads are told apart by the millisecond in which they were begun
        Context(threads=threads, thread="t").add(user("The new question."))
        for _ in range(2):
            with pytest.raises(StoreConflictError):
                old.add(assistant("The old answer."))
            assert [entry for _, entry in threads.history("t")] == [user("The new question.")]
        Context(threads=threads, thread="t").add(assistant("The new answer."))
        assert len(threads.history("t")) == 2


class Late:
    """The threads of a store, where others are always quicker, 20 times."""

    def __init__(self, threads):
        self._threads = threads
        self._left = 20
        self.path, self.thread = threads.path, threads.thread

    def append_records(self, *given):
        self._left -= 1
        if self._left >= 0:
            raise StoreConflictError(self.path, "another process wrote", "try again")
        return self._threads.append_records(*given)


def test_a_text_is_kept_however_many_keep_theirs_at_once(where, monkeypatch):
    with Threads.open(where, namespace="alice") as threads:
        late = Late(threads.native)
        with monkeypatch.context() as patched:
            patched.setattr(Threads, "native", property(lambda _: late))
            handle = threads.keep("t", "a whole text")
        assert threads.stored_thread("t", None, "").originals == {handle: "a whole text"}
