"""RehydrateHooks in the real Claude Code: a compaction, a long result, and asking back."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import ClaudeSDKClient, create_sdk_mcp_server, tool

from rehydrate import Memory
from rehydrate.integrations.claude_agent_sdk import RehydrateHooks, RehydrateWarning
from rehydrate.integrations.claude_code import EVENTS, Records
from tests.integrations import claude_cli, harbour
from tests.integrations.claude_cli import Machine
from tests.integrations.claude_hooks import context_of, user, write_lines
from tests.provider import Call, ScriptedReply, StrictProvider

RULE = "We decided: the pilot of the ferry Aurora is Ms Lindqvist."
LONG = "".join(f"Berth {n}: {n} metres deep, its tug is T-{n}.\n" for n in range(1_500))
WHOLE = re.compile(r"handle '(\w+)' and thread '([\w-]+)'")


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[RehydrateHooks]:
    hooks = RehydrateHooks(
        cwd=tmp_path / "one" / "work",
        folder=tmp_path / "data",
        timeout=200,  # a busy machine makes no hook late
    )
    yield hooks
    hooks.close()


@tool("book", "The harbour's book.", {"type": "object", "properties": {}})
async def book(_arguments: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": LONG}]}


def acting(body: Any, wire: str) -> ScriptedReply:
    """Call the tool that the user names; write a summary that has lost everything."""
    said = harbour.since_user(body)
    asked = harbour.text_of(said[0])
    if len(said) == 1 and "LOOK" in asked:
        return ScriptedReply("I look.", calls=(Call("mcp__harbour__book", {}),))
    if len(said) == 1 and "RECALL" in asked:
        found = Call("mcp__rehydrate__search_memory", {"query": "pilot of the Aurora"})
        return ScriptedReply("I ask.", calls=(found,))
    return ScriptedReply("<summary>We worked.</summary>")


def sent(provider: StrictProvider) -> list[str]:
    """Return the messages of each request as text; it also has tokens counted."""
    return [
        json.dumps((each.body or {})["messages"])
        for each in provider.requests
        if each.path == "/v1/messages"
    ]


def talk(hooks: RehydrateHooks, machine: Machine, *prompts: str) -> StrictProvider:
    async def run(provider: StrictProvider) -> None:
        harbours = create_sdk_mcp_server("harbour", tools=[book])
        options = machine.options(
            provider,
            hooks=hooks.hooks,
            mcp_servers={"harbour": harbours, **hooks.mcp_servers},
        )
        options.allowed_tools += ["mcp__harbour__book", *hooks.allowed_tools]
        async with ClaudeSDKClient(options) as client:
            for prompt in prompts:
                await client.query(prompt)
                async for _ in client.receive_response():
                    pass

    with StrictProvider(acting) as provider:
        claude_cli.run(run(provider))
        assert provider.refusals == []
        return provider


needs_cli = pytest.mark.skipif(not claude_cli.IS_THERE, reason="there is no Claude Code")


@needs_cli
def test_what_a_compaction_lost_comes_back_and_the_model_can_ask(hooks, tmp_path):
    machine = Machine(tmp_path / "one")
    provider = talk(hooks, machine, RULE, "/compact", "RECALL the pilot.")
    *_, after, asked = sent(provider)
    assert "We worked." in after
    assert "[rehydrate: compaction 1, " in after and "Ms Lindqvist" in after
    assert "Ms Lindqvist" in json.dumps(json.loads(asked)[-1])
    with Records(hooks.home) as records:
        (row,) = records.list()
    assert row.compacted.trigger == "manual" and row.compacted.summary_chars
    with Memory.open(hooks.home.memory, namespace=hooks.project) as memory:
        assert any("Ms Lindqvist" in item.text for item in memory.list())


@needs_cli
def test_a_prompt_of_a_later_session_is_given_what_was_decided(hooks, tmp_path):
    machine = Machine(tmp_path / "one")
    talk(hooks, machine, RULE, "/compact")
    later = talk(hooks, machine, "Who is the pilot of the ferry Aurora?")
    assert "Ms Lindqvist" in sent(later)[-1]


@needs_cli
def test_a_long_result_is_shown_in_part_and_fetched_whole(hooks, tmp_path):
    machine = Machine(tmp_path / "one")
    provider = talk(hooks, machine, "LOOK at the book.", "/compact", RULE, "/compact")
    shown = sent(provider)[1]
    assert "Berth 3:" in shown and "Berth 700:" not in shown
    handle, thread = WHOLE.findall(shown)[0]
    tools = {each.name: each for each in hooks.mcp_tools}

    async def call(name: str, **arguments: Any) -> str:
        answer = await tools[name].handler(arguments)
        assert not answer["is_error"], answer
        return str(answer["content"][0]["text"])

    whole = asyncio.run(call("fetch_whole", handle=handle, thread=thread, offset=30_000))
    assert whole.splitlines()[1] in LONG
    found = asyncio.run(call("request_context", query="pilot of the Aurora", thread=thread))
    assert "Ms Lindqvist" in found


def test_the_options_get_every_event_and_the_tools(hooks):
    assert set(hooks.hooks) == set(EVENTS)
    assert hooks.allowed_tools == [f"mcp__rehydrate__{each.name}" for each in hooks.mcp_tools]
    (name,) = hooks.mcp_servers
    assert name == "rehydrate"


def call_of(hooks: RehydrateHooks, event: str, payload: Any) -> Any:
    (matcher,) = hooks.hooks[event]
    (callback,) = matcher.hooks
    return asyncio.run(callback(payload, None, {"signal": None}))


def test_the_hooks_are_for_the_tools_that_the_plugins_are_for(hooks):
    """A file that the model reads is not cut: it pages that itself."""
    (of_tools,) = hooks.hooks["PostToolUse"]
    named = ("Bash", "Read", "Edit", "Write", "mcp__harbour__book")
    assert [each for each in named if re.fullmatch(of_tools.matcher, each)] == [
        "Bash",
        "mcp__harbour__book",
    ]


def test_what_is_put_back_names_the_thread_that_can_be_asked(hooks, tmp_path):
    transcript = write_lines(tmp_path / "s-1.jsonl", [user(RULE)])
    given = {"session_id": "s-1", "transcript_path": str(transcript)}
    assert call_of(hooks, "PreCompact", {**given, "trigger": "auto"}) == {}
    text = context_of(call_of(hooks, "SessionStart", {**given, "source": "compact"}))
    assert "request_context of the MCP server rehydrate, with thread 's-1'" in text


def test_the_folder_that_is_named_is_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/work/other")
    monkeypatch.chdir(tmp_path)
    for cwd in (tmp_path, "."):
        assert RehydrateHooks(cwd=cwd).project == tmp_path.resolve().as_posix()
    assert RehydrateHooks().project == "/work/other"


def test_a_hook_that_fails_warns_and_leaves_the_session_as_it_is(tmp_path):
    (tmp_path / "data").write_text("no folder", encoding="utf-8")
    hooks = RehydrateHooks(cwd=tmp_path, folder=tmp_path / "data", timeout=200)
    payload = {"session_id": "s", "tool_name": "Bash", "tool_response": {"stdout": LONG}}
    with pytest.warns(RehydrateWarning, match="the hook for PostToolUse did nothing"):
        assert call_of(hooks, "PostToolUse", payload) == {}
    assert call_of(hooks, "UserPromptSubmit", {"prompt": "Hello?"}) == {}
    assert call_of(hooks, "SessionStart", {"source": "startup"}) == {}
    hooks.close()


def test_a_hook_that_takes_too_long_is_not_waited_for(tmp_path, monkeypatch):
    import threading

    ends = threading.Event()
    monkeypatch.setattr(
        "rehydrate.integrations.claude_agent_sdk.answer", lambda *_, **__: ends.wait(60)
    )
    hooks = RehydrateHooks(cwd=tmp_path, folder=tmp_path / "data", timeout=0.05)
    with pytest.warns(RehydrateWarning, match="the hook for PreCompact did nothing"):
        assert call_of(hooks, "PreCompact", {}) == {}
    ends.set()


def test_a_tool_that_cannot_answer_says_so(hooks):
    tools = {each.name: each for each in hooks.mcp_tools}
    answer = asyncio.run(tools["fetch_whole"].handler({"handle": "r_1", "thread": "t"}))
    assert answer["is_error"] and "fetch_whole" in answer["content"][0]["text"]
