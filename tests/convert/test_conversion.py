"""Conversion from folder to folder: files written, files read, and refusals."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.convert.tiny import (
    MAX_TOKENS,
    SHAPE,
    VOCABULARY,
    edit_json,
    random_weights,
    write_bert,
)
from tools.convert import conversion, convert
from tools.convert.bert import ConversionError
from tools.convert.manifest import Manifest
from tools.convert.source import locate
from tools.convert.verify import Check

ALL = {"model.onnx", "model_int8.onnx", "tokenizer.json", "rehydrate.json"}


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_model_lands_in_the_home_under_its_sources_name(bert, home):
    done = convert(bert)
    assert done.folder == home / "tiny"
    assert names(done.folder) == ALL
    assert names(home) == {"tiny"}
    assert done.warnings == ()


def test_the_manifest_says_what_the_folder_holds(bert, tmp_path):
    done = convert(bert, tmp_path / "out", name="small")
    manifest = Manifest.read(done.folder)
    assert manifest == done.manifest
    assert (manifest.name, manifest.dim, manifest.max_tokens) == ("small", SHAPE.hidden, MAX_TOKENS)
    assert (manifest.positions, manifest.pooling, manifest.normalize) == (40, "mean", True)
    assert manifest.precisions == ("fp32", "int8")
    for name, file in manifest.files.items():
        content = (done.folder / name).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
        assert file["bytes"] == len(content)
    weights = (bert / "model.safetensors").read_bytes()
    assert manifest.source["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    assert manifest.checks["fp32"]["cosine_min"] > 0.99999


def test_the_same_source_gives_the_same_bytes(bert, tmp_path):
    once, again = (convert(bert, tmp_path / name, name="x").folder for name in ("a", "b"))
    assert all((once / name).read_bytes() == (again / name).read_bytes() for name in ALL)


@pytest.mark.parametrize(("precision", "graph"), conversion.FILES.items())
def test_one_precision_writes_one_graph(bert, tmp_path, precision, graph):
    folder = convert(bert, tmp_path / "out", precisions=(precision,)).folder
    assert names(folder) == {graph, "tokenizer.json", "rehydrate.json"}


def test_progress_names_every_stage(bert, tmp_path):
    lines: list[str] = []
    convert(bert, tmp_path / "out", progress=lines.append)
    assert [line.split()[0] for line in lines] == [
        *("reading", "computing", "building", "building", "writing")
    ]


def test_the_tokenizer_cuts_at_max_tokens_and_pads_nothing(bert, tmp_path):
    padded = {"strategy": {"Fixed": 128}}
    first = json.loads((convert(bert, tmp_path / "a").folder / "tokenizer.json").read_bytes())
    (bert / "tokenizer.json").write_text(json.dumps({**first, "padding": padded}))
    again = json.loads((convert(bert, tmp_path / "b").folder / "tokenizer.json").read_bytes())
    assert again == first
    assert first["truncation"]["max_length"] == MAX_TOKENS
    assert first["padding"] is None
    assert first["model"]["vocab"] == {token: i for i, token in enumerate(VOCABULARY)}


def test_the_tokenizer_made_of_a_vocabulary_reads_as_bert_does(bert, tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="the peer is in the group `test`")
    file = convert(bert, tmp_path / "out").folder / "tokenizer.json"
    encoded = tokenizers.Tokenizer.from_file(str(file)).encode("The Login test fails, héré!")
    words = ["the", "lo", "##gin", "test", "fails", ",", "here", "!"]
    assert encoded.tokens == ["[CLS]", *words, "[SEP]"]
    assert len(tokenizers.Tokenizer.from_file(str(file)).encode("a " * 99).ids) == MAX_TOKENS


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"max_seq_length": 12}, 12),
        ({"max_seq_length": 4_000}, SHAPE.positions),
        ({"max_seq_length": None}, SHAPE.positions),
    ],
)
def test_the_length_is_the_models_within_its_positions(bert, tmp_path, changed, expected):
    edit_json(bert / "sentence_bert_config.json", **changed)
    assert convert(bert, tmp_path / "out").manifest.max_tokens == expected


def test_pooling_is_read_as_newer_files_spell_it(bert, tmp_path):
    pooling = {"embedding_dimension": SHAPE.hidden, "pooling_mode": "cls"}
    (bert / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert convert(bert, tmp_path / "out").manifest.pooling == "cls"


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_weights_of_other_widths_are_read_as_they_are(bert, tmp_path, dtype):
    narrow = {name: weight.astype(dtype) for name, weight in random_weights().items()}
    save_as(bert, narrow)
    first = convert(bert, tmp_path / "a").folder / "model.onnx"
    save_as(bert, {name: weight.astype(np.float32) for name, weight in narrow.items()})
    assert (convert(bert, tmp_path / "b").folder / "model.onnx").read_bytes() == first.read_bytes()


def save_as(folder: Path, weights: dict[str, np.ndarray]) -> None:
    """Written by hand: safetensors' numpy side does not know bfloat16."""
    names = {"float16": "F16", "float32": "F32", "float64": "F64", "bfloat16": "BF16"}
    header, data = {}, b""
    for name, weight in weights.items():
        offsets = [len(data), len(data) + weight.nbytes]
        kind = names[str(weight.dtype)]
        header[name] = {"dtype": kind, "shape": weight.shape, "data_offsets": offsets}
        data += weight.tobytes()
    encoded = json.dumps(header).encode()
    length = len(encoded).to_bytes(8, "little")
    (folder / "model.safetensors").write_bytes(length + encoded + data)


