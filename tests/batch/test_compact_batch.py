"""compact_batch: each row as compact_context compacts it, and bad rows that fail nobody else."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rehydrate
from rehydrate.batch import compact_batch, compact_stream, count_tokens_batch, embed_batch
from rehydrate.errors import InvalidArgumentError, UnknownFormatError
from tests.compact.cases import scorings, talk
from tests.strategies import BY_FORMAT, damaged

pa = pytest.importorskip("pyarrow")

IN_JSON = sorted(BY_FORMAT.keys() - {"langchain"})  # its messages are objects
FIGURES = (
    *("before_tokens", "after_tokens", "target_tokens", "dropped", "excerpted", "stripped"),
    *("changed", "over_budget", "format"),
)
TALK = talk(
    "user: My order number is 81-4471, please note it.",
    "assistant: Noted. Shall we talk about something else now?",
    "user: Is it raining in the harbour?",
    "assistant: Not yet.",
    "user: What was my order number?",
)
BAD = {
    "no JSON": "[{",
    "no list": '{"role": "user"}',
    "more than a list": "[] []",
    "no messages": "[1, 2]",
    "an unknown role": '[{"role": 5, "content": "hi"}]',
    "nested too deeply": "[" * 100_000,
    "a number of thousands of digits": "[" + "7" * 5_000 + "]",
    "empty": "",
}


def table(rows: list[Any], **columns: Any) -> Any:
    texts = [row if isinstance(row, (str, type(None))) else json.dumps(row) for row in rows]
    return pa.table(
        {"id": list(range(len(rows))), "messages": pa.array(texts, pa.string())} | columns
    )


def results(found: Any) -> list[dict[str, Any]]:
    return pa.table(found).to_pylist()


options = st.fixed_dictionaries(
    {},
    optional={
        "target_ratio": st.floats(0.05, 1.0),
        "scoring": scorings,
        "embedder": st.sampled_from(["auto", None]),
        "counter": st.sampled_from([None, "words", "cl100k_base", len]),
        "granularity": st.sampled_from(["message", "excerpt"]),
        "thinking": st.sampled_from(["auto", "keep", "strip"]),
        "outline": st.sampled_from([False, True, 100]),
        "model": st.sampled_from(["", "claude-opus-5-5"]),
    },
)


@st.composite
def batches(draw: Any) -> tuple[list[Any], list[str | None]]:
    name = draw(st.sampled_from(IN_JSON))
    rows = draw(st.lists(BY_FORMAT[name](), min_size=1, max_size=4))
    rows = [draw(damaged(row)) if row and draw(st.booleans()) else row for row in rows]
    rows = json.loads(json.dumps(rows, default=lambda data: b64encode(data).decode()))
    return rows, [draw(st.sampled_from([None, "", "src/app.py fails"])) for _ in rows]


@given(batches(), options, st.sampled_from([None, 1, 2]))
def test_each_row_is_what_compact_context_returns(batch: Any, options: Any, threads: int):
    rows, queries = batch
    found = compact_batch(
        table(rows, query=pa.array(queries, pa.string())), messages=True, threads=threads, **options
    )
    for row, query, result in zip(rows, queries, results(found), strict=True):
        try:
            alone = rehydrate.compact_context(json.loads(json.dumps(row)), query, **options)
        except rehydrate.RehydrateError as error:
            assert result["error"].startswith(type(error).__name__)
            assert {name for name, value in result.items() if value is not None} == {"id", "error"}
            continue
        assert result["error"] is None
        assert result["kept"] == list(alone.indices)
        assert json.loads(result["messages"]) == alone.messages
        assert result["degraded"] == ("; ".join(alone.stats.degraded) or None)
        assert result["outline"] == (alone.outline.position if alone.outline else None)
        for name in FIGURES:
            assert result[name] == getattr(alone.stats, name)


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "string_view", "binary", "large_binary"]
)
def test_texts_of_every_layout_are_read(kind: str):
    rows = table([TALK, TALK[:2]])
    texts = rows["messages"].cast(pa.large_string()).cast(getattr(pa, kind)())
    given = rows.set_column(1, "messages", texts)
    assert results(compact_batch(given)) == results(compact_batch(rows))


def test_a_record_batch_a_table_of_chunks_and_a_slice_are_read():
    rows = table([TALK, None, TALK[:2], TALK[2:]])
    whole = results(compact_batch(rows))
    assert results(compact_batch(rows.to_batches()[0])) == whole
    assert results(compact_batch(rows.to_reader(max_chunksize=1))) == whole
    assert results(compact_batch(rows.slice(2))) == whole[2:]
    assert results(compact_batch(rows.to_batches()[0].slice(1, 2))) == whole[1:3]


def test_a_table_without_rows_has_a_result_without_rows():
    found = pa.table(compact_batch(table([])))
    assert (found.num_rows, found.column_names[0]) == (0, "id")
    assert pa.types.is_list(found.schema.field("kept").type)


def test_polars_and_duckdb_give_and_take_tables():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    kept = [row["kept"] for row in results(compact_batch(table([TALK]), target_ratio=0.6))]
    frame = polars.from_arrow(table([TALK]))
    found = compact_batch(frame, target_ratio=0.6)
    assert polars.DataFrame(found)["kept"].to_list() == kept
    with duckdb.connect() as connection:
        relation = connection.from_arrow(table([TALK]))
        taken = compact_batch(relation, target_ratio=0.6)
        assert results(taken) == results(found)
        assert connection.sql("select kept from taken").fetchall() == [(kept[0],)]


def test_ids_of_any_type_come_back():
    for ids in (pa.array(["a", None]), pa.array([b"\xff", b""]), pa.array([[1], []])):
        given = pa.table({"id": ids, "messages": [json.dumps(TALK)] * 2, "other": [1, 2]})
        assert pa.table(compact_batch(given))["id"].to_pylist() == ids.to_pylist()


def test_kept_messages_are_letter_for_letter_as_they_were():
    text = '[ {"role":"user", "content":"caf\\u00e9 1e5"} ,\n{"role": "user","content" : "x"}]'
    found = results(compact_batch(table([text]), messages=True, target_ratio=1.0))
    assert found[0]["messages"] == (
        '[{"role":"user", "content":"caf\\u00e9 1e5"},{"role": "user","content" : "x"}]'
    )
    half = '[{"role":"user","content":"half a pair \\ud83d"}]'
    assert results(compact_batch(table([half]), messages=True))[0]["messages"] == half


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_row_has_an_error_and_fails_no_other(text: str):
    good, bad, none, after = results(compact_batch(table([TALK, text, None, TALK]), messages=True))
    assert bad["error"].startswith(("InvalidArgumentError: ", "InvalidMessageError: "))
    assert none["error"] == "InvalidArgumentError: messages is null; pass a text"
    assert bad["kept"] is none["kept"] is bad["messages"] is None
    assert good["error"] is after["error"] is None
    assert good["kept"] == after["kept"]


def test_bytes_that_are_no_utf_8_are_a_bad_row():
    given = pa.table({"id": [1, 2], "messages": [b'["\xff"]', json.dumps(TALK).encode()]})
    bad, good = results(compact_batch(given))
    assert bad["error"] == "InvalidArgumentError: messages isn't UTF-8 from byte 2 on; pass UTF-8"
    assert good["error"] is None


def test_bytes_that_are_called_a_string_but_are_not_utf8_are_a_bad_row():
    binary = pa.array([b'["\xff"]', json.dumps(TALK).encode()])
    lie = pa.StringArray.from_buffers(2, *binary.buffers()[1:])
    bad, good = results(compact_batch(pa.table({"id": [1, 2], "messages": lie})))
    assert "isn't UTF-8" in bad["error"]
    assert good["error"] is None


def test_a_row_of_twenty_megabytes_is_a_row():
    text = "The ferry leaves at seven from berth four. " * 500_000
    long = [{"role": "user", "content": text}, *TALK]
    found = results(compact_batch(table([long, TALK]), budget_tokens=100, counter="chars"))
    assert found[0]["before_tokens"] > 6_000_000
    assert 0 not in found[0]["kept"]
    assert found[1]["error"] is None


def test_a_stop_in_one_thread_ends_them_all_and_is_raised():
    def counter(text: str) -> int:
        if "harbour" in text:
            raise KeyboardInterrupt
        return len(text)

    for threads in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            compact_batch(table([TALK[:2], TALK] * 40), counter=counter, threads=threads)


def test_a_counter_that_fails_fails_its_rows():
    def counter(text: str) -> int:
        if "harbour" in text:
            raise RuntimeError("secret")
        return len(text)

    good, bad = results(compact_batch(table([TALK[:2], TALK]), counter=counter))
    assert good["error"] is None
    assert bad["error"].startswith("InvalidArgumentError: counter")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1, 2], "has no __arrow_c_stream__"),
        ("pa.array([1])", "cannot be read"),
        ("pa.table({'messages': ['[]']})", "no column 'id'"),
        ("pa.table({'id': [1]})", "no column 'messages'"),
        ("pa.table({'id': [1], 'messages': [1]})", "is of type Int64"),
        ("pa.table({'id': [1], 'messages': [[{'role': 'user'}]]})", "is of type List"),
        ("pa.table({'id': [1], 'messages': ['[]'], 'query': [1]})", "'query' is of type"),
    ],
)
def test_tables_that_are_none_are_refused(given: Any, said: str):
    table = eval(given, {"pa": pa}) if isinstance(given, str) else given
    with pytest.raises(InvalidArgumentError, match=said.replace("'", "[\"']")):
        compact_batch(table)


@pytest.mark.parametrize(
    "options",
    [
        {"target_ratio": 0},
        {"counter": "bytes"},
        {"outline": "yes"},
        {"threads": 0},
        {"granularity": "word"},
        {"memory": object()},
        {"query": 5},
    ],
)
def test_options_outside_their_limits_are_refused_before_any_row(options: Any):
    with pytest.raises(InvalidArgumentError):
        compact_batch(table([]), **options)
    with pytest.raises(UnknownFormatError):
        compact_batch(table([]), format="morse")


def test_the_option_query_holds_for_rows_without_one():
    given = table([TALK, TALK], query=pa.array([None, "order number"]))
    first, second = results(compact_batch(given, query="order number", target_ratio=0.6))
    assert first["kept"] == second["kept"]


def test_a_failure_of_the_producer_is_the_callers():
    def broken() -> Any:
        yield table([TALK]).to_batches()[0]
        raise OSError("disk on fire")

    reader = pa.RecordBatchReader.from_batches(table([TALK]).schema, broken())
    with pytest.raises(InvalidArgumentError, match="disk on fire"):
        compact_batch(reader)


def test_counts_are_those_of_count_tokens():
    rows = [TALK, TALK[:1], []]
    found = results(count_tokens_batch(table([*rows, "[1", None])))
    assert [row["tokens"] for row in found[:3]] == [rehydrate.count_tokens(row) for row in rows]
    assert [row["tokens"] for row in found[3:]] == [None, None]
    assert all(row["error"] for row in found[3:])
    texts = ["", "Hello, world!", "שלום 🙂 " * 9_000] * 100
    given = pa.table({"id": texts, "text": [*texts[:-1], None]})
    for threads in (1, 2):
        counted = results(count_tokens_batch(given, "cl100k_base", of="text", threads=threads))
        alone = [rehydrate.count_tokens(text, "cl100k_base") for text in texts[:3]]
        assert [row["tokens"] for row in counted] == [*(alone * 100)[:-1], None]
    with pytest.raises(InvalidArgumentError):
        count_tokens_batch(given, "words", of="text")
    with pytest.raises(InvalidArgumentError):
        count_tokens_batch(given, of="bytes")


def test_vectors_are_those_of_the_built_in_model():
    from rehydrate._engine import embed

    texts = ["The ferry leaves at seven.", "", "berth four is free"] * 50
    given = pa.table({"id": range(150), "text": [*texts[:-1], None]})
    found = results(embed_batch(given))
    assert found[-1]["vector"] is None
    assert found[-1]["error"] == "InvalidArgumentError: text is null; pass a text"
    rows = embed(texts)
    assert all(row["vector"] == list(map(float, rows[n])) for n, row in enumerate(found[:-1]))
    with pytest.raises(InvalidArgumentError, match="no column 'text'"):
        embed_batch(table([TALK]))


def test_neither_the_kernel_nor_its_result_needs_pyarrow(tmp_path: Any):
    nanoarrow = pytest.importorskip("nanoarrow")
    assert nanoarrow
    program = f"""
