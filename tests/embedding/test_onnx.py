"""Embedding through ONNX Runtime: the right vectors, in any batch, before the deadline."""

from __future__ import annotations

import json
import pickle
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")

from rehydrate.embedding import OnnxModel, load_model
from rehydrate.embedding.protocol import MAX_DIMENSIONS
from rehydrate.errors import InvalidArgumentError, ModelError
from tests.embedding.tiny_onnx import DIM, NAN_WORD, TABLE, VOCAB, expected, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> OnnxModel:
    return load_model(folder, threads=2)


def some_texts(count: int, *, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    letters = "abcdefghij"
    return [" ".join(draw.choices(letters, k=draw.randint(1, 60))) for _ in range(count)]


def test_vectors_are_the_mean_of_the_tokens_at_length_one(model: OnnxModel) -> None:
    texts = some_texts(300)
    rows = model.embed(texts)
    assert rows.dtype == np.float32 and rows.shape == (300, DIM) == (300, model.dim)
    np.testing.assert_allclose(rows, [expected(text) for text in texts], atol=1e-6)


def test_a_graph_that_pools_by_itself_gives_the_same(model: OnnxModel, tmp_path: Path) -> None:
    texts = some_texts(50)
    pooled = load_model(write_model(tmp_path, output="sentence"))
    np.testing.assert_allclose(pooled.embed(texts), model.embed(texts), atol=1e-6)


def test_a_model_that_pools_by_its_first_token_is_run_so(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    row = load_model(tmp_path).embed(["a b"])[0]
    first = TABLE[VOCAB.index("[CLS]")]
    np.testing.assert_allclose(row, first / np.linalg.norm(first), atol=1e-6)


def test_a_quantised_graph_gives_a_text_the_same_bytes_in_any_company(tmp_path: Path) -> None:
    model = load_model(write_model(tmp_path, name="model_int8.onnx"))
    assert model.precision == "int8"
    texts = some_texts(40)
    together = model.embed(texts)
    alone = np.concatenate([model.embed([text]) for text in texts])
    assert together.tobytes() == alone.tobytes()


def test_the_order_of_the_texts_is_the_order_of_the_rows(model: OnnxModel) -> None:
    texts = some_texts(100)
    np.testing.assert_allclose(model.embed(texts[::-1])[::-1], model.embed(texts), atol=1e-6)


def test_repeated_texts_have_equal_rows(model: OnnxModel) -> None:
    rows = model.embed(["a b", "c", "a b", "a b"])
    assert rows[0].tobytes() == rows[2].tobytes() == rows[3].tobytes() != rows[1].tobytes()


def test_texts_without_a_token_are_zero_rows(model: OnnxModel) -> None:
    rows = model.embed(["", " \n", "a", "\x00"])
    assert rows.any(axis=1).tolist() == [False, False, True, False]


def test_vectors_that_are_no_numbers_become_zero_rows(model: OnnxModel) -> None:
    rows = model.embed([f"a {NAN_WORD}", "a"])
    assert not rows[0].any() and np.isfinite(rows).all() and rows[1].any()


def test_no_texts_give_no_rows(model: OnnxModel) -> None:
    assert model.embed([]).shape == (0, DIM)


def test_special_tokens_in_a_text_are_text(model: OnnxModel) -> None:
    special, plain = model.embed(["a [SEP] b", "a b"])
    assert not np.allclose(special, plain)
    assert not np.allclose(special, expected("a b"), atol=1e-3)


def test_lone_surrogates_count_as_question_marks(model: OnnxModel) -> None:
    broken, replaced = model.embed(["a \ud800 b", "a ? b"])
    np.testing.assert_array_equal(broken, replaced)


@pytest.mark.parametrize(
    "hostile", ["a " * 5_000_000, " " * 5_000_000, "a" * 5_000_000, "\u0300" * 10**6]
)
def test_huge_texts_are_cut_before_they_are_read(model: OnnxModel, hostile: str) -> None:
    assert model.embed([hostile]).shape == (1, DIM)


def test_long_texts_are_cut_at_max_tokens(folder: Path) -> None:
    model = load_model(folder, max_tokens=16)
    row = model.embed(["a b c d " * 100])[0]
    np.testing.assert_allclose(row, expected("a b c d " * 100, 16), atol=1e-6)


def test_a_deadline_in_the_past_gives_zero_rows(model: OnnxModel) -> None:
    rows = model.embed(["a", "b"], deadline=time.monotonic() - 1)
    assert rows.shape == (2, DIM) and not rows.any()


def test_a_deadline_far_away_changes_nothing(model: OnnxModel) -> None:
    texts = some_texts(30)
    rows = model.embed(texts, deadline=time.monotonic() + 1e6)
    np.testing.assert_allclose(rows, model.embed(texts), atol=1e-6)
    assert model.embed(texts, deadline=float("inf")).any(axis=1).all()


def test_a_deadline_midway_leaves_the_last_texts_out(model: OnnxModel) -> None:
    texts = [f"a b {' '.join(str(index))}" for index in range(200_000)]
    for seconds in (0.3, 1, 3, 9):  # a busy machine may reach nothing in the first
        reached = model.embed(texts, deadline=time.monotonic() + seconds).any(axis=1)
        if reached.any():
            break
    assert reached.any() and not reached[-1]
    begun = reached[: np.flatnonzero(reached)[-1]]
    assert np.count_nonzero(~begun) <= model.threads, "those in hand at the deadline"


def test_threads_share_a_model(model: OnnxModel) -> None:
    batches = [some_texts(50, seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for texts, rows in zip(batches, pool.map(model.embed, batches), strict=True):
            np.testing.assert_allclose(rows, [expected(text) for text in texts], atol=1e-6)


def test_a_model_survives_pickling_with_its_space(model: OnnxModel) -> None:
    again = pickle.loads(pickle.dumps(model))
    assert again.space == model.space and again.threads == model.threads
    np.testing.assert_array_equal(again.embed(["a b"]), model.embed(["a b"]))


def test_spaces_differ_where_vectors_do(model: OnnxModel, folder: Path, tmp_path: Path) -> None:
    assert load_model(folder, threads=1).space == model.space
    assert load_model(folder, max_tokens=16).space != model.space
    assert load_model(write_model(tmp_path, output="sentence")).space != model.space


def test_warming_up_and_repr_say_what_there_is(model: OnnxModel) -> None:
    model.warm_up()
    assert repr(model).endswith("model.onnx', dim=8, max_tokens=256, threads=2)")


@pytest.mark.parametrize(
    ("texts", "said"),
    [("abc", "texts is one string"), (["a", 3], r"texts\[1\] is of type int"), ([b"a"], "bytes")],
)
def test_texts_that_are_invalid_are_refused(model: OnnxModel, texts: list[str], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        model.embed(texts)


def test_arguments_outside_their_limits_are_refused(folder: Path) -> None:
    for options, said in [
        ({"precision": "fp64"}, "precision is 'fp64'"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": 1.5}, "threads is 1.5"),
        ({"max_tokens": 2}, "max_tokens is 2"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            load_model(folder, **options)  # type: ignore[arg-type]


def test_a_graph_with_other_inputs_is_refused(tmp_path: Path) -> None:
    from onnx import load, save

    write_model(tmp_path)
    graph = load(tmp_path / "model.onnx")
    graph.graph.input[2].name = "pixel_values"
    save(graph, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="its input pixel_values is"):
        load_model(tmp_path)


@pytest.mark.parametrize("where", ["../secret.bin", "weights.bin"])
def test_weights_in_other_files_are_refused_where_the_runtime_follows_them(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx import TensorProto, load, save

    from rehydrate.embedding import onnx as module

    folder = tmp_path / "model"
    folder.mkdir()
    write_model(folder)
    graph = load(folder / "model.onnx")
    tensor = next(each for each in graph.graph.initializer if each.data_type == TensorProto.FLOAT)
    (folder / where).write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", where
    save(graph, folder / "model.onnx")
    if where.startswith(".."):
        with pytest.raises(ModelError):  # by the runtime itself, or by us
            load_model(folder)
    library = module.onnxruntime_library()
    monkeypatch.setattr(module, "onnxruntime_library", lambda: library._replace(version="1.23.2"))
    with pytest.raises(ModelError, match="weights in other files"):
        load_model(folder)


def _replaces(count: int, text: str, content: str) -> dict[str, object]:
    step = {"type": "Replace", "pattern": {"String": text}, "content": content}
    return {"type": "Sequence", "normalizers": [step] * count}


@pytest.mark.parametrize(
    ("normalizer", "fits"),
    [
        (_replaces(4, "a", "a" * 100), False),
        (_replaces(1, "a", "a" * 1_000), False),
        (_replaces(12, "ab", "ab"), True),
        (_replaces(1, " ", "▁"), True),
        ({"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 300}, False),
        ({"type": "Prepend", "prepend": "▁"}, True),
        ({"type": "Lowercase"}, True),
        ({"type": "Sequence", "normalizers": [_replaces(3, "a", "aa" * 9)]}, False),
    ],
)
def test_a_tokenizer_may_not_make_a_flood_of_a_text(
    tmp_path: Path, normalizer: dict[str, object], fits: bool
) -> None:
    write_model(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["normalizer"] = normalizer
    file.write_text(json.dumps(content))
    if fits:
        assert load_model(tmp_path, threads=1).embed(["a b"]).shape == (1, DIM)
    else:
        with pytest.raises(ModelError, match="the limit is 256"):
            load_model(tmp_path)


def test_a_model_of_more_dimensions_than_vectors_may_have_is_refused(tmp_path: Path) -> None:
    wide = np.ones((len(VOCAB), MAX_DIMENSIONS + 1), np.float32)
    write_model(tmp_path, of_table=wide)
    with pytest.raises(ModelError, match=r"8193 components, the limit is 8192; .*fewer dimensions"):
        load_model(tmp_path)
