"""The plugin's folder, and the hooks in the user's settings of Claude Code.

`uninstall` gives the settings back byte for byte: the file as it was lies beside the plugin. Where
somebody has changed the settings since, only our hooks are taken out.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.claude_code.records import data_folder

MODULE = "rehydrate.integrations.claude_code.hook"
MCP_MODULE = "rehydrate.integrations.mcp_server"
TIMEOUT_SECONDS = 5
"""After this time Claude Code ends a hook; it ends itself well before."""
MATCHERS = {
    "PreCompact": "",
    "PostCompact": "",
    "SessionStart": "compact|resume",
    "UserPromptSubmit": "",
    "PostToolUse": "Bash|Grep|WebFetch|mcp__.*",
}
"""The events, and when they call us. Read is not capped: the model pages a file itself."""

_COMMAND = """\
---
description: What the last compaction kept, lost and put back
allowed-tools: Bash(rehydrate claude report:*)
---
Run `rehydrate claude report` and tell the user in a few lines what it says.
"""


class Installation:
    """The plugin of one user: where it lies, and whether it is there."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Find the folders; nothing is written."""
        named = environ.get("CLAUDE_CONFIG_DIR")
        self.settings = (Path(named) if named else Path.home() / ".claude") / "settings.json"
        self.folder = data_folder(environ) / "claude-code"
        self._before = self.folder / "settings.before"
        self._written = self.folder / "settings.written"

    @property
    def installed(self) -> tuple[str, ...]:
        """The events whose hooks are in the settings."""
        hooks = self._read().get("hooks")
        if not isinstance(hooks, dict):
            return ()
        return tuple(event for event in MATCHERS if any(map(_is_ours, _groups(hooks, event))))

    def plan(self) -> list[str]:
        """Return what `install` would change, a line each."""
        return [
            f"write {self.folder} (the plugin; also for claude --plugin-dir)",
            *(f"add a {event} hook to {self.settings}" for event in MATCHERS),
        ]

    def install(self) -> None:
        """Write the plugin and add its hooks; raises InvalidArgumentError for settings that are no
        JSON object."""
        if self.installed:
            return
        settings = self._read()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_plugin()
        self._before.unlink(missing_ok=True)
        if self.settings.exists():
            self._before.write_bytes(self.settings.read_bytes())
        hooks = settings.setdefault("hooks", {})
        for event, groups in _hooks().items():
            hooks.setdefault(event, []).extend(groups)
        self._replace(settings)
        self._written.write_text(sha256(self.settings.read_bytes()).hexdigest())

    def uninstall(self) -> None:
        """Take the hooks out of the settings, and remove the plugin's folder; memories stay."""
        if self.installed:
            current = self.settings.read_bytes()
            written = self._written.read_text() if self._written.exists() else ""
            if sha256(current).hexdigest() != written:
                self._take_out()
            elif self._before.exists():
                self.settings.write_bytes(self._before.read_bytes())
            else:
                self.settings.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _take_out(self) -> None:
        settings = self._read()
        hooks = settings["hooks"]
        for event in MATCHERS:
            left = [group for group in _groups(hooks, event) if not _is_ours(group)]
            if left:
                hooks[event] = left
            else:
                hooks.pop(event, None)
        if not hooks:
            del settings["hooks"]
        self._replace(settings)

    def _read(self) -> dict[str, Any]:
        try:
            settings = json.loads(self.settings.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            settings = None
        if not isinstance(settings, dict) or not isinstance(settings.get("hooks", {}), dict):
            raise InvalidArgumentError(
                f"{self.settings} is no JSON object of settings; correct it, then try again"
            )
        return settings

    def _replace(self, settings: dict[str, Any]) -> None:
        """Write the settings whole or not at all, through a link if there is one."""
        target = self.settings.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(target.name + ".rehydrate")
        new.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")
        if target.exists():
            shutil.copymode(target, new)
        os.replace(new, target)

    def _write_plugin(self) -> None:
        files = {
            ".claude-plugin/plugin.json": _json(
                {"name": "rehydrate", "description": "Keeps what a compaction would lose."}
            ),
            "hooks/hooks.json": _json({"hooks": _hooks()}),
            "commands/compaction-report.md": _COMMAND,
        }
        if find_spec(MCP_MODULE) is not None:
            server = {"command": sys.executable, "args": ["-P", "-m", "rehydrate", "mcp"]}
            files[".mcp.json"] = _json({"mcpServers": {"rehydrate": server}})
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def command(event: str) -> str:
    """Return the shell command of a hook; -P keeps the project's own modules out."""
    return f"{quote(sys.executable)} -P -m {MODULE} {event}"


def _hooks() -> dict[str, list[dict[str, Any]]]:
    def group(event: str, matcher: str) -> dict[str, Any]:
        hook = {"type": "command", "command": command(event), "timeout": TIMEOUT_SECONDS}
        return {**({"matcher": matcher} if matcher else {}), "hooks": [hook]}

    return {event: [group(event, matcher)] for event, matcher in MATCHERS.items()}


def _groups(hooks: dict[str, Any], event: str) -> list[Any]:
    groups = hooks.get(event)
    return groups if isinstance(groups, list) else []


def _is_ours(group: object) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and any(
        isinstance(hook, dict) and MODULE in str(hook.get("command")) for hook in hooks
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