import sys
sys.modules["pyarrow"] = None
import nanoarrow
from rehydrate.batch import compact_batch
text = {json.dumps(json.dumps(TALK))}
schema = nanoarrow.struct({{"id": nanoarrow.int64(), "messages": nanoarrow.string()}})
ids = nanoarrow.c_array([7], nanoarrow.int64())
texts = nanoarrow.c_array([text], nanoarrow.string())
given = nanoarrow.c_array_from_buffers(schema, 1, [None], children=[ids, texts])
found = compact_batch(given)
print(len(found), found.column_names[:2], [*nanoarrow.Array(found).iter_py()][0]["id"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.stdout == "1 ['id', 'kept'] 7\n", done.stderr


def test_a_stream_computes_a_batch_when_it_is_read_and_gives_the_same():
    given = table([TALK, None, TALK[:2], TALK[2:], "[{"])
    read: list[int] = []

    def batches() -> Any:
        for batch in given.to_batches(max_chunksize=2):
            read.append(batch.num_rows)
            yield batch

    source = pa.RecordBatchReader.from_batches(given.schema, batches())
    found = compact_stream(source, messages=True, target_ratio=0.5)
    assert (read, found.column_names[:2]) == ([2], ["id", "kept"])
    reader = pa.RecordBatchReader.from_stream(found)
    got = [reader.read_next_batch(), reader.read_next_batch()]
    assert read == [2, 2]
    got += reader
    whole = pa.table(compact_batch(given, messages=True, target_ratio=0.5))
    assert pa.Table.from_batches(got).equals(whole)
    with pytest.raises(InvalidArgumentError, match="has been read"):
        pa.RecordBatchReader.from_stream(found)


def test_polars_and_duckdb_read_a_stream():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    given = table([TALK, TALK[:2], None])
    kept = [row["kept"] for row in results(compact_batch(given))]

    def stream() -> Any:
        return compact_stream(given.to_reader(max_chunksize=1))

    assert polars.DataFrame(stream())["kept"].to_list() == kept
    found = stream()
    with duckdb.connect() as connection:
        rows = connection.sql("select kept from found").fetchall()
        assert [row[0] for row in rows] == kept
        del found


def test_a_stream_raises_what_fails_in_the_middle_where_it_is_read():
    def broken() -> Any:
        yield table([TALK]).to_batches()[0]
        raise OSError("disk on fire")

    source = pa.RecordBatchReader.from_batches(table([TALK]).schema, broken())
    reader = pa.RecordBatchReader.from_stream(compact_stream(source))
    assert reader.read_next_batch().num_rows == 1
    with pytest.raises((OSError, pa.ArrowException), match="disk on fire"):
        reader.read_next_batch()
    with pytest.raises(InvalidArgumentError, match="target_ratio"):
        compact_stream(table([TALK]), target_ratio=0)
    assert pa.table(compact_stream(table([]))).num_rows == 0
