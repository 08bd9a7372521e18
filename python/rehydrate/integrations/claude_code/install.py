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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple

from rehydrate._document import parts_of, skip_blank
from rehydrate._jsonl import whole_file
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.claude_code.home import Home

_INDENT = "  "


class Part(NamedTuple):
    """A member of an object or an element of an array, and where it is."""

    name: str
    """Of a member."""
    start: int
    """Where it begins, with its name."""
    value_start: int
    end: int
    value: Any


def read_settings(text: str, name: str) -> dict[str, Any]:
    """Return the settings; raises InvalidArgumentError for what is not a JSON object with hooks.

    >>> read_settings('{"model": "opus"}', "settings.json")
    {'model': 'opus'}
    """
    try:
        settings = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{name} is no JSON ({error}); correct it, then try again: nothing was changed"
        ) from None
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(each, list) for each in hooks.values()):
        raise InvalidArgumentError(
            f"{name} is JSON, but no object whose hooks are lists by event; correct it, then try "
            "again: nothing was changed"
        )
    return settings


def with_hooks(text: str, groups: Mapping[str, Any]) -> str:
    """Return the settings with a group of hooks more for each event.

    >>> print(with_hooks('{"model": "opus"}', {"Stop": {"hooks": []}}))
    {"model": "opus",
      "hooks": {
        "Stop": [
          {
            "hooks": []
          }
        ]
      }}
    """
    if not text.strip():
        text = "{}\n"
    for event, group in groups.items():
        hooks = _member(text, skip_blank(text, 0), "hooks")
        if hooks is None:
            text = _added(text, skip_blank(text, 0), "hooks", {event: [group]}, 1)
            continue
        own = _member(text, hooks.value_start, event)
        if own is None:
            text = _added(text, hooks.value_start, event, [group], 2)
        else:
            text = _added(text, own.value_start, None, group, 3)
    return text


def without_hooks(text: str, is_ours: Callable[[Any], bool], keeps: Callable[[str], bool]) -> str:
    """Return the settings without our groups of hooks.

    An event, and the hooks, that are empty then are left out too, but for those that ``keeps`` says
    were there before: an event by its name, the hooks by "".
    """
    while (hooks := _member(text, skip_blank(text, 0), "hooks")) is not None:
        found = next(_ours(text, hooks, is_ours, keeps), None)
        if found is None:
            if not hooks.value and not keeps(""):
                text = _removed(text, skip_blank(text, 0), hooks)
            break
        text = _removed(text, *found)
    return text


def _ours(
    text: str, hooks: Part, is_ours: Callable[[Any], bool], keeps: Callable[[str], bool]
) -> Iterator[tuple[int, Part]]:
    """Yield what is to go, each with where its list or object begins."""
    for event in _parts(text, hooks.value_start):
        groups = list(_parts(text, event.value_start))
        ours = [group for group in groups if is_ours(group.value)]
        if ours and len(ours) == len(groups) and not keeps(event.name):
            yield hooks.value_start, event
        elif ours:
            yield event.value_start, ours[0]


def _member(text: str, start: int, name: str) -> Part | None:
    """Return a member of the object that begins there; the last of its name counts, as for JSON."""
    return {part.name: part for part in _parts(text, start)}.get(name)


def _parts(text: str, start: int) -> Iterator[Part]:
    """Yield the parts of the object or the array that begins there; the text is valid."""
    for name, lead, value_start, end in parts_of(text, start)[0]:
        value = json.loads(text[value_start:end])
        yield Part(name, skip_blank(text, lead), value_start, end, value)


def _added(text: str, start: int, name: str | None, value: Any, depth: int) -> str:
    """Return the text with one more part at the end of the object or array that begins there."""
    parts = list(_parts(text, start))
    indent = "\n" + depth * _INDENT
    whole = json.dumps(value, indent=len(_INDENT), ensure_ascii=True).replace("\n", indent)
    part = whole if name is None else f"{json.dumps(name)}: {whole}"
    if parts:
        end = parts[-1].end
        return f"{text[:end]},{indent}{part}{text[end:]}"
    end = skip_blank(text, start + 1)
    return f"{text[: start + 1]}{indent}{part}{indent[: -len(_INDENT)]}{text[end:]}"


