"""The plugin in the real Claude Code, against the strict provider: what it calls the hooks with,
and what it does with their outputs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("mcp")

from rehydrate.integrations.claude_code import Home, Installation, Records, install
from tests.integrations.claude_hooks import environment
from tests.provider import Call, ScriptedReply, StrictProvider
from tests.sizes import PATIENCE_SECONDS

SESSION = "11111111-2222-4333-8444-555555555555"
TOOLS = "mcp__plugin_rehydrate_rehydrate__"
SUMMARY = "<analysis>Short.</analysis><summary>We counted.</summary>"


def claude_code() -> str:
    """Return the path of the Claude Code that the Agent SDK brings along; skip without one."""
    spec = find_spec("claude_agent_sdk")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    binary = folder / "_bundled" / "claude"
    if spec is None or not binary.is_file():
        pytest.skip("the Agent SDK with its Claude Code is not installed")
    return str(binary)


class Machine:
    """A machine with Claude Code and the plugin, whose provider is on loopback."""

    def __init__(self, folder: Path, provider: StrictProvider) -> None:
        self.project = folder / "shop"
        self.project.mkdir()
        self.env = environment(
            folder,
            ANTHROPIC_BASE_URL=provider.url,
            ANTHROPIC_API_KEY="test-key",
            ENABLE_TOOL_SEARCH="false",
            DISABLE_TELEMETRY="1",
            DISABLE_AUTOUPDATER="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            IS_SANDBOX="1",
        )
        self.binary = claude_code()

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.binary, *arguments],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def say(self, prompt: str, *options: str) -> str:
        own = ("--model", "claude-sonnet-4-5", "--dangerously-skip-permissions")
        return self("-p", prompt, *own, *options)


@pytest.fixture(scope="module", autouse=True)
def _hooks_have_time() -> Iterator[None]:
    """Claude Code ends a hook after five seconds, which a busy machine needs to start one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(install, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
        yield


def texts(body: Any) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def scripted(body: Any, wire: str) -> ScriptedReply:
    """Count where it is asked to, read the whole where it is asked to, and summarise."""
    content = body["messages"][-1]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    last = str(blocks[-1].get("text", ""))
    if "Do NOT call any tools" in last:
        return ScriptedReply(SUMMARY)
    if "Read the whole" in last:
        handle = texts(body).partition("rehydrate claude fetch ")[2].partition("]")[0]
        call = Call(f"{TOOLS}fetch_whole", {"thread": SESSION, "handle": handle})
        return ScriptedReply("I read it.", calls=(call,))
    if any(block["type"] == "tool_result" for block in blocks):
        return ScriptedReply("That is it.")
    if last.startswith("Count."):
        return ScriptedReply("I count.", calls=(Call("Bash", {"command": "seq 1 6000"}),))
    return ScriptedReply("Answer.")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StrictProvider, list[str]]:
    """Install the plugin, count, compact, and ask after the session was resumed."""
    folder = tmp_path_factory.mktemp("machine")
    with StrictProvider(scripted, window_tokens=1_000_000) as provider:
        claude = Machine(folder, provider)
        Installation("plugin", claude.env).install()
        reported = [
            claude.say(
                "Count. From now on, always use tabs in src/shop.py.", "--session-id", SESSION
            ),
            claude.say("/compact", "--resume", SESSION),
            claude.say(
                "How do we indent? Read the whole of what you counted.", "--resume", SESSION
            ),
        ]
        reported.append(
            claude("plugin", "validate", "--strict", str(folder / "claude/skills/rehydrate"))
        )
    return folder, provider, reported


def test_the_provider_refuses_nothing_and_the_plugin_is_valid(session) -> None:
    _, provider, reported = session
    assert not [each.refusal for each in provider.refusals]
    assert "Validation passed" in reported[-1]


def test_a_long_result_reaches_the_model_in_part_with_a_handle(session) -> None:
    folder, provider, _ = session
    bodies = [each.body for each in provider.requests if each.body and "messages" in each.body]
    shown = next(text for text in map(texts, bodies) if "tool_result" in text)
    assert "6000" not in shown.partition("tool_result")[2].partition("[truncated")[0]
    handle = shown.partition("rehydrate claude fetch ")[2].partition("]")[0]
    from rehydrate.context import ThreadReader, Threads

    home = Home.of(environment(folder))
    with Threads.open(home.threads, namespace=(folder / "shop").resolve().as_posix()) as threads:
        whole = ThreadReader(threads, SESSION).whole(handle)
    assert whole.splitlines() == [str(number) for number in range(1, 6001)]


def test_after_a_compaction_the_model_reads_what_the_summary_lost_once(session) -> None:
    folder, provider, _ = session
    asked = "How do we indent"
    after = next(each.body for each in provider.requests if each.body and asked in texts(each.body))
    (transcript,) = (folder / "claude" / "projects").rglob(f"{SESSION}.jsonl")
    assert '"compact_boundary"' in transcript.read_text("utf-8")
    text = texts(after)
    assert "We counted." in text
    assert text.count("[rehydrate: compaction 1, ") == 1
    assert "always use tabs in src/shop.py" in text


def test_the_plugins_server_reads_the_whole_to_the_model(session) -> None:
    _, provider, _ = session
    last = provider.requests[-1].body
    assert last is not None
    assert {tool["name"] for tool in last["tools"]} >= {
        f"{TOOLS}{name}" for name in ("request_context", "fetch_whole", "search_memory")
    }
    result = json.dumps(last["messages"][-1])
    assert "tool_result" in result
    assert "1234" in result
    assert '"is_error": true' not in result


def test_the_hooks_saw_the_compaction_and_measured_its_summary(session) -> None:
    folder, _, _ = session
    with Records(Home.of(environment(folder))) as records:
        (row,) = records.list(SESSION)
    seen = row.compacted
    assert seen.trigger == "manual"
    assert seen.summary_chars == len(SUMMARY)
    assert "src/shop.py" in seen.lost
    assert "src/shop.py" in seen.put_back
    assert 0 < seen.returned_chars < 10_000
    assert not seen.problems


def test_hooks_in_the_settings_work_too_and_go_without_a_trace(tmp_path: Path) -> None:
    with StrictProvider(scripted, window_tokens=1_000_000) as provider:
        claude = Machine(tmp_path, provider)
        settings = Installation("settings", claude.env)
        settings.target.parent.mkdir()
        before = b'{ "cleanupPeriodDays":30,\r\n  "hooks": {"Stop": [ ]} }'
        settings.target.write_bytes(before)
        settings.install()
        claude.say("Count. Use tabs in src/shop.py.", "--session-id", SESSION)
        claude.say("/compact", "--resume", SESSION)
        claude.say("Go on.", "--resume", SESSION)
        settings.uninstall()
        assert settings.target.read_bytes() == before
    with Records(Home.of(claude.env)) as records:
        (row,) = records.list(SESSION)
    assert row.compacted.returned_chars
    seen = texts(provider.requests[-1].body)
    assert "[rehydrate: compaction 1, " in seen
    assert "rehydrate claude fetch" in seen
