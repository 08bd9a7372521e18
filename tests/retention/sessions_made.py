"""Small sessions of an agent at work, in the formats that rehydrate reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.jsonl"


def work(turns: int = 30, seed: int = 0) -> list[dict[str, Any]]:
    """Return a session in Anthropic's format that reads files and uses them twenty turns later."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": f"Mend the parser. Never touch src/engine_{seed}.rs, please."}
    ]
    for n in range(turns):
        path = f"src/mod_{seed}/file_{n % 20}.py"
        call = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": path}}
        text = f"def handler_{n}(): return load_table_{n}('{path}')\n" * 5
        messages += [
            {"role": "assistant", "content": [call]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text}],
            },
        ]
    return messages


def transcript(messages: list[dict[str, Any]], summary_at: int | None = None) -> list[dict]:
    """Return it as entries of a Claude Code transcript, with a summary before that message."""
    entries: list[dict] = [{"type": "file-history-snapshot", "messageId": "m", "snapshot": {}}]
    for n, message in enumerate(messages):
        if n == summary_at:
            text = "This session is being continued. Files: src/mod_0/file_15.py."
            entries += [
                {"type": "system", "subtype": "compact_boundary", "uuid": f"b{n}"},
                {
                    "type": "user",
                    "uuid": f"s{n}",
                    "isCompactSummary": True,
                    "message": {"role": "user", "content": text},
                },
            ]
        entries.append({"type": message["role"], "uuid": f"u{n}", "message": message})
    return entries


def write_lines(path: Path, values: list[Any]) -> Path:
    """Write one JSON value a line."""
    path.write_text("\n".join(map(json.dumps, values)) + "\n", encoding="utf-8")
    return path
