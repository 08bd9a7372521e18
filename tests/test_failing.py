"""An exception's text reaches no model, no report and no log, unless it is enabled."""

from __future__ import annotations

import json
import logging

import pytest

import rehydrate
from rehydrate import Context, ContextJIT, Interpreter, compact_context, hydrate
from rehydrate._text import LOGGER
from rehydrate.agent import Retrying, Telemetry
from rehydrate.compact import Archive
from rehydrate.memory import LoadMemory
from rehydrate.prompt import compile as compile_ir
from rehydrate.rpc import Server
from rehydrate.testing import ScriptedModel, call as scripted_call

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

    model = ScriptedModel([scripted_call("berths"), "None."])
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
    agent = Interpreter(ScriptedModel(["4."]), jit=False, on_event=Telemetry(provider))
    assert agent.run(Context(), "Which?").answer == "4."
    assert "telemetry failed (RuntimeError)" in logged.text
    assert SECRET not in logged.text


def test_who_asks_for_the_text_by_the_loggers_own_level_gets_it(caplog):
    caplog.set_level(logging.DEBUG, logger=LOGGER)
    hydrate("x", [fails])
    assert WORDS in caplog.text