def test_a_prefix_and_a_pooler_in_the_weights_do_no_harm(bert, tmp_path):
    first = convert(bert, tmp_path / "a").folder / "model.onnx"
    weights = {f"bert.{name}": weight for name, weight in random_weights().items()}
    weights["bert.pooler.dense.weight"] = np.ones((2, 2), np.float32)
    save_file(weights, bert / "model.safetensors")
    assert (convert(bert, tmp_path / "b").folder / "model.onnx").read_bytes() == first.read_bytes()


def test_a_package_is_found_by_its_name_without_running_it(tmp_path, monkeypatch):
    write_bert(tmp_path / "site" / "my_tiny_bert" / "model")
    (tmp_path / "site" / "my_tiny_bert" / "__init__.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = locate("my-tiny-bert")
    assert found.name == "my-tiny-bert"
    assert found.folder == tmp_path / "site" / "my_tiny_bert" / "model"
    assert locate(tmp_path / "site" / "my_tiny_bert").name == "my_tiny_bert"


def without(name: str, folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[name]
    save_file(weights, folder / "model.safetensors")


def with_weight(name: str, values: np.ndarray, folder: Path) -> None:
    weights = {**load_file(folder / "model.safetensors"), name: values}
    save_file(weights, folder / "model.safetensors")


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def with_module(kind: str, folder: Path) -> None:
    file = folder / "modules.json"
    modules = [*json.loads(file.read_bytes()), {"path": "3_X", "type": f"st.models.{kind}"}]
    file.write_text(json.dumps(modules))


def with_tokenizer(content: object, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(content))


QUERY = "encoder.layer.1.attention.self.query.weight"
REFUSED = {
    "another architecture": (
        lambda folder: edit_json(folder / "config.json", model_type="roberta"),
        ("config.json", "model_type is 'roberta'", "'bert'", "choose"),
    ),
    "another activation": (
        lambda folder: edit_json(folder / "config.json", hidden_act="relu"),
        ("hidden_act is 'relu'", "'gelu'"),
    ),
    "relative positions": (
        lambda folder: edit_json(folder / "config.json", position_embedding_type="relative_key"),
        ("position_embedding_type is 'relative_key'", "'absolute'"),
    ),
    "a size that isn't a number": (
        lambda folder: edit_json(folder / "config.json", num_hidden_layers="2"),
        ("num_hidden_layers is '2'", "positive integer"),
    ),
    "heads that do not divide": (
        lambda folder: edit_json(folder / "config.json", num_attention_heads=5),
        ("32", "5 heads"),
    ),
    "an epsilon of zero": (
        lambda folder: edit_json(folder / "config.json", layer_norm_eps=0),
        ("layer_norm_eps is 0",),
    ),
    "a config that isn't JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        ("config.json", "JSON"),
    ),
    "a config that is a list": (
        lambda folder: (folder / "config.json").write_text("[]"),
        ("holds a list",),
    ),
    "no modules.json": (
        lambda folder: (folder / "modules.json").unlink(),
        ("modules.json", "no such file", "sentence-transformers"),
    ),
    "a modules.json of another shape": (
        lambda folder: (folder / "modules.json").write_text('[{"kind": 1}]'),
        ("modules.json", "cannot be read"),
    ),
    "a dense layer after": (
        lambda folder: with_module("Dense", folder),
        ("module 'Dense' is not built", "Transformer, Pooling, Normalize"),
    ),
    "max pooling": (
        lambda folder: edit_json(
            folder / "1_Pooling" / "config.json",
            pooling_mode_mean_tokens=False,
            pooling_mode_max_tokens=True,
        ),
        ("pooling is max", "mean or cls"),
    ),
    "two poolings side by side": (
        lambda folder: edit_json(folder / "1_Pooling" / "config.json", pooling_mode_cls_token=True),
        ("pooling is cls + mean",),
    ),
    "a pooling of other dimensions": (
        lambda folder: edit_json(folder / "1_Pooling" / "config.json", word_embedding_dimension=9),
        ("pools 9 dimensions", "32"),
    ),
    "a missing tensor": (lambda folder: without(QUERY, folder), (QUERY, "missing")),
    "a tensor of another shape": (
        lambda folder: with_weight(QUERY, np.ones((32, 16), np.float32), folder),
        (QUERY, "32 x 16", "32 x 32"),
    ),
    "a tensor of integers": (
        lambda folder: with_weight(QUERY, np.ones((32, 32), np.int8), folder),
        (QUERY, "I8", "F32"),
    ),
    "a tensor with NaN": (
        lambda folder: with_weight(QUERY, np.full((32, 32), np.nan, np.float32), folder),
        (QUERY, "NaN"),
    ),
    "weights in a pickle": (pickled, ("pytorch_model.bin", "pickle", "safe_serialization")),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), ("no such file",)),
    "damaged weights": (cut, ("model.safetensors", "is damaged", "get the file again")),
    "no vocabulary": (
        lambda folder: (folder / "vocab.txt").unlink(),
        ("vocab.txt", "nor tokenizer.json"),
    ),
    "another tokenizer": (
        lambda folder: with_tokenizer({"model": {"type": "BPE", "vocab": {}}}, folder),
        ("'BPE'", "'WordPiece'"),
    ),
    "a tokenizer without a model": (
        lambda folder: with_tokenizer({}, folder),
        ("None", "'WordPiece'"),
    ),
    "a tokenizer without a vocabulary": (
        lambda folder: with_tokenizer({"model": {"vocab": ["[CLS]"]}}, folder),
        ("isn't a map of ids",),
    ),
    "a tokenizer without [CLS]": (
        lambda folder: with_tokenizer({"model": {"vocab": {"[UNK]": 0}}}, folder),
        ("'[CLS]' is missing",),
    ),
    "a tokenizer of a larger model": (
        lambda folder: (folder / "vocab.txt").write_text("\n".join([*VOCABULARY, *"äöüßéèêç"])),
        ("token id", "beyond the model's 82"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_understood_is_refused_by_name_and_leaves_nothing(bert, tmp_path, case):
    spoil, parts = REFUSED[case]
    spoil(bert)
    with pytest.raises(ConversionError) as caught:
        convert(bert, tmp_path / "out" / "model")
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.remedy
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("no/such/folder", "no folder and no installed package"),
        ("json", "an installed package without a model"),
        ("nameless", "no folder and no installed package"),
        ("empty", "holds no config.json"),
        ("model.whl", "python -m zipfile -e"),
    ],
)
def test_what_is_no_model_is_said_so(tmp_path, monkeypatch, source, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "nameless", ModuleType("nameless"))  # without a spec
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.whl").write_bytes(b"PK")
    with pytest.raises(ConversionError, match=problem):
        convert(source)


