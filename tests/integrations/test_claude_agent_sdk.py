"""Sessions of the real Claude Code, by the SDK's own `query`: mirrored, resumed, with subagents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import ClaudeSDKClient, ResultMessage, project_key_for_directory

from rehydrate.integrations.claude_agent_sdk import RehydrateSessionStore
from tests.integrations import claude_cli, harbour
from tests.integrations.claude_cli import Machine, ask
from tests.provider import Call, ScriptedReply, StrictProvider

pytestmark = pytest.mark.skipif(not claude_cli.IS_THERE, reason="there is no Claude Code")


@pytest.fixture
def store(tmp_path: Path):
    store = RehydrateSessionStore(tmp_path / "sessions.db")
    yield store
    store.close()


def reading(body: Any, wire: str) -> ScriptedReply:
    """Read a file, then answer with what the user said last."""
    said = harbour.since_user(body)
    if len(said) == 1 and "port" in json.dumps(said[0]):
        return ScriptedReply("I look.", calls=(Call("Bash", {"command": "cat ports.txt"}),))
    return ScriptedReply(f"Answer {len(harbour.messages_of(body))}.")


def lines_of(machine: Machine) -> list[Any]:
    """Return the lines of the local transcript; some of the others the CLI does not mirror."""
    (transcript,) = machine.transcripts()
    lines = transcript.read_text(encoding="utf-8").splitlines()
    return with_ids([json.loads(line) for line in lines])


def with_ids(lines: list[Any]) -> list[Any]:
    return [line for line in lines if "uuid" in line]


def key_of(machine: Machine, session: str) -> Any:
    return {"project_key": project_key_for_directory(str(machine.work)), "session_id": session}


def test_a_session_is_mirrored_line_for_line_and_goes_on_on_another_machine(store, tmp_path):
    one, two = Machine(tmp_path / "one"), Machine(tmp_path / "two")
    (one.work / "ports.txt").write_text("staging 8443\n", encoding="utf-8")

    async def run(provider: StrictProvider) -> None:
        first = await ask("Which port?", one.options(provider, session_store=store))
        key = key_of(one, first.session_id)
        stored = await store.load(key)
        assert stored is not None and with_ids(stored) == lines_of(one) != []
        assert "staging 8443" in json.dumps(stored)

        # The other machine has nothing of it but the store.
        two.work.rmdir()
        two.work = one.work
        again = two.options(provider, session_store=store, resume=first.session_id)
        second = await ask("And now?", again)
        assert second.session_id == first.session_id
        sent = json.dumps((provider.requests[-1].body or {})["messages"])
        assert "Which port?" in sent and "staging 8443" in sent and "And now?" in sent
        longer = await store.load(key)
        assert longer is not None and longer[: len(stored)] == stored
        uuids = [line["uuid"] for line in with_ids(longer)]
        assert len(uuids) == len(set(uuids))
        (listed,) = await store.list_sessions(key["project_key"])
        assert listed["session_id"] == first.session_id

    with StrictProvider(reading) as provider:
        claude_cli.run(run(provider))
        assert provider.refusals == []


def test_many_turns_of_one_client_are_all_in_the_store_and_the_cache_holds(store, tmp_path):
    machine = Machine(tmp_path / "one")
    (machine.work / "ports.txt").write_text("staging 8443\n", encoding="utf-8")
    turns = 4

    async def run(provider: StrictProvider) -> None:
        async with ClaudeSDKClient(machine.options(provider, session_store=store)) as client:
            for turn in range(turns):
                await client.query(f"Which port has berth {turn}?")
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage):
                        session = message.session_id
        stored = await store.load(key_of(machine, session))
        assert stored is not None and with_ids(stored) == lines_of(machine)
        asked = json.dumps(stored)
        assert all(f"berth {turn}?" in asked for turn in range(turns))

    with StrictProvider(reading, keeps_bodies=False) as provider:
        claude_cli.run(run(provider))
        assert provider.refusals == []
        assert len(provider.requests) == 2 * turns
        assert provider.usage.read > provider.usage.written_5m + provider.usage.written_1h


def delegating(body: Any, wire: str) -> ScriptedReply:
    """Let a subagent look, then answer."""
    text = json.dumps(body["messages"][0])
    if "Count the berths" in text:
        return ScriptedReply("There are seven berths.")
    if len(body["messages"]) == 1:
        task = {"description": "Count", "prompt": "Count the berths.",
                "subagent_type": "general-purpose"}  # fmt: skip
        return ScriptedReply("I delegate.", calls=(Call("Task", task),))
    return ScriptedReply("Seven.")


def test_a_subagents_session_is_stored_under_its_own_name(store, tmp_path):
    machine = Machine(tmp_path / "one")

    async def run(provider: StrictProvider) -> None:
        done = await ask("How many?", machine.options(provider, session_store=store))
        key = key_of(machine, done.session_id)
        subkeys = await store.list_subkeys(key)
        assert subkeys
        lines = [await store.load({**key, "subpath": subkey}) for subkey in subkeys]
        assert "seven berths" in json.dumps(lines)
        await store.delete(key)
        assert await store.list_subkeys(key) == [] and await store.load(key) is None

    with StrictProvider(delegating) as provider:
        claude_cli.run(run(provider))
        assert provider.refusals == []
