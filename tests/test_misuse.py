"""Misuse fails at the call, with an error that names the value and the remedy."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

import rehydrate
from rehydrate import (
    Budget,
    Context,
    ContextJIT,
    ContextRequest,
    ContextStrategy,
    Interpreter,
    Memory,
    PromptIR,
    Section,
    compact_context,
    hydrate,
)
from rehydrate._check import check_list, check_methods, check_share, check_whole
from rehydrate._text import LOGGER
from rehydrate.agent import Retrying
from rehydrate.compact import Archive
from rehydrate.errors import InvalidArgumentError, InvalidMessageError
from rehydrate.memory import LoadMemory
from rehydrate.prompt import (
    History,
    Provenance,
    RemoveEchoes,
    ToolDef,
    compile as compile_ir,
)

ASK = {"role": "user", "content": "Which port?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
GREP = {"name": "grep", "input_schema": {"type": "object"}}
MESSAGE = {"type": "message", "role": "assistant"}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}

CONTEXTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"budget": 1000}, ["budget is of type int", "Budget(soft_tokens=...)"]),
    ({"provider": "openai"}, ["'openai'", "did you mean 'openai_chat' or 'openai_responses'?"]),
    ({"provider": "claude"}, ["'claude'", "'anthropic'"]),
    ({"model": 3}, ["model is of type int", "name"]),
    ({"thinking": "strip"}, ["thinking is 'strip'", "'auto'", "'keep'"]),
    ({"system": 3}, ["type int", "texts or Sections"]),
    ({"system": ["Be brief.", 3]}, ["entry 1 is of type int", "texts or Sections"]),
    ({"tools": [3]}, ["a tool is of type int", "dict"]),
    ({"tools": 3}, ["tools is of type int", "list of tool definitions"]),
    ({"tools": None}, ["tools is of type NoneType", "list of tool definitions"]),
    ({"tools": GREP}, ["tools is of type dict", "list of tool definitions"]),
    ({"tools": [GREP, GREP]}, ["two tools are named 'grep'", "rename one"]),
    ({"strategy": "semantic"}, ["strategy is of type str", "ContextStrategy"]),
    ({"namespace": 3}, ["namespace is of type int"]),
    ({"thread": None}, ["thread is of type NoneType"]),
    ({"format": "cohere"}, ["format is 'cohere'", "'openai_chat'"]),
    ({"passes": [3]}, ["a pass is of type int", "function"]),
    ({"passes": "prune"}, ["passes is of type str", "list of functions"]),
    ({"originals": 3}, ["originals is of type int", "HeldOriginals"]),
    ({"timeout": "soon"}, ["timeout is 'soon'", "seconds"]),
    ({"timeout": -1}, ["timeout is -1", "from 0 up"]),
    ({"clock": 3}, ["clock is of type int", "seconds since 1970"]),
    ({"sources": 3}, ["a source is of type int", "Memory"]),
    ({"sources": [len, 3]}, ["a source is of type int", "Memory"]),
    ({"sources": b"notes"}, ["a source is of type bytes", "Memory"]),
    ({"sources": "no/such/folder"}, ["there is no 'no/such/folder'", "pass the path"]),
    ({"sources": [len, len]}, ["two sources are named 'len'", "another name"]),
]


@pytest.mark.parametrize(("options", "said"), CONTEXTS)
def test_a_context_refuses_what_it_cannot_use_when_it_is_made(options, said):
    with pytest.raises(InvalidArgumentError) as caught:
        Context(**options)
    assert [words for words in said if words not in str(caught.value)] == []


def test_a_document_that_goes_later_does_no_harm(tmp_path):
    ports, hosts = tmp_path / "ports.md", tmp_path / "hosts.md"
    ports.write_text("# Ports\n\nStaging listens on port 8443.")
    hosts.write_text("# Hosts\n\nThe port of staging is on host arcturus.")
    context = Context([ports, str(hosts)])
    assert "8443" in str(context.prompt("Which port does staging listen on?").request)
    ports.unlink()
    context.add({"role": "assistant", "content": "8443."})
    assert "arcturus" in str(context.prompt("And which host is the port of staging on?").request)


CALLS = {
    "offer": lambda: Context().offer(None),
    "add at": lambda: Context().add(ASK, at="yesterday"),
    "compact": lambda: _with(ASK).compact(budget_tokens="8k"),
    "name_model": lambda: Context().name_model(3),
    "a time range": lambda: _with(ASK).prompt("x", time_range="last week"),
    "request strategy": lambda: ContextRequest(strategy=3),
    "request budget": lambda: ContextRequest(budget=3),
    "request thread": lambda: ContextRequest(thread=3),
    "request namespace": lambda: ContextRequest(namespace=3),
    "strategy": lambda: ContextStrategy(3),
    "strategy by a bool": lambda: ContextStrategy({"hot": True}),
    "strategy of no names": lambda: ContextStrategy.only(3),
    "budget": lambda: Budget(compact_to=True),
    "section id": lambda: Section(3, "x", Provenance("wiki")),
    "section provenance": lambda: Section("a", "x", "wiki"),
    "provenance": lambda: Provenance(3),
    "provenance of None": lambda: Provenance("wiki", items=None),
    "provenance of one text": lambda: Provenance("wiki", items="mem_1"),
    "provenance of a number": lambda: Provenance("wiki", parents=(3,)),
    "provenance of a list": lambda: Provenance("wiki", items=([],)),
    "provenance from a number": lambda: Provenance("wiki", origin=3),
    "provenance at a day's name": lambda: Provenance("wiki", time="2026-02-17"),
    "section of bytes": lambda: Section("a", b"x", Provenance("wiki")),
    "section of more tokens than a budget": lambda: Section(
        "a", "x", Provenance("wiki"), tokens=2**53 + 1
    ),
    "section of no least tokens": lambda: Section("a", "x", Provenance("wiki"), min_tokens=None),
    "tool's words": lambda: ToolDef("ls", 3),
    "tool of less than no tokens": lambda: ToolDef("ls", tokens=-1),
    "tool of more tokens than a budget": lambda: ToolDef("ls", tokens=2**53 + 1),
    "tool of half a token": lambda: ToolDef("ls", tokens=0.5),
    "echoes": lambda: RemoveEchoes(least_characters=10**400),
    "tool": lambda: ToolDef(3),
    "history": lambda: History(3),
    "history tokens": lambda: History((ASK,), tokens="7"),
    "history indices": lambda: History((ASK,), entry_indices=None),
    "history format": lambda: History((ASK,), "cohere"),
    "compile": lambda: rehydrate.compile("x"),
    "compile for": lambda: rehydrate.compile(PromptIR(), "openai"),
    "compile by": lambda: rehydrate.compile(PromptIR(ContextRequest("x")), passes=[3]),
    "lint budget": lambda: rehydrate.lint([ASK], budget=3),
    "lint model": lambda: rehydrate.lint([ASK], model=3),
    "lint rules": lambda: rehydrate.lint([ASK], rules="echo"),
    "simulate": lambda: rehydrate.cost.simulate(3),
    "simulate what": lambda: rehydrate.cost.simulate([3], model="claude-sonnet-4-5"),
    "prefix report": lambda: rehydrate.cost.prefix_report(3, 4),
    "load_model": lambda: rehydrate.load_model(3),
    "Memory.open": lambda: Memory.open(3),
    "Redactor": lambda: rehydrate.memory.Redactor(3),
    "LoadMemory": lambda: rehydrate.memory.LoadMemory(3),
    "MemoryOriginals": lambda: rehydrate.prompt.MemoryOriginals(3),
    "ContextJIT": lambda: ContextJIT(3),
}


def _with(*entries: Any) -> Context:
    context = Context()
    context.add(*entries)
    return context


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_an_error_of_this_package(name):
    with pytest.raises(InvalidArgumentError, match=r"; |, "):
        CALLS[name]()


def test_a_memory_takes_texts_only(tmp_path):
    with (
        Memory.open(tmp_path / "m.db", namespace="a") as memory,
        pytest.raises(InvalidArgumentError, match="texts is of type int"),
    ):
        memory.add(3)


# Entries of another provider's


FOREIGN = {
    "chat's calls in a context for Anthropic": ("anthropic", CALLING, "openai_chat"),
    "chat's results too": (
        "anthropic",
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        "openai_chat",
    ),
    "calls next to thinking": (
        "anthropic",
        {**CALLING, "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]},
        "openai_chat",
    ),
    "Responses' parts in a context for Anthropic": (
        "anthropic",
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        "openai_responses",
    ),
    "Anthropic's calls in a context for chat": ("openai_chat", USE, "anthropic"),
    "Anthropic's calls in a context for Responses": ("openai_responses", USE, "anthropic"),
    "chat's calls in a context for Responses": ("openai_responses", CALLING, "openai_chat"),
    "a result without an id": ("anthropic", {"role": "tool", "content": "ok"}, "openai_chat"),
    "a function's result": (
        "openai_responses",
        {"role": "function", "name": "ls", "content": "ok"},
        "openai_chat",
    ),
    "chat's refusals": (
        "anthropic",
        {"role": "assistant", "content": None, "refusal": "No."},
        "openai_chat",
    ),
    "chat's parts in a context for Responses": (
        "openai_responses",
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        "openai_chat",
    ),
    "Responses' refusals in a context for chat": (
        "openai_chat",
        {**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]},
        "openai_responses",
    ),
    "Responses' messages of text": (
        "openai_chat",
        {**MESSAGE, "content": "hi"},
        "openai_responses",
    ),
    "Responses' items": (
        "anthropic",
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        "openai_responses",
    ),
    "LangChain's messages": ("anthropic", HumanMessage("hi"), "langchain"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_an_entry_of_another_provider_is_refused_when_it_is_added(case):
    provider, entry, other = FOREIGN[case]
    context = Context(provider=provider)
    first = HumanMessage("Which port?") if other == "langchain" else ASK
    context.add(ASK)
    with pytest.raises(InvalidMessageError, match=f"format='{other}'") as caught:
        context.add(ASK, entry)
    assert caught.value.index == 1
    assert context.history == [ASK]
    named = Context(provider=provider, format=other)
    named.add(first, entry)
    assert named.history == [first, entry]


WORDLESS = {
    "Gemini's": ({"role": "user", "parts": [{"text": "hi"}]}, "format='gemini'"),
    "Bedrock's": ({"role": "user", "content": [{"text": "hi"}]}, r"content\[0\].*name its type"),
}


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("whose", WORDLESS)
def test_an_entry_that_no_provider_reads_is_refused_when_it_is_added(provider, whose):
    entry, said = WORDLESS[whose]
    with pytest.raises(InvalidMessageError, match=said):
        Context(provider=provider).add(entry)


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_other_keys_of_chat_are_not_sent_to_those_that_refuse_them(provider):
    dumped = {"role": "assistant", "content": "8443.", "refusal": None, "tool_calls": None}
    dumped |= {"annotations": [], "audio": None, "function_call": None}
    context = Context(provider=provider)
    context.add(ASK, dumped)
    sent = context.prompt("And the host?").request
    assert (sent.get("messages") or sent["input"])[1] == {"role": "assistant", "content": "8443."}
    assert context.history[1] is dumped
    history = History((ASK, dumped, ASK), provider)
    sent = rehydrate.compile(PromptIR(ContextRequest("x"), history=history), provider).request
    assert (sent.get("messages") or sent["input"])[1] == {"role": "assistant", "content": "8443."}


@pytest.mark.parametrize("role", ["human", "critic", "User"])
def test_a_role_that_the_provider_does_not_know_is_refused_when_it_is_added(role):
    with pytest.raises(InvalidMessageError, match=repr(role)):
        Context().add({"role": role, "content": "hi"})


def test_what_gateways_write_and_what_all_providers_take_is_added():
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    spoken = {"role": "assistant", "content": [thought, {"type": "text", "text": "8443."}]}
    for provider in ("anthropic", "openai_chat"):
        context = Context(provider=provider)
        context.add(ASK, spoken, {"role": "system", "content": "Be brief."})
        assert len(context.history) == 3


# Unknown roles


UNKNOWN = {
    "all of another's words": ("human ai human ai", 0, "did you mean 'user'"),
    "names": ("alice bob alice", 0, "name who speaks"),
    "in capitals": ("User Assistant User", 0, "did you mean 'user'"),
    "half of them": ("user ai user ai user", 1, "did you mean 'assistant'"),
    "one of them": ("user assistant critic assistant user", 2, "name who speaks"),
    "all but the system": ("system human human", 1, "did you mean 'user'"),
}
DOORS = {
    "compact": lambda talk: rehydrate.compact_context(talk, target_ratio=0.05),
    "detect": rehydrate.detect_format,
    "hydrate": lambda talk: rehydrate.hydrate("And now?", messages=talk),
    "lint": lambda talk: rehydrate.lint([*talk]),
    "add": lambda talk: _with(*talk),
    "add to chat": lambda talk: Context(provider="openai_chat").add(*talk),
    "add plain": lambda talk: Context(format="plain").add(*talk),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_role_is_refused_and_never_emptied(case, door):
    roles, index, said = UNKNOWN[case]
    talk = [{"role": role, "content": f"words of {role}"} for role in roles.split()]
    with pytest.raises(InvalidMessageError, match=said) as caught:
        DOORS[door](talk)
    assert caught.value.index == index
    assert repr(talk[index]["role"]) in str(caught.value)


@pytest.mark.parametrize("door", sorted(DOORS.keys() - {"detect"}))
def test_an_empty_role_is_said_to_be_empty(door):
    with pytest.raises(InvalidMessageError, match="role is an empty string"):
        DOORS[door]([{"role": "user", "content": "Hi."}, {"role": "", "content": "Hi."}])


@pytest.mark.parametrize("case", UNKNOWN)
def test_validate_finds_every_unknown_role(case):
    roles, index, _ = UNKNOWN[case]
    talk = [{"role": role, "content": f"words of {role}"} for role in roles.split()]
    found = [each.index for each in rehydrate.validate(talk) if each.rule == "unknown_role"]
    assert found[0] == index
    known = {"system", "user", "assistant"}
    assert found == [place for place, one in enumerate(talk) if one["role"] not in known]


def test_a_role_that_is_a_whole_text_is_named_by_its_ends():
    with pytest.raises(InvalidMessageError) as caught:
        rehydrate.compact_context([ASK, {"role": "x" * 100_000, "content": "hi"}])
    assert len(str(caught.value)) < 250


def test_a_role_that_the_scoring_knows_is_taken():
    talk = [ASK, {"role": "critic", "content": "meh"}]
    with pytest.raises(InvalidMessageError, match=r"Scoring\(structural="):
        rehydrate.compact_context(talk)
    scoring = rehydrate.Scoring(structural={"critic": 0.5})
    assert rehydrate.compact_context(talk, target_ratio=1.0, scoring=scoring).messages == talk


# The shared checks of arguments refuse what looks like a right value, and name it.


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0, 257])
def test_a_whole_number_is_not_a_bool_and_is_in_its_range(value: Any):
    with pytest.raises(InvalidArgumentError, match=r"threads is .*; pass a whole number from 1 to"):
        check_whole("threads", value, 1, 256)


def test_the_ends_of_a_range_belong_to_it_and_none_only_where_it_may():
    check_whole("threads", 1, 1, 256)
    check_whole("threads", 256, 1, 256)
    check_whole("threads", None, 1, or_none=True)
    with pytest.raises(InvalidArgumentError, match="whole number from 1 up, or None"):
        check_whole("threads", 0, 1, or_none=True)


@pytest.mark.parametrize("value", [True, -0.1, 1.1, float("nan"), "1", None])
def test_a_share_is_a_number_from_0_to_1(value: Any):
    with pytest.raises(InvalidArgumentError, match="pass a number from 0 to 1"):
        check_share("trust", value)


@pytest.mark.parametrize("value", ["text", b"text", {"a": 1}, 3, None])
def test_one_thing_is_no_list_of_things(value: Any):
    with pytest.raises(
        InvalidArgumentError, match=f"tools is of type {type(value).__name__}; pass"
    ):
        check_list("tools", value, "pass a list")


def test_every_method_must_be_there():
    check_methods("names", [], "append pop", "pass a list")
    with pytest.raises(InvalidArgumentError, match="names is of type tuple; pass a list"):
        check_methods("names", (), "count append", "pass a list")


# An exception's text reaches no model, no report and no log, unless it is enabled.


NOVEL = Archive(dropped=False, novel=True)

SECRET = "hunter2"
WORDS = f"db down, password={SECRET}"


def fails(*_args: object, **_more: object) -> str:
    raise RuntimeError(WORDS)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of a program that logs everything."""
    caplog.set_level(logging.DEBUG)
    yield caplog