@pytest.mark.parametrize("name", ["../up", "", ".hidden", "a/b", "x" * 101, "with space"])
def test_a_name_cannot_lead_out_of_the_home(bert, home, name):
    bert = bert.rename(bert.with_name("un named"))
    with pytest.raises(ValueError, match="model name"):
        convert(bert, name=name)
    assert not home.exists()


def test_a_model_is_replaced_only_on_request(bert, tmp_path):
    folder = convert(bert, tmp_path / "out", precisions=("fp32",)).folder
    with pytest.raises(ConversionError, match="is there already; pass --force"):
        convert(bert, tmp_path / "out")
    assert "model_int8.onnx" not in names(folder)
    convert(bert, tmp_path / "out", overwrite=True)
    assert names(folder) == ALL
    assert names(tmp_path) == {"out", "tiny"}


def test_a_folder_of_other_things_is_never_replaced(bert, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConversionError, match="holds other things than a model"):
        convert(bert, tmp_path / "out", overwrite=True)
    assert names(tmp_path / "out") == {"thesis.txt"}


def test_an_empty_folder_may_be_filled(bert, tmp_path):
    (tmp_path / "out").mkdir()
    assert names(convert(bert, tmp_path / "out").folder) == ALL


def test_a_file_in_the_way_is_named(bert, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ConversionError, match="isn't a folder"):
        convert(bert, tmp_path / "out", overwrite=True)
    with pytest.raises(ConversionError, match="cannot be written"):
        convert(bert, tmp_path / "out" / "below")


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ConversionError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_write_that_fails_leaves_what_was_there(bert, tmp_path, monkeypatch, failure, raised):
    folder = convert(bert, tmp_path / "out", precisions=("fp32",)).folder
    before = {name: (folder / name).read_bytes() for name in names(folder)}

    def fail(_descriptor: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised):
        convert(bert, tmp_path / "out", overwrite=True)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == before
    assert names(tmp_path) == {"out", "tiny"}


