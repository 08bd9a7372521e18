"""Installation: the plugin, or the hooks in the user's settings, and how to take them out.

Claude Code loads the plugin from the folder of skills, so that none of the user's files is changed.
An older one reads hooks from its settings, and Codex from its hooks.json. Those files are edited as
text, and are byte for byte what they were when the hooks are taken out.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Literal
from zlib import crc32

from rehydrate._jsonl import whole_file
from rehydrate._native import settings_with_hooks, settings_without_hooks
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.claude_code.home import Home


def read_settings(text: str, name: str) -> dict[str, Any]:
    """Return the settings; raises InvalidArgumentError for what is not a JSON object with hooks.

    >>> read_settings('{"model": "opus"}', "settings.json")
    {'model': 'opus'}
    """
    try:
        settings = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{name} isn't JSON ({error}); correct it, then try again: nothing was changed"
        ) from None
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise InvalidArgumentError(
            f"{name} is JSON, but no object whose hooks are lists by event; correct it, then try "
            "again: nothing was changed"
        )
    return settings


Way = Literal["plugin", "settings", "codex"]
WAYS: tuple[Way, ...] = ("plugin", "settings", "codex")
MODULE = "rehydrate.integrations.claude_code.hook"
"""Run as a module, not as a file: where the package is gone, Python exits with 1, which an agent
passes over. For a file that is gone it exits with 2, which would block the user's prompt."""
PLUGIN = Path(__file__).with_name("plugin")
"""The plugin's files; also for `claude --plugin-dir`, with rehydrate on the path."""
TIMEOUT_SECONDS = 5
"""After this time the agent ends a hook; it ends itself well before."""
MATCHERS = {
    "PreCompact": "",
    "PostCompact": "",
    "SessionStart": "compact|resume",
    "UserPromptSubmit": "",
    "PostToolUse": "Bash|Grep|WebFetch|Task|mcp__.*",
    "SessionEnd": "",
}
"""The events and when they call us. Read is not capped: the model pages a file itself."""
_CODEX = {name: MATCHERS[name] for name in MATCHERS if name not in ("PostToolUse", "SessionEnd")}
"""Codex takes no other output of a tool from a hook (openai/codex#20703 is to change that)."""
_BACKUP, _WRITTEN = "before", "written"


