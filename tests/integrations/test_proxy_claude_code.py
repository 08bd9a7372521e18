"""The Claude Code of the Claude Agent SDK through the proxy, against the strict provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")
pytest.importorskip("starlette")

from claude_agent_sdk import ClaudeSDKClient, ResultMessage

from rehydrate.integrations.proxy import Shortener
from tests.integrations import claude_cli, harbour
from tests.integrations.proxied import sent_lists, served
from tests.provider import Call, ScriptedReply, StrictProvider

pytestmark = pytest.mark.skipif(not claude_cli.IS_THERE, reason="no bundled Claude Code")

TURNS = 14


def reply(body: Mapping[str, Any], wire: str) -> ScriptedReply:
    """Run a command with a long result, then answer."""
    asked = [each for each in harbour.since_user(body) if each["role"] != "system"]
    if len(asked) > 1 or not body.get("tools"):
        return ScriptedReply(f"Done: {harbour.words(harbour.text_of(asked[0])[-80:], 30)}")
    return ScriptedReply("I look.", calls=(Call("Bash", {"command": "seq 1000 2200"}),))


def test_claude_code_talks_on_through_compactions(tmp_path: Path) -> None:
    machine = claude_cli.Machine(tmp_path)
    budget = Shortener(budget_tokens=60_000)
    with StrictProvider(reply) as provider, served(provider.url, budget) as proxy:

        async def talk() -> None:
            options = machine.options(proxy)
            async with ClaudeSDKClient(options) as client:
                for turn in range(TURNS):
                    await client.query(harbour.question(turn))
                    async for message in client.receive_response():
                        if isinstance(message, ResultMessage):
                            assert not message.is_error

        claude_cli.run(talk())
    assert provider.refusals == provider.overflows == []
    asked = [each for each in provider.requests if each.body and each.body.get("tools")]
    assert len(asked) >= 2 * TURNS
    totals = proxy.proxy.totals
    print(totals, harbour.breaks(sent_lists(asked)))
    assert totals.prefixes["compacted"] > 0
    assert totals.prefixes["new"] <= 3
    assert harbour.breaks(sent_lists(asked)) == totals.prefixes["compacted"]
    assert totals.failures == 0
