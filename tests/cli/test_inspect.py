"""`rehydrate inspect`: sessions of every format and IRs, as a table, a page, or JSON."""

from __future__ import annotations

import json

import pytest

from rehydrate.memory import Memory
from rehydrate.prompt import CompiledPrompt, Law, PromptIR
from tests.page.reading import Page
from tests.prompt.test_verify import FOUND, LAWFUL

ANTHROPIC = [
    {"role": "user", "content": "Which port?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "g", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "8443"}]},
]
CHAT = [
    {"role": "user", "content": "Which port?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "g", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": "8443"},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which port?"}]},
    {"type": "function_call", "id": "f", "call_id": "c", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "8443"},
]


def test_without_a_page_the_prompt_is_a_table(run, write, chat):
    write("chat.json", chat)
    done = run("inspect", "chat.json")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    for part in ("of 50,000 tokens", "history[", "kept", "source", "pass", "breaks no law"):
        assert part in text, part


@pytest.mark.parametrize("entries", [ANTHROPIC, CHAT, RESPONSES], ids=["a", "o", "r"])
def test_a_session_of_every_provider_has_a_page(run, write, tmp_path, entries):
    write("session.json", entries)
    done = run("inspect", "session.json", "-o", "page.html", "--query", "the port")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"wrote page.html: the prompt of session.json, ")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    for part in ("8443", "keeps every law", "the port", "session.json", "Scores", "Passes"):
        assert part in page.text, part


def test_a_transcript_has_a_page_with_the_scores_of_its_units(run, write, tmp_path, transcript):
    write("session.jsonl", transcript)
    done = run("inspect", "session.jsonl", "-o", "page.html", "--budget", "1k")
    assert done.returncode == 0
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "of 1,000" in text and "Left out" in text and "tool use" in text


def test_the_json_is_an_ir_that_can_be_inspected_again(run, write, tmp_path, chat):
    write("chat.json", chat)
    first = run("inspect", "chat.json", "--json", "-o", "one.html")
    ir = PromptIR.from_json(first.stdout)
    assert list(ir.history.entries) == chat and ir.verify() == []
    (tmp_path / "ir.json").write_bytes(first.stdout)
    second = run("inspect", "ir.json", "--json")
    assert second.stdout == first.stdout
    done = run("inspect", "-", "-o", "-", stdin=first.stdout)
    assert Page(done.stdout.decode()).text.startswith("\n")


def test_memory_knowledge_and_the_rest_of_a_request_come_in(run, write, tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add("Staging listens on port 8443.")
    write("notes.md", "# Ports\nThe staging port is 8443 since March.\n")
    tool = {"name": "grep", "description": "Search.", "input_schema": {"type": "object"}}
    write("request.json", {"model": "m", "system": [{"type": "text", "text": "Be careful."}],
                           "tools": [tool], "messages": ANTHROPIC[:1]})  # fmt: skip
    arguments = ["--memory", "m.db", "--namespace", "alice", "--knowledge", "notes.md"]
    done = run("inspect", "request.json", "--query", "staging port", "--json", *arguments)
    assert done.stderr == b""
    ir = PromptIR.from_json(done.stdout)
    assert [tool.name for tool in ir.tools] == ["grep"]
    assert ir.sections[0].content == "Be careful."
    sources = {section.provenance.source for section in ir.sections}
    assert "knowledge" in sources and sources & {"semantic", "temporal", "hot"}
    assert ir.verify() == []


def test_inspecting_does_not_write_to_the_memory(run, write, tmp_path, transcript):
    write("session.jsonl", transcript)
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add("Staging listens on port 8443.")
        before = memory.stats().items
    query = ["--query", "port of staging", "--budget", "1k", "--namespace", "alice"]
    run("inspect", "session.jsonl", *query, "--memory", "m.db")
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        assert memory.stats().items == before
        assert [item.uses for item in memory.list()] == [0]
    done = run("inspect", "session.jsonl", *query, "--memory", "mistyped.db")
    assert done.returncode == 2 and b"mistyped.db: No such file" in done.stderr
    assert not (tmp_path / "mistyped.db").exists()


def test_broken_laws_are_named_in_the_table(run, write):
    write("ir.json", LAWFUL.with_sections([FOUND, FOUND]).to_json())
    text = run("inspect", "ir.json").stdout.decode()
    assert "two sections have the id 'mem_1'" in text and f"({Law.ONCE})" in text


def test_a_compiled_prompt_can_be_inspected(run, write):
    write("compiled.json", CompiledPrompt("anthropic", {"messages": []}, LAWFUL, ()).to_json())
    assert b"tools.grep" in run("inspect", "compiled.json").stdout


def test_what_cannot_fit_is_shown_as_it_is_with_a_warning(run, write, chat):
    write("chat.json", [chat[0], {"role": "user", "content": "word " * 900}])
    done = run("inspect", "chat.json", "--budget", "100", "--hard", "200")
    assert done.returncode == 0
    assert b"warning:" in done.stderr and b"over the hard budget" in done.stdout


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ir.json", '{"rehydrate": "prompt_ir", "version": 9}', "upgrade rehydrate"),
        ("ir.json", '{"rehydrate": "prompt_ir", "version": 1, "a": 1}', "unknown field 'a'"),
        ("ir.json", '{"rehydrate": "soup", "version": 1}', "'soup'"),
        ("x.json", "nonsense", "is not JSON"),
        ("x.jsonl", '{"role": "user", "content": "hi"}\n{"role": 3}\n', "line 2"),
        ("x.json", "[]", "no message"),
    ],
)
def test_what_cannot_be_inspected_is_one_line(run, write, name, text, said):
    write(name, text)
    done = run("inspect", name)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ir.json", "--query", "x"], "--query makes a prompt of a conversation"),
        (["ir.json", "-o", "ir.json"], "would overwrite the input"),
        (["chat.json", "--knowledge", "ir.json", "-o", "ir.json"], "would overwrite the input"),
        (["ir.json", "--json", "-o", "-"], "both write to standard output"),
        (["ir.json", "--budget", "0"], "a number of tokens"),
        (["none.json"], "no such file"),
    ],
)
def test_arguments_that_do_not_go_together_are_one_line(run, write, arguments, said):
    write("ir.json", LAWFUL.to_json())
    done = run("inspect", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert said in line


def test_a_conversation_that_speaks_of_rehydrate_is_still_one(run, write):
    write("chat.json", {"messages": [{"role": "user", "content": 'what is "rehydrate"?'}]})
    assert run("inspect", "chat.json").returncode == 0


def test_messages_without_tools_have_no_source_of_tools(run, chat, write):
    write("chat.json", chat)
    meta = json.loads(run("inspect", "chat.json", "--json").stdout)["meta"]
    assert [source["name"] for source in meta["sources"]] == ["history"]
