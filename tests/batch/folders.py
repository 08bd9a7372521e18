"""Folders of conversations, in every shape that a batch reads."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SESSION = ROOT / "examples" / "session.jsonl"
_WORDS = ("harbour", "ferry", "berth", "crane", "tide", "pilot", "cargo", "lamp", "rope", "quay")


def chat(number: int, turns: int = 12) -> list[dict[str, Any]]:
    """Return a short talk, another for each number."""
    dice = random.Random(number)
    return [
        {
            "role": ("user", "assistant")[turn % 2],
            "content": f"{number}.{turn}: "
            + " ".join(dice.choices(_WORDS, k=dice.randrange(4, 40))),
        }
        for turn in range(turns)
    ]


def tool_chat(number: int) -> list[dict[str, Any]]:
    """Return an OpenAI chat with calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"look at part {number}"}]
    for step in range(6):
        given = json.dumps({"path": f"src/part_{number}_{step}.py"})
        call = {
            "id": f"c{step}",
            "type": "function",
            "function": {"name": "ls", "arguments": given},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"c{step}", "content": f"line {step} " * 50}
        )
    return [*messages, {"role": "assistant", "content": "done, caf\u00e9"}]


def table(rows: Sequence[Any], ids: Sequence[Any] | None = None, **columns: Any) -> Any:
    """Return a table of conversations; a text is taken as it is."""
    import pyarrow as pa

    texts = [row if isinstance(row, (str, type(None))) else json.dumps(row) for row in rows]
    return pa.table({"id": list(ids or range(len(rows))), "messages": texts} | columns)


def write_every_shape(folder: Path) -> None:
    """Write conversations and tables in every shape, and files that are none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "session.jsonl").write_bytes(SESSION.read_bytes())
    (folder / "list.json").write_text(json.dumps(chat(1), indent=2), encoding="utf-8")
    (folder / "deep" / "calls.json").write_text(json.dumps(tool_chat(2)), encoding="utf-8")
    body = {"model": "m", "messages": chat(3), "n": 1.50}
    (folder / "deep" / "body.jsonl").write_text(json.dumps(body), encoding="utf-8")
    (folder / "deep" / "er" / "run.traj").write_text(json.dumps({"history": chat(4)}), "utf-8")
    lines = "".join(json.dumps(message) + "\n\n" for message in chat(5))
    (folder / "caf\u00e9 lines.ndjson").write_text(lines, encoding="utf-8")
    pq.write_table(
        table([chat(6), chat(7), None], query=[None, "the tide", None]), folder / "t.parquet"
    )
    with pa.ipc.new_file(folder / "t.arrow", (arrow := table([chat(8), "[1]"])).schema) as writer:
        writer.write_table(arrow)
    rows = [
        json.dumps({"id": "x", "messages": chat(9), "query": "rope"}),
        json.dumps({"id": 5, "messages": json.dumps(chat(10))}),
        "",
        json.dumps({"messages": chat(11)}),
        '{"id": "cut off", "messages": [',
        json.dumps({"id": "none"}),
    ]
    (folder / "t.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "bad.json").write_bytes(b'[{"role": "user"')
    (folder / "latin.json").write_bytes('[{"role": "user", "content": "café"}]'.encode("latin-1"))
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "other.parquet").write_bytes(b"PAR1 no more")
    pq.write_table(pa.table({"a": [1]}), folder / "columns.parquet")
    (folder / "readme.md").write_text("no conversation", encoding="utf-8")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "p.json").write_text("{}", encoding="utf-8")
