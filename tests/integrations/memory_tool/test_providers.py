"""The memory tool in the hands of each provider, of runners of SDKs, and of an agent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rehydrate import Context, Interpreter, Memory
from rehydrate.errors import InvalidArgumentError, StoreClosedError
from rehydrate.integrations.memory_tool import MemoryFiles
from tests.integrations.memory_tool.commands import (
    NOTES,
    TEXT,
    create,
    replace,
    view,
)
from tests.provider import Call, ScriptedReply, StrictProvider


def test_it_is_a_function_of_any_provider(files):
    for provider in ("anthropic", "openai_chat", "openai_responses"):
        assert "str_replace" in json.dumps(MemoryFiles.definition(provider))
    arguments = json.dumps(create())
    chat = {"id": "call_1", "type": "function",
            "function": {"name": "memory", "arguments": arguments}}  # fmt: skip
    assert files.handles(chat)
    assert files.handle(chat) == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": f"File created successfully at: {NOTES}",
    }
    item = {"type": "function_call", "call_id": "c2", "name": "memory", "arguments": arguments}
    assert files.handle(item)["output"] == f"Error: File {NOTES} already exists"
    broken = {**item, "arguments": "{not json"}
    assert files.handle(broken)["output"].startswith("Error: ")
    block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": view("/etc")}
    assert files.handle(block)["is_error"]
    assert not files.handles({**item, "name": "bash"})
    with pytest.raises(InvalidArgumentError):
        files.handle({**item, "name": "bash"})


def test_a_closed_store_is_an_answer_that_shows_no_path(memory, files, path):
    files.run(create())
    memory.close()
    block = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": view()}
    result = files.handle(block)
    assert result["is_error"] and str(path) not in result["content"]
    with pytest.raises(StoreClosedError):
        files.run(view())


def test_a_memory_must_name_a_namespace_and_have_threads(path):
    with Memory.open(path) as memory:
        with pytest.raises(InvalidArgumentError, match="names no namespace"):
            MemoryFiles(memory)

        class Other:
            redactor = None

        other = Memory(Other(), namespace="alice")
        other._owns_store = False
        with pytest.raises(InvalidArgumentError, match="pass threads="):
            MemoryFiles(other)


WRITES = (
    Call("memory", view("/memories")),
    Call("memory", create()),
    Call("memory", create()),
    Call("memory", replace("8443", "9443")),
    Call("memory", {**replace("short", "long"), "path": "/memories/../x"}),
)


def writing(body: Any, wire: str) -> ScriptedReply:
    """View, create, create again, edit, and try to get out; then answer."""
    done = sum(each["role"] == "assistant" for each in body["messages"])
    if done < len(WRITES):
        return ScriptedReply("I note it.", calls=(WRITES[done],))
    return ScriptedReply("Noted.")


def results_of(provider: StrictProvider) -> list[tuple[str, bool]]:
    messages = (provider.requests[-1].body or {})["messages"]
    blocks = [block for each in messages if isinstance(each["content"], list)
              for block in each["content"]]  # fmt: skip
    return [
        (str(block["content"]), bool(block.get("is_error")))
        for block in blocks
        if block["type"] == "tool_result"
    ]


def assert_written(provider: StrictProvider, files: MemoryFiles) -> None:
    assert provider.refusals == []
    assert files.texts() == {NOTES: TEXT.replace("8443", "9443")}
    results = results_of(provider)
    assert [is_error for _, is_error in results] == [False, False, True, False, True]
    assert results[2][0] == f"Error: File {NOTES} already exists"
    assert results[4][0] == "Error: Path /memories/../x would escape /memories directory"


def test_the_tool_runner_of_anthropics_sdk_runs_it(memory):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.integrations.memory_tool import RehydrateMemoryTool

    tool = RehydrateMemoryTool(memory, cache_control={"type": "ephemeral"})
    with (
        StrictProvider(writing) as provider,
        anthropic.Anthropic(api_key="key", base_url=provider.url, max_retries=0) as client,
    ):
        last = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=500,
            tools=[tool],
            thread=False,
            messages=[{"role": "user", "content": "Remember the port."}],
        ).until_done()
        assert last.content[0].text == "Noted."
        assert_written(provider, tool.files)
        tools = (provider.requests[0].body or {})["tools"]
        mark = {"type": "ephemeral"}
        assert tools == [{"type": "memory_20250818", "name": "memory", "cache_control": mark}]
    assert tool.clear_all_memory() == "All memory cleared"
    assert tool.files.texts() == {}


def test_the_async_tool_runner_runs_it(memory):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.integrations.memory_tool import AsyncRehydrateMemoryTool

    tool = AsyncRehydrateMemoryTool(memory)

    async def run(url: str) -> None:
        client = anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0)
        async with client:
            await client.beta.messages.tool_runner(
                model="claude-sonnet-5-5",
                max_tokens=500,
                tools=[tool],
                thread=False,
                messages=[{"role": "user", "content": "Remember the port."}],
            ).until_done()

    with StrictProvider(writing) as provider:
        asyncio.run(run(provider.url))
        assert_written(provider, tool.files)
    assert asyncio.run(tool.clear_all_memory()) == "All memory cleared"


def test_the_commands_of_the_sdks_types_are_taken_too(memory):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.lib.tools import ToolError
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand as Create,
        BetaMemoryTool20250818ViewCommand as View,
    )

    from rehydrate.integrations.memory_tool import RehydrateMemoryTool

    tool = RehydrateMemoryTool(memory)
    made = Create(command="create", path=NOTES, file_text="Hello.")
    assert tool.execute(made) == f"File created successfully at: {NOTES}"
    assert tool.view(View(command="view", path=NOTES)).endswith("\n     1\tHello.")
    with pytest.raises(ToolError, match="already exists"):
        tool.create(made)
    with pytest.raises(ToolError, match="`command` is None"):
        tool.call("nonsense")


def test_an_interpreter_runs_it(memory, files):
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    from rehydrate.agent import AnthropicModel

    async def run(url: str) -> str:
        async with anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0) as client:
            model = AnthropicModel("claude-sonnet-5-5", client=client, max_tokens=500)
            turn = await Interpreter(model, tools=[files.tool]).arun(Context(), "Remember it.")
            return turn.answer

    with StrictProvider(writing) as provider:
        assert asyncio.run(run(provider.url)) == "Noted."
        assert_written(provider, files)
