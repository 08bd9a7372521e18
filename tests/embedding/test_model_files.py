"""Where models are, and reading a model folder: graph, length, pooling, and what is damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rehydrate.embedding import installed_models
from rehydrate.embedding.model_files import find_model, models_home, read_model_files
from rehydrate.errors import InvalidArgumentError, ModelError


def put(folder: Path, **files: object) -> Path:
    for name, content in ({"tokenizer.json": "{}"} | files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_int8_is_taken_where_it_is_and_fp32_where_it_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path, **{"model.onnx": "g"})
    assert read_model_files(tmp_path, "int8", None).precision == "fp32"
    put(tmp_path, **{"model_int8.onnx": "g"})
    quantised = read_model_files(tmp_path, "int8", None)
    assert (quantised.graph.name, quantised.precision) == ("model_int8.onnx", "int8")
    assert quantised.quantised_at_run_time
    assert read_model_files(tmp_path, "fp32", None).graph.name == "model.onnx"


def test_a_graph_that_quantises_at_run_time_is_known_by_its_operators(tmp_path: Path) -> None:
    put(tmp_path, **{"model.onnx": "g"})
    assert not read_model_files(tmp_path, "int8", None).quantised_at_run_time
    put(tmp_path, **{"model.onnx": "g DynamicQuantizeLinear g"})
    assert read_model_files(tmp_path, "int8", None).quantised_at_run_time


def test_graphs_in_the_layout_of_sentence_transformers_are_found(tmp_path: Path) -> None:
    put(tmp_path, **{"onnx/model.onnx": "g"})
    assert read_model_files(tmp_path, "int8", None).graph == tmp_path / "onnx/model.onnx"


def test_the_length_is_what_the_model_was_made_for(tmp_path: Path) -> None:
    put(tmp_path, **{"model.onnx": "g"})
    assert read_model_files(tmp_path, "int8", None).max_tokens == 256
    put(tmp_path, **{"sentence_bert_config.json": {"max_seq_length": 8192}})
    assert read_model_files(tmp_path, "int8", None).max_tokens == 512
    put(tmp_path, **{"rehydrate.json": {"max_tokens": 128, "positions": 300}})
    assert read_model_files(tmp_path, "int8", None).max_tokens == 128
    assert read_model_files(tmp_path, "int8", 300).max_tokens == 300
    with pytest.raises(InvalidArgumentError, match=r"max_tokens is 301, .* takes 300"):
        read_model_files(tmp_path, "int8", 301)


def test_pooling_is_what_the_folder_says(tmp_path: Path) -> None:
    put(tmp_path, **{"model.onnx": "g"})
    assert not read_model_files(tmp_path, "int8", None).first_token
    put(tmp_path, **{"1_Pooling/config.json": {"pooling_mode_cls_token": True}})
    assert read_model_files(tmp_path, "int8", None).first_token
    put(tmp_path, **{"rehydrate.json": {"pooling": "mean"}})
    assert not read_model_files(tmp_path, "int8", None).first_token


def test_files_that_are_not_what_the_manifest_says_are_refused(tmp_path: Path) -> None:
    good = hashlib.sha256(b"graph").hexdigest()
    manifest = {"files": {"model.onnx": {"sha256": good}}}
    put(tmp_path, **{"model.onnx": "graph", "rehydrate.json": manifest})
    read_model_files(tmp_path, "int8", None)
    put(tmp_path, **{"model.onnx": "grapj"})
    with pytest.raises(ModelError, match=r"model.onnx: is damaged: its sha256 is"):
        read_model_files(tmp_path, "int8", None)


@pytest.mark.parametrize("content", ["{", "[]", "\x00", "[" * 100_000])
@pytest.mark.parametrize("name", ["rehydrate.json", "sentence_bert_config.json"])
def test_broken_settings_are_refused(tmp_path: Path, name: str, content: str) -> None:
    put(tmp_path, **{"model.onnx": "g", name: content})
    with pytest.raises(ModelError, match=name):
        read_model_files(tmp_path, "int8", None)


def test_settings_of_strange_types_count_for_nothing(tmp_path: Path) -> None:
    strange = {"max_tokens": "many", "files": [1], "positions": None, "pooling": 7}
    put(tmp_path, **{"model.onnx": "g", "rehydrate.json": strange})
    files = read_model_files(tmp_path, "int8", None)
    assert (files.max_tokens, files.first_token) == (256, False)


def test_weights_next_to_the_graph_are_part_of_what_names_the_space(tmp_path: Path) -> None:
    # After new training the graph has the same bytes, and only the file that it names differs.
    put(tmp_path, **{"model.onnx": "graph at model.onnx_data", "notes.txt": "x"})
    put(tmp_path, **{"model.onnx_data": "weights"})
    before = read_model_files(tmp_path, "int8", None).digest
    put(tmp_path, **{"notes.txt": "y", "vocab.txt": "z"})
    assert read_model_files(tmp_path, "int8", None).digest == before
    put(tmp_path, **{"model.onnx_data": "others!"})
    assert read_model_files(tmp_path, "int8", None).digest != before


def test_the_home_is_the_users_own_and_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert models_home({}) == tmp_path / ".cache" / "rehydrate" / "models"
    assert models_home({"REHYDRATE_HOME": "~/r"}) == tmp_path / "r" / "models"
    assert models_home({"REHYDRATE_HOME": "", "XDG_CACHE_HOME": ""}) == models_home({})


def test_a_folder_is_a_model_where_it_has_a_manifest(tmp_path):
    environ = {"REHYDRATE_HOME": str(tmp_path)}
    for name in ("b", "a", ".half.new", "empty"):
        model_folder_of = tmp_path / "models" / name
        model_folder_of.mkdir(parents=True)
        if name != "empty":
            (model_folder_of / "rehydrate.json").write_text("{}")
    assert [folder.name for folder in installed_models(environ)] == ["a", "b"]
    assert find_model("a", environ) == tmp_path / "models" / "a"
    assert find_model("empty", environ) is None
    assert find_model("../models/a", environ) is None
