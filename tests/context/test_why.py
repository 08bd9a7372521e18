"""`Context.why`: whether the last prompt shows something, and the figures of the decision."""

import anyio
import pytest

from rehydrate import Budget, Context, compact_context
from rehydrate.context import BackgroundCompaction, Threads, thread
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt import Provenance, Section
from rehydrate.prompt.section import DroppedSection
from rehydrate.prompt.sources import function

BUDGET = Budget(soft_tokens=3_000)


def talk(context, turns=30):
    for number in range(turns):
        context.prompt(f"Question {number}: " + "which berth is free today? " * 12)
        context.add({"role": "assistant", "content": f"Berth {number}. " * 30})
    return context


def test_it_agrees_with_what_every_prompt_shows():
    context = Context(budget=BUDGET)
    for _ in range(3):
        talk(context, 10)
        shown = set(context.ir.history.indices)
        for index, entry in enumerate(context.history):
            why = context.why(index)
            assert (why.shown != "not") is (index in shown), str(why)
            assert why == context.why(entry) == context.why(f"history[{index}]")
            assert bool(why.tokens) is (index in shown)
    assert context.usage.compactions > 1


def test_an_entry_that_was_left_out_keeps_its_figures_for_good():
    context = talk(Context(budget=BUDGET), 12)
    out = min(set(range(20)) - set(context.ir.history.indices))
    why = context.why(out)
    assert why.shown == "not"
    assert "others are worth more for their tokens; " in why.reason
    assert "over the soft budget of 3,000 (prune)" in why.reason
    assert why.omitted_tokens > 0
    assert "Berth" in context.originals.get(why.handle) or "berth" in context.originals.get(
        why.handle
    )
    assert str(why).startswith(f"history[{out}]: not shown (0 tokens, ")
    talk(context, 20)
    assert context.why(out) == why


def test_a_stored_thread_knows_it_after_a_restart(tmp_path):
    path = tmp_path / "t.db"
    with Threads.open(path, namespace="a") as threads:
        context = talk(Context(threads=threads, thread="t", budget=BUDGET), 14)
        before = [context.why(index) for index in range(20)]
        context.close()
    with Threads.open(path, namespace="a") as threads:
        again = Context(threads=threads, thread="t", budget=BUDGET)
        assert [again.why(index) for index in range(20)] == before


def test_what_came_after_the_last_prompt_is_in_the_next_one():
    context = Context()
    context.add({"role": "user", "content": "Which berth?"})
    assert "the next one has it" in context.why(-1).reason
    context.prompt()
    assert context.why(-1).shown == "whole"


def test_a_summary_is_named_where_it_took_the_place():
    background = BackgroundCompaction(keep_last=4, wait=60, start_at=0.5)
    context = talk(Context(budget=BUDGET, background=background), 24)
    reasons = {context.why(index).reason for index in range(4)}
    assert reasons == {"a summary is in its place"}


