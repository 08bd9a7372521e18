"""Installing and uninstalling: the user's settings are, byte for byte, what they were."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rehydrate._native import settings_with_hooks, settings_without_hooks
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.claude_code import EVENTS, Installation, install
from rehydrate.integrations.claude_code.install import PLUGIN
from tests.integrations.claude_hooks import PROJECT, environment, hook, payload
from tests.sizes import PATIENCE_SECONDS, sized

OTHERS = """\
{ "model":"opus",
\t"permissions": {"allow": ["Bash(ls:*)"],   "deny": []},
  "hooks": {
    "Stop": [ {"hooks": [{"type": "command", "command": "say \\u00e9 done"}]} ],
    "PostToolUse": [
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}] }  ],
    "PreCompact": [] },
  "größe": 1e3, "n": 1.0, "last": "}]," }"""
SETTINGS = [
    None,
    b"",
    b"{}",
    b"{}\n",
    b"{\n}\n\n",
    b'{"hooks": {}}',
    b'{"hooks": {"PreCompact": []}}',
    b'{ "model":"opus" ,\r\n"hooks": {"Stop": []}}\r\n',
    OTHERS.encode(),
    OTHERS.replace("\n", "\r\n").encode(),
    b'{"hooks": {"Stop": []}, "a": "\\"hooks\\": {", "hooks": {"Stop": [{"hooks": []}]}}',
]


def machine(folder: Path, settings: bytes | None, way: str = "settings") -> Installation:
    installation = Installation(way, environment(folder))
    installation.target.parent.mkdir(parents=True, exist_ok=True)
    if settings is not None:
        installation.target.write_bytes(settings)
    return installation


def content(installation: Installation) -> bytes | None:
    target = installation.target
    return target.read_bytes() if target.exists() else None


@pytest.mark.parametrize("way", ["settings", "codex"])
@pytest.mark.parametrize("before", SETTINGS)
def test_uninstall_leaves_the_settings_byte_for_byte(
    before: bytes | None, way: str, tmp_path: Path
) -> None:
    installation = machine(tmp_path, before, way)
    installation.install()
    installed = json.loads(content(installation) or b"")
    for event in ("PreCompact", "SessionStart", "UserPromptSubmit", "PostCompact"):
        assert event in installation.events
        (ours,) = installed["hooks"][event][-1]["hooks"]
        assert Path(sys.executable).as_posix() in ours["command"]
    for _ in range(2):  # a second time it is not doubled
        installation.install()
    assert json.loads(content(installation) or b"") == installed
    installation.uninstall()
    assert not installation.events
    assert content(installation) == before
    installation.uninstall()
    assert content(installation) == before


@pytest.mark.parametrize("before", SETTINGS)
def test_installing_changes_no_byte_of_what_is_there(before: bytes | None, tmp_path: Path) -> None:
    installation = machine(tmp_path, before)
    installation.install()
    after = (content(installation) or b"").decode()
    rest = iter(after)
    for character in (before or b"").decode().rstrip():
        assert character in rest  # in order: things are put between, nothing is taken
    old, new = json.loads(before or b"{}"), json.loads(after)
    for event, groups in old.get("hooks", {}).items():
        assert new["hooks"][event][: len(groups)] == groups
    assert {key: new[key] for key in old if key != "hooks"} == {
        key: old[key] for key in old if key != "hooks"
    }


def test_changes_that_others_made_meanwhile_stay_byte_for_byte(tmp_path: Path) -> None:
    installation = machine(tmp_path, OTHERS.encode())
    installation.install()
    theirs = (
        ('"model":"opus"', '"model" :  "haiku"'),
        ('"command": "fmt"', '"command": "fmt --all"'),
        ('"last": "}],"', '"last": "}],", "new": {"x" : [ ] }'),
    )
    for old, new in theirs:
        text = (content(installation) or b"").decode()
        assert old in text
        installation.target.write_bytes(text.replace(old, new).encode())
    installation.uninstall()
    left = OTHERS
    for old, new in theirs:
        left = left.replace(old, new)
    # Of the layout only that inside of the list that was empty may differ.
    assert (content(installation) or b"").decode() == left


def test_hooks_that_others_added_after_ours_stay(tmp_path: Path) -> None:
    installation = machine(tmp_path, b'{"model": "opus"}\n')
    installation.install()
    theirs = {"hooks": [{"type": "command", "command": "theirs"}]}
    groups = [(event, json.dumps(theirs, indent=2)) for event in ("PreCompact", "Stop")]
    text = settings_with_hooks(installation.target.read_text("utf-8"), groups)
    installation.target.write_text(text, "utf-8")
    installation.uninstall()
    left = json.loads(installation.target.read_bytes())
    assert left == {"model": "opus", "hooks": {"PreCompact": [theirs], "Stop": [theirs]}}


def test_the_hooks_go_where_nothing_else_is_left() -> None:
    ours = json.dumps({"hooks": [{"type": "command", "command": "ours"}]}, indent=2)
    for text in ("{}", '{"a": 1}', '{"a": 1, "b": {"hooks": 2}}'):
        there = settings_with_hooks(text, [("Stop", ours), ("PreCompact", ours)])
        left = settings_without_hooks(there, {"Stop": [0], "PreCompact": [0]}, [])
        assert json.loads(left) == json.loads(text)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"model": "opus", // a comment\n}',
        b"{",
        b"[]",
        b'"text"',
        b'{"hooks": []}',
        b'{"hooks": {"Stop": {}}}',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
    ],
)
def test_settings_that_are_no_json_are_refused_and_stay(broken: bytes, tmp_path: Path) -> None:
    installation = machine(tmp_path, broken)
    for act in (installation.install, installation.uninstall, lambda: installation.events):
        with pytest.raises(InvalidArgumentError, match="nothing was changed"):
            act()
    assert content(installation) == broken
    assert [path.name for path in installation.target.parent.iterdir()] == ["settings.json"]


def test_settings_that_a_link_leads_to_are_changed_there(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_bytes(OTHERS.encode())
    real.chmod(0o640)
    mode = real.stat().st_mode
    installation = machine(tmp_path, None)
    try:
        installation.target.symlink_to(real)
    except OSError:
        pytest.skip("links cannot be made here")
    installation.install()
    assert installation.target.is_symlink()
    assert b"SessionStart" in real.read_bytes()
    installation.uninstall()
    assert real.read_bytes() == OTHERS.encode()
    assert real.stat().st_mode == mode


def test_a_link_to_settings_that_are_not_there_yet_stays(tmp_path: Path) -> None:
    installation = machine(tmp_path, None)
    try:
        installation.target.symlink_to(tmp_path / "real.json")
    except OSError:
        pytest.skip("links cannot be made here")
    installation.install()
    assert (tmp_path / "real.json").exists()
    installation.uninstall()
    assert installation.target.is_symlink()
    assert not (tmp_path / "real.json").exists()


def test_the_plugin_of_a_package_that_is_read_only_can_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(shutil.copytree(PLUGIN, tmp_path / "package"))
    for path in [*package.rglob("*"), package]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setattr(install, "PLUGIN", package)
    plugin = Installation("plugin", environment(tmp_path))
    plugin.install()
    plugin.install()
    assert plugin.events == EVENTS
    assert all(path.stat().st_mode & 0o200 for path in [plugin.target, *plugin.target.rglob("*")])


def test_the_plugin_is_a_folder_and_changes_no_settings(tmp_path: Path) -> None:
    settings = machine(tmp_path, OTHERS.encode())
    plugin = Installation("plugin", environment(tmp_path))
    assert plugin.events == ()
    plugin.uninstall()
    for _ in range(2):
        plugin.install()
    assert set(plugin.events) >= {"PreCompact", "PostToolUse", "SessionEnd"}
    server = json.loads((plugin.target / ".mcp.json").read_text("utf-8"))["mcpServers"]["rehydrate"]
    assert server["command"] == sys.executable
    manifest = json.loads((plugin.target / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    assert manifest["name"] == "rehydrate"
    assert content(settings) == OTHERS.encode()
    plugin.uninstall()
    assert list(plugin.target.parent.iterdir()) == []


def test_the_plugin_that_a_link_leads_to_is_changed_there(tmp_path: Path) -> None:
    installation = machine(tmp_path, None, "plugin")
    installation.install()
    real = installation.target.rename(tmp_path / "dotfiles")
    installation.target.symlink_to(real)
    installation.install()
    assert installation.target.is_symlink()
    assert {*installation.events} == {*EVENTS}
    assert list(installation.target.parent.iterdir()) == [installation.target]
    installation.uninstall()
    assert not real.exists()


def test_two_configurations_get_back_what_each_was(tmp_path: Path) -> None:
    env = environment(tmp_path)
    one, other = (
        Installation("settings", {**env, "CLAUDE_CONFIG_DIR": str(tmp_path / name)})
        for name in ("one", "other")
    )
    one.target.parent.mkdir()
    one.target.write_bytes(b"{ }")
    for installation in (one, other):
        installation.install()
    for installation in (one, other):
        installation.uninstall()
    assert (content(one), content(other)) == (b"{ }", None)


def test_a_skill_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    plugin = Installation("plugin", environment(tmp_path))
    plugin.target.mkdir(parents=True)
    (plugin.target / "SKILL.md").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="is not ours"):
        plugin.install()
    plugin.uninstall()
    assert (plugin.target / "SKILL.md").read_text() == "mine"


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rehydrate", "claude", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env=environment(folder, CLAUDE_PROJECT_DIR=PROJECT),
        timeout=PATIENCE_SECONDS,
    )


def test_the_report_shows_what_a_compaction_kept_lost_and_put_back(tmp_path: Path) -> None:
    nothing = cli(tmp_path, "report")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert not (tmp_path / "data").exists()
    for session in ("s-1", "s-2"):
        hook(tmp_path, "PreCompact", payload(session=session, trigger="auto"))
    back = hook(tmp_path, "SessionStart", payload(source="compact"))
    hook(tmp_path, "PostCompact", payload(compact_summary="We worked on the parser."))
    first, second = json.loads(cli(tmp_path, "report", "--json").stdout)
    assert (first["session"], second["session"]) == ("s-1", "s-2")
    seen = first["compacted"]
    head, kept, summary, put_back, out = cli(tmp_path, "report", "s-1").stdout.splitlines()
    assert " s-1 (auto, " in head
    assert f"kept {seen['before_tokens']}->{seen['after_tokens']} tokens" in kept
    assert f"24 characters, without {len(seen['lost'])} of {len(seen['names'])} names" in summary
    characters = len(back["hookSpecificOutput"]["additionalContext"])
    assert f"{characters} characters, {len(seen['put_back'])} of those names" in put_back
    assert set(out.split()[2].split(",")) & (set(seen["lost"]) - set(seen["put_back"]))
    last = cli(tmp_path, "report", "--last", "1").stdout
    assert "s-2" in last
    assert "s-1" not in last
    assert "the agent didn't say" in last
    assert cli(tmp_path, "report", "no-such-session").stdout == ""


def test_a_damaged_file_of_the_hooks_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "hooks.db").write_bytes(b"no database" * 100)
    (tmp_path / "data" / "last_failure.txt").write_bytes(b"KeyError \xc3")
    done = cli(tmp_path, "report")
    assert (done.returncode, done.stdout) == (2, "")
    assert "hooks.db cannot be read: file is not a database; try again" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "KeyError \ufffd" in cli(tmp_path, "status").stdout


def test_a_result_that_was_cut_is_printed_whole(tmp_path: Path) -> None:
    log = "".join([f"line {number} of the log\n" for number in range(5_000)])
    given = payload(tool_name="Bash", tool_response={"stdout": log})
    shown = hook(tmp_path, "PostToolUse", given)["hookSpecificOutput"]["updatedToolOutput"]
    handle = shown["stdout"].rpartition("rehydrate claude fetch ")[2].rstrip("]")
    assert cli(tmp_path, "fetch", handle).stdout == log
    assert cli(tmp_path, "fetch", handle, "--session", "s-1").stdout == log
    for wrong in ([handle, "--session", "s-2"], ["orig_nothing"]):
        done = cli(tmp_path, "fetch", *wrong)
        assert done.returncode == 2
        assert "copy the handle from its notice" in done.stderr


def test_a_result_is_printed_below_the_agents_folder_and_whatever_its_text_is(
    tmp_path: Path,
) -> None:
    started = tmp_path / "repository" / "shop"
    (started / "src").mkdir(parents=True)
    (started.parent / ".git").mkdir()
    log = "".join([f"line {number} of the log \ud83d\n" for number in range(5_000)])
    given = payload(tool_name="Bash", tool_response={"stdout": log}, cwd=str(started))
    reply = hook(tmp_path, "PostToolUse", given, CLAUDE_PROJECT_DIR=str(started))
    shown = reply["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    handle = shown.rpartition("rehydrate claude fetch ")[2].rstrip("]")
    for folder in (started, started / "src"):
        done = subprocess.run(
            [sys.executable, "-m", "rehydrate", "claude", "fetch", handle],
            cwd=folder,
            env=environment(tmp_path),
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == log.replace("\ud83d", "\ufffd")


def test_each_hook_of_the_packages_plugin_is_a_command_that_works(tmp_path: Path) -> None:
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
    installed = Installation("plugin", environment(tmp_path))
    installed.install()
    assert tuple(hooks) == installed.events == EVENTS
    for event, (group,) in hooks.items():
        (one,) = group["hooks"]
        assert one["command"] == f"rehydrate claude hook {event}"
        done = cli(tmp_path, "hook", event)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("way", sized([("--codex",)], [(), ("--settings",), ("--codex",)]))
def test_the_commands_show_what_they_change_and_ask(way: tuple[str, ...], tmp_path: Path) -> None:
    assert cli(tmp_path, "status", *way).returncode == 1
    asked = cli(tmp_path, "install", *way)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert "SessionStart" in asked.stdout
    assert not (tmp_path / "claude").exists()
    assert not (tmp_path / "codex").exists()
    assert cli(tmp_path, "install", "--yes", *way).returncode == 0
    status = cli(tmp_path, "status", *way)
    assert status.returncode == 0
    assert "a hook works: yes" in status.stdout
    assert cli(tmp_path, "uninstall", *way).returncode == 2
    assert cli(tmp_path, "uninstall", "--yes", *way).returncode == 0
    assert cli(tmp_path, "status", *way).returncode == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_doctor_tells_where_the_hooks_are_and_warns_of_two(tmp_path: Path) -> None:
    def checked() -> list[str]:
        reported = doctor(tmp_path)
        return [
            check["status"] + ": " + check["detail"]
            for check in reported
            if check["name"] == "agents"
        ]

    assert checked() == ["ok: no hooks are installed in Claude Code or Codex"]
    plugin = Installation("plugin", environment(tmp_path))
    plugin.install()
    assert checked() == [f"ok: 6 hooks in {plugin.target}"]
    settings = machine(tmp_path, b"{}")
    settings.install()
    assert checked() == [f"warn: 6 hooks in {plugin.target}; 6 hooks in {settings.target}"]
    settings.target.write_bytes(b"{")
    assert checked()[0].startswith(f"warn: {settings.target} isn't JSON")


def doctor(folder: Path) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "rehydrate", "doctor", "--json"],
        capture_output=True,
        check=False,
        env=environment(folder),
        timeout=PATIENCE_SECONDS,
    )
    checks: list[dict[str, str]] = json.loads(done.stdout)["checks"]
    return checks
