"""Records of threads: what comes back equals what was added, and what cannot is refused before."""

import json
import sys

import pytest

from rehydrate import Budget
from rehydrate.context import Context, ContextJIT, ThreadReader, Threads
from rehydrate.errors import InvalidArgumentError, MissingPackageError, RehydrateError
from rehydrate.prompt import CompiledPrompt, PromptIR


@pytest.fixture
def threads(where):
    with Threads.open(where, namespace="alice") as opened:
        yield opened


def langchain_messages():
    from langchain_core import messages as m

    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    wrong = {"name": "g", "args": "{broken", "id": "c2", "error": None, "type": "invalid_tool_call"}
    use = {"name": "f", "args": {"a": [1, None, {"b": 2.5}]}, "id": "c1", "type": "tool_call"}
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    chunk = {"name": "f", "args": '{"a":', "id": "c3", "index": 0}
    return [
        m.SystemMessage("Be brief.", id="s1"),
        m.HumanMessage("Hello.", name="bob"),
        m.HumanMessage([{"type": "text", "text": "Look."}, picture]),
        m.AIMessage(
            "I call.",
            tool_calls=[use],
            invalid_tool_calls=[wrong],
            usage_metadata={**usage, "input_token_details": {"cache_read": 2}},
            response_metadata={"model_name": "m", "stop": None},
            additional_kwargs={"refusal": None},
        ),
        m.ToolMessage("It failed.", tool_call_id="c1", artifact={"rows": [None]}, status="error"),
        m.ToolMessage([{"type": "text", "text": "Second."}], tool_call_id="c2", name="g"),
        m.AIMessage([{"type": "text", "text": "So."}, {"type": "reasoning", "reasoning": "hm"}]),
        m.AIMessageChunk("part", tool_call_chunks=[chunk], chunk_position="last"),
        m.ToolMessageChunk("Third.", tool_call_id="c3"),
        m.HumanMessageChunk("chunk"),
        m.ChatMessage("chat", role="user"),
        m.SystemMessageChunk("system"),
        m.ChatMessageChunk("more", role="user"),
        m.FunctionMessage("done", name="f"),
        m.RemoveMessage(id="s1"),
    ]


def test_langchain_messages_come_back_equal(threads, tmp_path):
    """Opened again before each prompt, a thread sends what one that is never closed sends."""
    options = {"format": "langchain", "clock": lambda: 1e9}
    one, added = Context(**options), langchain_messages()
    for message in added:
        again = Context(threads=threads, thread="lc", **options)
        again.add(message)
        one.add(message)
        if len(one.history) > 1:  # of a system message alone no prompt is made
            assert again.prompt().request == one.prompt().request
        again.close()
    with Context(threads=threads, thread="lc") as again:
        assert again.format == "langchain" and again.history == added
        assert [type(each) for each in again.history] == [type(each) for each in added]
        assert again.prompt("And now?").request == one.prompt("And now?").request
        assert again.ir.meta.degraded == one.ir.meta.degraded
    said = one.history
    assert [entry for _, entry in threads.history("lc")] == said
    assert list(threads.read("lc").entries) == said
    assert threads.store("lc").items() == one.store.items()
    assert "#1 user: Hello." in ThreadReader(threads, "lc").transcript()
    threads.export_thread("lc", tmp_path / "lc.jsonl")
    threads.import_thread(tmp_path / "lc.jsonl", thread="again")
    threads.fork("lc", "half", entries=7)
    assert Context(threads=threads, thread="again").history == said
    assert Context(threads=threads, thread="half").history == said[:7]
    assert threads.redact("lc", "Look") > 0
    assert Context(threads=threads, thread="lc").history[2].content[0]["text"] == "[redacted]."


