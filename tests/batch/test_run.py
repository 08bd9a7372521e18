"""A whole batch: folders and tables in, one file out, by worker processes that may be killed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rehydrate
from rehydrate.batch import compact_batch
from rehydrate.batch.inputs import UnreadableTableError
from rehydrate.batch.parts import OtherBatchError
from rehydrate.batch.run import run_batch
from rehydrate.batch.worker import COMPACT, COUNT
from rehydrate.errors import FileError, InvalidArgumentError, MissingPackageError
from tests.batch import fatal
from tests.batch.folders import SESSION, chat, table, tool_chat, write_every_shape

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

OPTIONS = {"target_ratio": 0.3, "messages": True}


def rows(path: Path) -> list[dict[str, Any]]:
    return pq.read_table(path).to_pylist()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.parquet"


def test_each_conversation_of_a_folder_is_what_compact_context_makes_of_it(
    tmp_path: Path, out: Path
):
    folder = tmp_path / "folder"
    write_every_shape(folder)
    special = {}
    if sys.platform != "win32":
        (folder / "gone.json").symlink_to("nowhere")
        os.mkfifo(folder / "pipe.json")
        special = {
            "gone.json": "gone.json: cannot be read: No such file or directory; make it readable",
            "pipe.json": "pipe.json: no regular file; ",
        }
    report = run_batch(folder, out, COMPACT, OPTIONS, workers=2)
    found = {row["id"]: row for row in rows(out)}
    lines = SESSION.read_text(encoding="utf-8").splitlines()
    expected = {
        "session.jsonl": ([json.loads(line) for line in lines if line.strip()], None),
        "list.json": (chat(1), None),
        "deep/calls.json": (tool_chat(2), None),
        "deep/body.jsonl": (chat(3), None),
        "deep/er/run.traj": (chat(4), None),
        "café lines.ndjson": (chat(5), None),
        "t.parquet#0": (chat(6), None),
        "t.parquet#1": (chat(7), "the tide"),
        "t.arrow#0": (chat(8), None),
        "t.jsonl#x": (chat(9), "rope"),
        "t.jsonl#5": (chat(10), None),
        "t.jsonl#2": (chat(11), None),
    }
    errors = {
        "t.parquet#2": "messages is null",
        "t.arrow#1": "InvalidMessageError",
        "t.jsonl#3": "isn't a JSON object",
        "t.jsonl#4": "no messages (it has id)",
        "bad.json": "isn't a JSON list",
        "latin.json": "not UTF-8",
        "empty.jsonl": "is empty",
        "other.parquet": "cannot be read",
        "columns.parquet": "no column 'id' (it has a)",
        **special,
    }
    assert found.keys() == expected.keys() | errors.keys()
    for name, (messages, query) in expected.items():
        alone = rehydrate.compact_context(messages, query, 0.3)
        assert found[name]["error"] is None, name
        assert found[name]["kept"] == list(alone.indices), name
        assert json.loads(found[name]["messages"]) == alone.messages
        assert found[name]["after_tokens"] == alone.stats.after_tokens
    for name, said in errors.items():
        assert said in found[name]["error"], found[name]
        assert found[name]["kept"] is None
    assert (report.rows, report.errors) == (len(expected) + len(errors), len(errors))
    assert report.sums["after_tokens"] == sum(row["after_tokens"] or 0 for row in found.values())
    assert report.use.cpu_seconds > 0
    # The order and the bytes are those of the input, whoever made which part.
    again = tmp_path / "again.parquet"
    run_batch(folder, again, COMPACT, OPTIONS, workers=1)
    assert again.read_bytes() == out.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.parquet", "folder", "out.parquet",
    ]  # fmt: skip


def test_a_table_keeps_its_ids_and_its_rows_are_those_of_compact_batch(tmp_path: Path, out: Path):
    ids = pa.array([None if n == 3 else n for n in range(300)], pa.int16())
    given = table([chat(n, 2 + n % 7) if n % 50 else "[{" for n in range(300)])
    given = given.set_column(0, "id", ids).append_column("other", ids)
    pq.write_table(given, tmp_path / "t.parquet", row_group_size=70)
    report = run_batch(tmp_path / "t.parquet", out, COMPACT, {"budget_tokens": 60}, workers=1)
    assert pq.read_table(out).equals(pa.table(compact_batch(given, budget_tokens=60)))
    assert (report.rows, report.errors) == (300, 6)
    assert [error.id for error in report.first_errors] == ["0", "50", "100", "150", "200"]


def test_counts_are_those_of_count_tokens(tmp_path: Path, out: Path):
    given = table([chat(1), tool_chat(2), "{"], ["a", "b", "c"])
    pq.write_table(given, tmp_path / "t.parquet")
    report = run_batch(tmp_path / "t.parquet", out, COUNT, {"format": "auto"}, workers=1)
    counts = [rehydrate.count_tokens(messages) for messages in (chat(1), tool_chat(2))]
    assert [row["tokens"] for row in rows(out)] == [*counts, None]
    assert report.sums == {"tokens": sum(counts)}


def test_a_row_that_ends_its_worker_has_an_error_and_costs_no_other(tmp_path: Path, out: Path):
    texts = [chat(n, 4) for n in range(24)]
    texts[13] = [{"role": "user", "content": fatal.MARK}]
    given = table(texts)
    pq.write_table(given, tmp_path / "t.parquet")
    report = run_batch(tmp_path / "t.parquet", out, fatal.JOB, {"target_ratio": 0.5}, workers=2)
    found, expected = rows(out), pa.table(compact_batch(given, target_ratio=0.5)).to_pylist()
    ended = found.pop(13)
    del expected[13]
    assert found == expected
    assert ended["id"] == 13
    assert ended["error"].startswith("WorkerEnded: its worker process ended, 2 times (")
    assert (report.errors, report.rows) == (1, 24)
    assert report.use.ended >= 3


@pytest.mark.parametrize("place", ["run.joined", "workers.write_part", "parts.whole_file"])
def test_a_full_disk_is_a_typed_error_and_the_same_call_goes_on(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "out.parquet")

    # A part that a worker did not live to write is written here, where the disk is full.
    is_fatal = place == "workers.write_part"
    texts = [chat(1), [{"role": "user", "content": fatal.MARK}] if is_fatal else chat(2)]
    pq.write_table(table(texts), tmp_path / "t.parquet")
    with monkeypatch.context() as disk:
        disk.setattr(f"rehydrate.batch.{place}", full)
        with pytest.raises(FileError, match=r"out.parquet: cannot be written: No space left"):
            run_batch(tmp_path / "t.parquet", out, fatal.JOB, {"target_ratio": 0.5}, workers=1)
    report = run_batch(tmp_path / "t.parquet", out, fatal.JOB, {"target_ratio": 0.5}, workers=1)
    assert (report.rows, report.errors) == (2, is_fatal)


def test_finished_parts_are_taken_and_those_of_changed_files_are_not(tmp_path: Path, out: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(24):  # parts of eight
        (folder / f"{number:02}.json").write_text(json.dumps(chat(number)), encoding="utf-8")
    (folder / "99.json").write_text(json.dumps([{"role": "user", "content": fatal.MARK}]), "utf-8")
    parts = tmp_path / "out.parquet.parts"

    class StopError(Exception):
        pass

    class Watcher:
        def begin(self, rows: int | None) -> None:
            assert rows == 25

        def take(self, rows: int) -> None:
            pass

        def advance(self, rows: int) -> None:
            if len(list(parts.glob("*.parquet"))) >= 3:
                raise StopError

    with pytest.raises(StopError):
        run_batch(folder, out, COMPACT, OPTIONS, workers=1, watcher=Watcher())
    assert not out.exists()
    with pytest.raises(OtherBatchError, match=r"target_ratio was 0.3 and is 0.4; .*--restart"):
        run_batch(folder, out, COMPACT, {**OPTIONS, "target_ratio": 0.4}, workers=1)
    kept = [pq.read_metadata(file).num_rows for file in parts.glob("*.parquet")]
    later = folder / "09.json"
    later.write_text(json.dumps(chat(100)), encoding="utf-8")
    report = run_batch(folder, out, COMPACT, OPTIONS, workers=1)
    assert (report.taken_rows, report.lost_parts) == (sum(kept) - 8, 1)
    fresh = tmp_path / "fresh.parquet"
    run_batch(folder, fresh, COMPACT, OPTIONS, workers=2)
    assert out.read_bytes() == fresh.read_bytes()


def test_restart_forgets_the_parts_but_deletes_no_other_folder(tmp_path: Path, out: Path):
    pq.write_table(table([chat(1)]), tmp_path / "t.parquet")
    parts = tmp_path / "out.parquet.parts"
    parts.mkdir()
    (parts / "mine.txt").write_text("important", encoding="utf-8")
    for restart in (False, True):
        with pytest.raises(OtherBatchError, match="no manifest of a batch"):
            run_batch(tmp_path / "t.parquet", out, COMPACT, OPTIONS, workers=1, restart=restart)
    (parts / "mine.txt").rename(tmp_path / "mine.txt")
    (parts / "manifest.json").write_text('{"options": {}}', encoding="utf-8")
    with pytest.raises(OtherBatchError, match="unfinished batch"):
        run_batch(tmp_path / "t.parquet", out, COMPACT, OPTIONS, workers=1)
    report = run_batch(tmp_path / "t.parquet", out, COMPACT, OPTIONS, workers=1, restart=True)
    assert (report.rows, report.taken_rows, parts.exists()) == (1, 0, False)


def test_inputs_that_are_invalid_are_refused_before_any_worker(tmp_path: Path, out: Path):
    def run(source: Path, output: Path = out, job: str = COMPACT, **options: Any) -> None:
        run_batch(source, output, job, options)

    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"id": [1], "text": ["x"]}), tmp_path / "text.parquet")
    pq.write_table(pa.table({"id": [1], "messages": [[{"role": "user"}]]}), tmp_path / "l.parquet")
    pq.write_table(table([chat(1)]), tmp_path / "t.parquet")
    (tmp_path / "torn.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-9])
    (tmp_path / "x.csv").write_text("id", encoding="utf-8")
    with pytest.raises(FileError, match="no such file or folder"):
        run(tmp_path / "nothing")
    with pytest.raises(FileError, match="holds no file that a batch reads"):
        run(tmp_path / "empty")
    with pytest.raises(FileError, match="no kind of file"):
        run(tmp_path / "x.csv")
    with pytest.raises(UnreadableTableError, match=r"no column 'messages' \(it has id, text\)"):
        run(tmp_path / "text.parquet")
    with pytest.raises(UnreadableTableError, match="'messages' is of type list"):
        run(tmp_path / "l.parquet")
    with pytest.raises(UnreadableTableError, match="cannot be read"):
        run(tmp_path / "torn.parquet")
    with pytest.raises(FileError, match="is the input"):
        run(tmp_path / "t.parquet", tmp_path / "t.parquet")
    with pytest.raises(FileError, match="is a folder"):
        run(tmp_path / "t.parquet", tmp_path / "empty")
    (tmp_path / "empty" / "talk.json").write_text(json.dumps(chat(1)))
    for taken in (tmp_path / "empty" / "talk.json", tmp_path / "text.parquet"):
        before = taken.read_bytes()
        with pytest.raises(FileError, match="is there and isn't a batch's result"):
            run(tmp_path / "empty", taken)
        assert taken.read_bytes() == before
    with pytest.raises(FileError, match="no such folder"):
        run(tmp_path / "t.parquet", tmp_path / "no" / "out.parquet")
    with pytest.raises(InvalidArgumentError, match="target_ratio"):
        run(tmp_path / "t.parquet", target_ratio=7)
    assert not out.with_name("out.parquet.parts").exists()


def test_a_table_that_is_damaged_in_the_middle_gives_its_rows_before(tmp_path: Path, out: Path):
    path = tmp_path / "t.parquet"
    given = table([chat(n, 2) for n in range(2_500)])
    pq.write_table(given, path, row_group_size=1_000, compression="zstd", use_dictionary=False)
    column = pq.read_metadata(path).row_group(1).column(1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset : column.data_page_offset + 200] = b"\xff" * 200
    path.write_bytes(data)
    report = run_batch(path, out, COMPACT, OPTIONS, workers=1)
    found = rows(out)
    assert [row["id"] for row in found] == [*range(len(found) - 1), None]
    assert all(row["error"] is None for row in found[:-1])
    assert found[-1]["error"].startswith(f"from row {len(found) - 1} on, {path}: cannot be read: ")
    assert (report.rows, report.errors) == (len(found), 1)
    assert len(found) == 1_001


def test_a_table_without_rows_gives_one_without_rows(tmp_path: Path, out: Path):
    pq.write_table(table([chat(1)]).slice(1), tmp_path / "t.parquet")
    assert run_batch(tmp_path / "t.parquet", out, COMPACT, OPTIONS).rows == 0
    assert pq.read_schema(out).names[:2] == ["id", "kept"]


def test_pyarrow_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "rehydrate.batch.run")
    with pytest.raises(MissingPackageError, match=r"pip install 'rehydrate\[batch\]"):
        import_module("rehydrate.batch.run")


def test_a_part_that_cannot_be_written_ends_the_batch_and_says_so(tmp_path: Path, out: Path):
    if sys.platform == "win32" or not hasattr(os, "mkfifo"):
        pytest.skip("needs links")
    pq.write_table(table([chat(1)]), tmp_path / "t.parquet")
    out.with_name("out.parquet.parts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OtherBatchError, match="not a folder of parts"):
        run_batch(tmp_path / "t.parquet", out, COMPACT, OPTIONS)


def test_no_process_of_the_command_imports_pandas_which_takes_most_of_a_second(tmp_path: Path):
    folder, stubs = tmp_path / "given", tmp_path / "stubs"
    folder.mkdir()
    stubs.mkdir()
    write_every_shape(folder)
    marker = stubs / "imported"
    (stubs / "pandas.py").write_text(f"open({str(marker)!r}, 'w').close()", encoding="utf-8")
    command = [sys.executable, "-m", "rehydrate", "batch", folder, "-o", tmp_path / "out.parquet"]
    path = os.pathsep.join([str(stubs), *sys.path])
    subprocess.run(
        [*command, "--workers", "1", "--counter", "chars", "--no-embedding", "--json"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert not marker.exists()