def test_a_source_that_fails_tells_the_model_its_type_alone(logged):
    context = Context(sources=[fails], timeout=None)
    jit = ContextJIT(context, timeout=None)
    prompt = context.prompt("When is high tide?")
    call = {"type": "tool_use", "id": "t1", "name": "request_context", "input": {"query": "tide"}}
    answered = jit.answer(call)
    assert "fails gave no answer (RuntimeError)" in answered.content
    shown = [answered.content, str(answered.result), json.dumps(prompt.request), str(prompt.ir)]
    shown += [prompt.ir.to_json(), str(prompt.ir.explain()), logged.text]
    assert not [text for text in shown if SECRET in text]


def test_the_report_of_a_source_names_it_and_the_type():
    (report,) = [each for each in hydrate("x", [fails]).meta.sources if each.status == "failed"]
    assert (report.name, report.detail) == ("fails", "RuntimeError")


def test_a_store_of_originals_that_fails_is_degraded_by_its_type(logged):
    class Broken:
        put = get = fails

    entries = [
        {"role": "user", "content": "Read it."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "Read", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "word " * 50_000}],
        },
    ]
    made = compile_ir(hydrate("x", messages=entries), "anthropic", originals=Broken())
    assert made.ir.meta.degraded
    assert SECRET not in str(made) + logged.text