def _removed(text: str, start: int, part: Part) -> str:
    """Return the text without the part, and without the comma that parted it."""
    parts = list(_parts(text, start))
    number = [each.start for each in parts].index(part.start)
    if len(parts) == 1:
        return text[: start + 1] + text[skip_blank(text, part.end) :]
    if number:  # from the end of the one before, so that its layout goes too
        return text[: parts[number - 1].end] + text[part.end :]
    return text[: part.start] + text[parts[1].start :]


Way = Literal["plugin", "settings", "codex"]
WAYS: tuple[Way, ...] = ("plugin", "settings", "codex")
MODULE = "rehydrate.integrations.claude_code"
PLUGIN = Path(__file__).with_name("plugin")
"""The plugin's files; also for `claude --plugin-dir`, with rehydrate on the path."""
TIMEOUT_SECONDS = 5
"""After this time the agent ends a hook; it ends itself well before."""
_CLAUDE = {
    "PreCompact": "",
    "PostCompact": "",
    "SessionStart": "compact|resume",
    "UserPromptSubmit": "",
    "PostToolUse": "Bash|Grep|WebFetch|Task|mcp__.*",
    "SessionEnd": "",
}
"""The events and when they call us. Read is not capped: the model pages a file itself."""
_CODEX = {name: _CLAUDE[name] for name in _CLAUDE if name not in ("PostToolUse", "SessionEnd")}
"""Codex takes no other output of a tool from a hook (openai/codex#20703 is to change that)."""
_BACKUP, _WRITTEN = "before", "written"


class Installation:
    """Where the hooks of one user go, and whether they are there."""

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
        self._kept = Home.of(environ).folder / "install" / way

    @property
    def events(self) -> tuple[str, ...]:
        """The events whose hooks are there; raises InvalidArgumentError for a broken file."""
        file = self.target / "hooks" / "hooks.json" if self.way == "plugin" else self.target
        hooks = read_settings(_read(file) or "", str(file)).get("hooks", {})
        return tuple(event for event in hooks if any(map(is_ours, hooks[event])))

    def plan(self) -> list[str]:
        """Return what `install` would change, a line each."""
        if self.way == "plugin":
            files = sorted(path.relative_to(PLUGIN).as_posix() for path in _files(PLUGIN))
            return [
                f"write the folder {self.target}: {', '.join(files)}",
                "Claude Code loads it as the plugin rehydrate: hooks for "
                f"{', '.join(_CLAUDE)}, and the MCP server rehydrate",
            ]
        events = _CLAUDE if self.way == "settings" else _CODEX
        return [f"add a {event} hook to {self.target}" for event in events]

    def install(self) -> None:
        """Write what `plan` says; where the hooks are there, write them anew.

        Raises InvalidArgumentError for a file that is not JSON, and changes nothing then.
        """
        if self.way == "plugin":
            self._write_plugin()
            return
        if self.events:
            self.uninstall()
        before = _read(self.target)
        read_settings(before or "", str(self.target))
        events = _CLAUDE if self.way == "settings" else _CODEX
        after = with_hooks(
            before or "", {event: _group(event, events[event], self.way) for event in events}
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
                shutil.rmtree(self.target)
            return
        if self.events:
            now, before = _read(self.target), _read(self._kept / _BACKUP)
            assert now is not None
            if now != _read(self._kept / _WRITTEN):
                old = read_settings(before or "", "the copy of the settings").get("hooks")

                def was_there(name: str) -> bool:
                    return old is not None and (not name or name in old)

                _replace(self.target, without_hooks(now, is_ours, was_there))
            elif before is None:
                self.target.unlink()
            else:
                _replace(self.target, before)
        shutil.rmtree(self._kept, ignore_errors=True)

    def _write_plugin(self) -> None:
        if self.target.exists() and not self.events:
            raise InvalidArgumentError(
                f"{self.target} is there and is not ours; rename it, then try again"
            )
        new = self.target.with_name(".rehydrate-new")
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(PLUGIN, new)
        hooks = {event: [_group(event, _CLAUDE[event], "plugin")] for event in _CLAUDE}
        _write(new / "hooks" / "hooks.json", _json({"hooks": hooks}))
        server = {"command": sys.executable, "args": ["-P", "-m", "rehydrate", "claude", "mcp"]}
        _write(new / ".mcp.json", _json({"mcpServers": {"rehydrate": server}}))
        shutil.rmtree(self.target, ignore_errors=True)
        new.rename(self.target)


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
    """Return a file's text, its ends of lines as they are; None where there is none."""
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
