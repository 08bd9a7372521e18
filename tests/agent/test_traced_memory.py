"""Memories that are traced: a span for each operation, by the conventions' memory spans."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from rehydrate import Memory
from rehydrate.agent import Telemetry, telemetry as telemetry_module
from rehydrate.cli import hosts, main
from rehydrate.errors import (
    InvalidArgumentError,
    OtherNamespaceError,
    StoreError,
    UnknownHandleError,
)
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.stores import Stores
from rehydrate.integrations.mcp_server.tools import TOOLS, answer
from rehydrate.memory import LoadMemory
from tests.agent.recorded import Recorder
from tests.agent.script import BACKENDS
from tests.agent.test_telemetry_current import BrokenProcessor

ALICE = "alice"
STAGING = "The staging server listens on port 8443."
KEY = "sk-ant-api03-" + "Ab3" * 31 + "AA"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", namespace=ALICE) as opened:
        yield opened


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def every_operation(memory: Memory) -> str:
    """Do what makes spans; return the handle of the first item."""
    first, second = memory.add([STAGING, "Lunch was at noon."], source="notes.md")
    memory.search("which port does staging use?", 1)
    memory.recall(["staging port", "noon"], 1)
    memory.set_tier([first.handle, second.handle], "cold")
    memory.link(first.handle, "supersedes", second.handle)
    memory.forget(second.handle)
    memory.purge(source="notes.md")
    return first.handle


def test_each_operation_is_a_span_of_the_conventions(memory: Memory) -> None:
    recorder = Recorder()
    handle = every_operation(recorder.telemetry.trace_memory(memory))
    found = []
    for span in recorder.spans:
        shown = attributes(span)
        assert span.kind is SpanKind.INTERNAL  # the store is in this process
        assert span.name == shown.pop("gen_ai.operation.name")
        assert shown.pop("gen_ai.memory.store.id") == ALICE
        short = {name.removeprefix("gen_ai.memory."): each for name, each in shown.items()}
        found.append((span.name, short))
    (_, last) = found[5]
    assert found == [
        ("create_memory", {"record.count": 2}),
        ("search_memory", {"record.count": 1}),
        ("search_memory", {"record.count": 2}),
        ("update_memory", {"record.count": 2}),
        ("update_memory", {"record.count": 1, "record.id": handle}),
        ("delete_memory", {"record.count": 1, "record.id": last["record.id"]}),
        ("delete_memory", {"record.count": 1, "rehydrate.memory.purged": "source"}),
    ]


def test_a_memory_that_is_traced_answers_as_it_does_without(tmp_path: Path) -> None:
    answers = []
    for name, telemetry in (("plain", None), ("traced", Telemetry())):
        with Memory.open(tmp_path / f"{name}.db", namespace=ALICE, redact=False) as opened:
            memory = opened if telemetry is None else telemetry.trace_memory(opened)
            (one,) = memory.add(STAGING, source="notes.md")
            (hit,) = memory.search("staging")
            (row,) = memory.recall("staging")
            answers.append(
                [
                    one.created,
                    (hit.snippet, hit.score),
                    [round(near.similarity, 6) for near in row],
                    memory.set_tier(one.handle, "cold"),
                    memory.get(one.handle).text,
                    memory.purge(everything=True),
                ]
            )
    assert answers[0] == answers[1]


def test_texts_are_recorded_only_where_content_is_and_without_their_secrets(memory: Memory) -> None:
    for content in (False, True):
        recorder = Recorder(content=content)
        traced = recorder.telemetry.trace_memory(memory)
        (added,) = traced.add(f"{STAGING} Its key is {KEY}.")
        traced.search(f"staging {KEY}")
        said = "".join(span.to_json() for span in recorder.spans)
        assert KEY not in said
        assert ("8443" in said) is content
        assert added.redactions
    stored = memory.get(added.handle).text
    create, search = [attributes(span) for span in recorder.spans]
    record = {"id": added.handle, "content": stored}
    assert json.loads(create["gen_ai.memory.records"]) == [record]
    (hit,) = json.loads(search["gen_ai.memory.records"])
    assert {name: hit[name] for name in record} == record
    assert hit.keys() == {"id", "content", "score"}
    assert search["gen_ai.memory.query.text"] == memory.redactor(f"staging {KEY}").text
    with pytest.raises(InvalidArgumentError, match="query is of type NoneType"):
        traced.search(None)  # type: ignore[arg-type]
    assert "gen_ai.memory.query.text" not in attributes(recorder.spans[-1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_is_a_child_of_the_current_span_also_in_a_worker_thread(
    memory: Memory, backend: str
) -> None:
    recorder = Recorder()
    traced = recorder.telemetry.trace_memory(memory)
    tracer = recorder.tracers.get_tracer("a web server")

    async def main() -> None:
        await traced.aadd(STAGING)
        await traced.asearch("staging")
        await traced.arecall("staging")
        (added,) = await traced.aadd("Lunch was at noon.")
        await traced.aset_tier(added.handle, "hot")
        await traced.alink(added.handle, "contradicts", added.handle)
        await traced.aforget(added.handle)
        await traced.apurge(everything=True)

    with tracer.start_as_current_span("GET /") as request:
        anyio.run(main, backend=backend)
        assert trace.get_current_span() is request
    spans = [span for span in recorder.spans if span.name != "GET /"]
    assert len(spans) == 8
    assert {span.parent.span_id for span in spans if span.parent} == {request.context.span_id}


def test_what_fails_is_an_error_with_its_class_and_no_message(memory: Memory) -> None:
    recorder = Recorder()
    traced = recorder.telemetry.trace_memory(memory)
    within = traced.within(ALICE)
    with pytest.raises(UnknownHandleError):
        traced.link("mem_" + "0" * 26, "supersedes", "mem_" + "1" * 26)
    with pytest.raises(OtherNamespaceError):
        within.search("staging", namespace="bob")
    with pytest.raises(InvalidArgumentError):
        traced.forget(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        traced.add(7)  # type: ignore[arg-type]
    assert [attributes(span)["error.type"] for span in recorder.spans] == [
        f"rehydrate.errors.{name}"
        for name in (
            "UnknownHandleError",
            "OtherNamespaceError",
            "InvalidArgumentError",
            "InvalidArgumentError",
        )
    ]
    for span in recorder.spans:
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert not span.events
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_the_tool_of_a_model_and_a_bound_memory_are_traced_too(memory: Memory) -> None:
    recorder = Recorder()
    traced = recorder.telemetry.trace_memory(memory)
    traced.within(ALICE).add(STAGING, source="notes/decisions.md")
    tool = LoadMemory(traced, namespace=ALICE)
    tool.handle({"id": "call_1", "name": "load_memory", "input": {"query": "staging"}})
    tool.handle({"id": "call_2", "name": "load_memory", "input": {"name": "decisions.md"}})
    assert [span.name for span in recorder.spans] == ["create_memory", "search_memory"]


def test_the_memory_of_an_mcp_server_is_traced(tmp_path: Path) -> None:
    recorder = Recorder()
    place = tmp_path / "memory.db"
    stores = Stores(memory=place, namespace=ALICE, telemetry=recorder.telemetry)
    for name, sent in (("add_memory", {"text": STAGING}), ("search_memory", {"query": "staging"})):
        assert not answer(TOOLS[name], stores, sent, Job()).is_error
    stores.close()
    assert [span.name for span in recorder.spans] == ["create_memory", "search_memory"]


@pytest.mark.parametrize(
    "command", [["mcp", "--memory", "m.db", "--namespace", ALICE], ["claude", "mcp"]]
)
def test_both_commands_of_mcp_trace_the_memory_that_they_serve(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()

    def serve(stores: Stores, *_: object) -> None:
        assert not answer(TOOLS["search_memory"], stores, {"query": "staging"}, Job()).is_error
        stores.close()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REHYDRATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hosts, "serve", serve)
    monkeypatch.setattr(telemetry_module, "program_telemetry", lambda: recorder.telemetry)
    assert main(command) == 0
    assert [span.name for span in recorder.spans] == ["search_memory"]


def test_a_memory_in_postgresql_is_traced_as_a_client(postgres: str) -> None:
    recorder = Recorder()
    with Memory.open(postgres, namespace=ALICE) as memory:
        every_operation(recorder.telemetry.trace_memory(memory))
    assert len(recorder.spans) == 7
    for span in recorder.spans:
        assert span.kind is SpanKind.CLIENT
        assert attributes(span)["server.address"] == urlsplit(postgres).hostname
        assert attributes(span)["server.port"] == urlsplit(postgres).port


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://memories@db.example/harbour", ("db.example", 5432)),
        ("postgresql://memories@one.example:5433,two.example:5434/harbour", ("one.example", 5433)),
        ("postgresql:///harbour", (None, None)),
    ],
)
def test_a_store_on_a_server_is_a_client_span_with_its_address(
    url: str, address: tuple[str | None, int | None]
) -> None:
    class Store:
        path = url

        def forget(self, handles: Any, *, namespace: str) -> int:
            raise StoreError(self.path, "it is down", "start it")

    recorder = Recorder()
    memory = recorder.telemetry.trace_memory(Memory(Store(), namespace=ALICE))  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        memory.forget("mem_" + "0" * 26)
    (span,) = recorder.spans
    assert span.kind is SpanKind.CLIENT
    shown = attributes(span)
    assert (shown.get("server.address"), shown.get("server.port")) == address
    assert shown["error.type"] == "rehydrate.errors.StoreError"


@pytest.mark.parametrize("where", ["start", "end"])
def test_what_an_exporter_throws_breaks_no_operation_and_is_said_once(
    memory: Memory, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.tracers.add_span_processor(BrokenProcessor(where))  # type: ignore[no-untyped-call]
    with caplog.at_level(logging.WARNING):
        every_operation(recorder.telemetry.trace_memory(memory))
    assert len([each for each in caplog.records if each.name.startswith("rehydrate")]) == 1


def test_the_memory_that_was_given_goes_on_without_spans(memory: Memory) -> None:
    recorder = Recorder()
    traced = recorder.telemetry.trace_memory(memory)
    memory.add(STAGING)
    assert recorder.spans == []
    assert traced.search("staging")[0].snippet == STAGING
    with pytest.raises(InvalidArgumentError, match=r"memory is .*pass a rehydrate\.Memory"):
        recorder.telemetry.trace_memory("memory.db")  # type: ignore[arg-type]