def test_the_old_model_comes_back_when_the_new_one_cannot_take_its_place(
    bert, tmp_path, monkeypatch
):
    folder = convert(bert, tmp_path / "out", precisions=("fp32",)).folder
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".new"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ConversionError, match="cannot be written: Permission denied"):
        convert(bert, tmp_path / "out", overwrite=True)
    assert "model.onnx" in names(folder)
    assert names(tmp_path) == {"out", "tiny"}


def test_a_graph_that_is_another_model_is_never_written(bert, tmp_path, monkeypatch):
    build = conversion._build

    def wrong(model, precision, folder):
        return build(model._replace(pooling="cls"), precision, folder)

    monkeypatch.setattr(conversion, "_build", wrong)
    with pytest.raises(ConversionError, match=r"fp32 graph has cosine -?0\.\d+ .* 0.99999"):
        convert(bert, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("precision", conversion.FILES)
def test_a_graph_of_nan_is_never_written(bert, tmp_path, monkeypatch, precision):
    nan = float("nan")
    monkeypatch.setattr(conversion, "compare", lambda *_: Check(nan, nan))
    with pytest.raises(ConversionError, match="cosine nan"):
        convert(bert, tmp_path / "out", precisions=(precision,))


def test_an_int8_graph_far_from_the_model_is_written_with_a_warning(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "INT8_COSINE", 1.0)
    (warning,) = convert(bert, tmp_path / "out").warnings
    assert warning.startswith("int8 has cosine 0.9")
    assert names(tmp_path / "out") == ALL


def test_weights_beyond_what_an_onnx_file_holds_are_refused_in_fp32(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "LARGEST_BYTES", 1_000)
    with pytest.raises(ConversionError, match="--precision int8"):
        convert(bert, tmp_path / "out")
    assert names(convert(bert, tmp_path / "out", precisions=("int8",)).folder) == {
        *("model_int8.onnx", "tokenizer.json", "rehydrate.json")
    }


def test_a_missing_extra_is_named_before_anything_is_done(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "find_spec", lambda name: None if name == "onnx" else name)
    with pytest.raises(ConversionError, match=r"needs onnx; .*--group convert"):
        convert(bert, tmp_path / "out")