def test_a_result_over_its_cap_is_shown_in_part():
    context = Context()
    use = {"type": "tool_use", "id": "t1", "name": "log", "input": {}}
    lines = "\n".join(f"line {number}: berth {number * 7 % 31}" for number in range(9_000))
    result = {"type": "tool_result", "tool_use_id": "t1", "content": lines}
    context.add(
        {"role": "user", "content": "Show the log."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    )
    context.prompt()
    assert context.why(2).shown == "in part"
    context.add({"role": "assistant", "content": "Done."})
    context.prompt("And now?")
    why = context.why(2)
    assert why.shown == "in part"
    assert "over its cap" in why.reason


def test_a_section_and_a_source_are_answered_too():
    def fails(request):
        raise OSError("hunter2")

    sources = [function("berths", lambda request: "Berth 4."), function("weather", fails)]
    context = Context(sources, system=Section("rules", "Be brief.", Provenance("own")))
    context.prompt("Which berth?")
    assert (context.why("berths").shown, context.why("rules").shown) == ("whole", "whole")
    assert context.why("weather")[1:3] == ("not", "failed: OSError")


def test_a_notebook_shows_the_tables_with_everything_escaped():
    script = "<script>alert(1)</script>"
    talk = [{"role": "user", "content": f"{script} {number}"} for number in range(9)]
    context = Context(function("berths", lambda request: Section(script, "4", Provenance("own"))))
    ir = context.prompt(script).ir
    prompt = context.prompt("Now?")
    kept = compact_context(talk, target_ratio=0.3)
    for shown, named in (
        (kept, "&lt;Compaction 81 -&gt; "),
        (kept.explain(), "reason"),
        (ir, "&lt;script&gt;"),
        (ir.explain(), "&lt;script&gt;"),
        (ir.diff(prompt.ir), "history"),
        (prompt, "prompt for anthropic: "),
        (context, "&lt;Context for anthropic: 2 entries, 2 prompts, 0 compactions, "),
        (Context(), "0 tokens in the last prompt&gt;"),
        (context.why(0), "history[0]: shown whole ("),
        (context.prefix, "tokens are shared"),
    ):
        html = shown._repr_html_()
        assert named in html
        assert "<" not in html.removeprefix("<pre ").removesuffix("</pre>")


async def _opened(path):
    async with await Threads.aopen(path, namespace="a") as threads:
        return threads.path, await threads.alist()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_store_of_threads_opens_off_the_loop(tmp_path, backend):
    path = str(tmp_path / "t.db")
    assert anyio.run(_opened, path, backend=backend) == (path, [])


@pytest.mark.parametrize("what", ["nothing", 7, -7, {"role": "user", "content": "No."}, None])
def test_what_was_never_there_is_refused(what):
    context = Context()
    context.prompt("Which berth?")
    with pytest.raises(InvalidArgumentError, match="why: "):
        context.why(what)


@pytest.mark.parametrize(
    "what", [True, False, "history[07]", "history[²]", f"history[{'9' * 5_000}]"]
)
def test_a_flag_and_an_id_that_no_entry_has_are_refused(what):
    context = Context()
    for number in range(9):
        context.add({"role": "user", "content": f"Hello {number}."})
    context.prompt("Go on.")
    assert context.why("history[7]").shown == "whole"
    with pytest.raises(InvalidArgumentError, match="why: "):
        context.why(what)


@pytest.mark.parametrize("name", ["history[07]", "history[00]", "history[ 1]", "history[1_0]"])
def test_an_id_that_is_invalid_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="had nothing of the id"):
        talk(Context(), 9).why(name)


def test_a_prompts_records_are_read_once_for_all_questions(monkeypatch):
    read = []
    records = thread.PromptRecords
    monkeypatch.setattr(thread, "PromptRecords", lambda ir: read.append(ir) or records(ir))
    context = Context(budget=Budget(soft_tokens=4_000))
    for number in range(400):
        context.add({"role": "user", "content": f"Question {number}: which berth is free?"})
        context.add({"role": "assistant", "content": f"Berth {number}. " * 3})
    context.prompt("And now?")
    shown = [context.why(index).shown for index in range(800)]
    assert shown.count("not") == len(context.ir.meta.dropped) > 100
    assert len(read) == 1


def test_a_turn_reads_only_new_records_of_entries(monkeypatch):
    read = []
    of_entry = DroppedSection.of_entry.fget
    context = Context(budget=Budget(soft_tokens=4_000))
    for number in range(400):
        context.add({"role": "user", "content": f"Question {number}: which berth is free?"})
        context.add({"role": "assistant", "content": f"Berth {number}. " * 3})
    for question in ("And now?", "And then?"):
        context.prompt(question)
        context.add({"role": "assistant", "content": "Berth 9."})
    records = context.ir.meta.dropped
    counting = property(lambda one: read.append(one) or of_entry(one))
    monkeypatch.setattr(DroppedSection, "of_entry", counting)
    context.prompt("And later?")
    assert context.ir.meta.dropped == records
    assert len(records) > 100 > len(read)