class Installation:
    """The settings files for one user's hooks, and whether the hooks are there."""

    def __init__(self, way: Way = "plugin", environ: Mapping[str, str] = os.environ) -> None:
        """Find the files; nothing is written."""
        if way not in WAYS:
            raise InvalidArgumentError(f"way is {way!r}; pass one of {', '.join(WAYS)}")
        self.way = way
        user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        config = Path(environ.get("CLAUDE_CONFIG_DIR") or user / ".claude")
        codex = Path(environ.get("CODEX_HOME") or user / ".codex")
        self.target = {
            "plugin": config / "skills" / "rehydrate",
            "settings": config / "settings.json",
            "codex": codex / "hooks.json",
        }[way]
        """The file that is edited, or the plugin's folder."""
        # A machine may have several such files, one for each configuration.
        place = f"{way}-{crc32(os.fsencode(self.target)):08x}"
        self._kept = Home.of(environ).folder / "install" / place

    @property
    def events(self) -> tuple[str, ...]:
        """The events whose hooks are there; raises InvalidArgumentError for a broken file."""
        file = self.target / "hooks" / "hooks.json" if self.way == "plugin" else self.target
        hooks = read_settings(_read(file) or "", str(file)).get("hooks", {})
        return tuple(event for event in hooks if any(map(is_ours, hooks[event])))

    def plan(self) -> list[str]:
        """Return the changes that `install` would make, a line each."""
        if self.way == "plugin":
            files = sorted(path.relative_to(PLUGIN).as_posix() for path in _files(PLUGIN))
            return [
                f"write the folder {self.target}: {', '.join(files)}",
                "Claude Code loads it as the plugin rehydrate: hooks for "
                f"{', '.join(MATCHERS)}, and the MCP server rehydrate",
            ]
        events = MATCHERS if self.way == "settings" else _CODEX
        return [f"add a {event} hook to {self.target}" for event in events]

    def install(self) -> None:
        """Write what `plan` says; if the hooks are there, write them again.

        Raises InvalidArgumentError for a file that is not JSON, and changes nothing then.
        """
        if self.way == "plugin":
            self._write_plugin()
            return
        if self.events:
            self.uninstall()
        before = _read(self.target)
        read_settings(before or "", str(self.target))
        events = MATCHERS if self.way == "settings" else _CODEX
        groups = {event: _group(event, events[event], self.way) for event in events}
        after = settings_with_hooks(
            before or "", [(event, json.dumps(groups[event], indent=2)) for event in groups]
        )
        self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._kept / _BACKUP).unlink(missing_ok=True)
        if before is not None:
            _write(self._kept / _BACKUP, before)
        _write(self._kept / _WRITTEN, after)
        _replace(self.target, after)

    def uninstall(self) -> None:
        """Take the hooks out. Memories and sessions stay.

        A file that nobody changed since is as it was before, byte for byte; of another one all but
        our hooks stays, byte for byte.
        """
        if self.way == "plugin":
            if self.events:
                shutil.rmtree(self.target.resolve())  # the link stays, if it is one
            return
        if self.events:
            now, before = _read(self.target), _read(self._kept / _BACKUP)
            assert now is not None
            if now != _read(self._kept / _WRITTEN):
                old = read_settings(before or "", "the copy of the settings").get("hooks")
                there = [] if old is None else ["", *old]
                hooks = read_settings(now, str(self.target))["hooks"]
                ours = {
                    event: [number for number, group in enumerate(hooks[event]) if is_ours(group)]
                    for event in self.events
                }
                _replace(self.target, settings_without_hooks(now, ours, there))
            elif before is None:
                self.target.resolve().unlink()  # here too
            else:
                _replace(self.target, before)
        shutil.rmtree(self._kept, ignore_errors=True)

    def _write_plugin(self) -> None:
        if self.target.exists() and not self.events:
            raise InvalidArgumentError(
                f"{self.target} is there and is not ours; rename it, then try again"
            )
        place = self.target.resolve()
        new = place.with_name(".rehydrate-new")
        shutil.rmtree(new, ignore_errors=True)
        for file in _files(PLUGIN):  # not its mode: a package may be read-only
            copy = new / file.relative_to(PLUGIN)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        hooks = {event: [_group(event, MATCHERS[event], "plugin")] for event in MATCHERS}
        _write(new / "hooks" / "hooks.json", _json({"hooks": hooks}))
        server = {"command": sys.executable, "args": ["-P", "-m", "rehydrate", "claude", "mcp"]}
        _write(new / ".mcp.json", _json({"mcpServers": {"rehydrate": server}}))
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)


def command(event: str, way: Way) -> str:
    """Return the shell command of a hook; -P keeps the project's own modules out."""
    agent = " codex" if way == "codex" else ""
    return f"{quote(Path(sys.executable).as_posix())} -P -m {MODULE} {event}{agent}"


def is_ours(group: object) -> bool:
    """Return whether a group of hooks is one that `Installation` wrote."""
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return isinstance(hooks, list) and any(
        isinstance(hook, dict) and f" -m {MODULE} " in str(hook.get("command")) for hook in hooks
    )


def _group(event: str, matcher: str, way: Way) -> dict[str, Any]:
    hook = {"type": "command", "command": command(event, way), "timeout": TIMEOUT_SECONDS}
    return {**({"matcher": matcher} if matcher else {}), "hooks": [hook]}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> str | None:
    """Return a file's text, its ends of lines as they are; None if there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InvalidArgumentError(
            f"{path} is not UTF-8; correct it, then try again: nothing was changed"
        ) from None


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, through a link if it is one; its mode stays."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target, keeps_mode=True) as draft:
        _write(draft, text)


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
