"""compact_batches and its like in a real Spark, `local[2]`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rehydrate
from rehydrate.batch import retention_batch
from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.spark import (
    ArrowBatches,
    compact_batches,
    count_tokens_batches,
    embed_batches,
    retention_batches,
)

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed; pip install 'rehydrate[spark]'")
cases = pytest.importorskip("tests.integrations.engine_rows")

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark's own, of Spark's own ways
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "spark.md"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two workers, which may try a task four times."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        no_java()
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.default.parallelism": "4",
        "spark.python.worker.reuse": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(_paths()))
        builder = SparkSession.builder.master("local[2,4]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def no_java() -> None:
    """Skip; on CI, where `.ci/run` installs it, fail."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail("CI has no Java; .ci/run installs openjdk-17-jre-headless")
    pytest.skip("no Java here, which Spark runs on")


def _paths() -> list[str]:
    """Where the workers find this project."""
    given = os.environ.get("PYTHONPATH")
    here = [str(Path(rehydrate.__file__).parents[1]), str(Path(__file__).parents[2])]
    return [*here, given] if given else here


@pytest.fixture(scope="module")
def folder_of_rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of four Parquet files."""
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("transcripts")
    given = cases.table(cases.transcripts())
    for part in range(4):
        size = -(-given.num_rows // 4)
        pyarrow.parquet.write_table(given.slice(part * size, size), folder / f"{part}.parquet")
    return str(folder)


def rows_of(frame: Any, batches: Any, schema: Any = None) -> list[dict[str, Any]]:
    found = frame.mapInArrow(batches, schema or batches.schema(frame)).collect()
    return [row.asDict() for row in found]


def test_each_row_is_what_compact_context_returns(spark: Any, folder_of_rows: str):
    frame = spark.read.parquet(folder_of_rows)
    compact = compact_batches(**cases.OPTIONS, messages=True, keep=["day"])
    schema = compact.schema(frame)
    assert schema["id"].dataType == frame.schema["id"].dataType
    assert schema.fieldNames()[-1] == "day"
    assert "other" not in schema.fieldNames()
    cases.check_compacted(rows_of(frame, compact), cases.transcripts())


def test_a_killed_worker_loses_no_row_and_doubles_none(
    spark: Any, folder_of_rows: str, tmp_path: Path
):
    frame = spark.read.parquet(folder_of_rows)
    compact = compact_batches(**cases.OPTIONS, messages=True, keep=["day"])

    def mortal(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for start in range(0, batch.num_rows, 8):
                yield from compact([batch.slice(start, 8)])
                cases.die_once(tmp_path, 3)

    cases.check_compacted(rows_of(frame, mortal, compact.schema(frame)), cases.transcripts())
    assert (tmp_path / "killed").exists()


def test_a_worker_has_one_thread_and_a_small_cache(spark: Any, folder_of_rows: str):
    frame = spark.read.parquet(folder_of_rows)
    compact = compact_batches(cache_bytes=32 << 20)

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            is_alone = cases.is_alone(lambda: list(compact([batch])))  # noqa: B023  is called here
            limit = rehydrate.process.cache_limit()
            yield pa.RecordBatch.from_pydict({"alone": [is_alone], "limit": [limit]})

    found = rows_of(frame, watched, "alone boolean, limit bigint")
    assert found
    assert all(row["alone"] and row["limit"] == 32 << 20 for row in found)


@pytest.mark.parametrize("text_type", ["string", "binary", "varchar(100)"])
def test_tokens_and_vectors_of_texts_of_each_type(spark: Any, text_type: str):
    texts = [(1, "Berth 4 is free."), (None, None), (3, ""), (4, "The ferry leaves at seven.")]
    frame = spark.createDataFrame(texts, "id int, text string").coalesce(1)
    frame = frame.selectExpr(
        "id", f"cast(text as {text_type}) as text", "timestamp'2026-11-25 14:00:00' as at"
    )
    counted = rows_of(frame, count_tokens_batches(of="text"))
    assert [(row["id"], row["tokens"]) for row in counted] == [(1, 7), (None, None), (3, 0), (4, 6)]
    vectors = rows_of(frame, embed_batches(keep="at"))
    assert len(vectors[0]["vector"]) == 256
    assert vectors[0]["at"] == frame.first()["at"]
    assert "text is null" in vectors[1]["error"]


def test_retention_is_that_of_retention_batch(spark: Any, folder_of_rows: str):
    frame = spark.read.parquet(folder_of_rows).where("day < 8 or day > 118")
    given = pa.table(frame.select("id", "messages").toArrow())
    expected = pa.table(retention_batch(given, target_ratio=0.3)).to_pylist()
    found = rows_of(frame, retention_batches(target_ratio=0.3))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert any(row["cuts"] for row in expected)


def test_a_frame_without_rows_has_none(spark: Any, folder_of_rows: str):
    frame = spark.read.parquet(folder_of_rows).where("id = 'nobody'")
    assert rows_of(frame, compact_batches()) == []


def test_a_mistake_is_reported_on_the_driver(spark: Any, folder_of_rows: str):
    frame = spark.read.parquet(folder_of_rows)
    mistakes = {
        "target_ratio is 2": lambda: compact_batches(target_ratio=2),
        "no option 'ratio'": lambda: compact_batches(ratio=0.3),  # type: ignore[call-arg]
        "keep names 'tokens', which": lambda: count_tokens_batches(keep=["tokens"]),
        "keep names 'week', but the table has id": lambda: _schema(compact_batches(keep="week")),
        "no column 'text'": lambda: _schema(embed_batches()),
        "column 'day' is of type integer": lambda: _schema(embed_batches(column="day")),
    }

    def _schema(batches: ArrowBatches) -> Any:
        return batches.schema(frame)

    for said, make in mistakes.items():
        with pytest.raises(InvalidArgumentError, match=said):
            make()


def test_the_page_runs(spark: Any, folder_of_rows: str, tmp_path: Path):
    first = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert first
    written = str(tmp_path / "written")
    code = first[1].replace("transcripts.parquet", folder_of_rows).replace("compacted", written)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "__main__"})
    assert spark.read.parquet(written).count() == len(cases.transcripts())