def test_an_embedder_or_a_memory_that_fails_is_degraded_by_its_type(logged):
    class Broken:
        recalls = "texts"
        recall = add = fails

    messages = [{"role": "user", "content": f"Word {n}. " * 40} for n in range(20)]
    made = compact_context(
        messages, "word", embedder=fails, memory=Broken(), archive=NOVEL, target_ratio=0.2
    )
    assert len(made.stats.degraded) > 1
    assert SECRET not in str(made.stats) + logged.text


def test_a_tool_that_fails_tells_the_model_its_type_alone(logged):
    def berths() -> str:
        """Free berths."""
        raise RuntimeError(WORDS)

    from rehydrate.testing import ScriptedModel, call

    model = ScriptedModel([call("berths"), "None."])
    turn = Interpreter(model, tools=[berths], jit=False).run(Context(), "Which?")
    assert "berths failed (RuntimeError)" in str(turn.history)
    assert SECRET not in str(turn.history) + json.dumps(turn.to_dict()) + logged.text


def test_a_memory_tool_that_fails_names_no_file(tmp_path):
    with rehydrate.Memory.open(tmp_path / "secret-place.db", namespace="a") as memory:
        tool = LoadMemory(memory)
    call = {"id": "c", "name": "load_memory", "input": {"query": "x"}}
    result = tool.handle({"type": "tool_use", **call})
    assert "failed (StoreClosedError)" in str(result)
    assert "secret-place" not in str(result)