def test_a_compacted_langchain_thread_goes_on_where_it_was(threads):
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    options = {
        "format": "langchain",
        "budget": Budget(soft_tokens=1_500, hard_tokens=200_000),
        "clock": lambda: 1e9,
    }
    one = Context(**options)
    for turn in range(8):
        lines = "\n".join(f"{turn}: line {n * 7919 % 65536} of the listing" for n in range(300))
        use = {"name": "ls", "args": {"path": f"src/{turn}"}, "id": f"t{turn}"}
        said = [
            HumanMessage(f"What is in folder {turn}?"),
            AIMessage("", tool_calls=[use]),
            ToolMessage(lines, tool_call_id=f"t{turn}"),
        ]
        with Context(threads=threads, thread="lc", **options) as again:
            again.add(*said)
            one.add(*said)
            assert again.prompt().request == one.prompt().request
            again.add(AIMessage(f"Answer {turn}."))
            one.add(AIMessage(f"Answer {turn}."))
    with Context(threads=threads, thread="lc", **options) as again:
        assert again.usage == one.usage and again.usage.compactions > 0
        assert again.history == one.history
        assert again.ir.history.entries == one.ir.history.entries
        assert not any("new prefix" in why for why in again.ir.meta.degraded)


def test_langchain_messages_that_no_store_holds_are_refused(threads):
    from langchain_core.messages import HumanMessage, ToolMessage

    class Own(HumanMessage):
        type: str = "own"

    context = Context(threads=threads, thread="lc", format="langchain")
    for message, said in (
        (ToolMessage("x", tool_call_id="c", artifact=object()), r"history\[0\]\.artifact"),
        (HumanMessage("x", response_metadata={"p": float("inf")}), "inf"),
        (Own("x"), "LangChain says: .*own"),
    ):
        with pytest.raises(RehydrateError, match=said):
            context.add(message)
    context.add(ToolMessage("x", tool_call_id="c", artifact=(1, 2)))
    assert context.ir is None and len(context.history) == 1


def test_without_langchain_the_error_names_the_extra(tmp_path, monkeypatch):
    from langchain_core.messages import HumanMessage

    with Threads.open(tmp_path / "t.db", namespace="alice") as threads:
        Context(threads=threads, thread="lc", format="langchain").add(HumanMessage("Hello."))
        monkeypatch.setitem(sys.modules, "langchain_core.messages", None)
        for read in (threads.history, threads.read, threads.store):
            with pytest.raises(MissingPackageError, match=r"rehydrate\[langchain\]"):
                read("lc")
        with pytest.raises(MissingPackageError, match=r"rehydrate\[langchain\]"):
            Context(threads=threads, thread="lc")
        assert [each.name for each in threads.list()] == ["lc"]


def with_input(value):
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": value}}
    return {"role": "assistant", "content": [use]}


DEEP = {"k": (1, ({"x": (2,)},))}


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "user", "content": ({"type": "text", "text": "hello"},)},
        with_input(DEEP),
        with_input(2**70),
        with_input([True, 1.0, -0.0, 1e300, 123456789012345678]),
        {"role": "user", "content": "half a pair \ud83d"},
        {"role": "user", "content": "a pair in halves \ud83d\ude00"},
    ],
)
def test_a_prefix_holds_whatever_form_an_entry_has(threads, entry):
    options = {"format": "anthropic", "clock": lambda: 1e9}
    one, first = Context(**options), {"role": "user", "content": "Begin."}
    with Context(threads=threads, thread="t", **options) as again:
        for context in (one, again):
            context.add(first, entry)
            context.add({"role": "user", "content": "Go on."})
        assert json.dumps(again.prompt().request) == json.dumps(one.prompt().request)
    with Context(threads=threads, thread="t", **options) as again:
        assert json.dumps(again.history[1]) == json.dumps(entry)
        assert not any("new prefix" in why for why in again.ir.meta.degraded)
        sent = again.prompt("More.").request
        assert json.dumps(sent) == json.dumps(one.prompt("More.").request)
        assert again.prefix.extends


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), r"history\[0\]\.content\[0\]\.input\.a is nan.*finite"),
        (float("-inf"), "is -inf.*finite"),
        ({1: 2}, "has the key 1; pass strings as keys"),
        ({"b": {None: 2}}, "has the key None"),
        ([10**5000], "16,610 bits.*pass it as a text"),
        ({1, 2}, "of type set"),
    ],
)
@pytest.mark.parametrize("durability", ["entry", "turn"])
def test_what_a_store_gives_back_in_another_form_is_refused_by_add(
    tmp_path, value, said, durability
):
    with Threads.open(tmp_path / "t.db", namespace="a", durability=durability) as threads:
        context = Context(threads=threads, thread="t", format="anthropic")
        with pytest.raises(InvalidArgumentError, match=said):
            context.add(with_input(value))
        assert context.history == []


