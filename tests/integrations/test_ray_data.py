"""RehydrateBatch and its like in a real Ray cluster of two workers on this machine."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rehydrate
from rehydrate.batch import retention_batch
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.ray_data import (
    CountTokensBatch,
    EmbedBatch,
    RehydrateBatch,
    RetentionBatch,
)

pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray", reason="ray is not installed; pip install 'rehydrate[ray]'")
cases = pytest.importorskip("tests.integrations.engine_rows")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, of Ray's own ways
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "ray.md"
WORKERS = 2


@pytest.fixture(scope="module")
def data() -> Iterator[Any]:
    """`ray.data` with a cluster of its own; nothing is reported to anybody or written at home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("PYTHONPATH", os.pathsep.join(_paths()))
        import ray

        ray.init(
            address="local",
            num_cpus=WORKERS,
            include_dashboard=False,
            object_store_memory=200 << 20,
            log_to_driver=False,
            logging_level="error",
            _node_ip_address="127.0.0.1",
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield ray.data
        ray.shutdown()


def _paths() -> list[str]:
    """Where the workers find this project."""
    given = os.environ.get("PYTHONPATH")
    here = [str(Path(rehydrate.__file__).parents[1]), str(Path(__file__).parents[2])]
    return [*here, given] if given else here


def dataset(data: Any, given: Any, blocks: int = 6) -> Any:
    return data.from_arrow(given).repartition(blocks)


def rows_of(found: Any) -> list[dict[str, Any]]:
    batches = found.iter_batches(batch_size=None, batch_format="pyarrow")
    return [row for batch in batches for row in batch.to_pylist()]


def test_each_row_is_what_compact_context_returns_in_tasks_and_in_actors(data: Any):
    rows = cases.transcripts()
    given = dataset(data, cases.table(rows))
    options: dict[str, Any] = {**cases.OPTIONS, "messages": True, "keep": ["day"]}
    tasks = given.map_batches(RehydrateBatch(**options), batch_format="pyarrow")
    actors = given.map_batches(
        RehydrateBatch,
        fn_constructor_kwargs=options,
        batch_format="pyarrow",
        batch_size=16,
        compute=data.ActorPoolStrategy(size=WORKERS),
        num_cpus=0.5,
    )
    for found in (tasks, actors):
        results = rows_of(found)
        cases.check_compacted(results, rows)
        assert "other" not in results[0]


def test_a_killed_worker_loses_no_row_and_doubles_none(data: Any, tmp_path: Path):
    rows = cases.transcripts(rows=90)
    given = dataset(data, cases.table(rows))

    class Mortal(RehydrateBatch):
        def __init__(self, folder: Path, **options: Any) -> None:
            super().__init__(**options)
            self.folder = folder

        def __call__(self, table: Any) -> Any:
            found = super().__call__(table)
            cases.die_once(self.folder, 2)
            return found

    options: dict[str, Any] = {**cases.OPTIONS, "messages": True, "keep": ["day"]}
    folders = [tmp_path / "tasks", tmp_path / "actors"]
    for folder in folders:
        folder.mkdir()
    tasks = given.map_batches(Mortal(folders[0], **options), batch_format="pyarrow", batch_size=8)
    actors = given.map_batches(
        Mortal,
        fn_constructor_args=[folders[1]],
        fn_constructor_kwargs=options,
        batch_format="pyarrow",
        batch_size=8,
        compute=data.ActorPoolStrategy(size=WORKERS),
        num_cpus=0.5,
    )
    for folder, found in zip(folders, (tasks, actors), strict=True):
        cases.check_compacted(rows_of(found), rows)
        assert (folder / "killed").exists()


def test_a_worker_has_one_thread_and_a_small_cache(data: Any):
    class Watched(RehydrateBatch):
        def __call__(self, table: Any) -> Any:
            is_alone = cases.is_alone(lambda: super(Watched, self).__call__(table))
            return pa.table({"alone": [is_alone], "limit": [rehydrate.process.cache_limit()]})

    given = dataset(data, cases.table(cases.transcripts(rows=40)), 2)
    tasks = given.map_batches(
        Watched(cache_bytes=32 << 20), batch_format="pyarrow", batch_size=None
    )
    actors = given.map_batches(
        Watched,
        fn_constructor_kwargs={"cache_bytes": 16 << 20},
        batch_format="pyarrow",
        batch_size=None,
        compute=data.ActorPoolStrategy(size=1),
        num_cpus=0.5,
    )
    for found, limit in ((tasks, 32 << 20), (actors, 16 << 20)):
        results = rows_of(found)
        assert len(results) == 2
        assert all(row["alone"] and row["limit"] == limit for row in results)


def test_the_cache_of_the_callers_process_is_left_alone():
    before = rehydrate.process.cache_limit()
    RehydrateBatch(cache_bytes=1 << 20)(cases.table(cases.transcripts(rows=1)))
    assert rehydrate.process.cache_limit() == before


def test_tokens_and_vectors(data: Any):
    texts = ["Berth 4 is free.", None, "", "The ferry leaves at seven."]
    given = pa.table({"id": pa.array([1, None, 3, 4], pa.int64()), "text": texts})
    counted = rows_of(
        dataset(data, given, 2).map_batches(CountTokensBatch(of="text"), batch_format="pyarrow")
    )
    counted.sort(key=lambda row: row["id"] or 2)
    assert [(row["id"], row["tokens"]) for row in counted] == [(1, 7), (None, None), (3, 0), (4, 6)]
    vectors = rows_of(
        dataset(data, given, 2).map_batches(EmbedBatch(keep="text"), batch_format="pyarrow")
    )
    vectors.sort(key=lambda row: row["id"] or 2)
    assert [row["text"] for row in vectors] == texts
    assert len(vectors[0]["vector"]) == 256
    assert "text is null" in vectors[1]["error"]


def test_retention_is_that_of_retention_batch(data: Any):
    given = cases.table(cases.transcripts(rows=6)).select(["id", "messages"])
    measure = RetentionBatch(target_ratio=0.3)
    found = rows_of(dataset(data, given, 2).map_batches(measure, batch_format="pyarrow"))
    expected = pa.table(retention_batch(given, target_ratio=0.3)).to_pylist()
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert any(row["cuts"] for row in expected)


def test_a_dataset_without_rows_has_none(data: Any):
    given = data.from_arrow(cases.table(cases.transcripts(rows=1)).slice(0, 0))
    assert rows_of(given.map_batches(RehydrateBatch(), batch_format="pyarrow")) == []


def test_a_mistake_is_reported_where_the_batch_is_made():
    mistakes = {
        "target_ratio is 2": {"target_ratio": 2},
        "no option 'ratio'": {"ratio": 0.3},
        "threads is 0": {"threads": 0},
        "cache_bytes is 5": {"cache_bytes": 5},
        "keep names 'kept', which is a column of the result": {"keep": ["kept"]},
        "keep names a column twice": {"keep": ["day", "day"]},
        "keep has 4": {"keep": [4]},
    }
    for said, options in mistakes.items():
        with pytest.raises(InvalidArgumentError, match=said):
            RehydrateBatch(**options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="encoding"):
        CountTokensBatch("p50k")  # type: ignore[arg-type]


def test_a_mistake_that_only_the_table_shows_ends_the_run_and_is_reported(data: Any):
    given = dataset(data, cases.table(cases.transcripts(rows=1)), 1)
    for batch, said in (
        (RehydrateBatch(keep="week"), "keep names 'week', but the table has id"),
        (CountTokensBatch(column="text"), "no column 'text'"),
    ):
        with pytest.raises(Exception, match=said):
            rows_of(given.map_batches(batch, batch_format="pyarrow"))
    actors = given.map_batches(
        RehydrateBatch,
        fn_constructor_kwargs={"target_ratio": 2},
        batch_format="pyarrow",
        compute=data.ActorPoolStrategy(size=1),
        num_cpus=0.5,
    )
    with pytest.raises(Exception, match="target_ratio is 2"):
        rows_of(actors)


def test_the_page_runs(data: Any, tmp_path: Path):
    import pyarrow.parquet

    rows, read, written = (
        cases.transcripts(rows=10),
        tmp_path / "read.parquet",
        tmp_path / "written",
    )
    pyarrow.parquet.write_table(cases.table(rows), read)
    first = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert first
    code = first[1].replace("transcripts.parquet", str(read)).replace("compacted", str(written))
    exec(compile(code, PAGE.name, "exec"), {"__name__": "__main__"})
    assert pyarrow.parquet.read_table(written).num_rows == len(rows)
