"""Locations of models, and valid manifests."""

from __future__ import annotations

import json

import pytest

from rehydrate.embedding import installed_models
from rehydrate.embedding.model_files import Manifest, find_model, model_folder, models_home
from rehydrate.errors import InvalidArgumentError


def manifest(**changes):
    content = {
        "name": "x",
        "dim": 3,
        "max_tokens": 8,
        "positions": 8,
        "pooling": "mean",
        "normalize": True,
        "precisions": ["fp32"],
        "opset": 20,
        "files": {"model.onnx": {"bytes": 5}, "tokenizer.json": {"bytes": 2}},
        "source": {},
        "checks": {},
        "converter": "rehydrate",
        "format": 1,
    }
    return json.dumps({**content, **changes})


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
            (model_folder_of / "rehydrate.json").write_text(manifest())
    assert [folder.name for folder in installed_models(environ)] == ["a", "b"]
    assert find_model("a", environ) == model_folder("a", environ)
    assert find_model("empty", environ) is None
    assert find_model("../models/a", environ) is None


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    (tmp_path / "rehydrate.json").write_text(manifest())
    read = Manifest.read(tmp_path)
    (tmp_path / "rehydrate.json").write_bytes(read.to_json())
    assert Manifest.read(tmp_path) == read
    assert read.file_bytes == 7


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (manifest(surprise=1), "surprise"),
        (manifest(format=2), "has format 2, this version reads 1"),
        (None, "No such file"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_how_to_make_a_new_one(tmp_path, content, part):
    if content is not None:
        (tmp_path / "rehydrate.json").write_text(content)
    with pytest.raises(InvalidArgumentError, match=part) as caught:
        Manifest.read(tmp_path)
    assert "python -m tools.convert" in str(caught.value)