HEAD = {"format": "rehydrate thread", "version": 1, "namespace": "alice", "thread": "t"}
BEGUN = {"kind": "header", "time": 0.0, "version": 1, "format": "anthropic"}
HELLO = {"role": "user", "content": "Hello."}
SAID = {"kind": "entry", "time": 1e9, "entry": HELLO, "tokens": 2}


def fails(**fields):
    return [HEAD, BEGUN, SAID, {"time": 1e9, **fields}]


SPAN = {"key": "k", "span": [0, 0, 0, 5, "x"], "trust": 1, "strength": 0, "uses": []}
ADDED = {"op": "add", "item": 0, "entry": 0, "heading": "Decisions", "kind": "decision", **SPAN}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "ends after 0 lines"),
        ([HEAD], "ends after 1 lines"),
        ([HEAD, SAID], "line 2 .*header"),
        ([HEAD, BEGUN, BEGUN], "line 3 .*header"),
        ([BEGUN, SAID], "line 1 "),
        ([{**HEAD, "version": 2}, BEGUN], "version is 2"),
        ([{**HEAD, "version": True}, BEGUN], "version is True"),
        ([{**HEAD, "thread": 5}, BEGUN], "name is 5"),
        ([HEAD, {**BEGUN, "format": "zzz"}, SAID], "'zzz'.*choose one of"),
        ([HEAD, {**BEGUN, "version": 9}, SAID], "version is 9"),
        ([HEAD, BEGUN, {**SAID, "time": 1e30}], r"line 3 .*1e\+30.*years 1 to 9999"),
        ([HEAD, BEGUN, {**SAID, "time": float("nan")}], "line 3 .*nan"),
        ([HEAD, BEGUN, {**SAID, "time": 10**400}], "line 3 .*years 1 to 9999"),
        ([HEAD, BEGUN, {**SAID, "time": "now"}], "line 3 .*'now'"),
        ([HEAD, BEGUN, {**SAID, "tokens": -1}], "line 3 .*tokens"),
        ([HEAD, BEGUN, {**SAID, "entry": {"a": float("inf")}}], "line 3 .*inf"),
        ([HEAD, BEGUN, {**SAID, "kind": "other"}], "line 3 .*OTHER"),
        ([HEAD, BEGUN, '{"kind":"entry","time":1,"tokens":1,"entry":' + "[" * 100_000], "line 3"),
        ([HEAD, BEGUN, '{"kind":"entry","time":1,"tokens":' + "9" * 5_000 + "}"], "line 3"),
        (fails(kind="operations", seen=1, operations=[{**ADDED, "op": "melt"}]), "melt"),
        (fails(kind="operations", seen=1, operations=[{**ADDED, "heading": "X"}]), "X"),
        (fails(kind="operations", seen=1, operations=[5]), "says what no thread does"),
        (fails(kind="operations", seen=7, operations=[ADDED]), "says what no thread does"),
        (fails(kind="state", seen=1, job_tokens=0, prompts=0, compactions=0), "line 4 .*'sent'"),
        (fails(kind="undo", to=0), "version"),
        (fails(kind="summary", until=0, compactions=0, tokens=1, text="x"), "degraded"),
        (fails(kind="waiting", waiting={"t": [{"colour": 1}]}), "colour"),
        (fails(kind="remainder", handle="rest_1", sections=["x"]), "sections"),
    ],
)
def test_nothing_is_written_of_an_export_that_says_what_no_thread_does(
    tmp_path, where, threads, lines, said
):
    file = tmp_path / "bad.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file.write_text("".join(f"{text}\n" for text in texts))
    with pytest.raises(InvalidArgumentError, match=said):
        threads.import_thread(file)
    assert threads.list() == []


def test_a_good_export_is_taken(tmp_path, threads):
    file = tmp_path / "good.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in (HEAD, BEGUN, SAID)))
    assert threads.import_thread(file) == "t"
    assert Context(threads=threads, thread="t").history == [HELLO]


