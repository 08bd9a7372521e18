"""`rehydrate batch`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batch.folders import chat, table, tool_chat

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "talks"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.json").write_text(json.dumps(tool_chat(number) * 3), encoding="utf-8")
    (folder / "bad.json").write_text("\x1b[31m[", encoding="utf-8")
    return folder


def batch(run: Run, *arguments: object, code: int = 0) -> str:
    done = run("batch", *map(str, arguments), "--workers", "1")
    assert done.returncode == code, done.stderr.decode()
    assert (done.stderr if code == 0 else done.stdout) == b""
    return (done.stdout if code == 0 else done.stderr).decode()


def test_it_prints_what_it_did(run: Run, folder: Path, tmp_path: Path):
    lines = batch(run, "talks", "-o", "out.parquet", "--ratio", "30%").splitlines()
    found = pq.read_table(tmp_path / "out.parquet")
    before, after = (
        sum(filter(None, found[f"{x}_tokens"].to_pylist())) for x in ("before", "after")
    )
    assert lines[0].startswith("5 rows of talks in out.parquet, ")
    assert lines[1] == f"  tokens     {before:,} → {after:,} (-{1 - after / before:.1%})"
    assert lines[2] == "  errors     1 row without a result, in the column error:"
    assert lines[3].startswith("             bad.json: InvalidArgumentError: bad.json is not JSON")
    assert lines[4].startswith("  time ")
    assert lines[4].endswith(" cores by 1 worker")
    assert "\x1b" not in "".join(lines)
    assert found.column_names[1] == "kept"
    assert "messages" not in found.column_names


def test_what_it_did_as_json(run: Run, folder: Path, tmp_path: Path):
    report = json.loads(batch(run, "talks", "-o", "out.parquet", "--json", "--messages"))
    assert (report["rows"], report["errors"], report["workers"]) == (5, 1, 1)
    assert report["output_bytes"] == (tmp_path / "out.parquet").stat().st_size
    assert report["first_errors"][0]["id"] == "bad.json"
    assert "messages" in pq.read_schema(tmp_path / "out.parquet").names


def test_counts_and_retention(run: Run, folder: Path, tmp_path: Path):
    assert "  tokens     " in batch(run, "talks", "-o", "tokens.parquet", "--count")
    assert pq.read_schema(tmp_path / "tokens.parquet").names == ["id", "tokens", "error"]
    (folder / "long.json").write_text(json.dumps(tool_chat(7) * 20), encoding="utf-8")
    how = ("--ratio", "0.2", "--granularity", "excerpt")
    said = batch(run, "talks", "-o", "kept.parquet", "--retention", *how)
    assert " names used later\n" in said
    assert "  used later " in said
    assert pq.read_schema(tmp_path / "kept.parquet").names[:4] == [
        "id", "cuts", "needed", "used_later",
    ]  # fmt: skip


def test_the_options_are_those_of_compact(run: Run, folder: Path, tmp_path: Path):
    options = (
        *("--budget", "1k", "--query", "part 3", "--granularity", "excerpt"),
        *("--outline", "--thinking", "strip", "--model", "gpt-6", "--scoring", "chitta"),
        *(
            "--counter",
            "words",
            "--format",
            "openai_chat",
            "--no-embedding",
            "--provider",
            "openai_chat",
        ),
    )
    batch(run, "talks", "-o", "out.parquet", "--messages", *options)
    row = pq.read_table(tmp_path / "out.parquet").to_pylist()[2]
    alone = run("compact", "talks/2.json", "--json", *options)
    assert row["id"] == "2.json"
    assert json.loads(row["messages"]) == json.loads(alone.stdout)["messages"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "-o", "out.parquet"], "nothing: no such file or folder; check the path"),
        (["talks"], "the following arguments are required: -o/--output"),
        (["talks", "-o", "talks"], "talks: is a folder; name a file, such as out.parquet"),
        (["talks", "-o", "no/out.parquet"], "no: no such folder; make it first"),
        (["talks/x.txt", "-o", "o.parquet"], "no kind of file that a batch reads; name a folder"),
        (["t.parquet", "-o", "o.parquet"], "no column 'messages' (it has id); columns are id,"),
        (["talks", "-o", "o.parquet", "--count", "--ratio", "0.2"], "--count takes no --ratio"),
        (["talks", "-o", "o.parquet", "--retention", "--query", "x"], "takes no --query"),
        (["talks", "-o", "o.parquet", "--count", "--messages"], "not allowed with argument"),
        (["talks", "-o", "o.parquet", "--workers", "0"], "a number of processes from 1 to 1,024"),
        (["", "-o", "o.parquet"], "INPUT is empty"),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, folder: Path, tmp_path: Path, arguments: list[str], said: str
):
    (folder / "x.txt").write_text("x", encoding="utf-8")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t.parquet")
    done = run("batch", *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().count("\n") == 1
    assert said in done.stderr.decode()


def test_its_own_result_in_the_folder_is_no_input(run: Run, folder: Path, tmp_path: Path):
    (folder / "other.parquet.parts").mkdir()
    (folder / "other.parquet.parts" / "manifest.json").write_text("{}", encoding="utf-8")
    for out in ("talks/out.parquet", tmp_path / "talks" / "out.parquet"):
        said = batch(run, "talks", "-o", out, "--messages")
        assert said.startswith(f"5 rows of talks in {out}, ")


def test_rows_of_a_table_come_with_their_ids(run: Run, tmp_path: Path):
    pq.write_table(table([chat(1), chat(2)], [7, 8]), tmp_path / "t.parquet")
    batch(run, "t.parquet", "-o", "o.parquet")
    rows: list[dict[str, Any]] = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["id"] for row in rows] == [7, 8]


def test_a_model_of_ones_own_judges_the_rows(run: Run, folder: Path, tmp_path: Path):
    pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")
    pytest.importorskip("onnxruntime")
    from tests.embedding.tiny_onnx import write_model

    write_model(tmp_path / "model")
    options = ("--embedder", "model", "--query", "part 3", "--ratio", "0.3")
    batch(run, "talks", "-o", "out.parquet", *options)
    row = pq.read_table(tmp_path / "out.parquet").to_pylist()[2]
    alone = json.loads(run("compact", "talks/2.json", "--json", *options).stdout)
    assert (row["error"], row["degraded"]) == (None, None)
    assert row["after_tokens"] == alone["stats"]["after_tokens"]
    batch(run, "talks", "-o", "out.parquet", "--embedder", "no-such-model", code=2)
