"""Manifests of converted models, valid and damaged."""

from __future__ import annotations

import json

import pytest

from rehydrate.errors import InvalidArgumentError
from tools.convert.manifest import Manifest


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