@pytest.mark.parametrize("name", [5, b"t", None, ["t"]])
def test_a_name_that_is_no_text_is_refused(threads, tmp_path, name):
    Context(threads=threads, thread="t").add(HELLO)
    threads.export_thread("t", tmp_path / "t.jsonl")
    calls = [
        *(threads.history, threads.read, threads.store, threads.purge, threads.stored_thread),
        lambda thread: threads.render_store(thread, 500),
        lambda thread: threads.keep(thread, "a text"),
        lambda thread: threads.fork(thread, "u"),
        lambda thread: threads.fork("t", thread),
        lambda thread: threads.export_thread(thread, tmp_path / "u.jsonl"),
        lambda thread: threads.redact(thread, "Hello"),
        lambda thread: ThreadReader(threads, thread),
        lambda thread: Context(threads=threads, thread=thread),
    ]
    if name is not None:  # it is the export's own name
        calls.append(lambda thread: threads.import_thread(tmp_path / "t.jsonl", thread=thread))
    for call in calls:
        args = (name, None, "call") if call == threads.stored_thread else (name,)
        with pytest.raises(InvalidArgumentError, match="thread is"):
            call(*args)
    if name is not None:
        with pytest.raises(InvalidArgumentError, match="namespace is"):
            threads.list(namespace=name)
    assert [each.name for each in threads.list()] == ["t"]


def test_arguments_of_threads_are_checked(threads):
    with pytest.raises(InvalidArgumentError, match="format is 'zzz'"):
        threads.keep("t", "a text", format="zzz")
    with pytest.raises(InvalidArgumentError, match="text is of type int"):
        threads.keep("t", 5)
    with pytest.raises(InvalidArgumentError, match="texts is of type int"):
        threads.redact("t", 5)
    assert threads.list() == []


@pytest.mark.parametrize("span", [[9, 0, 0, 5, "x"], [0, 9, 0, 5, "x"], [0, 0, 90, 95, "x"]])
def test_redaction_takes_a_span_that_leads_nowhere(threads, span):
    operations = {"kind": "operations", "time": 1.0, "seen": 1}
    operations["operations"] = [{**ADDED, "span": span}]
    rows = [(0, 0.0, json.dumps(BEGUN)), (1, 1.0, json.dumps(SAID))]
    rows.append((7, 1.0, json.dumps(operations)))
    threads.native.append_records("alice", "t", 0, rows)
    assert threads.redact("t", "Hello") > 0
    assert Context(threads=threads, thread="t").history == [{**HELLO, "content": "[redacted]."}]


def test_redaction_of_a_span_that_is_invalid_is_refused(threads):
    operations = {"seen": 1, "operations": [{**ADDED, "span": "no"}]}
    rows = [(0, 0.0, json.dumps(BEGUN)), (1, 1.0, json.dumps(SAID)), (7, 1, json.dumps(operations))]
    threads.native.append_records("alice", "t", 0, rows)
    with pytest.raises(InvalidArgumentError, match="no thread does"):
        threads.redact("t", "Hello")


def test_a_clock_is_a_function():
    with pytest.raises(InvalidArgumentError, match="clock is of type int"):
        ContextJIT(Context(), clock=5)


def test_the_largest_budget_of_a_compaction_is_one():
    context = Context(provider="anthropic")
    context.add({"role": "user", "content": "Hello."})
    assert len(context.compact(2**53).history.entries) == 1
    with pytest.raises(InvalidArgumentError, match=f"budget_tokens is {2**53 + 1}"):
        context.compact(2**53 + 1)


def test_pictures_of_converses_are_bytes_again(threads):
    image = {"image": {"format": "png", "source": {"bytes": bytes(range(256))}}}
    result = {"toolResult": {"toolUseId": "t1", "content": [image]}}
    entries = [
        {"role": "user", "content": [{"text": "Look."}, image]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"redactedContent": b"\xfb\xff sealed"}},
                {"toolUse": {"toolUseId": "t1", "name": "f", "input": {}}},
            ],
        },
        {"role": "user", "content": [result, {"guardContent": image}]},
    ]
    with Context(threads=threads, thread="t", provider="bedrock") as context:
        context.add(*entries)
        sent = context.prompt()
        assert context.history == entries
    with Context(threads=threads, thread="t") as again:
        assert again.history == entries
        again.add({"role": "assistant", "content": [{"text": "Seen."}]})
        more = again.prompt("And now?")
        assert again.prefix.extends
        assert more.messages[0]["content"][1] == image
    for made in (sent, more):
        assert CompiledPrompt.from_json(made.to_json()).request == made.request
        assert PromptIR.from_json(made.ir.to_json()).history.entries == made.ir.history.entries