def test_an_rpc_client_reads_the_type_of_what_failed(monkeypatch, logged):
    from rehydrate.rpc import Server

    monkeypatch.setattr("rehydrate.rpc.tool.call", fails)
    params = {"name": "compact_context", "arguments": {"messages": []}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    said = Server().answer(request)
    assert "RuntimeError" in said
    assert SECRET not in said + logged.text


def test_events_without_content_have_the_type_of_an_error():
    event = Retrying(1, RuntimeError(WORDS), 2, 0.5)
    assert event.to_dict(with_content=False)["error"] == "RuntimeError"


def test_telemetry_that_fails_logs_the_type(logged):
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

    class Broken(SpanProcessor):
        on_start = on_end = fails

    provider = TracerProvider()
    provider.add_span_processor(Broken())
    model, telemetry = rehydrate.testing.ScriptedModel(["4."]), rehydrate.agent.Telemetry(provider)
    agent = Interpreter(model, jit=False, on_event=telemetry)
    assert agent.run(Context(), "Which?").answer == "4."
    assert "telemetry failed (RuntimeError)" in logged.text
    assert SECRET not in logged.text


def test_who_asks_for_the_text_by_the_loggers_own_level_gets_it(caplog):
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    hydrate("x", [fails])
    assert WORDS in caplog.text
