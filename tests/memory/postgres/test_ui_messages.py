"""The AI SDK's UI messages in threads on a server: they go on, and the MCP server reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("mcp", reason="the MCP server needs the extra rehydrate[mcp]")

from rehydrate import Budget, Context
from rehydrate.context import Threads
from rehydrate.formats import validate
from tests.formats.ai_sdk_messages import shown, tool
from tests.integrations.served import connected, machine
from tests.provider.ai_sdk import ui_refusal

pytestmark = pytest.mark.anyio

LOG = "\n".join(f"line {number}: berth {number} is swept" for number in range(3_000))
STEP = {"type": "step-start"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def text(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


def numbered(*messages: dict[str, Any], start: int = 0) -> list[dict[str, Any]]:
    """As `useChat` stores them, each with an id of its own."""
    return [{**each, "id": f"m{number}"} for number, each in enumerate(messages, start)]


TALK = numbered(
    shown(text("Staging listens on port 8443. 🧠 \0"), role="user"),
    shown(STEP, tool("t1", input={"pier": 2}, output=LOG), STEP, text("All berths are swept.")),
    shown(text("And the pilots?"), role="user"),
    shown(
        {"type": "reasoning", "text": "The roster says it.", "state": "done"},
        tool("t2", type="dynamic-tool", toolName="roster", output={"on duty": ["Ada", "Bo"]}),
        tool("t3", "output-error", errorText="No tide."),
        text("Ada and Bo are on duty."),
    ),
)


def store(url: str) -> None:
    with Threads.open(url, namespace="alice") as threads:
        context = Context(threads=threads, thread="chat", format="ai_sdk_ui", provider="anthropic")
        context.add(*TALK)
        context.prompt()


def test_a_thread_that_is_opened_anew_each_turn_sends_what_one_process_sends(postgres: str) -> None:
    options: dict[str, Any] = {
        "provider": "anthropic",
        "budget": Budget(soft_tokens=1_500, hard_tokens=200_000),
        "clock": lambda: 1e9,
    }
    one = Context(format="ai_sdk_ui", **options)
    with Threads.open(postgres, namespace="alice") as threads:
        for turn in range(4):
            added = [{**each, "id": f"{turn}-{each['id']}"} for each in TALK]
            again = Context(threads=threads, thread="chat", format="ai_sdk_ui", **options)
            again.add(*added)
            one.add(*added)
            prompt = again.prompt(f"Which berth is free in hour {turn}?")
            assert prompt.request == one.prompt(f"Which berth is free in hour {turn}?").request
            assert validate(prompt.messages, "anthropic") == []
        assert one.usage.compactions > 0
        history = [entry for _, entry in threads.history("chat")]
    assert history == one.history
    assert ui_refusal(history) is None


def test_a_thread_knows_its_format(postgres: str) -> None:
    store(postgres)
    with Threads.open(postgres, namespace="alice") as threads:
        assert [entry for _, entry in threads.history("chat")] == TALK
        context = Context(threads=threads, thread="chat")
        assert (context.format, context.provider) == ("ai_sdk_ui", "anthropic")


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_mcp_server_reads_and_compacts_them(
    transport: str, postgres: str, tmp_path: Path
) -> None:
    store(postgres)
    options = ("--threads", postgres, "--namespace", "alice", "--no-sessions")
    async with connected(transport, *options, env=machine(tmp_path)) as client:

        async def call(name: str, **arguments: Any) -> Any:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        (thread,) = (await client.list_resources()).resources
        assert thread.name == "chat"
        found = await call("request_context", thread="chat", query="staging port")
        assert "Staging listens on port 8443." in found["text"]
        looked = await call("fetch_whole", thread="chat", handle="#1", query="berth 2718")
        assert "line 2718: berth 2718 is swept" in looked["text"]
        with Threads.open(postgres, namespace="alice") as threads:
            context = Context(threads=threads, thread="chat")
            context.add(
                *numbered(shown(text("Production listens on port 443."), role="user"), start=4)
            )
        found = await call("request_context", thread="chat", query="production port")
        assert "Production listens on port 443." in found["text"]

        long = numbered(*TALK, *TALK[2:], *TALK[2:])
        kept = (await call("compact_context", messages=long, budget_tokens=500))["messages"]
        assert 0 < len(kept) < len(long)
        assert all(each in long for each in kept)
        assert ui_refusal(kept) is None
