"""The lines of a Claude Code transcript; ids and times come from a seed, so recordings compare."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from record_example.workshop import CWD, Outcome

SEED = 20_260_302
START = datetime(2026, 3, 2, 9, 14, 7, tzinfo=UTC)
VERSION = "2.1.39"
MODEL = "scripted"  # no model wrote these words: see examples/README.md
PERMISSIONS = "acceptEdits"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# Commands whose progress a client shows: compilations, and whole test suites.
_SLOW = ("cargo ", "pytest")


class Transcript:
    """A session that is being written."""

    def __init__(self) -> None:
        """Start the clock and the session."""
        self._random = random.Random(SEED)
        self._time = START
        self._lines: list[dict[str, Any]] = []
        self._parent: str | None = None
        self._session = self._uuid()
        self._message: str | None = None  # the assistant's message that is being written
        self._callers: dict[str, str] = {}  # call id -> uuid of its line
        self._prompt: tuple[str, datetime] | None = None
        self._backups: dict[str, dict[str, Any]] = {}
        self._add("progress", **self._hook("SessionStart", "startup"))

    @property
    def clock(self) -> str:
        """Return the time now, as git and the lines have it."""
        return self._time.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def user(self, text: str, pause: int) -> None:
        """Add a prompt; it ends the turn before."""
        self._end_turn()
        self._pass(pause, pause * 1.4)
        uuid = self._uuid()
        self._prompt = (uuid, self._time)
        self._snapshot(uuid, is_update=False)
        rest = {"thinkingMetadata": {"maxThinkingTokens": 0}, "todos": []}
        message = {"role": "user", "content": text}
        self._add("user", uuid, message=message, **rest, permissionMode=PERMISSIONS)

    def say(self, text: str) -> None:
        """Add a text of the agent: the beginning of a new message."""
        self._pass(2, 9)
        self._message = self._id("msg_01")
        self._assistant({"type": "text", "text": text})

    def calls(self, inputs: list[tuple[str, dict[str, Any]]]) -> list[str]:
        """Add tool calls to the message of the last text, or to a new one; return their ids."""
        if self._message is None:
            self._message = self._id("msg_01")
        ids = []
        for name, values in inputs:
            self._pass(1, 5)
            call_id = self._id("toolu_01")
            block = {"type": "tool_use", "id": call_id, "name": name, "input": values}
            self._callers[call_id] = self._assistant(block | {"caller": {"type": "direct"}})
            ids.append(call_id)
        self._message = None
        return ids

    def result(self, call_id: str, name: str, values: dict[str, Any], outcome: Outcome) -> None:
        """Add a tool's result."""
        is_slow = name == "Bash" and any(word in values["command"] for word in _SLOW)
        if is_slow:
            self._pass(3, 4)
            data = {"type": "bash_progress", "output": "", "elapsedTimeSeconds": 3}
            self._add("progress", data=data, toolUseID=call_id, parentToolUseID=call_id)
        self._pass(2, 40) if is_slow else self._pass(0.05, 0.6)
        block: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result"}
        block["content"] = outcome.text
        if outcome.is_error:
            block["is_error"] = True
        elif name == "Bash":
            block["is_error"] = False
        message = {"role": "user", "content": [block]}
        caller = self._callers[call_id]
        rest = {"toolUseResult": outcome.record, "sourceToolAssistantUUID": caller}
        self._add("user", message=message, **rest)
        if name in ("Edit", "Write") and not outcome.is_error and self._prompt:
            self._back_up(values["file_path"].removeprefix(f"{CWD}/"))
            self._snapshot(self._prompt[0], is_update=True)

    def finished(self) -> str:
        """Return the whole transcript as JSONL."""
        self._end_turn()
        dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        return "".join(f"{dump(line)}\n" for line in self._lines)

    def _assistant(self, block: dict[str, Any]) -> str:
        message = {
            "model": MODEL,
            "id": self._message,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
        }
        return self._add("assistant", message=message)

    def _end_turn(self) -> None:
        self._message = None
        if self._prompt is None:
            return
        self._pass(0.1, 0.2)
        took = round((self._time - self._prompt[1]).total_seconds() * 1000)
        self._add("system", subtype="turn_duration", durationMs=took, isMeta=False)
        self._prompt = None

    def _add(self, kind: str, uuid: str | None = None, **rest: Any) -> str:
        uuid = uuid or self._uuid()
        self._lines.append(
            {
                "parentUuid": self._parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": CWD,
                "sessionId": self._session,
                "version": VERSION,
                "gitBranch": "main",
                "type": kind,
                **rest,
                "uuid": uuid,
                "timestamp": self.clock,
            }
        )
        self._parent = uuid
        return uuid

    def _snapshot(self, prompt: str, *, is_update: bool) -> None:
        snapshot = {
            "messageId": prompt,
            "trackedFileBackups": dict(self._backups),
            "timestamp": self.clock,
        }
        message_id = self._parent if is_update else prompt
        line = {"type": "file-history-snapshot", "messageId": message_id, "snapshot": snapshot}
        self._lines.append(line | {"isSnapshotUpdate": is_update})

    def _back_up(self, path: str) -> None:
        version = self._backups.get(path, {}).get("version", 0) + 1
        name = None if version == 1 else f"{self._random.getrandbits(64):016x}@v{version}"
        backup = {"backupFileName": name, "version": version, "backupTime": self.clock}
        self._backups[path] = backup

    def _hook(self, event: str, name: str) -> dict[str, Any]:
        data = {"type": "hook_progress", "hookEvent": event, "hookName": f"{event}:{name}"}
        call = self._uuid()
        return {"data": data, "toolUseID": call, "parentToolUseID": call}

    def _pass(self, least: float, most: float) -> None:
        self._time += timedelta(milliseconds=round(1000 * self._random.uniform(least, most)))

    def _uuid(self) -> str:
        bits = self._random.getrandbits(128)
        digits = f"{bits & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _id(self, prefix: str) -> str:
        return prefix + "".join(self._random.choices(_ALPHABET, k=22))
